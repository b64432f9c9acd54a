#include "bench/profiles/path.h"
#include "bench/profiles/runner.h"
#include "tests/unit/profiles/profiles_test.h"

static const char *const contract_names[] = {
    "mooncake",
    "deepep:ll",
    "deepep:normal",
    "deepep_v2:direct",
    "deepep_v2:hybrid",
    "mori:intra",
    "mori:v1",
    "mori:v1ll",
    "mori:asyncll",
    "pplx",
    "nixl",
    "flashinfer",
    "megamoe",
    "flashinfer_megamoe",
    "ascend_fuseep",
    "moonep",
    "nccl_ep",
    "uccl",
    "pplx_garden",
    "none",
    "mpi",
    "null",
    /* beyond the contract: the other form of a mode's combine */
    "mori:intra_pull",
};

enum { CONTRACT_COUNT = sizeof(contract_names) / sizeof(contract_names[0]) };

static void test_names_of_the_contract(void **state)
{
    (void)state;
    assert_int_equal(k3_registry_count(), CONTRACT_COUNT);
    assert_null(k3_registry_at(CONTRACT_COUNT));
    for (unsigned i = 0; i < CONTRACT_COUNT; i++) {
        assert_string_equal(profile_of(contract_names[i])->name, contract_names[i]);
    }
}

static void assert_find_refused(const char *name, const char *a, const char *b, const char *c)
{
    k3_error_t          err = K3_ERROR_INIT;
    const k3_profile_t *p = NULL;

    assert_int_equal(k3_registry_find(name, &p, &err), K3_ERR_USAGE);
    assert_says(&err, a, b, c);
    assert_null(p);
}

static void test_lookup(void **state)
{
    (void)state;
    assert_find_refused("deepep", "deepep:ll", "deepep:normal", "several modes");
    assert_find_refused("deepep_v2", "deepep_v2:direct", "deepep_v2:hybrid", NULL);
    assert_find_refused("mori", "mori:v1ll", "mori:asyncll", "mori:intra_pull");
    assert_find_refused("deepep:lll", "deepep:ll", "deepep:normal", "no such mode");
    assert_find_refused("mooncak", "'mooncake'", NULL, NULL);
    assert_find_refused("moonep2", "'moonep'", NULL, NULL);
    assert_find_refused("", "backend", NULL, NULL);
    assert_find_refused(":", "backend", NULL, NULL);
    assert_find_refused("mooncake:ll", "backend", NULL, NULL);
}

static void check_identity(const k3_profile_t *p)
{
    size_t backend = strlen(p->backend);

    assert_memory_equal(p->name, p->backend, backend);
    if (p->mode[0] == '\0') {
        assert_string_equal(p->name, p->backend);
    } else {
        assert_int_equal(p->name[backend], ':');
        assert_string_equal(p->name + backend + 1, p->mode);
    }
    assert_true(p->source != NULL && p->source[0] != '\0' && p->source[0] != '/');
    assert_true(p->notes != NULL && strchr(p->notes, '\n') == NULL && strlen(p->notes) <= 80);
    assert_string_not_equal(k3_engine_name(p->engine), "unknown");
    assert_string_not_equal(k3_dispatch_layout_name(p->layout), "unknown");
}

static void check_formats(const k3_profile_t *p)
{
    unsigned int8 = K3_BIT(K3_FORMAT_INT8);

    assert_true((p->dispatch_formats & K3_BIT(p->dispatch_auto)) != 0);
    assert_true((p->combine_formats & K3_BIT(p->combine_auto)) != 0);
    assert_int_equal(p->combine_auto, K3_FORMAT_BF16);
    assert_true((p->dispatch_formats & ~(K3_BIT(K3_FORMAT_COUNT) - 1)) == 0);
    assert_true((p->combine_formats & int8) == 0);
    assert_true((p->dispatch_formats & int8) == 0 || strcmp(p->name, "ascend_fuseep") == 0);
    assert_true(p->pad >= 1 && p->align >= 1);
}

/* A slab has no count exchange, so each (expert, source) must be signalled, also for no row. */
static void check_slab(const k3_profile_t *p)
{
    assert_int_equal(p->copy, K3_COPY_PER_EXPERT);
    assert_int_equal(p->combine_copy, K3_COPY_PER_EXPERT);
    assert_int_not_equal(p->signal_op, K3_SIGNAL_NONE);
    assert_true(p->dispatch_when == K3_WHEN_PER_EXPERT || p->notify);
    assert_true(p->dispatch_value == K3_VALUE_MINUS_COUNT ||
                p->dispatch_value == K3_VALUE_PLUS_COUNT || p->notify);
    assert_int_not_equal(p->completion, K3_DONE_NONE);
    assert_int_not_equal(p->qp_count, K3_QPS_ZERO);
}

static void check_signals(const k3_profile_t *p)
{
    bool none = p->signal_op == K3_SIGNAL_NONE;

    assert_int_equal(none, p->signal_bytes == 0);
    assert_int_equal(none, p->dispatch_when == K3_WHEN_NEVER);
    assert_int_equal(none, p->combine_when == K3_WHEN_NEVER);
    assert_int_equal(none, p->dispatch_value == K3_VALUE_NONE);
    assert_int_equal(none, p->combine_value == K3_VALUE_NONE);
}

static void check_faults(const k3_profile_t *p)
{
    bool bounded = p->fault == K3_FAULT_MASK || p->fault == K3_FAULT_TRAP;

    assert_int_equal(bounded, p->timeout_s > 0.0);
    assert_true(!p->first_call_unlimited || bounded);
}

static void check_predicates(const k3_profile_t *p)
{
    k3_error_t            err = K3_ERROR_INIT;
    const k3_path_rule_t *rule = NULL;
    k3_path_t             path;
    const k3_runner_t    *runner = NULL;

    assert_int_equal(k3_path_rule_find("registry", &rule, &err), K3_OK);
    assert_int_equal(k3_path_resolve(p, rule, K3_PATH_AUTO, 4, &path, &err), K3_OK);
    assert_int_equal(path.fast, p->spans_ep);
    assert_int_equal(path.reduce_latent, !p->combine_complete);
    assert_true(!p->spans_ep || p->combine_complete);
    assert_int_equal(p->spans_ep, p->limits.experts_divide);
    assert_int_equal(k3_runner_find("auto", p, &runner, &err), K3_OK);
    assert_true(!p->limits.one_node || p->qp_count == K3_QPS_ZERO);
    assert_int_equal(p->limits.lifted & (K3_LIFT_TOPK | K3_LIFT_WIDTHS),
                     K3_LIFT_TOPK | K3_LIFT_WIDTHS);
}

static void test_every_row(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);

        check_identity(p);
        check_formats(p);
        check_signals(p);
        check_faults(p);
        check_predicates(p);
        if (p->engine == K3_ENGINE_SLAB) {
            check_slab(p);
        }
        for (unsigned other = 0; other < i; other++) {
            assert_string_not_equal(p->name, k3_registry_at(other)->name);
        }
    }
}

static void test_slabs_of_today(void **state)
{
    const k3_profile_t *m = profile_of("mooncake"), *d = profile_of("deepep:ll");

    (void)state;
    assert_int_equal(m->signal_op, K3_SIGNAL_ADD);
    assert_int_equal(m->signal_bytes, 4);
    assert_int_equal(m->doorbell_every, 1);
    assert_int_equal(d->doorbell_every, 4);
    assert_true(m->doorbell_signal && d->doorbell_signal);
    assert_true(m->first_call_unlimited && m->timeout_s == 10.0);
    assert_true(d->mask_at_send && !m->mask_at_send);
    assert_true(!m->exclusive && d->exclusive);
}

static void test_baselines(void **state)
{
    const k3_profile_t *mpi = profile_of("mpi"), *null = profile_of("null"),
                       *none = profile_of("none");

    (void)state;
    assert_true(mpi->spans_ep && mpi->combine_complete && mpi->notify);
    assert_int_equal(mpi->copy, K3_COPY_PER_EXPERT);
    assert_int_equal(mpi->header_bytes, 8);
    assert_int_equal(mpi->dispatch_auto, K3_FORMAT_BF16);
    assert_true(null->spans_ep && null->combine_complete);
    assert_int_equal(null->engine, K3_ENGINE_NULL);
    assert_int_equal(null->copy, K3_COPY_NONE);
    assert_true(!none->spans_ep && !none->combine_complete);
    assert_int_equal(none->copy, K3_COPY_REPLICATE);
}

typedef struct golden {
    const char *name;
    k3_format_t format;
    uint32_t    width, topk;
    uint64_t    dispatch, combine, stride;
} golden_t;

/* Record sizes that the libraries document. */
static const golden_t goldens[] = {
    {"deepep:ll", K3_FORMAT_FP8, 3584, 16, 3712, 7168, 7280},
    {"deepep:ll", K3_FORMAT_BF16, 3584, 16, 7184, 7168, 7280},
    {"deepep:ll", K3_FORMAT_FP8, 7168, 8, 7408, 14336, 14560},
    {"deepep:ll", K3_FORMAT_BF16, 7168, 8, 14352, 14336, 14560},
    {"deepep:ll", K3_FORMAT_MXFP8, 3584, 16, 3712, 7168, 7280},
    {"deepep:ll", K3_FORMAT_MXFP4, 3584, 16, 1920, 7168, 7280},
    {"mooncake", K3_FORMAT_FP8, 2048, 8, 2128, 4096, 4096},
    {"mooncake", K3_FORMAT_FP8, 2560, 8, 2656, 5120, 5120},
    {"mooncake", K3_FORMAT_FP8, 3072, 8, 3184, 6144, 6144},
    {"mooncake", K3_FORMAT_FP8, 3584, 16, 3712, 7168, 7168},
    {"mooncake", K3_FORMAT_BF16, 3584, 16, 7184, 7168, 7168},
    {"mooncake", K3_FORMAT_FP8, 4096, 8, 4240, 8192, 8192},
    {"mooncake", K3_FORMAT_FP8, 5120, 8, 5296, 10240, 10240},
    {"mooncake", K3_FORMAT_FP8, 6144, 8, 6352, 12288, 12288},
    {"mooncake", K3_FORMAT_FP8, 7168, 8, 7408, 14336, 14336},
    {"mooncake", K3_FORMAT_BF16, 7168, 8, 14352, 14336, 14336},
    {"mooncake", K3_FORMAT_FP8, 8192, 8, 8464, 16384, 16384},
    {"mooncake", K3_FORMAT_BF16, 8192, 8, 16400, 16384, 16384},
    {"deepep_v2:direct", K3_FORMAT_FP8, 3584, 16, 3936, 7296, 7296},
    {"deepep_v2:direct", K3_FORMAT_BF16, 3584, 16, 7392, 7296, 7296},
    {"deepep_v2:hybrid", K3_FORMAT_FP8, 7168, 8, 7520, 14400, 14400},
    {"deepep_v2:hybrid", K3_FORMAT_BF16, 7168, 8, 14464, 14400, 14400},
    {"deepep:normal", K3_FORMAT_FP8, 7168, 8, 7472, 14384, 14384},
    {"deepep:normal", K3_FORMAT_BF16, 7168, 8, 14416, 14384, 14384},
    {"deepep:normal", K3_FORMAT_BF16, 256, 4, 560, 544, 544},
    {"mori:v1", K3_FORMAT_BF16, 7168, 8, 14404, 14336, 14336},
    {"mori:v1ll", K3_FORMAT_FP8, 7168, 8, 7460, 14336, 14336},
    {"mori:intra", K3_FORMAT_FP8, 3584, 16, 3828, 7168, 7168},
    {"mori:asyncll", K3_FORMAT_BF16, 3584, 16, 7300, 7168, 7168},
    {"pplx", K3_FORMAT_FP8, 7168, 8, 7408, 14336, 14336},
    {"pplx_garden", K3_FORMAT_FP8, 7168, 8, 7408, 14336, 14336},
    {"nixl", K3_FORMAT_FP8, 3584, 16, 3712, 7168, 7280},
    {"uccl", K3_FORMAT_FP8, 7168, 8, 7408, 14336, 14560},
    {"flashinfer", K3_FORMAT_BF16, 7168, 8, 14400, 14336, 14336},
    {"nccl_ep", K3_FORMAT_FP8, 3584, 16, 3744, 7168, 7168},
    {"nccl_ep", K3_FORMAT_BF16, 7168, 8, 14368, 14336, 14336},
    {"megamoe", K3_FORMAT_MXFP8, 3584, 16, 3700, 7168, 7168},
    {"ascend_fuseep", K3_FORMAT_INT8, 3584, 8, 3616, 7168, 7168},
    {"mpi", K3_FORMAT_BF16, 3584, 16, 7176, 7168, 7168},
    {"none", K3_FORMAT_BF16, 3584, 16, 7168, 7168, 7168},
};

/* L09: a latent row, not a hidden one; N06: bf16 is not counted at the fp8 size. */
static void test_record_bytes_L09_N06(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
        const golden_t     *g = &goldens[i];
        const k3_profile_t *p = profile_of(g->name);
        const k3_format_t   bf16 = K3_FORMAT_BF16;
        uint64_t            got = k3_profile_dispatch_record(p, g->format, g->width, g->topk);

        if (got != g->dispatch) {
            fail_msg("%s %s %u: %llu", g->name, k3_format_names[g->format], g->width,
                     (unsigned long long)got);
        }
        assert_int_equal(k3_profile_combine_record(p, bf16, g->width, g->topk), g->combine);
        assert_int_equal(k3_profile_combine_stride(p, bf16, g->width, g->topk), g->stride);
    }
}

static void test_payload_bytes(void **state)
{
    const k3_profile_t *p = profile_of("deepep:ll");

    (void)state;
    assert_int_equal(k3_profile_dispatch_payload(p, K3_FORMAT_BF16, 3584), 7168);
    assert_int_equal(k3_profile_dispatch_payload(p, K3_FORMAT_FP8, 3584), 3696);
    assert_int_equal(k3_profile_dispatch_payload(p, K3_FORMAT_MXFP8, 3584), 3696);
    assert_int_equal(k3_profile_dispatch_payload(p, K3_FORMAT_MXFP4, 3584), 1904);
    assert_int_equal(k3_profile_combine_payload(p, K3_FORMAT_BF16, 3584), 7168);
}

static void test_every_enum_has_names(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);
        const char *const   names[] = {
              k3_copy_rule_name(p->copy),
              k3_copy_rule_name(p->combine_copy),
              k3_slot_rule_name(p->slots),
              k3_signal_op_name(p->signal_op),
              k3_signal_value_name(p->dispatch_value),
              k3_signal_when_name(p->combine_when),
              k3_qp_count_name(p->qp_count),
              k3_qp_map_name(p->qp_map),
              k3_completion_name(p->completion),
              k3_weights_at_name(p->weights_at),
              k3_fault_action_name(p->fault),
        };

        for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
            assert_string_not_equal(names[n], "unknown");
        }
    }
    assert_string_equal(k3_engine_name(K3_ENGINE_ID_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_the_contract),
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_slabs_of_today),
        cmocka_unit_test(test_baselines),
        cmocka_unit_test(test_record_bytes_L09_N06),
        cmocka_unit_test(test_payload_bytes),
        cmocka_unit_test(test_every_enum_has_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
