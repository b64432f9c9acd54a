/* Results in other formats than bf16 on a device: on their way out by way of rows that kernels write one behind the
 * other, on their way back read where they lie; as many at a time as there are such rows. */
#include "bench/engines/compute_start.h"

static uint64_t at_once(const k3_compute_t *c, uint64_t left)
{
    return left < c->on->result_values.count ? left : c->on->result_values.count;
}

void k3_device_encode_to(k3_compute_t *c, k3_format_t format, const uint16_t *rows, uint64_t n,
                         uint32_t width, uint8_t *const *results)
{
    uint64_t stride = k3_format_row_bytes(format, width);

    c->ops->copies_done(c);
    for (uint64_t first = 0, part; first < n; first += part) {
        k3_gpu_encode_t a = {.format = format,
                             .width = width,
                             .in = rows + first * width,
                             .in_stride = 2 * (uint64_t)width,
                             .values = c->on->results,
                             .values_stride = stride,
                             .scales = c->on->results + k3_format_value_bytes(format, width),
                             .scales_stride = stride};

        part = at_once(c, n - first);
        a.rows = (uint32_t)part;
        K3_START(c, encode, a);
        for (uint64_t i = 0; i < part; i++) {
            c->ops->copy(c, results[first + i], c->on->results + i * stride, stride);
        }
        c->ops->copies_done(c);
    }
}

void k3_device_decode_from(k3_compute_t *c, k3_format_t format, const uint8_t *const *results,
                           uint64_t n, uint32_t width, uint16_t *rows)
{
    uint64_t values = k3_format_value_bytes(format, width);

    c->ops->copies_done(c);
    for (uint64_t first = 0, part; first < n; first += part) {
        const uint8_t **scales = k3_table_open(c, &c->on->result_scales);
        k3_gpu_decode_t a = {.format = format,
                             .width = width,
                             .out = rows + first * width,
                             .out_stride = 2 * (uint64_t)width};

        part = at_once(c, n - first);
        a.rows = (uint32_t)part;
        for (uint64_t i = 0; i < part; i++) {
            scales[i] = results[first + i] + values;
        }
        a.scales = k3_table_sent(c, &c->on->result_scales, part);
        a.values = k3_table_send(c, &c->on->result_values, results + first, part);
        K3_START(c, decode, a);
    }
}
