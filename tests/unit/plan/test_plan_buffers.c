#include "bench/plan/cell_rows.h"
#include "tests/unit/plan/plan_test.h"

#include "bench/plan/buffers.h"
#include "bench/plan/shared.h"
#include "harness/base/arith.h"

static k3_memory_t memory_for(k3_cell_request_t request, uint32_t rank)
{
    k3_cell_t   cell = cell_of(request);
    k3_memory_t memory;

    k3_memory_plan(&cell, rank, &memory);
    k3_cell_destroy(&cell);
    return memory;
}

/* Kimi-K3: 112, 56, 28, 14 experts of 17,547,264 bytes. */
static void test_L10_expert_weights(void **state)
{
    static const struct {
        uint64_t tp, experts;
    } rows[] = {{8, 112}, {16, 56}, {32, 28}, {64, 14}, {128, 7}};
    static const char *const backends[] = {"mooncake", "deepep:ll", "mpi"};

    (void)state;
    for (unsigned b = 0; b < 3; b++) {
        for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            k3_memory_t m = memory_for(request_of(backends[b], "kimi-k3", rows[i].tp), 1);

            assert_int_equal(m.expert_weights, rows[i].experts * 17547264);
        }
    }
}

/* TP8 EP1 without all-to-all: 896 slices of 384 of I; all ranks together hold each weight once. */
static void test_L10_slices_of_an_expert(void **state)
{
    k3_cell_request_t request = request_of("none", "kimi-k3", 8);
    uint64_t          all = 0;

    (void)state;
    for (uint32_t r = 0; r < 8; r++) {
        all += memory_for(request, r).expert_weights;
    }
    assert_int_equal(all, UINT64_C(896) * 17547264);
    request.ep = 4;
    assert_int_equal(memory_for(request, 3).expert_weights, UINT64_C(224) * 17547264 / 2);
}

/* Each of an expert's six parts is padded to 64 bytes at most. */
static void test_expert_parts_are_padded_little(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny:L=32,I=32,S=32,H=32", 8);
    uint64_t          bytes;

    (void)state;
    request.dispatch_dtype = "bf16";
    bytes = memory_for(request, 0).expert_weights;
    /* 3 x 32 x 16 of values, 3 x 32 of scales. */
    assert_true(bytes >= 8 * (1536 + 96));
    assert_true(bytes <= 8 * (1536 + 96 + 6 * 64));
}

/* Replicated on the fast path: 3 x 7168 x 6144 bf16. An eighth on the fallback at tp 8. */
static void test_shared_expert(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 8);

    (void)state;
    assert_int_equal(memory_for(request, 0).shared_expert, 264241152);
    assert_int_equal(memory_for(request, 7).shared_expert, 264241152);
    request.path = "fallback";
    request.tokens = 4;
    assert_int_equal(memory_for(request, 0).shared_expert, 264241152 / 8);
    request = request_of("none", "kimi-k3", 8);
    assert_int_equal(memory_for(request, 5).shared_expert, 264241152 / 8);
    request.model = "kimi-k3:S=0";
    assert_int_equal(memory_for(request, 5).shared_expert, 0);
}

/* 24 units of 16 over 7 ranks: the slices cover the width once. */
static void test_shared_slices_cover_the_width(void **state)
{
    k3_cell_t cell = cell_of(request_of("none", "tiny:S=384,E=49", 7));
    uint32_t  next = 0;

    (void)state;
    for (uint32_t r = 0; r < 7; r++) {
        uint32_t begin, end;

        k3_shared_slice(&cell, r, &begin, &end);
        assert_int_equal(begin, next);
        assert_int_equal(begin % 16, 0);
        assert_true(end - begin == 48 || end - begin == 64);
        next = end;
    }
    assert_int_equal(next, 384);
    k3_cell_destroy(&cell);
}

/* gate 896 x 7168 and bias, latent down and up, norm. */
static void test_dense_weights(void **state)
{
    k3_memory_t m = memory_for(request_of("mooncake", "kimi-k3", 8), 0);

    (void)state;
    assert_int_equal(m.dense_weights, 896 * 7168 * 2 + 896 * 4 + 2 * 7168 * 3584 * 2 + 3584 * 2);
}

/* T 16 rows, attn_tp 4: what each buffer holds. */
static void test_buffers_of_the_fast_path(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 8);
    k3_memory_t       m;

    (void)state;
    request.dp = 2;
    m = memory_for(request, 5);
    assert_int_equal(m.buffer[K3_BUF_PARTIAL], 4 * 16 * 7168 * 2);
    assert_int_equal(m.buffer[K3_BUF_EXCHANGE], 4 * 16 * 7168 * 2);
    assert_int_equal(m.buffer[K3_BUF_X], 16 * 7168 * 2);
    assert_int_equal(m.buffer[K3_BUF_LOGITS], 16 * 896 * 4);
    assert_int_equal(m.buffer[K3_BUF_IDS], 16 * 16 * 4);
    assert_int_equal(m.buffer[K3_BUF_GATES], 16 * 16 * 4);
    assert_int_equal(m.buffer[K3_BUF_LATENT], 16 * 3584 * 2);
    assert_int_equal(m.buffer[K3_BUF_COMBINED], 16 * 3584 * 2);
    assert_int_equal(m.buffer[K3_BUF_NORMED], 16 * 3584 * 2);
    assert_int_equal(m.buffer[K3_BUF_SHARED_MID], 16 * 3 * 6144 * 2);
    assert_int_equal(m.buffer[K3_BUF_SHARED], 16 * 7168 * 2);
    assert_int_equal(m.buffer[K3_BUF_ROUTED], 16 * 7168 * 2);
    assert_int_equal(m.buffer[K3_BUF_OUTPUT], 4 * 16 * 7168 * 2);
}

/* The fallback's front sees all 128 rows; latent and shared are reduced together. */
static void test_buffers_of_the_fallback(void **state)
{
    k3_memory_t m = memory_for(request_of("none", "kimi-k3", 8), 0);

    (void)state;
    assert_int_equal(m.buffer[K3_BUF_X], 128 * 7168 * 2);
    assert_int_equal(m.buffer[K3_BUF_LOGITS], 128 * 896 * 4);
    assert_int_equal(m.buffer[K3_BUF_COMBINED], 128 * (3584 + 7168) * 2);
    assert_int_equal(m.buffer[K3_BUF_SHARED], 0);
    assert_int_equal(m.buffer[K3_BUF_SHARED_MID], 128 * 3 * 768 * 2);
    assert_true(m.buffer[K3_BUF_EXCHANGE] >= 128 * (3584 + 7168) * 2);
}

/* No latent step: no latent and normed rows, the dispatched row is the hidden one. The sum with the
 * shared expert has a place of its own. */
static void test_buffers_without_latent_step(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "deepseek-v3", 8);
    k3_memory_t       m = memory_for(request, 0);

    (void)state;
    assert_int_equal(m.buffer[K3_BUF_LATENT], 0);
    assert_int_equal(m.buffer[K3_BUF_NORMED], 0);
    assert_int_equal(m.buffer[K3_BUF_ROUTED], 16 * 7168 * 2);
    assert_int_equal(m.buffer[K3_BUF_COMBINED], 16 * 7168 * 2);
    request.model = "deepseek-v3:S=0";
    assert_int_equal(memory_for(request, 0).buffer[K3_BUF_ROUTED], 0);
}

/* L04, L05: padding takes room, real rows or not. */
static void test_L05_padding_takes_room(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    k3_cell_t         cell;

    (void)state;
    request.dp = 2;
    request.skew = "7,0";
    cell = cell_of(request);
    for (uint32_t r = 0; r < 8; r++) {
        k3_memory_t m;

        k3_memory_plan(&cell, r, &m);
        assert_int_equal(k3_front_rows(&cell, r), r < 4 ? 2 : 0);
        assert_int_equal(m.buffer[K3_BUF_PARTIAL], (r < 4 ? 8 : 0) * 512 * 2);
        assert_int_equal(m.buffer[K3_BUF_X], (r < 4 ? 2 : 0) * 512 * 2);
    }
    k3_cell_destroy(&cell);
}

static void assert_adds_up(const k3_memory_t *m)
{
    uint64_t sum =
        m->block + m->beside + m->engine + m->expert_weights + m->shared_expert + m->dense_weights;

    for (int b = 0; b < K3_BUF_COUNT; b++) {
        sum += m->buffer[b];
    }
    assert_int_equal(m->total, sum);
}

static void test_parts_add_up_to_the_total(void **state)
{
    static const char *const models[] = {"tiny", "kimi-k3", "deepseek-v3", "kimi-k3-mini"};

    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        for (unsigned m = 0; m < 4 && k3_profile_available(k3_registry_at(i)); m++) {
            for (int component = 0; component < 5; component++) {
                k3_cell_request_t request = request_of(k3_registry_at(i)->name, models[m], 8);
                k3_error_t        err = K3_ERROR_INIT;
                k3_cell_t         cell;
                k3_memory_t       memory;

                request.component = k3_component_names[component];
                if (k3_cell_create(&request, &cell, &err) == K3_OK) {
                    k3_memory_plan(&cell, 3, &memory);
                    assert_adds_up(&memory);
                    assert_true(memory.total > 0);
                    k3_cell_destroy(&cell);
                }
            }
        }
    }
    for (int b = 0; b < K3_BUF_COUNT; b++) {
        assert_non_null(k3_buffer_names[b]);
    }
    assert_null(k3_buffer_names[K3_BUF_COUNT]);
}

/* Stand-ins need no weights; null moves nothing and computes no expert. */
static void test_weights_by_component(void **state)
{
    static const struct {
        const char *backend, *component;
        bool        experts, dense;
    } rows[] = {
        {"mooncake", "region", true, true},     {"mooncake", "pair", false, false},
        {"mooncake", "dispatch", false, false}, {"mooncake", "combine", false, false},
        {"mooncake", "experts", true, false},   {"mooncake", "control", false, false},
        {"null", "region", false, true},        {"none", "region", true, true},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_cell_request_t request = request_of(rows[i].backend, "tiny", 8);
        k3_memory_t       m;

        request.component = rows[i].component;
        m = memory_for(request, 0);
        assert_int_equal(m.expert_weights > 0, rows[i].experts);
        assert_int_equal(m.dense_weights > 0, rows[i].dense);
        assert_int_equal(m.shared_expert > 0, rows[i].dense);
    }
}

/* Both slab profiles: the block is the formula's, O10 and C04 exact. */
static void test_block(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 8);

    (void)state;
    request.max_tokens = 128;
    assert_int_equal(memory_for(request, 0).block, 3303028736);
    request.backend = "deepep:ll";
    assert_int_equal(memory_for(request, 0).block, 3339721856);
    request = request_of("deepep:ll", "kimi-k3:L=7168", 896);
    request.tokens = 1;
    request.max_tokens = 8192;
    assert_int_equal(memory_for(request, 895).block, UINT64_C(427483470976));
    assert_int_equal(memory_for(request_of("none", "tiny", 8), 0).block, 0);
    assert_int_equal(memory_for(request_of("null", "tiny", 8), 0).block, 0);
}

/* What packed buffers hold: own assignments and what arrives, record and result of each. */
static void test_mpi_buffers(void **state)
{
    k3_cell_t cell = cell_of(request_of("mpi", "tiny", 8));
    uint64_t  arriving = 0;

    (void)state;
    for (uint32_t r = 0; r < 8; r++) {
        k3_memory_t m;

        k3_memory_plan(&cell, r, &m);
        assert_int_equal(m.engine, (16 * 4 + k3_rows_arriving(&cell, r)) * (520 + 512));
        arriving += k3_rows_arriving(&cell, r);
    }
    assert_int_equal(arriving, 8 * 16 * 4);
    k3_cell_destroy(&cell);
}

static void test_arriving_on_the_fallback(void **state)
{
    k3_cell_request_t request = request_of("mpi", "tiny", 8);
    k3_cell_t         cell;
    uint64_t          arriving = 0;

    (void)state;
    request.path = "fallback";
    cell = cell_of(request);
    for (uint32_t r = 0; r < 8; r++) {
        arriving += k3_rows_arriving(&cell, r);
    }
    assert_int_equal(arriving, 8 * 8 * 16 * 4); /* all rows from each of 8 ranks */
    k3_cell_destroy(&cell);
}

static void test_memory_of_a_node(void **state)
{
    static const int nodes[] = {0, 1, 1, 0, 1, 1, 1, 1};
    k3_cell_t        cell = cell_of(request_of("mooncake", "tiny", 8));
    uint64_t         all = 0, one;
    uint32_t         ranks;

    (void)state;
    for (uint32_t r = 0; r < 8; r++) {
        k3_memory_t m;

        k3_memory_plan(&cell, r, &m);
        all += m.total;
    }
    assert_int_equal(k3_memory_of_node(&cell, NULL, 0, &ranks), all);
    assert_int_equal(ranks, 8);
    one = k3_memory_of_node(&cell, nodes, 0, &ranks);
    assert_int_equal(ranks, 2);
    assert_int_equal(one + k3_memory_of_node(&cell, nodes, 1, &ranks), all);
    assert_int_equal(ranks, 6);
    k3_cell_destroy(&cell);
}

/* A block that no 64 bits hold stays too big in every sum. */
static void test_C04_saturation(void **state)
{
    k3_cell_t   cell = cell_of(request_of("mooncake", "kimi-k3", 8));
    k3_memory_t m;
    uint32_t    ranks;

    (void)state;
    cell.max_tokens = UINT64_C(1) << 50;
    k3_memory_plan(&cell, 0, &m);
    assert_int_equal(m.block, K3_TOO_BIG);
    assert_int_equal(m.total, K3_TOO_BIG);
    assert_int_equal(k3_memory_of_node(&cell, NULL, 0, &ranks), K3_TOO_BIG);
    k3_cell_destroy(&cell);
}

/* Ranks that hold slices of the same experts get the same rows. */
static void test_arriving_with_slices(void **state)
{
    k3_cell_request_t request = request_of("none", "tiny", 8);
    k3_cell_t         cell;
    uint64_t          arriving = 0;

    (void)state;
    request.ep = 4;
    cell = cell_of(request);
    for (uint32_t r = 0; r < 8; r += 2) {
        assert_int_equal(k3_rows_arriving(&cell, r), k3_rows_arriving(&cell, r + 1));
        arriving += k3_rows_arriving(&cell, r);
    }
    assert_int_equal(arriving, 8 * 16 * 4);
    k3_cell_destroy(&cell);
}

/* Against a count of our own, with entries that are not sent left out. */
static void test_arriving_counts_each_rank(void **state)
{
    k3_cell_t cell = cell_of(request_of("mpi", "kimi-k3", 32));
    uint64_t  want[32] = {0};
    int32_t   ids[K3_TOPK_MAX];

    (void)state;
    for (uint64_t row = 0; row < cell.layout.rows_global; row++) {
        k3_routing_row(cell.routing, row, ids);
        for (uint32_t k = 0; k < cell.model.topk; k++) {
            want[k3_cell_owner(&cell, (uint32_t)ids[k])]++;
        }
    }
    for (uint32_t r = 0; r < 32; r++) {
        assert_int_equal(k3_rows_arriving(&cell, r), want[r]);
    }
    k3_cell_destroy(&cell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_L10_expert_weights),
        cmocka_unit_test(test_L10_slices_of_an_expert),
        cmocka_unit_test(test_expert_parts_are_padded_little),
        cmocka_unit_test(test_shared_expert),
        cmocka_unit_test(test_shared_slices_cover_the_width),
        cmocka_unit_test(test_dense_weights),
        cmocka_unit_test(test_buffers_of_the_fast_path),
        cmocka_unit_test(test_buffers_of_the_fallback),
        cmocka_unit_test(test_buffers_without_latent_step),
        cmocka_unit_test(test_L05_padding_takes_room),
        cmocka_unit_test(test_parts_add_up_to_the_total),
        cmocka_unit_test(test_weights_by_component),
        cmocka_unit_test(test_block),
        cmocka_unit_test(test_mpi_buffers),
        cmocka_unit_test(test_arriving_on_the_fallback),
        cmocka_unit_test(test_memory_of_a_node),
        cmocka_unit_test(test_C04_saturation),
        cmocka_unit_test(test_arriving_with_slices),
        cmocka_unit_test(test_arriving_counts_each_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
