/* The arithmetic of a rank on its device, but for experts (compute_experts.c) and results in other formats than bf16
 * (compute_results.c): tables of pointers are filled in the host's memory and go to the
 * device in front of the kernel that reads them. */
#include <string.h>

#include "bench/engines/compute_start.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

static void copies_done(k3_compute_t *c)
{
    k3_gpu_copy_t a = {.tasks = (uint32_t)c->on->copy_count};

    if (a.tasks > 0) {
        a.task = k3_table_sent(c, &c->on->copies, a.tasks);
        K3_START(c, copy, a);
        c->on->copy_count = 0;
    }
}

static void copy(k3_compute_t *c, void *to, const void *from, uint64_t bytes)
{
    k3_on_device_t     *on = c->on;
    k3_gpu_copy_task_t *tasks = on->copies.host;

    if (on->copy_count == 0) {
        k3_table_open(c, &on->copies);
    }
    tasks[on->copy_count++] = (k3_gpu_copy_task_t){from, to, bytes};
    if (on->copy_count == on->copies.count) {
        copies_done(c);
    }
}

/* Rows lie in front of their records when kernels cannot write to these. */
static void start_encode(k3_compute_t *c, const k3_encode_rows_t *a)
{
    k3_gpu_encode_t k = {
        .format = a->format,
        .rows = (uint32_t)a->rows,
        .width = a->width,
        .in = a->in,
        .in_stride = 2 * (uint64_t)a->width,
        .values = a->records + a->values_at,
        .values_stride = a->stride,
        .scales = a->records + a->scales_at,
        .scales_stride = a->stride,
        .headers = a->numbered ? a->records + a->header_at : NULL,
        .headers_stride = a->stride,
        .number = a->number,
    };

    K3_START(c, encode, k);
}

static void encode_drafts(k3_compute_t *c, const k3_encode_rows_t *a)
{
    k3_encode_rows_t draft = *a;
    uint64_t         values = k3_format_value_bytes(a->format, a->width);
    uint64_t         scales = k3_format_scale_bytes(a->format, a->width);

    k3_coded_layout(a->format, a->width, &draft.scales_at, &draft.stride);
    draft.records = c->on->drafts;
    draft.header_at = 0;
    draft.values_at = K3_DRAFT_HEADER;
    draft.scales_at += K3_DRAFT_HEADER;
    draft.stride += K3_DRAFT_HEADER;
    start_encode(c, &draft);
    for (uint64_t i = 0; i < a->rows; i++) {
        uint8_t       *record = a->records + i * a->stride;
        const uint8_t *row = draft.records + i * draft.stride;

        if (a->numbered) {
            copy(c, record + a->header_at, row, K3_DRAFT_HEADER);
        }
        copy(c, record + a->values_at, row + draft.values_at, values);
        if (scales > 0) {
            copy(c, record + a->scales_at, row + draft.scales_at, scales);
        }
    }
    copies_done(c);
}

static void encode(k3_compute_t *c, const k3_encode_rows_t *a)
{
    if (c->on->drafts == NULL ||
        (k3_is_aligned(a->records + a->values_at) && a->stride % 16 == 0)) {
        start_encode(c, a);
    } else {
        encode_drafts(c, a);
    }
}

static void combine(k3_compute_t *c, const uint16_t *const *parts, const float *weights,
                    uint64_t rows, uint32_t k, uint32_t width, uint16_t *out)
{
    k3_gpu_combine_t a = {
        .rows = (uint32_t)rows, .k = k, .width = width, .weights = weights, .out = out};

    a.parts = k3_table_send(c, &c->on->parts, parts, rows * k);
    K3_START(c, combine, a);
}

/* As many rows at a time as the tables hold. */
static void combine_to(k3_compute_t *c, const uint16_t *const *parts, const float *weights,
                       uint64_t rows, uint32_t k, uint32_t width, uint16_t *const *out)
{
    uint64_t most = k > 0 ? c->on->parts.count / k : 0;

    for (uint64_t first = 0, n; first < rows && most > 0; first += n) {
        k3_gpu_combine_t a = {.k = k, .width = width};

        n = rows - first < most ? rows - first : most;
        a.rows = (uint32_t)n;
        a.parts = k3_table_send(c, &c->on->parts, parts + first * k, n * k);
        a.row = k3_table_send(c, &c->on->part_rows, out + first, n);
        if (weights != NULL) {
            a.weights = k3_table_send(c, &c->on->part_weights, weights + first * k, n * k);
        }
        K3_START(c, combine, a);
    }
}

static void zero(k3_compute_t *c, void *to, uint64_t bytes)
{
    k3_device_fill(c->device, c->on->stream, to, 0, bytes);
}

/* Metadata of rows go through a table of their own: one copy between the memories, one small kernel. */
static uint64_t small_at_once(const k3_compute_t *c, uint64_t bytes)
{
    uint64_t n = c->on->small.count / bytes;

    return n < c->on->copies.count ? n : c->on->copies.count;
}

static void place(k3_compute_t *c, uint8_t *const *to, const void *parts, uint64_t n,
                  uint64_t bytes)
{
    uint64_t most = small_at_once(c, bytes);

    for (uint64_t first = 0, part; first < n; first += part) {
        const uint8_t *from = (const uint8_t *)parts + first * bytes, *there;

        part = n - first < most ? n - first : most;
        copies_done(c);
        there = k3_table_send(c, &c->on->small, from, part * bytes);
        for (uint64_t i = 0; i < part; i++) {
            copy(c, to[first + i], there + i * bytes, bytes);
        }
    }
    copies_done(c);
}

static void fetch(k3_compute_t *c, void *parts, const uint8_t *const *from, uint64_t n,
                  uint64_t bytes)
{
    k3_table_t *small = &c->on->small;
    uint64_t    most = small_at_once(c, bytes);
    k3_error_t  kept = K3_ERROR_INIT; /* the device keeps it */

    for (uint64_t first = 0, part; first < n; first += part) {
        uint8_t *there = small->device;

        part = n - first < most ? n - first : most;
        copies_done(c);
        for (uint64_t i = 0; i < part; i++) {
            copy(c, there + i * bytes, from[first + i], bytes);
        }
        copies_done(c);
        k3_device_copy(c->device, c->on->stream, k3_table_open(c, small), there, part * bytes);
        if (k3_tables_finish(c, &kept) == K3_OK) {
            memcpy((uint8_t *)parts + first * bytes, small->host, part * bytes);
        }
    }
}

static void dense(k3_compute_t *c, const k3_layer_t *layer, const uint16_t *x, uint64_t m,
                  float *y_f32, uint16_t *y_bf16)
{
    k3_gpu_dense_t a = {.m = (uint32_t)m,
                        .n = layer->n,
                        .k = layer->k,
                        .x = x,
                        .w = layer->w,
                        .y_f32 = y_f32,
                        .y_bf16 = y_bf16};

    if (c->on->blas == NULL) {
        K3_START(c, dense, a);
    } else if (c->device->fault.status == K3_OK) {
        k3_device_check(
            c->device,
            (k3_device_result_t){
                c->on->blas_ops->dense(c->on->blas, &a, (unsigned)c->on->stream, k3_stream_of(c)),
                c->on->blas_ops->library});
    }
}

/* The gate's own ids go to the host, which posts: there they are replaced by those asked for. */
static void route(k3_compute_t *c, const k3_route_rows_t *a)
{
    k3_on_device_t *on = c->on;
    uint64_t        n = a->rows * a->k;
    k3_gpu_route_t  gate = {(uint32_t)a->rows, a->experts,     a->k,      a->logits,
                            a->bias,           on->ids.device, a->weights};
    k3_gpu_weigh_t  weigh = {(uint32_t)a->rows, a->experts, a->k, a->logits, NULL, a->weights};

    K3_START(c, route, gate);
    k3_device_copy(c->device, on->stream, on->ids.host, on->ids.device, n * sizeof(int32_t));
    weigh.ids = k3_table_send(c, &on->wanted, a->wanted, n);
    K3_START(c, weigh, weigh);
    memcpy(a->ids, a->wanted, n * sizeof(int32_t));
}

static void norm(k3_compute_t *c, const uint16_t *x, const uint16_t *gain, uint64_t rows,
                 uint32_t width, uint16_t *out)
{
    k3_gpu_norm_t a = {(uint32_t)rows, width, K3_NORM_EPS, x, gain, out};

    K3_START(c, norm, a);
}

static void activate(k3_compute_t *c, k3_activation_t activation, const uint16_t *gate,
                     const uint16_t *up, uint64_t n, uint16_t *out)
{
    k3_gpu_activate_t a = {n, activation, gate, up, out};

    K3_START(c, activate, a);
}

static void sum(k3_compute_t *c, const uint16_t *const *parts, uint32_t count, uint64_t n,
                uint16_t *out)
{
    int64_t      stride = count > 1 ? (int64_t)((uintptr_t)parts[1] - (uintptr_t)parts[0]) : 0;
    k3_gpu_sum_t a = {n, count, parts[0], stride, out};

    K3_START(c, sum, a);
}

static void add(k3_compute_t *c, const uint16_t *a, const uint16_t *b, uint64_t n, uint16_t *out)
{
    const uint16_t *const parts[] = {a, b};

    sum(c, parts, 2, n, out);
}

/* --- order --------------------------------------------------------------------------------------- */

static void fork_stream(k3_compute_t *c)
{
    k3_device_fork(c->device);
    c->on->stream = K3_STREAM_BESIDE;
}

static void leave_stream(k3_compute_t *c)
{
    c->on->stream = K3_STREAM_MAIN;
}

static void join_streams(k3_compute_t *c)
{
    k3_device_join(c->device);
}

const k3_compute_ops_t k3_compute_device = {
    .encode = encode,
    .combine = combine,
    .combine_to = combine_to,
    .encode_to = k3_device_encode_to,
    .decode_from = k3_device_decode_from,
    .log_encode = k3_device_log_encode,
    .log_combine = k3_device_log_combine,
    .zero = zero,
    .copy = copy,
    .copies_done = copies_done,
    .place = place,
    .fetch = fetch,
    .dense = dense,
    .route = route,
    .norm = norm,
    .activate = activate,
    .add = add,
    .sum = sum,
    .expert = k3_device_expert,
    .experts_done = k3_device_experts_done,
    .fork = fork_stream,
    .leave = leave_stream,
    .join = join_streams,
    .finish = k3_tables_finish,
};
