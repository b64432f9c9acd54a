#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/cell/model.h"

static k3_model_t parse(const char *text)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_model_t model;

    if (k3_model_parse(text, &model, &err) != K3_OK) {
        fail_msg("%s: %s", text, err.text);
    }
    return model;
}

static void assert_refused(const char *text, const char *part, const char *other)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_model_t model;

    assert_int_equal(k3_model_parse(text, &model, &err), K3_ERR_USAGE);
    if (strstr(err.text, part) == NULL || strstr(err.text, other) == NULL) {
        fail_msg("%s: \"%s\" lacks \"%s\" or \"%s\"", text, err.text, part, other);
    }
}

static void test_L10_kimi_k3_bytes(void **state)
{
    k3_model_t m = parse("kimi-k3");
    uint64_t   parameters = (uint64_t)3 * m.latent * m.intermediate;

    (void)state;
    assert_int_equal(m.experts, 896);
    assert_int_equal(m.topk, 16);
    assert_int_equal(m.hidden, 7168);
    assert_int_equal(m.latent, 3584);
    assert_int_equal(m.intermediate, 3072);
    assert_int_equal(m.shared, 6144);
    assert_int_equal(parameters, 33030144);
    assert_int_equal(k3_model_expert_bytes(&m), 17547264);
    assert_int_equal(k3_model_shared_bytes(&m), 264241152);
}

/* gate 896 x 7168 bf16, bias 896 f32, two projections 7168 x 3584 bf16, norm 3584 bf16. */
static void test_dense_bytes(void **state)
{
    k3_model_t k3 = parse("kimi-k3"), v3 = parse("deepseek-v3");

    (void)state;
    assert_int_equal(k3_model_dense_bytes(&k3), 12845056 + 3584 + 2 * 51380224 + 7168);
    assert_int_equal(k3_model_dense_bytes(&v3), 256 * 7168 * 2 + 1024);
    assert_true(k3_model_has_latent(&k3));
    assert_false(k3_model_has_latent(&v3));
}

/* FP8: a byte a value and one f32 for a block of 128 x 128. */
static void test_deepseek_v3_bytes(void **state)
{
    k3_model_t m = parse("deepseek-v3");

    (void)state;
    assert_int_equal(k3_model_expert_bytes(&m), 3 * 7168 * 2048 + 3 * 56 * 16 * 4);
    assert_int_equal(m.activation, K3_ACT_SWIGLU);
    assert_false(m.wide_limits);
}

/* MXFP4: half a byte a value and one E8M0 for 32; the shared expert bf16, as wide as a routed one. */
static void test_deepseek_v4(void **state)
{
    k3_model_t flash = parse("deepseek-v4-flash"), pro = parse("deepseek-v4-pro");

    (void)state;
    assert_int_equal(flash.hidden, 4096);
    assert_int_equal(flash.latent, 4096);
    assert_int_equal(flash.experts, 256);
    assert_int_equal(flash.topk, 6);
    assert_int_equal(flash.intermediate, 2048);
    assert_int_equal(pro.hidden, 7168);
    assert_int_equal(pro.experts, 384);
    assert_int_equal(pro.topk, 6);
    assert_int_equal(pro.intermediate, 3072);
    assert_int_equal(k3_model_expert_bytes(&flash), 3 * 4096 * 2048 / 32 * 17);
    assert_int_equal(k3_model_expert_bytes(&pro), 3 * 7168 * 3072 / 32 * 17);
    assert_int_equal(k3_model_shared_bytes(&flash), 3 * 4096 * 2048 * 2);
    assert_int_equal(k3_model_shared_bytes(&pro), 3 * 7168 * 3072 * 2);
    assert_false(k3_model_has_latent(&flash) || k3_model_has_latent(&pro));
    assert_false(flash.wide_limits || pro.wide_limits);
}

/* Every entry of the table is a shape that the parser itself accepts. */
static void test_table(void **state)
{
    (void)state;
    assert_true(k3_model_count() >= 4);
    for (unsigned i = 0; i < k3_model_count(); i++) {
        k3_model_t m = parse(k3_model_at(i)->name);

        assert_string_equal(m.name, m.family);
        assert_int_equal(m.experts, k3_model_at(i)->experts);
        assert_true(k3_model_expert_bytes(&m) > 0);
    }
}

static void test_variations(void **state)
{
    k3_model_t m = parse("tiny:E=32,K=8,H=128,L=64,I=96,S=0");

    (void)state;
    assert_string_equal(m.name, "tiny:E=32,K=8,H=128,L=64,I=96,S=0");
    assert_string_equal(m.family, "tiny");
    assert_int_equal(m.experts, 32);
    assert_int_equal(m.topk, 8);
    assert_int_equal(m.hidden, 128);
    assert_int_equal(m.latent, 64);
    assert_int_equal(m.intermediate, 96);
    assert_int_equal(m.shared, 0);
    assert_int_equal(k3_model_shared_bytes(&m), 0);

    m = parse("tiny:K=64");
    assert_int_equal(m.topk, m.experts);
}

static void test_one_width_without_latent_step(void **state)
{
    k3_model_t by_h = parse("deepseek-v3:H=2048"), by_l = parse("deepseek-v3:L=2048");
    k3_model_t other = parse("deepseek-v3:E=288");

    (void)state;
    assert_int_equal(by_h.latent, 2048);
    assert_int_equal(by_l.hidden, 2048);
    assert_int_equal(other.hidden, 7168);
    assert_int_equal(other.latent, 7168);
    assert_refused("deepseek-v3:H=2048,L=1024", "H 2048 and L 1024", "one width");
}

static void test_refusals(void **state)
{
    (void)state;
    assert_refused("kimi-k4", "kimi-k4", "kimi-k3");
    assert_refused("", "model", "");
    assert_refused(":E=32", "model", "");
    assert_refused("tiny:E=16,K=17", "K=17", "16");
    assert_refused("tiny:E=128,K=65", "K=65", "64");
    assert_refused("tiny:L=100", "L 100", "32");
    assert_refused("tiny:L=16,K=2", "L 16", "32");
    assert_refused("tiny:I=48", "I 48", "32");
    assert_refused("tiny:H=100", "H 100", "16");
    assert_refused("tiny:S=8", "S 8", "16");
    assert_refused("deepseek-v3:I=2080", "I 2080", "128");
    assert_refused("tiny:Q=4", "Q", "model key");
    assert_refused("tiny:e=4", "e", "model key");
    assert_refused("tiny:", "KEY=VALUE", "E, K, H, L, I, S");
    assert_refused("tiny:E", "KEY=VALUE", "E");
    assert_refused("tiny:=4", "KEY=VALUE", "=4");
    assert_refused("tiny:E=32,", "KEY=VALUE", "E, K, H, L, I, S");
    assert_refused("tiny:EXPERTSX=4", "KEY=VALUE", "EXPERTSX");
    assert_refused("tiny:E=0", "0", "model key E");
    assert_refused("tiny:K=-1", "-1", "model key K");
    assert_refused("tiny:E=32x", "32x", "model key E");
    assert_refused("tiny:E=32 K=4", "32 K=4", "model key E");
    assert_refused("tiny:E=1048577", "1048577", "1048576");
    assert_refused("tiny:E=4294967328", "4294967328", "1048576");
    assert_refused("tiny:E=99999999999999999999999", "99999999999999999999999", "model key E");
}

static void test_long_names(void **state)
{
    char text[K3_MODEL_NAME_MAX + 64];

    (void)state;
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_refused(text, "longer than 95", "xxx");

    memcpy(text, "tiny:", 5);
    assert_refused(text, "longer than 95", "tiny");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_L10_kimi_k3_bytes),
        cmocka_unit_test(test_dense_bytes),
        cmocka_unit_test(test_deepseek_v3_bytes),
        cmocka_unit_test(test_deepseek_v4),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_variations),
        cmocka_unit_test(test_one_width_without_latent_step),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_long_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
