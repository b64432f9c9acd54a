/* The arithmetic of a rank on its device: tables of pointers are filled in the host's memory and go to the
 * device in front of the kernel that reads them. */
#include <string.h>

#include "bench/engines/compute_tables.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

/* A kernel whose start fails is a fault of the device; after the first one nothing is started. */
#define START(c, kernel, arguments)                                                                \
    do {                                                                                           \
        if ((c)->device->fault.status == K3_OK) {                                                  \
            k3_device_check((c)->device,                                                           \
                            (k3_device_result_t){(c)->on->gpu->kernel(&(arguments), stream_of(c)), \
                                                 "start of the kernel " #kernel});                 \
        }                                                                                          \
    } while (0)

static void *stream_of(const k3_compute_t *c)
{
    return c->device->stream[c->on->stream];
}

static void copies_done(k3_compute_t *c)
{
    k3_gpu_copy_t a = {.tasks = (uint32_t)c->on->copy_count};

    if (a.tasks > 0) {
        a.task = k3_table_sent(c, &c->on->copies, a.tasks);
        START(c, copy, a);
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

static bool is_aligned(const void *at)
{
    return (uintptr_t)at % 16 == 0;
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

    START(c, encode, k);
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
    if (c->on->drafts == NULL || (is_aligned(a->records + a->values_at) && a->stride % 16 == 0)) {
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
    START(c, combine, a);
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
        START(c, combine, a);
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
        START(c, dense, a);
    } else if (c->device->fault.status == K3_OK) {
        k3_device_check(c->device, (k3_device_result_t){
                                       c->on->blas_ops->dense(
                                           c->on->blas, &a, (unsigned)c->on->stream, stream_of(c)),
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

    START(c, route, gate);
    k3_device_copy(c->device, on->stream, on->ids.host, on->ids.device, n * sizeof(int32_t));
    weigh.ids = k3_table_send(c, &on->wanted, a->wanted, n);
    START(c, weigh, weigh);
    memcpy(a->ids, a->wanted, n * sizeof(int32_t));
}

static void norm(k3_compute_t *c, const uint16_t *x, const uint16_t *gain, uint64_t rows,
                 uint32_t width, uint16_t *out)
{
    k3_gpu_norm_t a = {(uint32_t)rows, width, K3_NORM_EPS, x, gain, out};

    START(c, norm, a);
}

static void activate(k3_compute_t *c, k3_activation_t activation, const uint16_t *gate,
                     const uint16_t *up, uint64_t n, uint16_t *out)
{
    k3_gpu_activate_t a = {n, activation, gate, up, out};

    START(c, activate, a);
}

static void sum(k3_compute_t *c, const uint16_t *const *parts, uint32_t count, uint64_t n,
                uint16_t *out)
{
    int64_t      stride = count > 1 ? (int64_t)((uintptr_t)parts[1] - (uintptr_t)parts[0]) : 0;
    k3_gpu_sum_t a = {n, count, parts[0], stride, out};

    START(c, sum, a);
}

static void add(k3_compute_t *c, const uint16_t *a, const uint16_t *b, uint64_t n, uint16_t *out)
{
    const uint16_t *const parts[] = {a, b};

    sum(c, parts, 2, n, out);
}

/* --- experts ----------------------------------------------------------------------------------- */

static void expert(k3_compute_t *c, uint32_t local, const k3_expert_rows_t *work)
{
    k3_on_device_t       *on = c->on;
    k3_gpu_expert_task_t *tasks = on->tasks.host;
    uint64_t              first = on->row_count;
    float                *weights = on->row_weights.host, *factors = on->row_factors.host;

    if (first + work->count > on->values.count) {
        k3_fail(&c->device->fault, K3_ERR_CHECK,
                "%llu rows for the experts of rank %d, %llu were planned",
                (unsigned long long)(first + work->count), c->device->rank,
                (unsigned long long)on->values.count);
        return;
    }
    if (first == 0) {
        k3_table_open(c, &on->values); /* the others are sent with it */
    }
    on->format = work->format;
    on->weighted = work->weights != NULL;
    memcpy((const void **)on->values.host + first, work->values, work->count * sizeof(void *));
    if (work->scales != NULL) {
        memcpy((const void **)on->scales.host + first, work->scales, work->count * sizeof(void *));
    }
    memcpy((uint16_t **)on->out.host + first, work->out, work->count * sizeof(void *));
    for (uint64_t i = 0; i < work->count; i++) {
        on->scattered |= !is_aligned(work->values[i]);
        weights[first + i] = work->weights != NULL ? work->weights[i] : 1.0f;
        factors[first + i] = c->experts.stand_in ? c->experts.factors[local] : 1.0f;
    }
    for (uint64_t done = 0; done < work->count; done += K3_GPU_TASK_ROWS) {
        uint64_t rows = work->count - done;

        tasks[on->task_count++] =
            (k3_gpu_expert_task_t){local, (uint32_t)(first + done),
                                   (uint32_t)(rows < K3_GPU_TASK_ROWS ? rows : K3_GPU_TASK_ROWS)};
    }
    on->row_count = first + work->count;
}

/* Rows as the recipe has them in front of the gate: as they arrived, or by way of bf16 (and from there to
 * the recipe's format). */
static k3_gpu_rows_t input_rows(k3_compute_t *c, k3_gpu_rows_t rows)
{
    k3_on_device_t *on = c->on;
    k3_format_t     want = c->experts.recipe->input;
    k3_gpu_decode_t plain = {.format = on->format,
                             .rows = (uint32_t)on->row_count,
                             .width = c->experts.shape.latent,
                             .values = rows.values,
                             .scales = rows.scales,
                             .out = on->plain,
                             .out_stride = 2 * (uint64_t)c->experts.shape.latent};

    if (on->format == want) {
        return rows;
    }
    START(c, decode, plain);
    rows = (k3_gpu_rows_t){K3_FORMAT_BF16, on->plain_rows.device, NULL};
    if (want != K3_FORMAT_BF16) {
        k3_encode_rows_t to = {.format = want,
                               .rows = on->row_count,
                               .width = plain.width,
                               .in = on->plain,
                               .records = on->input.bytes,
                               .stride = on->input.stride,
                               .scales_at = on->input.scales_at};

        encode(c, &to);
        rows = (k3_gpu_rows_t){want, on->input.values.device, on->input.scales.device};
    }
    return rows;
}

static k3_gpu_rows_t middle_rows(k3_compute_t *c)
{
    k3_on_device_t  *on = c->on;
    k3_format_t      want = c->experts.recipe->middle;
    k3_encode_rows_t to = {.format = want,
                           .rows = on->row_count,
                           .width = c->experts.shape.inter,
                           .in = on->activated,
                           .records = on->middle.bytes,
                           .stride = on->middle.stride,
                           .scales_at = on->middle.scales_at};

    if (want == K3_FORMAT_BF16) {
        return (k3_gpu_rows_t){want, on->activated_rows.device, NULL};
    }
    encode(c, &to);
    return (k3_gpu_rows_t){want, on->middle.values.device, on->middle.scales.device};
}

static k3_gpu_matrix_t matrix(const k3_compute_t *c, const uint8_t *values, const void *scales)
{
    return (k3_gpu_matrix_t){values, scales, c->experts.pitch};
}

static void run_experts(k3_compute_t *c, k3_gpu_rows_t rows, const float *weights,
                        uint16_t *const *out)
{
    k3_on_device_t             *on = c->on;
    const k3_expert_shape_t    *s = &c->experts.shape;
    const k3_gpu_expert_task_t *tasks = k3_table_sent(c, &on->tasks, on->task_count);
    k3_expert_weights_t         w;
    k3_gpu_gate_up_t            gate_up;
    k3_gpu_down_t               down;

    k3_expert_layout(s, c->experts.block, &w);
    gate_up = (k3_gpu_gate_up_t){.tasks = (uint32_t)on->task_count,
                                 .latent = s->latent,
                                 .inter = s->inter,
                                 .weights = s->weights,
                                 .activation = s->activation,
                                 .round_gate_up = c->experts.recipe->round_gate_up,
                                 .task = tasks,
                                 .gate = matrix(c, w.w1, w.w1_scale),
                                 .up = matrix(c, w.w3, w.w3_scale),
                                 .x = input_rows(c, rows),
                                 .row_weights = on->weighted ? weights : NULL,
                                 .out = on->activated};
    START(c, gate_up, gate_up);
    down = (k3_gpu_down_t){.tasks = (uint32_t)on->task_count,
                           .latent = s->latent,
                           .inter = s->inter,
                           .weights = s->weights,
                           .task = tasks,
                           .down = matrix(c, w.w2, w.w2_scale),
                           .x = middle_rows(c),
                           .out = out};
    START(c, down, down);
}

/* Rows that kernels cannot read where they arrived are brought to where they can. */
static k3_gpu_rows_t gather_rows(k3_compute_t *c)
{
    k3_on_device_t    *on = c->on;
    k3_coded_rows_t   *to = &on->gathered;
    uint64_t           values = k3_format_value_bytes(on->format, c->experts.shape.latent);
    uint64_t           scales = k3_format_scale_bytes(on->format, c->experts.shape.latent);
    const void *const *value = on->values.host, *const *scale = on->scales.host;

    for (uint64_t i = 0; i < on->row_count; i++) {
        copy(c, to->bytes + i * to->stride, value[i], values);
        if (scales > 0) {
            copy(c, to->bytes + i * to->stride + to->scales_at, scale[i], scales);
        }
    }
    copies_done(c);
    return (k3_gpu_rows_t){on->format, to->values.device, to->scales.device};
}

static k3_gpu_rows_t arrived_rows(k3_compute_t *c)
{
    k3_on_device_t *on = c->on;

    if (on->scattered && on->gathered.bytes != NULL) {
        return gather_rows(c);
    }
    return (k3_gpu_rows_t){on->format, k3_table_sent(c, &on->values, on->row_count),
                           k3_table_sent(c, &on->scales, on->row_count)};
}

static void experts_done(k3_compute_t *c)
{
    k3_on_device_t  *on = c->on;
    uint64_t         n = on->row_count;
    k3_gpu_rows_t    rows = arrived_rows(c);
    uint16_t *const *out = k3_table_sent(c, &on->out, n);
    const float     *weights = k3_table_sent(c, &on->row_weights, n);

    if (n > 0 && c->experts.stand_in) {
        k3_gpu_scale_t a = {.format = on->format,
                            .rows = (uint32_t)n,
                            .width = c->experts.shape.latent,
                            .values = rows.values,
                            .scales = rows.scales,
                            .factors = k3_table_sent(c, &on->row_factors, n),
                            .weights = weights,
                            .out = out};

        START(c, scale, a);
    } else if (n > 0) {
        run_experts(c, rows, weights, out);
    }
    on->scattered = false;
    on->row_count = 0;
    on->task_count = 0;
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
    .expert = expert,
    .experts_done = experts_done,
    .fork = fork_stream,
    .leave = leave_stream,
    .join = join_streams,
    .finish = k3_tables_finish,
};
