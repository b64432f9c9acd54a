/* Rows to formats and back, equal to kernels/cpu/scalar_formats.c bit for bit (but for the payload
 * of a NaN). */
#include "kernels/cpu/neon.h"

#if defined(__aarch64__)

enum {
    STEP = 32,      /* values done at a time: a group of mxfp8 and mxfp4 */
    GROUP_MAX = 128 /* values of the largest group */
};

/* --- encode ----------------------------------------------------------------------------------- */

K3_NEON_INLINE uint16x8_t magnitudes(uint16x8_t bf16)
{
    return vandq_u16(bf16, vdupq_n_u16(0x7fff));
}

/* The largest magnitude of whole steps as bits; 0x7f80 and above: there is an Inf or NaN. */
static uint16_t largest(const uint16_t *row, size_t n)
{
    uint16x8_t a = vdupq_n_u16(0), b = a, c = a, d = a;

    for (size_t i = 0; i < n; i += STEP) {
        a = vmaxq_u16(a, magnitudes(vld1q_u16(row + i)));
        b = vmaxq_u16(b, magnitudes(vld1q_u16(row + i + 8)));
        c = vmaxq_u16(c, magnitudes(vld1q_u16(row + i + 16)));
        d = vmaxq_u16(d, magnitudes(vld1q_u16(row + i + 24)));
    }
    return vmaxvq_u16(vmaxq_u16(vmaxq_u16(a, b), vmaxq_u16(c, d)));
}

/* Where a format's steps stop getting finer. */
typedef struct k3_code_kind {
    k3_format_t format;
    float       first; /* normal number */
    float       step;  /* adding it rounds to the even steps below */
} k3_code_kind_t;

static const k3_code_kind_t e4m3 = {K3_FORMAT_FP8, 0x1p-6f, 0x1p14f};
static const k3_code_kind_t e2m1 = {K3_FORMAT_MXFP4, 1.0f, 0x1p22f};

/* Codes of 4 magnitudes, none of them NaN: to nearest, ties to even. The scales for e4m3 let nothing
 * beyond its largest number. */
K3_NEON_INLINE uint32x4_t codes_of(k3_code_kind_t kind, float32x4_t value)
{
    float32x4_t step = vdupq_n_f32(kind.step);
    uint32x4_t  bits = vreinterpretq_u32_f32(value), one = vdupq_n_u32(1), normal, small;

    small = vsubq_u32(vreinterpretq_u32_f32(vaddq_f32(value, step)), vreinterpretq_u32_f32(step));
    if (kind.format == K3_FORMAT_MXFP4) {
        bits = vaddq_u32(bits, vandq_u32(vshrq_n_u32(bits, 22), one));
        normal = vshrq_n_u32(vaddq_u32(bits, vdupq_n_u32(0x1fffff)), 22);
        normal = vminq_u32(vsubq_u32(normal, vdupq_n_u32(126 << 1)), vdupq_n_u32(7));
    } else {
        bits = vaddq_u32(bits, vandq_u32(vshrq_n_u32(bits, 20), one));
        normal = vshrq_n_u32(vaddq_u32(bits, vdupq_n_u32(0x7ffff)), 20);
        normal = vsubq_u32(normal, vdupq_n_u32(120 << 3));
    }
    return vbslq_u32(vcltq_f32(value, vdupq_n_f32(kind.first)), small, normal);
}

/* The scale's inverse is exact where it is a power of two; else values are divided by the scale. */
K3_NEON_INLINE float32x4_t scaled(k3_format_t format, float32x4_t value, float by)
{
    return format == K3_FORMAT_FP8 ? vdivq_f32(value, vdupq_n_f32(by))
                                   : vmulq_f32(value, vdupq_n_f32(by));
}

K3_NEON_INLINE uint16x8_t codes8(k3_format_t format, uint16x8_t row, float by)
{
    k3_code_kind_t kind = format == K3_FORMAT_MXFP4 ? e2m1 : e4m3;
    k3_f32x8_t     value = k3_widen(magnitudes(row));
    uint32x4_t     low = codes_of(kind, scaled(format, value.low, by));
    uint32x4_t     high = codes_of(kind, scaled(format, value.high, by));

    return vuzp1q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
}

/* 16 codes with signs. */
K3_NEON_INLINE uint8x16_t codes16(k3_format_t format, const uint16_t *row, float by)
{
    uint16x8_t a = vld1q_u16(row), b = vld1q_u16(row + 8);
    uint8x16_t codes = vuzp1q_u8(vreinterpretq_u8_u16(codes8(format, a, by)),
                                 vreinterpretq_u8_u16(codes8(format, b, by)));
    uint8x16_t sign = vuzp2q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b));

    sign = vandq_u8(sign, vdupq_n_u8(0x80));
    return vorrq_u8(codes, format == K3_FORMAT_MXFP4 ? vshrq_n_u8(sign, 4) : sign);
}

K3_NEON_INLINE void encode_step(k3_format_t format, const uint16_t *row, float by, uint8_t *codes)
{
    uint8x16_t a = codes16(format, row, by), b = codes16(format, row + 16, by);

    if (format == K3_FORMAT_MXFP4) {
        vst1q_u8(codes, vsliq_n_u8(vuzp1q_u8(a, b), vuzp2q_u8(a, b), 4));
        return;
    }
    vst1q_u8(codes, a);
    vst1q_u8(codes + 16, b);
}

/* Stores the scale of a group and returns what its values are divided or multiplied by. */
K3_NEON_INLINE float scale_of(k3_format_t format, uint16_t max, uint8_t *to)
{
    float amax = k3_bf16_to_f32(max), scale;
    int   code;

    if (format == K3_FORMAT_FP8) {
        scale = (amax < 1e-4f ? 1e-4f : amax) / 448.0f;
        memcpy(to, &scale, sizeof scale);
        return scale;
    }
    code = format == K3_FORMAT_MXFP8 ? (max >> 7) - 8 + ((max & 0x7f) > 0x60) : (max >> 7) - 2;
    *to = (uint8_t)(code < 0 ? 0 : code);
    return 1.0f / k3_e8m0_to_f32(*to);
}

K3_NEON_INLINE void encode_group(k3_format_t format, const uint16_t *row, size_t group,
                                 uint8_t *codes, uint8_t *scale)
{
    uint16_t max = largest(row, group);
    float    by;

    if (max >= 0x7f80) {
        k3_scalar_encode(format, row, group, codes, scale);
        return;
    }
    by = scale_of(format, max, scale);
    for (size_t i = 0; i < group; i += STEP) {
        encode_step(format, row + i, by, codes + (format == K3_FORMAT_MXFP4 ? i / 2 : i));
    }
}

K3_NEON_INLINE void encode_groups(k3_format_t format, size_t group, const uint16_t *row, size_t n,
                                  uint8_t *codes, uint8_t *scales)
{
    size_t scale_bytes = format == K3_FORMAT_FP8 ? sizeof(float) : 1, i = 0;

    for (; i + group <= n; i += group) {
        encode_group(format, row + i, group, codes, scales);
        codes += format == K3_FORMAT_MXFP4 ? group / 2 : group;
        scales += scale_bytes;
    }
    if (i < n) { /* a last group, in a copy with zeros behind */
        uint16_t values[GROUP_MAX] = {0};
        uint8_t  all_codes[GROUP_MAX];

        memcpy(values, row + i, sizeof *row * (n - i));
        encode_group(format, values, group, all_codes, scales);
        memcpy(codes, all_codes, format == K3_FORMAT_MXFP4 ? (n - i + 1) / 2 : n - i);
    }
}

K3_NEON_INLINE int16x4_t to_int8_range(float32x4_t value, float32x4_t scale)
{
    value = vdivq_f32(value, scale);
    value = vmaxq_f32(value, vdupq_n_f32(-127.0f));
    return vmovn_s32(vcvtnq_s32_f32(vminq_f32(value, vdupq_n_f32(127.0f))));
}

static void encode_int8(const uint16_t *row, size_t n, uint8_t *codes, void *scales)
{
    size_t      whole = n / STEP * STEP;
    uint16_t    max = largest(row, whole);
    float       scale;
    float32x4_t by;

    for (size_t i = whole; i < n; i++) {
        uint16_t magnitude = row[i] & 0x7fff;

        max = magnitude > max ? magnitude : max;
    }
    if (max >= 0x7f80) {
        k3_scalar_encode(K3_FORMAT_INT8, row, n, codes, scales);
        return;
    }
    scale = max == 0 ? 1.0f : k3_bf16_to_f32(max) / 127.0f;
    memcpy(scales, &scale, sizeof scale);
    by = vdupq_n_f32(scale);
    for (size_t i = 0; i < n; i += 8) {
        k3_f32x8_t value = k3_load_bf16(row + i, n - i);
        int16x8_t  wide = vcombine_s16(to_int8_range(value.low, by), to_int8_range(value.high, by));
        int8x8_t   bytes = vmovn_s16(wide);

        memcpy(codes + i, &bytes, n - i < 8 ? n - i : 8);
    }
}

void k3_neon_encode(k3_format_t format, const uint16_t *row, size_t n, void *values, void *scales)
{
    switch (format) {
    case K3_FORMAT_FP8:
        encode_groups(K3_FORMAT_FP8, 128, row, n, values, scales);
        break;
    case K3_FORMAT_MXFP8:
        encode_groups(K3_FORMAT_MXFP8, 32, row, n, values, scales);
        break;
    case K3_FORMAT_MXFP4:
        encode_groups(K3_FORMAT_MXFP4, 32, row, n, values, scales);
        break;
    case K3_FORMAT_INT8:
        encode_int8(row, n, values, scales);
        break;
    default:
        k3_scalar_encode(format, row, n, values, scales);
        break;
    }
}

/* --- decode ----------------------------------------------------------------------------------- */

K3_NEON_INLINE void store_scaled(float *out, k3_f32x8_t value, float scale)
{
    float32x4_t factor = vdupq_n_f32(scale);

    vst1q_f32(out, vmulq_f32(value.low, factor));
    vst1q_f32(out + 4, vmulq_f32(value.high, factor));
}

K3_NEON_INLINE void decode_e4m3(const uint8_t *codes, float scale, float *out)
{
    for (size_t i = 0; i < STEP; i += 8) {
        store_scaled(out + i, k3_e4m3_widen(vld1_u8(codes + i)), scale);
    }
}

K3_NEON_INLINE void decode_int8(const uint8_t *codes, float scale, float *out)
{
    for (size_t i = 0; i < STEP; i += 8) {
        int16x8_t  wide = vmovl_s8(vreinterpret_s8_u8(vld1_u8(codes + i)));
        k3_f32x8_t value = {vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))),
                            vcvtq_f32_s32(vmovl_high_s16(wide))};

        store_scaled(out + i, value, scale);
    }
}

/* The bytes of the bf16 values of codes 0 to 15, by table. */
K3_NEON_INLINE void decode_e2m1(const uint8_t *codes, float scale, float *out)
{
    static const uint8_t low[16] = {0, 0, 0x80, 0xc0, 0, 0x40, 0x80, 0xc0,
                                    0, 0, 0x80, 0xc0, 0, 0x40, 0x80, 0xc0};
    static const uint8_t high[16] = {0,    0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40,
                                     0x80, 0xbf, 0xbf, 0xbf, 0xc0, 0xc0, 0xc0, 0xc0};
    uint8x16_t           packed = vld1q_u8(codes);
    uint8x16_t           even = vandq_u8(packed, vdupq_n_u8(15)), odd = vshrq_n_u8(packed, 4);
    uint8x16_t           parts[2] = {vzip1q_u8(even, odd), vzip2q_u8(even, odd)};

    for (size_t p = 0; p < 2; p++) {
        uint8x16_t a = vqtbl1q_u8(vld1q_u8(low), parts[p]);
        uint8x16_t b = vqtbl1q_u8(vld1q_u8(high), parts[p]);

        store_scaled(out + 16 * p, k3_widen(vreinterpretq_u16_u8(vzip1q_u8(a, b))), scale);
        store_scaled(out + 16 * p + 8, k3_widen(vreinterpretq_u16_u8(vzip2q_u8(a, b))), scale);
    }
}

K3_NEON_INLINE void decode_bf16(const uint8_t *values, float *out)
{
    for (size_t i = 0; i < STEP; i += 8) {
        k3_f32x8_t value = k3_widen(vreinterpretq_u16_u8(vld1q_u8(values + 2 * i)));

        vst1q_f32(out + i, value.low);
        vst1q_f32(out + i + 4, value.high);
    }
}

K3_NEON_INLINE float f32_at(const void *scales, size_t i)
{
    float scale;

    memcpy(&scale, (const char *)scales + i * sizeof scale, sizeof scale);
    return scale;
}

/* Values i to i + STEP. */
K3_NEON_INLINE void decode_step(k3_format_t format, const uint8_t *values, const void *scales,
                                size_t i, float *out)
{
    switch (format) {
    case K3_FORMAT_FP8:
        decode_e4m3(values + i, f32_at(scales, i / 128), out);
        break;
    case K3_FORMAT_MXFP8:
        decode_e4m3(values + i, k3_e8m0_to_f32(((const uint8_t *)scales)[i / 32]), out);
        break;
    case K3_FORMAT_MXFP4:
        decode_e2m1(values + i / 2, k3_e8m0_to_f32(((const uint8_t *)scales)[i / 32]), out);
        break;
    case K3_FORMAT_INT8:
        decode_int8(values + i, f32_at(scales, 0), out);
        break;
    default:
        decode_bf16(values + 2 * i, out);
        break;
    }
}

void k3_neon_decode(k3_format_t format, const void *values, const void *scales, size_t n,
                    float *out)
{
    size_t i = 0, scale = 0;

    for (; i + STEP <= n; i += STEP) {
        decode_step(format, values, scales, i, out + i);
    }
    if (i == n) {
        return;
    }
    scale = format == K3_FORMAT_FP8    ? i / 128 * sizeof(float)
            : format == K3_FORMAT_INT8 ? 0
                                       : i / 32;
    k3_scalar_decode(format, (const uint8_t *)values + k3_format_value_bytes(format, i),
                     scales == NULL ? NULL : (const uint8_t *)scales + scale, n - i, out + i);
}

#endif
