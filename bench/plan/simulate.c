#include "bench/plan/simulate.h"

#include <stdlib.h>
#include <string.h>

#include "bench/plan/simulate_internal.h"
#include "harness/base/memory.h"

/* Bytes of a piece; a lane has at most so many pieces. */
enum { PIECE = 32768, PIECES_MAX = 64, LINKS = 2 };

typedef enum link { NEAR, FAR } link_t;

typedef k3_transfer_t transfer_t;

typedef struct arrival {
    double   at; /* the last byte has left */
    double   bytes;
    uint32_t dst, order; /* order: of equal times the first sent comes first */
    link_t   link;
} arrival_t;

typedef struct simulator {
    const k3_cell_t *cell;
    uint32_t         ranks;
    transfer_t      *transfer; /* [R][R] */
    arrival_t       *arrivals;
    uint64_t         count, capacity;
    double          *done;      /* [R] */
    double          *busy;      /* [R][LINKS] of receivers */
    double          *pair_free; /* [R] of the links of a mesh, of one sender */
    double           rate[LINKS], post_us[LINKS];
    bool             mesh; /* each pair of a node has a link of its own, at rate[NEAR] */
} simulator_t;

static link_t link_of(const simulator_t *s, uint32_t src, uint32_t dst)
{
    return k3_cell_mapped(s->cell, src, dst) ? NEAR : FAR;
}

static uint32_t pieces_of(const transfer_t *t)
{
    double pieces = t->bytes / PIECE + 1;

    if (t->posts <= 0) {
        return 0;
    }
    return pieces < PIECES_MAX ? (uint32_t)pieces : PIECES_MAX;
}

/* --- events ------------------------------------------------------------------------------------ */

static void add_arrival(simulator_t *s, uint32_t dst, link_t link, double at, double bytes)
{
    if (s->count < s->capacity) {
        s->arrivals[s->count] = (arrival_t){at, bytes, dst, (uint32_t)s->count, link};
        s->count++;
    }
}

/* A rank goes round its peers, a piece for each, beginning behind itself. */
static void send_all(simulator_t *s, uint32_t src)
{
    double issued = 0, free_at[LINKS] = {0};

    memset(s->pair_free, 0, s->ranks * sizeof(*s->pair_free));
    for (uint32_t round = 0; round < PIECES_MAX; round++) {
        for (uint32_t step = 1; step < s->ranks; step++) {
            uint32_t          dst = (src + step) % s->ranks;
            const transfer_t *t = &s->transfer[(uint64_t)src * s->ranks + dst];
            uint32_t          pieces = pieces_of(t);
            link_t            link = link_of(s, src, dst);

            if (round >= pieces) {
                continue;
            }
            double *leaves = s->mesh && link == NEAR ? &s->pair_free[dst] : &free_at[link];

            issued += t->posts / pieces * s->post_us[link];
            *leaves = *leaves > issued ? *leaves : issued;
            *leaves += t->bytes / pieces / s->rate[link] * 1e-3;
            add_arrival(s, dst, link, *leaves, t->bytes / pieces);
        }
    }
    s->done[src] = issued;
}

static int compare_arrivals(const void *a, const void *b)
{
    const arrival_t *x = a, *y = b;

    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    return x->order < y->order ? -1 : 1;
}

/* What goes on beside the links is the closed form's. */
static double beside_links(const k3_prediction_phase_t *p)
{
    const double beside[] = {p->term[K3_TERM_QP], p->term[K3_TERM_MEMORY], p->term[K3_TERM_WEIGHTS],
                             p->term[K3_TERM_GEMM] + p->term[K3_TERM_UNPACK]};
    double       most = 0;

    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
        most = beside[i] > most ? beside[i] : most;
    }
    return most;
}

/* Pieces enter a receiver's link one after another; one that finds it free has come in while it left. */
static void receive_all(simulator_t *s, const k3_prediction_phase_t *p, k3_simulated_phase_t *out)
{
    double beside = beside_links(p);

    qsort(s->arrivals, s->count, sizeof(*s->arrivals), compare_arrivals);
    for (uint64_t i = 0; i < s->count; i++) {
        const arrival_t *a = &s->arrivals[i];
        double          *busy = &s->busy[(uint64_t)a->dst * LINKS + a->link];
        double           time = a->bytes / s->rate[a->link] * 1e-3, queued = *busy - (a->at - time);

        if (s->mesh && a->link == NEAR) {
            *busy = a->at > *busy ? a->at : *busy;
        } else if (queued > 0) {
            out->queued_us = queued > out->queued_us ? queued : out->queued_us;
            *busy += time;
        } else {
            *busy = a->at;
        }
        s->done[a->dst] = *busy > s->done[a->dst] ? *busy : s->done[a->dst];
    }
    for (uint32_t r = 0; r < s->ranks; r++) {
        double us = s->done[r] > beside ? s->done[r] : beside;

        us += p->term[K3_TERM_FIXED] + p->term[K3_TERM_LATENCY];

        out->mean_us += us / s->ranks;
        if (us > out->us) {
            out->us = us;
            out->slowest_rank = r;
        }
    }
}

/* --- a phase ----------------------------------------------------------------------------------- */

static k3_status_t run_phase(simulator_t *s, unsigned phases, const k3_prediction_phase_t *p,
                             k3_simulated_phase_t *out, k3_error_t *err)
{
    uint64_t pairs = (uint64_t)s->ranks * s->ranks;

    s->count = s->capacity = 0;
    memset(s->done, 0, s->ranks * sizeof(*s->done));
    memset(s->busy, 0, s->ranks * LINKS * sizeof(*s->busy));
    if (k3_simulate_transfers(s->cell, phases, s->transfer, err) != K3_OK) {
        return err->status;
    }
    for (uint64_t i = 0; i < pairs; i++) {
        s->capacity += pieces_of(&s->transfer[i]);
    }
    if (k3_alloc("pieces", s->capacity, sizeof(arrival_t), (void **)&s->arrivals, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t src = 0; src < s->ranks; src++) {
        send_all(s, src);
    }
    receive_all(s, p, out);
    k3_free(s->arrivals);
    s->arrivals = NULL;
    return K3_OK;
}

static k3_status_t run_all(simulator_t *s, const k3_prediction_t *p, k3_simulation_t *out,
                           k3_error_t *err)
{
    const unsigned there = 1u << K3_TRAFFIC_NOTIFY | 1u << K3_TRAFFIC_DISPATCH;
    const unsigned back = 1u << K3_TRAFFIC_COMBINE;

    if (out->fused) {
        return run_phase(s, there | back, &p->phase[K3_PREDICT_MOE], &out->moe, err);
    }
    if (run_phase(s, there, &p->phase[K3_PREDICT_DISPATCH], &out->dispatch, err) == K3_OK) {
        run_phase(s, back, &p->phase[K3_PREDICT_COMBINE], &out->combine, err);
    }
    return err->status;
}

static k3_status_t refuse(const k3_cell_t *cell, k3_error_t *err)
{
    if (cell->expected) {
        return k3_fail(err, K3_ERR_UNSUPPORTED, "simulate: it needs every row: --counting exact");
    }
    if (cell->layout.tp > K3_SIMULATED_RANKS) {
        return k3_fail(err, K3_ERR_UNSUPPORTED, "simulate: %u ranks; at most %d", cell->layout.tp,
                       K3_SIMULATED_RANKS);
    }
    if (cell->profile->copy == K3_COPY_NONE || cell->profile->copy == K3_COPY_REPLICATE) {
        return k3_fail(err, K3_ERR_UNSUPPORTED, "simulate: %s has no dispatch",
                       cell->profile->name);
    }
    return K3_OK;
}

static void set_links(simulator_t *s, const k3_machine_file_t *machine)
{
    double links = k3_predict_figure(machine, K3_FIG_SCALEUP_LINKS);

    s->mesh = links > 0;
    s->rate[NEAR] = k3_predict_figure(machine, K3_FIG_SCALEUP_GBPS) *
                    k3_predict_figure(machine, K3_FIG_SCALEUP_SHARE) / (s->mesh ? links : 1);
    s->rate[FAR] =
        k3_predict_figure(machine, K3_FIG_NIC_GBPS) * k3_predict_figure(machine, K3_FIG_NIC_SHARE);
    s->post_us[NEAR] = k3_predict_figure(machine, K3_FIG_STORE_MESSAGE_US);
    s->post_us[FAR] = k3_predict_figure(machine, K3_FIG_MESSAGE_US);
}

static k3_status_t simulate_links(const k3_cell_t *cell, const k3_machine_file_t *machine,
                                  const k3_prediction_t *p, k3_simulation_t *out, k3_error_t *err)
{
    simulator_t s = {.cell = cell, .ranks = cell->layout.tp};

    set_links(&s, machine);
    if (k3_alloc("transfers", (uint64_t)s.ranks * s.ranks, sizeof(transfer_t), (void **)&s.transfer,
                 err) == K3_OK &&
        k3_alloc("times", s.ranks, sizeof(double), (void **)&s.done, err) == K3_OK &&
        k3_alloc("links of pairs", s.ranks, sizeof(double), (void **)&s.pair_free, err) == K3_OK &&
        k3_alloc("links", s.ranks, LINKS * sizeof(double), (void **)&s.busy, err) == K3_OK) {
        run_all(&s, p, out, err);
    }
    k3_free(s.busy);
    k3_free(s.pair_free);
    k3_free(s.done);
    k3_free(s.transfer);
    return err->status;
}

k3_status_t k3_simulate(const k3_cell_t *cell, const k3_machine_file_t *machine,
                        k3_simulation_t *simulation, k3_error_t *err)
{
    k3_predict_model_t model;
    k3_prediction_t    p, unused;
    k3_loads_t         loads;

    memset(simulation, 0, sizeof(*simulation));
    if (refuse(cell, err) != K3_OK || k3_loads_plan(cell, &loads, err) != K3_OK) {
        return err->status;
    }
    simulation->fused = cell->profile->engine == K3_ENGINE_FUSED;
    k3_predict(cell, &loads, machine, &p);
    k3_predict_open(cell, &loads, machine, &unused, &model);
    if (p.missing[0] != '\0') {
        k3_fail(err, K3_ERR_UNSUPPORTED, "simulate: the machine file does not know %s", p.missing);
    } else if (model.shares_cores) {
        k3_simulate_cores(&model, simulation, err);
    } else {
        simulate_links(cell, machine, &p, simulation, err);
    }
    k3_loads_free(&loads);
    return err->status;
}
