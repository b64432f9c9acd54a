/* doctor --calibrate: the machine file `local`. Rates of kernels are taken by as many ranks of a host at
 * once as it has cores, so that they share its memory as in a run; costs of messages come from the pairs. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/cell/model.h"
#include "bench/commands/doctor.h"
#include "bench/commands/doctor_exchange.h"
#include "bench/plan/machine.h"
#include "harness/base/memory.h"
#include "harness/base/sysfiles.h"
#include "harness/mpi/clock.h"
#include "harness/record/document.h"
#include "harness/record/fingerprint.h"
#include "kernels/kernels.h"

enum { MANY_ROWS = 32, REPEATS = 3, EXPERTS = 2, COPY_BYTES = 1 << 26 };

typedef struct bench {
    const k3_kernels_t *kernels;
    k3_model_t          model;
    k3_expert_shape_t   shape;
    uint8_t            *weights; /* [EXPERTS] blocks */
    uint16_t           *rows, *out;
    uint8_t            *from, *to;
    void               *work;
    unsigned            turn;
} bench_t;

static double seconds(bench_t *b, void (*call)(bench_t *))
{
    double best = INFINITY;

    call(b); /* first touch */
    for (int i = 0; i < REPEATS; i++) {
        uint64_t start = k3_clock_now();
        double   s;

        call(b);
        s = k3_clock_us(k3_clock_now() - start) * 1e-6;
        best = s < best ? s : best;
    }
    return best;
}

static void run_expert(bench_t *b, size_t rows)
{
    const void         *in[MANY_ROWS];
    uint16_t           *out[MANY_ROWS];
    k3_expert_weights_t weights;
    uint64_t            bytes = k3_expert_layout(&b->shape, NULL, &weights);
    k3_recipe_t recipe = {.name = "w4a16", .input = K3_FORMAT_BF16, .middle = K3_FORMAT_BF16};

    k3_expert_layout(&b->shape, b->weights + bytes * (b->turn++ % EXPERTS), &weights);
    for (size_t i = 0; i < rows; i++) {
        in[i] = b->rows + i * b->model.latent;
        out[i] = b->out + i * b->model.latent;
    }
    b->kernels->expert_mlp(&b->shape, &recipe, &weights, rows, K3_FORMAT_BF16, in, NULL, NULL, out,
                           b->work);
}

static void one_row(bench_t *b)
{
    run_expert(b, 1);
}

static void many_rows(bench_t *b)
{
    run_expert(b, MANY_ROWS);
}

static void copy(bench_t *b)
{
    memcpy(b->to, b->from, COPY_BYTES);
}

static k3_status_t open_bench(bench_t *b, k3_error_t *err)
{
    k3_expert_weights_t unused;
    uint64_t            width;

    if (k3_model_parse("kimi-k3", &b->model, err) != K3_OK) {
        return err->status;
    }
    width = b->model.latent;
    b->kernels = k3_kernels_cpu("auto");
    b->shape = (k3_expert_shape_t){.latent = b->model.latent,
                                   .inter = b->model.intermediate,
                                   .weights = b->model.weights,
                                   .activation = b->model.activation};
    if (k3_alloc("weights", EXPERTS, k3_expert_layout(&b->shape, NULL, &unused),
                 (void **)&b->weights, err) != K3_OK ||
        k3_alloc("rows", MANY_ROWS, width * sizeof(uint16_t), (void **)&b->rows, err) != K3_OK ||
        k3_alloc("results", MANY_ROWS, width * sizeof(uint16_t), (void **)&b->out, err) != K3_OK ||
        k3_alloc("work space", 1, k3_expert_work_bytes(&b->shape), &b->work, err) != K3_OK ||
        k3_alloc("source", 1, COPY_BYTES, (void **)&b->from, err) != K3_OK ||
        k3_alloc("target", 1, COPY_BYTES, (void **)&b->to, err) != K3_OK) {
        return err->status;
    }
    /* Values of -1 and 3 with scales of 2^-37: sums neither overflow nor become denormal. Rows are 1
     * and 1.5. */
    memset(b->weights, 0x5a, EXPERTS * k3_expert_layout(&b->shape, NULL, &unused));
    for (uint64_t i = 0; i < MANY_ROWS * width; i++) {
        b->rows[i] = i % 3 == 0 ? 0x3fc0 : 0x3f80;
    }
    memset(b->from, 1, COPY_BYTES);
    return K3_OK;
}

static void close_bench(bench_t *b)
{
    k3_free(b->to);
    k3_free(b->from);
    k3_free(b->work);
    k3_free(b->out);
    k3_free(b->rows);
    k3_free(b->weights);
}

/* --- figures ----------------------------------------------------------------------------------- */

/* One kernel by the ranks that take part, at once; the mean of their rates. */
static double rate(const k3_world_t *world, bool takes_part, bench_t *b, void (*call)(bench_t *),
                   double units)
{
    return k3_world_mean(world, takes_part ? units / seconds(b, call) : 0);
}

static void set_kernels(const k3_world_t *world, bool takes_part, bench_t *b, k3_machine_file_t *m)
{
    double width = b->model.latent, copied;
    double weights = (double)k3_model_expert_bytes(&b->model);
    double flops = 6.0 * width * b->model.intermediate * MANY_ROWS;

    copied = rate(world, takes_part, b, copy, COPY_BYTES * 1e-9);
    k3_machine_set(m, K3_FIG_COPY_GBPS, copied, K3_FROM_MEASURED,
                   "memcpy of 64 MiB, cores at once");
    k3_machine_set(m, K3_FIG_MEMORY_GBPS, 2 * copied * world->cores, K3_FROM_MEASURED,
                   "bytes read and written by those copies, all cores");
    k3_machine_set(m, K3_FIG_WEIGHTS_GBPS, rate(world, takes_part, b, one_row, weights * 1e-9),
                   K3_FROM_MEASURED, "expert of kimi-k3 on one row");
    k3_machine_set(m, K3_FIG_GEMM_GFLOPS, rate(world, takes_part, b, many_rows, flops * 1e-9),
                   K3_FROM_MEASURED, "expert of kimi-k3 on 32 rows");
}

static void set_pairs(const k3_world_t *world, const k3_pair_report_t *pairs, k3_machine_file_t *m)
{
    const k3_pair_result_t *mapped = &pairs->result[K3_PAIR_MAPPED];
    const k3_pair_result_t *shared = &pairs->result[K3_PAIR_SHARED];
    const k3_pair_result_t *network = &pairs->result[K3_PAIR_NETWORK];
    char                    text[64];

    snprintf(text, sizeof(text), "barrier of %d ranks", world->size);
    k3_machine_set(m, K3_FIG_BARRIER_US, pairs->barrier_us, K3_FROM_MEASURED, text);
    k3_machine_set(m, K3_FIG_STORE_PEAK_GBPS, 2 * pairs->result[K3_PAIR_SELF].row_GBps,
                   K3_FROM_MEASURED,
                   "twice the rate of 8 KiB stored to the own block: rows may lie nearer");
    if (mapped->measured) {
        k3_machine_set(m, K3_FIG_SCALEUP_LATENCY_US, mapped->latency_us, K3_FROM_MEASURED,
                       "signal to a mapped peer");
        k3_machine_set(m, K3_FIG_SCALEUP_GBPS, mapped->row_GBps, K3_FROM_MEASURED,
                       "8 KiB stored to a mapped peer");
        k3_machine_set(m, K3_FIG_STORE_MESSAGE_US, mapped->message_us, K3_FROM_MEASURED,
                       "64 bytes stored to a mapped peer");
    }
    if (shared->measured) {
        k3_machine_set(m, K3_FIG_MESSAGE_US, shared->message_us, K3_FROM_MEASURED,
                       "put of 64 bytes through the queue pair of a peer of the host");
        k3_machine_set(m, K3_FIG_SIGNAL_US, shared->signal_us, K3_FROM_MEASURED,
                       "add through the queue pair of a peer of the host");
        k3_machine_set(m, K3_FIG_DOORBELL_US, shared->doorbell_us, K3_FROM_MEASURED,
                       "call of progress");
    }
    if (network->measured) {
        k3_machine_set(m, K3_FIG_NETWORK_LATENCY_US, network->latency_us, K3_FROM_MEASURED,
                       "signal to a rank of another host");
        k3_machine_set(m, K3_FIG_NIC_GBPS, network->bulk_GBps, K3_FROM_MEASURED,
                       "puts of 1 MiB to a rank of another host");
        k3_machine_set(m, K3_FIG_NETWORK_MESSAGE_US, network->message_us, K3_FROM_MEASURED,
                       "put of 64 bytes to a rank of another host");
        k3_machine_set(m, K3_FIG_NETWORK_SIGNAL_US, network->signal_us, K3_FROM_MEASURED,
                       "add to a word of a rank of another host");
    }
}

static void set_host(const k3_world_t *world, double load, k3_machine_file_t *m)
{
    char     text[K3_SYS_LINE], now[21];
    uint64_t limit;
    double   bytes =
        k3_sys_field("", "/proc/meminfo", "MemTotal:", text) ? strtod(text, NULL) * 1024 : 0;

    if (k3_sys_memory_limit("", &limit) && (double)limit < bytes) {
        bytes = (double)limit;
    }
    k3_utc_now(now);
    snprintf(m->name, sizeof(m->name), "local");
    snprintf(m->what, sizeof(m->what), "this machine, %s, by %d ranks on %d host%s", now,
             world->size, world->nodes, world->nodes == 1 ? "" : "s");
    if (world->nodes > 1) {
        k3_machine_set(m, K3_FIG_RANKS_PER_NODE, world->local_size, K3_FROM_MEASURED,
                       "of this launch");
    } else {
        k3_machine_set(m, K3_FIG_RANKS_PER_NODE, 65536, K3_FROM_MEASURED,
                       "one host, which all ranks share");
    }
    k3_machine_set(m, K3_FIG_CORES_PER_NODE, world->cores, K3_FROM_MEASURED,
                   "that ranks of a host may use");
    k3_machine_set(m, K3_FIG_MEMORY_GB, bytes * 1e-9 / world->local_size, K3_FROM_MEASURED,
                   "memory of the host over its ranks");
    if (load >= 0.0) {
        k3_machine_set(m, K3_FIG_CALIBRATION_LOAD, load / (double)k3_sys_cores(), K3_FROM_MEASURED,
                       "load of the minute before, over the host's cores");
    }
    k3_machine_set(m, K3_FIG_SCALEUP_LINKS, 0, K3_FROM_MEASURED, "memory is shared");
    k3_machine_set(m, K3_FIG_LAUNCH_US, 0, K3_FROM_DECIDED, "a call starts no kernel");
}

static int fill_file(FILE *file, const void *arg)
{
    k3_machine_print(arg, file);
    return ferror(file);
}

static k3_status_t write_file(const k3_machine_file_t *m, k3_error_t *err)
{
    if ((mkdir("results", 0777) != 0 && errno != EEXIST) ||
        (mkdir(K3_MACHINE_LOCAL_FOLDER, 0777) != 0 && errno != EEXIST)) {
        return k3_fail(err, K3_ERR_IO, "%s: %s", K3_MACHINE_LOCAL_FOLDER, strerror(errno));
    }
    if (k3_file_replace(K3_MACHINE_LOCAL, fill_file, m, err) == K3_OK) {
        printf("machine file: %s\n", K3_MACHINE_LOCAL);
    }
    return err->status;
}

k3_status_t k3_doctor_calibrate(const k3_world_t *world, double load, k3_fabric_t *fabric,
                                const k3_pair_report_t *pairs, k3_error_t *err)
{
    bench_t           b = {0};
    k3_machine_file_t m = {0};
    bool              takes_part = world->local_rank < world->cores;

    if (world->size < 2) {
        return k3_fail(err, K3_ERR_USAGE,
                       "calibrate: pairs of ranks are measured, and this launch has "
                       "one: " K3_MACHINE_MAKE_LOCAL);
    }
    if (takes_part) {
        open_bench(&b, err);
    }
    if (k3_world_agree(world, err) == K3_OK) {
        set_host(world, load, &m);
        set_kernels(world, takes_part, &b, &m);
        set_pairs(world, pairs, &m);
        if (k3_doctor_exchange(world, fabric, k3_kernels_cpu("auto"), &m, err) == K3_OK &&
            world->rank == 0) {
            write_file(&m, err);
        }
    }
    close_bench(&b);
    return k3_world_agree(world, err);
}
