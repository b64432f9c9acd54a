#include "bench/plan/cell_rows.h"
#include "tests/unit/plan/plan_test.h"

#include "bench/plan/buffers.h"
#include "bench/plan/rails.h"
#include "bench/plan/traffic.h"

/* What the plan says, summed, against a count of its own: from the routing alone, without the plan's
 * lists, places and scratch. */

enum { RANKS_MAX = 64, EXPERTS_MAX = 1024, QPS_MAX = 256 };

typedef struct sums {
    uint64_t messages, signals, payload, wire;
} sums_t;

typedef struct seen {
    const k3_cell_t *cell;
    sums_t           remote[3], local[3]; /* by phase: between nodes, inside a node */
    uint64_t         messages_by_qp[3][QPS_MAX], signals_by_qp[3][QPS_MAX];
    uint64_t         doorbells_remote[3];
} seen_t;

static void see(const k3_flow_t *f, void *arg)
{
    seen_t *s = arg;
    bool    remote = s->cell->node_of[f->src] != s->cell->node_of[f->dst];
    sums_t *sum = remote ? &s->remote[f->phase] : &s->local[f->phase];

    assert_false(f->pulled);
    sum->messages += f->messages;
    sum->signals += f->signals;
    sum->payload += f->payload;
    sum->wire += f->wire;
    if (remote) {
        assert_int_equal(f->src % s->cell->node_most, f->dst % s->cell->node_most);
        s->messages_by_qp[f->phase][f->qp] += f->messages;
        s->signals_by_qp[f->phase][f->qp] += f->signals;
        s->doorbells_remote[f->phase] += f->doorbells;
    }
}

static void look(const k3_cell_t *cell, seen_t *s)
{
    k3_error_t   err = K3_ERROR_INIT;
    k3_traffic_t traffic;

    memset(s, 0, sizeof(*s));
    s->cell = cell;
    assert_int_equal(k3_traffic_open(cell, &traffic, &err), K3_OK);
    for (uint32_t r = 0; r < cell->layout.tp; r++) {
        k3_traffic_origin(&traffic, r, see, s);
    }
    k3_traffic_close(&traffic);
}

/* Whether a row of the present cell goes to a rank. */
static bool row_goes[1024][RANKS_MAX]; /* [row of the origin][rank] */

static uint64_t read_rows(const k3_cell_t *cell, uint32_t origin)
{
    uint32_t ranks = cell->layout.tp, local = cell->model.experts / ranks;
    uint64_t first, count;
    int32_t  ids[K3_TOPK_MAX];

    k3_cell_dispatched(cell, origin, &first, &count);
    memset(row_goes, 0, sizeof(row_goes));
    for (uint64_t i = 0; i < count; i++) {
        k3_routing_row(cell->routing, first + i, ids);
        for (uint32_t k = 0; k < cell->model.topk; k++) {
            if (ids[k] >= 0) {
                row_goes[i][(uint32_t)ids[k] / local] = true;
            }
        }
    }
    return count;
}

static bool goes_to_node(const k3_cell_t *cell, uint64_t row, uint32_t node)
{
    for (uint32_t r = node * cell->node_most; r < (node + 1) * cell->node_most; r++) {
        if (row_goes[row][r]) {
            return true;
        }
    }
    return false;
}

static void add_local(const k3_cell_t *cell, uint64_t rows, sums_t *out, sums_t *back,
                      uint64_t record, uint64_t result)
{
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t r = 0; r < cell->layout.tp; r++) {
            out->messages += row_goes[i][r];
            out->wire += row_goes[i][r] ? record : 0;
            back->messages += row_goes[i][r];
            back->wire += row_goes[i][r] ? result : 0;
        }
    }
}

static k3_cell_t cell_for(const char *backend, const char *model, uint64_t tp, uint64_t tokens)
{
    k3_cell_request_t request = request_of(backend, model, tp);

    request.tokens = tokens;
    request.dispatch_dtype = "bf16";
    request.nodes_as = tp / (tp > 16 ? 8 : 4);
    return cell_of(request);
}

/* --- chunks ---------------------------------------------------------------------------------- */

/* Section by section of a source's rows: runs are messages, one flag for each chunk with a row, one end
 * marker for each other node; one message back for each chunk and an add for each QP. */
static void count_chunks(const k3_cell_t *cell, bool whole, sums_t out[1], sums_t back[1])
{
    uint64_t record = 2 * cell->model.latent + 8 * cell->model.topk + 4;
    uint64_t result = 2 * cell->model.latent;

    for (uint32_t origin = 0; origin < cell->layout.tp; origin++) {
        uint64_t rows = read_rows(cell, origin);

        for (uint32_t node = 0; node < cell->nodes; node++) {
            if (node == origin / cell->node_most) {
                continue;
            }
            for (uint64_t begin = 0; begin < rows; begin += 64) {
                uint64_t n = 0, runs = 0;
                bool     before = false;

                for (uint64_t i = begin; i < begin + 64 && i < rows; i++) {
                    bool goes = whole || goes_to_node(cell, i, node);

                    runs += goes && !before;
                    n += goes;
                    before = goes;
                }
                out->messages += runs;
                out->signals += n > 0;
                out->wire += n * record + (n > 0 ? 8 : 0);
                back->messages += n > 0;
                back->wire += n * result;
            }
            out->signals += 1;
            out->wire += 8;
            back->signals += 2;
            back->wire += 16;
        }
    }
}

static void check_chunks(const char *backend, bool whole, const char *model, uint64_t tp,
                         uint64_t tokens)
{
    k3_cell_t cell = cell_for(backend, model, tp, tokens);
    uint64_t  n = cell.node_most;
    sums_t    out = {0}, back = {0}, inside = {0}, inside_back = {0};
    seen_t    seen;

    look(&cell, &seen);
    count_chunks(&cell, whole, &out, &back);
    for (uint32_t origin = 0; origin < tp; origin++) {
        uint64_t rows = read_rows(&cell, origin);

        add_local(&cell, rows, &inside, &inside_back,
                  2 * cell.model.latent + 8 * cell.model.topk + 4, 2 * cell.model.latent);
    }
    assert_int_equal(seen.remote[K3_TRAFFIC_DISPATCH].messages, out.messages);
    assert_int_equal(seen.remote[K3_TRAFFIC_DISPATCH].signals, out.signals);
    assert_int_equal(seen.remote[K3_TRAFFIC_DISPATCH].wire, out.wire);
    assert_int_equal(seen.doorbells_remote[K3_TRAFFIC_DISPATCH], out.signals);
    assert_int_equal(seen.remote[K3_TRAFFIC_COMBINE].messages, back.messages);
    assert_int_equal(seen.remote[K3_TRAFFIC_COMBINE].signals, back.signals);
    assert_int_equal(seen.remote[K3_TRAFFIC_COMBINE].wire, back.wire);
    assert_int_equal(seen.local[K3_TRAFFIC_DISPATCH].messages, inside.messages);
    assert_int_equal(seen.local[K3_TRAFFIC_DISPATCH].signals, tp * n);
    assert_int_equal(seen.local[K3_TRAFFIC_DISPATCH].wire, inside.wire + tp * n * 8);
    assert_int_equal(seen.local[K3_TRAFFIC_COMBINE].messages, inside_back.messages);
    assert_int_equal(seen.local[K3_TRAFFIC_COMBINE].wire, inside_back.wire + tp * n * 8);
    assert_int_equal(seen.remote[K3_TRAFFIC_NOTIFY].messages, 0);
    k3_cell_destroy(&cell);
}

static void test_chunks(void **state)
{
    (void)state;
    for (uint64_t tp = 8; tp <= 64; tp *= 2) {
        check_chunks("mori:v1", false, "tiny:E=64,K=4", tp, 150);
        check_chunks("mori:v1ll", true, "tiny:E=64,K=4", tp, 150);
        check_chunks("mori:v1", false, "kimi-k3", tp, 128);
        check_chunks("mori:v1ll", true, "kimi-k3", tp, 128);
        check_chunks("mori:v1", false, "tiny:E=64,K=1", tp, 1);
    }
}

/* Whole chunks: T * record * (N - 1) bytes from each rank. */
static void test_whole_chunks_bytes(void **state)
{
    k3_cell_t cell = cell_for("mori:v1ll", "kimi-k3", 32, 128);
    seen_t    seen;

    (void)state;
    look(&cell, &seen);
    assert_int_equal(seen.remote[0].wire, 0);
    assert_int_equal(seen.remote[K3_TRAFFIC_DISPATCH].wire,
                     32 * 3 * (UINT64_C(128) * 7300 + 2 * 8 + 8));
    assert_int_equal(seen.messages_by_qp[K3_TRAFFIC_DISPATCH][0], 32 * 3);
    assert_int_equal(seen.messages_by_qp[K3_TRAFFIC_DISPATCH][1], 32 * 3);
    assert_int_equal(seen.signals_by_qp[K3_TRAFFIC_DISPATCH][0], 2 * 32 * 3);
    k3_cell_destroy(&cell);
}

/* --- channels -------------------------------------------------------------------------------- */

static uint32_t wanted_qp(uint32_t channel, uint32_t used, bool dispatch)
{
    uint32_t first = dispatch && used > 1 ? 1 : 0, data = used - first, sm = channel / 4, owned = 0;

    if (data < 12) {
        return first + channel % data;
    }
    for (uint32_t qp = sm; qp < data; qp += 12) {
        owned++;
    }
    return first + sm + channel % 4 % owned * 12;
}

static void check_channels(const char *model, uint64_t tp, uint64_t tokens, uint64_t qps)
{
    k3_cell_request_t request = request_of("deepep_v2:hybrid", model, tp);
    uint64_t          messages[2][QPS_MAX] = {{0}}, signals[2][QPS_MAX] = {{0}}, pairs = 0, local;
    k3_cell_t         cell;
    seen_t            seen;

    request.tokens = tokens;
    request.qps = qps;
    request.nodes_as = tp / 4;
    cell = cell_of(request);
    local = cell.model.experts / tp;
    look(&cell, &seen);
    for (uint32_t origin = 0; origin < tp; origin++) {
        uint64_t rows = read_rows(&cell, origin);

        for (uint64_t i = 0; i < rows; i++) {
            for (uint32_t r = 0; r < tp; r++) {
                pairs += row_goes[i][r];
            }
        }
        for (uint32_t node = 0; node < cell.nodes; node++) {
            for (uint32_t c = 0; c < 48 && node != origin / 4; c++) {
                uint32_t out = wanted_qp(c, cell.qps.active, true);
                uint32_t back = wanted_qp(c, cell.qps.active, false);
                uint64_t n = 0;

                for (uint64_t i = c; i < rows; i += 48) {
                    n += goes_to_node(&cell, i, node);
                }
                messages[0][out] += n;
                signals[0][out] += n / 6 + 1;
                messages[1][back] += n;
                signals[1][back] += 1;
            }
        }
    }
    for (uint32_t qp = 0; qp < cell.qps.active; qp++) {
        assert_int_equal(seen.messages_by_qp[K3_TRAFFIC_DISPATCH][qp], messages[0][qp]);
        assert_int_equal(seen.signals_by_qp[K3_TRAFFIC_DISPATCH][qp], signals[0][qp]);
        assert_int_equal(seen.messages_by_qp[K3_TRAFFIC_COMBINE][qp], messages[1][qp]);
        assert_int_equal(seen.signals_by_qp[K3_TRAFFIC_COMBINE][qp], signals[1][qp]);
    }
    assert_int_equal(seen.local[K3_TRAFFIC_DISPATCH].messages, pairs);
    assert_int_equal(seen.local[K3_TRAFFIC_COMBINE].messages, pairs);
    assert_int_equal(seen.remote[K3_TRAFFIC_NOTIFY].messages, tp * (cell.nodes - 1));
    assert_int_equal(seen.remote[K3_TRAFFIC_NOTIFY].wire,
                     tp * (cell.nodes - 1) * 4 * 4 * (1 + local));
    assert_int_equal(seen.messages_by_qp[K3_TRAFFIC_NOTIFY][0], tp * (cell.nodes - 1));
    k3_cell_destroy(&cell);
}

static void test_channels(void **state)
{
    (void)state;
    for (uint64_t tp = 8; tp <= 64; tp *= 2) {
        check_channels("tiny:E=64,K=4", tp, 600, 0);
        check_channels("kimi-k3", tp, 128, 0);
    }
    check_channels("tiny:E=64,K=4", 8, 100, 1);
    check_channels("tiny:E=64,K=4", 8, 100, 5);
    check_channels("tiny:E=64,K=4", 8, 100, 13);
    check_channels("tiny:E=64,K=4", 8, 100, 25);
    check_channels("tiny:E=64,K=4", 8, 1, 193);
}

/* --- rings ----------------------------------------------------------------------------------- */

typedef struct sizes {
    uint64_t tp, per_node;
    uint32_t rdma[2], nvl[2];
} sizes_t;

static uint64_t up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Meta and chunks with a tail each; credits as bounds; inside the node start and end for each source node,
 * and tails. */
static void check_rings(const sizes_t *z, const char *model, uint64_t tokens)
{
    k3_cell_request_t request = request_of("deepep:normal", model, z->tp);
    sums_t            out = {0}, back = {0};
    uint64_t          inside = 0, tails = 0, back_tails = 0, n = z->per_node;
    k3_cell_t         cell;
    seen_t            seen;

    request.tokens = tokens;
    request.nodes_as = z->tp / n;
    cell = cell_of(request);
    look(&cell, &seen);
    for (uint32_t origin = 0; origin < z->tp; origin++) {
        uint64_t rows = read_rows(&cell, origin), each = up(rows, 10);

        for (uint32_t c = 0; c < 10; c++) {
            for (uint32_t node = 0; node < cell.nodes; node++) {
                uint64_t count = 0;

                for (uint64_t i = c * each; i < (c + 1) * each && i < rows; i++) {
                    count += goes_to_node(&cell, i, node);
                }
                if (node != origin / n) {
                    out.messages += 1 + up(count, z->rdma[0]);
                    out.signals += up(count, z->rdma[0]) + count / z->rdma[0];
                    back.messages += up(count, z->rdma[1]);
                    back.signals += up(count, z->rdma[1]) + count / z->rdma[1];
                }
            }
            for (uint32_t r = 0; r < z->tp; r++) {
                uint64_t count = 0;

                for (uint64_t i = c * each; i < (c + 1) * each && i < rows; i++) {
                    count += row_goes[i][r];
                }
                inside += count;
                back_tails += up(count, z->nvl[1]);
                tails += cell.nodes == 1 ? up(count, z->nvl[0]) : 0;
            }
        }
    }
    assert_int_equal(seen.remote[K3_TRAFFIC_DISPATCH].messages, out.messages);
    assert_int_equal(seen.remote[K3_TRAFFIC_DISPATCH].signals, out.signals);
    assert_int_equal(seen.remote[K3_TRAFFIC_COMBINE].messages, back.messages);
    assert_int_equal(seen.remote[K3_TRAFFIC_COMBINE].signals, back.signals);
    assert_int_equal(seen.local[K3_TRAFFIC_DISPATCH].messages, inside);
    assert_int_equal(seen.local[K3_TRAFFIC_COMBINE].messages, inside);
    assert_int_equal(seen.local[K3_TRAFFIC_COMBINE].signals, back_tails);
    if (cell.nodes == 1) {
        assert_int_equal(seen.local[K3_TRAFFIC_DISPATCH].signals, z->tp * z->tp * 10 * 2 + tails);
    }
    assert_int_equal(seen.remote[K3_TRAFFIC_NOTIFY].wire,
                     z->tp * (cell.nodes - 1) * 4 * (n + cell.model.experts / cell.nodes + 1));
    k3_cell_destroy(&cell);
}

static void test_rings(void **state)
{
    static const sizes_t sizes[] = {
        {8, 4, {6, 6}, {6, 4}},   {8, 8, {6, 6}, {6, 4}},   {16, 8, {20, 12}, {36, 4}},
        {32, 8, {8, 8}, {32, 1}}, {64, 8, {8, 8}, {32, 1}}, {2, 2, {6, 6}, {6, 4}},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_rings(&sizes[i], "tiny:E=64,K=4", 700);
        check_rings(&sizes[i], "tiny:E=64,K=4", 3);
        check_rings(&sizes[i], "kimi-k3", 128);
    }
}

/* --- records and sizes ----------------------------------------------------------------------- */

static k3_rails_t rails_of(const char *backend, const char *model, uint64_t tp, const char *format)
{
    k3_cell_request_t request = request_of(backend, model, tp);
    k3_rails_t        rails;
    k3_cell_t         cell;

    request.dispatch_dtype = format;
    cell = cell_of(request);
    k3_rails_plan(&cell, &rails);
    k3_cell_destroy(&cell);
    return rails;
}

static void test_record_sizes(void **state)
{
    static const struct {
        const char *backend, *model;
        unsigned    fp8, bf16, combine;
    } rows[] = {
        {"deepep_v2:hybrid", "deepseek-v3", 7520, 14464, 14400},
        {"deepep_v2:hybrid", "kimi-k3", 3936, 7392, 7296},
        {"deepep:normal", "deepseek-v3", 7472, 14416, 14384},
        {"mori:v1", "deepseek-v3", 7460, 14404, 14336},
        {"mori:v1", "kimi-k3", 3828, 7300, 7168},
        {"mori:v1ll", "kimi-k3", 3828, 7300, 7168},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(rails_of(rows[i].backend, rows[i].model, 16, "fp8").record, rows[i].fp8);
        assert_int_equal(rails_of(rows[i].backend, rows[i].model, 16, "bf16").record, rows[i].bf16);
        assert_int_equal(rails_of(rows[i].backend, rows[i].model, 16, "fp8").result,
                         rows[i].combine);
    }
    /* In one node: the row's number, 8-byte indices, weights, no padding. */
    assert_int_equal(rails_of("deepep:normal", "deepseek-v3", 8, "bf16").record,
                     14336 + 4 + 12 * 8);
}

static uint64_t block_of(const char *backend, const char *model, uint64_t tp, uint64_t tokens)
{
    k3_cell_request_t request = request_of(backend, model, tp);
    k3_memory_t       memory;
    k3_cell_t         cell;

    request.tokens = tokens;
    request.dispatch_dtype = "bf16";
    cell = cell_of(request);
    k3_memory_plan(&cell, 0, &memory);
    k3_cell_destroy(&cell);
    return memory.block;
}

/* The elastic buffer as logged by sglang #24443, others in whole MiB as reported. */
static void test_hybrid_buffer(void **state)
{
    (void)state;
    assert_int_equal(block_of("deepep_v2:hybrid", "deepseek-v3", 16, 4096), 1218445312);
    assert_int_equal(block_of("deepep_v2:hybrid", "deepseek-v3", 16, 128), 72 << 20);
    assert_int_equal(block_of("deepep_v2:hybrid", "deepseek-v3", 64, 128), 282 << 20);
}

/* DeepEP's two buffers, rounded to 128. */
static void test_ring_buffers(void **state)
{
    static const struct {
        uint64_t tp, rdma;
    } rows[] = {{16, 84}, {32, 168}, {64, 336}};
    uint64_t slot = 14336 + 8 + 128 * 8 + 128 * 4 + 128 * 4;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        uint64_t nodes = rows[i].tp / 8;
        uint64_t nvl = 80 * ((2 * nodes + 3) * 4 + 288 * slot);
        uint64_t rdma = 2 * 10 * nodes * (18 * 4 + 128 * (slot + 16));

        assert_int_equal(nvl / 100000, 3776);
        assert_int_equal((rdma + 500000) / 1000000, rows[i].rdma);
        assert_int_equal(block_of("deepep:normal", "deepseek-v3", rows[i].tp, 128),
                         up(nvl, 128) * 128 + up(rdma, 128) * 128);
    }
}

/* Tmax 4096, bf16 with 32 scales: 113.5 MiB of dispatch input and 227 MiB of staging in two nodes. Without
 * scales the record is 128 bytes shorter. */
static void test_chunk_buffers(void **state)
{
    k3_cell_request_t request = request_of("mori:v1", "deepseek-v3", 16);
    k3_rails_t        r;
    k3_cell_t         cell;

    (void)state;
    request.tokens = 4096;
    cell = cell_of(request);
    k3_rails_plan(&cell, &r);
    assert_int_equal(r.staging - r.hop1, UINT64_C(2) * 4096 * 14404);
    assert_int_equal(r.send - r.staging, UINT64_C(2) * 2 * 4096 * 14404);
    assert_int_equal(r.receive - r.send, UINT64_C(4096) * 14404);
    k3_cell_destroy(&cell);
}

/* --- refusals -------------------------------------------------------------------------------- */

static void test_nodes_must_be_even(void **state)
{
    static const int         uneven[] = {0, 0, 0, 1}, gap[] = {0, 0, 2, 2};
    static const char *const backends[] = {"mori:v1", "mori:v1ll", "deepep_v2:hybrid",
                                           "deepep:normal"};

    (void)state;
    for (unsigned b = 0; b < 4; b++) {
        k3_cell_request_t request = request_of(backends[b], "tiny:E=32,K=4", 4);

        request.world = 4;
        request.node_of = uneven;
        assert_cell_refused(request, K3_ERR_UNSUPPORTED, backends[b], "1 to 3 ranks",
                            "same number");
        request.node_of = gap;
        assert_cell_refused(request, K3_ERR_UNSUPPORTED, backends[b], "3 nodes of 2 ranks",
                            "same local index");
    }
}

static void test_rings_in_one_node_are_mapped(void **state)
{
    k3_cell_request_t request = request_of("deepep:normal", "tiny:E=32,K=4", 8);

    (void)state;
    request.p2p = false;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "deepep:normal", "one node", "--p2p off");
    request.nodes_as = 2;

    k3_cell_t cell = cell_of(request);

    k3_cell_destroy(&cell);
}

/* Ranks that lie on their nodes in turn: the rails follow the index inside the node. */
static void test_ranks_in_turn(void **state)
{
    static const int  turn[] = {0, 1, 0, 1, 0, 1, 0, 1};
    k3_cell_request_t request = request_of("mori:v1", "tiny:E=32,K=4", 8);
    k3_cell_t         cell;

    (void)state;
    request.world = 8;
    request.node_of = turn;
    cell = cell_of(request);
    for (uint32_t r = 0; r < 8; r++) {
        assert_int_equal(cell.place_of[r], r % 2 * 4 + r / 2);
        assert_int_equal(k3_cell_rail_peer(&cell, r, 0), r - r % 2);
        assert_int_equal(k3_cell_rail_peer(&cell, r, 1), r - r % 2 + 1);
    }
    k3_cell_destroy(&cell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_whole_chunks_bytes),
        cmocka_unit_test(test_channels),
        cmocka_unit_test(test_rings),
        cmocka_unit_test(test_record_sizes),
        cmocka_unit_test(test_hybrid_buffer),
        cmocka_unit_test(test_ring_buffers),
        cmocka_unit_test(test_chunk_buffers),
        cmocka_unit_test(test_nodes_must_be_even),
        cmocka_unit_test(test_rings_in_one_node_are_mapped),
        cmocka_unit_test(test_ranks_in_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
