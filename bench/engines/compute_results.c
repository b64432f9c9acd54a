/* Results in other formats than bf16 on a device: on their way out by way of rows that kernels write one behind the
 * other, on their way back read where they lie; as many at a time as there are such rows. */
#include <string.h>

#include "bench/engines/compute_start.h"
#include "harness/base/arith.h"

/* From one row to the next of those that kernels read and write together. */
static uint64_t staged_stride(k3_format_t format, uint32_t width)
{
    return k3_round_up(k3_format_row_bytes(format, width), 16);
}

static uint64_t at_once(const k3_compute_t *c, uint64_t left)
{
    return left < c->on->result_values.count ? left : c->on->result_values.count;
}

void k3_device_encode_to(k3_compute_t *c, k3_format_t format, const uint16_t *rows, uint64_t n,
                         uint32_t width, uint8_t *const *results)
{
    uint64_t stride = staged_stride(format, width);

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
            c->ops->copy(c, results[first + i], c->on->results + i * stride,
                         k3_format_row_bytes(format, width));
        }
        c->ops->copies_done(c);
    }
}

/* Where kernels cannot read them, results are brought to where they can. */
static bool all_aligned(const uint8_t *const *results, uint64_t n)
{
    bool aligned = true;

    for (uint64_t i = 0; i < n; i++) {
        aligned &= k3_is_aligned(results[i]);
    }
    return aligned;
}

static void stage(k3_compute_t *c, const uint8_t *const *results, uint64_t n, uint64_t stride,
                  uint64_t bytes)
{
    for (uint64_t i = 0; i < n; i++) {
        c->ops->copy(c, c->on->results + i * stride, results[i], bytes);
    }
    c->ops->copies_done(c);
}

void k3_device_decode_from(k3_compute_t *c, k3_format_t format, const uint8_t *const *results,
                           uint64_t n, uint32_t width, uint16_t *rows)
{
    uint64_t stride = staged_stride(format, width);

    c->ops->copies_done(c);
    for (uint64_t first = 0, part; first < n; first += part) {
        bool            aligned;
        const uint8_t **values = k3_table_open(c, &c->on->result_values);
        const uint8_t **scales = k3_table_open(c, &c->on->result_scales);
        k3_gpu_decode_t a = {.format = format,
                             .width = width,
                             .out = rows + first * width,
                             .out_stride = 2 * (uint64_t)width};

        part = at_once(c, n - first);
        a.rows = (uint32_t)part;
        aligned = all_aligned(results + first, part);
        if (!aligned) {
            stage(c, results + first, part, stride, k3_format_row_bytes(format, width));
        }
        for (uint64_t i = 0; i < part; i++) {
            values[i] = aligned ? results[first + i] : c->on->results + i * stride;
            scales[i] = values[i] + k3_format_value_bytes(format, width);
        }
        a.scales = k3_table_sent(c, &c->on->result_scales, part);
        a.values = k3_table_sent(c, &c->on->result_values, part);
        K3_START(c, decode, a);
    }
}

/* How long a message became is known when it is made: the host waits for that before it posts any. */
void k3_device_log_encode(k3_compute_t *c, const uint16_t *const *rows, uint64_t n, uint32_t width,
                          uint8_t *const *messages, uint32_t *bytes)
{
    k3_table_t *lengths = &c->on->result_bytes;
    k3_error_t  kept = K3_ERROR_INIT; /* the device keeps it */

    c->ops->copies_done(c);
    for (uint64_t first = 0, part; first < n; first += part) {
        k3_gpu_log_encode_t a = {.width = width, .bytes = lengths->device};

        part = at_once(c, n - first);
        a.rows = (uint32_t)part;
        a.in = k3_table_send(c, &c->on->result_values, rows + first, part);
        a.messages = k3_table_send(c, &c->on->result_scales, messages + first, part);
        K3_START(c, log_encode, a);
        k3_device_copy(c->device, c->on->stream, k3_table_open(c, lengths), lengths->device,
                       part * sizeof(*bytes));
        memset(bytes + first, 0, part * sizeof(*bytes));
        if (k3_tables_finish(c, &kept) == K3_OK) {
            memcpy(bytes + first, lengths->host, part * sizeof(*bytes));
        }
    }
}

void k3_device_log_combine(k3_compute_t *c, const uint8_t *const *messages, const float *weights,
                           uint64_t rows, uint32_t k, uint32_t width, uint16_t *room, uint16_t *out)
{
    k3_gpu_log_combine_t a = {
        .rows = (uint32_t)rows, .k = k, .width = width, .weights = weights, .out = out};

    (void)room;
    a.parts = k3_table_send(c, &c->on->parts, messages, rows * k);
    K3_START(c, log_combine, a);
}
