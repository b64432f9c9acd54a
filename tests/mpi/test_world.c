/* Launch check, nodes, common outcome, options that must agree, places.
 * ranks: 1 2 3 */
#include <poll.h>

#include "harness/mpi/topology.h"
#include "harness/mpi/watchdog.h"
#include "ranks.h"

static void test_nodes(void)
{
    CHECK(world.nodes == 1 && world.node == 0 && world.local_size == world.size);
    CHECK(world.local_rank == world.rank && world.cores >= 1);
    CHECK(world.oversubscribed == (world.size > world.cores));
    for (int r = 0; r < world.size; r++) {
        CHECK(world.node_of[r] == 0 && strcmp(world.host_of[r], world.host) == 0);
    }
    CHECK(k3_node_memory_available() > 1 << 20);
}

static void test_agree(void)
{
    k3_error_t fault = K3_ERROR_INIT;

    CHECK(k3_world_agree(&world, &fault) == K3_OK && fault.status == K3_OK);
    if (world.rank == world.size - 1) {
        k3_fail(&fault, K3_ERR_IO, "disk %d", world.rank);
    }
    CHECK(k3_world_agree(&world, &fault) == K3_ERR_IO && fault.status == K3_ERR_IO);
    CHECK(strstr(fault.text, "disk") != NULL);
    CHECK((strncmp(fault.text, "rank ", 5) == 0) == (world.size > 1));
    k3_error_clear(&fault);
    k3_fail(&fault, K3_ERR_USAGE, "all alike");
    CHECK(k3_world_agree(&world, &fault) == K3_ERR_USAGE && strcmp(fault.text, "all alike") == 0);
}

static void test_same(void)
{
    k3_error_t fault = K3_ERROR_INIT;
    char       text[64];

    CHECK_OK(k3_world_same(&world, "tokens", "512", err));
    if (world.size == 1) {
        return;
    }
    snprintf(text, sizeof(text), "%d", 100 - world.rank);
    CHECK(k3_world_same(&world, "tokens", text, &fault) == K3_ERR_USAGE);
    snprintf(text, sizeof(text), "%d on rank %d, 100 on rank 0", 101 - world.size, world.size - 1);
    CHECK(strstr(fault.text, "tokens") != NULL && strstr(fault.text, text) != NULL);
    k3_error_clear(&fault);
    CHECK(k3_world_same(&world, "model", world.rank == 1 ? "tiny" : "big", &fault) == K3_ERR_USAGE);
    CHECK(strstr(fault.text, "big on rank 0, tiny on rank 1") != NULL);
}

static void test_place(void)
{
    k3_place_t own, *places = NULL;

    CHECK_OK(k3_place_find(&own, err));
    CHECK(own.cpus[0] != '\0' && own.cores >= 1 && own.numa >= -1 && own.cpu_model[0] != '\0');
    CHECK_OK(k3_place_gather(&world, &own, &places, err));
    CHECK((places != NULL) == (world.rank == 0));
    for (int r = 0; places != NULL && r < world.size; r++) {
        CHECK(places[r].cores >= 1 && places[r].cpus[0] != '\0');
    }
    free(places);
}

/* The launcher's environment says 8, MPI sees another number: refused on every rank (case E01). */
static void test_launch_mismatch(int *argc, char ***argv)
{
    k3_error_t  fault = K3_ERROR_INIT;
    const char *before = getenv("OMPI_COMM_WORLD_SIZE");
    char        kept[16];

    snprintf(kept, sizeof(kept), "%s", before == NULL ? "" : before);
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    CHECK(k3_world_init(argc, argv, &world, &fault) == K3_ERR_ENV);
    CHECK(strstr(fault.text, "OMPI_COMM_WORLD_SIZE says 8") != NULL);
    CHECK(strstr(fault.text, "MPI sees") != NULL);
    if (before == NULL) {
        unsetenv("OMPI_COMM_WORLD_SIZE");
    } else {
        setenv("OMPI_COMM_WORLD_SIZE", kept, 1);
    }
    MPI_Comm_free(&world.comm);
}

/* The last rank is at work for longer than the limit, the others wait for it and are told so. */
static void test_F03_work_is_told(void)
{
    const double   limit_us = 1e6;
    k3_rollcall_t *roll = k3_rollcall_open(&world);
    uint64_t       begin;

    CHECK(roll != NULL);
    k3_watchdog_roll(roll);
    CHECK_OK(k3_watchdog_start(&world, limit_us / 1e6, err));
    begin = k3_clock_now();
    if (world.rank == world.size - 1) {
        k3_watchdog_work(true);
        while (k3_clock_us(k3_clock_now() - begin) < 2.2 * limit_us) {
            (void)poll(NULL, 0, 20);
            k3_watchdog_alive();
        }
        k3_watchdog_work(false);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    k3_watchdog_stop();
    k3_watchdog_roll(NULL);
    k3_rollcall_close(roll);
}

int main(int argc, char **argv)
{
    test_launch_mismatch(&argc, &argv);
    begin(&argc, &argv);
    CHECK(strcmp(world.launcher, "mpirun") == 0 || world.size == 1);
    test_nodes();
    test_agree();
    test_same();
    test_place();
    if (world.size > 1) {
        test_F03_work_is_told();
    }
    return finish("test_world");
}
