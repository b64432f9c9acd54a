/* The experts of a rank on its device: their rows are listed one expert after the other and started together. */
#include <string.h>

#include "bench/engines/compute_start.h"

void k3_device_expert(k3_compute_t *c, uint32_t local, const k3_expert_rows_t *work)
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
        on->scattered |= !k3_is_aligned(work->values[i]);
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
    K3_START(c, decode, plain);
    rows = (k3_gpu_rows_t){K3_FORMAT_BF16, on->plain_rows.device, NULL};
    if (want != K3_FORMAT_BF16) {
        k3_encode_rows_t to = {.format = want,
                               .rows = on->row_count,
                               .width = plain.width,
                               .in = on->plain,
                               .records = on->input.bytes,
                               .stride = on->input.stride,
                               .scales_at = on->input.scales_at};

        c->ops->encode(c, &to);
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
    c->ops->encode(c, &to);
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
    K3_START(c, gate_up, gate_up);
    down = (k3_gpu_down_t){.tasks = (uint32_t)on->task_count,
                           .latent = s->latent,
                           .inter = s->inter,
                           .weights = s->weights,
                           .task = tasks,
                           .down = matrix(c, w.w2, w.w2_scale),
                           .x = middle_rows(c),
                           .out = out};
    K3_START(c, down, down);
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
        c->ops->copy(c, to->bytes + i * to->stride, value[i], values);
        if (scales > 0) {
            c->ops->copy(c, to->bytes + i * to->stride + to->scales_at, scale[i], scales);
        }
    }
    c->ops->copies_done(c);
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

void k3_device_experts_done(k3_compute_t *c)
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

        K3_START(c, scale, a);
    } else if (n > 0) {
        run_experts(c, rows, weights, out);
    }
    on->scattered = false;
    on->row_count = 0;
    on->task_count = 0;
}
