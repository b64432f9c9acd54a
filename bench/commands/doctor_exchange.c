#define _GNU_SOURCE /* affinity of a thread */
#include "bench/commands/doctor_exchange.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/memory.h"
#include "harness/mpi/clock.h"

/* Rows of two lengths: what each costs by itself, and what its bytes add. */
enum { SHORT = 512, LONG = 8192, LENGTHS = 2 };

enum {
    HANDOVERS = 2000,
    GROUP = 16,                /* rows of a sum, and copies of a row */
    BLOCK = 4,                 /* rows that are sent again and again */
    PASSES = 5,                /* over all kinds of rounds */
    ROUNDS = 2,                /* of a kind in a pass */
    SAMPLES = PASSES * ROUNDS, /* of which the median counts */
    REPEATS = 5,               /* of signals and ends */
    WORDS = 896,               /* signals, each in a line of its own */
    LANES = 512, /* of a pair, used in turns: their accounts take room in the caches too */
    LINE = 64,
    AREA = 1 << 26,
    SPARSE = 1024, /* rows that spread over it */
    TURNS = 7919   /* a prime: rows go to their slots in no order */
};

typedef struct exchange {
    const k3_world_t   *world;
    const k3_kernels_t *kernels;
    k3_qps_t           *qps;
    int                 partner, to; /* a rank of the host; where the rows of a round go */
    bool                takes_part;
    uint8_t            *block;   /* arrivals of stores, arrivals of forwards, words */
    uint8_t            *source;  /* rows as the experts leave them */
    uint8_t            *encoded; /* the same in the dispatch format */
    uint16_t           *sum;
    k3_error_t         *err;
} exchange_t;

/* --- one round --------------------------------------------------------------------------------- */

static double since(uint64_t start)
{
    return k3_clock_us(k3_clock_now() - start);
}

/* Rows of a round, and where the i-th of them lies in an area. */
typedef struct slots {
    uint64_t rows, length, stride;
} slots_t;

/* So many bytes, in an area of its own: each row in a place for a long one where there is room. */
static slots_t slots_of(double bytes, uint64_t length)
{
    slots_t s = {(uint64_t)bytes / length / GROUP * GROUP, length, 0};

    s.rows = s.rows > 0 ? s.rows : GROUP;
    s.stride = AREA / s.rows < LONG ? AREA / s.rows / LINE * LINE : LONG;
    return s;
}

static inline uint64_t slot(const slots_t *s, uint64_t i)
{
    return i * TURNS % s->rows * s->stride;
}

/* As the experts leave them: written by this core. */
static void write_rows(exchange_t *x, const slots_t *s)
{
    for (uint64_t i = 0; i < s->rows; i++) {
        uint16_t *values = (uint16_t *)(void *)(x->source + i * s->stride);

        for (uint64_t j = 0; j < s->length / sizeof(uint16_t); j++) {
            values[j] = j % 3 == 0 ? 0x3fc0 : 0x3f80;
        }
    }
}

static void encode(exchange_t *x, const slots_t *s)
{
    uint64_t bytes = k3_format_row_bytes(K3_FORMAT_FP8, s->length / 2);
    float    scales[LONG / 2];

    for (uint64_t i = 0; i < s->rows; i++) {
        const void *row = x->source + i * s->stride;

        x->kernels->encode(K3_FORMAT_FP8, row, s->length / 2, x->encoded + i * bytes, scales);
    }
}

static void put(exchange_t *x, uint64_t i, const uint8_t *from, uint64_t to, uint64_t length)
{
    k3_qps_expect(x->qps, x->to, (unsigned)((i + 1) % LANES));
    k3_qps_put(x->qps, x->to, (unsigned)(i % LANES), from, to, length, length);
}

/* All copies of a row at once, as a dispatch sends them. */
static void store(exchange_t *x, const slots_t *s)
{
    k3_copy_t to[GROUP] = {{0}};

    for (uint64_t i = 0; i + GROUP <= s->rows; i += GROUP) {
        for (uint64_t k = 0; k < GROUP; k++) {
            to[k] = (k3_copy_t){
                .offset = slot(s, i + k), .peer = x->to, .qp = (unsigned)((i + k) % LANES)};
        }
        k3_qps_put_copies(x->qps, to, GROUP, x->encoded + i / GROUP % BLOCK * s->length, s->length,
                          s->length);
    }
}

static void forward(exchange_t *x, const slots_t *s)
{
    for (uint64_t i = 0; i < s->rows; i++) {
        put(x, i, x->source + slot(s, i), AREA + slot(s, i), s->length);
    }
}

static void reduce(exchange_t *x, const slots_t *s)
{
    const uint16_t *parts[GROUP];
    float           weights[GROUP];

    for (uint64_t i = 0; i + GROUP <= s->rows; i += GROUP) {
        for (uint64_t k = 0; k < GROUP; k++) {
            parts[k] = (const uint16_t *)(const void *)(x->block + AREA + slot(s, i + k));
            weights[k] = 0.0625f;
        }
        x->kernels->combine(parts, weights, GROUP, s->length / 2, x->sum);
    }
}

/* What is measured with rows to a peer, and again with rows to the own memory. */
static const struct {
    void (*step)(exchange_t *x, const slots_t *s);
    k3_row_work_t peer, own;
} steps[] = {{encode, K3_WORK_ENCODE, K3_WORK_ENCODE},
             {store, K3_WORK_STORE, K3_WORK_OWN_STORE},
             {forward, K3_WORK_FORWARD, K3_WORK_OWN_FORWARD},
             {reduce, K3_WORK_REDUCE, K3_WORK_OWN_REDUCE}};

enum { STEPS = sizeof(steps) / sizeof(steps[0]) };

/* All cores do each step at the same time; us of a row of each. */
static void one_round(exchange_t *x, const slots_t *s, double us[STEPS])
{
    write_rows(x, s);
    for (int step = 0; step < STEPS; step++) {
        uint64_t start;

        k3_qps_barrier(x->qps, x->err);
        k3_qps_bank_begin(x->qps, 0);
        start = k3_clock_now();
        if (x->takes_part) {
            steps[step].step(x, s);
        }
        us[step] = since(start) / (double)s->rows;
        k3_qps_bank_end(x->qps, x->err);
    }
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_of(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
    return values[count / 2];
}

/* Kinds of rounds: two lengths of rows for each size of what is touched, then rows that lie apart. */
enum { KINDS = K3_WORK_SIZES * LENGTHS + K3_WORK_SPREADS };

static slots_t slots_of_kind(int kind)
{
    int spread = kind - K3_WORK_SIZES * LENGTHS;

    if (spread >= 0) {
        return (slots_t){SPARSE, SHORT, (uint64_t)(k3_work_kb[spread] * 1024)};
    }
    /* The source and two areas of arrivals are the core's own. */
    return slots_of(k3_work_mb[kind / LENGTHS] * 1e6 / 3, kind % LENGTHS == 0 ? SHORT : LONG);
}

/* us of a row of each step, of rows to a peer and to the own memory. */
typedef struct samples {
    double us[2][KINDS][STEPS][SAMPLES];
} samples_t;

static void sample_kind(exchange_t *x, int kind, double us[STEPS][SAMPLES], int pass)
{
    slots_t s = slots_of_kind(kind);
    double  round[STEPS];

    one_round(
        x, &s,
        round); /* first use of pages, and of what other kinds have pushed out of the caches */
    for (int i = 0; i < ROUNDS; i++) {
        one_round(x, &s, round);
        for (int step = 0; step < STEPS; step++) {
            us[step][pass * ROUNDS + i] = round[step];
        }
    }
}

/* The speed of a host that others use too changes within seconds. All kinds take turns, several times, so that
 * such a second counts the same for all of them. */
static void sample_all(exchange_t *x, samples_t *all)
{
    for (int pass = 0; pass < PASSES; pass++) {
        for (int own = 1; own >= 0; own--) {
            x->to = own ? x->world->rank : x->partner;
            for (int kind = 0; kind < KINDS; kind++) {
                sample_kind(x, kind, all->us[own][kind], pass);
            }
        }
    }
}

/* Mean over the cores. */
static double us_of(const exchange_t *x, samples_t *all, bool own, int kind, int step)
{
    return k3_world_mean(x->world,
                         x->takes_part ? median_of(all->us[own][kind][step], SAMPLES) : 0);
}

static k3_row_work_t work_of(int step, bool own)
{
    return own ? steps[step].own : steps[step].peer;
}

/* What each byte adds, by how much is touched. */
static void set_rates(exchange_t *x, samples_t *all, bool own, int step, k3_machine_file_t *m)
{
    for (int size = 0; size < K3_WORK_SIZES; size++) {
        double brief = us_of(x, all, own, size * LENGTHS, step);
        double full = us_of(x, all, own, size * LENGTHS + 1, step);
        double byte = fmax(full - brief, 1e-6) / (LONG - SHORT);

        k3_machine_set(m, K3_FIG_WORK_GBPS(work_of(step, own), size), 1e-3 / byte, K3_FROM_MEASURED,
                       "bytes of rows of 512 and 8192, all cores at once");
    }
}

/* What a row costs besides, by how far apart rows lie. */
static void set_rows(exchange_t *x, samples_t *all, bool own, int step, k3_machine_file_t *m)
{
    k3_row_work_t work = work_of(step, own);
    double        byte = 1e-3 / k3_figure(m, K3_FIG_WORK_GBPS(work, 0), 1e3);

    for (int spread = 0; spread < K3_WORK_SPREADS; spread++) {
        double us = us_of(x, all, own, K3_WORK_SIZES * LENGTHS + spread, step);

        k3_machine_set(m, K3_FIG_WORK_US(work, spread), fmax(us - byte * SHORT, 0),
                       K3_FROM_MEASURED, "a row of 512, all cores at once, less its bytes");
    }
}

static void set_work(exchange_t *x, samples_t *all, k3_machine_file_t *m)
{
    sample_all(x, all);
    for (int step = 0; step < STEPS; step++) {
        for (int own = 1; own >= 0; own--) {
            set_rates(x, all, own, step, m);
            set_rows(x, all, own, step, m);
        }
    }
}

/* --- signals, switches, ends -------------------------------------------------------------------- */

/* Words that the partner has just cleared, as before a dispatch: each line comes from its caches. */
static double signals(exchange_t *x)
{
    double   values[REPEATS];
    uint64_t words = 2 * (uint64_t)AREA;

    for (int i = 0; i < REPEATS; i++) {
        uint64_t start;

        for (uint64_t w = 0; w < WORDS; w++) {
            k3_signal_clear64(x->block + words + w * LINE);
        }
        k3_qps_barrier(x->qps, x->err);
        k3_qps_bank_begin(x->qps, 0);
        start = k3_clock_now();
        for (uint64_t w = 0; w < WORDS && x->takes_part; w++) {
            k3_qps_expect(x->qps, x->partner, (unsigned)((w + 1) % LANES));
            k3_qps_signal_add64(x->qps, x->partner, (unsigned)(w % LANES), words + w * LINE, 1);
        }
        values[i] = since(start) / WORDS;
        k3_qps_bank_end(x->qps, x->err);
        k3_qps_barrier(x->qps, x->err);
    }
    return k3_world_mean(x->world, x->takes_part ? median_of(values, REPEATS) : 0);
}

typedef struct handover {
    int turn;
    int count;
} handover_t;

static void take_turns(handover_t *h, int own)
{
    for (int i = 0; i < HANDOVERS; i++) {
        while (__atomic_load_n(&h->turn, __ATOMIC_ACQUIRE) != own) {
            sched_yield();
        }
        __atomic_store_n(&h->turn, 1 - own, __ATOMIC_RELEASE);
    }
}

static void *other_turn(void *arg)
{
    take_turns(arg, 1);
    return NULL;
}

/* Two who wait for each other on one core: what it takes until the one that yields has made room for the
 * other. 0 where no core can be taken. */
static double switches(void)
{
    handover_t h = {0};
    cpu_set_t  before, one;
    pthread_t  thread;
    uint64_t   start;
    double     us = 0;

    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    if (sched_getaffinity(0, sizeof(before), &before) != 0 ||
        sched_setaffinity(0, sizeof(one), &one) != 0) {
        return 0;
    }
    if (pthread_create(&thread, NULL, other_turn, &h) == 0) {
        start = k3_clock_now();
        take_turns(&h, 0);
        us = since(start) / (2.0 * HANDOVERS);
        pthread_join(thread, NULL);
    }
    sched_setaffinity(0, sizeof(before), &before);
    return us;
}

static void set_rest(exchange_t *x, k3_machine_file_t *m)
{
    double switched = k3_world_mean(x->world, x->takes_part ? switches() : 0);
    k3_machine_set(m, K3_FIG_STORE_SIGNAL_US, signals(x), K3_FROM_MEASURED,
                   "add to a word in a line that the peer has just written, all cores at once");
    k3_machine_set(m, K3_FIG_SWITCH_US, switched, K3_FROM_MEASURED,
                   "from who yields to who waits on the same core");
}

/* --- the end of a phase --------------------------------------------------------------------------- */

enum { FEW_LANES = 4, MANY_LANES = 64 };

static bool is_far(const k3_world_t *w, int peer)
{
    return w->node_of[peer] != w->node_of[w->rank];
}

/* A put on each lane to other hosts, then flush and barrier as behind a phase whose puts are carried by software
 * of both sides; 0 where nothing is. */
static double finish_once(const k3_world_t *w, k3_qps_t *qps, const void *row, unsigned lanes,
                          k3_error_t *err)
{
    uint64_t start;
    bool     soft = false;

    k3_qps_barrier(qps, err);
    for (int peer = 0; peer < w->size; peer++) {
        for (unsigned lane = 0; lane < lanes && is_far(w, peer); lane++) {
            k3_qps_put(qps, peer, lane, row, 0, LINE, 0);
        }
        soft = soft || k3_qps_needs_progress(qps, peer);
    }
    start = k3_clock_now();
    k3_qps_flush(qps, err);
    k3_qps_barrier(qps, err);
    return soft ? since(start) : 0;
}

static double finish(const k3_world_t *w, k3_fabric_t *fabric, unsigned lanes, k3_error_t *err)
{
    static const uint8_t row[LINE];
    k3_qps_config_t      config = {.bytes = LINE,
                                   .qps_per_peer = lanes,
                                   .banks = 1,
                                   .p2p = true,
                                   .node_of = w->node_of,
                                   .slow_peer = -1};
    k3_qps_t            *qps = NULL;
    double               values[REPEATS];

    if (k3_qps_create(fabric, &config, &qps, err) != K3_OK) {
        return 0;
    }
    finish_once(w, qps, row, lanes, err); /* first use of connections */
    for (int i = 0; i < REPEATS; i++) {
        values[i] = finish_once(w, qps, row, lanes, err);
    }
    k3_qps_destroy(qps);
    return k3_world_mean(w, median_of(values, REPEATS));
}

static void set_finish(const k3_world_t *w, k3_fabric_t *fabric, k3_machine_file_t *m,
                       k3_error_t *err)
{
    double few = finish(w, fabric, FEW_LANES, err), many = finish(w, fabric, MANY_LANES, err);
    double lanes = (double)(MANY_LANES - FEW_LANES) * (w->size - w->local_size);
    double lane = lanes > 0 ? fmax(many - few, 0) / lanes : 0;

    if (few > 0) {
        k3_machine_set(m, K3_FIG_FINISH_LANE_US, lane, K3_FROM_MEASURED,
                       "flush of 64 lanes to each rank of another host, less that of 4");
        k3_machine_set(m, K3_FIG_FINISH_US,
                       fmax(few - lane * FEW_LANES * (w->size - w->local_size), 0),
                       K3_FROM_MEASURED, "flush and barrier of all ranks of the launch");
    }
}

/* --- all --------------------------------------------------------------------------------------- */

/* The next rank of the host that takes part. */
static int partner_of(const k3_world_t *w)
{
    int wanted = (w->local_rank + 1) % (w->local_size < w->cores ? w->local_size : w->cores);
    int local = 0;

    for (int r = 0; r < w->size; r++) {
        if (w->node_of[r] == w->node_of[w->rank] && local++ == wanted) {
            return r;
        }
    }
    return w->rank;
}

static k3_status_t open_exchange(exchange_t *x, k3_fabric_t *fabric, samples_t **samples,
                                 k3_error_t *err)
{
    k3_qps_config_t config = {.bytes = 2 * (uint64_t)AREA + WORDS * LINE,
                              .qps_per_peer = LANES,
                              .banks = 1,
                              .p2p = true,
                              .node_of = x->world->node_of,
                              .accounting = true,
                              .slow_peer = -1};

    if (k3_alloc("rows", AREA, 1, (void **)&x->source, err) == K3_OK &&
        k3_alloc("encoded rows", AREA, 1, (void **)&x->encoded, err) == K3_OK &&
        k3_alloc("sums", LONG, 1, (void **)&x->sum, err) == K3_OK) {
        k3_alloc("samples", 1, sizeof(**samples), (void **)samples, err);
    }
    if (k3_world_agree(x->world, err) == K3_OK) {
        k3_qps_create(fabric, &config, &x->qps, err);
    }
    return err->status;
}

k3_status_t k3_doctor_exchange(const k3_world_t *world, k3_fabric_t *fabric,
                               const k3_kernels_t *kernels, k3_machine_file_t *machine,
                               k3_error_t *err)
{
    exchange_t x = {.world = world,
                    .kernels = kernels,
                    .partner = partner_of(world),
                    .takes_part = world->local_rank < world->cores,
                    .err = err};
    samples_t *samples = NULL;

    if (open_exchange(&x, fabric, &samples, err) == K3_OK) {
        x.block = k3_qps_memory(x.qps);
        set_work(&x, samples, machine);
        set_rest(&x, machine);
        k3_qps_destroy(x.qps);
        set_finish(world, fabric, machine, err);
    }
    k3_free(samples);
    k3_free(x.sum);
    k3_free(x.encoded);
    k3_free(x.source);
    return k3_world_agree(world, err);
}
