/* Encode, decode, copy, combine, norm and the selection on the emulated device, against the scalar
 * kernels: the same bits (norm: one unit in the last place), no race, no access outside, bytes as
 * the headers say. */
#include "machine.h"

static const k3_kernels_t *scalar(void)
{
    const k3_kernels_t *kernels = k3_kernels_cpu("scalar");

    assert_non_null(kernels);
    return kernels;
}

static uint64_t moved(void)
{
    return k3_emulator::last_counts().read_bytes + k3_emulator::last_counts().written_bytes;
}

/* --- formats --------------------------------------------------------------------------------- */

static const k3_format_t formats[] = {K3_FORMAT_FP8, K3_FORMAT_MXFP8, K3_FORMAT_MXFP4,
                                      K3_FORMAT_INT8};

/* Normal values, one row of zeros, of the smallest, of the largest, with a NaN, with an infinity. */
static void fill_rows(uint16_t *rows, uint32_t count, uint32_t width)
{
    static const uint16_t special[] = {0x0000, 0x0001, 0x7f7f, 0x7fc0, 0xff80};

    fill_bf16(rows, (size_t)count * width, width * 31u + count);
    for (uint32_t i = 0; i < 5 && i + 1 < count; i++) {
        uint16_t *row = rows + (size_t)(i + 1) * width;

        if (i < 2) {
            for (uint32_t k = 0; k < width; k++) {
                row[k] = special[i];
            }
        } else {
            row[width / 2] = special[i];
        }
    }
}

static void check_format(k3_format_t format, uint32_t count, uint32_t width)
{
    size_t               values_bytes = (k3_format_value_bytes(format, width) + 15) / 16 * 16;
    size_t               scales_bytes = (k3_format_scale_bytes(format, width) + 15) / 16 * 16;
    size_t               stride = values_bytes + scales_bytes;
    device<uint16_t>     in((size_t)count * width);
    device<uint8_t>      out(count * stride, true);
    k3_gpu_encode_t      a = {format,       count,      width,  in.data(),
                              2ull * width, out.data(), stride, out.data() + values_bytes,
                              stride,       nullptr,    0,      0};
    std::vector<uint8_t> values(values_bytes), scales(scales_bytes);

    fill_rows(in.data(), count, width);
    run_in_orders(a, out);
    assert_true(moved() <= (uint64_t)count *
                               ((format == K3_FORMAT_INT8 ? 4 : 2) * width +
                                k3_format_row_bytes(format, width)) *
                               11 / 10);
    assert_true(k3_emulator::last_counts().bank_ways <= 2);
    for (uint32_t r = 0; r < count; r++) {
        const uint8_t *row = out.data() + r * stride;
        bool           nan = false;

        scalar()->encode(format, in.data() + (size_t)r * width, width, values.data(),
                         scales.data());
        assert_memory_equal(row, values.data(), k3_format_value_bytes(format, width));
        for (size_t i = 0; i < k3_format_scale_bytes(format, width) / 4 &&
                           format != K3_FORMAT_MXFP8 && format != K3_FORMAT_MXFP4;
             i++) {
            float mine, theirs;

            memcpy(&mine, row + values_bytes + 4 * i, 4);
            memcpy(&theirs, scales.data() + 4 * i, 4);
            nan = nan || isnan(theirs);
            assert_true(isnan(mine) ? isnan(theirs) : mine == theirs);
        }
        if (!nan) {
            assert_memory_equal(row + values_bytes, scales.data(),
                                k3_format_scale_bytes(format, width));
        }
    }
}

static void test_encode(void **state)
{
    (void)state;
    for (k3_format_t format : formats) {
        check_format(format, 7, 3584); /* Kimi-K3 */
        check_format(format, 6, 7168);
        check_format(format, 6, 32);
        check_format(format, 1, 160); /* no whole group of 128, no whole warp */
        check_format(format, 3, 512 + 96);
    }
}

static void check_decode(k3_format_t format, uint32_t count, uint32_t width)
{
    size_t                  values_bytes = (k3_format_value_bytes(format, width) + 15) / 16 * 16;
    size_t                  scales_bytes = (k3_format_scale_bytes(format, width) + 15) / 16 * 16;
    device<uint8_t>         codes(count * (values_bytes + scales_bytes));
    device<const uint8_t *> values(count), scales(count);
    device<uint16_t>        out((size_t)count * width, true);
    k3_gpu_decode_t         a = {format,        count,      width,       values.data(),
                                 scales.data(), out.data(), 2ull * width};
    std::vector<uint16_t>   row((size_t)count * width);
    std::vector<float>      decoded(width);

    fill_rows(row.data(), count, width);
    for (uint32_t r = 0; r < count; r++) {
        uint8_t *at = codes.data() + (count - 1 - r) * (values_bytes + scales_bytes);

        values[r] = at;
        scales[r] = at + values_bytes;
        scalar()->encode(format, row.data() + (size_t)r * width, width, at, at + values_bytes);
    }
    run_in_orders(a, out);
    for (uint32_t r = 0; r < count; r++) {
        scalar()->decode(format, values[r], scales[r], width, decoded.data());
        for (uint32_t k = 0; k < width; k++) {
            uint16_t bits = out[(size_t)r * width + k], want = k3_f32_to_bf16(decoded[k]);

            assert_true(bits == want || (isnan(decoded[k]) && (bits & 0x7fff) > 0x7f80));
        }
    }
}

static void test_decode(void **state)
{
    (void)state;
    for (k3_format_t format : formats) {
        check_decode(format, 7, 3584);
        check_decode(format, 2, 32);
        check_decode(format, 6, 160);
    }
    check_decode(K3_FORMAT_BF16, 6, 160);
}

/* Every code of every format, and rounding at and beside every tie. */
static void test_codes(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 256; code++) {
        float e4m3 = k3_gpu_bf16(k3_gpu_e4m3_bits(code)), e8m0 = k3_gpu_e8m0(code);

        assert_true(isnan(e4m3) ? isnan(k3_e4m3_to_f32((uint8_t)code))
                                : e4m3 == k3_e4m3_to_f32((uint8_t)code));
        assert_true(isnan(e8m0) ? isnan(k3_e8m0_to_f32((uint8_t)code))
                                : e8m0 == k3_e8m0_to_f32((uint8_t)code));
        assert_true(k3_gpu_bf16(k3_gpu_e2m1_bits(code & 15)) ==
                    k3_e2m1_to_f32((uint8_t)(code & 15)));
        for (unsigned e2m1 = 0; e2m1 < 16; e2m1++) {
            float want = k3_e2m1_to_f32((uint8_t)e2m1) * k3_e8m0_to_f32((uint8_t)code);
            float got = k3_gpu_bf16(k3_mxfp4_bits(e2m1, code));

            assert_true(isnan(want) ? isnan(got) : got == k3_bf16_to_f32(k3_f32_to_bf16(want)));
        }
    }
    for (uint32_t bits = 0; bits < 65536; bits++) { /* all bf16, and f32 beside them */
        for (int beside = -1; beside <= 1; beside++) {
            float value = k3_as_float((bits << 16) + (uint32_t)beside);

            assert_int_equal(k3_gpu_to_e4m3(value), k3_f32_to_e4m3(value));
            assert_int_equal(k3_gpu_to_e2m1(value), k3_f32_to_e2m1(value));
            assert_true(isnan(value) ? (k3_gpu_to_bf16(value) & 0x7fffu) > 0x7f80u
                                     : k3_gpu_to_bf16(value) == k3_f32_to_bf16(value));
        }
    }
}

/* Records with a header, bf16 too. */
static void check_records(k3_format_t format, uint32_t count, uint32_t width)
{
    const uint32_t   first = 40;
    size_t           values_at = 16, scales_at = values_at + k3_format_value_bytes(format, width);
    size_t           stride = (scales_at + k3_format_scale_bytes(format, width) + 15) / 16 * 16;
    device<uint16_t> in((size_t)count * width);
    device<uint8_t>  out(count * stride, true);
    k3_gpu_encode_t  a = {format,       count,
                          width,        in.data(),
                          2ull * width, out.data() + values_at,
                          stride,       out.data() + scales_at,
                          stride,       out.data(),
                          stride,       first};
    std::vector<uint8_t> values(stride), scales(stride);

    fill_bf16(in.data(), in.size(), width);
    run_in_orders(a, out);
    for (uint32_t r = 0; r < count; r++) {
        const uint32_t header[4] = {first + r, 0, 0, 0};

        scalar()->encode(format, in.data() + (size_t)r * width, width, values.data(),
                         scales.data());
        assert_memory_equal(out.data() + r * stride, header, 16);
        assert_memory_equal(out.data() + r * stride + values_at, values.data(),
                            k3_format_value_bytes(format, width));
        assert_memory_equal(out.data() + r * stride + scales_at, scales.data(),
                            k3_format_scale_bytes(format, width));
    }
}

static void test_records(void **state)
{
    (void)state;
    for (k3_format_t format : formats) {
        check_records(format, 3, 3584);
    }
    check_records(K3_FORMAT_BF16, 5, 3584);
    check_records(K3_FORMAT_BF16, 2, 160);
    assert_true(moved() <= 2 * (4 * 160 + 16));
}

/* The stand-in for an expert: each row from and to somewhere, with its factor and weight. */
static void check_scale(k3_format_t format, uint32_t count, uint32_t width, bool weighted,
                        uint32_t skew = 0)
{
    size_t          values_bytes = (k3_format_value_bytes(format, width) + 15) / 16 * 16;
    size_t          stride = values_bytes + (k3_format_scale_bytes(format, width) + 15) / 16 * 16;
    device<uint8_t> codes(count * stride);
    device<const uint8_t *> values(count), scales(count);
    device<uint16_t>        out((size_t)count * width + skew, true);
    device<uint16_t *>      to(count);
    device<float>           factors(count), weights(count);
    k3_gpu_scale_t          a = {format,
                                 count,
                                 width,
                                 values.data(),
                                 scales.data(),
                                 factors.data(),
                        weighted ? weights.data() : nullptr,
                                 to.data()};
    std::vector<uint16_t>   row(width);
    std::vector<float>      decoded(width);

    for (uint32_t r = 0; r < count; r++) {
        values[r] = codes.data() + r * stride;
        scales[r] = values[r] + values_bytes;
        to[r] = out.data() + skew + (size_t)(count - 1 - r) * width;
        factors[r] = 0.75f + 0.125f * (float)r;
        weights[r] = 0.3f;
        fill_bf16(row.data(), width, r + 3);
        scalar()->encode(format, row.data(), width, (void *)values[r], (void *)scales[r]);
    }
    run_in_orders(a, out);
    for (uint32_t r = 0; r < count; r++) {
        scalar()->decode(format, values[r], scales[r], width, decoded.data());
        for (uint32_t k = 0; k < width; k++) {
            float want = decoded[k] * factors[r] * (weighted ? weights[r] : 1.0f);

            assert_int_equal(to[r][k], k3_f32_to_bf16(want));
        }
    }
}

static void test_scale(void **state)
{
    (void)state;
    for (k3_format_t format : formats) {
        check_scale(format, 3, 3584, true);
    }
    check_scale(K3_FORMAT_BF16, 5, 160, false);
    check_scale(K3_FORMAT_BF16, 2, 160, true, 2);
}

/* --- LogFMT-10 --------------------------------------------------------------------------------- */

/* As fill_rows, but every third row spreads over all octaves: subnormals, values below the 32 octaves that codes
 * reach, signs, zeros. */
static void fill_log_rows(uint16_t *rows, uint32_t count, uint32_t width)
{
    uint64_t seed = width + count;

    fill_rows(rows, count, width);
    for (uint32_t i = 0; i < count; i += 3) {
        for (uint32_t k = 0; k < width; k++) {
            uint32_t bits = random_bits(&seed);

            rows[(size_t)i * width + k] =
                (uint16_t)(bits % 40 == 0 ? bits & 0x8000u
                                          : (bits & 0xffffu) % 0x7f80u | (bits & 0x8000u));
        }
    }
}

static void check_log_encode(uint32_t count, uint32_t width)
{
    size_t                   room = k3_format_row_bytes(K3_FORMAT_LOGFMT10, width);
    device<uint16_t>         in((size_t)count * width);
    device<uint8_t>          out(count * (room + 4), true);
    device<const uint16_t *> rows(count);
    device<uint8_t *>        messages(count);
    k3_gpu_log_encode_t      a = {count, width, rows.data(), messages.data(),
                                  (uint32_t *)(out.data() + count * room)};
    std::vector<uint8_t>     want(room);
    uint64_t                 least = 0;

    fill_log_rows(in.data(), count, width);
    for (uint32_t r = 0; r < count; r++) {
        rows[r] = in.data() + (size_t)(count - 1 - r) * width;
        messages[r] = out.data() + r * room;
    }
    run_in_orders(a, out);
    for (uint32_t r = 0; r < count; r++) {
        size_t bytes = scalar()->log_encode(rows[r], width, want.data());

        assert_int_equal(a.bytes[r], bytes);
        assert_memory_equal(messages[r], want.data(), bytes);
        least += 2 * width + bytes;
        for (size_t i = bytes; i < room; i++) {
            assert_int_equal(messages[r][i], 0); /* nothing behind it */
        }
    }
    assert_true(moved() <= (least + 20 * count) * 11 / 10);
    assert_true(k3_emulator::last_counts().bank_ways <= 2);
}

static void test_log_encode(void **state)
{
    (void)state;
    check_log_encode(7, 3584); /* Kimi-K3 */
    check_log_encode(4, 8192);
    check_log_encode(6, 128);
    check_log_encode(1, 640); /* no whole round of the warps */
    check_log_encode(9, 384);
}

static void check_log_combine(uint32_t rows, uint32_t k, uint32_t width)
{
    size_t                        room = k3_format_row_bytes(K3_FORMAT_LOGFMT10, width);
    device<uint8_t>               messages((size_t)rows * k * room);
    device<uint16_t>              out((size_t)rows * width, true);
    device<const uint8_t *>       parts((size_t)rows * k);
    device<float>                 weights((size_t)rows * k);
    k3_gpu_log_combine_t          a = {rows, k, width, parts.data(), weights.data(), out.data()};
    std::vector<uint16_t>         values((size_t)rows * k * width), want(width);
    std::vector<const uint16_t *> decoded((size_t)rows * k);
    uint64_t                      seed = k, least = 0;

    fill_log_rows(values.data(), rows * k, width);
    for (size_t i = 0; i < parts.size(); i++) {
        uint8_t  *message = messages.data() + i * room;
        uint16_t *row = values.data() + i * width;
        size_t    bytes = scalar()->log_encode(row, width, message);

        assert_int_equal(scalar()->log_decode(message, width, row), bytes);
        parts[i] = i % 5 == 3 ? nullptr : message;
        decoded[i] = i % 5 == 3 ? nullptr : row;
        weights[i] = random_float(&seed);
        least += i % 5 == 3 ? 0 : bytes;
    }
    run_in_orders(a, out);
    least += 2ull * rows * width + 12ull * rows * k;
    assert_true(moved() <= least * 11 / 10);
    assert_true(k3_emulator::last_counts().bank_ways <= 2);
    for (uint32_t r = 0; r < rows; r++) {
        scalar()->combine(decoded.data() + (size_t)r * k, weights.data() + (size_t)r * k, k, width,
                          want.data());
        for (uint32_t i = 0; i < width; i++) {
            uint16_t got = out[(size_t)r * width + i];

            assert_true(got == want[i] || ((got & 0x7fff) > 0x7f80 && (want[i] & 0x7fff) > 0x7f80));
        }
    }
}

static void test_log_combine(void **state)
{
    (void)state;
    check_log_combine(2, 16, 3584);
    check_log_combine(2, 8, 8192);
    check_log_combine(9, 1, 128);
    check_log_combine(3, 5, 640);
    check_log_combine(1, 64, 384);
}

/* --- copy ------------------------------------------------------------------------------------ */

static void test_copy(void **state)
{
    static const uint32_t      lengths[] = {7168, 3696, 264, 16, 4, 3, 0, 1, 4096 + 8};
    device<uint8_t>            from(32768), to(32768, true);
    device<k3_gpu_copy_task_t> tasks(9);
    k3_gpu_copy_t              a = {9, tasks.data()};
    uint64_t                   seed = 5, total = 0;
    size_t                     at = 0;

    (void)state;
    for (size_t i = 0; i < from.size(); i++) {
        from[i] = (uint8_t)random_bits(&seed);
    }
    for (unsigned i = 0; i < 9; i++) {
        tasks[i] = {from.data() + at, to.data() + at + (i == 8 ? 3 : 0), lengths[i]};
        at += (lengths[i] + 15) / 16 * 16;
        total += lengths[i];
    }
    run_in_orders(a, to);
    for (unsigned i = 0; i < 9; i++) {
        assert_memory_equal(tasks[i].to, tasks[i].from, lengths[i]);
    }
    assert_true(moved() <= 2 * total * 11 / 10);
}

/* --- combine and norm ------------------------------------------------------------------------ */

static void check_combine(uint32_t rows, uint32_t k, uint32_t width, bool weighted)
{
    device<uint16_t>         values((size_t)rows * k * width), out((size_t)rows * width, true);
    device<const uint16_t *> parts((size_t)rows * k);
    device<float>            weights((size_t)rows * k);
    k3_gpu_combine_t         a = {
                rows, k, width, parts.data(), weighted ? weights.data() : nullptr, out.data(), nullptr};
    std::vector<uint16_t> want(width);
    uint64_t              seed = k;

    fill_bf16(values.data(), values.size(), 3);
    for (size_t i = 0; i < parts.size(); i++) {
        parts[i] = i % 5 == 3 ? nullptr : values.data() + i * width;
        weights[i] = random_float(&seed);
    }
    run_in_orders(a, out);
    assert_true(moved() <= (uint64_t)rows * (2ull * (k + 1) * width + 12 * k) * 11 / 10);
    for (uint32_t r = 0; r < rows; r++) {
        scalar()->combine(parts.data() + (size_t)r * k,
                          weighted ? weights.data() + (size_t)r * k : nullptr, k, width,
                          want.data());
        assert_memory_equal(out.data() + (size_t)r * width, want.data(), 2 * width);
    }
}

/* Each row to where it is asked for: here in reverse, parts and rows `skew` values behind a multiple of 16 bytes. */
static void check_combine_to(uint32_t rows, uint32_t k, uint32_t width, uint32_t skew)
{
    device<uint16_t>         values((size_t)rows * k * width + skew);
    device<uint16_t>         out((size_t)rows * width + skew, true);
    device<const uint16_t *> parts((size_t)rows * k);
    device<uint16_t *>       to(rows);
    k3_gpu_combine_t         a = {rows, k, width, parts.data(), nullptr, nullptr, to.data()};
    std::vector<uint16_t>    want(width);

    fill_bf16(values.data(), values.size(), 5);
    for (size_t i = 0; i < parts.size(); i++) {
        parts[i] = i % 3 == 1 ? nullptr : values.data() + skew + i * width;
    }
    for (uint32_t r = 0; r < rows; r++) {
        to[r] = out.data() + skew + (size_t)(rows - 1 - r) * width;
    }
    run_in_orders(a, out);
    assert_true(moved() <= (2ull * (rows * k + rows) * width + 20 * rows * k) * 11 / 10);
    for (uint32_t r = 0; r < rows; r++) {
        scalar()->combine(parts.data() + (size_t)r * k, nullptr, k, width, want.data());
        assert_memory_equal(to[r], want.data(), 2 * width);
    }
}

static void test_combine(void **state)
{
    (void)state;
    check_combine_to(5, 4, 3584, 0);
    check_combine_to(2, 1, 96, 0);
    check_combine_to(2, 3, 3584, 4); /* 8 bytes, 4, 2 */
    check_combine_to(2, 3, 256, 2);
    check_combine_to(2, 2, 96, 1);
    check_combine(3, 16, 3584, true);
    check_combine(2, 8, 7168, false);
    check_combine(4, 1, 32, true);
    check_combine(1, 64, 96, true);
}

static void check_norm(uint32_t rows, uint32_t width)
{
    device<uint16_t>      x((size_t)rows * width), gain(width), out((size_t)rows * width, true);
    k3_gpu_norm_t         a = {rows, width, 1e-6f, x.data(), gain.data(), out.data()};
    std::vector<uint16_t> want(width);

    fill_bf16(x.data(), x.size(), 8);
    fill_bf16(gain.data(), width, 9);
    run_in_orders(a, out);
    assert_true(moved() <= (uint64_t)rows * 6 * width * 11 / 10);
    for (uint32_t r = 0; r < rows; r++) {
        scalar()->rms_norm(x.data() + (size_t)r * width, gain.data(), width, a.eps, want.data());
        for (uint32_t i = 0; i < width; i++) {
            assert_in_range(out[(size_t)r * width + i] + 1 - want[i], 0, 2);
        }
    }
}

static void test_norm(void **state)
{
    (void)state;
    check_norm(3, 3584);
    check_norm(2, 8192);
    check_norm(2, 32);
}

/* --- selection ------------------------------------------------------------------------------- */

static void check_route(uint32_t rows, uint32_t experts, uint32_t k)
{
    device<float>   logits((size_t)rows * experts), bias(experts);
    device<int32_t> ids((size_t)rows * k, true);
    device<float>   weights((size_t)rows * k, true);
    k3_gpu_route_t  a = {rows, experts, k, logits.data(), bias.data(), ids.data(), weights.data()};
    std::vector<int32_t> want_ids(k);
    std::vector<float>   want(k);
    uint64_t             seed = experts;

    for (size_t i = 0; i < logits.size(); i++) {
        logits[i] = 4 * random_float(&seed);
    }
    for (size_t i = 0; i < experts; i++) {
        bias[i] = 0.1f * random_float(&seed);
        logits[i] = i % 3 == 0 ? 1.5f : logits[i]; /* ties in the first row, but for the bias */
        bias[i] = i % 6 == 0 ? 0.25f : bias[i];
    }
    if (rows > 1) {
        logits[experts] = NAN;
        logits[experts + experts / 2] = -INFINITY;
    }
    run_in_orders(a, ids);
    assert_true(moved() <= (uint64_t)rows * (8ull * experts + 8 * k) * 11 / 10);
    for (uint32_t r = 0; r < rows; r++) {
        scalar()->route(logits.data() + (size_t)r * experts, bias.data(), experts, k,
                        want_ids.data(), want.data());
        assert_memory_equal(ids.data() + (size_t)r * k, want_ids.data(), 4 * k);
        assert_memory_equal(weights.data() + (size_t)r * k, want.data(), 4 * k);
    }
}

static void test_route(void **state)
{
    (void)state;
    check_route(9, 896, 16); /* Kimi-K3 */
    check_route(3, 256, 8);
    check_route(2, 1024, 32);
    check_route(2, 7, 7);
    check_route(1, 33, 1);
}

/* --- sums, activation, dense layers, weights of given ids ---------------------------------------- */

static void check_sum(uint32_t parts, uint64_t n, int64_t gap)
{
    device<uint16_t>              values(parts * (n + (uint64_t)gap)), out(n, true);
    std::vector<const uint16_t *> part(parts);
    std::vector<uint16_t>         want(n);
    k3_gpu_sum_t                  a = {n, parts, values.data(), 2 * ((int64_t)n + gap), out.data()};

    fill_bf16(values.data(), values.size(), n);
    for (uint32_t i = 0; i < parts; i++) {
        part[i] = values.data() + i * (n + (uint64_t)gap);
    }
    run_in_orders(a, out);
    scalar()->sum(part.data(), parts, n, want.data());
    assert_memory_equal(out.data(), want.data(), 2 * n);
    assert_true(moved() <= 2 * (parts + 1) * n * 11 / 10);
}

static void test_sum(void **state)
{
    (void)state;
    check_sum(8, 3584, 0);
    check_sum(2, 7168, 16);
    check_sum(1, 8, 0);
}

static void check_activate(k3_activation_t activation, uint64_t n)
{
    device<uint16_t>      gate(n), up(n), out(n, true);
    std::vector<uint16_t> want(n);
    k3_gpu_activate_t     a = {n, activation, gate.data(), up.data(), out.data()};

    fill_bf16(gate.data(), n, 4);
    fill_bf16(up.data(), n, 5);
    run_in_orders(a, out);
    scalar()->activate(activation, gate.data(), up.data(), n, want.data());
    assert_memory_equal(out.data(), want.data(), 2 * n);
    assert_true(moved() <= 6 * n * 11 / 10);
}

static void test_activate(void **state)
{
    (void)state;
    check_activate(K3_ACT_SITU, 6144);
    check_activate(K3_ACT_SWIGLU, 40);
}

static void check_dense(uint32_t m, uint32_t n, uint32_t k, bool f32)
{
    device<uint16_t> x((size_t)m * k), w((size_t)n * k), y((size_t)m * n, true);
    device<float>    y_f32((size_t)m * n, true);
    k3_gpu_dense_t   a = {
          m, n, k, x.data(), w.data(), f32 ? y_f32.data() : nullptr, f32 ? nullptr : y.data()};

    fill_bf16(x.data(), x.size(), k);
    fill_bf16(w.data(), w.size(), n);
    if (f32) {
        run_in_orders(a, y_f32);
    } else {
        run_in_orders(a, y);
    }
    for (size_t i = 0; i < (size_t)m * n; i++) {
        double want = 0, size = 0;

        for (uint32_t j = 0; j < k; j++) {
            double term =
                (double)k3_bf16_to_f32(x[i / n * k + j]) * (double)k3_bf16_to_f32(w[i % n * k + j]);

            want += term;
            size += fabs(term);
        }
        /* f32 sums, then one rounding to bf16. */
        double got = f32 ? (double)y_f32[i] : (double)k3_bf16_to_f32(y[i]);
        assert_true(fabs(got - want) <= size * 1e-6 + (f32 ? 0 : fabs(want) / 256));
    }
}

static void test_dense(void **state)
{
    (void)state;
    check_dense(2, 9, 7168, true);
    check_dense(3, 5, 264, false);
    check_dense(1, 1, 8, false);
}

static void test_weigh(void **state)
{
    enum { rows = 5, experts = 896, k = 16 };
    device<float>   logits(rows * experts), weights(rows * k, true);
    device<int32_t> ids(rows * k);
    k3_gpu_weigh_t  a = {rows, experts, k, logits.data(), ids.data(), weights.data()};
    float           want[k];
    uint64_t        seed = 2;

    (void)state;
    for (size_t i = 0; i < logits.size(); i++) {
        logits[i] = 4 * random_float(&seed);
    }
    for (size_t i = 0; i < ids.size(); i++) {
        ids[i] = i % 7 == 3 ? -1 : (int32_t)(random_bits(&seed) % experts);
    }
    run_in_orders(a, weights);
    for (size_t r = 0; r < rows; r++) {
        scalar()->route_weights(logits.data() + r * experts, k, ids.data() + r * k, want);
        assert_memory_equal(weights.data() + r * k, want, sizeof want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes),       cmocka_unit_test(test_records),
        cmocka_unit_test(test_scale),       cmocka_unit_test(test_sum),
        cmocka_unit_test(test_activate),    cmocka_unit_test(test_dense),
        cmocka_unit_test(test_weigh),       cmocka_unit_test(test_encode),
        cmocka_unit_test(test_decode),      cmocka_unit_test(test_copy),
        cmocka_unit_test(test_combine),     cmocka_unit_test(test_norm),
        cmocka_unit_test(test_route),       cmocka_unit_test(test_log_encode),
        cmocka_unit_test(test_log_combine),
    };

    return cmocka_run_group_tests_name("gpu rows", tests, NULL, NULL);
}
