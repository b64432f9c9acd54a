/* Global time and common starts on real ranks of one host, where all clocks are one and the truth is
 * known.
 * ranks: 1 2 3 8 */
#include <math.h>

#include "harness/mpi/sync.h"
#include "harness/mpi/sync_internal.h"
#include "ranks.h"

/* What the own clock and the system's say at one moment; of a few looks the closest. */
static double against_system(const k3_sync_t *sync)
{
    double best = INFINITY, difference = 0.0;

    for (int i = 0; i < 50; i++) {
        uint64_t before = k3_clock_now();
        uint64_t system = k3_clock_slow();
        uint64_t after = k3_clock_now();

        if ((double)(after - before) < best) {
            best = (double)(after - before);
            difference = k3_sync_global(sync, k3_sync_local(sync, before + (after - before) / 2)) -
                         (double)system;
        }
    }
    return difference;
}

static void check_agreement(const k3_sync_t *sync)
{
    double            own = against_system(sync), first = own, off;
    k3_sync_quality_t quality;

    k3_sync_quality(sync, &quality);
    MPI_Bcast(&first, 1, MPI_DOUBLE, 0, world.comm);
    off = fabs(own - first) / 1e3;
    /* Two microseconds for reading two clocks, a thousandth of what the calibration may be off. */
    CHECK(off <= quality.error + 2.0 + quality.predicted);
    CHECK(quality.steps == 0);
    CHECK(isfinite(quality.error) && quality.drift_ppm < 500.0);
}

static void test_global_time(void)
{
    k3_sync_t        *sync = NULL;
    k3_sync_quality_t quality;

    CHECK_OK(k3_sync_open(&world, &sync, err));
    check_agreement(sync);
    for (int i = 0; i < 5; i++) {
        k3_sync_refit(sync);
        check_agreement(sync);
    }
    k3_sync_quality(sync, &quality);
    CHECK(quality.fits == 9);
    CHECK(world.size > 1 || quality.error == 0.0);
    CHECK(!k3_sync_due(sync));
    k3_sync_close(sync);
}

static void test_common_start(void)
{
    k3_sync_t *sync = NULL;

    CHECK_OK(k3_sync_open(&world, &sync, err));
    for (int i = 0; i < 20; i++) {
        double late = k3_sync_start(sync), worst, left, first;

        left = k3_sync_global(sync, k3_sync_local(sync, k3_clock_now()));
        CHECK(late >= 0.0);
        MPI_Allreduce(&late, &worst, 1, MPI_DOUBLE, MPI_MAX, world.comm);
        MPI_Allreduce(&left, &first, 1, MPI_DOUBLE, MPI_MIN, world.comm);
        /* Nobody leaves before the start: the spread is lateness and what the clocks are off. */
        if (late <= 0.0) {
            CHECK(left - first < 1e9);
        }
        k3_sync_punctuality(sync, worst);
    }
    CHECK(k3_sync_slack_us(sync) >= 50.0 && k3_sync_slack_us(sync) <= 1000.0);
    k3_sync_close(sync);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    test_global_time();
    test_common_start();
    return finish("sync");
}
