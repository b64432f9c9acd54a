#include "bench/plan/cell_rows.h"
#include "tests/unit/plan/plan_test.h"

#include "bench/plan/ranks.h"
#include "bench/plan/traffic.h"

enum { RANKS_MAX = 64, QPS_MAX = 16, EXPERTS_MAX = 1024 };

static k3_ranks_t ranks_of(k3_cell_request_t request)
{
    k3_cell_t  cell = cell_of(request);
    k3_ranks_t g;

    k3_ranks_plan(&cell, &g);
    k3_cell_destroy(&cell);
    return g;
}

/* --- every lane of every origin against a count from the rules ------------------------------- */

typedef struct lane {
    uint64_t messages, signals, payload, wire;
} lane_t;

typedef struct lanes {
    lane_t at[2][K3_TRAFFIC_COUNT][RANKS_MAX][QPS_MAX]; /* pulled, phase, peer, QP */
} lanes_t;

/* The origin's rows, by the routing alone. */
typedef struct rows {
    const k3_cell_t *cell;
    uint32_t         origin, ranks, local, topk;
    uint64_t         row[RANKS_MAX][256]; /* numbers of the rows for each rank */
    uint64_t         count[RANKS_MAX], pairs[RANKS_MAX], expert[EXPERTS_MAX];
} rows_t;

static lanes_t got, want;
static rows_t  rows;

static void read_rows(const k3_cell_t *cell, uint32_t origin)
{
    uint64_t first, n;
    int32_t  ids[K3_TOPK_MAX];

    memset(&rows, 0, sizeof(rows));
    rows.cell = cell;
    rows.origin = origin;
    rows.ranks = cell->layout.tp;
    rows.local = cell->model.experts / rows.ranks;
    rows.topk = cell->model.topk;
    k3_cell_dispatched(cell, origin, &first, &n);
    for (uint64_t i = 0; i < n; i++) {
        k3_routing_row(cell->routing, first + i, ids);
        for (uint32_t k = 0; k < rows.topk; k++) {
            if (ids[k] >= 0) {
                uint32_t d = (uint32_t)ids[k] / rows.local;

                rows.expert[ids[k]]++;
                rows.pairs[d]++;
                if (rows.count[d] == 0 || rows.row[d][rows.count[d] - 1] != i) {
                    rows.row[d][rows.count[d]++] = i;
                }
            }
        }
    }
}

static void keep(const k3_flow_t *flow, void *arg)
{
    bool    back = flow->phase == K3_TRAFFIC_COMBINE;
    lane_t *lane = &got.at[flow->pulled][flow->phase][back ? flow->src : flow->dst][flow->qp];

    (void)arg;
    assert_int_equal(back ? flow->dst : flow->src, rows.origin);
    assert_int_equal(lane->messages + lane->signals, 0); /* visited once */
    assert_true(flow->messages + flow->signals > 0);
    assert_true(flow->doorbells == 0 || flow->doorbells == K3_DOORBELLS_UNKNOWN);
    *lane = (lane_t){flow->messages, flow->signals, flow->payload, flow->wire};
}

static void put(int phase, uint32_t peer, uint32_t qp, uint64_t payload, uint64_t wire)
{
    lane_t *lane = &want.at[0][phase][peer][qp];

    lane->messages++;
    lane->payload += payload;
    lane->wire += wire;
}

static void signal(int phase, uint32_t peer, uint32_t qp, uint64_t bytes)
{
    want.at[0][phase][peer][qp].signals++;
    want.at[0][phase][peer][qp].wire += bytes;
}

/* kimi-k3: 3584 wide, 16 of 896; fp8 payload 3696, bf16 7168. */
static void want_deepep_v2(uint32_t d)
{
    put(K3_TRAFFIC_NOTIFY, d, 0, 0, 8);
    put(K3_TRAFFIC_NOTIFY, d, 0, 0, 8 * rows.local);
    for (uint64_t s = 0; s < rows.count[d]; s++) {
        put(K3_TRAFFIC_DISPATCH, d, 1 + rows.row[d][s] % 48 % 8, 3696, 3936);
        put(K3_TRAFFIC_COMBINE, d, s % 48 % 9, 7168, 7296);
    }
    for (int times = 0; times < 2; times++) {
        signal(K3_TRAFFIC_DISPATCH, d, 0, 8);
        signal(K3_TRAFFIC_COMBINE, d, 0, 8);
    }
}

static void want_asyncll(uint32_t d)
{
    uint64_t first = rows.count[d] - rows.count[d] / 2, second = rows.count[d] / 2;

    if (first > 0) {
        put(K3_TRAFFIC_DISPATCH, d, 0, first * 7168, first * 7300);
        put(K3_TRAFFIC_COMBINE, d, 0, first * 7168, first * 7168);
    }
    if (second > 0) {
        put(K3_TRAFFIC_DISPATCH, d, 1, second * 7168, second * 7300);
        put(K3_TRAFFIC_COMBINE, d, 1, second * 7168, second * 7168);
    }
    for (uint32_t q = 0; q < 2; q++) {
        signal(K3_TRAFFIC_DISPATCH, d, q, 8);
        signal(K3_TRAFFIC_COMBINE, d, q, 8);
    }
}

static void want_nccl_ep(uint32_t d)
{
    for (uint64_t s = 0; s < rows.count[d]; s++) {
        put(K3_TRAFFIC_DISPATCH, d, s % rows.local % 4, 3696, 3744);
    }
    for (uint32_t x = 0; x < rows.local; x++) {
        for (uint64_t i = 0; i < rows.expert[d * rows.local + x]; i++) {
            put(K3_TRAFFIC_COMBINE, d, x % 4, 7168, 7168);
        }
        signal(K3_TRAFFIC_DISPATCH, d, x % 4, 8);
        signal(K3_TRAFFIC_COMBINE, d, x % 4, 8);
    }
}

static void want_intra(uint32_t d)
{
    for (uint64_t s = 0; s < rows.count[d]; s++) {
        put(K3_TRAFFIC_DISPATCH, d, 0, 7168, 7300);
        put(K3_TRAFFIC_COMBINE, d, 0, 7168, 7168);
    }
    signal(K3_TRAFFIC_DISPATCH, d, 0, 4);
    signal(K3_TRAFFIC_COMBINE, d, 0, 8);
}

static void want_pulled(uint32_t d)
{
    want.at[1][K3_TRAFFIC_COMBINE][d][0] =
        (lane_t){rows.count[d], 0, rows.count[d] * 7168, rows.count[d] * 7168};
}

static void want_intra_pull(uint32_t d)
{
    for (uint64_t s = 0; s < rows.count[d]; s++) {
        put(K3_TRAFFIC_DISPATCH, d, 0, 7168, 7300);
    }
    signal(K3_TRAFFIC_DISPATCH, d, 0, 4);
    signal(K3_TRAFFIC_COMBINE, d, 0, 8);
    want_pulled(d);
}

static void want_flashinfer(uint32_t d)
{
    for (uint64_t s = 0; s < rows.count[d]; s++) {
        put(K3_TRAFFIC_DISPATCH, d, 0, 7168, 7296);
    }
    signal(K3_TRAFFIC_DISPATCH, d, 0, 8);
    signal(K3_TRAFFIC_COMBINE, d, 0, 4);
    want_pulled(d);
}

/* 16 rows a rank: private ranges of int(ceil(16 * 16 / 896) * 1.2) * L = L rows. */
static void want_pplx_garden(uint32_t d)
{
    uint64_t n = rows.pairs[d], ahead = n < rows.local ? n : rows.local;
    bool     remote = d != rows.origin;

    if (remote) {
        put(K3_TRAFFIC_NOTIFY, d, 0, 0, 4 * 896);
        signal(K3_TRAFFIC_NOTIFY, d, 0, 4);
        signal(K3_TRAFFIC_DISPATCH, d, 0, 4);
        signal(K3_TRAFFIC_COMBINE, d, 0, 4);
        signal(K3_TRAFFIC_COMBINE, d, 1, 4);
    }
    for (int part = 0; part < 2; part++) {
        uint64_t rows_of = part == 0 ? ahead : n - ahead;

        if (rows_of > 0) {
            put(K3_TRAFFIC_DISPATCH, d, 1, rows_of * 7168, rows_of * 7184);
            if (remote) {
                signal(K3_TRAFFIC_DISPATCH, d, 1, 4);
            }
        }
    }
    if (n > 0) {
        put(K3_TRAFFIC_COMBINE, d, 1, n * 7168, n * 7168);
    }
}

static void compare_origin(const char *name)
{
    for (int pulled = 0; pulled < 2; pulled++) {
        for (int phase = 0; phase < K3_TRAFFIC_COUNT; phase++) {
            for (uint32_t d = 0; d < rows.ranks; d++) {
                for (uint32_t q = 0; q < QPS_MAX; q++) {
                    const lane_t *a = &got.at[pulled][phase][d][q];
                    const lane_t *b = &want.at[pulled][phase][d][q];

                    if (memcmp(a, b, sizeof(*a)) != 0) {
                        fail_msg("%s R %u origin %u phase %d peer %u QP %u: %llu messages, %llu "
                                 "signals, %llu bytes; by the rules %llu, %llu, %llu",
                                 name, rows.ranks, rows.origin, phase, d, q,
                                 (unsigned long long)a->messages, (unsigned long long)a->signals,
                                 (unsigned long long)a->wire, (unsigned long long)b->messages,
                                 (unsigned long long)b->signals, (unsigned long long)b->wire);
                    }
                }
            }
        }
    }
}

static void check_cell(k3_cell_request_t request, void (*want_peer)(uint32_t))
{
    k3_error_t   err = K3_ERROR_INIT;
    k3_cell_t    cell = cell_of(request);
    k3_traffic_t traffic;

    assert_int_equal(k3_traffic_open(&cell, &traffic, &err), K3_OK);
    for (uint32_t origin = 0; origin < cell.layout.tp; origin++) {
        memset(&got, 0, sizeof(got));
        memset(&want, 0, sizeof(want));
        read_rows(&cell, origin);
        k3_traffic_origin(&traffic, origin, keep, NULL);
        for (uint32_t d = 0; d < rows.ranks; d++) {
            want_peer(d);
        }
        compare_origin(request.backend);
    }
    k3_traffic_close(&traffic);
    k3_cell_destroy(&cell);
}

static void test_lanes_by_the_rules(void **state)
{
    static const struct {
        const char *backend;
        void (*want_peer)(uint32_t);
        bool one_node;
    } backends[] = {
        {"deepep_v2:direct", want_deepep_v2},
        {"mori:asyncll", want_asyncll},
        {"nccl_ep", want_nccl_ep},
        {"mori:intra", want_intra, true},
        {"mori:intra_pull", want_intra_pull, true},
        {"flashinfer", want_flashinfer, true},
        {"pplx_garden", want_pplx_garden},
    };
    static const char *const routings[] = {"uniform", "khot:8:0.9", "hot-rank:1:0.8"};

    (void)state;
    for (unsigned b = 0; b < sizeof(backends) / sizeof(backends[0]); b++) {
        for (uint64_t tp = 8; tp <= 64; tp *= 2) {
            for (unsigned r = 0; r < 3; r++) {
                k3_cell_request_t request = request_of(backends[b].backend, "kimi-k3", tp);

                request.ranks_per_node = backends[b].one_node ? (uint32_t)tp : 8;
                request.routing = routings[r];
                request.skew = r == 1 ? "one-empty" : "equal";
                check_cell(request, backends[b].want_peer);
            }
        }
    }
}

/* Sums of one iteration: rows once for each rank, counts and signals for each pair of ranks. */
static void test_sums(void **state)
{
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    for (uint64_t tp = 8; tp <= 64; tp *= 2) {
        k3_cell_request_t request = request_of("deepep_v2:direct", "kimi-k3", tp);
        k3_cell_t         cell = cell_of(request);
        k3_work_t         work;
        uint64_t          local = 896 / tp;

        assert_int_equal(k3_work_plan(&cell, &work, &err), K3_OK);
        assert_int_equal(work.sum[K3_TRAFFIC_NOTIFY].messages, 2 * tp * tp);
        assert_int_equal(work.sum[K3_TRAFFIC_NOTIFY].wire, 8 * (1 + local) * tp * tp);
        assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].messages, work.dedup_rows);
        assert_int_equal(work.sum[K3_TRAFFIC_COMBINE].messages, work.dedup_rows);
        assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].signals, 2 * tp * tp);
        assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].wire, work.dedup_rows * 3936 + 16 * tp * tp);
        assert_int_equal(work.sum[K3_TRAFFIC_COMBINE].wire, work.dedup_rows * 7296 + 16 * tp * tp);
        k3_cell_destroy(&cell);
    }
}

/* --- sizes ----------------------------------------------------------------------------------- */

static uint64_t buffer_of(const char *backend, const char *model, uint64_t tp, uint64_t m,
                          uint32_t ranks_per_node)
{
    k3_cell_request_t request = request_of(backend, model, tp);

    request.dispatch_dtype = "bf16";
    request.tokens = 1;
    request.max_tokens = m;
    request.ranks_per_node = ranks_per_node;
    return ranks_of(request).buffer;
}

/* tok_d M (R + 1 where some peer is remote) against tok_c M (min(R, K) + R where ...), up to 2 MiB. */
static void test_deepep_v2_sizes(void **state)
{
    const uint64_t    mib = 1 << 20;
    k3_cell_request_t request = request_of("deepep_v2:direct", "deepseek-v3", 8);

    (void)state;
    assert_int_equal(buffer_of("deepep_v2:direct", "deepseek-v3", 16, 128, 8), 44 * mib);
    assert_int_equal(buffer_of("deepep_v2:direct", "deepseek-v3", 64, 128, 8), 128 * mib);
    assert_int_equal(buffer_of("deepep_v2:direct", "deepseek-v3", 8, 4096, 8), 452 * mib);
    /* fp8 is sized with 4 bytes for each 32 values: 7168 + 896 + 128. */
    request.max_tokens = 4096;
    assert_int_equal(ranks_of(request).record, 7520);
    assert_int_equal(ranks_of(request).buffer,
                     (14400ull * 4096 * 8 + 2 * mib - 1) / (2 * mib) * (2 * mib));
}

static void test_flashinfer_sizes(void **state)
{
    (void)state;
    assert_int_equal(buffer_of("flashinfer", "deepseek-v3", 16, 128, 16), 58851328);
    /* O10: 1.75 GiB. */
    assert_int_equal(buffer_of("flashinfer", "deepseek-v3", 64, 1024, 64), 1883242496);
}

static void test_mori_sizes(void **state)
{
    (void)state;
    assert_int_equal(buffer_of("mori:asyncll", "kimi-k3", 16, 128, 8), 3ull * 16 * 128 * 7300);
    assert_int_equal(buffer_of("mori:intra", "kimi-k3", 8, 128, 8), 2ull * 8 * 128 * 7300);
}

static void test_pplx_garden_sizes(void **state)
{
    k3_cell_request_t request = request_of("pplx_garden", "deepseek-v3", 8);
    k3_ranks_t        g;

    (void)state;
    request.max_tokens = 128;
    g = ranks_of(request);
    assert_int_equal(g.private_rows, 4 * 32); /* int(ceil(128 * 8 / 256) * 1.2) = 4 */
    assert_int_equal(g.shared_rows, 128 * 8 * 8);
    assert_int_equal(g.record, 7168 * 2 + 16);
    assert_int_equal(g.buffer, 2ull * (8 * 128 + 8192) * 14352);
    request.max_tokens = 160; /* ceil(5) * 1.2 = 6 */
    assert_int_equal(ranks_of(request).private_rows, 6 * 32);
    request.dispatch_dtype = "fp8";
    assert_int_equal(ranks_of(request).record, 7408);
    assert_int_equal(ranks_of(request).unit, 14336);
}

static void test_sizes_that_do_not_fit(void **state)
{
    unsigned            i = 0;
    const k3_profile_t *p;

    (void)state;
    while ((p = next_available(K3_ENGINE_RANKS, &i)) != NULL) {
        k3_cell_request_t request = request_of(p->name, "tiny", 8);
        k3_error_t        err = K3_ERROR_INIT;
        k3_cell_t         cell;
        k3_ranks_t        g;

        request.max_tokens = UINT64_C(1) << 60;
        if (k3_cell_create(&request, &cell, &err) == K3_OK) {
            k3_ranks_plan(&cell, &g);
            assert_int_equal(g.bytes, UINT64_MAX);
            k3_cell_destroy(&cell);
        }
    }
}

/* --- where things lie ------------------------------------------------------------------------ */

static void check_range(uint64_t at, uint64_t count, uint64_t size, uint64_t end)
{
    assert_true(at != K3_NO_AREA && at + count * size <= end);
}

static void check_geometry(const k3_cell_t *cell)
{
    const k3_profile_t *p = cell->profile;
    bool                packed = p->qp_map == K3_QP_SPLIT;
    k3_ranks_t          g;
    uint64_t            all, before;

    k3_ranks_plan(cell, &g);
    all = g.ranks * g.m;
    before = g.buffer;
    assert_true(g.scales_at >= g.values_at && g.record >= g.record_payload);
    assert_true(g.ids_at == K3_NO_AREA || p->slots == K3_SLOTS_SPLIT ||
                g.ids_at + (uint64_t)g.topk * g.id_bytes <= g.record);
    if (p->slots != K3_SLOTS_SPLIT) {
        check_range(g.recv[0], all, g.record, g.buffer);
        if (g.send != K3_NO_AREA) {
            check_range(g.send, packed ? all : g.m, g.record, g.buffer);
        }
        if (g.back != K3_BACK_PULLED) {
            uint64_t slots = g.back == K3_BACK_BY_TOPK ? g.topk : g.ranks;

            check_range(g.back_recv[g.sets - 1], slots * g.m, g.result, g.buffer);
        }
    } else {
        check_range(g.recv[0], g.private_rows * g.ranks + g.shared_rows, g.unit, g.buffer);
        check_range(g.send, g.m * g.topk, g.record, g.recv[0]);
        check_range(g.back_recv[0], g.m * g.topk, g.result, g.buffer);
    }
    for (int w = K3_WORDS_COUNT - 1; w >= 0; w--) {
        if (g.words[w].at != K3_NO_AREA) {
            assert_true(g.words[w].at >= before && g.words[w].at % 128 == 0);
            check_range(g.words[w].at, g.words[w].count, g.words[w].bytes, g.bytes);
        }
    }
    for (uint64_t i = 0; i < 200; i++) {
        assert_true(k3_ranks_row_qp(cell, &g, i, i) < g.qps);
        assert_true(k3_ranks_back_qp(cell, &g, i) < g.qps);
    }
}

static void test_areas(void **state)
{
    static const char *const models[] = {"kimi-k3", "tiny", "kimi-k3-mini", "tiny:E=8,K=8,L=128"};
    static const char *const formats[] = {"bf16", "fp8", "mxfp8", "mxfp4"};
    unsigned                 i = 0;
    const k3_profile_t      *p;

    (void)state;
    while ((p = next_available(K3_ENGINE_RANKS, &i)) != NULL) {
        for (unsigned c = 0; c < 4 * 4 * 3; c++) {
            k3_cell_request_t request = request_of(p->name, models[c / 12], 8);
            k3_error_t        err = K3_ERROR_INIT;
            k3_cell_t         cell;

            request.dispatch_dtype = formats[c / 3 % 4];
            request.max_tokens = 33;
            request.nodes_as = c % 3 == 0 ? 2 : 0;
            request.p2p = c % 3 != 1;
            if (k3_cell_create(&request, &cell, &err) == K3_OK) {
                check_geometry(&cell);
                k3_cell_destroy(&cell);
            }
        }
    }
}

/* A range over the QPs: contiguous, all rows once, the first parts full. */
static void test_parts(void **state)
{
    (void)state;
    for (uint32_t q = 1; q <= 5; q++) {
        k3_ranks_t g = {.qps = q};

        for (uint64_t n = 0; n < 23; n++) {
            uint64_t next = 0;

            for (uint32_t i = 0; i < q; i++) {
                uint64_t first, rows_of = k3_ranks_part(&g, n, i, &first);

                assert_true(rows_of == 0 || first == next);
                assert_true(rows_of <= (n + q - 1) / q);
                next += rows_of;
            }
            assert_int_equal(next, n);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_by_the_rules),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_deepep_v2_sizes),
        cmocka_unit_test(test_flashinfer_sizes),
        cmocka_unit_test(test_mori_sizes),
        cmocka_unit_test(test_pplx_garden_sizes),
        cmocka_unit_test(test_sizes_that_do_not_fit),
        cmocka_unit_test(test_areas),
        cmocka_unit_test(test_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
