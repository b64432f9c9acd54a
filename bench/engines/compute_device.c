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

static void encode(k3_compute_t *c, const k3_encode_rows_t *a)
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

static void combine(k3_compute_t *c, const uint16_t *const *parts, const float *weights,
                    uint64_t rows, uint32_t k, uint32_t width, uint16_t *out)
{
    k3_gpu_combine_t a = {
        .rows = (uint32_t)rows, .k = k, .width = width, .weights = weights, .out = out};

    a.parts = k3_table_send(c, &c->on->parts, parts, rows * k);
    START(c, combine, a);
}

static void zero(k3_compute_t *c, void *to, uint64_t bytes)
{
    k3_device_fill(c->device, c->on->stream, to, 0, bytes);
}

static void copy(k3_compute_t *c, void *to, const void *from, uint64_t bytes)
{
    k3_gpu_copy_task_t *tasks = c->on->copies.host;
    k3_error_t          kept = K3_ERROR_INIT; /* the device keeps it */

    tasks[c->on->copy_count++] = (k3_gpu_copy_task_t){from, to, bytes};
    if (c->on->copy_count == c->on->copies.count) {
        c->ops->copies_done(c);
        c->ops->finish(c, &kept); /* the table is read until then */
    }
}

static void copies_done(k3_compute_t *c)
{
    k3_gpu_copy_t a = {.tasks = (uint32_t)c->on->copy_count};

    a.task = k3_table_sent(c, &c->on->copies, c->on->copy_count);
    START(c, copy, a);
    c->on->copy_count = 0;
}

/* A small kernel brings the words together, one copy takes them to the host. */
static void first_words(k3_compute_t *c, const uint8_t *const *records, uint64_t n, int32_t *words)
{
    k3_on_device_t     *on = c->on;
    k3_gpu_copy_task_t *tasks = on->copies.host;
    k3_error_t          kept = K3_ERROR_INIT; /* the device keeps it */

    for (uint64_t first = 0; first < n; first += on->copies.count) {
        uint64_t      part = n - first < on->copies.count ? n - first : on->copies.count;
        int32_t      *there = on->words.device, *here = on->words.host;
        k3_gpu_copy_t a = {.tasks = (uint32_t)part};

        for (uint64_t i = 0; i < part; i++) {
            tasks[i] = (k3_gpu_copy_task_t){records[first + i], (uint8_t *)(there + i), 4};
        }
        a.task = k3_table_sent(c, &on->copies, part);
        START(c, copy, a);
        k3_device_copy(c->device, on->stream, here, there, part * sizeof(int32_t));
        if (k3_device_finish(c->device, on->stream, &kept) == K3_OK) {
            memcpy(words + first, here, part * sizeof(int32_t));
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
    on->format = work->format;
    on->weighted = work->weights != NULL;
    memcpy((const void **)on->values.host + first, work->values, work->count * sizeof(void *));
    if (work->scales != NULL) {
        memcpy((const void **)on->scales.host + first, work->scales, work->count * sizeof(void *));
    }
    memcpy((uint16_t **)on->out.host + first, work->out, work->count * sizeof(void *));
    for (uint64_t i = 0; i < work->count; i++) {
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
static k3_gpu_rows_t input_rows(k3_compute_t *c, const void *values, const void *scales)
{
    k3_on_device_t *on = c->on;
    k3_format_t     want = c->experts.recipe->input;
    k3_gpu_rows_t   rows = {on->format, values, scales};
    k3_gpu_decode_t plain = {.format = on->format,
                             .rows = (uint32_t)on->row_count,
                             .width = c->experts.shape.latent,
                             .values = values,
                             .scales = scales,
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

static void run_experts(k3_compute_t *c, const void *values, const void *scales,
                        const float *weights, uint16_t *const *out)
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
                                 .x = input_rows(c, values, scales),
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

static void experts_done(k3_compute_t *c)
{
    k3_on_device_t  *on = c->on;
    uint64_t         n = on->row_count;
    const void      *values = k3_table_sent(c, &on->values, n);
    const void      *scales = k3_table_sent(c, &on->scales, n);
    uint16_t *const *out = k3_table_sent(c, &on->out, n);
    const float     *weights = k3_table_sent(c, &on->row_weights, n);

    if (n > 0 && c->experts.stand_in) {
        k3_gpu_scale_t a = {.format = on->format,
                            .rows = (uint32_t)n,
                            .width = c->experts.shape.latent,
                            .values = values,
                            .scales = scales,
                            .factors = k3_table_sent(c, &on->row_factors, n),
                            .weights = weights,
                            .out = out};

        START(c, scale, a);
    } else if (n > 0) {
        run_experts(c, values, scales, weights, out);
    }
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

static k3_status_t finish(k3_compute_t *c, k3_error_t *err)
{
    return k3_device_finish(c->device, K3_STREAM_MAIN, err);
}

const k3_compute_ops_t k3_compute_device = {
    .encode = encode,
    .combine = combine,
    .zero = zero,
    .copy = copy,
    .copies_done = copies_done,
    .first_words = first_words,
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
    .finish = finish,
};
