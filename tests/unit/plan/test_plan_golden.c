/* What one iteration of kimi-k3 sends, for every backend:mode at EP 8, 16, 32 and 64: 16 rows a rank, uniform
 * routing of seed 1, default formats. Two-hop backends have nodes of 4 ranks at EP 8.
 *
 * The numbers of deepep:ll, mooncake, pplx, flashinfer, mori:v1ll, and the bytes of mori:v1, are derived here from
 * upstream's rules. The table holds every backend: it was written by the program and guards against a change that
 * nobody meant; why its numbers are right is held by the derivations and by the tests of each family. */
#include "tests/unit/plan/plan_test.h"

#include "bench/plan/traffic.h"

enum { SIZES = 4 };

static const uint64_t sizes[SIZES] = {8, 16, 32, 64};

typedef struct sum {
    uint64_t messages, signals, wire;
} sum_t;

typedef struct golden {
    const char *backend;
    sum_t       notify[SIZES], dispatch[SIZES], combine[SIZES];
} golden_t;

static const golden_t goldens[] = {
    {"mooncake",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{2048, 7168, 7630848},
      {4096, 14336, 15261696},
      {8192, 28672, 30523392},
      {16384, 57344, 61046784}},
     {{2048, 7168, 14708736},
      {4096, 14336, 29417472},
      {8192, 28672, 58834944},
      {16384, 57344, 117669888}}},
    {"deepep:ll",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{2048, 7168, 7630848},
      {4096, 14336, 15261696},
      {8192, 28672, 30523392},
      {16384, 57344, 61046784}},
     {{2048, 7168, 14708736},
      {4096, 14336, 29417472},
      {8192, 28672, 58834944},
      {16384, 57344, 117669888}}},
    {"pplx",
     {{0, 1792, 14336}, {0, 1792, 14336}, {0, 1792, 14336}, {0, 1792, 14336}},
     {{2048, 2048, 14729216},
      {4096, 4096, 29458432},
      {8192, 8192, 58916864},
      {16384, 16384, 117833728}},
     {{8192, 8256, 58786304},
      {32768, 33024, 235145216},
      {131072, 132096, 940580864},
      {524288, 528384, 3762323456}}},
    {"nixl",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{2048, 7168, 7659520},
      {4096, 14336, 15319040},
      {8192, 28672, 30638080},
      {16384, 57344, 61276160}},
     {{2048, 7168, 14737408},
      {4096, 14336, 29474816},
      {8192, 28672, 58949632},
      {16384, 57344, 117899264}}},
    {"uccl",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{2048, 7168, 7630848},
      {4096, 14336, 15261696},
      {8192, 28672, 30523392},
      {16384, 57344, 61046784}},
     {{2048, 7168, 14708736},
      {4096, 14336, 29417472},
      {8192, 28672, 58834944},
      {16384, 57344, 117669888}}},
    {"deepep_v2:direct",
     {{128, 0, 57856}, {512, 0, 116736}, {2048, 0, 237568}, {8192, 0, 491520}},
     {{904, 128, 3559168}, {2653, 512, 10446304}, {6581, 2048, 25919200}, {14719, 8192, 57999520}},
     {{904, 128, 6596608},
      {2653, 512, 19360384},
      {6581, 2048, 48031360},
      {14719, 8192, 107455360}}},
    {"mori:intra",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{904, 64, 6599456}, {2653, 256, 19367924}, {6581, 1024, 48045396}, {14719, 4096, 107465084}},
     {{904, 64, 6480384}, {2653, 256, 19018752}, {6581, 1024, 47180800}, {14719, 4096, 105538560}}},
    {"mori:intra_pull",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{904, 64, 6599456}, {2653, 256, 19367924}, {6581, 1024, 48045396}, {14719, 4096, 107465084}},
     {{904, 64, 6480384}, {2653, 256, 19018752}, {6581, 1024, 47180800}, {14719, 4096, 105538560}}},
    {"mori:asyncll",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{128, 128, 6600224}, {512, 512, 19370996}, {2047, 2048, 48057684}, {7745, 8192, 107514236}},
     {{128, 128, 6480896}, {512, 512, 19020800}, {2047, 2048, 47188992}, {7745, 8192, 105571328}}},
    {"nccl_ep",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{904, 7168, 3441920},
      {2653, 14336, 10047520},
      {6581, 28672, 24868640},
      {14719, 57344, 55566688}},
     {{2048, 7168, 14737408},
      {4096, 14336, 29474816},
      {8192, 28672, 58949632},
      {16384, 57344, 117899264}}},
    {"flashinfer",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{904, 64, 6596096}, {2653, 256, 19358336}, {6581, 1024, 48023168}, {14719, 4096, 107422592}},
     {{904, 64, 6480128}, {2653, 256, 19017728}, {6581, 1024, 47176704}, {14719, 4096, 105522176}}},
    {"pplx_garden",
     {{56, 56, 200928}, {240, 240, 861120}, {992, 992, 3559296}, {4032, 4032, 14466816}},
     {{64, 112, 14713280}, {256, 480, 29427584}, {1024, 1984, 58859264}, {4031, 8000, 117734656}},
     {{64, 112, 14680512}, {256, 480, 29362048}, {1024, 1984, 58728192}, {4031, 8064, 117472768}}},
    {"deepep:normal",
     {{40, 0, 29088}, {144, 0, 58944}, {352, 0, 122240}, {960, 0, 261888}},
     {{1048, 1600, 3972480},
      {2941, 6253, 11207092},
      {8309, 23256, 31277664},
      {22726, 89483, 81527852}},
     {{968, 564, 7482192},
      {2781, 1896, 21092016},
      {7349, 7349, 58759940},
      {18246, 18246, 152672376}}},
    {"deepep_v2:hybrid",
     {{8, 3616, 43392}, {16, 7296, 87552}, {96, 7424, 148480}, {448, 7680, 276480}},
     {{1032, 416, 4065280},
      {2909, 896, 11456992},
      {8103, 4864, 31932320},
      {21054, 22016, 83044672}},
     {{1032, 726, 7535280},
      {2909, 1824, 21238656},
      {8103, 7141, 59176616},
      {21054, 27099, 153826776}}},
    {"mori:v1",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{912, 48, 7533984}, {2669, 160, 21236980}, {6688, 448, 59155484}, {15802, 1408, 153705464}},
     {{912, 48, 7397760}, {2669, 160, 20852992}, {6677, 448, 58085888}, {15167, 1408, 150926336}}},
    {"mori:v1ll",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{912, 48, 7533984}, {2669, 160, 21236980}, {6677, 448, 59257684}, {15167, 1408, 159786364}},
     {{912, 48, 7397760}, {2669, 160, 20852992}, {6677, 448, 58186240}, {15167, 1408, 156897280}}},
    {"megamoe",
     {{9216, 7168, 122880}, {18432, 14336, 245760}, {36864, 28672, 491520}, {73728, 57344, 983040}},
     {{2048, 64, 7577856}, {4096, 256, 15156224}, {8192, 1024, 30314496}, {16384, 4096, 60637184}},
     {{2048, 128, 14680576},
      {4096, 512, 29362176},
      {8192, 2048, 58728448},
      {16384, 8192, 117473280}}},
    {"flashinfer_megamoe",
     {{9216, 7168, 122880}, {18432, 14336, 245760}, {36864, 28672, 491520}, {73728, 57344, 983040}},
     {{2048, 64, 7577856}, {4096, 256, 15156224}, {8192, 1024, 30314496}, {16384, 4096, 60637184}},
     {{2048, 128, 14680576},
      {4096, 512, 29362176},
      {8192, 2048, 58728448},
      {16384, 8192, 117473280}}},
    {"ascend_fuseep",
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
     {{2048, 7168, 7634944},
      {4096, 14336, 15269888},
      {8192, 28672, 30539776},
      {16384, 57344, 61079552}},
     {{2048, 7168, 14909440},
      {4096, 14336, 29818880},
      {8192, 28672, 59637760},
      {16384, 57344, 119275520}}},
    {"mpi",
     {{64, 0, 28672}, {256, 0, 57344}, {1024, 0, 114688}, {4096, 0, 229376}},
     {{64, 0, 14696448}, {256, 0, 29392896}, {1024, 0, 58785792}, {4031, 0, 117571584}},
     {{64, 0, 14680064}, {256, 0, 29360128}, {1024, 0, 58720256}, {4031, 0, 117440512}}},
};

static bool has_plan(const k3_profile_t *p)
{
    return p->refused == NULL && p->engine != K3_ENGINE_GATHER && p->engine != K3_ENGINE_NULL;
}

static k3_cell_t cell_at(const k3_profile_t *p, uint64_t ep)
{
    k3_cell_request_t request = request_of(p->name, "kimi-k3", ep);

    request.ranks_per_node = p->limits.one_node                        ? (uint32_t)ep
                             : p->engine == K3_ENGINE_RAILS && ep == 8 ? 4
                                                                       : 8;
    return cell_of(request);
}

/* The line of a backend as it would stand in the table. */
static void print_line(const k3_profile_t *p, k3_work_t *const works)
{
    fprintf(stderr, "{\"%s\",\n", p->name);
    for (int phase = 0; phase < K3_TRAFFIC_COUNT; phase++) {
        fprintf(stderr, " {");
        for (unsigned i = 0; i < SIZES; i++) {
            fprintf(stderr, "{%llu, %llu, %llu}%s",
                    (unsigned long long)works[i].sum[phase].messages,
                    (unsigned long long)works[i].sum[phase].signals,
                    (unsigned long long)works[i].sum[phase].wire, i + 1 < SIZES ? ", " : "}");
        }
        fprintf(stderr, "%s\n", phase + 1 < K3_TRAFFIC_COUNT ? "," : "},");
    }
}

static bool is_golden(const k3_profile_t *p, k3_work_t *const works)
{
    for (unsigned g = 0; g < sizeof(goldens) / sizeof(goldens[0]); g++) {
        const sum_t *const want[K3_TRAFFIC_COUNT] = {[K3_TRAFFIC_NOTIFY] = goldens[g].notify,
                                                     [K3_TRAFFIC_DISPATCH] = goldens[g].dispatch,
                                                     [K3_TRAFFIC_COMBINE] = goldens[g].combine};
        bool               same = strcmp(goldens[g].backend, p->name) == 0;

        for (unsigned i = 0; i < SIZES && same; i++) {
            for (int phase = 0; phase < K3_TRAFFIC_COUNT && same; phase++) {
                same = works[i].sum[phase].messages == want[phase][i].messages &&
                       works[i].sum[phase].signals == want[phase][i].signals &&
                       works[i].sum[phase].wire == want[phase][i].wire;
            }
        }
        if (same) {
            return true;
        }
    }
    return false;
}

static void test_every_backend(void **state)
{
    unsigned wrong = 0;

    (void)state;
    for (unsigned b = 0; b < k3_registry_count(); b++) {
        const k3_profile_t *p = k3_registry_at(b);
        k3_work_t           works[SIZES];

        if (!has_plan(p)) {
            continue;
        }
        for (unsigned i = 0; i < SIZES; i++) {
            k3_error_t err = K3_ERROR_INIT;
            k3_cell_t  cell = cell_at(p, sizes[i]);

            assert_int_equal(k3_work_plan(&cell, &works[i], &err), K3_OK);
            k3_cell_destroy(&cell);
        }
        if (!is_golden(p, works)) {
            print_line(p, works);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* --- derivations ------------------------------------------------------------------------------- */

/* Of kimi-k3: experts, top-k, width of a dispatched row; rows of a rank here. */
enum { E = 896, K = 16, L = 3584, T = 16 };

/* A bf16 row, and an fp8 row with a scale of 4 bytes for each 128 values. */
enum { BF16 = 2 * L, FP8 = L + L / 128 * 4 };

typedef struct distinct {
    uint64_t ranks,
        far_nodes; /* summed over rows: ranks with a selected expert, nodes but the own one */
} distinct_t;

/* By hand from the ids: rank of an expert, node of a rank. */
static distinct_t count_distinct(uint64_t ep, uint64_t per_node)
{
    k3_cell_t  cell = cell_of(request_of("deepep:ll", "kimi-k3", ep));
    distinct_t d = {0, 0};

    for (uint64_t row = 0; row < ep * T; row++) {
        bool    rank[64] = {false}, node[16] = {false};
        int32_t ids[K3_TOPK_MAX];

        k3_routing_row(cell.routing, row, ids);
        for (int k = 0; k < K; k++) {
            uint64_t owner = (uint64_t)ids[k] / (E / ep), at = owner / per_node;

            d.ranks += !rank[owner];
            d.far_nodes += !node[at] && at != row / T / per_node;
            rank[owner] = node[at] = true;
        }
    }
    k3_cell_destroy(&cell);
    return d;
}

static void assert_sums(const char *backend, uint64_t ep, k3_traffic_phase_t phase,
                        uint64_t messages, uint64_t signals, uint64_t wire)
{
    const k3_profile_t *p = NULL;
    k3_error_t          err = K3_ERROR_INIT;
    k3_work_t           work;
    k3_cell_t           cell;

    assert_int_equal(k3_registry_find(backend, &p, &err), K3_OK);
    cell = cell_at(p, ep);
    assert_int_equal(k3_work_plan(&cell, &work, &err), K3_OK);
    assert_int_equal(work.sum[phase].messages, messages);
    assert_int_equal(work.sum[phase].signals, signals);
    assert_int_equal(work.sum[phase].wire, wire);
    k3_cell_destroy(&cell);
}

/* A message for each (row, expert) with 16 bytes of header, a count of 4 bytes for each (expert, source), also for
 * none; results of bf16 without a header, a flag for each (expert, source). */
static void test_slabs_from_the_rules(void **state)
{
    static const char *const backends[] = {"deepep:ll", "mooncake"};

    (void)state;
    for (unsigned i = 0; i < SIZES; i++) {
        uint64_t rows = sizes[i] * T * K, signals = sizes[i] * E;

        for (unsigned b = 0; b < 2; b++) {
            assert_sums(backends[b], sizes[i], K3_TRAFFIC_NOTIFY, 0, 0, 0);
            assert_sums(backends[b], sizes[i], K3_TRAFFIC_DISPATCH, rows, signals,
                        rows * (FP8 + 16) + signals * 4);
            assert_sums(backends[b], sizes[i], K3_TRAFFIC_COMBINE, rows, signals,
                        rows * BF16 + signals * 4);
        }
    }
}

/* Two DP groups. The first rank of each tells every expert's rows; each row carries its signal; each result goes
 * to all ranks of the group of its row; a flag for each pair of ranks ends the call. All words are 8 bytes. */
static void test_pplx_from_the_rules(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SIZES; i++) {
        uint64_t ranks = sizes[i], rows = ranks * T * K, back = rows * (ranks / 2);
        uint64_t flags = back + ranks * ranks;

        assert_sums("pplx", ranks, K3_TRAFFIC_NOTIFY, 0, (uint64_t)2 * E, (uint64_t)2 * E * 8);
        assert_sums("pplx", ranks, K3_TRAFFIC_DISPATCH, rows, rows, rows * (BF16 + 16 + 8));
        assert_sums("pplx", ranks, K3_TRAFFIC_COMBINE, back, flags, back * BF16 + flags * 8);
    }
}

/* A message for each (row, rank) with ids and weights of K selections; a signal of 8 bytes for each pair of ranks
 * there, a flag of 4 back. */
static void test_flashinfer_from_the_rules(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SIZES; i++) {
        uint64_t ranks = sizes[i], rows = count_distinct(ranks, ranks).ranks;

        assert_sums("flashinfer", ranks, K3_TRAFFIC_DISPATCH, rows, ranks * ranks,
                    rows * (BF16 + 8 * K) + ranks * ranks * 8);
        assert_sums("flashinfer", ranks, K3_TRAFFIC_COMBINE, rows, ranks * ranks,
                    rows * BF16 + ranks * ranks * 4);
    }
}

/* First hop to the rail peer of each other node, second to the ranks of the node. v1ll sends whole chunks (here one
 * of 16 rows), v1 the rows that the node needs; a record has ids, weights and the source row. Flags of 8 bytes: two
 * queue pairs of each rail peer, and each rank of the own node. */
static void test_mori_from_the_rules(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SIZES; i++) {
        uint64_t   ranks = sizes[i], per_node = ranks == 8 ? 4 : 8, far = ranks / per_node - 1;
        distinct_t d = count_distinct(ranks, per_node);
        uint64_t   chunks = ranks * far, flags = 2 * chunks + ranks * per_node;
        uint64_t   record = BF16 + 8 * K + 4;
        k3_error_t err = K3_ERROR_INIT;
        const k3_profile_t *v1 = NULL;
        k3_work_t           work;
        k3_cell_t           cell;

        assert_sums("mori:v1ll", ranks, K3_TRAFFIC_DISPATCH, chunks + d.ranks, flags,
                    (chunks * T + d.ranks) * record + flags * 8);
        assert_sums("mori:v1ll", ranks, K3_TRAFFIC_COMBINE, chunks + d.ranks, flags,
                    (chunks * T + d.ranks) * BF16 + flags * 8);
        assert_int_equal(k3_registry_find("mori:v1", &v1, &err), K3_OK);
        cell = cell_at(v1, ranks);
        assert_int_equal(k3_work_plan(&cell, &work, &err), K3_OK);
        assert_int_equal(work.sum[K3_TRAFFIC_DISPATCH].wire,
                         (d.far_nodes + d.ranks) * record + flags * 8);
        assert_int_equal(work.sum[K3_TRAFFIC_COMBINE].wire,
                         (d.far_nodes + d.ranks) * BF16 + flags * 8);
        k3_cell_destroy(&cell);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_backend),
                                       cmocka_unit_test(test_slabs_from_the_rules),
                                       cmocka_unit_test(test_pplx_from_the_rules),
                                       cmocka_unit_test(test_flashinfer_from_the_rules),
                                       cmocka_unit_test(test_mori_from_the_rules)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
