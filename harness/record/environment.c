/* Which environment variables may enter a record. Everything else stays out: a record travels. */
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness/record/fingerprint.h"
#include "harness/record/json_values.h"

extern char **environ;

enum { NAME_MAX_BYTES = 256 };

static const char *const allowed_names[] = {
    "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "HSA_ENABLE_SDMA",
    "LD_PRELOAD",           "MALLOC_ARENA_MAX",    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_SIZE", "OMP_DYNAMIC",         "OMP_NUM_THREADS",
    "OMP_PLACES",           "OMP_PROC_BIND",       "ROCR_VISIBLE_DEVICES",
    "SLURM_CPUS_PER_TASK",  "SLURM_JOB_ID",        "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_PARTITION",  "SLURM_NTASKS",        "SLURM_NTASKS_PER_NODE",
};

static const char *const allowed_prefixes[] = {
    "DNNL_",   "GOMP_",     "HWLOC_",    "K3BENCH_", "KMP_",     "NCCL_",      "OMPI_MCA_",
    "ONEDNN_", "PMIX_MCA_", "PRTE_MCA_", "RCCL_",    "ROCBLAS_", "HIPBLASLT_", "UCX_",
};

/* From PRECONDITION on Open MPI's own: its start-up passes an authorisation key, addresses and folders
 * this way. */
static const char *const denied_words[] = {
    "TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL", "PRECONDITION", "URI", "DIR", "ORTE", "ESS_",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_allowed(const char *name)
{
    char capitals[NAME_MAX_BYTES];
    bool allowed = false;

    for (size_t i = 0; i <= strlen(name); i++) {
        capitals[i] = (char)toupper((unsigned char)name[i]);
    }
    for (size_t i = 0; i < COUNT(denied_words); i++) {
        if (strstr(capitals, denied_words[i]) != NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < COUNT(allowed_names); i++) {
        allowed |= strcmp(name, allowed_names[i]) == 0;
    }
    for (size_t i = 0; i < COUNT(allowed_prefixes); i++) {
        allowed |= strncmp(name, allowed_prefixes[i], strlen(allowed_prefixes[i])) == 0;
    }
    return allowed;
}

/* By name alone: as plain text "A=" would come after "A1=". */
static int compare_variables(const void *a, const void *b)
{
    const char *left = *(char *const *)a, *right = *(char *const *)b;

    while (*left == *right && *left != '\0' && *left != '=') {
        left++;
        right++;
    }

    int left_byte = *left == '=' ? 0 : (unsigned char)*left;
    int right_byte = *right == '=' ? 0 : (unsigned char)*right;

    return left_byte - right_byte;
}

static void add_variable(json_t *object, const char *variable)
{
    const char *equals = strchr(variable, '=');
    size_t      length = equals == NULL ? 0 : (size_t)(equals - variable);
    char        name[NAME_MAX_BYTES];

    if (length == 0 || length >= sizeof(name)) {
        return;
    }
    memcpy(name, variable, length);
    name[length] = '\0';
    /* A name that is not UTF-8 is refused by jansson and so stays out. */
    if (is_allowed(name)) {
        (void)json_object_set_new(object, name, k3_json_string(equals + 1));
    }
}

json_t *k3_environment(void)
{
    json_t *object = json_object();
    size_t  count = 0;

    while (environ != NULL && environ[count] != NULL) {
        count++;
    }

    char **sorted = malloc((count + 1) * sizeof(*sorted));

    if (sorted == NULL) {
        return object;
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = environ[i];
    }
    qsort(sorted, count, sizeof(*sorted), compare_variables);
    for (size_t i = 0; i < count; i++) {
        add_variable(object, sorted[i]);
    }
    free(sorted);
    return object;
}
