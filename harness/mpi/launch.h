/* What the launcher's environment says about this launch (case E01), apart from MPI, so that it can
 * be tested without ranks. */
#ifndef K3_MPI_LAUNCH_H
#define K3_MPI_LAUNCH_H

#include <stdbool.h>

#include "harness/base/status.h"

typedef struct k3_launch {
    const char *launcher; /* "mpirun", "srun", "singleton" */
    const char *variable; /* which variable named the number of ranks; NULL: none */
    const char *text;     /* its value */
} k3_launch_t;

/* Reads the environment; before MPI_Init, which may set variables of its own. */
void k3_launch_read(k3_launch_t *launch);

/* K3_ERR_ENV naming both values when the launcher meant another number of ranks than MPI sees. */
k3_status_t k3_launch_check(const k3_launch_t *launch, int size, k3_error_t *err);

/* Without a world only the launcher's variables tell the ranks apart: true for its rank 0, and where there is none. */
bool k3_launch_first(void);

#endif
