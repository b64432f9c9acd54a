#include <unistd.h>

#include "bench/plan/cell_rows.h"
#include "tests/unit/plan/plan_test.h"

#include "bench/cell/npy.h"
#include "bench/plan/slab.h"
#include "bench/plan/traffic.h"

static char folder[] = "/tmp/k3_test_plan_traffic.XXXXXX";
static char path[64], trace[80];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/t.npy", folder);
    snprintf(trace, sizeof(trace), "trace:%s", path);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_trace(const int32_t *ids, uint64_t rows, uint64_t topk)
{
    k3_error_t err = K3_ERROR_INIT;
    uint64_t   shape[2] = {rows, topk};

    unlink(path);
    if (k3_npy_write(path, K3_NPY_I32, 2, shape, ids, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
}

static k3_work_t work_of(const k3_cell_t *cell)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_work_t  work;

    if (k3_work_plan(cell, &work, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    return work;
}

static k3_work_t work_for(k3_cell_request_t request)
{
    k3_cell_t cell = cell_of(request);
    k3_work_t work = work_of(&cell);

    k3_cell_destroy(&cell);
    return work;
}

/* --- every lane against a count of its own --------------------------------------------------- */

/* What a visitor saw of one origin, beside what the routing says. */
typedef struct seen {
    const k3_cell_t *cell;
    uint32_t         origin, local, active;
    uint64_t         record, payload, result;
    bool             every_rings; /* each message rings, else each fourth */
    bool             silent;      /* no posting rule is known */
    uint64_t         signal;      /* bytes */
    uint64_t         rows_to[1024];
    uint64_t         lanes, messages[2], signals[2];
    bool             any;
    k3_flow_t        last;
} seen_t;

static void count_rows(seen_t *s)
{
    uint64_t first, n;
    int32_t  ids[K3_TOPK_MAX];

    memset(s->rows_to, 0, sizeof(s->rows_to));
    k3_cell_dispatched(s->cell, s->origin, &first, &n);
    for (uint64_t row = first; row < first + n; row++) {
        k3_routing_row(s->cell->routing, row, ids);
        for (uint32_t k = 0; k < s->cell->model.topk; k++) {
            if (ids[k] >= 0) {
                s->rows_to[ids[k]]++;
            }
        }
    }
}

static void assert_ascending(const k3_flow_t *a, const k3_flow_t *b)
{
    uint64_t x = ((uint64_t)a->phase << 60) | ((uint64_t)a->src << 40) | ((uint64_t)a->dst << 16);
    uint64_t y = ((uint64_t)b->phase << 60) | ((uint64_t)b->src << 40) | ((uint64_t)b->dst << 16);

    assert_true((x | a->qp) < (y | b->qp));
}

static void check_slab_lane(const k3_flow_t *flow, void *arg)
{
    seen_t  *s = arg;
    bool     back = flow->phase == K3_TRAFFIC_COMBINE;
    uint32_t peer = back ? flow->src : flow->dst;
    uint64_t n = 0, bells = 0, experts = 0;

    if (s->any) {
        assert_ascending(&s->last, flow);
    }
    s->any = true;
    s->last = *flow;
    s->lanes++;
    assert_int_equal(back ? flow->dst : flow->src, s->origin);
    assert_true(flow->phase == K3_TRAFFIC_DISPATCH || back);
    assert_true(flow->qp < s->active);
    for (uint32_t e = 0; e < s->local; e++) {
        if (e % s->active == flow->qp) {
            uint64_t rows = s->rows_to[peer * s->local + e];

            n += rows;
            bells += (s->every_rings ? rows : rows / 4) + 1;
            experts++;
        }
    }
    assert_int_equal(flow->messages, n);
    assert_int_equal(flow->signals, experts);
    assert_int_equal(flow->payload, n * (back ? s->result : s->payload));
    assert_int_equal(flow->wire, n * (back ? s->result : s->record) + s->signal * experts);
    bells = s->silent ? K3_DOORBELLS_UNKNOWN : bells;
    assert_int_equal(flow->doorbells, k3_cell_mapped(s->cell, s->origin, peer) ? 0 : bells);
    s->messages[back] += flow->messages;
    s->signals[back] += flow->signals;
}

/* Formats are the defaults: fp8 out, bf16 back. */
static void check_slab_cell(const k3_cell_t *cell)
{
    k3_error_t   err = K3_ERROR_INIT;
    k3_traffic_t traffic;
    uint32_t     w = cell->model.latent, local = cell->model.experts / cell->layout.tp;
    uint64_t     lanes = 0, messages = 0, signals = 0;
    uint64_t     signal = strcmp(cell->profile->backend, "nixl") == 0 ? 8 : 4;
    k3_work_t    work = work_of(cell);

    assert_int_equal(k3_traffic_open(cell, &traffic, &err), K3_OK);
    for (uint32_t origin = 0; origin < cell->layout.tp; origin++) {
        seen_t s = {.cell = cell,
                    .origin = origin,
                    .local = local,
                    .active = cell->qps.active,
                    .record = 16 + w + w / 128 * 4,
                    .payload = w + w / 128 * 4,
                    .result = 2 * (uint64_t)w,
                    .every_rings = strcmp(cell->profile->backend, "mooncake") == 0,
                    .silent = strcmp(cell->profile->backend, "uccl") == 0,
                    .signal = signal};

        count_rows(&s);
        k3_traffic_origin(&traffic, origin, check_slab_lane, &s);
        assert_int_equal(s.messages[0], s.messages[1]);
        assert_int_equal(s.signals[0], cell->model.experts);
        assert_int_equal(s.signals[1], cell->model.experts);
        assert_int_equal(s.lanes,
                         2 * cell->layout.tp * (local < s.active ? local : cell->qps.active));
        lanes += s.lanes;
        messages += s.messages[0];
        signals += s.signals[0];
    }
    k3_traffic_close(&traffic);
    assert_int_equal(messages, work.assignments);
    for (int t = K3_TRAFFIC_DISPATCH; t <= K3_TRAFFIC_COMBINE; t++) {
        const k3_traffic_sum_t *sum = &work.sum[t];
        uint64_t record = t == K3_TRAFFIC_DISPATCH ? 16 + w + w / 128 * 4 : 2 * (uint64_t)w;

        assert_int_equal(sum->messages, work.assignments);
        assert_int_equal(sum->signals, signals);
        assert_int_equal(sum->signals, (uint64_t)cell->layout.tp * cell->model.experts);
        assert_int_equal(sum->wire, sum->messages * record + sum->signals * signal);
        assert_int_equal(sum->lanes * 2, lanes);
    }
    assert_int_equal(work.sum[K3_TRAFFIC_NOTIFY].lanes, 0);
}

static void test_slab_lanes(void **state)
{
    unsigned            i = 0;
    const k3_profile_t *p;

    (void)state;
    while ((p = next_available(K3_ENGINE_SLAB, &i)) != NULL) {
        for (uint64_t tp = 8; tp <= 64; tp *= 2) {
            for (int p2p = 0; p2p < 2; p2p++) {
                k3_cell_request_t request = request_of(p->name, "kimi-k3", tp);
                k3_cell_t         cell;

                if (p->completion == K3_DONE_COUNTING) {
                    continue; /* test_plan_counted */
                }
                request.p2p = p2p == 1;
                request.tokens = 8;
                cell = cell_of(request);
                assert_int_equal(work_of(&cell).assignments, tp * 8 * 16);
                check_slab_cell(&cell);
                k3_cell_destroy(&cell);
            }
        }
    }
}

/* QPs that are fewer, more, or no power of two; Q10, Q12, Q13. */
static void test_Q13_slab_lanes_of_odd_qps(void **state)
{
    static const struct {
        const char *backend, *model, *fabric;
        uint64_t    tp, qps;
    } rows[] = {
        {"mooncake", "deepseek-v3:E=288", "ib", 12, 0},
        {"mooncake", "tiny:E=33", "ib", 3, 0},
        {"mooncake", "kimi-k3", "roce", 8, 0},
        {"mooncake", "kimi-k3", "ib", 8, 4},
        {"mooncake", "kimi-k3", "roce", 8, 16},
        {"deepep:ll", "kimi-k3", "ib", 16, 1},
        {"deepep:ll", "kimi-k3", "ib", 16, 16},
        {"deepep:ll", "kimi-k3", "ib", 7, 0},
        {"deepep:ll", "tiny", "ib", 8, 64},
        {"nixl", "kimi-k3", "ib", 7, 0},
        {"nixl", "kimi-k3", "ib", 16, 5},
        {"uccl", "tiny", "ib", 32, 0},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_cell_request_t request = request_of(rows[i].backend, rows[i].model, rows[i].tp);
        k3_cell_t         cell;

        request.fabric = rows[i].fabric;
        request.qps = rows[i].qps;
        request.max_tokens = 16;
        cell = cell_of(request);
        check_slab_cell(&cell);
        k3_cell_destroy(&cell);
    }
}

/* LogFMT-10 results have no fixed length: the plan is their bound, and says what may be missing. */
static void add_spare(const k3_flow_t *flow, void *arg)
{
    uint64_t *spare = arg;

    assert_int_equal(flow->payload_spare, flow->wire_spare);
    assert_true(flow->phase == K3_TRAFFIC_COMBINE || flow->payload_spare == 0);
    *spare += flow->payload_spare;
}

static void test_logfmt_bounds(void **state)
{
    k3_cell_request_t request = request_of("deepep:ll", "kimi-k3", 8);
    k3_error_t        err = K3_ERROR_INIT;
    k3_traffic_t      traffic;
    k3_cell_t         cell;
    k3_work_t         work;
    uint64_t          spare = 0;

    (void)state;
    request.combine_dtype = "logfmt10";
    cell = cell_of(request);
    work = work_of(&cell);
    assert_int_equal(work.sum[K3_TRAFFIC_COMBINE].payload, work.assignments * (7168 + 28 * 4));
    assert_int_equal(k3_traffic_open(&cell, &traffic, &err), K3_OK);
    for (uint32_t origin = 0; origin < 8; origin++) {
        k3_traffic_origin(&traffic, origin, add_spare, &spare);
    }
    k3_traffic_close(&traffic);
    assert_int_equal(spare, work.assignments * 28 * 96);
    k3_cell_destroy(&cell);
}

/* Ragged rows, and a rank without rows: its signals stay. */
static void test_P01_slab_lanes_of_uneven_ranks(void **state)
{
    static const char *const skews[] = {"ragged", "one-empty", "all-but-one-empty",
                                        "16,8,16,1,16,16,2,16", "0,0,0,0,0,0,0,0"};

    (void)state;
    for (unsigned i = 0; i < sizeof(skews) / sizeof(skews[0]); i++) {
        k3_cell_request_t request = request_of("deepep:ll", "tiny", 8);
        k3_cell_t         cell;

        request.skew = skews[i];
        request.nodes_as = 2;
        cell = cell_of(request);
        check_slab_cell(&cell);
        request.backend = "mooncake";
        k3_cell_destroy(&cell);
        cell = cell_of(request);
        check_slab_cell(&cell);
        k3_cell_destroy(&cell);
    }
}

/* The forced fallback: every rank is an origin of all rows. */
static void test_slab_lanes_of_the_fallback(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    k3_cell_t         cell;

    (void)state;
    request.path = "fallback";
    request.dp = 2;
    cell = cell_of(request);
    assert_int_equal(work_of(&cell).assignments, 8 * 8 * 16 * 4);
    check_slab_cell(&cell);
    k3_cell_destroy(&cell);
}

/* --- the reference's table of messages ------------------------------------------------------- */

typedef struct tally {
    uint64_t messages, signals, remote_messages, remote_signals, doorbells;
    uint64_t to_one, signals_to_one, on_one_qp, bells_on_one_qp;
} tally_t;

/* Dispatch lanes of origin 0; "one" is rank 1. */
static void add_tally(const k3_flow_t *flow, void *arg)
{
    tally_t *t = arg;

    if (flow->phase != K3_TRAFFIC_DISPATCH) {
        return;
    }
    t->messages += flow->messages;
    t->signals += flow->signals;
    t->remote_messages += flow->dst != flow->src ? flow->messages : 0;
    t->remote_signals += flow->dst != flow->src ? flow->signals : 0;
    t->to_one += flow->dst == 1 ? flow->messages : 0;
    t->signals_to_one += flow->dst == 1 ? flow->signals : 0;
    if (flow->dst == 1 && flow->qp == 3) {
        t->on_one_qp = flow->messages;
        t->bells_on_one_qp = flow->doorbells;
    }
}

static tally_t tally_of(k3_cell_request_t request)
{
    k3_error_t   err = K3_ERROR_INIT;
    k3_cell_t    cell = cell_of(request);
    k3_traffic_t traffic;
    tally_t      t = {0};

    assert_int_equal(k3_traffic_open(&cell, &traffic, &err), K3_OK);
    k3_traffic_origin(&traffic, 0, add_tally, &t);
    k3_traffic_close(&traffic);
    k3_cell_destroy(&cell);
    return t;
}

/* E 256, K 8, T 128, every expert equally often from every rank. */
static void test_reference_messages_of_256_experts(void **state)
{
    static const struct {
        uint64_t tp, remote, remote_signals, to_peer, signals, on_ib, on_roce;
    } rows[] = {{8, 896, 224, 128, 32, 4, 16}, {16, 960, 240, 64, 16, 4, 8}};
    enum { ROWS = 16 * 128, K = 8 };
    static int32_t ids[ROWS * K];

    (void)state;
    for (int i = 0; i < ROWS * K; i++) {
        ids[i] = i % 256;
    }
    write_trace(ids, ROWS, K);
    for (unsigned i = 0; i < 2; i++) {
        k3_cell_request_t request = request_of("mooncake", "deepseek-v3", rows[i].tp);
        tally_t           t;

        request.tokens = 128;
        request.routing = trace;
        request.p2p = false;
        t = tally_of(request);
        assert_int_equal(t.messages, 1024);
        assert_int_equal(t.remote_messages, rows[i].remote);
        assert_int_equal(t.remote_signals, rows[i].remote_signals);
        assert_int_equal(t.to_one, rows[i].to_peer);
        assert_int_equal(t.signals_to_one, rows[i].signals);
        assert_int_equal(t.on_one_qp, rows[i].on_ib);
        assert_int_equal(t.bells_on_one_qp, rows[i].on_ib + 1);
        request.fabric = "roce";
        assert_int_equal(tally_of(request).on_one_qp, rows[i].on_roce);
        request.fabric = "ib";
        request.backend = "deepep:ll";
        t = tally_of(request);
        assert_int_equal(t.on_one_qp, 4);
        assert_int_equal(t.bells_on_one_qp, 2);
    }
}

/* E 896, R 32, K 16, T 128: 2048 messages a rank in all, 868 remote signals, 28 a peer. */
static void test_reference_messages_of_896_experts(void **state)
{
    static const char *const backends[] = {"mooncake", "deepep:ll"};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        k3_cell_request_t request = request_of(backends[i], "kimi-k3", 32);
        tally_t           t;

        request.tokens = 128;
        t = tally_of(request);
        assert_int_equal(t.messages, 2048);
        assert_int_equal(t.signals, 896);
        assert_int_equal(t.remote_signals, 868);
        assert_int_equal(t.signals_to_one, 28);
    }
    {
        k3_cell_request_t request = request_of("mooncake", "deepseek-v3:E=288", 16);
        tally_t           t;

        request.tokens = 128;
        t = tally_of(request);
        assert_int_equal(t.messages, 1024);
        assert_int_equal(t.remote_signals, 270);
        assert_int_equal(t.signals_to_one, 18);
    }
}

/* --- doorbells ------------------------------------------------------------------------------- */

/* Every number of rows from 0 to 17 on one expert: floor(n / 4) + 1, or n + 1. */
static void test_doorbells_by_rows(void **state)
{
    enum { MOST = 17 };
    static int32_t ids[2 * MOST];

    (void)state;
    for (int n = 0; n <= MOST; n++) {
        k3_cell_request_t request = request_of("deepep:ll", "tiny:E=2,K=1", 2);
        k3_cell_t         cell;

        for (int i = 0; i < 2 * MOST; i++) {
            ids[i] = i < n ? 1 : -1;
        }
        write_trace(ids, 2 * MOST, 1);
        request.routing = trace;
        request.tokens = MOST;
        request.max_tokens = 18;
        request.p2p = false;
        cell = cell_of(request);
        /* Rank 0 sends n rows to expert 1, rank 1 sends none to expert 0, own lanes are mapped. */
        assert_int_equal(work_of(&cell).sum[K3_TRAFFIC_DISPATCH].doorbells, n / 4 + 1 + 1);
        assert_int_equal(work_of(&cell).sum[K3_TRAFFIC_COMBINE].doorbells, n / 4 + 1 + 1);
        k3_cell_destroy(&cell);
        request.backend = "mooncake";
        cell = cell_of(request);
        assert_int_equal(work_of(&cell).sum[K3_TRAFFIC_DISPATCH].doorbells, n + 1 + 1);
        k3_cell_destroy(&cell);
    }
}

static void test_mapped_lanes_ring_no_doorbell(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    k3_work_t         work = work_for(request);

    (void)state;
    assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].doorbells, 0);
    assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].wire_network, 0);
    request.p2p = false;
    work = work_for(request);
    assert_true(work.sum[K3_TRAFFIC_DISPATCH].doorbells > 0);
    assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].wire_network, 0);
    assert_int_equal(work.sum[K3_TRAFFIC_COMBINE].messages, 8 * 16 * 4);
}

/* --- L01 and the other layouts --------------------------------------------------------------- */

static void test_L01_dispatched_once_or_by_all(void **state)
{
    static const struct {
        const char *rule;
        uint64_t    tp, dp, rows, dispatched;
        double      ratio;
    } rows[] = {
        {"registry", 32, 4, 128, 128, 1.0}, {"before-36862", 32, 4, 128, 4096, 32.0},
        {"registry", 8, 2, 32, 32, 1.0},    {"before-36862", 8, 2, 32, 256, 8.0},
        {"before-36862", 8, 1, 32, 256, 8}, {"before-36862", 8, 8, 32, 256, 8},
        {"registry", 16, 2, 64, 64, 1.0},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_cell_request_t request = request_of("mooncake", "kimi-k3", rows[i].tp);
        k3_work_t         work;

        request.dp = rows[i].dp;
        request.tokens = 4;
        request.path_rule = rows[i].rule;
        work = work_for(request);
        assert_int_equal(work.rows_global, rows[i].rows);
        assert_int_equal(work.rows_dispatched, rows[i].dispatched);
        assert_true(work.dispatch_ratio == rows[i].ratio);
        assert_int_equal(work.assignments, rows[i].dispatched * 16);
        assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].messages, work.assignments);
        assert_int_equal(work.sum[K3_TRAFFIC_COMBINE].messages, work.assignments);
        assert_int_equal(work.rows_padding, 0);
        assert_true(work.dispatches);
    }
}

/* On the fast path the ranks' rows are disjoint and cover the batch. */
static void test_L01_each_row_has_one_sender(void **state)
{
    k3_cell_request_t request = request_of("deepep:ll", "tiny", 8);
    k3_cell_t         cell;
    uint64_t          next = 0, first, count;

    (void)state;
    request.skew = "ragged";
    cell = cell_of(request);
    for (uint32_t r = 0; r < 8; r++) {
        k3_cell_dispatched(&cell, r, &first, &count);
        assert_int_equal(first, next);
        next += count;
    }
    assert_int_equal(next, cell.layout.rows_global);
    k3_cell_destroy(&cell);
}

/* L04, L05: padding is counted apart and never dispatched. */
static void test_L05_padding_is_not_dispatched(void **state)
{
    static const struct {
        const char *skew;
        uint64_t    dp, rows, padding;
    } rows[] = {{"7,0", 2, 7, 1}, {"10", 1, 10, 6}, {"5,3", 2, 8, 4}};

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_cell_request_t request = request_of("mooncake", "tiny", 8);
        k3_work_t         work;

        request.dp = rows[i].dp;
        request.skew = rows[i].skew;
        work = work_for(request);
        assert_int_equal(work.rows_global, rows[i].rows);
        assert_int_equal(work.rows_padding, rows[i].padding);
        assert_int_equal(work.rows_dispatched, rows[i].rows);
        assert_true(work.dispatch_ratio == 1.0);
        assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].messages, rows[i].rows * 4);
        assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].signals, 8 * 64);
    }
}

/* --- imbalance and traces -------------------------------------------------------------------- */

/* All rows to expert 0: one expert, one rank, one QP. */
static void test_Q06_hot_expert(void **state)
{
    static int32_t    ids[8 * 16];
    k3_cell_request_t request = request_of("deepep:ll", "tiny:K=1", 8);
    k3_work_t         work;

    (void)state;
    write_trace(ids, 8 * 16, 1);
    request.routing = trace;
    request.nodes_as = 2;
    work = work_for(request);
    assert_true(work.imbalance_expert == 64.0);
    assert_true(work.imbalance_rank == 8.0);
    assert_true(work.has_imbalance_qp);
    /* 2 x 4 x 4 peers x 8 QPs leave their node; 4 of the 256 carry 16 records of 280 bytes, all
     * of them a signal of 4: 256 * 4484 / (4 * 4484 + 252 * 4). */
    assert_float_equal(work.imbalance_qp, 256.0 * 4484.0 / (4 * 4484.0 + 252 * 4.0), 1e-9);
    assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].lanes, 8 * 8 * 8);
    assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].messages, 128);
    assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].payload_remote, 7 * 16 * 264);
    assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].payload_network, 4 * 16 * 264);
    assert_int_equal(work.dedup_rows, 128);
}

static void test_imbalance_of_equal_load(void **state)
{
    enum { ROWS = 64 };
    static int32_t    ids[ROWS * 4];
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    k3_work_t         work;

    (void)state;
    for (int i = 0; i < ROWS * 4; i++) {
        ids[i] = i % 64;
    }
    write_trace(ids, ROWS, 4);
    request.routing = trace;
    request.tokens = 8;
    work = work_for(request);
    assert_true(work.imbalance_expert == 1.0);
    assert_true(work.imbalance_rank == 1.0);
    assert_false(work.has_imbalance_qp); /* one node */
    /* Four consecutive experts lie on one rank of eight experts each. */
    assert_int_equal(work.dedup_rows, ROWS);
    assert_int_equal(work.assignments, ROWS * 4);
}

/* -1 is not sent and not counted; a row of -1 only stays a row. */
static void test_P03_entries_not_sent(void **state)
{
    enum { ROWS = 16 };
    static int32_t    ids[ROWS * 4];
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    k3_cell_t         cell;
    k3_work_t         work;

    (void)state;
    for (int i = 0; i < ROWS * 4; i++) {
        ids[i] = i % 64;
    }
    for (int k = 0; k < 4; k++) {
        ids[4 * 5 + k] = -1;
    }
    ids[0] = ids[63] = ids[30] = -1;
    write_trace(ids, ROWS, 4);
    request.routing = trace;
    request.tokens = 2;
    cell = cell_of(request);
    check_slab_cell(&cell);
    work = work_of(&cell);
    assert_int_equal(work.rows_dispatched, ROWS);
    assert_int_equal(work.assignments, ROWS * 4 - 7);
    assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].messages, ROWS * 4 - 7);
    assert_int_equal(work.dedup_rows, ROWS - 1);
    k3_cell_destroy(&cell);
}

/* P02: a rank whose experts nobody picks still gets and sends every signal. */
static void test_P02_rank_without_work(void **state)
{
    enum { ROWS = 128 };
    static int32_t    ids[ROWS * 4];
    k3_cell_request_t request = request_of("deepep:ll", "tiny", 8);
    k3_cell_t         cell;

    (void)state;
    for (int i = 0; i < ROWS * 4; i++) {
        ids[i] = i % 24; /* ranks 0 to 2 */
    }
    write_trace(ids, ROWS, 4);
    request.routing = trace;
    cell = cell_of(request);
    check_slab_cell(&cell);
    k3_cell_destroy(&cell);
}

/* --- the baselines --------------------------------------------------------------------------- */

typedef struct mpi_seen {
    const k3_cell_t *cell;
    uint32_t         origin;
    uint64_t         notify, rows[2];
    bool             any;
    k3_flow_t        last;
} mpi_seen_t;

/* bf16 both ways, 8 bytes of row and expert in front. */
static void check_mpi_lane(const k3_flow_t *flow, void *arg)
{
    mpi_seen_t *s = arg;
    bool        back = flow->phase == K3_TRAFFIC_COMBINE;
    uint64_t    payload = 2 * (uint64_t)s->cell->model.latent;

    if (s->any) {
        assert_ascending(&s->last, flow);
    }
    s->any = true;
    s->last = *flow;
    assert_int_equal(back ? flow->dst : flow->src, s->origin);
    assert_int_equal(flow->qp, 0);
    assert_int_equal(flow->messages, 1);
    assert_int_equal(flow->signals, 0);
    assert_true(flow->doorbells == K3_DOORBELLS_UNKNOWN);
    if (flow->phase == K3_TRAFFIC_NOTIFY) {
        s->notify++;
        assert_int_equal(flow->payload, 0);
        assert_int_equal(flow->wire, 4 * s->cell->model.experts / s->cell->layout.tp);
        return;
    }
    assert_int_equal(flow->payload % payload, 0);
    assert_int_equal(flow->wire, flow->payload / payload * (payload + (back ? 0 : 8)));
    assert_true(flow->payload > 0);
    s->rows[back] += flow->payload / payload;
}

static void test_mpi_counts_and_bytes(void **state)
{
    static const char *const skews[] = {"equal", "ragged", "one-empty"};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        k3_error_t        err = K3_ERROR_INIT;
        k3_cell_request_t request = request_of("mpi", "kimi-k3", 32);
        k3_cell_t         cell;
        k3_work_t         work;
        k3_traffic_t      traffic;

        request.skew = skews[i];
        cell = cell_of(request);
        assert_int_equal(k3_traffic_open(&cell, &traffic, &err), K3_OK);
        for (uint32_t r = 0; r < 32; r++) {
            mpi_seen_t s = {.cell = &cell, .origin = r};

            k3_traffic_origin(&traffic, r, check_mpi_lane, &s);
            assert_int_equal(s.notify, 32);
            assert_int_equal(s.rows[0], cell.layout.rows[r] * 16);
            assert_int_equal(s.rows[1], cell.layout.rows[r] * 16);
        }
        k3_traffic_close(&traffic);
        work = work_of(&cell);
        assert_int_equal(work.sum[K3_TRAFFIC_NOTIFY].messages, 32 * 32);
        assert_int_equal(work.sum[K3_TRAFFIC_NOTIFY].wire, 32 * 32 * 28 * 4);
        assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].payload, work.assignments * 7168);
        assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].wire, work.assignments * 7176);
        assert_int_equal(work.sum[K3_TRAFFIC_COMBINE].wire, work.assignments * 7168);
        assert_true(work.sum[K3_TRAFFIC_DISPATCH].doorbells == K3_DOORBELLS_UNKNOWN);
        k3_cell_destroy(&cell);
    }
}

static void test_none_and_null_have_no_lanes(void **state)
{
    static const char *const backends[] = {"none", "null"};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        k3_work_t work = work_for(request_of(backends[i], "tiny", 8));

        assert_false(work.dispatches);
        assert_false(work.has_imbalance_qp);
        for (int t = 0; t < K3_TRAFFIC_COUNT; t++) {
            assert_int_equal(work.sum[t].lanes, 0);
            assert_int_equal(work.sum[t].wire, 0);
        }
    }
}

/* Distinct (row, rank) pairs of uniform routing: 7.07 of 16 at EP 8, 12.83 at EP 32 (hypergeometric
 * means). */
static void test_deduplicated_rows(void **state)
{
    static const struct {
        uint64_t tp;
        double   ranks;
    } rows[] = {{8, 7.07}, {16, 10.35}, {32, 12.83}, {64, 14.36}};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        k3_cell_request_t request = request_of("mooncake", "kimi-k3", rows[i].tp);
        k3_work_t         work;

        request.tokens = 4096 / rows[i].tp;
        work = work_for(request);
        assert_float_equal((double)work.dedup_rows / 4096.0, rows[i].ranks, 0.06);
    }
}

/* Nothing was counted: no imbalance, rather than a perfect one. */
static void test_imbalance_of_nothing(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    k3_work_t         work;

    (void)state;
    work = work_for(request);
    assert_true(work.has_imbalance_expert && work.has_imbalance_rank);
    request.tokens = 0;
    work = work_for(request);
    assert_false(work.has_imbalance_expert || work.has_imbalance_rank);
    request = request_of("none", "tiny", 8);
    work = work_for(request);
    assert_true(work.has_imbalance_expert);
    assert_false(work.has_imbalance_rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slab_lanes),
        cmocka_unit_test(test_Q13_slab_lanes_of_odd_qps),
        cmocka_unit_test(test_logfmt_bounds),
        cmocka_unit_test(test_P01_slab_lanes_of_uneven_ranks),
        cmocka_unit_test(test_slab_lanes_of_the_fallback),
        cmocka_unit_test(test_reference_messages_of_256_experts),
        cmocka_unit_test(test_reference_messages_of_896_experts),
        cmocka_unit_test(test_doorbells_by_rows),
        cmocka_unit_test(test_mapped_lanes_ring_no_doorbell),
        cmocka_unit_test(test_L01_dispatched_once_or_by_all),
        cmocka_unit_test(test_L01_each_row_has_one_sender),
        cmocka_unit_test(test_L05_padding_is_not_dispatched),
        cmocka_unit_test(test_Q06_hot_expert),
        cmocka_unit_test(test_imbalance_of_equal_load),
        cmocka_unit_test(test_P03_entries_not_sent),
        cmocka_unit_test(test_P02_rank_without_work),
        cmocka_unit_test(test_mpi_counts_and_bytes),
        cmocka_unit_test(test_none_and_null_have_no_lanes),
        cmocka_unit_test(test_deduplicated_rows),
        cmocka_unit_test(test_imbalance_of_nothing),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
