/* Between the loop that starts and ends launches (execute.c) and what is made of an ended one (finish.c). */
#ifndef K3_SWEEP_EXECUTE_INTERNAL_H
#define K3_SWEEP_EXECUTE_INTERNAL_H

#include <signal.h>

#include "bench/sweep/execute.h"
#include "bench/sweep/process.h"

typedef enum job_stage { JOB_IDLE, JOB_RUNNING, JOB_ENDING } job_stage_t;

/* One launch at a time. */
typedef struct job {
    int               number;
    job_stage_t       stage;
    k3_launch_item_t *item;
    k3_process_t      process;
    uint64_t          attempt;
    double            begun, deadline, seconds;
    bool              late;
    char              rotate[32], out[PATH_MAX], hostfile[PATH_MAX];
} job_t;

typedef struct state {
    k3_sweep_t        *sweep;
    k3_sweep_result_t *result;
    job_t             *jobs;
    char             **carried; /* [variants]: transports of the launches that are done */
    size_t             next;    /* item of the schedule */
    double             begun;
    sigset_t           signals;
    bool               stopping; /* nothing more is started */
    bool               broken;   /* nothing more is noted */
} state_t;

/* Before the first start: sets records aside that are no longer asked for, and takes those that were finished
 * but not noted. */
k3_status_t k3_resume(state_t *s, k3_error_t *err);

/* The job's process has ended: reads its record back, notes what became of it. The job is idle after it. */
k3_status_t k3_job_finish(state_t *s, job_t *job, int status, k3_error_t *err);

#endif
