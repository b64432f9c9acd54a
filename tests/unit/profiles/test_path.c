#include "bench/profiles/path.h"

#include "tests/unit/profiles/profiles_test.h"

static const k3_path_rule_t *rule_of(const char *name)
{
    k3_error_t            err = K3_ERROR_INIT;
    const k3_path_rule_t *rule = NULL;

    if (k3_path_rule_find(name, &rule, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    return rule;
}

static k3_path_t path_of(const char *profile, const char *rule, k3_path_choice_t choice,
                         unsigned attn_tp)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_path_t  path = {0};

    if (k3_path_resolve(profile_of(profile), rule_of(rule), choice, attn_tp, &path, &err) !=
        K3_OK) {
        fail_msg("%s", err.text);
    }
    assert_ptr_equal(path.rule, rule_of(rule));
    return path;
}

static void path_refused(const char *profile, const char *rule, k3_path_choice_t choice,
                         const char *part)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_path_t  path;

    assert_int_equal(k3_path_resolve(profile_of(profile), rule_of(rule), choice, 4, &path, &err),
                     K3_ERR_UNSUPPORTED);
    assert_says(&err, profile, part, NULL);
}

static void test_rules_by_name(void **state)
{
    k3_error_t            err = K3_ERROR_INIT;
    const k3_path_rule_t *rule = NULL;

    (void)state;
    assert_int_equal(k3_path_rule_count(), 5);
    assert_string_equal(k3_path_rule_at(0)->name, "registry");
    assert_null(k3_path_rule_at(5));
    assert_int_equal(k3_path_rule_find("before-36826", &rule, &err), K3_ERR_USAGE);
    assert_says(&err, "before-36862", "path-rule", NULL);
}

/* A name on a list that no row bears would never match. */
static void test_lists_name_backends(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_path_rule_count(); i++) {
        const char *const *list = k3_path_rule_at(i)->fast;

        for (; list != NULL && *list != NULL; list++) {
            bool found = false;

            for (unsigned row = 0; row < k3_registry_count(); row++) {
                found = found || strcmp(k3_registry_at(row)->backend, *list) == 0;
            }
            if (!found) {
                fail_msg("%s lists %s", k3_path_rule_at(i)->name, *list);
            }
        }
    }
}

/* L01: 32 ranks, attn_tp 8: fast, with the sequence-parallel step, nothing left to reduce. */
static void test_fast_L01(void **state)
{
    k3_path_t path = path_of("mooncake", "registry", K3_PATH_AUTO, 8);

    (void)state;
    assert_true(path.fast && path.sp_moe);
    assert_false(path.all_rows || path.reduce_latent || path.reduced_twice);
}

/* L01 before the fix: every rank dispatches all rows (tp = 32 times), without a second reduction.
 */
static void test_32_times_the_rows_L01(void **state)
{
    k3_path_t path = path_of("mooncake", "before-36862", K3_PATH_AUTO, 8);

    (void)state;
    assert_true(path.all_rows);
    assert_false(path.fast || path.sp_moe || path.reduce_latent || path.reduced_twice);
    path = path_of("mori:v1", "before-35630", K3_PATH_AUTO, 8);
    assert_true(path.all_rows && !path.fast && !path.reduced_twice);
    assert_true(path_of("mori:v1", "before-36862", K3_PATH_AUTO, 8).fast);
    assert_true(path_of("mooncake", "before-37516", K3_PATH_AUTO, 8).fast);
    assert_true(path_of("ascend_fuseep", "before-37516", K3_PATH_AUTO, 8).fast);
    assert_true(path_of("flashinfer_megamoe", "before-37516", K3_PATH_AUTO, 8).fast);
    assert_false(path_of("flashinfer_megamoe", "before-36862", K3_PATH_AUTO, 8).fast);
    assert_true(path_of("deepep:ll", "before-35630", K3_PATH_AUTO, 8).fast);
    assert_true(path_of("megamoe", "before-35630", K3_PATH_AUTO, 8).fast);
}

/* L02: refused at planning, forced by asking for the fallback. */
static void test_double_reduce_L02(void **state)
{
    const char *const rules[] = {"before-35630", "before-36862", "before-37516", "unlisted"};

    (void)state;
    for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        path_refused("deepep_v2:direct", rules[i], K3_PATH_AUTO, "already complete");

        k3_path_t path = path_of("deepep_v2:direct", rules[i], K3_PATH_FALLBACK, 4);

        assert_true(path.reduced_twice && path.reduce_latent && path.all_rows && !path.fast);
        assert_true(path_of("deepep_v2:direct", rules[i], K3_PATH_FAST, 4).fast);
    }
    assert_false(path_of("deepep_v2:direct", "registry", K3_PATH_FALLBACK, 4).reduced_twice);
}

static void test_unlisted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);

        if (p->spans_ep && strcmp(p->name, "null") != 0) {
            path_refused(p->name, "unlisted", K3_PATH_AUTO, "unlisted");
            assert_true(path_of(p->name, "unlisted", K3_PATH_FALLBACK, 1).reduced_twice);
        }
    }
}

static void test_no_all_to_all(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_path_rule_count(); i++) {
        const char *rule = k3_path_rule_at(i)->name;
        k3_path_t   path = path_of("none", rule, K3_PATH_AUTO, 4);

        assert_true(path.reduce_latent);
        assert_false(path.fast || path.sp_moe || path.all_rows || path.reduced_twice);
        path_refused("none", rule, K3_PATH_FAST, "fast");
    }
}

static void test_baselines(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_path_rule_count(); i++) {
        assert_true(path_of("null", k3_path_rule_at(i)->name, K3_PATH_AUTO, 4).fast);
    }
    assert_true(path_of("mpi", "registry", K3_PATH_AUTO, 4).fast);

    k3_path_t path = path_of("mpi", "before-36862", K3_PATH_AUTO, 4);

    assert_true(path.all_rows && !path.fast && !path.reduced_twice);
}

/* L03: attn_tp 1 leaves nothing to scatter; the path says so. */
static void test_no_sequence_parallel_L03(void **state)
{
    (void)state;
    assert_false(path_of("deepep:ll", "registry", K3_PATH_FAST, 1).sp_moe);
    assert_true(path_of("deepep:ll", "registry", K3_PATH_FAST, 2).sp_moe);
    assert_false(path_of("deepep:ll", "registry", K3_PATH_FALLBACK, 2).sp_moe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_by_name),
        cmocka_unit_test(test_lists_name_backends),
        cmocka_unit_test(test_fast_L01),
        cmocka_unit_test(test_32_times_the_rows_L01),
        cmocka_unit_test(test_double_reduce_L02),
        cmocka_unit_test(test_unlisted),
        cmocka_unit_test(test_no_all_to_all),
        cmocka_unit_test(test_baselines),
        cmocka_unit_test(test_no_sequence_parallel_L03),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
