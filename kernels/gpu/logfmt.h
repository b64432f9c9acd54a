/* Rows as LogFMT-10 messages (kernels/kernels.h) and the sum of rows that came as such. A warp has a group of 128
 * values; a lane has some of them in a row, packs of 16 lie in neighbouring lanes. Steps are those of
 * kernels/cpu/scalar_logfmt.c: the same bytes where log2 and exp2 of f64 are the same, else a code differs for a value
 * within 1e-13 of the border between two. */
#ifndef K3_KERNELS_GPU_LOGFMT_H
#define K3_KERNELS_GPU_LOGFMT_H

#include "kernels/gpu/gpu.h"
#include "kernels/gpu/numbers.h"

constexpr unsigned k3_log_group = 128;
constexpr unsigned k3_log_groups = K3_GPU_LOG_WIDTH / k3_log_group;
constexpr unsigned k3_log_run = k3_log_group / k3_warp; /* values of a lane */
constexpr unsigned k3_log_lanes = 16 / k3_log_run;      /* of a pack */
constexpr unsigned k3_log_pack = 5;                     /* words: 16 signs, 16 codes of 9 bits */
constexpr unsigned k3_log_coded = k3_log_group / 16 * k3_log_pack, k3_log_raw = k3_log_group / 2;
constexpr unsigned k3_log_steps = 510, k3_log_code_max = k3_log_steps + 1;
constexpr unsigned k3_log_parts = 64; /* of a sum, the most */

/* The largest magnitude of a group in the low half, the smallest in the high one. */
K3_DEVICE bool k3_log_qualifies(uint32_t pair)
{
    return (pair & 0xffffu) < 0x7f80u && pair >> 16 < (pair & 0xffffu);
}

K3_DEVICE unsigned k3_log_words(uint32_t pair)
{
    return k3_log_qualifies(pair) ? k3_log_coded : k3_log_raw;
}

/* Of a finite magnitude above 0. */
K3_DEVICE double k3_log2_of(uint32_t bits)
{
    int exponent = (int)(bits >> 7);

    return exponent == 0 ? k3_log2((double)bits) - 133.0
                         : (double)(exponent - 127) + k3_log2(1.0 + (double)(bits & 127u) / 128.0);
}

struct k3_log_scale {
    double low, step;
};

K3_DEVICE k3_log_scale k3_log_scale_of(uint32_t pair)
{
    double high = k3_log2_of(pair & 0xffffu), low = high - 32.0;

    if (pair >> 16 != 0) {
        double least = k3_log2_of(pair >> 16);

        low = least > low ? least : low;
    }
    return {low, (high - low) / k3_log_steps};
}

/* The bf16 values of this lane, the first in the low bits; as words, for groups in messages begin at multiples of 4. */
K3_DEVICE uint64_t k3_log_load_run(const uint32_t *group)
{
    uint64_t run = 0;

#pragma unroll
    for (unsigned i = 0; i < k3_log_run / 2; i++) {
        run |= (uint64_t)k3_load(group + k3_lane() * (k3_log_run / 2) + i) << 32 * i;
    }
    return run;
}

K3_DEVICE void k3_log_store_run(uint32_t *group, uint64_t run)
{
#pragma unroll
    for (unsigned i = 0; i < k3_log_run / 2; i++) {
        k3_store(group + k3_lane() * (k3_log_run / 2) + i, (uint32_t)(run >> 32 * i));
    }
}

K3_DEVICE uint32_t k3_log_value(uint64_t run, unsigned i)
{
    return (uint32_t)(run >> 16 * i) & 0xffffu;
}

/* --- to messages ----------------------------------------------------------------------------- */

K3_DEVICE uint32_t k3_log_pair_of(uint64_t run)
{
    uint32_t largest = 0,
             least = 0; /* the smallest is found by what is missing to the largest of all */

#pragma unroll
    for (unsigned i = 0; i < k3_log_run; i++) {
        uint32_t magnitude = k3_log_value(run, i) & 0x7fffu;

        largest = magnitude > largest ? magnitude : largest;
        least = 0x7fffu - magnitude > least ? 0x7fffu - magnitude : least;
    }
    return k3_max_over(largest, k3_warp) | (0x7fffu - k3_max_over(least, k3_warp)) << 16;
}

K3_DEVICE uint32_t k3_log_code_of(const k3_log_scale &s, double inverse, double bias,
                                  uint32_t magnitude)
{
    double position;

    if (magnitude == 0) {
        return 0;
    }
    position = (k3_log2_of(magnitude) - s.low) * inverse + bias;
    if (position < 1.0) {
        return 1;
    }
    return position >= k3_log_code_max ? k3_log_code_max : (uint32_t)position;
}

/* What codes that begin at bit `at` of a pack give to its word `word`. */
K3_DEVICE uint32_t k3_log_piece(uint64_t codes, unsigned at, unsigned word)
{
    int from = (int)at - (int)(32 * word);

    if (from >= 32 || from + (int)(9 * k3_log_run) <= 0) {
        return 0;
    }
    return (uint32_t)(from >= 0 ? codes << from : codes >> -from);
}

K3_DEVICE void k3_log_encode_group(uint32_t pair, uint64_t run, uint32_t *out)
{
    k3_log_scale s = k3_log_scale_of(pair);
    double       inverse = 1.0 / s.step;
    double       bias = 2.0 - k3_log2((1.0 + k3_exp2(s.step)) * 0.5) * inverse;
    unsigned     in_pack = k3_lane() % k3_log_lanes;
    uint32_t     signs = 0, mine = 0, last = 0;
    uint64_t     codes = 0;

    out += k3_lane() / k3_log_lanes * k3_log_pack;
#pragma unroll
    for (unsigned i = 0; i < k3_log_run; i++) {
        uint32_t value = k3_log_value(run, i);

        signs |= (value >> 15) << (in_pack * k3_log_run + i);
        codes |= (uint64_t)k3_log_code_of(s, inverse, bias, value & 0x7fffu) << 9 * i;
    }
#pragma unroll
    for (unsigned word = 0; word < k3_log_pack; word++) {
        uint32_t piece = k3_log_piece(codes, 16 + 9 * k3_log_run * in_pack, word);

        piece |= word == 0 ? signs : 0;
        for (unsigned mask = k3_log_lanes / 2; mask != 0; mask /= 2) {
            piece |= k3_shuffle_xor(piece, mask);
        }
        mine = word == in_pack ? piece : mine;
        last = piece;
    }
    if (in_pack < k3_log_pack) {
        k3_store(out + in_pack, mine);
    }
    if (k3_log_lanes < k3_log_pack && in_pack == 0) {
        k3_store(out + k3_log_pack - 1, last);
    }
}

/* A block for each row, which is read once. */
K3_KERNEL k3_encode_log(k3_gpu_log_encode_t a)
{
    constexpr unsigned share = k3_log_groups / k3_warps; /* groups of a warp, the most */
    uint32_t           groups = a.width / k3_log_group, row = k3_block(0);
    const uint32_t    *in = (const uint32_t *)k3_load(a.in + row);
    uint32_t          *out = (uint32_t *)k3_load(a.messages + row);
    uint64_t           runs[share] = {};

    K3_SHARED(uint32_t, pairs, k3_log_groups);
    K3_SHARED(uint32_t, begins, k3_log_groups); /* words */
#pragma unroll
    for (unsigned i = 0; i < share; i++) {
        unsigned g = i * k3_warps + k3_thread() / k3_warp;

        if (g < groups) {
            uint32_t pair;

            runs[i] = k3_log_load_run(in + g * k3_log_raw);
            pair = k3_log_pair_of(runs[i]);
            if (k3_lane() == 0) {
                k3_store(pairs + g, pair);
                k3_store(out + g, pair);
            }
        }
    }
    k3_barrier();
    if (k3_thread() == 0) {
        uint32_t at = groups;

        for (unsigned g = 0; g < groups; g++) {
            k3_store(begins + g, at);
            at += k3_log_words(k3_load(pairs + g));
        }
        k3_store(a.bytes + row, 4 * at);
    }
    k3_barrier();
#pragma unroll
    for (unsigned i = 0; i < share; i++) {
        unsigned g = i * k3_warps + k3_thread() / k3_warp;

        if (g < groups) {
            uint32_t  pair = k3_load(pairs + g);
            uint32_t *to = out + k3_load(begins + g);

            if (k3_log_qualifies(pair)) {
                k3_log_encode_group(pair, runs[i], to);
            } else {
                k3_log_store_run(to, runs[i]);
            }
        }
    }
}

/* --- and back -------------------------------------------------------------------------------- */

/* Nearest bf16 magnitude of a positive number, ties to even, without a stop at f32 between. */
K3_DEVICE uint32_t k3_log_magnitude(double value)
{
    uint64_t bits;

    if (value < 0x1p-126) { /* multiples of the smallest, rounded by the adder */
        return (uint32_t)(value * 0x1p133 + 0x1p52 - 0x1p52);
    }
    bits = k3_as_bits64(value);
    bits += ((uint64_t)1 << 44) - 1 + (bits >> 45 & 1);
    return (uint32_t)(bits >> 45) - ((1023u - 127u) << 7);
}

/* Word `number` of those that a warp holds: the first of each lane, then the second ones. */
K3_DEVICE uint32_t k3_log_word(uint32_t first, uint32_t second, unsigned number)
{
    uint32_t a = k3_shuffle(first, number % k3_warp);

    if (k3_warp < k3_log_coded) {
        uint32_t b = k3_shuffle(second, number % k3_warp);

        return number < k3_warp ? a : b;
    }
    return a;
}

/* This lane's values of a group in a message. Powers come from two tables, of 32 steps and of single ones, which lie
 * in the lanes. */
K3_DEVICE uint64_t k3_log_decode_run(uint32_t pair, const uint32_t *in)
{
    constexpr unsigned fine_steps = 32;
    k3_log_scale       s = k3_log_scale_of(pair);
    unsigned           lane = k3_lane(), in_pack = lane % k3_log_lanes;
    unsigned           at = 16 + 9 * k3_log_run * in_pack, pack = lane / k3_log_lanes * k3_log_pack;
    unsigned           word = pack + at / 32;
    double             coarse = k3_exp2(s.low + (double)(lane * fine_steps) * s.step);
    double             fine = k3_exp2((double)lane * s.step);
    uint32_t           first = lane < k3_log_coded ? k3_load(in + lane) : 0, second = 0, signs;
    uint64_t           codes, run = 0;

    if (k3_warp < k3_log_coded && lane + k3_warp < k3_log_coded) {
        second = k3_load(in + k3_warp + lane);
    }
    signs = k3_log_word(first, second, pack) >> (in_pack * k3_log_run);
    codes = k3_log_word(first, second, word);
    codes |= (uint64_t)k3_log_word(first, second, word + 1 < k3_log_coded ? word + 1 : word) << 32;
    codes >>= at % 32;
#pragma unroll
    for (unsigned i = 0; i < k3_log_run; i++) {
        uint32_t code = (uint32_t)(codes >> 9 * i) & k3_log_code_max;
        uint32_t steps = code == 0 ? 0 : code - 1;
        double   power =
            k3_shuffle(coarse, steps / fine_steps) * k3_shuffle(fine, steps % fine_steps);
        uint32_t value = code == 0 ? 0 : k3_log_magnitude(power);

        run |= (uint64_t)(value | (signs >> i & 1u) << 15) << 16 * i;
    }
    return run;
}

/* A block for each row. Where groups begin follows from the pairs in front of them. */
K3_KERNEL k3_combine_log(k3_gpu_log_combine_t a)
{
    constexpr unsigned room = k3_log_parts * (k3_log_groups + 1);
    uint32_t           groups = a.width / k3_log_group, row = k3_block(0);
    uint32_t           pitch = groups | 1u; /* odd: parts begin in different banks */
    uint32_t          *out = (uint32_t *)(a.out + (uint64_t)row * a.width);

    K3_SHARED(const uint32_t *, parts, k3_log_parts);
    K3_SHARED(float, weights, k3_log_parts);
    K3_SHARED(uint32_t, pairs, room);
    K3_SHARED(uint16_t, begins, room); /* words */
    if (k3_thread() < a.k) {
        uint64_t at = (uint64_t)row * a.k + k3_thread();

        k3_store(parts + k3_thread(), (const uint32_t *)k3_load(a.parts + at));
        k3_store(weights + k3_thread(), k3_load(a.weights + at));
    }
    k3_barrier();
    for (unsigned i = k3_thread(); i < a.k * groups; i += k3_threads) {
        const uint32_t *part = k3_load(parts + i / groups);

        if (part != nullptr) {
            k3_store(pairs + i / groups * pitch + i % groups, k3_load(part + i % groups));
        }
    }
    k3_barrier();
    if (k3_thread() < a.k && k3_load(parts + k3_thread()) != nullptr) {
        uint32_t at = groups, first = k3_thread() * pitch;

        for (unsigned g = 0; g < groups; g++) {
            k3_store(begins + first + g, (uint16_t)at);
            at += k3_log_words(k3_load(pairs + first + g));
        }
    }
    k3_barrier();
    for (unsigned g = k3_thread() / k3_warp; g < groups; g += k3_warps) {
        float    sum[k3_log_run] = {};
        uint64_t run = 0;

        for (unsigned i = 0; i < a.k; i++) {
            const uint32_t *part = k3_load(parts + i);

            if (part != nullptr) {
                uint32_t        pair = k3_load(pairs + i * pitch + g);
                const uint32_t *from = part + k3_load(begins + i * pitch + g);
                uint64_t        values =
                    k3_log_qualifies(pair) ? k3_log_decode_run(pair, from) : k3_log_load_run(from);
                float weight = k3_load(weights + i);

                for (unsigned j = 0; j < k3_log_run; j++) {
                    sum[j] += weight * k3_gpu_bf16(k3_log_value(values, j));
                }
            }
        }
        for (unsigned j = 0; j < k3_log_run; j++) {
            run |= (uint64_t)k3_gpu_to_bf16(sum[j]) << 16 * j;
        }
        k3_log_store_run(out + g * k3_log_raw, run);
    }
}

#endif
