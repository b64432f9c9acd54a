#include "tests/unit/profiles/profiles_test.h"

/* --- queue pairs ----------------------------------------------------------------------------- */

typedef struct qp_row {
    uint32_t ranks, experts, existing, ib, ib_most, roce, roce_most;
} qp_row_t;

/* Mooncake's QP map: active QPs and the largest number of experts on one. */
static const qp_row_t mooncake_table[] = {
    {8, 256, 32, 32, 1, 8, 4},  {8, 288, 32, 32, 2, 8, 5},  {8, 896, 32, 32, 4, 8, 14},
    {12, 288, 21, 21, 2, 8, 3}, {16, 256, 16, 16, 1, 8, 2}, {16, 288, 16, 16, 2, 8, 3},
    {16, 896, 16, 16, 4, 8, 7}, {32, 256, 8, 8, 1, 8, 1},   {32, 288, 8, 8, 2, 8, 2},
    {32, 896, 8, 8, 4, 8, 4},   {64, 256, 4, 4, 1, 4, 1},   {64, 896, 4, 4, 4, 4, 4},
    {128, 256, 2, 2, 1, 2, 1},  {128, 896, 2, 2, 4, 2, 4},
};

static k3_qp_choice_t qps(const char *name, uint32_t ranks, uint32_t experts,
                          k3_fabric_type_t fabric, uint64_t asked)
{
    k3_error_t     err = K3_ERROR_INIT;
    k3_qp_choice_t choice = {0};

    if (k3_profile_qps(profile_of(name), ranks, experts, fabric, asked, &choice, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    assert_true(choice.active <= choice.existing);
    return choice;
}

static void qps_refused(const char *name, uint32_t ranks, uint32_t experts, uint64_t asked,
                        const char *a, const char *b)
{
    k3_error_t     err = K3_ERROR_INIT;
    k3_qp_choice_t choice;

    assert_int_equal(
        k3_profile_qps(profile_of(name), ranks, experts, K3_FABRIC_IB, asked, &choice, &err),
        K3_ERR_UNSUPPORTED);
    assert_says(&err, name, a, b);
}

/* Experts on the fullest of the active QPs, by local expert mod active. */
static uint32_t most(const qp_row_t *row, uint32_t active)
{
    return (row->experts / row->ranks + active - 1) / active;
}

static void test_mooncake_table(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(mooncake_table) / sizeof(mooncake_table[0]); i++) {
        const qp_row_t *row = &mooncake_table[i];
        k3_qp_choice_t  ib = qps("mooncake", row->ranks, row->experts, K3_FABRIC_IB, 0);
        k3_qp_choice_t  roce = qps("mooncake", row->ranks, row->experts, K3_FABRIC_ROCE, 0);

        assert_int_equal(ib.existing, row->existing);
        assert_int_equal(roce.existing, row->existing);
        assert_int_equal(ib.active, row->ib);
        assert_int_equal(roce.active, row->roce);
        assert_int_equal(most(row, ib.active), row->ib_most);
        assert_int_equal(most(row, roce.active), row->roce_most);
        assert_false(ib.what_if || roce.what_if);
    }
}

/* Q10: the RoCE cap applies, --qps overrides it up to what exists. */
static void test_mooncake_asked_Q10(void **state)
{
    (void)state;
    assert_int_equal(qps("mooncake", 8, 256, K3_FABRIC_ROCE, 0).active, 8);
    assert_int_equal(qps("mooncake", 8, 256, K3_FABRIC_ROCE, 4).active, 4);
    assert_int_equal(qps("mooncake", 8, 256, K3_FABRIC_ROCE, 4).existing, 32);
    assert_int_equal(qps("mooncake", 8, 256, K3_FABRIC_ROCE, 32).active, 32);
    assert_false(qps("mooncake", 8, 256, K3_FABRIC_IB, 1).what_if);
    qps_refused("mooncake", 8, 256, 33, "33", "limit of 32");
}

/* Q13: ranks that do not divide 256. */
static void test_mooncake_odd_ranks_Q13(void **state)
{
    (void)state;
    assert_int_equal(qps("mooncake", 12, 288, K3_FABRIC_IB, 0).existing, 21);
    assert_int_equal(qps("mooncake", 3, 33, K3_FABRIC_IB, 0).existing, 85);
    assert_int_equal(qps("mooncake", 256, 256, K3_FABRIC_IB, 0).existing, 1);
    qps_refused("mooncake", 257, 257, 0, "256", "257");
}

/* Q11: fewer than the local experts is a what-if. */
static void test_deepep_ll_Q11(void **state)
{
    k3_qp_choice_t few = qps("deepep:ll", 16, 256, K3_FABRIC_IB, 1);
    k3_qp_choice_t more = qps("deepep:ll", 16, 256, K3_FABRIC_IB, 24);

    (void)state;
    assert_int_equal(qps("deepep:ll", 16, 256, K3_FABRIC_ROCE, 0).active, 16);
    assert_int_equal(qps("deepep:ll", 32, 896, K3_FABRIC_IB, 0).existing, 28);
    assert_false(qps("deepep:ll", 16, 256, K3_FABRIC_IB, 16).what_if);
    assert_true(few.what_if && few.existing == 1 && few.active == 1);
    assert_true(!more.what_if && more.existing == 24 && more.active == 16);
    assert_int_equal(qps("deepep:ll", 16, 256, K3_FABRIC_IB, 1024).existing, 1024);
    qps_refused("deepep:ll", 16, 256, 1025, "1025", "1024");
}

/* Q07: the channels, or at least the SMs. */
static void test_deepep_normal_Q07(void **state)
{
    (void)state;
    assert_int_equal(qps("deepep:normal", 16, 256, K3_FABRIC_IB, 0).existing, 24);
    assert_int_equal(qps("deepep:normal", 16, 256, K3_FABRIC_IB, 0).active, 20);
    assert_int_equal(qps("deepep:normal", 16, 256, K3_FABRIC_IB, 10).active, 10);
    assert_int_equal(qps("deepep:normal", 16, 256, K3_FABRIC_IB, 20).active, 20);
    qps_refused("deepep:normal", 16, 256, 1, "10 channels", "20 SMs");
    qps_refused("deepep:normal", 16, 256, 19, "10 channels", "20 SMs");
}

static void test_fixed_counts(void **state)
{
    (void)state;
    assert_int_equal(qps("deepep_v2:direct", 16, 256, K3_FABRIC_IB, 0).existing, 17);
    assert_int_equal(qps("deepep_v2:direct", 16, 256, K3_FABRIC_IB, 0).active, 9);
    assert_int_equal(qps("deepep_v2:direct", 16, 256, K3_FABRIC_IB, 4).active, 4);
    assert_int_equal(qps("deepep_v2:hybrid", 16, 256, K3_FABRIC_IB, 0).active, 129);
    assert_int_equal(qps("mori:v1", 16, 256, K3_FABRIC_IB, 0).active, 2);
    assert_int_equal(qps("nixl", 16, 256, K3_FABRIC_IB, 0).active, 4);
    assert_int_equal(qps("pplx", 16, 256, K3_FABRIC_IB, 0).active, 1);
}

/* O03: a million is refused by every row with the real limit and the value. */
static void test_absurd_count_O03_Q08(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);

        qps_refused(p->name, 8, 256, 1000000, "1000000", "limit");
        if (p->qp_count == K3_QPS_ZERO) {
            assert_int_equal(qps(p->name, 8, 256, K3_FABRIC_ROCE, 0).existing, 0);
            qps_refused(p->name, 8, 256, 1, "--qps 1", "no queue pairs");
        }
    }
}

/* --- limits ---------------------------------------------------------------------------------- */

/* A shape that every profile carries in both generations. */
static k3_limit_facts_t plain(const k3_profile_t *p, k3_generation_t generation)
{
    return (k3_limit_facts_t){
        .model = "deepseek-v3",
        .topk = 8,
        .width = 7168,
        .experts = 256,
        .ranks = 8,
        .ranks_per_node = 8,
        .nodes = 1,
        .dp = 8,
        .max_tokens = p->limits.window > 0 ? 64 : 128,
        .dispatch_format = p->dispatch_auto,
        .combine_format = p->combine_auto,
        .weights = K3_WEIGHT_FP8_B128,
        .p2p = true,
        .generation = generation,
    };
}

static void assert_runs(const k3_profile_t *p, const k3_limit_facts_t *facts)
{
    k3_error_t err = K3_ERROR_INIT;

    if (k3_profile_check(p, facts, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
}

static void assert_refused(const k3_profile_t *p, const k3_limit_facts_t *facts, const char *a,
                           const char *b)
{
    k3_error_t err = K3_ERROR_INIT;

    if (k3_profile_check(p, facts, &err) != K3_ERR_UNSUPPORTED) {
        fail_msg("%s: not refused, expected \"%s\"", p->name, a);
    }
    assert_says(&err, p->name, a, b);
}

static void test_plain_shape_runs(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        k3_limit_facts_t stock = plain(k3_registry_at(i), K3_GENERATION_STOCK);
        k3_limit_facts_t k3 = plain(k3_registry_at(i), K3_GENERATION_K3);

        assert_runs(k3_registry_at(i), &stock);
        assert_runs(k3_registry_at(i), &k3);
    }
}

typedef enum field { TOPK, WIDTH, INTER, EXPERTS, RANKS, NODES, PER_NODE, DP, TOKENS } field_t;

static void set_field(k3_limit_facts_t *f, field_t field, uint32_t value)
{
    switch (field) {
    case TOPK:
        f->topk = value;
        break;
    case WIDTH:
        f->width = value;
        break;
    case INTER:
        f->intermediate = value;
        break;
    case EXPERTS:
        f->experts = value;
        break;
    case RANKS: /* in one node, one expert each */
        f->ranks = f->ranks_per_node = f->experts = value;
        break;
    case NODES: /* of 8 ranks, one expert each */
        f->nodes = value;
        f->ranks_per_node = 8;
        f->ranks = f->experts = 8 * value;
        break;
    case PER_NODE: /* two nodes, one expert each */
        f->nodes = 2;
        f->ranks_per_node = value;
        f->ranks = f->experts = 2 * value;
        break;
    case DP:
        f->dp = value;
        break;
    case TOKENS:
        f->max_tokens = value;
        break;
    }
}

typedef struct edge {
    const char     *name;
    k3_generation_t generation;
    field_t         field;
    uint32_t        last, beyond; /* the last value that runs, one that is refused */
    const char     *rule;         /* in the message; so is `beyond`, where the rule is about it */
} edge_t;

#define STOCK K3_GENERATION_STOCK
#define K3    K3_GENERATION_K3

static const edge_t edges[] = {
    /* top-k */
    {"mooncake", STOCK, TOPK, 11, 12, "limit 11"},
    {"mooncake", K3, TOPK, 32, 33, "limit 32"},
    {"deepep:ll", STOCK, TOPK, 11, 12, "limit 11"},
    {"deepep:ll", K3, TOPK, 32, 33, "limit 32"},
    {"deepep:normal", STOCK, TOPK, 32, 33, "limit 32"},
    {"deepep:normal", K3, TOPK, 32, 33, "limit 32"},
    {"deepep_v2:direct", STOCK, TOPK, 32, 33, "limit 32"},
    {"deepep_v2:hybrid", STOCK, TOPK, 32, 33, "limit 32"},
    {"mori:intra", STOCK, TOPK, 63, 64, "limit 63"},
    {"mori:intra_pull", STOCK, TOPK, 63, 64, "limit 63"},
    {"mori:v1", K3, TOPK, 63, 64, "limit 63"},
    {"mori:v1ll", STOCK, TOPK, 63, 64, "limit 63"},
    {"mori:asyncll", STOCK, TOPK, 63, 64, "limit 63"},
    {"nixl", STOCK, TOPK, 16, 17, "limit 16"},
    {"nixl", K3, TOPK, 32, 33, "limit 32"},
    {"uccl", STOCK, TOPK, 16, 17, "limit 16"},
    {"uccl", K3, TOPK, 32, 33, "limit 32"},
    {"nccl_ep", STOCK, TOPK, 32, 33, "limit 32"},
    {"flashinfer", STOCK, TOPK, 22, 23, "limit 22"},
    {"flashinfer", K3, TOPK, 32, 33, "limit 32"},
    {"megamoe", STOCK, TOPK, 32, 33, "limit 32"},
    {"flashinfer_megamoe", STOCK, TOPK, 32, 33, "limit 32"},
    {"ascend_fuseep", STOCK, TOPK, 12, 13, "limit 12"},
    {"ascend_fuseep", K3, TOPK, 32, 33, "limit 32"},
    /* widths */
    {"mooncake", STOCK, WIDTH, 2048, 3584, "2048, 2560, 3072, 4096"},
    {"mooncake", K3, WIDTH, 3584, 3600, "scale group of fp8"},
    {"deepep:ll", STOCK, WIDTH, 8192, 3584, "6144, 7168, 8192"},
    {"deepep:ll", K3, WIDTH, 256, 264, "scale group of fp8"},
    {"nixl", STOCK, WIDTH, 3584, 3712, "3072, 3584, 4096"},
    {"deepep_v2:direct", STOCK, WIDTH, 3584, 3712, "256"},
    {"deepep_v2:direct", K3, WIDTH, 3712, 3720, "scale group of fp8"},
    {"deepep_v2:hybrid", STOCK, WIDTH, 7168, 7296, "256"},
    {"deepep:normal", STOCK, WIDTH, 2880 - 64, 2880, "scale group of fp8"},
    {"pplx", STOCK, WIDTH, 24, 28, "multiple of upstream's 8"},
    {"pplx", K3, WIDTH, 24, 28, "multiple of 16"},
    {"megamoe", STOCK, WIDTH, 3584, 3616, "128"},
    {"megamoe", K3, WIDTH, 3616, 3632, "scale group of mxfp8"},
    {"flashinfer_megamoe", STOCK, WIDTH, 3584, 3616, "128"},
    {"nccl_ep", STOCK, WIDTH, 16384, 16512, "limit 16384"},
    {"nccl_ep", K3, WIDTH, 16512, 16520, "scale group of fp8"},
    {"ascend_fuseep", STOCK, WIDTH, 512, 480, "limit 512"},
    {"ascend_fuseep", STOCK, WIDTH, 7168, 7200, "limit 7168"},
    {"ascend_fuseep", K3, WIDTH, 8192, 8200, "multiple of 16"},
    {"flashinfer_megamoe", K3, WIDTH, 3616, 3632, "scale group of mxfp8"},
    {"ascend_fuseep", STOCK, WIDTH, 544, 560, "multiple of upstream's 32"},
    {"megamoe", STOCK, INTER, 3072, 3104, "intermediate width 3104 is not a multiple"},
    {"flashinfer_megamoe", STOCK, INTER, 3072, 3104, "128"},
    {"ascend_fuseep", STOCK, INTER, 1024, 1023, "limit 1024"},
    {"ascend_fuseep", STOCK, INTER, 6144, 6145, "limit 6144"},
    {"mpi", K3, WIDTH, 16, 12, "multiple of 16"},
    {"none", K3, WIDTH, 16, 12, "multiple of 16"},
    /* experts */
    {"deepep_v2:direct", STOCK, EXPERTS, 2048, 2056, "experts 2056 is above upstream's limit 2048"},
    {"deepep_v2:hybrid", K3, EXPERTS, 2048, 2056, "experts 2056 is above upstream's limit 2048"},
    {"deepep:normal", STOCK, EXPERTS, 8192, 8200,
     "local experts 1025 is above upstream's limit 1024"},
    {"nccl_ep", STOCK, EXPERTS, 65528, 65536, "experts 65536 is above upstream's limit 65535"},
    {"nccl_ep", K3, EXPERTS, 65528, 65536, "experts 65536 is above upstream's limit 65535"},
    {"uccl", K3, EXPERTS, 1024, 1032, "experts 1032 is above upstream's limit 1024"},
    {"ascend_fuseep", STOCK, EXPERTS, 512, 520, "experts 520 is above upstream's limit 512"},
    {"megamoe", K3, EXPERTS, 896, 897, "experts 897 is not a multiple of the ranks 8"},
    {"flashinfer_megamoe", K3, EXPERTS, 896, 897, "experts 897 is not a multiple of the ranks 8"},
    {"ascend_fuseep", K3, EXPERTS, 896, 897, "experts 897 is not a multiple of the ranks 8"},
    /* ranks; C05, C06 */
    {"mooncake", STOCK, RANKS, 256, 260, "limit 256"},
    {"mooncake", K3, RANKS, 256, 260, "limit 256"},
    {"uccl", STOCK, RANKS, 64, 72, "limit 64"},
    {"uccl", K3, RANKS, 64, 72, "limit 64"},
    {"deepep_v2:direct", STOCK, NODES, 128, 129, "ranks 1032 is above upstream's limit 1024"},
    {"deepep_v2:direct", K3, RANKS, 1024, 1032, "limit 1024"},
    {"mori:asyncll", K3, NODES, 16, 17, "ranks 136 is above upstream's limit 128"},
    {"flashinfer", STOCK, RANKS, 64, 65, "limit 64"},
    {"megamoe", K3, RANKS, 72, 73, "limit 72"},
    {"flashinfer_megamoe", STOCK, RANKS, 16, 32, "1, 8, 16"},
    {"pplx", STOCK, DP, 2, 1, "2 groups"},
    {"pplx", K3, DP, 2, 1, "2 groups"},
    /* nodes */
    {"deepep:normal", STOCK, NODES, 20, 22, "ranks 176 is above upstream's limit 160"},
    {"deepep:normal", STOCK, NODES, 4, 5, "nodes 5 is not among upstream's 1, 2, 3, 4, 6, 8"},
    {"deepep:normal", K3, NODES, 6, 7,
     "nodes 7 is not among upstream's 1, 2, 3, 4, 6, 8, 12, 16, 18, 20"},
    {"deepep:normal", STOCK, PER_NODE, 8, 4, "rule is 8"},
    {"deepep:normal", STOCK, RANKS, 4, 6, "2, 4, 8"},
    {"deepep_v2:hybrid", STOCK, NODES, 32, 33, "nodes 33 is above upstream's limit 32"},
    {"deepep_v2:hybrid", K3, PER_NODE, 64, 65, "limit 64"},
    {"deepep:normal", K3, PER_NODE, 32, 33, "limit 32"},
    {"nccl_ep", STOCK, NODES, 8, 16, "nodes 16 is above upstream's limit 8"},
    {"nccl_ep", K3, PER_NODE, 8, 9, "limit 8"},
    {"mori:v1", STOCK, PER_NODE, 8, 6, "power of two"},
    {"mori:v1ll", K3, PER_NODE, 4, 6, "power of two"},
    {"mori:asyncll", STOCK, PER_NODE, 4, 6, "power of two"},
    {"mori:intra", K3, RANKS, 8, 6, "power of two"},
    {"megamoe", K3, NODES, 1, 2, "limit 1 node"},
    {"flashinfer_megamoe", K3, NODES, 1, 2, "limit 1 node"},
    {"ascend_fuseep", K3, NODES, 1, 2, "limit 1 node"},
    {"flashinfer_megamoe", STOCK, RANKS, 8, 9, "1, 8, 16"},
    {"mori:intra_pull", K3, RANKS, 8, 6, "power of two"},
    /* tokens */
    {"mooncake", STOCK, TOKENS, 1024, 1025, "limit 1024"},
    {"mooncake", K3, TOKENS, 1024, 1025, "limit 1024"},
    {"deepep:ll", STOCK, TOKENS, 511, 512, "queue depth 1026, limit 1024"},
    {"deepep:ll", K3, TOKENS, 16383, 16384, "queue depth 32770, limit 32768"},
    {"uccl", STOCK, TOKENS, 8191, 8192, "limit 8191"},
    {"nccl_ep", K3, TOKENS, 8192, 8193, "limit 8192"},
    {"ascend_fuseep", STOCK, TOKENS, 112, 113,
     "needs a window of 211550208 bytes, upstream's default is 209715200"},
    {"ascend_fuseep", K3, TOKENS, 256, 257, "limit 256"},
};

static void test_edges_C05_C06_L07_O06_O08_O12(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        const edge_t       *e = &edges[i];
        const k3_profile_t *p = profile_of(e->name);
        k3_limit_facts_t    last = plain(p, e->generation), beyond = last;
        char                value[16];
        bool                derived = e->field == EXPERTS || e->field == NODES;
        const char *which = e->generation == STOCK ? "(generation stock)" : "(generation k3)";

        set_field(&last, e->field, e->last);
        set_field(&beyond, e->field, e->beyond);
        snprintf(value, sizeof(value), "%u", e->beyond);
        assert_runs(p, &last);
        assert_refused(p, &beyond, derived ? "" : value, e->rule);
        assert_refused(p, &beyond, which, NULL);
    }
}

/* Every row with a stock limit has a line above. */
static void test_no_limit_untested(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);
        const k3_limits_t  *l = &p->limits;
        bool                has[] = {
                           [TOPK] = l->topk > 0,
                           [WIDTH] = l->widths[0] > 0 || l->width_max > 0 || l->width_unit > 8,
                           [INTER] = l->inter_min > 0 || l->inter_max > 0 || l->inter_unit > 0,
                           [EXPERTS] = l->experts > 0 || l->local_experts > 0,
                           [RANKS] = l->ranks > 0 || l->qps_total > 0,
                           [NODES] = l->nodes > 0 || l->nodes_allowed[0] > 0,
                           [PER_NODE] = l->ranks_per_node > 0 || l->ranks_per_node_max > 0,
                           [DP] = l->dp_groups_min > 0,
                           [TOKENS] = l->tokens > 0 || l->queue_depth > 0,
        };

        for (unsigned e = 0; e < sizeof(edges) / sizeof(edges[0]); e++) {
            if (strcmp(edges[e].name, p->name) == 0) {
                has[edges[e].field] = false;
                has[RANKS] = has[RANKS] && edges[e].field != NODES;
            }
        }
        for (unsigned field = 0; field < sizeof(has) / sizeof(has[0]); field++) {
            if (has[field] && !(field == RANKS && strcmp(p->name, "deepep_v2:hybrid") == 0)) {
                fail_msg("%s: limit %u has no edge", p->name, field);
            }
        }
    }
}

/* L06: 288 experts on 64 ranks. */
static void test_experts_divide_L06(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);
        k3_limit_facts_t    f = plain(p, K3_GENERATION_STOCK);

        f.experts = 288;
        f.ranks = 64;
        if (p->spans_ep) {
            assert_refused(p, &f, "288", "64");
            f.generation = K3_GENERATION_K3;
            assert_refused(p, &f, "288", "64");
        } else {
            assert_runs(p, &f);
        }
    }
}

/* O06: Kimi-K3 on stock slabs; the first violated rule is the one reported. */
static void test_kimi_k3_O06(void **state)
{
    const char *const names[] = {"deepep:ll", "mooncake"};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const k3_profile_t *p = profile_of(names[i]);
        k3_limit_facts_t    f = plain(p, K3_GENERATION_STOCK);
        k3_error_t          err = K3_ERROR_INIT;

        f.topk = 16;
        f.width = 3584;
        f.experts = 896;
        assert_int_equal(k3_profile_check(p, &f, &err), K3_ERR_UNSUPPORTED);
        assert_says(&err, p->name, "top-k 16 is above upstream's limit 11 (generation stock)",
                    NULL);
        f.generation = K3_GENERATION_K3;
        assert_runs(p, &f);
    }
}

/* L07: 12 ranks on 3 nodes, 40 on 5, 6 on 2; low latency is not bound by nodes. */
static void test_node_shapes_L07(void **state)
{
    static const struct {
        uint32_t    ranks, nodes;
        const char *stock, *k3;
    } shapes[] = {
        {12, 3, "rule is 8", NULL}, {40, 5, "nodes 5", "nodes 5"}, {6, 2, "rule is 8", NULL}};
    const k3_profile_t *normal = profile_of("deepep:normal"), *ll = profile_of("deepep:ll");

    (void)state;
    for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        k3_limit_facts_t f = plain(normal, K3_GENERATION_STOCK);

        f.ranks = shapes[i].ranks;
        f.nodes = shapes[i].nodes;
        f.ranks_per_node = f.ranks / f.nodes;
        f.experts = 120;
        assert_refused(normal, &f, shapes[i].stock, "stock");
        assert_runs(ll, &f);
        f.generation = K3_GENERATION_K3;
        if (shapes[i].k3 != NULL) {
            assert_refused(normal, &f, shapes[i].k3, "k3");
        } else {
            assert_runs(normal, &f);
        }
    }
}

/* N17: a width that is no multiple of a scale group names the widths that upstream has. */
static void test_width_2880_N17(void **state)
{
    const k3_profile_t *p = profile_of("deepep:ll");
    k3_limit_facts_t    f = plain(p, K3_GENERATION_K3);

    (void)state;
    f.width = 2880;
    assert_refused(p, &f, "2880", "2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192");
    f.dispatch_format = K3_FORMAT_BF16;
    assert_runs(p, &f);
    f.generation = K3_GENERATION_STOCK;
    assert_refused(p, &f, "2880", "2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192");
}

/* P16: 6 ranks, cap 33: fp8 refused with the rule in both generations, bf16 allowed. */
static void test_rows_by_four_P15_P16(void **state)
{
    const char *const names[] = {"mooncake", "deepep:ll", "nixl", "uccl"};

    (void)state;
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const k3_profile_t *p = profile_of(names[i]);
        k3_limit_facts_t    f = plain(p, K3_GENERATION_K3);

        f.ranks = f.ranks_per_node = 6;
        f.experts = 96;
        f.max_tokens = 33;
        assert_refused(p, &f, "198", "multiple of 4");
        f.generation = K3_GENERATION_STOCK;
        assert_refused(p, &f, "198", "multiple of 4");
        f.dispatch_format = K3_FORMAT_BF16;
        assert_runs(p, &f);
        f.dispatch_format = K3_FORMAT_FP8;
        f.max_tokens = 34;
        assert_runs(p, &f);
        f.ranks = f.ranks_per_node = 3;
        f.max_tokens = 126;
        assert_refused(p, &f, "378", "multiple of 4");
        f.max_tokens = 128;
        assert_runs(p, &f);
    }
}

/* The product is not cut to 32 or 64 bits on its way to the rule. */
static void test_large_caps_do_not_wrap_O13(void **state)
{
    const k3_profile_t *p = profile_of("nixl");
    k3_limit_facts_t    f = plain(p, K3_GENERATION_K3);

    (void)state;
    f.max_tokens = UINT64_MAX;
    assert_runs(p, &f); /* 8 ranks: a multiple of 4 whatever M is */
    f.ranks = f.experts = 2;
    assert_refused(p, &f, "multiple of 4", NULL);
    p = profile_of("deepep:ll");
    assert_refused(p, &f, "queue depth", "32768");
}

/* C04: 896 ranks with a cap of 8192 and 7168 wide rows get past the limits, to the size formula. */
static void test_large_slab_C04(void **state)
{
    const k3_profile_t *p = profile_of("deepep:ll");
    k3_limit_facts_t    f = plain(p, K3_GENERATION_K3);

    (void)state;
    set_field(&f, NODES, 112);
    f.topk = 16;
    f.max_tokens = 8192;
    assert_runs(p, &f);
}

/* A device's memory is not mapped, whoever lives on that is reached through queue pairs there. */
static void assert_runs_on_device(const k3_profile_t *p, k3_limit_facts_t f)
{
    f.on_device = true;
    assert_runs(p, &f);
}

static void test_mapped_memory_only(void **state)
{
    unsigned count = 0;

    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);
        k3_limit_facts_t    f = plain(p, K3_GENERATION_K3);

        f.p2p = false;
        if (p->limits.one_node_mapped) {
            assert_refused(p, &f, "one node", "--p2p off");
            assert_runs_on_device(p, f);
            f.nodes = 2;
            f.ranks_per_node = 4;
            assert_runs(p, &f);
            continue;
        }
        if (!p->limits.one_node) {
            assert_runs(p, &f);
            continue;
        }
        count++;
        assert_refused(p, &f, "--p2p off", NULL);
        assert_runs_on_device(p, f);
        f.p2p = true;
        f.nodes = 2;
        f.ranks_per_node = 4;
        assert_refused(p, &f, "1 node", "2");
    }
    assert_int_equal(count,
                     7); /* mori:intra in both forms, flashinfer, moonep and the fused ones */
}

/* O12: a format is never accepted and ignored. */
static void test_formats_O12(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);

        for (unsigned format = 0; format < K3_FORMAT_COUNT; format++) {
            k3_limit_facts_t out = plain(p, K3_GENERATION_K3), back = out;

            out.dispatch_format = (k3_format_t)format;
            back.combine_format = (k3_format_t)format;
            if ((p->dispatch_formats & K3_BIT(format)) != 0) {
                assert_runs(p, &out);
            } else {
                assert_refused(p, &out, "dispatch format", k3_format_names[format]);
            }
            if ((p->combine_formats & K3_BIT(format)) != 0) {
                assert_runs(p, &back);
            } else {
                assert_refused(p, &back, "combine format", k3_format_names[format]);
            }
        }
    }
}

/* sglang's validation in front of deepep_v2 lets only fp8 experts pass; newer versions do more. */
static void test_gate_of_weights(void **state)
{
    (void)state;
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);
        k3_limit_facts_t    f = plain(p, K3_GENERATION_STOCK);

        assert_int_equal(p->limits.weights != 0, strcmp(p->backend, "deepep_v2") == 0);
        if (p->limits.weights != 0) {
            assert_runs(p, &f);
            f.weights = K3_WEIGHT_MXFP4;
            assert_refused(p, &f, "fp8_b128", "mxfp4");
            f.generation = K3_GENERATION_K3;
            assert_runs(p, &f);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate_of_weights),
        cmocka_unit_test(test_mooncake_table),
        cmocka_unit_test(test_mooncake_asked_Q10),
        cmocka_unit_test(test_mooncake_odd_ranks_Q13),
        cmocka_unit_test(test_deepep_ll_Q11),
        cmocka_unit_test(test_deepep_normal_Q07),
        cmocka_unit_test(test_fixed_counts),
        cmocka_unit_test(test_absurd_count_O03_Q08),
        cmocka_unit_test(test_plain_shape_runs),
        cmocka_unit_test(test_edges_C05_C06_L07_O06_O08_O12),
        cmocka_unit_test(test_no_limit_untested),
        cmocka_unit_test(test_experts_divide_L06),
        cmocka_unit_test(test_kimi_k3_O06),
        cmocka_unit_test(test_node_shapes_L07),
        cmocka_unit_test(test_width_2880_N17),
        cmocka_unit_test(test_rows_by_four_P15_P16),
        cmocka_unit_test(test_large_caps_do_not_wrap_O13),
        cmocka_unit_test(test_large_slab_C04),
        cmocka_unit_test(test_mapped_memory_only),
        cmocka_unit_test(test_formats_O12),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
