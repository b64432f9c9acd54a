/* Spans on the global clock against the system's clock, which all ranks of one host share.
 * ranks: 1 2 8 */
#include <math.h>
#include <time.h>

#include "bench/region/span.h"
#include "ranks.h"

enum { ROUNDS = 12 };

static void sleep_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};

    nanosleep(&pause, NULL);
}

/* Rank r begins r ms after the first and is busy for 2 ms. The truth comes from the system's clock. */
static void run(k3_spans_global_t *g, uint64_t n, double *truth_us)
{
    k3_spans_t spans = {.fault_phase = -1};
    double     own[2], first, last;

    k3_spans_start(&spans, n);
    MPI_Barrier(world.comm);
    sleep_ms(world.rank);
    own[0] = (double)k3_clock_slow();
    k3_span_begin(&spans, K3_PHASE_PAIR);
    sleep_ms(2);
    k3_span_end(&spans, K3_PHASE_PAIR);
    own[1] = (double)k3_clock_slow();
    MPI_Reduce(&own[0], &first, 1, MPI_DOUBLE, MPI_MIN, 0, world.comm);
    MPI_Reduce(&own[1], &last, 1, MPI_DOUBLE, MPI_MAX, 0, world.comm);
    truth_us[n] = (last - first) / 1e3;
    k3_spans_global_note(g, &spans, n);
}

static void test_against_the_system(k3_sync_t *sync)
{
    k3_cell_t         cell = {.component = K3_COMPONENT_PAIR};
    k3_region_t       region = {.cell = &cell, .pairs = 1};
    k3_spans_global_t g;
    k3_span_result_t  result;
    k3_summary_t      truth;
    double            us[ROUNDS], own[ROUNDS], scratch[ROUNDS];

    CHECK_OK(k3_spans_global_open(&g, sync, &region, ROUNDS, err));
    k3_spans_global_place(&g, 0);
    for (uint64_t n = 0; n < ROUNDS; n++) {
        run(&g, n, us);
        if (n == ROUNDS / 2) {
            k3_spans_global_place(&g, n + 1);
        }
    }
    k3_spans_global_place(&g, ROUNDS);
    CHECK(g.placed == ROUNDS && !g.stepped);
    k3_spans_global_collect(&g, &world, K3_PHASE_PAIR, ROUNDS, 1, own, scratch, &result);
    if (world.rank == 0) {
        double allowed = 2.0 * g.error_us + 50.0; /* a rank can lose its core between two clocks */

        k3_summarize(us, ROUNDS, scratch, &truth);
        CHECK(result.summary.n == ROUNDS);
        CHECK(result.valid || result.reason[0] != '\0');
        CHECK(fabs(result.summary.median - truth.median) <= allowed + 0.02 * truth.median);
        CHECK(result.summary.min >= 2000.0 - allowed);
        CHECK(!result.valid || 2.0 * g.error_us <= 0.1 * result.summary.median);
    }
    k3_spans_global_collect(&g, &world, K3_PHASE_ROUTER, ROUNDS, 1, own, scratch, &result);
    CHECK(!result.valid && result.reason[0] != '\0'); /* not a total */
    k3_spans_global_close(&g);
}

/* Spans of nothing: what the clocks may be off is more than a tenth of them. */
static void test_withheld(k3_sync_t *sync)
{
    k3_cell_t         cell = {.component = K3_COMPONENT_PAIR};
    k3_region_t       region = {.cell = &cell, .pairs = 1};
    k3_spans_global_t g;
    k3_span_result_t  result;
    k3_spans_t        spans = {.fault_phase = -1};
    double            own[1], scratch[1];

    CHECK_OK(k3_spans_global_open(&g, sync, &region, 1, err));
    k3_spans_start(&spans, 0);
    spans.begin[K3_PHASE_PAIR] = k3_clock_now();
    spans.used[K3_PHASE_PAIR] = true;
    k3_spans_global_note(&g, &spans, 0);
    k3_spans_global_place(&g, 1);
    g.error_us = 1e9;
    k3_spans_global_collect(&g, &world, K3_PHASE_PAIR, 1, 1, own, scratch, &result);
    CHECK(world.rank != 0 || (!result.valid && strstr(result.reason, "10 %") != NULL));
    g.error_us = 0.0;
    g.stepped = true;
    k3_spans_global_collect(&g, &world, K3_PHASE_PAIR, 1, 1, own, scratch, &result);
    CHECK(world.rank != 0 || (!result.valid && strstr(result.reason, "jumped") != NULL));
    k3_spans_global_close(&g);
}

static void test_without_clock(void)
{
    k3_cell_t         cell = {.component = K3_COMPONENT_PAIR};
    k3_region_t       region = {.cell = &cell, .pairs = 1};
    k3_spans_global_t g;
    k3_span_result_t  result;
    k3_spans_t        spans = {.fault_phase = -1};
    double            own[1], scratch[1];

    CHECK_OK(k3_spans_global_open(&g, NULL, &region, 1, err));
    k3_spans_start(&spans, 0);
    k3_spans_global_note(&g, &spans, 0);
    k3_spans_global_place(&g, 1);
    k3_spans_global_collect(&g, &world, K3_PHASE_PAIR, 1, 1, own, scratch, &result);
    CHECK(!result.valid && strstr(result.reason, "not compared") != NULL);
    k3_spans_global_close(&g);
}

int main(int argc, char **argv)
{
    k3_sync_t *sync = NULL;

    begin(&argc, &argv);
    CHECK_OK(k3_sync_open(&world, &sync, err));
    test_against_the_system(sync);
    test_withheld(sync);
    test_without_clock();
    k3_sync_close(sync);
    return finish("span");
}
