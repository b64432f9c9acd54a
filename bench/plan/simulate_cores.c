/* Ranks that share cores: a core goes round its ranks, a piece of work for each. A rank sends, waits for what it
 * is sent, and goes on; what leaves a node queues at its NIC and at that of the receiver. */
#include <math.h>
#include <string.h>

#include "bench/plan/simulate_internal.h"
#include "harness/base/memory.h"

/* A fused call has three stages: rows, experts and results, sums. */
enum { PIECES = 8, STAGES = 3 };

/* What all ranks do between two waits. */
typedef struct stage {
    k3_transfer_t *transfer; /* [R][R], owned; NULL: nothing is sent */
    double        *work_us;  /* [R], owned: of a core that the rank has for itself */
    double        *bytes;    /* [R], owned: that a rank sends, its own rows included */
    uint32_t      *due;      /* [R], owned: pieces that have not been sent to it yet */
    double        *came;     /* [R], owned: when the last one came */
} stage_t;

typedef struct rank {
    unsigned stage;
    uint32_t step, piece; /* the next one: destination behind the own rank, and piece of it */
    double   done;
} rank_t;

typedef struct sim {
    const k3_predict_model_t *model;
    uint32_t                  ranks, cores, nodes; /* cores: of a node */
    unsigned                  stages;
    stage_t                   stage[STAGES];
    rank_t                   *rank;          /* [R] */
    uint32_t                 *core_of;       /* [R] of all nodes' cores */
    uint32_t                 *turn;          /* [cores of all nodes] the rank that comes next */
    double                   *now;           /* the same */
    double                   *leave, *enter; /* [nodes] when the NIC is free */
    double                    queued_us;
} sim_t;

/* --- pieces ------------------------------------------------------------------------------------ */

static const k3_transfer_t *transfer_of(const sim_t *s, const stage_t *stage, uint32_t r,
                                        uint32_t step)
{
    return &stage->transfer[(uint64_t)r * s->ranks + (r + step) % s->ranks];
}

static uint32_t pieces_of(const k3_transfer_t *t)
{
    double pieces = t->bytes / 32768 + 1;

    return t->posts <= 0 ? 0 : pieces < PIECES ? (uint32_t)pieces : PIECES;
}

static uint32_t node_of(const sim_t *s, uint32_t r)
{
    return s->model->cell->node_of[r];
}

/* When a piece that leaves now has come; stores have at once. */
static double carry(sim_t *s, uint32_t src, uint32_t dst, double now, double bytes)
{
    uint32_t from = node_of(s, src), to = node_of(s, dst);
    double   time = k3_at_rate(bytes, s->model->f[K3_FIG_NIC_GBPS]), queued;

    if (from == to) {
        return now;
    }
    s->leave[from] = fmax(s->leave[from], now) + time;
    queued = s->enter[to] - (s->leave[from] - time);
    s->queued_us = fmax(s->queued_us, queued);
    s->enter[to] = queued > 0 ? s->enter[to] + time : s->leave[from];
    return s->enter[to];
}

static void send_piece(sim_t *s, uint32_t r, double now)
{
    rank_t              *rank = &s->rank[r];
    stage_t             *stage = &s->stage[rank->stage];
    const k3_transfer_t *t = transfer_of(s, stage, r, rank->step);
    uint32_t             dst = (r + rank->step) % s->ranks, pieces = pieces_of(t);
    double               came = carry(s, r, dst, now, t->bytes / pieces);

    stage->due[dst]--;
    stage->came[dst] = fmax(stage->came[dst], came);
    rank->piece++;
}

/* Moves on to a destination that gets something; false: all of the stage is sent. */
static bool has_piece(const sim_t *s, uint32_t r)
{
    rank_t        *rank = &s->rank[r];
    const stage_t *stage = &s->stage[rank->stage];

    while (stage->transfer != NULL && rank->step < s->ranks) {
        if (rank->piece < pieces_of(transfer_of(s, stage, r, rank->step))) {
            return true;
        }
        rank->step++;
        rank->piece = 0;
    }
    return false;
}

/* --- a core ------------------------------------------------------------------------------------ */

/* Work of the next piece of a rank; without one, all that the stage asks of it. */
static double piece_us(const sim_t *s, uint32_t r)
{
    const rank_t        *rank = &s->rank[r];
    const stage_t       *stage = &s->stage[rank->stage];
    const k3_transfer_t *t;

    if (stage->transfer == NULL || stage->bytes[r] <= 0) {
        return stage->work_us[r];
    }
    t = transfer_of(s, stage, r, rank->step);
    return stage->work_us[r] * t->bytes / pieces_of(t) / stage->bytes[r];
}

/* When the rank can go on; INFINITY: it is done, or waits for what nobody has sent yet. */
static double ready_at(const sim_t *s, uint32_t r)
{
    const rank_t *rank = &s->rank[r];

    if (rank->stage >= s->stages) {
        return INFINITY;
    }
    if (rank->stage == 0) {
        return 0;
    }
    return s->stage[rank->stage - 1].due[r] > 0 ? INFINITY : s->stage[rank->stage - 1].came[r];
}

/* The rank whose turn it is on a core, and when; ranks are asked in turns from the one behind the last. */
static double next_on(const sim_t *s, uint32_t core, uint32_t *who)
{
    double at = INFINITY;

    for (uint32_t i = 0; i < s->ranks; i++) {
        uint32_t r = (s->turn[core] + i) % s->ranks;
        double   ready;

        if (s->core_of[r] != core) {
            continue;
        }
        ready = fmax(ready_at(s, r), s->now[core]);
        if (ready < at) {
            at = ready;
            *who = r;
        }
    }
    return at;
}

static void work(sim_t *s, uint32_t core, uint32_t r, double at)
{
    rank_t *rank = &s->rank[r];
    bool    sends = has_piece(s, r);

    s->turn[core] = (r + 1) % s->ranks;
    s->now[core] = at;
    if (sends || s->stage[rank->stage].transfer == NULL) {
        s->now[core] += piece_us(s, r);
    }
    if (sends) {
        send_piece(s, r, s->now[core]);
    }
    if (!has_piece(s, r)) {
        rank->stage++;
        rank->step = rank->piece = 0;
        rank->done = s->now[core];
    }
}

static void run_all(sim_t *s)
{
    for (;;) {
        uint32_t core = 0, who = 0;
        double   first = INFINITY;

        for (uint32_t c = 0; c < s->cores * s->nodes; c++) {
            uint32_t r = 0;
            double   at = next_on(s, c, &r);

            if (at < first) {
                first = at;
                core = c;
                who = r;
            }
        }
        if (first == INFINITY) {
            return;
        }
        work(s, core, who, first);
    }
}

/* --- stages ------------------------------------------------------------------------------------ */

static k3_status_t open_stage(sim_t *s, stage_t *stage, unsigned phases, k3_error_t *err)
{
    uint64_t n = s->ranks;

    if (k3_alloc("work", n, sizeof(double), (void **)&stage->work_us, err) != K3_OK ||
        k3_alloc("bytes sent", n, sizeof(double), (void **)&stage->bytes, err) != K3_OK ||
        k3_alloc("pieces due", n, sizeof(uint32_t), (void **)&stage->due, err) != K3_OK ||
        k3_alloc("arrivals", n, sizeof(double), (void **)&stage->came, err) != K3_OK) {
        return err->status;
    }
    if (phases == 0) {
        return K3_OK;
    }
    if (k3_alloc("transfers", n * n, sizeof(k3_transfer_t), (void **)&stage->transfer, err) !=
            K3_OK ||
        k3_simulate_transfers(s->model->cell, phases, stage->transfer, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t r = 0; r < s->ranks; r++) {
        for (uint32_t step = 0; step < s->ranks; step++) {
            const k3_transfer_t *t = transfer_of(s, stage, r, step);

            stage->bytes[r] += t->posts > 0 ? t->bytes : 0;
            stage->due[(r + step) % s->ranks] += pieces_of(t);
        }
    }
    return K3_OK;
}

/* The closed form counts a core's other ranks with each; here they take their turns. */
static void set_work(sim_t *s, bool dispatch, bool combine)
{
    const k3_predict_model_t *m = s->model;
    stage_t                  *sums = &s->stage[s->stages - 1];

    for (uint32_t r = 0; r < s->ranks; r++) {
        double there[K3_TERM_COUNT] = {0}, back[K3_TERM_COUNT] = {0}, experts[K3_TERM_COUNT] = {0};

        if (dispatch) {
            k3_predict_cpu_phase(m, false, r, there);
            s->stage[0].work_us[r] =
                (there[K3_TERM_ISSUE] + there[K3_TERM_SCALEUP] + there[K3_TERM_MEMORY]) / m->crowd;
        }
        if (dispatch && combine) {
            k3_predict_experts(m, r, experts);
        }
        if (combine) {
            k3_predict_cpu_phase(m, true, r, back);
            sums->work_us[r] = back[K3_TERM_MEMORY] / m->crowd;
            sums[-1].work_us[r] = (back[K3_TERM_ISSUE] + back[K3_TERM_SCALEUP] +
                                   experts[K3_TERM_WEIGHTS] + experts[K3_TERM_GEMM]) /
                                  m->crowd;
        }
        /* What follows the last piece. */
        s->rank[r].done = there[K3_TERM_FIXED] + there[K3_TERM_LATENCY] + back[K3_TERM_FIXED] +
                          back[K3_TERM_LATENCY];
    }
}

/* --- a phase ----------------------------------------------------------------------------------- */

static k3_status_t open_sim(sim_t *s, k3_error_t *err)
{
    uint64_t n = s->ranks, cores;

    for (uint32_t r = 0; r < s->ranks; r++) {
        s->nodes = node_of(s, r) >= s->nodes ? node_of(s, r) + 1 : s->nodes;
    }
    s->cores = (uint32_t)fmin(s->model->f[K3_FIG_CORES_PER_NODE], s->ranks);
    s->cores = s->cores > 0 ? s->cores : 1;
    cores = (uint64_t)s->cores * s->nodes;
    if (k3_alloc("ranks", n, sizeof(rank_t), (void **)&s->rank, err) != K3_OK ||
        k3_alloc("cores of ranks", n, sizeof(uint32_t), (void **)&s->core_of, err) != K3_OK ||
        k3_alloc("turns", cores, sizeof(uint32_t), (void **)&s->turn, err) != K3_OK ||
        k3_alloc("times of cores", cores, sizeof(double), (void **)&s->now, err) != K3_OK ||
        k3_alloc("times of NICs", s->nodes, sizeof(double), (void **)&s->leave, err) != K3_OK) {
        return err->status;
    }
    return k3_alloc("times of NICs", s->nodes, sizeof(double), (void **)&s->enter, err);
}

static void close_sim(sim_t *s)
{
    for (int i = 0; i < STAGES; i++) {
        k3_free(s->stage[i].transfer);
        k3_free(s->stage[i].work_us);
        k3_free(s->stage[i].bytes);
        k3_free(s->stage[i].due);
        k3_free(s->stage[i].came);
    }
    k3_free(s->enter);
    k3_free(s->leave);
    k3_free(s->now);
    k3_free(s->turn);
    k3_free(s->core_of);
    k3_free(s->rank);
}

/* Ranks of a node go round its cores. */
static void place_ranks(sim_t *s)
{
    for (uint32_t r = 0, at = 0; r < s->ranks; r++) {
        at = r > 0 && node_of(s, r) == node_of(s, r - 1) ? at + 1 : 0;
        s->core_of[r] = node_of(s, r) * s->cores + at % s->cores;
    }
}

static void conclude(const sim_t *s, const double *follows, k3_simulated_phase_t *out)
{
    out->queued_us = s->queued_us;
    for (uint32_t r = 0; r < s->ranks; r++) {
        double us = fmax(s->rank[r].done, s->stage[s->stages - 1].came[r]) + follows[r];

        out->mean_us += us / s->ranks;
        if (us > out->us) {
            out->us = us;
            out->slowest_rank = r;
        }
    }
}

static k3_status_t simulate(const k3_predict_model_t *model, bool dispatch, bool combine,
                            k3_simulated_phase_t *out, k3_error_t *err)
{
    const unsigned there = 1u << K3_TRAFFIC_NOTIFY | 1u << K3_TRAFFIC_DISPATCH;
    const unsigned back = 1u << K3_TRAFFIC_COMBINE;
    sim_t          s = {.model = model, .ranks = model->cell->layout.tp};
    double        *follows = NULL;

    if (dispatch) {
        open_stage(&s, &s.stage[s.stages++], there, err);
    }
    if (combine && err->status == K3_OK &&
        open_stage(&s, &s.stage[s.stages++], back, err) == K3_OK) {
        open_stage(&s, &s.stage[s.stages++], 0, err);
    }
    if (err->status == K3_OK && open_sim(&s, err) == K3_OK &&
        k3_alloc("ends", s.ranks, sizeof(double), (void **)&follows, err) == K3_OK) {
        place_ranks(&s);
        set_work(&s, dispatch, combine);
        for (uint32_t r = 0; r < s.ranks; r++) {
            follows[r] = s.rank[r].done;
            s.rank[r].done = 0;
        }
        run_all(&s);
        conclude(&s, follows, out);
    }
    k3_free(follows);
    close_sim(&s);
    return err->status;
}

k3_status_t k3_simulate_cores(const k3_predict_model_t *model, k3_simulation_t *out,
                              k3_error_t *err)
{
    if (out->fused) {
        return simulate(model, true, true, &out->moe, err);
    }
    if (simulate(model, true, false, &out->dispatch, err) == K3_OK) {
        simulate(model, false, true, &out->combine, err);
    }
    return err->status;
}
