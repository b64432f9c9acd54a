/* The cells of a launch as they come, and the record of what there is when the launch is ended in the
 * middle: finished cells as they are, the running one failed with the reason, the rest skipped. Rank 0
 * only. */
#ifndef K3_COMMANDS_PARTIAL_H
#define K3_COMMANDS_PARTIAL_H

#include <jansson.h>

#include "bench/commands/launch.h"
#include "bench/plan/requests.h"

typedef struct k3_partial {
    const k3_requests_t     *requests;
    uint64_t                 rotate; /* cells that are executed after all others */
    const k3_launch_parts_t *launch;
    const char              *path; /* "" and "-": nothing is left in the middle */
} k3_partial_t;

/* Starts a launch: no cell is done. What *partial points to must live until k3_partial_end. */
void k3_partial_begin(const k3_partial_t *partial);

/* The next cell has come to be executed, as planned (stolen); NULL: not yet resolved. */
void k3_partial_running(json_t *planned);

/* It is done (stolen). */
void k3_partial_done(json_t *cell);

/* The cells in the order in which they were asked for, borrowed. No partial record is left after this. */
json_t *k3_partial_complete(void);

/* For the watchdog, on its thread: writes the record. */
void k3_partial_leave(void *unused, const char *reason);

void k3_partial_end(void);

#endif
