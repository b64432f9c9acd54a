/* A set of launches of one machine: its cells as one side, and which launches they are. How many ranks and nodes a launch
 * takes of the machine is a matter of its layout, and each cell is held against launches that have as many. */
#ifndef K3_REPORT_LAUNCHES_H
#define K3_REPORT_LAUNCHES_H

#include <jansson.h>

#include "harness/base/status.h"

typedef struct k3_launches {
    json_t *list;     /* [{run, started, git_sha, machine}] in order of start */
    json_t *side;     /* k3_side_add */
    json_t *machines; /* fingerprint key -> stable facts: one for each number of ranks and nodes */
    char    last[24]; /* start of the last launch */
} k3_launches_t;

k3_status_t k3_launches_open(k3_launches_t *l, k3_error_t *err);
void        k3_launches_close(k3_launches_t *l);

/* `path` for messages. K3_ERR_USAGE for a launch of another machine. */
k3_status_t k3_launches_add(k3_launches_t *l, const char *path, const json_t *facts,
                            k3_error_t *err);

#endif
