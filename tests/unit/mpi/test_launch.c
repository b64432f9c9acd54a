/* What the launcher's variables say against what MPI sees (case E01). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/mpi/launch.h"

static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"};

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        unsetenv(variables[i]);
    }
    return 0;
}

static k3_status_t check(int size, const char *launcher, k3_error_t *err)
{
    k3_launch_t launch;

    k3_launch_read(&launch);
    assert_string_equal(launch.launcher, launcher);
    return k3_launch_check(&launch, size, err);
}

static void alone(void **state)
{
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(check(1, "singleton", &err), K3_OK);
}

static void mismatch_names_both(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        k3_error_t err = K3_ERROR_INIT;

        clear(NULL);
        setenv(variables[i], "8", 1);
        assert_int_equal(check(8, "mpirun", &err), K3_OK);
        assert_int_equal(check(1, "mpirun", &err), K3_ERR_ENV);
        assert_non_null(strstr(err.text, variables[i]));
        assert_non_null(strstr(err.text, "says 8 ranks"));
        assert_non_null(strstr(err.text, "sees 1"));
    }
}

static void nonsense(void **state)
{
    static const char *const values[] = {"", "4x", "-1", "many"};

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        k3_error_t err = K3_ERROR_INIT;

        setenv("PMI_SIZE", values[i], 1);
        assert_int_equal(check(4, "mpirun", &err), K3_ERR_ENV);
    }
}

/* Slurm's step counts ranks only where Slurm started them. */
static void slurm(void **state)
{
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    assert_int_equal(check(1, "singleton", &err), K3_OK);
    setenv("SLURM_PROCID", "0", 1);
    assert_int_equal(check(2, "srun", &err), K3_OK);
    assert_int_equal(check(1, "srun", &err), K3_ERR_ENV);
    k3_error_clear(&err);
    setenv("OMPI_COMM_WORLD_SIZE", "16", 1); /* mpirun, with two daemons started by Slurm */
    assert_int_equal(check(16, "mpirun", &err), K3_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(alone, clear),
        cmocka_unit_test_setup(mismatch_names_both, clear),
        cmocka_unit_test_setup(nonsense, clear),
        cmocka_unit_test_setup(slurm, clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
