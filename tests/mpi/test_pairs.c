/* Pairs of ranks: each class that the launch has, with figures that can be.
 * ranks: 1 2 3 */
#include "harness/mpi/pairs.h"
#include "harness/mpi/transports.h"
#include "ranks.h"

static void count_transport(const char *name, const char *device, const char *kind, void *arg)
{
    CHECK(name[0] != '\0' && device[0] != '\0' && kind[0] != '\0');
    ++*(int *)arg;
}

static void test_transports(void)
{
    int count = 0;

    CHECK_OK(k3_transports_list(count_transport, &count, err));
    CHECK(count >= 1);
}

static void test_pairs(void)
{
    k3_fabric_t     *fabric = NULL;
    k3_pair_report_t report;

    CHECK_OK(k3_fabric_open(&world, &fabric, err));
    CHECK_OK(k3_pairs_measure(fabric, &world, &report, err));
    k3_fabric_close(fabric);
    for (int class = 0; class < K3_PAIR_CLASSES; class ++) {
        const k3_pair_result_t *r = &report.result[class];
        bool here = class == K3_PAIR_SELF || (class != K3_PAIR_NETWORK && world.size > 1);

        CHECK(r->measured == here);
        if (here) {
            CHECK(r->latency_us > 0 && r->latency_us < 1e6);
            CHECK(r->bulk_GBps > 0 && r->message_us > 0 && r->signal_us > 0);
            CHECK(r->overtaken_used == 0 && r->transport[0] != '\0');
            CHECK((r->src == r->dst) == (class == K3_PAIR_SELF));
        }
    }
    CHECK(report.barrier_us >= 0);
}

static void test_share(void)
{
    char   text[32];
    void  *all;
    size_t bytes;

    for (int from = 0; from < world.size; from++) {
        snprintf(text, sizeof(text), "of rank %d", world.rank);
        CHECK_OK(k3_world_fetch(&world, from, text, strlen(text) + 1, &all, &bytes, err));
        CHECK((all != NULL) == (world.rank == 0));
        if (world.rank == 0) {
            snprintf(text, sizeof(text), "of rank %d", from);
            CHECK(bytes == strlen(text) + 1 && strcmp(all, text) == 0);
        }
        free(all);
    }
    CHECK(k3_world_first(&world, world.rank + 7) == 7);
    CHECK(k3_world_mean(&world, world.rank == 0 ? 4.0 : 0) == 4.0);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    test_transports();
    test_pairs();
    test_share();
    return finish("pairs");
}
