#include "harness/mpi/launch.h"

#include <stdlib.h>
#include <string.h>

void k3_launch_read(k3_launch_t *launch)
{
    static const char *const of_mpirun[] = {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE",
                                            "PMI_SIZE"};

    launch->launcher = "singleton";
    launch->variable = NULL;
    launch->text = NULL;
    for (size_t i = 0; i < sizeof(of_mpirun) / sizeof(of_mpirun[0]); i++) {
        const char *text = getenv(of_mpirun[i]);

        if (text != NULL) {
            launch->launcher = "mpirun";
            launch->variable = of_mpirun[i];
            launch->text = text;
            return;
        }
    }
    /* Below mpirun the step of Slurm is that of mpirun's own daemons, whose number says nothing;
     * only without any variable of mpirun did Slurm itself start this process. */
    if (getenv("SLURM_PROCID") != NULL && getenv("SLURM_STEP_NUM_TASKS") != NULL) {
        launch->launcher = "srun";
        launch->variable = "SLURM_STEP_NUM_TASKS";
        launch->text = getenv("SLURM_STEP_NUM_TASKS");
    }
}

k3_status_t k3_launch_check(const k3_launch_t *launch, int size, k3_error_t *err)
{
    if (launch->variable == NULL) {
        return K3_OK;
    }

    char *end;
    long  meant = strtol(launch->text, &end, 10);

    if (end != launch->text && *end == '\0' && meant == size) {
        return K3_OK;
    }
    return k3_fail(err, K3_ERR_ENV,
                   "%s says %s rank%s, but MPI sees %d: the program was started by the launcher of "
                   "another MPI than the one that it was built with, or alone inside such a launch",
                   launch->variable, launch->text, meant == 1 ? "" : "s", size);
}

bool k3_launch_first(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *rank = getenv(names[i]);

        if (rank != NULL) {
            return strcmp(rank, "0") == 0;
        }
    }
    return true;
}
