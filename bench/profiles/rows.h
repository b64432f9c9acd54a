/* The rows of the registry, one table per family; only registry.c reads them. */
#ifndef K3_PROFILES_ROWS_H
#define K3_PROFILES_ROWS_H

#include "bench/profiles/profile.h"

typedef struct k3_rows {
    const k3_profile_t *row;
    unsigned            count;
} k3_rows_t;

extern const k3_rows_t k3_rows_slab, k3_rows_ranks, k3_rows_rails, k3_rows_fused, k3_rows_base;

#define K3_ROW_COUNT(table) ((unsigned)(sizeof(table) / sizeof((table)[0])))

/* Format masks. */
#define K3_BF16_ONLY  K3_BIT(K3_FORMAT_BF16)
#define K3_BF16_FP8   (K3_BIT(K3_FORMAT_BF16) | K3_BIT(K3_FORMAT_FP8))
#define K3_ALL_FLOATS (K3_BF16_FP8 | K3_BIT(K3_FORMAT_MXFP8) | K3_BIT(K3_FORMAT_MXFP4))

/* What every row lifts in generation k3. */
#define K3_LIFTS (K3_LIFT_TOPK | K3_LIFT_WIDTHS)

#endif
