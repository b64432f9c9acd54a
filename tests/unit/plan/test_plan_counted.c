#include "bench/plan/cell_rows.h"
#include "tests/unit/plan/plan_test.h"

#include "bench/plan/buffers.h"
#include "bench/plan/counted.h"
#include "bench/plan/traffic.h"
#include "harness/base/arith.h"

static k3_cell_request_t pplx(const char *model, uint64_t tp, uint64_t dp)
{
    k3_cell_request_t request = request_of("pplx", model, tp);

    request.dp = dp;
    return request;
}

/* --- sizes ----------------------------------------------------------------------------------- */

/* pplx-kernels: in Mg * stride, out L G Mg stride, back in L G Mg W 4, back out Mg E W 4, and words of
 * 8 bytes: counts and arrivals L G, results of a row Mg, flags R. */
static void test_sizes(void **state)
{
    static const struct {
        const char *model, *dtype;
        uint64_t    tp, dp, m, stride, width, experts;
    } rows[] = {
        {"deepseek-v3", "fp8", 8, 8, 128, 7408, 7168, 256},
        {"deepseek-v3", "bf16", 16, 2, 64, 14352, 7168, 256},
        {"kimi-k3", "fp8", 32, 4, 128, 3712, 3584, 896},
        {"kimi-k3", "bf16", 64, 64, 16, 7184, 3584, 896},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_cell_request_t request = pplx(rows[i].model, rows[i].tp, rows[i].dp);
        uint64_t          mg = rows[i].m * rows[i].tp / rows[i].dp;
        uint64_t          slots = rows[i].experts / rows[i].tp * rows[i].dp;
        uint64_t          words = 2 * slots + mg + rows[i].tp;
        k3_counted_t      c;
        k3_memory_t       memory;
        k3_cell_t         cell;

        request.max_tokens = rows[i].m;
        request.dispatch_dtype = rows[i].dtype;
        cell = cell_of(request);
        k3_counted_plan(&cell, &c);
        k3_memory_plan(&cell, 0, &memory);
        k3_cell_destroy(&cell);
        assert_int_equal(c.record, rows[i].stride);
        assert_int_equal(c.group_m, mg);
        assert_int_equal(c.bytes, mg * rows[i].stride + slots * mg * rows[i].stride +
                                      slots * mg * rows[i].width * 4 +
                                      mg * rows[i].experts * rows[i].width * 4 + 8 * words);
        assert_int_equal(memory.block, c.bytes);
        assert_int_equal(memory.engine, slots * mg * rows[i].width * 2);
    }
}

/* Areas follow one another, and the last place of each ends where the next begins. */
static void test_areas(void **state)
{
    k3_cell_request_t request = pplx("tiny", 8, 2);
    k3_counted_t      c;
    k3_cell_t         cell;

    (void)state;
    request.max_tokens = 33;
    cell = cell_of(request);
    k3_counted_plan(&cell, &c);
    k3_cell_destroy(&cell);
    assert_int_equal(c.groups, 2);
    assert_int_equal(c.group_ranks, 4);
    assert_int_equal(c.send, 0);
    assert_int_equal(c.recv, c.group_m * c.record);
    assert_int_equal(k3_counted_record_at(&c, c.local - 1, 1, c.group_m), c.staging);
    assert_int_equal(k3_counted_staging_at(&c, c.local - 1, 1, c.group_m), c.results);
    assert_int_equal(k3_counted_result_at(&c, c.experts - 1, c.group_m), c.counts);
    assert_int_equal(c.counts + 8 * c.local * c.groups, c.arrivals);
    assert_int_equal(c.arrivals + 8 * c.local * c.groups, c.row_counts);
    assert_int_equal(c.row_counts + 8 * c.group_m, c.flags);
    assert_int_equal(c.flags + 8 * c.ranks, c.bytes);
    assert_int_equal(k3_counted_output_at(&c, c.local - 1, 1, c.group_m), c.outputs);
    assert_int_equal(c.counts % 8, 0);
    assert_int_equal(k3_counted_group(&c, 3), 0);
    assert_int_equal(k3_counted_group(&c, 4), 1);
}

/* Where all ranks dispatch all rows nobody shares them. */
static void test_groups_of_the_fallback(void **state)
{
    k3_cell_request_t request = pplx("tiny", 8, 2);
    k3_counted_t      c;
    k3_cell_t         cell;

    (void)state;
    request.path = "fallback";
    cell = cell_of(request);
    k3_counted_plan(&cell, &c);
    k3_cell_destroy(&cell);
    assert_int_equal(c.groups, 8);
    assert_int_equal(c.group_ranks, 1);
    assert_int_equal(c.group_m, 8 * 16);
}

static void test_saturation(void **state)
{
    k3_cell_t    cell = cell_of(pplx("kimi-k3", 8, 2));
    k3_counted_t c;

    (void)state;
    cell.max_tokens = UINT64_C(1) << 50;
    k3_counted_plan(&cell, &c);
    assert_int_equal(c.bytes, K3_TOO_BIG);
    k3_cell_destroy(&cell);
}

/* --- lanes against a count of their own ------------------------------------------------------ */

enum { RANKS_MAX = 64 };

typedef struct lane {
    uint64_t visits, messages, signals, payload, wire;
} lane_t;

static lane_t lanes[K3_TRAFFIC_COUNT][RANKS_MAX][RANKS_MAX];
static lane_t wanted[K3_TRAFFIC_COUNT][RANKS_MAX][RANKS_MAX];

static void keep(const k3_flow_t *flow, void *arg)
{
    lane_t *lane = &lanes[flow->phase][flow->src][flow->dst];
    bool    mapped = k3_cell_mapped(arg, flow->src, flow->dst);

    assert_int_equal(flow->qp, 0);
    assert_int_equal(flow->doorbells, mapped ? 0 : K3_DOORBELLS_UNKNOWN);
    lane->visits++;
    lane->messages += flow->messages;
    lane->signals += flow->signals;
    lane->payload += flow->payload;
    lane->wire += flow->wire;
}

static void want(int phase, uint32_t src, uint32_t dst, uint64_t bytes, uint64_t payload)
{
    lane_t *lane = &wanted[phase][src][dst];

    lane->messages += bytes > 0;
    lane->signals++;
    lane->payload += payload;
    lane->wire += bytes + 8;
}

/* Message by message, as the ranks would send them. */
static void count_all(const k3_cell_t *cell, uint32_t group_ranks, uint64_t record,
                      uint64_t payload)
{
    uint32_t ranks = cell->layout.tp, local = cell->model.experts / ranks;
    uint64_t result = 2 * (uint64_t)cell->model.latent, first, count;
    int32_t  ids[K3_TOPK_MAX];

    memset(wanted, 0, sizeof(wanted));
    for (uint32_t src = 0; src < ranks; src++) {
        uint32_t group_first = src - src % group_ranks;

        for (uint32_t dst = 0; dst < ranks; dst++) {
            want(K3_TRAFFIC_COMBINE, src, dst, 0, 0); /* the flag */
            for (uint32_t e = 0; e < local && src == group_first; e++) {
                want(K3_TRAFFIC_NOTIFY, src, dst, 0, 0);
            }
        }
        k3_cell_dispatched(cell, src, &first, &count);
        for (uint64_t row = first; row < first + count; row++) {
            k3_routing_row(cell->routing, row, ids);
            for (uint32_t k = 0; k < cell->model.topk; k++) {
                uint32_t owner = (uint32_t)ids[k] / local;

                if (ids[k] < 0) {
                    continue;
                }
                want(K3_TRAFFIC_DISPATCH, src, owner, record, payload);
                for (uint32_t r = group_first; r < group_first + group_ranks; r++) {
                    want(K3_TRAFFIC_COMBINE, owner, r, result, result);
                }
            }
        }
    }
}

static void check_cell(k3_cell_request_t request, uint32_t group_ranks, uint64_t record,
                       uint64_t payload)
{
    k3_error_t   err = K3_ERROR_INIT;
    k3_cell_t    cell = cell_of(request);
    k3_traffic_t traffic;

    memset(lanes, 0, sizeof(lanes));
    count_all(&cell, group_ranks, record, payload);
    assert_int_equal(k3_traffic_open(&cell, &traffic, &err), K3_OK);
    for (uint32_t origin = 0; origin < cell.layout.tp; origin++) {
        k3_traffic_origin(&traffic, origin, keep, &cell);
    }
    k3_traffic_close(&traffic);
    for (int t = 0; t < K3_TRAFFIC_COUNT; t++) {
        for (uint32_t src = 0; src < cell.layout.tp; src++) {
            for (uint32_t dst = 0; dst < cell.layout.tp; dst++) {
                lane_t *got = &lanes[t][src][dst], *w = &wanted[t][src][dst];

                assert_int_equal(got->visits, w->signals > 0);
                assert_int_equal(got->messages, w->messages);
                assert_int_equal(got->signals, w->signals);
                assert_int_equal(got->payload, w->payload);
                assert_int_equal(got->wire, w->wire);
            }
        }
    }
    k3_cell_destroy(&cell);
}

static void test_lanes(void **state)
{
    (void)state;
    for (uint64_t tp = 8; tp <= 64; tp *= 2) {
        k3_cell_request_t request = pplx("kimi-k3", tp, tp);

        request.dispatch_dtype = "fp8";
        request.tokens = 4;
        check_cell(request, 1, 3712, 3696);
        request.dp = 2;
        check_cell(request, (uint32_t)tp / 2, 3712, 3696);
        request.dp = tp / 2;
        check_cell(request, 2, 3712, 3696);
    }
}

static void test_lanes_of_uneven_ranks(void **state)
{
    static const char *const skews[] = {"ragged", "one-empty", "all-but-one-empty",
                                        "16,8,16,1,16,16,2,16", "0,0,0,0,0,0,0,0"};

    (void)state;
    for (unsigned i = 0; i < sizeof(skews) / sizeof(skews[0]); i++) {
        k3_cell_request_t request = pplx("tiny", 8, 4);

        request.skew = skews[i];
        check_cell(request, 2, 528, 512);
    }
}

static void test_lanes_of_the_fallback(void **state)
{
    k3_cell_request_t request = pplx("tiny", 8, 2);

    (void)state;
    request.path = "fallback";
    request.tokens = 2;
    check_cell(request, 1, 528, 512);
}

static void test_refusals(void **state)
{
    k3_cell_request_t request = pplx("tiny", 8, 1);

    (void)state;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "pplx", "2 groups", NULL);
    request.dp = 2;
    request.signal = "write";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "pplx", "signal write", "added up");
    request.signal = NULL;
    request.on_timeout = "mask";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "pplx", "on-timeout mask", "wait");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_areas),
        cmocka_unit_test(test_groups_of_the_fallback),
        cmocka_unit_test(test_saturation),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_lanes_of_uneven_ranks),
        cmocka_unit_test(test_lanes_of_the_fallback),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
