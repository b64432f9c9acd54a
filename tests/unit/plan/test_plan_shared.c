/* The shared expert of a cell, and context parallelism: what is allowed, and what it takes. */
#include "tests/unit/plan/plan_test.h"

#include "bench/plan/buffers.h"
#include "bench/plan/shared.h"

static k3_memory_t memory_for(k3_cell_request_t request, uint32_t rank)
{
    k3_cell_t   cell = cell_of(request);
    k3_memory_t memory;

    k3_memory_plan(&cell, rank, &memory);
    k3_cell_destroy(&cell);
    return memory;
}

static k3_shared_t variant_of(k3_cell_request_t request)
{
    k3_cell_t   cell = cell_of(request);
    k3_shared_t shared = cell.shared;

    k3_cell_destroy(&cell);
    return shared;
}

static void test_auto_follows_the_path(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);

    (void)state;
    assert_int_equal(variant_of(request), K3_SHARED_REPLICATED);
    request.path = "fallback";
    assert_int_equal(variant_of(request), K3_SHARED_TP);
    assert_int_equal(variant_of(request_of("none", "tiny", 8)), K3_SHARED_TP);
    assert_int_equal(variant_of(request_of("mooncake", "tiny:S=0", 8)), K3_SHARED_NONE);
    request = request_of("mooncake", "tiny", 8);
    request.component = "pair";
    assert_int_equal(variant_of(request), K3_SHARED_NONE);
    request.component = "region";
    request.shared = "sharded";
    assert_int_equal(variant_of(request), K3_SHARED_SHARDED);
}

/* 264.24 MB a layer, 24.31 GB over 92 layers; 23.55 GB more than a copy cut over 32 ranks. */
static void test_bytes_of_kimi_k3(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 32);
    const uint64_t    whole = 264241152;

    (void)state;
    request.dp = 4;
    request.shared = "replicated";
    assert_int_equal(memory_for(request, 31).shared_expert, whole);
    assert_int_equal(whole * 92, UINT64_C(24310185984));
    request.shared = "sharded";
    assert_int_equal(memory_for(request, 31).shared_expert, whole / 8);
    request = request_of("none", "kimi-k3", 32);
    request.shared = "tp";
    assert_int_equal(memory_for(request, 31).shared_expert, whole / 32);
    assert_int_equal((whole - whole / 32) * 92, UINT64_C(23550492672));
}

/* The group's rows pass a slice; they lie in buffers that exist anyway. */
static void test_buffers_of_shards(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "kimi-k3", 8);
    k3_memory_t       whole, part;
    k3_cell_t         cell;
    uint32_t          next = 0;

    (void)state;
    request.dp = 2;
    whole = memory_for(request, 5);
    request.shared = "sharded";
    part = memory_for(request, 5);
    assert_int_equal(part.buffer[K3_BUF_SHARED_MID], 4 * 16 * 3 * 1536 * 2);
    assert_int_equal(part.buffer[K3_BUF_SHARED], 16 * 7168 * 2);
    for (int b = 0; b < K3_BUF_COUNT; b++) {
        if (b != K3_BUF_SHARED_MID && b != K3_BUF_DENSE_WORK) {
            assert_int_equal(part.buffer[b], whole.buffer[b]);
        }
    }
    cell = cell_of(request);
    for (uint32_t r = 4; r < 8; r++) {
        uint32_t begin, end;

        k3_shared_slice(&cell, r, &begin, &end);
        assert_int_equal(begin, next);
        assert_int_equal(k3_shared_rows(&cell, r), 64);
        next = end;
    }
    assert_int_equal(next, 6144);
    k3_cell_destroy(&cell);
}

static void test_refused_variants(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);

    (void)state;
    request.shared = "tp";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "mooncake", "shared tp", "fast path");
    request.backend = "none";
    request.shared = "replicated";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "none", "shared replicated", "EP all-to-all");
    request.shared = "sharded";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "none", "shared sharded", "EP all-to-all");
    request.backend = "mooncake";
    request.dp = 8;
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "shared sharded", "no effect", "attn_tp 1");
    request.dp = 1;
    request.model = "tiny:S=192"; /* 24 a rank */
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "S 192", "8 ranks", "16");
    request.model = "tiny:S=0";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "shared sharded", "no shared expert", NULL);
    request.model = "tiny";
    request.component = "pair";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "shared sharded", "component pair", NULL);
    request.component = "region";
    request.shared = "shraded";
    assert_cell_refused(request, K3_ERR_USAGE, "shared", "shraded", "sharded");
}

/* Only engines that send and wait apart; never without effect. */
static void test_overlap(void **state)
{
    static const char *const slabs[] = {"mooncake", "deepep:ll"};
    static const char *const others[] = {"mpi", "none", "null"};
    k3_cell_request_t        request = request_of("mooncake", "tiny", 8);

    (void)state;
    request.shared_overlap = "on";
    for (unsigned i = 0; i < 2; i++) {
        k3_cell_t cell;

        request.backend = slabs[i];
        cell = cell_of(request);
        assert_true(cell.shared_overlap);
        assert_int_equal(cell.shared, K3_SHARED_REPLICATED);
        k3_cell_destroy(&cell);
    }
    for (unsigned i = 0; i < 3; i++) {
        request.backend = others[i];
        assert_cell_refused(request, K3_ERR_UNSUPPORTED, others[i], "shared-overlap",
                            "sends and waits apart");
    }
    request.backend = "mooncake";
    request.model = "tiny:S=0";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "shared-overlap on", "no shared expert", NULL);
    request.model = "tiny";
    request.shared_overlap = "yes";
    assert_cell_refused(request, K3_ERR_USAGE, "shared-overlap", "yes", NULL);
}

static void key_of(k3_cell_request_t request, char *key)
{
    k3_cell_t cell = cell_of(request);

    snprintf(key, K3_CELL_KEY_MAX, "%s", cell.key);
    k3_cell_destroy(&cell);
}

/* What resolves to the same has the same key, and every other choice another one. */
static void test_keys(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 8);
    char              keys[4][K3_CELL_KEY_MAX], again[K3_CELL_KEY_MAX];

    (void)state;
    key_of(request, keys[0]);
    request.shared = "replicated";
    request.shared_overlap = "off";
    key_of(request, again);
    assert_string_equal(keys[0], again);
    request.shared_overlap = "on";
    key_of(request, keys[1]);
    request.shared = "sharded";
    key_of(request, keys[2]);
    request.shared_overlap = "off";
    key_of(request, keys[3]);
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned j = 0; j < i; j++) {
            assert_string_not_equal(keys[i], keys[j]);
        }
    }
}

/* --- context parallelism --------------------------------------------------------------------- */

/* sglang's validation for DeepSeek-V4: none, deepep, megamoe, mori; our baselines have no limit. */
static void test_backends_with_cp(void **state)
{
    static const char *const allowed[] = {"none", "deepep", "megamoe", "mori", "mpi", "null"};

    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);
        k3_cell_request_t   request = request_of(p->name, "deepseek-v4-flash", 8);
        k3_error_t          err = K3_ERROR_INIT;
        k3_cell_t           cell;
        bool                want = false, refused = false;

        for (unsigned a = 0; a < sizeof(allowed) / sizeof(allowed[0]); a++) {
            want = want || strcmp(p->backend, allowed[a]) == 0;
        }
        request.cp = 2;
        request.generation = "k3";
        if (k3_cell_create(&request, &cell, &err) == K3_OK) {
            k3_cell_destroy(&cell);
        } else {
            refused = strstr(err.text, "cp 2 is not allowed by upstream") != NULL;
            assert_int_equal(err.status, K3_ERR_UNSUPPORTED);
        }
        assert_int_equal(refused, !want);
        request.model = "kimi-k3";
        assert_cell_refused(request, K3_ERR_UNSUPPORTED, "cp 2", "kimi-k3", "cp must be 1");
    }
}

/* 8 ranks, cp 4: 16 rows each; without an all-to-all 128 rows are gathered, 32 of them kept. */
static void test_buffers_with_cp(void **state)
{
    k3_cell_request_t request = request_of("none", "deepseek-v4-flash", 8);
    k3_memory_t       m;

    (void)state;
    request.cp = 4;
    m = memory_for(request, 3);
    assert_int_equal(m.buffer[K3_BUF_PARTIAL], 32 * 4096 * 2);
    assert_int_equal(m.buffer[K3_BUF_X], 128 * 4096 * 2);
    assert_int_equal(m.buffer[K3_BUF_PACKED], 128 * 2 * 4096 * 2);
    assert_int_equal(m.buffer[K3_BUF_OUTPUT], 32 * 4096 * 2);
    assert_true(m.buffer[K3_BUF_EXCHANGE] >= 4 * 32 * 2 * 4096 * 2);
    /* One group has all rows: from each of 4 ranks all of them arrive. */
    request.skew = "0,96,0,0";
    m = memory_for(request, 3);
    assert_true(m.buffer[K3_BUF_EXCHANGE] >= 4 * 96 * 2 * 4096 * 2);
    /* An all-to-all stays with the rank's own rows. */
    request = request_of("deepep:ll", "deepseek-v4-flash", 8);
    request.cp = 4;
    m = memory_for(request, 3);
    assert_int_equal(m.buffer[K3_BUF_X], 16 * 4096 * 2);
    assert_int_equal(m.buffer[K3_BUF_PACKED], 0);
    assert_int_equal(m.shared_expert, 3 * 4096 * 2048 * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_follows_the_path),
        cmocka_unit_test(test_bytes_of_kimi_k3),
        cmocka_unit_test(test_buffers_of_shards),
        cmocka_unit_test(test_refused_variants),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_backends_with_cp),
        cmocka_unit_test(test_buffers_with_cp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
