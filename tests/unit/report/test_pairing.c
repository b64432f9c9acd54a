/* Keys taken apart, cells that differ in options, and what tells cells of one backend apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/report/keyparts.h"
#include "bench/report/pairing.h"
#include "tests/unit/report/report_test.h"

#define HEAD(backend) backend "/k3/tiny:E=16,K=4/tp4.dp2.cp1.ep4.n2of1-3#00ff/"
#define TAIL          "registry.fast/deep_gemm.fp8.bf16/q32.ib."

static const char plain[] = HEAD("a:ll") "t8.m16.first:2.5/uniform.s1/" TAIL "p2p/region";

static void expect_part(const k3_key_t *key, k3_key_part_t part, const char *text)
{
    assert_int_equal(key->part[part].length, strlen(text));
    assert_memory_equal(key->part[part].at, text, strlen(text));
}

static void test_split(void **state)
{
    static const char *const parts[K3_KEY_PARTS] = {"a:ll",
                                                    "k3",
                                                    "tiny:E=16,K=4",
                                                    "tp4.dp2.cp1",
                                                    "ep4",
                                                    "n2of1-3#00ff",
                                                    "t8",
                                                    "m16",
                                                    "first:2.5",
                                                    "uniform.s1",
                                                    "registry",
                                                    "fast",
                                                    "deep_gemm",
                                                    "fp8",
                                                    "bf16",
                                                    "32",
                                                    "ib",
                                                    "p2p",
                                                    "",
                                                    "",
                                                    "region",
                                                    "",
                                                    "",
                                                    "",
                                                    ""};
    k3_key_t                 key;

    (void)state;
    assert_true(k3_key_split(plain, &key));
    for (int i = 0; i < K3_KEY_PARTS; i++) {
        expect_part(&key, (k3_key_part_t)i, parts[i]);
    }
    /* A routing may hold slashes and dots; what follows the component is known by its beginning. */
    assert_true(k3_key_split(
        HEAD(
            "b") "t8.m8.equal/trace:/x/q3.y/z.t2.s7/before-36862.fallback/marlin.bf16.bf16/"
                 "q0.roce.nop2p.add.zerocopy/pair/shared-sharded.overlap/weights#12/hidden#34/cuda",
        &key));
    expect_part(&key, K3_KEY_ROUTING, "trace:/x/q3.y/z.t2.s7");
    expect_part(&key, K3_KEY_RULE, "before-36862");
    expect_part(&key, K3_KEY_P2P, "nop2p");
    expect_part(&key, K3_KEY_SIGNAL, "add");
    expect_part(&key, K3_KEY_ZERO_COPY, "zerocopy");
    expect_part(&key, K3_KEY_COMPONENT, "pair");
    expect_part(&key, K3_KEY_SHARED, "sharded.overlap");
    expect_part(&key, K3_KEY_WEIGHTS, "weights#12");
    expect_part(&key, K3_KEY_HIDDEN, "hidden#34");
    expect_part(&key, K3_KEY_DEVICE, "cuda");
    assert_false(k3_key_split("a/x", &key));
    assert_false(k3_key_split("", &key));
    assert_false(k3_key_split("////////////////////////////////////////////////////", &key));
    assert_false(k3_key_split(HEAD("a") "t8.m8.equal/uniform.s1/" TAIL "p2p", &key));
}

static void test_difference(void **state)
{
    char text[256];

    (void)state;
    assert_string_equal(k3_key_difference(plain, plain, text, sizeof(text)), "");
    assert_string_equal(k3_key_difference(plain, "a/x", text, sizeof(text)), "");
    assert_string_equal(
        k3_key_difference(
            plain, HEAD("a:ll") "t8.m32.first:2.5/uniform.s1/" TAIL "nop2p.zerocopy/region/cuda",
            text, sizeof(text)),
        "max-tokens 16 -> 32, p2p on -> off, zero-copy off -> on, device cpu -> cuda");
}

/* Rivals have the work and the component in common, whatever their backend, path and formats. */
static void test_work(void **state)
{
    char a[640], b[640];

    (void)state;
    k3_key_work(plain, a, sizeof(a));
    k3_key_work("b/stock/tiny:E=16,K=4/tp4.dp2.cp1.ep1.n2of1-3#00ff/t8.m8.first:2.5/uniform.s1/"
                "registry.fallback/"
                "marlin.bf16.bf16/q0.ib.p2p/region",
                b, sizeof(b));
    assert_string_equal(a, b);
    k3_key_work(HEAD("a:ll") "t8.m16.first:2.5/uniform.s1/" TAIL "p2p/pair", b, sizeof(b));
    assert_string_not_equal(a, b);
}

static json_t *side_of(const char *const *keys)
{
    json_t *side = json_object();

    for (; *keys != NULL; keys++) {
        json_object_set_new(side, *keys,
                            json_pack("{s:s%, s:s}", "backend", *keys, strcspn(*keys, "/"), "work",
                                      strstr(*keys, "/t8") != NULL ? "eight" : "other"));
    }
    return side;
}

#define ON(backend, t)  HEAD(backend) t ".m8.equal/uniform.s1/" TAIL "p2p/region"
#define OFF(backend, t) HEAD(backend) t ".m8.equal/uniform.s1/" TAIL "nop2p/region"

static void test_pairs(void **state)
{
    static const char *const base[] = {ON("a", "t8"), ON("a", "t16"), ON("b", "t8"), ON("c", "t8"),
                                       NULL};
    static const char *const fresh[] = {OFF("a", "t16"), OFF("a", "t8"), ON("b", "t8"),
                                        ON("d", "t8"), NULL};
    static const char *const mixed[] = {OFF("a", "t8"),
                                        HEAD("a") "t16.m8.equal/uniform.s1/registry.fallback/"
                                                  "deep_gemm.fp8.bf16/q32.ib.p2p/region",
                                        NULL};
    json_t                  *sides[3] = {side_of(base), side_of(fresh), side_of(mixed)};
    json_t                  *pairs = k3_pair_options(sides[0], sides[1]);
    char                     text[256];

    (void)state;
    assert_int_equal(json_object_size(pairs), 2);
    assert_string_equal(json_string_value(json_object_get(pairs, ON("a", "t8"))), OFF("a", "t8"));
    assert_string_equal(json_string_value(json_object_get(pairs, ON("a", "t16"))), OFF("a", "t16"));
    json_decref(pairs);
    /* One side is of two minds: which option is meant to differ cannot be said. */
    pairs = k3_pair_options(sides[0], sides[2]);
    assert_int_equal(json_object_size(pairs), 0);
    json_decref(pairs);

    assert_string_equal(k3_pair_label(sides[0], ON("a", "t8"), false, text, sizeof(text)), "a");
    assert_string_equal(k3_pair_label(sides[0], ON("a", "t8"), true, text, sizeof(text)),
                        "a (tokens 8)");
    for (int i = 0; i < 3; i++) {
        json_decref(sides[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_difference),
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_pairs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
