#define _GNU_SOURCE /* sched_getaffinity */

#include "harness/mpi/world.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/base/log.h"
#include "harness/base/sysfiles.h"
#include "harness/mpi/launch.h"

enum {
    BOOT_ID_SIZE = 40,
    CPU_WORDS = 256, /* 16,384 processors */
    SAME_TEXT = 160, /* of a differing text this much is shown */
    ABORT_LIMIT = 3
};

typedef struct identity {
    char host[K3_HOST_MAX];
    char boot[BOOT_ID_SIZE];
} identity_t;

/* --- who sits where -------------------------------------------------------------------------- */

static void find_identity(identity_t *id)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

    memset(id, 0, sizeof(*id));
    if (gethostname(id->host, sizeof(id->host) - 1) != 0) {
        snprintf(id->host, sizeof(id->host), "unknown");
    }
    if (file != NULL) {
        if (fgets(id->boot, sizeof(id->boot), file) == NULL) {
            id->boot[0] = '\0';
        }
        fclose(file);
    }
}

/* Numbers the nodes by their lowest rank. A rank is compared with the first rank of each node only.
 */
static void number_nodes(k3_world_t *world, const identity_t *ids, int *first_of)
{
    world->nodes = 0;
    world->local_rank = 0;
    world->local_size = 0;
    for (int r = 0; r < world->size; r++) {
        int node = 0;

        while (node < world->nodes && memcmp(&ids[first_of[node]], &ids[r], sizeof(*ids)) != 0) {
            node++;
        }
        if (node == world->nodes) {
            first_of[world->nodes++] = r;
        }
        world->node_of[r] = node;
        memcpy(world->host_of[r], ids[r].host, K3_HOST_MAX);
    }
    world->node = world->node_of[world->rank];
    for (int r = 0; r < world->size; r++) {
        world->local_size += world->node_of[r] == world->node;
        world->local_rank += world->node_of[r] == world->node && r < world->rank;
    }
}

/* Whole cores that a CPU quota of the control groups allows; INT_MAX without one. */
static int quota_cores(void)
{
    double cpus;

    return k3_sys_cpu_quota("", &cpus) && cpus < INT_MAX - 1 ? (int)ceil(cpus) : INT_MAX;
}

/* The cores that any rank of this node is allowed on. */
static int count_cores(const k3_world_t *world)
{
    uint64_t mine[CPU_WORDS] = {0}, all[CPU_WORDS];
    MPI_Comm node_comm;
    int      cores = 0, quota = quota_cores();

    if (sched_getaffinity(0, sizeof(mine), (cpu_set_t *)(void *)mine) != 0) {
        mine[0] = 1;
    }
    MPI_Comm_split(world->comm, world->node, world->rank, &node_comm);
    MPI_Allreduce(mine, all, CPU_WORDS, MPI_UINT64_T, MPI_BOR, node_comm);
    MPI_Comm_free(&node_comm);
    for (int i = 0; i < CPU_WORDS; i++) {
        cores += __builtin_popcountll(all[i]);
    }
    return cores < quota ? cores : quota;
}

static k3_status_t find_nodes(k3_world_t *world, k3_error_t *err)
{
    size_t      n = (size_t)world->size;
    identity_t  own;
    identity_t *ids = calloc(n, sizeof(*ids));
    int        *first_of = calloc(n, sizeof(*first_of));

    world->node_of = calloc(n, sizeof(*world->node_of));
    world->host_of = calloc(n, sizeof(*world->host_of));
    if (ids == NULL || first_of == NULL || world->node_of == NULL || world->host_of == NULL) {
        k3_fail(err, K3_ERR_ENV, "no memory for the hosts of %d ranks", world->size);
    }
    find_identity(&own);
    memcpy(world->host, own.host, sizeof(world->host));
    if (k3_world_agree(world, err) == K3_OK) {
        MPI_Allgather(&own, (int)sizeof(own), MPI_BYTE, ids, (int)sizeof(own), MPI_BYTE,
                      world->comm);
        number_nodes(world, ids, first_of);
        world->cores = count_cores(world);
        world->oversubscribed = world->local_size > world->cores;
    }
    free(first_of);
    free(ids);
    return err->status;
}

/* --- start and end --------------------------------------------------------------------------- */

k3_status_t k3_world_init(int *argc, char ***argv, k3_world_t *world, k3_error_t *err)
{
    k3_error_t  fault = K3_ERROR_INIT;
    k3_launch_t launch;
    int         initialised = 0, provided;

    memset(world, 0, sizeof(*world));
    k3_launch_read(&launch);
    world->launcher = launch.launcher;
    world->comm = MPI_COMM_NULL;
    MPI_Initialized(&initialised);
    if (!initialised &&
        MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        return k3_fail(err, K3_ERR_ENV, "MPI_Init_thread failed");
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &world->comm);
    MPI_Comm_rank(world->comm, &world->rank);
    MPI_Comm_size(world->comm, &world->size);
    k3_log_set_rank(world->size > 1 ? world->rank : -1);
    k3_launch_check(&launch, world->size, &fault);
    if (k3_world_agree(world, &fault) == K3_OK) {
        find_nodes(world, &fault);
    }
    return fault.status == K3_OK ? K3_OK : k3_fail(err, fault.status, "%s", fault.text);
}

void k3_world_finalize(k3_world_t *world)
{
    int initialised = 0, finalized = 0;

    MPI_Initialized(&initialised);
    MPI_Finalized(&finalized);
    if (initialised && !finalized) {
        if (world->comm != MPI_COMM_NULL) {
            MPI_Comm_free(&world->comm);
        }
        MPI_Finalize();
    }
}

void k3_world_free(k3_world_t *world)
{
    free(world->host_of);
    free(world->node_of);
    world->host_of = NULL;
    world->node_of = NULL;
}

int k3_world_refused(k3_world_t *world, const k3_error_t *err)
{
    if (k3_launch_first()) {
        k3_log_set_rank(-1);
        k3_log_error("%s", err->text);
    }
    k3_world_finalize(world);
    k3_world_free(world);
    return k3_exit_code(err->status);
}

/* --- one outcome for all --------------------------------------------------------------------- */

k3_status_t k3_world_agree(const k3_world_t *world, k3_error_t *err)
{
    int        mine = err->status == K3_OK ? world->size : world->rank;
    int        lowest, same, all_same;
    k3_error_t common = *err;

    MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, world->comm);
    if (lowest == world->size) {
        return K3_OK;
    }
    MPI_Bcast(&common, (int)sizeof(common), MPI_BYTE, lowest, world->comm);
    same = common.status == err->status && strcmp(common.text, err->text) == 0;
    MPI_Allreduce(&same, &all_same, 1, MPI_INT, MPI_LAND, world->comm);
    k3_error_clear(err);
    if (all_same) {
        return k3_fail(err, common.status, "%s", common.text);
    }
    return k3_fail(err, common.status, "rank %d: %s", lowest, common.text);
}

static int die_code;

static void hard_exit(int signal_number)
{
    (void)signal_number;
    _exit(die_code);
}

void k3_world_die(const k3_world_t *world, const k3_error_t *err)
{
    struct sigaction action;

    die_code = k3_exit_code(err->status == K3_OK ? K3_ERR_CHECK : err->status);
    k3_log_error("%s", err->text);
    fflush(NULL);
    /* MPI_Abort may hang in a job that is already broken. */
    memset(&action, 0, sizeof(action));
    action.sa_handler = hard_exit;
    sigaction(SIGALRM, &action, NULL);
    alarm(ABORT_LIMIT);
    MPI_Abort(world->comm == MPI_COMM_NULL ? MPI_COMM_WORLD : world->comm, die_code);
    _exit(die_code);
}

/* --- options that must agree ----------------------------------------------------------------- */

static uint64_t hash_text(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static int is_number(const char *text, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && *end == '\0';
}

/* Picks the two ranks to name: holders of the smallest and largest value when all are numbers, else
 * rank 0 and the first that differs from it. */
static void pick_two(int size, char (*texts)[SAME_TEXT], const uint64_t *hashes, int *a, int *b)
{
    int    numbers = 1, low = 0, high = 0, other = 0;
    double value, least = 0, most = 0;

    for (int r = 0; r < size; r++) {
        numbers = numbers && is_number(texts[r], &value);
        if (numbers && (r == 0 || value < least)) {
            least = value;
            low = r;
        }
        if (numbers && (r == 0 || value > most)) {
            most = value;
            high = r;
        }
        if (other == 0 && hashes[r] != hashes[0]) {
            other = r;
        }
    }
    *a = numbers && low != high ? low : 0;
    *b = numbers && low != high ? high : other;
}

static k3_status_t name_difference(const k3_world_t *world, const char *what, const char *text,
                                   uint64_t hash, k3_error_t *err)
{
    char mine[SAME_TEXT];
    char(*texts)[SAME_TEXT] = calloc((size_t)world->size, sizeof(*texts));
    uint64_t  *hashes = calloc((size_t)world->size, sizeof(*hashes));
    k3_error_t fault = K3_ERROR_INIT;

    if (texts == NULL || hashes == NULL) {
        k3_fail(&fault, K3_ERR_USAGE, "%s differs between ranks", what);
    }
    if (k3_world_agree(world, &fault) == K3_OK) {
        int a, b;

        snprintf(mine, sizeof(mine), "%s", text);
        MPI_Allgather(mine, SAME_TEXT, MPI_CHAR, texts, SAME_TEXT, MPI_CHAR, world->comm);
        MPI_Allgather(&hash, 1, MPI_UINT64_T, hashes, 1, MPI_UINT64_T, world->comm);
        pick_two(world->size, texts, hashes, &a, &b);
        k3_fail(&fault, K3_ERR_USAGE, "%s differs between ranks: %s on rank %d, %s on rank %d",
                what, texts[a], a, texts[b], b);
    }
    free(hashes);
    free(texts);
    return k3_fail(err, fault.status, "%s", fault.text);
}

k3_status_t k3_world_same(const k3_world_t *world, const char *what, const char *text,
                          k3_error_t *err)
{
    uint64_t range[2], global[2];

    /* One reduction finds both ends: the maximum of the hash and of its complement. */
    range[0] = hash_text(text);
    range[1] = ~range[0];
    MPI_Allreduce(range, global, 2, MPI_UINT64_T, MPI_MAX, world->comm);
    if (global[0] == ~global[1]) {
        return K3_OK;
    }
    return name_difference(world, what, text, range[0], err);
}
