/* Whether a record is that of the launch that was asked for: what ran is not what was typed when an old program,
 * a variable of a remote host or a missing device stands in between. */
#ifndef K3_SWEEP_READBACK_H
#define K3_SWEEP_READBACK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/sweep/variants.h"

typedef struct k3_asked {
    const k3_sweep_source_t *source;
    const k3_variant_t      *variant;
    const char              *rotate, *out; /* words of this launch; out NULL: not known any more */
    const char              *carried_by;   /* allowed transports; NULL: any */
    const char *carried; /* of the variant's launches before; NULL: this is the first */
} k3_asked_t;

typedef struct k3_readback {
    bool  wrong;   /* a cell failed, or its check */
    char *carried; /* its transports, "mapped, self, tcp/eth0"; free it */
} k3_readback_t;

/* K3_ERR_IO: it cannot be read, or is no whole record; K3_ERR_CHECK: it is of something else, with both
 * values. On failure nothing is left to free. */
k3_status_t k3_readback(const char *path, const k3_asked_t *asked, k3_readback_t *back,
                        k3_error_t *err);

/* The name that stands in run.version and run.git_sha. */
void k3_readback_build(const json_t *record, char *text, size_t room);

#endif
