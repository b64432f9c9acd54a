/* Rules of profiles one by one. */
#include "profiles_test.h"

#include "bench/profiles/rules.h"

static void test_a_profile_has_its_own_rules(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        k3_profile_t copy;

        memcpy(&copy, k3_registry_at(i), sizeof(copy));
        for (int rule = 0; rule < K3_RULE_COUNT; rule++) {
            assert_false(k3_rule_turn((k3_rule_t)rule, &copy, k3_registry_at(i)));
        }
    }
}

/* What the two differ in, and after all rules nothing that shapes traffic differs any more. */
static void test_deepep_to_mooncake(void **state)
{
    static const k3_rule_t differ[] = {K3_RULE_QPS,           K3_RULE_POSTING,      K3_RULE_LOCK,
                                       K3_RULE_BUFFER,        K3_RULE_MASK_AT_SEND, K3_RULE_TIMEOUT,
                                       K3_RULE_COMBINE_STRIDE};
    const k3_profile_t    *to = profile_of("mooncake");
    k3_profile_t           p;
    unsigned               turned = 0, wanted = 0;

    (void)state;
    memcpy(&p, profile_of("deepep:ll"), sizeof(p));
    for (int rule = 0; rule < K3_RULE_COUNT; rule++) {
        turned |= k3_rule_turn((k3_rule_t)rule, &p, to) ? 1u << rule : 0;
        assert_non_null(k3_rule_name((k3_rule_t)rule));
    }
    for (size_t i = 0; i < sizeof(differ) / sizeof(differ[0]); i++) {
        wanted |= 1u << differ[i];
    }
    assert_int_equal(turned, wanted);
    assert_int_equal(p.qp_count, to->qp_count);
    assert_int_equal(p.doorbell_every, to->doorbell_every);
    assert_int_equal(p.combine_slot_extra, to->combine_slot_extra);
    assert_int_equal(p.fault, to->fault);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_profile_has_its_own_rules),
        cmocka_unit_test(test_deepep_to_mooncake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
