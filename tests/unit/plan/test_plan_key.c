#include <unistd.h>

#include "tests/unit/plan/plan_test.h"

#include "bench/cell/npy.h"

/* Long names that differ at their end only. */
static char one_trace[160], other_trace[160], folder[120];

static int make_traces(void **state)
{
    static const int32_t ids[8 * 16 * 4]; /* rows of -1 would do too; here all to expert 0 */
    k3_error_t           err = K3_ERROR_INIT;
    uint64_t             shape[2] = {8 * 16, 1};

    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/k3_test_plan_key_%s.XXXXXX",
             "with_a_folder_name_that_is_much_longer_than_usual");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(one_trace, sizeof(one_trace), "trace:%s/1.npy", folder);
    snprintf(other_trace, sizeof(other_trace), "trace:%s/2.npy", folder);
    k3_npy_write(one_trace + 6, K3_NPY_I32, 2, shape, ids, &err);
    k3_npy_write(other_trace + 6, K3_NPY_I32, 2, shape, ids, &err);
    return err.status == K3_OK ? 0 : -1;
}

static int remove_traces(void **state)
{
    (void)state;
    unlink(one_trace + 6);
    unlink(other_trace + 6);
    return rmdir(folder);
}

static void key_of(k3_cell_request_t request, char *key)
{
    k3_cell_t cell = cell_of(request);

    assert_true(strlen(cell.key) > 0 && strlen(cell.key) < K3_CELL_KEY_MAX);
    snprintf(key, K3_CELL_KEY_MAX, "%s", cell.key);
    k3_cell_destroy(&cell);
}

static k3_cell_request_t base(void)
{
    k3_cell_request_t request = request_of("mooncake", "tiny", 16);

    request.max_tokens = 32;
    return request;
}

static void test_equal_requests_equal_keys(void **state)
{
    k3_cell_request_t request = base();
    char              a[K3_CELL_KEY_MAX], b[K3_CELL_KEY_MAX];

    (void)state;
    key_of(request, a);
    key_of(request, b);
    assert_string_equal(a, b);
    /* What resolves to the same is the same. */
    request.dispatch_dtype = "fp8";
    request.combine_dtype = "bf16";
    request.runner = "deep_gemm";
    request.path = "fast";
    request.path_rule = "registry";
    request.skew = "equal";
    request.routing = "uniform";
    request.generation = "k3";
    request.ep = 16;
    request.qps = 16;
    request.component = "region";
    key_of(request, b);
    assert_string_equal(a, b);
}

static void test_every_choice_is_in_the_key(void **state)
{
    enum { N = 26 };
    k3_cell_request_t r[N];
    static char       keys[N][K3_CELL_KEY_MAX];
    unsigned          n = 0;

    (void)state;
    for (unsigned i = 0; i < N; i++) {
        r[i] = base();
    }
    n++; /* the base itself */
    r[n++].backend = "deepep:ll";
    r[n++].backend = "mpi";
    r[n++].model = "tiny:K=2";
    r[n++].model = "tiny:K=3";
    r[n++].tp = 8;
    r[n++].dp = 2;
    r[n++].tokens = 17;
    r[n++].max_tokens = 64;
    r[n++].skew = "ragged";
    r[n++].skew = "16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,15";
    r[n++].skew = "15,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16";
    r[n++].routing = "zipf:1.0";
    r[n++].routing = "zipf:1.1";
    r[n++].seed = 2;
    r[n++].path_rule = "before-36862";
    r[n++].path = "fallback";
    r[n++].dispatch_dtype = "bf16";
    r[n++].qps = 4;
    r[n++].fabric = "roce";
    r[n++].p2p = false;
    r[n++].component = "pair";
    r[n++].component = "control";
    r[n++].nodes_as = 4;
    r[n].backend = "none";
    r[n++].ep = 4;
    r[n].backend = "none";
    r[n++].runner = "triton";
    assert_int_equal(n, N);
    for (unsigned i = 0; i < N; i++) {
        key_of(r[i], keys[i]);
        for (unsigned j = 0; j < i; j++) {
            if (strcmp(keys[i], keys[j]) == 0) {
                fail_msg("requests %u and %u have one key: %s", j, i, keys[i]);
            }
        }
    }
}

static void assert_keys_differ(k3_cell_request_t one, k3_cell_request_t other)
{
    char a[K3_CELL_KEY_MAX], b[K3_CELL_KEY_MAX];

    key_of(one, a);
    key_of(other, b);
    assert_string_not_equal(a, b);
}

static void test_long_model_names(void **state)
{
    k3_cell_request_t one = base(), other = base();

    (void)state;
    one.model = "kimi-k3-mini:E=000000000000000000000000000000112,K=16,H=1024,S=0";
    other.model = "kimi-k3-mini:E=000000000000000000000000000000112,K=16,H=1024,S=16";
    assert_keys_differ(one, other);
}

/* A list of rows for each of 128 ranks is longer than any key. */
static void test_long_skews(void **state)
{
    k3_cell_request_t one = request_of("mooncake", "tiny:E=128", 128), other;
    static char       skew[128 * 5], last[128 * 5];

    (void)state;
    for (int r = 0; r < 128; r++) {
        snprintf(skew + strlen(skew), 6, "%s100", r > 0 ? "," : "");
        snprintf(last + strlen(last), 6, "%s%d", r > 0 ? "," : "", r < 127 ? 100 : 101);
    }
    one.max_tokens = 128;
    one.skew = skew;
    other = one;
    other.skew = last;
    assert_keys_differ(one, other);
    other = one;
    other.seed = 2;
    assert_keys_differ(one, other);
    other = one;
    other.component = "dispatch";
    assert_keys_differ(one, other);
    other = one;
    other.p2p = false;
    assert_keys_differ(one, other);
    other = one;
    other.qps = 1;
    assert_keys_differ(one, other);
}

static void test_long_routings(void **state)
{
    k3_cell_request_t one = base(), other;

    (void)state;
    one.model = "tiny:K=1";
    one.tp = 8;
    one.routing = one_trace;
    other = one;
    other.routing = other_trace;
    assert_keys_differ(one, other);
    one.routing = "zipf:1.00000000000000000000000000000000000000000000000000000000000000000001";
    other.routing = "zipf:1.00000000000000000000000000000000000000000000000000000000000000000002";
    assert_keys_differ(one, other);
}

/* Everything long at once: the last choices are still there. */
static void test_all_long(void **state)
{
    static char       skew[64 * 9];
    k3_cell_request_t one = request_of("mooncake", NULL, 64), other;

    (void)state;
    for (int r = 0; r < 64; r++) {
        snprintf(skew + strlen(skew), 10, "%s%08d", r > 0 ? "," : "", 16);
    }
    one.model = "kimi-k3-mini:E=000000000000000000000000000000000000000000000000000000000000128";
    one.skew = skew;
    one.seed = UINT64_MAX;
    one.max_tokens = 1000;
    one.routing = "zipf:1.00000000000000000000000000000000000000000000000000000000000000000001";
    one.path_rule = "before-36862";
    one.path = "fast";
    one.fabric = "roce";
    one.component = "control";
    other = one;
    other.component = "combine";
    assert_keys_differ(one, other);
    other = one;
    other.p2p = false;
    assert_keys_differ(one, other);
}

/* Nodes of 8 and 8, of 12 and 4, and 8 and 8 dealt in turn carry other lanes. */
static void test_node_sizes(void **state)
{
    static int        even[16], uneven[16], dealt[16];
    k3_cell_request_t one = base(), other;

    (void)state;
    for (int r = 0; r < 16; r++) {
        even[r] = r / 8;
        uneven[r] = r / 12;
        dealt[r] = r % 2;
    }
    one.world = 16;
    one.node_of = even;
    other = one;
    other.node_of = uneven;
    assert_keys_differ(one, other);
    one.node_of = dealt;
    assert_keys_differ(one, other);
    other.node_of = even;
    assert_keys_differ(one, other);
}

/* A file of the same name with other rows is other work. */
static void test_trace_contents(void **state)
{
    static int32_t    ids[8 * 16];
    uint64_t          shape[2] = {8 * 16, 1};
    k3_error_t        err = K3_ERROR_INIT;
    k3_cell_request_t request = base();
    char              a[K3_CELL_KEY_MAX], b[K3_CELL_KEY_MAX], name[] = "trace:/tmp/k3_key_XXXXXX";
    int               file = mkstemp(name + 6);

    (void)state;
    assert_true(file >= 0);
    close(file);
    request.model = "tiny:K=1";
    request.tp = 8;
    request.routing = name;
    k3_npy_write(name + 6, K3_NPY_I32, 2, shape, ids, &err);
    key_of(request, a);
    key_of(request, b);
    assert_string_equal(a, b);
    ids[77] = 3;
    k3_npy_write(name + 6, K3_NPY_I32, 2, shape, ids, &err);
    key_of(request, b);
    assert_string_not_equal(a, b);
    assert_int_equal(err.status, K3_OK);
    unlink(name + 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_requests_equal_keys),
        cmocka_unit_test(test_every_choice_is_in_the_key),
        cmocka_unit_test(test_long_model_names),
        cmocka_unit_test(test_long_skews),
        cmocka_unit_test(test_long_routings),
        cmocka_unit_test(test_all_long),
        cmocka_unit_test(test_node_sizes),
        cmocka_unit_test(test_trace_contents),
    };

    return cmocka_run_group_tests(tests, make_traces, remove_traces);
}
