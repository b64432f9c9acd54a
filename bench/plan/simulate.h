/* A discrete-event check of the closed form: the messages of a phase leave each rank one after another, share
 * its link or NIC, and queue at their receivers. Shows what the closed form does not: who waits behind whom
 * when several ranks send to one (incast), and ranks that have more than others (skew). Where ranks share
 * cores, each core goes round its ranks. */
#ifndef K3_PLAN_SIMULATE_H
#define K3_PLAN_SIMULATE_H

#include "bench/plan/machine.h"
#include "bench/plan/traffic.h"

enum { K3_SIMULATED_RANKS = 512 };

typedef struct k3_simulated_phase {
    double   us;           /* until the last rank has everything, latency and fixed cost included */
    double   mean_us;      /* over ranks */
    uint32_t slowest_rank; /* the receiver that is last */
    double   queued_us;    /* the longest that a piece waited for its receiver's link */
} k3_simulated_phase_t;

typedef struct k3_simulation {
    bool                 fused; /* the backend does all at once: `moe`, else the other two */
    k3_simulated_phase_t dispatch, combine, moe;
} k3_simulation_t;

/* K3_ERR_UNSUPPORTED where counts are expected, nothing is dispatched, or there are more than K3_SIMULATED_RANKS
 * ranks. */
k3_status_t k3_simulate(const k3_cell_t *cell, const k3_machine_file_t *machine,
                        k3_simulation_t *simulation, k3_error_t *err);

#endif
