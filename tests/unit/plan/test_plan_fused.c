/* The fused family: messages and bytes counted row by row in the test, sizes to the byte. */
#include "bench/plan/cell_rows.h"
#include "tests/unit/plan/plan_test.h"

#include "bench/plan/buffers.h"
#include "bench/plan/fused.h"
#include "bench/plan/traffic.h"
#include "harness/base/arith.h"

static k3_cell_request_t in_one_node(const char *backend, const char *model, uint64_t tp)
{
    k3_cell_request_t request = request_of(backend, model, tp);

    request.ranks_per_node = (uint32_t)tp;
    return request;
}

/* --- traffic --------------------------------------------------------------------------------- */

enum { RANKS_MAX = 64 };

typedef struct lane {
    uint64_t messages, signals, payload, wire;
} lane_t;

/* By (phase, pulled), source, destination. */
typedef struct seen {
    lane_t   lane[K3_TRAFFIC_COUNT][2][RANKS_MAX][RANKS_MAX];
    unsigned visits[K3_TRAFFIC_COUNT][2][RANKS_MAX][RANKS_MAX];
} seen_t;

static seen_t   seen;
static uint64_t pairs[RANKS_MAX][RANKS_MAX]; /* (row, expert) of an origin at an owner */

static void note(const k3_flow_t *flow, void *arg)
{
    lane_t *lane = &seen.lane[flow->phase][flow->pulled][flow->src][flow->dst];

    (void)arg;
    assert_int_equal(flow->qp, 0);
    assert_int_equal(flow->doorbells, 0);
    assert_int_equal(flow->signals_spare, 0);
    assert_int_equal(flow->wire_spare, 0);
    *lane = (lane_t){flow->messages, flow->signals, flow->payload, flow->wire};
    seen.visits[flow->phase][flow->pulled][flow->src][flow->dst]++;
}

static void count_pairs(const k3_cell_t *cell)
{
    uint32_t local = cell->model.experts / cell->layout.tp;

    memset(pairs, 0, sizeof(pairs));
    for (uint32_t origin = 0; origin < cell->layout.tp; origin++) {
        uint64_t first, n;
        int32_t  ids[K3_TOPK_MAX];

        k3_cell_dispatched(cell, origin, &first, &n);
        for (uint64_t row = first; row < first + n; row++) {
            k3_routing_row(cell->routing, row, ids);
            for (uint32_t k = 0; k < cell->model.topk; k++) {
                if (ids[k] >= 0) {
                    pairs[origin][(uint32_t)ids[k] / local]++;
                }
            }
        }
    }
}

static void walk(const k3_cell_t *cell)
{
    k3_traffic_t traffic = {0};
    k3_error_t   err = K3_ERROR_INIT;

    memset(&seen, 0, sizeof(seen));
    assert_int_equal(k3_traffic_open(cell, &traffic, &err), K3_OK);
    for (uint32_t origin = 0; origin < cell->layout.tp; origin++) {
        k3_traffic_origin(&traffic, origin, note, NULL);
    }
    k3_traffic_close(&traffic);
    count_pairs(cell);
}

static void assert_lane(k3_traffic_phase_t phase, bool pulled, uint32_t src, uint32_t dst,
                        lane_t want)
{
    const lane_t *got = &seen.lane[phase][pulled][src][dst];
    bool          any = want.messages + want.signals > 0;

    assert_int_equal(seen.visits[phase][pulled][src][dst], any ? 1 : 0);
    assert_int_equal(got->messages, want.messages);
    assert_int_equal(got->signals, want.signals);
    assert_int_equal(got->payload, want.payload);
    assert_int_equal(got->wire, want.wire);
}

/* n rows for L experts of one owner: n indices of 4 bytes, L counts and L adds of 8; one word of the
 * barrier; n reads; n results and two words back. */
static void check_pull(const k3_cell_t *cell, uint64_t payload, uint64_t result)
{
    uint64_t local = cell->model.experts / cell->layout.tp;

    walk(cell);
    for (uint32_t from = 0; from < cell->layout.tp; from++) {
        for (uint32_t owner = 0; owner < cell->layout.tp; owner++) {
            uint64_t n = pairs[from][owner];

            assert_lane(K3_TRAFFIC_NOTIFY, false, from, owner,
                        (lane_t){n + local, local, 0, 4 * n + 16 * local});
            assert_lane(K3_TRAFFIC_DISPATCH, false, from, owner, (lane_t){0, 1, 0, 4});
            assert_lane(K3_TRAFFIC_DISPATCH, true, from, owner,
                        (lane_t){n, 0, n * payload, n * (payload + 4)});
            assert_lane(K3_TRAFFIC_COMBINE, false, owner, from,
                        (lane_t){n, 2, n * result, n * result + 8});
        }
    }
}

static void check_window(const k3_cell_t *cell, uint64_t payload, uint64_t record, uint64_t result)
{
    uint64_t local = cell->model.experts / cell->layout.tp;

    walk(cell);
    for (uint32_t from = 0; from < cell->layout.tp; from++) {
        for (uint32_t owner = 0; owner < cell->layout.tp; owner++) {
            uint64_t n = pairs[from][owner];

            assert_lane(K3_TRAFFIC_NOTIFY, false, from, owner, (lane_t){0});
            assert_lane(K3_TRAFFIC_DISPATCH, false, from, owner,
                        (lane_t){n, local, n * payload, n * record + 32 * local});
            assert_lane(K3_TRAFFIC_COMBINE, false, owner, from,
                        (lane_t){n, local, n * result, n * result + 32 * local});
        }
    }
}

static void test_messages_and_bytes(void **state)
{
    static const char *const skews[] = {"equal", "one-empty", "all-but-one-empty", "ragged"};
    static const uint64_t    sizes[] = {8, 16, 32, 64};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned s = 0; s < 4; s++) {
            k3_cell_request_t request = in_one_node("megamoe", "kimi-k3", sizes[i]);
            k3_cell_t         cell;

            request.skew = skews[s];
            cell = cell_of(request);
            check_pull(&cell, 3584 + 112, 7168);
            k3_cell_destroy(&cell);
            request.backend = "ascend_fuseep";
            cell = cell_of(request);
            check_window(&cell, 3584 + 4, 3616, 7168);
            k3_cell_destroy(&cell);
        }
    }
}

static void test_formats(void **state)
{
    k3_cell_request_t request = in_one_node("megamoe", "kimi-k3", 8);
    k3_cell_t         cell;

    (void)state;
    request.dispatch_dtype = "mxfp4";
    cell = cell_of(request);
    check_pull(&cell, 1792 + 112, 7168);
    k3_cell_destroy(&cell);
    request.backend = "flashinfer_megamoe";
    request.dispatch_dtype = "bf16";
    request.combine_dtype = "mxfp8";
    cell = cell_of(request);
    check_pull(&cell, 7168, 3696);
    k3_cell_destroy(&cell);
    request = in_one_node("ascend_fuseep", "deepseek-v3", 8);
    request.dispatch_dtype = "bf16";
    cell = cell_of(request);
    check_window(&cell, 14336, 14336, 14336);
    k3_cell_destroy(&cell);
}

/* All ranks dispatch all rows on the fallback. */
static void test_fallback(void **state)
{
    static const char *const backends[] = {"megamoe", "ascend_fuseep"};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        k3_cell_request_t request = in_one_node(backends[i], "tiny", 8);
        k3_cell_t         cell;

        request.path = "fallback";
        cell = cell_of(request);
        if (i == 0) {
            check_pull(&cell, cell.model.latent + cell.model.latent / 32, 2 * cell.model.latent);
        } else {
            check_window(&cell, cell.model.latent + 4, cell.model.latent + 32,
                         2 * cell.model.latent);
        }
        assert_int_equal(pairs[3][0], pairs[0][0]);
        k3_cell_destroy(&cell);
    }
}

/* --- sizes ----------------------------------------------------------------------------------- */

static k3_pull_t pull_of(k3_cell_request_t request)
{
    k3_cell_t cell = cell_of(request);
    k3_pull_t pull;

    k3_pull_plan(&cell, &pull);
    k3_cell_destroy(&cell);
    return pull;
}

/* 3888 bytes a row of input for Kimi-K3, 384 rows for any bound up to 384. */
static void test_pull_sizes(void **state)
{
    static const struct {
        uint64_t tp, m, pool, workspace, input, combine, bytes;
    } rows[] = {
        {8, 128, 70656, 11874720, 1492992, 44040192, 62682560},
        {16, 128, 109056, 23345120, 1492992, 44040192, 74152960},
        {16, 384, 109056, 23345120, 1492992, 44040192, 74152960},
        {32, 1, 201984, 46480128, 1492992, 44040192, 97287936},
        {64, 128, 346752, 92257424, 1492992, 44040192, 143065280},
        {16, 8192, 2173440, 510539744, 32845824, 968884224, 1517544448},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_cell_request_t request = in_one_node("megamoe", "kimi-k3", rows[i].tp);
        k3_pull_t         p;

        request.tokens = 1;
        request.max_tokens = rows[i].m;
        p = pull_of(request);
        assert_int_equal(p.m, k3_round_up(rows[i].m, 384));
        assert_int_equal(p.input_bytes, p.m * 3888);
        assert_int_equal(p.pool, rows[i].pool);
        assert_int_equal(p.workspace_bytes, rows[i].workspace);
        assert_int_equal(p.input_bytes, rows[i].input);
        assert_int_equal(p.ring1_bytes, 768 * 3700);
        assert_int_equal(p.ring2_bytes, 768 * (3072 + 96));
        assert_int_equal(p.combine_bytes, rows[i].combine);
        assert_int_equal(p.combine_bytes, 16 * p.m * 7168);
        assert_int_equal(p.bytes, rows[i].bytes);
    }
}

static void test_pull_sizes_of_formats(void **state)
{
    k3_cell_request_t request = in_one_node("megamoe", "kimi-k3", 16);
    k3_pull_t         p;

    (void)state;
    request.dispatch_dtype = "mxfp4";
    p = pull_of(request);
    assert_int_equal(p.input_bytes, 804864);
    assert_int_equal(p.bytes, 70908928);
    request.backend = "flashinfer_megamoe";
    request.dispatch_dtype = "bf16";
    request.combine_dtype = "mxfp8";
    p = pull_of(request);
    assert_int_equal(p.input_bytes, 2826240);
    assert_int_equal(p.combine_bytes, 22708224);
    assert_int_equal(p.bytes, 59106304);
}

/* Areas do not overlap, and words lie at multiples of their size. */
static void test_pull_areas(void **state)
{
    k3_pull_t p = pull_of(in_one_node("megamoe", "kimi-k3:L=3616", 16));
    uint64_t  begins[] = {p.barrier,     p.sent,         p.received,    p.sums,    p.list,
                          p.source,      p.values,       p.ids,         p.weights, p.scales,
                          p.ring_values, p.ring_weights, p.ring_scales, p.combine, p.bytes};

    (void)state;
    for (unsigned i = 0; i + 1 < sizeof(begins) / sizeof(begins[0]); i++) {
        assert_true(begins[i] < begins[i + 1]);
    }
    assert_int_equal(p.received % 8 + p.sums % 8 + p.ids % 8, 0);
    assert_int_equal(p.list % 4 + p.source % 4 + p.weights % 4 + p.ring_weights % 4, 0);
    assert_int_equal(k3_pull_barrier_at(&p, 1) - k3_pull_barrier_at(&p, 0), 4);
    assert_int_equal(k3_pull_barrier_at(&p, 2), k3_pull_barrier_at(&p, 0));
    assert_int_equal(k3_pull_received_at(&p, 15, 55) + 8, p.sums);
    assert_true(k3_pull_list_at(&p, 55, 15, p.m * 16 - 1) + 4 == p.source);
    assert_true(k3_pull_result_at(&p, 15, p.m - 1) + p.row.result <= p.bytes);
}

/* (M R min(L, K) W 2 + 2 MiB) 2. */
static void test_window_sizes(void **state)
{
    static const struct {
        const char *model;
        uint64_t    tp, m, bytes;
    } rows[] = {
        {"kimi-k3", 8, 128, 239075328},      {"kimi-k3", 16, 128, 473956352},
        {"kimi-k3", 64, 128, 1648361472},    {"deepseek-v3", 8, 128, 239075328},
        {"deepseek-v3", 64, 128, 943718400}, {"deepseek-v3", 16, 256, 943718400},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_cell_request_t request = in_one_node("ascend_fuseep", rows[i].model, rows[i].tp);
        k3_cell_t         cell;
        k3_window_t       w;
        k3_memory_t       memory;

        request.max_tokens = rows[i].m;
        request.generation = "k3"; /* larger than upstream's default */
        cell = cell_of(request);
        k3_window_plan(&cell, &w);
        assert_int_equal(w.bytes, rows[i].bytes);
        assert_int_equal(w.status_stride, cell.model.experts > 512 ? 256 : 512);
        assert_int_equal(w.status_bytes, 2 << 20);
        assert_true(w.slot <= 2 * (uint64_t)w.row.width && w.slot % 32 == 0);
        assert_true(k3_window_row_at(&w, 1, w.row.ranks - 1, w.rows_from - 1) + w.result_slot <=
                    w.bytes);
        k3_memory_plan(&cell, 0, &memory);
        assert_int_equal(memory.block, rows[i].bytes);
        k3_cell_destroy(&cell);
    }
}

static void test_too_big(void **state)
{
    k3_cell_request_t request = in_one_node("megamoe", "kimi-k3", 64);

    (void)state;
    request.max_tokens = UINT64_MAX / 64;
    assert_true(pull_of(request).bytes == K3_TOO_BIG);
}

/* --- components ------------------------------------------------------------------------------ */

static void test_components(void **state)
{
    static const char *const fused[] = {"megamoe", "flashinfer_megamoe", "ascend_fuseep"};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        k3_cell_request_t request = in_one_node(fused[i], "tiny", 8);
        k3_cell_t         cell;

        for (unsigned c = 0; c < 3; c++) {
            request.component = ((const char *const[]){"region", "pair", "experts"})[c];
            cell = cell_of(request);
            k3_cell_destroy(&cell);
        }
        request.component = "dispatch";
        assert_cell_refused(request, K3_ERR_UNSUPPORTED, fused[i], "overlap", "dispatch alone");
        request.component = "combine";
        assert_cell_refused(request, K3_ERR_UNSUPPORTED, fused[i], "overlap", "combine alone");
        request.component = "region";
        request.p2p = false;
        assert_cell_refused(request, K3_ERR_UNSUPPORTED, fused[i], "--p2p off", NULL);
        request.p2p = true;
        request.nodes_as = 2;
        assert_cell_refused(request, K3_ERR_UNSUPPORTED, fused[i], "1 node, not 2", NULL);
        request.nodes_as = 0;
        request.qps = 1;
        assert_cell_refused(request, K3_ERR_UNSUPPORTED, fused[i], "no queue pairs", NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_and_bytes),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_fallback),
        cmocka_unit_test(test_pull_sizes),
        cmocka_unit_test(test_pull_sizes_of_formats),
        cmocka_unit_test(test_pull_areas),
        cmocka_unit_test(test_window_sizes),
        cmocka_unit_test(test_too_big),
        cmocka_unit_test(test_components),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
