/* Every kernel of a device against the scalar ones, with its time beside two floors that are measured on the
 * same device: its bytes over the bandwidth of a copy, its operations over the rate of a large product.
 *
 * device_check KIND small|k3: prints a table, exit status 1 when a result is wrong, 3 when there is no such
 * device. scripts/device-check.sh builds and calls it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/commands/accelerators.h"
#include "harness/base/memory.h"

typedef struct check {
    const k3_accelerator_t *a;
    k3_device_t             device;
    k3_blas_t              *blas;
    void                   *blas_work;
    const k3_kernels_t     *scalar;
    double                  bytes_per_us, ops_per_us; /* measured; 0: not */
    int                     repeats, failures;
    void                   *events[2];
    void                   *held[64]; /* of the kernel under test */
    int                     held_count;
} check_t;

/* --- memory ------------------------------------------------------------------------------------------ */

static void need(const check_t *c, bool right)
{
    if (!right || c->device.fault.status != K3_OK) {
        fprintf(stderr, "device_check: %s\n",
                c->device.fault.status != K3_OK ? c->device.fault.text : "no memory");
        exit(3);
    }
}

static void *on_device(check_t *c, uint64_t bytes, const void *from)
{
    k3_error_t err = K3_ERROR_INIT;
    void      *memory = NULL;

    need(c, c->held_count < 64 &&
                k3_device_alloc(&c->device, "test", bytes, false, &memory, &err) == K3_OK);
    c->held[c->held_count++] = memory;
    if (from != NULL) {
        k3_device_copy(&c->device, K3_STREAM_MAIN, memory, from, bytes);
        k3_device_finish(&c->device, K3_STREAM_MAIN, &err);
    }
    return memory;
}

static void *in_host(const check_t *c, uint64_t bytes)
{
    void *memory = calloc(1, bytes > 0 ? bytes : 1);

    need(c, memory != NULL);
    return memory;
}

/* A copy of device memory for the host. */
static void *brought(check_t *c, const void *from, uint64_t bytes)
{
    void      *memory = in_host(c, bytes);
    k3_error_t err = K3_ERROR_INIT;

    k3_device_copy(&c->device, K3_STREAM_MAIN, memory, from, bytes);
    need(c, k3_device_finish(&c->device, K3_STREAM_MAIN, &err) == K3_OK);
    return memory;
}

static void drop_all(check_t *c)
{
    while (c->held_count > 0) {
        k3_device_free(&c->device, c->held[--c->held_count]);
    }
}

static uint32_t random_bits(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static float random_float(uint64_t *state)
{
    return (float)random_bits(state) / 1073741824.0f - 1.0f;
}

static uint16_t *random_rows(const check_t *c, uint64_t n, uint64_t seed)
{
    uint16_t *values = in_host(c, 2 * n);

    for (uint64_t i = 0; i < n; i++) {
        values[i] = k3_f32_to_bf16(random_float(&seed) + random_float(&seed));
    }
    return values;
}

/* --- running ------------------------------------------------------------------------------------------- */

typedef int (*start_t)(const check_t *c, const void *arguments, void *stream);

/* Once, then `repeats` times between two events; the time of one, us. */
static double run(check_t *c, start_t start, const void *arguments)
{
    k3_error_t err = K3_ERROR_INIT;
    void      *stream = c->device.stream[K3_STREAM_MAIN];

    k3_device_check(&c->device, (k3_device_result_t){start(c, arguments, stream), "start"});
    need(c, k3_device_finish(&c->device, K3_STREAM_MAIN, &err) == K3_OK);
    k3_device_event_record(&c->device, c->events[0], K3_STREAM_MAIN);
    for (int i = 0; i < c->repeats; i++) {
        k3_device_check(&c->device, (k3_device_result_t){start(c, arguments, stream), "start"});
    }
    k3_device_event_record(&c->device, c->events[1], K3_STREAM_MAIN);
    need(c, k3_device_finish(&c->device, K3_STREAM_MAIN, &err) == K3_OK);
    return k3_device_event_us(&c->device, c->events[0], c->events[1]) / c->repeats;
}

static void line(check_t *c, const char *name, double us, double bytes, double ops, double error,
                 double limit)
{
    double by_bytes = c->bytes_per_us > 0 ? bytes / c->bytes_per_us : NAN;
    double by_ops = c->ops_per_us > 0 && ops > 0 ? ops / c->ops_per_us : NAN;
    double floor_us = by_ops > by_bytes ? by_ops : by_bytes;
    bool   right = error <= limit;

    printf("%-22s %10.2f %10.2f %10.2f %6.1f  %9.2e %9.2e  %s\n", name, us, by_bytes, by_ops,
           100.0 * floor_us / us, error, limit, right ? "ok" : "WRONG");
    c->failures += !right;
    drop_all(c);
}

/* Share of the bytes that differ: kernels that promise the same bits. */
static double differing(const void *got, const void *want, uint64_t bytes)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < bytes; i++) {
        n += ((const uint8_t *)got)[i] != ((const uint8_t *)want)[i];
    }
    return (double)n / (double)(bytes > 0 ? bytes : 1);
}

/* Root mean square of the difference over that of the wanted values. */
static double distance(const uint16_t *got, const uint16_t *want, uint64_t n)
{
    double error = 0.0, norm = 1e-30;

    for (uint64_t i = 0; i < n; i++) {
        double g = (double)k3_bf16_to_f32(got[i]), w = (double)k3_bf16_to_f32(want[i]);

        error += (g - w) * (g - w);
        norm += w * w;
    }
    return isfinite(error) ? sqrt(error / norm) : INFINITY;
}

#define STARTER(kernel)                                                                            \
    static int start_##kernel(const check_t *c, const void *arguments, void *stream)               \
    {                                                                                              \
        return c->a->gpu->kernel(arguments, stream);                                               \
    }

STARTER(encode)
STARTER(decode)
STARTER(copy)
STARTER(route)
STARTER(weigh)
STARTER(combine)
STARTER(norm)
STARTER(sum)
STARTER(activate)
STARTER(dense)
STARTER(scale)
STARTER(gate_up)
STARTER(down)
STARTER(log_encode)
STARTER(log_combine)

static int start_blas(const check_t *c, const void *arguments, void *stream)
{
    return c->a->blas->dense(c->blas, arguments, 0, stream);
}

/* --- formats ------------------------------------------------------------------------------------------- */

static void check_format(check_t *c, k3_format_t format, uint32_t rows, uint32_t width)
{
    uint64_t        value_bytes = k3_format_value_bytes(format, width);
    uint64_t        row_bytes = (k3_format_row_bytes(format, width) + 15) / 16 * 16;
    uint16_t       *in = random_rows(c, (uint64_t)rows * width, 1), *back;
    uint8_t        *want = in_host(c, rows * row_bytes), *got;
    uint16_t       *decoded = in_host(c, 2ull * rows * width);
    float          *row = in_host(c, sizeof(float) * width);
    const uint8_t **at = in_host(c, 2 * rows * sizeof(*at));
    uint8_t        *out = on_device(c, rows * row_bytes, NULL);
    uint16_t       *plain = on_device(c, 2ull * rows * width, NULL);
    char            name[32];
    double          us, error,
        moved = (double)rows * (2.0 * width + (double)k3_format_row_bytes(format, width));
    k3_gpu_encode_t encode = {.format = format,
                              .rows = rows,
                              .width = width,
                              .in_stride = 2ull * width,
                              .values = out,
                              .values_stride = row_bytes,
                              .scales = out + value_bytes,
                              .scales_stride = row_bytes};
    k3_gpu_decode_t decode = {
        .format = format, .rows = rows, .width = width, .out = plain, .out_stride = 2ull * width};

    encode.in = on_device(c, 2ull * rows * width, in);
    for (uint32_t r = 0; r < rows; r++) {
        uint8_t *record = want + r * row_bytes;

        c->scalar->encode(format, in + (uint64_t)r * width, width, record, record + value_bytes);
        c->scalar->decode(format, record, record + value_bytes, width, row);
        for (uint32_t i = 0; i < width; i++) {
            decoded[(uint64_t)r * width + i] = k3_f32_to_bf16(row[i]);
        }
        at[r] = out + r * row_bytes;
        at[rows + r] = at[r] + value_bytes;
    }
    decode.values = on_device(c, 2 * rows * sizeof(*at), at);
    decode.scales = decode.values + rows;
    us = run(c, start_encode, &encode);
    got = brought(c, out, rows * row_bytes);
    error = differing(got, want, rows * row_bytes);
    {
        double decode_us = run(c, start_decode, &decode);

        back = brought(c, plain, 2ull * rows * width);
        snprintf(name, sizeof(name), "decode %s", k3_format_names[format]);
        line(c, name, decode_us, moved, 0, differing(back, decoded, 2ull * rows * width), 0);
    }
    snprintf(name, sizeof(name), "encode %s", k3_format_names[format]);
    line(c, name, us, moved, 0, error, 0);
    free(back);
    free(got);
    free(at);
    free(row);
    free(decoded);
    free(want);
    free(in);
}

/* --- rows ------------------------------------------------------------------------------------------------ */

static void check_copy(check_t *c, uint32_t rows, uint32_t width)
{
    uint64_t            bytes = 2ull * width;
    uint16_t           *in = random_rows(c, (uint64_t)rows * width, 2), *got;
    k3_gpu_copy_task_t *tasks = in_host(c, rows * sizeof(*tasks));
    uint8_t      *from = on_device(c, rows * bytes, in), *to = on_device(c, rows * bytes, NULL);
    k3_gpu_copy_t a = {.tasks = rows};
    double        us;

    for (uint32_t r = 0; r < rows; r++) {
        tasks[r] = (k3_gpu_copy_task_t){from + r * bytes, to + (rows - 1 - r) * bytes, bytes};
    }
    a.task = on_device(c, rows * sizeof(*tasks), tasks);
    us = run(c, start_copy, &a);
    got = brought(c, to, rows * bytes);
    for (uint32_t r = 0; r < rows / 2; r++) { /* the other way round again */
        for (uint32_t i = 0; i < width; i++) {
            uint16_t keep = got[(uint64_t)r * width + i];

            got[(uint64_t)r * width + i] = got[(uint64_t)(rows - 1 - r) * width + i];
            got[(uint64_t)(rows - 1 - r) * width + i] = keep;
        }
    }
    line(c, "copy of rows", us, 2.0 * (double)(rows * bytes), 0, differing(got, in, rows * bytes),
         0);
    free(got);
    free(tasks);
    free(in);
}

static void check_combine(check_t *c, uint32_t rows, uint32_t k, uint32_t width)
{
    uint64_t         n = (uint64_t)rows * k, seed = 5;
    uint16_t        *parts = random_rows(c, n * width, 3), *want = in_host(c, 2ull * rows * width);
    const uint16_t **there = in_host(c, n * sizeof(*there)), **here = in_host(c, n * sizeof(*here));
    uint16_t        *memory = on_device(c, 2 * n * width, parts), *got;
    float           *weights = in_host(c, n * sizeof(float));
    k3_gpu_combine_t a = {.rows = rows, .k = k, .width = width};
    double           us;

    for (uint64_t i = 0; i < n; i++) {
        there[i] = i % 11 == 7 ? NULL : memory + i * width;
        here[i] = i % 11 == 7 ? NULL : parts + i * width;
        weights[i] = random_float(&seed);
    }
    for (uint32_t r = 0; r < rows; r++) {
        c->scalar->combine(here + (uint64_t)r * k, weights + (uint64_t)r * k, k, width,
                           want + (uint64_t)r * width);
    }
    a.parts = on_device(c, n * sizeof(*there), there);
    a.weights = on_device(c, n * sizeof(float), weights);
    a.out = on_device(c, 2ull * rows * width, NULL);
    us = run(c, start_combine, &a);
    got = brought(c, a.out, 2ull * rows * width);
    line(c, "combine", us, 2.0 * rows * (k + 1.0) * width, 0,
         differing(got, want, 2ull * rows * width), 0);
    free(got);
    free(weights);
    free(here);
    free(there);
    free(want);
    free(parts);
}

/* A device's log2 and exp2 may be another than the host's in the last bit: a code in a million may differ by one. */
static void check_log(check_t *c, uint32_t rows, uint32_t k, uint32_t width)
{
    const double        limit = 1e-6;
    uint64_t            n = (uint64_t)rows * k, seed = 5, sent = 0;
    uint64_t            room = (k3_format_row_bytes(K3_FORMAT_LOGFMT10, width) + 15) / 16 * 16;
    uint16_t           *in = random_rows(c, n * width, 14), *want = in_host(c, 2ull * rows * width);
    uint8_t            *messages = in_host(c, n * room), *there, *got;
    uint16_t           *back = in_host(c, 2 * n * width), *sums;
    const uint16_t    **parts = in_host(c, n * sizeof(*parts));
    const uint8_t     **at = in_host(c, 2 * n * sizeof(*at));
    float              *weights = in_host(c, n * sizeof(float));
    double              us;
    k3_gpu_log_encode_t encode = {.rows = (uint32_t)n, .width = width};
    k3_gpu_log_combine_t combine = {.rows = rows, .k = k, .width = width};

    for (uint64_t i = 0; i < n; i++) { /* zeros, and groups that stay as they are */
        in[i * width + i % width] = (uint16_t)(i % 13 == 5 ? 0x7f80 : 0);
    }
    at[0] = on_device(c, 2 * n * width, in);
    there = on_device(c, n * room, NULL);
    for (uint64_t i = 0; i < n; i++) {
        at[i] = at[0] + 2 * i * width;
        at[n + i] = there + i * room;
        parts[i] = back + i * width;
        weights[i] = random_float(&seed);
        sent += c->scalar->log_encode(in + i * width, width, messages + i * room);
        c->scalar->log_decode(messages + i * room, width, back + i * width);
    }
    for (uint32_t r = 0; r < rows; r++) {
        c->scalar->combine(parts + (uint64_t)r * k, weights + (uint64_t)r * k, k, width,
                           want + (uint64_t)r * width);
    }
    encode.in = on_device(c, n * sizeof(*at), at);
    encode.messages = on_device(c, n * sizeof(*at), at + n);
    encode.bytes = on_device(c, n * sizeof(uint32_t), NULL);
    us = run(c, start_log_encode, &encode);
    got = brought(c, there, n * room);
    {
        int    held = c->held_count;
        double error = differing(got, messages, n * room);

        c->held_count = 0; /* both lines are of the same memory */
        line(c, "encode logfmt10", us, 2.0 * (double)(n * width) + (double)sent, 0, error, limit);
        c->held_count = held;
    }
    combine.parts = (const uint8_t *const *)(const void *)encode.messages;
    combine.weights = on_device(c, n * sizeof(float), weights);
    combine.out = on_device(c, 2ull * rows * width, NULL);
    us = run(c, start_log_combine, &combine);
    sums = brought(c, combine.out, 2ull * rows * width);
    line(c, "combine logfmt10", us, (double)sent + 2.0 * rows * (double)width, 0,
         differing(sums, want, 2ull * rows * width), limit);
    free(sums);
    free(got);
    free(weights);
    free(at);
    free(parts);
    free(back);
    free(messages);
    free(want);
    free(in);
}

static void check_norm(check_t *c, uint32_t rows, uint32_t width)
{
    uint16_t     *x = random_rows(c, (uint64_t)rows * width, 4), *gain = random_rows(c, width, 5);
    uint16_t     *want = in_host(c, 2ull * rows * width), *got;
    k3_gpu_norm_t a = {rows,
                       width,
                       1e-5f,
                       on_device(c, 2ull * rows * width, x),
                       on_device(c, 2ull * width, gain),
                       on_device(c, 2ull * rows * width, NULL)};
    double        us = run(c, start_norm, &a);

    for (uint32_t r = 0; r < rows; r++) {
        c->scalar->rms_norm(x + (uint64_t)r * width, gain, width, 1e-5f,
                            want + (uint64_t)r * width);
    }
    got = brought(c, a.out, 2ull * rows * width);
    /* The order of one sum: rare flips of the last bit. */
    line(c, "norm", us, 4.0 * rows * width, 0, distance(got, want, (uint64_t)rows * width), 1e-4);
    free(got);
    free(want);
    free(gain);
    free(x);
}

static void check_elements(check_t *c, uint32_t rows, uint32_t width)
{
    enum { PARTS = 4 };
    uint64_t          n = (uint64_t)rows * width;
    uint16_t         *x = random_rows(c, PARTS * n, 6), *want = in_host(c, 2 * n), *got;
    const uint16_t   *parts[PARTS] = {x, x + n, x + 2 * n, x + 3 * n};
    uint16_t         *there = on_device(c, 2 * PARTS * n, x);
    k3_gpu_sum_t      sum = {n, PARTS, there, (int64_t)(2 * n), on_device(c, 2 * n, NULL)};
    k3_gpu_activate_t activate = {n, K3_ACT_SITU, there, there + n, sum.out};
    double            us = run(c, start_activate, &activate), error;

    got = brought(c, sum.out, 2 * n);
    c->scalar->activate(K3_ACT_SITU, x, x + n, n, want);
    error = differing(got, want, 2 * n);
    free(got);
    {
        double sum_us = run(c, start_sum, &sum);

        got = brought(c, sum.out, 2 * n);
        c->scalar->sum(parts, PARTS, n, want);
        line(c, "sum of 4", sum_us, 2.0 * (PARTS + 1) * (double)n, 0, differing(got, want, 2 * n),
             0);
    }
    line(c, "activate", us, 6.0 * (double)n, 0, error, 0);
    free(got);
    free(want);
    free(x);
}

static void check_scale(check_t *c, uint32_t rows, uint32_t width)
{
    uint64_t        n = (uint64_t)rows * width;
    uint16_t       *x = random_rows(c, n, 7), *want = in_host(c, 2 * n), *got;
    const uint8_t **at = in_host(c, rows * sizeof(*at));
    float          *factors = in_host(c, rows * sizeof(float));
    uint8_t        *there = on_device(c, 2 * n, x), *out = on_device(c, 2 * n, NULL);
    k3_gpu_scale_t  a = {.format = K3_FORMAT_BF16, .rows = rows, .width = width};
    double          us;

    for (uint32_t r = 0; r < rows; r++) {
        factors[r] = 0.5f + 0.25f * (float)(r % 5);
        at[r] = there + 2ull * r * width;
        for (uint32_t i = 0; i < width; i++) {
            want[(uint64_t)r * width + i] =
                k3_f32_to_bf16(k3_bf16_to_f32(x[(uint64_t)r * width + i]) * factors[r]);
        }
    }
    a.values = on_device(c, rows * sizeof(*at), at);
    a.factors = on_device(c, rows * sizeof(float), factors);
    for (uint32_t r = 0; r < rows; r++) {
        at[r] = out + 2ull * r * width;
    }
    a.out = on_device(c, rows * sizeof(*at), at);
    us = run(c, start_scale, &a);
    got = brought(c, out, 2 * n);
    line(c, "scale", us, 4.0 * (double)n, 0, differing(got, want, 2 * n), 0);
    free(got);
    free(factors);
    free(at);
    free(want);
    free(x);
}

static void check_route(check_t *c, uint32_t rows, uint32_t experts, uint32_t k)
{
    uint64_t       n = (uint64_t)rows * experts, seed = 9;
    float         *logits = in_host(c, n * 4), *bias = in_host(c, experts * 4ull), *got;
    float         *want = in_host(c, rows * k * 4ull);
    int32_t       *ids = in_host(c, rows * k * 4ull), *got_ids;
    k3_gpu_route_t a = {.rows = rows, .experts = experts, .k = k};
    k3_gpu_weigh_t w = {.rows = rows, .experts = experts, .k = k};
    double         us, weigh_us, error;

    for (uint64_t i = 0; i < n; i++) {
        logits[i] = 3.0f * random_float(&seed);
    }
    for (uint32_t e = 0; e < experts; e++) {
        bias[e] = 0.1f * random_float(&seed);
    }
    for (uint32_t r = 0; r < rows; r++) {
        c->scalar->route(logits + (uint64_t)r * experts, bias, experts, k, ids + r * k,
                         want + r * k);
    }
    a.logits = on_device(c, n * 4, logits);
    a.bias = on_device(c, experts * 4ull, bias);
    a.ids = on_device(c, rows * k * 4ull, NULL);
    a.weights = on_device(c, rows * k * 4ull, NULL);
    us = run(c, start_route, &a);
    got_ids = brought(c, a.ids, rows * k * 4ull);
    got = brought(c, a.weights, rows * k * 4ull);
    error = differing(got_ids, ids, rows * k * 4ull) + differing(got, want, rows * k * 4ull);
    free(got);
    w.logits = a.logits;
    w.ids = a.ids;
    w.weights = a.weights;
    weigh_us = run(c, start_weigh, &w);
    got = brought(c, w.weights, rows * k * 4ull);
    for (uint32_t r = 0; r < rows; r++) {
        c->scalar->route_weights(logits + (uint64_t)r * experts, k, ids + r * k, want + r * k);
    }
    line(c, "weights of ids", weigh_us, 12.0 * rows * k, 0, differing(got, want, rows * k * 4ull),
         0);
    line(c, "selection", us, 4.0 * (double)n + 8.0 * rows * k, 0, error, 0);
    free(got);
    free(got_ids);
    free(ids);
    free(want);
    free(bias);
    free(logits);
}

/* --- products ---------------------------------------------------------------------------------------------- */

static void check_dense(check_t *c, const char *name, start_t start, uint32_t m, uint32_t n,
                        uint32_t k)
{
    uint16_t *x = random_rows(c, (uint64_t)m * k, 10), *w = random_rows(c, (uint64_t)n * k, 11);
    uint16_t *got, *want = in_host(c, 2ull * m * n);
    k3_gpu_dense_t a = {m,
                        n,
                        k,
                        on_device(c, 2ull * m * k, x),
                        on_device(c, 2ull * n * k, w),
                        NULL,
                        on_device(c, 2ull * m * n, NULL)};
    double         us = run(c, start, &a);
    uint32_t       some = n < 64 ? n : 64; /* columns looked at */

    got = brought(c, a.y_bf16, 2ull * m * n);
    for (uint32_t r = 0; r < m; r++) {
        for (uint32_t j = 0; j < some; j++) {
            double sum = 0.0;

            for (uint32_t i = 0; i < k; i++) {
                sum += (double)k3_bf16_to_f32(x[(uint64_t)r * k + i]) *
                       (double)k3_bf16_to_f32(w[(uint64_t)j * k + i]);
            }
            want[(uint64_t)r * some + j] = k3_f32_to_bf16((float)sum);
            got[(uint64_t)r * some + j] = got[(uint64_t)r * n + j];
        }
    }
    /* Flips of the last bit of bf16, where f32 sums differ. */
    line(c, name, us, 2.0 * ((double)m * k + (double)n * k + (double)m * n),
         2.0 * m * (double)n * k, distance(got, want, (uint64_t)m * some), 1e-3);
    free(want);
    free(got);
    free(w);
    free(x);
}

typedef struct recipe_case {
    k3_recipe_t recipe;
    double
        limit; /* of a row, as a whole: flips of the middle's codes, for fp8 of a group's scale */
} recipe_case_t;

static void check_experts(check_t *c, const recipe_case_t *r, uint32_t experts, uint32_t each,
                          uint32_t latent, uint32_t inter)
{
    k3_expert_shape_t     shape = {latent, inter, K3_WEIGHT_MXFP4, K3_ACT_SITU};
    uint64_t              pitch = k3_expert_layout(&shape, NULL, NULL), seed = 12;
    uint64_t              total = (uint64_t)experts * each;
    k3_format_t           in_format = r->recipe.input, middle = r->recipe.middle;
    uint64_t              in_bytes = (k3_format_row_bytes(in_format, latent) + 15) / 16 * 16;
    uint64_t              mid_bytes = (k3_format_row_bytes(middle, inter) + 15) / 16 * 16;
    uint8_t              *block = in_host(c, experts * pitch), *there, *codes, *mid;
    uint16_t             *x = random_rows(c, total * latent, 13), *got;
    uint16_t             *want = in_host(c, 2 * total * latent), *activated, *out;
    uint8_t              *rows = in_host(c, total * in_bytes);
    const uint8_t       **at = in_host(c, 5 * total * sizeof(*at)), **tables;
    k3_gpu_expert_task_t *tasks = in_host(c, (total / K3_GPU_TASK_ROWS + experts) * sizeof(*tasks));
    void                 *work = in_host(c, k3_expert_work_bytes(&shape));
    uint32_t              count = 0;
    k3_expert_weights_t   w;
    double                up_us, down_us, weights_bytes;
    char                  name[32];

    for (uint64_t i = 0; i < experts * pitch; i++) {
        block[i] = (uint8_t)random_bits(&seed);
    }
    for (uint32_t e = 0; e < experts; e++) {
        uint64_t each_scales = k3_expert_scale_bytes(&shape) / 3;
        uint8_t *base = block + e * pitch;

        k3_expert_layout(&shape, base, &w);
        for (uint64_t i = 0; i < each_scales; i++) { /* near 1/16 */
            base[(const uint8_t *)w.w1_scale - base + (ptrdiff_t)i] = (uint8_t)(122 + i % 4);
            base[(const uint8_t *)w.w3_scale - base + (ptrdiff_t)i] = (uint8_t)(122 + i % 3);
            base[(const uint8_t *)w.w2_scale - base + (ptrdiff_t)i] = (uint8_t)(121 + i % 4);
        }
        for (uint32_t done = 0; done < each; done += K3_GPU_TASK_ROWS) {
            uint32_t n = each - done < K3_GPU_TASK_ROWS ? each - done : K3_GPU_TASK_ROWS;

            tasks[count++] = (k3_gpu_expert_task_t){e, e * each + done, n};
        }
    }
    for (uint64_t i = 0; i < total; i++) {
        uint8_t    *row = rows + i * in_bytes;
        const void *values = row, *scales = row + k3_format_value_bytes(in_format, latent);
        uint16_t   *to = want + i * latent;

        c->scalar->encode(in_format, x + i * latent, latent, row,
                          row + k3_format_value_bytes(in_format, latent));
        k3_expert_layout(&shape, block + i / each * pitch, &w);
        c->scalar->expert_mlp(&shape, &r->recipe, &w, 1, in_format, &values, &scales, NULL, &to,
                              work);
    }
    there = on_device(c, experts * pitch, block);
    codes = on_device(c, total * in_bytes, rows);
    activated = on_device(c, 2 * total * inter, NULL);
    mid = on_device(c, total * mid_bytes, NULL);
    out = on_device(c, 2 * total * latent, NULL);
    for (uint64_t i = 0; i < total; i++) {
        at[i] = codes + i * in_bytes;
        at[total + i] = at[i] + k3_format_value_bytes(in_format, latent);
        at[2 * total + i] = middle == K3_FORMAT_BF16 ? (const uint8_t *)(activated + i * inter)
                                                     : mid + i * mid_bytes;
        at[3 * total + i] = at[2 * total + i] + k3_format_value_bytes(middle, inter);
        at[4 * total + i] = (const uint8_t *)(out + i * latent);
    }
    tables = on_device(c, 5 * total * sizeof(*at), at);
    k3_expert_layout(&shape, there, &w);
    {
        const k3_gpu_expert_task_t *task = on_device(c, count * sizeof(*tasks), tasks);
        k3_gpu_gate_up_t            up = {count,
                                          latent,
                                          inter,
                                          shape.weights,
                                          shape.activation,
                                          r->recipe.round_gate_up,
                                          task,
                                          {w.w1, w.w1_scale, pitch},
                                          {w.w3, w.w3_scale, pitch},
                                          {in_format, tables, tables + total},
                                          NULL,
                                          activated};
        k3_gpu_encode_t             encode = {.format = middle,
                                              .rows = (uint32_t)total,
                                              .width = inter,
                                              .in = activated,
                                              .in_stride = 2ull * inter,
                                              .values = mid,
                                              .values_stride = mid_bytes,
                                              .scales = mid + k3_format_value_bytes(middle, inter),
                                              .scales_stride = mid_bytes};
        k3_gpu_down_t               down = {count,
                                            latent,
                                            inter,
                                            shape.weights,
                                            task,
                                            {w.w2, w.w2_scale, pitch},
                                            {middle, tables + 2 * total, tables + 3 * total},
                                            (uint16_t *const *)(const void *)(tables + 4 * total)};

        up_us = run(c, start_gate_up, &up);
        if (middle != K3_FORMAT_BF16) {
            run(c, start_encode, &encode);
        }
        down_us = run(c, start_down, &down);
    }
    got = brought(c, out, 2 * total * latent);
    weights_bytes =
        (double)(k3_expert_value_bytes(&shape) + k3_expert_scale_bytes(&shape)) * experts;
    {
        double error = distance(got, want, total * latent), rows_bytes = (double)(total * in_bytes);
        double ops = 2.0 * (double)total * latent * inter;
        int    held = c->held_count;

        c->held_count = 0; /* both lines are of the same memory */
        snprintf(name, sizeof(name), "gate, up %s", r->recipe.name);
        line(c, name, up_us, weights_bytes * 2 / 3 + rows_bytes + 2.0 * (double)total * inter,
             2 * ops, error, r->limit);
        c->held_count = held;
        snprintf(name, sizeof(name), "down %s", r->recipe.name);
        line(c, name, down_us, weights_bytes / 3 + 2.0 * (double)total * (inter + latent), ops,
             error, r->limit);
    }
    free(got);
    free(work);
    free(tasks);
    free(at);
    free(rows);
    free(want);
    free(x);
    free(block);
}

/* --- the whole ---------------------------------------------------------------------------------------------- */

static int start_big_copy(const check_t *c, const void *arguments, void *stream)
{
    const k3_gpu_copy_task_t *t = arguments;

    return c->device.kind->copy(stream, t->to, t->from, t->bytes).code;
}

/* What the device itself reaches: a copy, and a large product by the library. */
static void measure_floors(check_t *c, bool small)
{
    uint64_t           bytes = small ? 1u << 16 : 1u << 29;
    k3_gpu_copy_task_t t = {on_device(c, bytes, NULL), on_device(c, bytes, NULL), bytes};

    c->bytes_per_us = 2.0 * (double)bytes / run(c, start_big_copy, &t);
    printf("bandwidth of a copy: %.1f GB/s (read and written)\n", c->bytes_per_us * 1e-3);
    drop_all(c);
    if (c->blas != NULL) {
        uint32_t       n = small ? 256 : 8192;
        uint64_t       each = 2ull * n * n;
        k3_gpu_dense_t a = {n,
                            n,
                            n,
                            on_device(c, each, NULL),
                            on_device(c, each, NULL),
                            NULL,
                            on_device(c, each, NULL)};

        c->ops_per_us = 2.0 * n * n * (double)n / run(c, start_blas, &a);
        printf("rate of a bf16 product of %u x %u x %u by %s: %.1f Tops/s\n", n, n, n,
               c->a->blas->library, c->ops_per_us * 1e-6);
        drop_all(c);
    } else {
        printf("rate of products: not measured, no library of products is here\n");
    }
    printf("%-22s %10s %10s %10s %6s  %9s %9s\n", "kernel", "us", "bytes us", "ops us", "floor%",
           "error", "limit");
}

static void check_all(check_t *c, bool small)
{
    static const recipe_case_t recipes[] = {
        {{"w4a16", K3_FORMAT_BF16, true, K3_FORMAT_BF16}, 1e-3},
        {{"w4a8", K3_FORMAT_FP8, true, K3_FORMAT_FP8}, 2e-2},
    };
    uint32_t rows = small ? 3 : 512, latent = small ? 256 : 3584, hidden = small ? 256 : 7168;
    uint32_t experts = small ? 32 : 896, topk = small ? 4 : 16;

    for (int f = K3_FORMAT_BF16; f <= K3_FORMAT_INT8; f++) {
        check_format(c, (k3_format_t)f, rows, latent);
    }
    check_copy(c, rows, latent);
    check_route(c, rows, experts, topk);
    check_combine(c, rows, topk, latent);
    check_log(c, rows, topk, latent);
    check_norm(c, rows, latent);
    check_elements(c, rows, hidden);
    check_scale(c, rows, latent);
    check_dense(c, "dense, plain kernel", start_dense, small ? 2 : 64, small ? 32 : 896, hidden);
    if (c->blas != NULL) {
        check_dense(c, "dense, library", start_blas, small ? 2 : 64, small ? 32 : 896, hidden);
        check_dense(c, "dense, library, down", start_blas, small ? 2 : 512, latent, hidden);
    }
    for (size_t i = 0; i < sizeof(recipes) / sizeof(recipes[0]); i++) {
        check_experts(c, &recipes[i], 2, small ? 3 : 40, latent, small ? 64 : 3072);
    }
}

static const k3_accelerator_t *find(const char *name)
{
    for (const k3_accelerator_t *a = k3_accelerators; a->kind != NULL; a++) {
        if (strcmp(a->kind->name, name) == 0) {
            return a;
        }
    }
    return NULL;
}

static void open_all(check_t *c, const char *kind)
{
    k3_error_t err = K3_ERROR_INIT;

    c->a = find(kind);
    if (c->a == NULL) {
        fprintf(stderr, "device_check: this build has no %s\n", kind);
        exit(3);
    }
    if (k3_device_open(c->a->kind, 0, 0, false, &c->device, &err) != K3_OK) {
        fprintf(stderr, "device_check: %s\n", err.text);
        exit(3);
    }
    c->scalar = k3_kernels_cpu("scalar");
    if (c->a->blas != NULL && c->a->blas->open != NULL &&
        k3_device_alloc(&c->device, "work space", (uint64_t)K3_BLAS_STREAMS * K3_BLAS_WORK, false,
                        &c->blas_work, &err) == K3_OK) {
        c->blas = c->a->blas->open(c->blas_work);
    }
    need(c, k3_device_event_create(&c->device, &c->events[0], &err) == K3_OK &&
                k3_device_event_create(&c->device, &c->events[1], &err) == K3_OK);
}

int main(int argc, char **argv)
{
    bool    small = argc == 3 && strcmp(argv[2], "small") == 0;
    check_t c = {.repeats = small ? 1 : 20};

    if (argc != 3 || (!small && strcmp(argv[2], "k3") != 0)) {
        fprintf(stderr, "usage: %s cuda|hip small|k3\n", argv[0]);
        return 2;
    }
    open_all(&c, argv[1]);
    printf("%s (%s), %u processors\n", c.device.info.name, c.device.info.architecture,
           c.device.info.processors);
    measure_floors(&c, small);
    check_all(&c, small);
    if (c.blas != NULL) {
        c.a->blas->close(c.blas);
    }
    k3_device_free(&c.device, c.blas_work);
    k3_device_event_destroy(&c.device, c.events[0]);
    k3_device_event_destroy(&c.device, c.events[1]);
    k3_device_close(&c.device);
    printf("%d of the kernels are wrong\n", c.failures);
    return c.failures > 0 ? 1 : 0;
}
