/* Executes the open launches of a sweep: starts, limits, ends, reads back, keeps the journal. */
#ifndef K3_SWEEP_EXECUTE_H
#define K3_SWEEP_EXECUTE_H

#include <stdio.h>

#include "bench/sweep/folder.h"
#include "bench/sweep/hosts.h"
#include "bench/sweep/schedule.h"
#include "bench/sweep/variants.h"

enum { K3_JOBS_MAX = 256 };

typedef struct k3_sweep {
    const k3_sweep_source_t *source;
    const char              *program; /* k3bench itself */
    k3_hosts_t              *hosts;
    k3_folder_t             *folder;
    k3_schedule_t           *schedule;
    uint64_t                 jobs;
    double                   limit;      /* seconds of a launch; NAN: by what it should take */
    double                   budget;     /* seconds; INFINITY: none */
    const char              *carried_by; /* NULL: anything may carry */
    FILE                    *progress;   /* a line for each launch; NULL: none */
} k3_sweep_t;

typedef struct k3_sweep_result {
    size_t adopted; /* launches that were done before, but not noted */
    size_t aside;   /* records of launches that are no longer asked for */
    bool   out_of_budget;
} k3_sweep_result_t;

/* K3_ERR_IO: the disk is full or broken; K3_ERR_ENV: the launcher does not exist, or a signal came. In all
 * cases no launch is left running, and the same sweep can go on later. */
k3_status_t k3_sweep_execute(k3_sweep_t *sweep, k3_sweep_result_t *result, k3_error_t *err);

/* The words of one launch, for people: what would be typed. Free it. */
char *k3_sweep_command(const k3_sweep_t *sweep, const k3_variant_t *variant, k3_error_t *err);

#endif
