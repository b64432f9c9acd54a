/* Regions through their interface: nothing is allocated while one runs, two that are open at once
 * keep their signals apart, memory is what the plan says, the check can fail. ranks: 2 8 */
#include "region_runs.h"

enum { ROUNDS = 3 }; /* of two buffers the first one is used again */

static uint64_t rows_of_all(uint64_t tokens)
{
    return tokens * (uint64_t)(unsigned)world.size;
}

/* --- alone ----------------------------------------------------------------------------------- */

static void expect_right(const char *backend, const k3_check_t *check, uint64_t rows)
{
    if (world.rank == 0 && check->wrong) {
        fprintf(stderr,
                "%s: stage %s of row %llu, element %u: wanted %g, got %g; row error %g; %s\n",
                backend, k3_stage_names[check->first_stage], (unsigned long long)check->first_row,
                check->first_element, check->first_want, check->first_got,
                check->max_row_error[check->first_stage], check->diagnosis);
    }
    CHECK(!check->wrong && check->rows_checked == rows);
}

/* The next available backend of the registry from *i on; NULL: no more. */
static const char *next_backend(unsigned *i)
{
    while (*i < k3_registry_count()) {
        const k3_profile_t *profile = k3_registry_at((*i)++);

        if (k3_profile_available(profile)) {
            return profile->name;
        }
    }
    return NULL;
}

static void test_runs(void)
{
    static const char *const paths[] = {"auto", "fallback"};

    const char *backend;

    for (unsigned i = 0; (backend = next_backend(&i)) != NULL;) {
        for (int p = 0; p < 2; p++) {
            uint64_t          before = k3_alloc_bytes();
            k3_cell_request_t request = request_of(backend, 5);
            opened_t          o;
            k3_check_t        check;

            request.path = paths[p];
            open_region(&o, &request, NULL);
            open_check(&o);
            for (int round = 0; round < ROUNDS; round++) {
                run_once(&o);
                verify(&o);
            }
            check = close_region(&o);
            expect_right(backend, &check, ROUNDS * rows_of_all(5));
            CHECK(k3_alloc_bytes() == before); /* all of it was given back */
        }
    }
}

/* --- memory ---------------------------------------------------------------------------------- */

/* The accounts of a hundred lanes to each peer are memory too. 0: as the profile says. */
static uint64_t fewer_lanes(const char *backend)
{
    const k3_profile_t *profile = NULL;

    CHECK_OK(k3_registry_find(backend, &profile, err));
    return profile->qp_count == K3_QPS_FIXED && profile->qp_param > 16 ? 16 : 0;
}

/* Rows and experts large enough that tables of a few kilobytes do not matter. */
static void test_memory(void)
{
    const char *backend;

    for (unsigned i = 0; (backend = next_backend(&i)) != NULL;) {
        uint64_t          before = k3_alloc_bytes(), taken;
        k3_cell_request_t request = request_of(backend, 64);
        k3_memory_t       plan;
        opened_t          o;

        request.model = "kimi-k3-mini:E=64,K=8,I=128,S=128";
        request.qps = fewer_lanes(backend);
        open_region(&o, &request, NULL);
        run_once(&o);
        k3_memory_plan(&o.cell, (uint32_t)world.rank, &plan);
        CHECK(plan.total != UINT64_MAX);
        /* The symmetric block is UCX's and the work space of dense layers oneDNN's and malloc's:
         * k3_alloc does not count them. */
        taken =
            k3_alloc_bytes() - before + plan.block + plan.beside + plan.buffer[K3_BUF_DENSE_WORK];
        if (taken * 10 > plan.total * 11 || taken * 10 < plan.total * 9) {
            fprintf(stderr, "%s: rank %d took %llu bytes, planned %llu\n", backend, world.rank,
                    (unsigned long long)taken, (unsigned long long)plan.total);
            CHECK(false);
        }
        close_region(&o);
        CHECK(k3_alloc_bytes() == before);
    }
}

/* --- two at once (P08) ----------------------------------------------------------------------- */

/* Calls A, B, A, B, ... on buffers that are open together. Seeds, and with them all values and the
 * routing, differ, so an accepted signal or row of the other one shows. */
static void interleave(const char *backend_a, uint64_t tokens_a, const char *backend_b,
                       uint64_t tokens_b)
{
    k3_cell_request_t first = request_of(backend_a, tokens_a),
                      second = request_of(backend_b, tokens_b);
    opened_t   a, b;
    k3_check_t check;

    second.seed = 8;
    open_region(&a, &first, NULL);
    open_region(&b, &second, NULL);
    open_check(&a);
    open_check(&b);
    for (int round = 0; round < ROUNDS; round++) {
        run_once(&a);
        run_once(&b);
        verify(&a); /* b has run since: its rows are still those of a */
        verify(&b);
    }
    check = close_region(&a);
    expect_right(backend_a, &check, ROUNDS * rows_of_all(tokens_a));
    run_once(&b); /* b lives on */
    verify(&b);
    check = close_region(&b);
    expect_right(backend_b, &check, (ROUNDS + 1) * rows_of_all(tokens_b));
}

static void test_P08_P10_two_at_once(void)
{
    interleave("deepep:ll", 5, "deepep:ll", 5);
    interleave("mooncake", 5, "deepep:ll", 5);
    interleave("mooncake", 16, "mooncake", 1);
    interleave("mpi", 3, "mooncake", 3);
    interleave("none", 3, "deepep:ll", 3);
    interleave("megamoe", 5, "megamoe", 5);
    interleave("ascend_fuseep", 5, "flashinfer_megamoe", 16);
    interleave("ascend_fuseep", 3, "ascend_fuseep", 3);
    interleave("mooncake", 3, "ascend_fuseep", 1);
    interleave("deepep_v2:direct", 5, "deepep_v2:direct", 5);
    interleave("mori:asyncll", 5, "pplx_garden", 3);
    interleave("nccl_ep", 5, "mori:asyncll", 5);
    interleave("deepep:normal", 5, "mori:v1", 7);
    interleave("deepep:ll", 5, "deepep:normal", 3); /* one ends while the other lives */
    interleave("deepep:normal", 16, "deepep:normal", 1);
}

/* Rows that change from call to call in one buffer need two regions of one bound here: the number
 * of rows belongs to the cell. P11, P12. */
static void test_bounds(void)
{
    static const uint64_t tokens[] = {8, 64, 1};
    opened_t              o[3];

    for (int i = 0; i < 3; i++) {
        k3_cell_request_t request = request_of("deepep:ll", tokens[i]);

        request.max_tokens = 64;
        open_region(&o[i], &request, NULL);
        open_check(&o[i]);
    }
    for (int round = 0; round < 5; round++) {
        static const int order[] = {0, 1, 2, 1, 0};

        run_once(&o[order[round]]);
        verify(&o[order[round]]);
    }
    for (int i = 0; i < 3; i++) {
        k3_check_t check = close_region(&o[i]);

        CHECK(!check.wrong && check.rows_checked > 0);
    }
}

/* --- the check can fail ---------------------------------------------------------------------- */

static void test_corrupt(void)
{
    static const char *const moving[] = {"mooncake", "deepep:ll", "none",
                                         "mpi",      "megamoe",   "ascend_fuseep"};

    for (int i = 0; i < 6; i++) {
        k3_cell_request_t request = request_of(moving[i], 4);
        k3_fault_t        fault = K3_FAULT_NONE;
        opened_t          o;
        k3_check_t        check;
        /* On the fallback the front holds all rows, so the row is the global one. */
        uint64_t row = i == 2 ? 5 : 1 + 4;

        fault.corrupt_rank = 1;
        fault.corrupt_row = i == 2 ? 5 : 1;
        open_region(&o, &request, &fault);
        open_check(&o);
        run_once(&o);
        verify(&o);
        check = close_region(&o);
        CHECK(check.wrong);
        CHECK(check.first_stage == K3_STAGE_COMBINED);
        if (i == 2) { /* every rank reduces the exchanged rows of rank 1 with its own right ones */
            CHECK(check.rows_wrong >= 2);
        } else {
            CHECK(check.rows_wrong == 2);
            CHECK(check.first_row == row || check.first_row == row + 1);
        }
        CHECK(check.first_payload == 0);
    }
}

/* A complete combine that is reduced again. */
static void test_double_reduce(void)
{
    k3_cell_request_t request = request_of("deepep:ll", 4);
    opened_t          o;
    k3_check_t        check;

    request.path = "fallback";
    request.path_rule = "unlisted";
    open_region(&o, &request, NULL);
    open_check(&o);
    run_once(&o);
    verify(&o);
    check = close_region(&o);
    CHECK(check.wrong && check.first_stage == K3_STAGE_COMBINED);
    CHECK(strstr(check.diagnosis, "reduced twice") != NULL);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK_OK(k3_fabric_open(&world, &fabric, err));
    test_runs();
    test_memory();
    test_P08_P10_two_at_once();
    test_bounds();
    test_corrupt();
    test_double_reduce();
    k3_fabric_close(fabric);
    return finish("test_region");
}
