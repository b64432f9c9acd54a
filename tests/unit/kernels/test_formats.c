/* Number formats: scalar codecs against their definition, vector code against the scalar one. */
#include "formats.h"

static const double e2m1_values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

static void test_e4m3_codes(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 256; code++) {
        float value = k3_e4m3_to_f32((uint8_t)code);

        if ((code & 0x7f) == 0x7f) {
            assert_true(isnan(value));
            continue;
        }
        assert_true((double)value == e4m3_value(code));
        assert_true((signbit(value) != 0) == ((code & 0x80) != 0));
        assert_int_equal(k3_f32_to_e4m3(value), code);
    }
    assert_true(k3_e4m3_to_f32(0x7e) == 448.0f);
    assert_true(k3_e4m3_to_f32(0x38) == 1.0f);
    assert_true(k3_e4m3_to_f32(0x01) == 0.001953125f);
}

/* Between two neighbours the middle goes to the even code, one bit to either side to the near one.
 */
static void test_e4m3_rounding(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 0x7e; code++) {
        float   middle = (float)((e4m3_value(code) + e4m3_value(code + 1)) / 2);
        uint8_t even = (uint8_t)(code + (code & 1));

        assert_int_equal(k3_f32_to_e4m3(middle), even);
        assert_int_equal(k3_f32_to_e4m3(-middle), 0x80 | even);
        assert_int_equal(k3_f32_to_e4m3(nextafterf(middle, 0)), code);
        assert_int_equal(k3_f32_to_e4m3(nextafterf(middle, 1e9f)), code + 1);
    }
    assert_int_equal(k3_f32_to_e4m3(1e30f), 0x7e);
    assert_int_equal(k3_f32_to_e4m3(-INFINITY), 0xfe);
    assert_int_equal(k3_f32_to_e4m3(NAN), 0x7f);
    assert_int_equal(k3_f32_to_e4m3(1e-40f), 0);
    assert_int_equal(k3_f32_to_e4m3(-0.0f), 0x80);
}

static void test_e2m1(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 16; code++) {
        float value = k3_e2m1_to_f32((uint8_t)code);

        assert_true(fabs((double)value) == e2m1_values[code & 7]);
        assert_true((signbit(value) != 0) == (code >= 8));
        assert_int_equal(k3_f32_to_e2m1(value), code);
        assert_true(k3_e2m1_to_f32((uint8_t)(code | 0xf0)) == value);
    }
    for (unsigned code = 0; code < 7; code++) {
        float middle = (float)((e2m1_values[code] + e2m1_values[code + 1]) / 2);

        assert_int_equal(k3_f32_to_e2m1(middle), code + (code & 1));
        assert_int_equal(k3_f32_to_e2m1(nextafterf(middle, 0)), code);
        assert_int_equal(k3_f32_to_e2m1(nextafterf(middle, 9)), code + 1);
    }
    assert_int_equal(k3_f32_to_e2m1(100.0f), 7);
    assert_int_equal(k3_f32_to_e2m1(-INFINITY), 15);
    assert_int_equal(k3_f32_to_e2m1(NAN), 7);
}

static void test_e8m0(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 255; code++) {
        assert_true((double)k3_e8m0_to_f32((uint8_t)code) == ldexp(1, (int)code - 127));
    }
    assert_true(isnan(k3_e8m0_to_f32(255)));
}

static void test_bf16(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 65536; bits++) {
        float    value = k3_bf16_to_f32((uint16_t)bits), middle;
        uint16_t back = k3_f32_to_bf16(value);

        if (isnan(value)) {
            assert_true(isnan(k3_bf16_to_f32(back)));
            continue;
        }
        assert_int_equal(back, bits);
        if (isinf(value) || (bits & 0x7fff) == 0x7f7f) {
            continue;
        }
        middle = (float)(((double)value + (double)k3_bf16_to_f32((uint16_t)(bits + 1))) / 2);
        assert_int_equal(k3_f32_to_bf16(middle), bits + (bits & 1));
        assert_int_equal(k3_f32_to_bf16(nextafterf(middle, 0)), bits);
        assert_int_equal(k3_f32_to_bf16(nextafterf(middle, 2 * middle)), bits + 1);
    }
    assert_int_equal(k3_f32_to_bf16(3.4e38f), 0x7f80); /* beyond the largest: infinite */
}

static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(k3_format_row_bytes(K3_FORMAT_BF16, 3584), 7168);
    assert_int_equal(k3_format_row_bytes(K3_FORMAT_FP8, 3584), 3696);
    assert_int_equal(k3_format_row_bytes(K3_FORMAT_MXFP8, 3584), 3696);
    assert_int_equal(k3_format_row_bytes(K3_FORMAT_MXFP4, 3584), 1904);
    assert_int_equal(k3_format_row_bytes(K3_FORMAT_INT8, 3584), 3588);
    assert_int_equal(k3_format_scale_bytes(K3_FORMAT_FP8, 64), 4);
    assert_int_equal(k3_format_scale_bytes(K3_FORMAT_FP8, 160), 8);
    assert_int_equal(k3_format_scale_bytes(K3_FORMAT_MXFP4, 33), 2);
    assert_string_equal(k3_format_names[K3_FORMAT_MXFP4], "mxfp4");
    assert_null(k3_format_names[K3_FORMAT_COUNT]);
}

static void check_fp8(const k3_kernels_t *kernels)
{
    uint16_t row[128] = {bf16(224), bf16(-1), bf16(0.5f), bf16(56)};
    uint8_t  codes[128];
    float    scale, out[128];

    kernels->encode(K3_FORMAT_FP8, row, 128, codes, &scale);
    assert_true(scale == 0.5f);
    assert_int_equal(codes[0], 0x7e); /* 448 */
    assert_int_equal(codes[1], 0xc0); /* -2 */
    assert_int_equal(codes[2], 0x38); /* 1 */
    assert_int_equal(codes[3], k3_f32_to_e4m3(112.0f));
    assert_int_equal(codes[4], 0);
    kernels->decode(K3_FORMAT_FP8, codes, &scale, 128, out);
    assert_true(out[0] == 224.0f && out[1] == -1.0f && out[2] == 0.5f && out[3] == 56.0f);

    memset(row, 0, sizeof row);
    kernels->encode(K3_FORMAT_FP8, row, 128, codes, &scale);
    assert_true(scale == 1e-4f / 448.0f);
    assert_int_equal(codes[0], 0);
}

static void check_mx(const k3_kernels_t *kernels)
{
    uint16_t row[32] = {bf16(448), bf16(-1)};
    uint8_t  codes[32], scale;
    float    out[32];

    kernels->encode(K3_FORMAT_MXFP8, row, 32, codes, &scale);
    assert_int_equal(scale, 127); /* 448 just fits */
    assert_int_equal(codes[0], 0x7e);
    assert_int_equal(codes[1], 0xb8);
    row[0] = bf16(450);
    kernels->encode(K3_FORMAT_MXFP8, row, 32, codes, &scale);
    assert_int_equal(scale, 128); /* 225 rounds to 224 */
    assert_int_equal(codes[0], 0x76);

    row[0] = bf16(7); /* floor(log2 7) - 2 = 0, 7 saturates at 6 */
    row[1] = bf16(-1.5f);
    row[2] = bf16(0.25f);
    row[3] = bf16(0.75f);
    kernels->encode(K3_FORMAT_MXFP4, row, 32, codes, &scale);
    assert_int_equal(scale, 127);
    assert_int_equal(codes[0], 0xb7);
    assert_int_equal(codes[1], 0x20);
    kernels->decode(K3_FORMAT_MXFP4, codes, &scale, 32, out);
    assert_true(out[0] == 6.0f && out[1] == -1.5f && out[2] == 0.0f && out[3] == 1.0f);

    memset(row, 0, sizeof row);
    kernels->encode(K3_FORMAT_MXFP4, row, 32, codes, &scale);
    assert_int_equal(scale, 0);
    assert_int_equal(codes[0], 0);
}

static void check_int8(const k3_kernels_t *kernels)
{
    uint16_t row[5] = {bf16(254), bf16(-254), bf16(1), bf16(3), bf16(-7)};
    int8_t   codes[5];
    float    scale, out[5];

    kernels->encode(K3_FORMAT_INT8, row, 5, codes, &scale);
    assert_true(scale == 2.0f);
    assert_int_equal(codes[0], 127);
    assert_int_equal(codes[1], -127);
    assert_int_equal(codes[2], 0); /* 0.5 to even */
    assert_int_equal(codes[3], 2); /* 1.5 to even */
    assert_int_equal(codes[4], -4);
    kernels->decode(K3_FORMAT_INT8, codes, &scale, 5, out);
    assert_true(out[0] == 254.0f && out[4] == -8.0f);
    memset(row, 0, sizeof row);
    kernels->encode(K3_FORMAT_INT8, row, 5, codes, &scale);
    assert_true(scale == 1.0f);
}

static void test_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; k3_kernels_isa_names[i] != NULL; i++) {
        const k3_kernels_t *kernels = k3_kernels_cpu(k3_kernels_isa_names[i]);

        if (kernels != NULL) {
            check_fp8(kernels);
            check_mx(kernels);
            check_int8(kernels);
        }
    }
}

static void test_vector_random(void **state)
{
    static const size_t sizes[] = {2,  8,   14,  16,  18,  30,  32,  34,   62,   64,
                                   96, 126, 128, 130, 160, 192, 288, 1024, 3584, 4096};
    const k3_kernels_t *vector = vector_or_skip();
    uint64_t            seed = 1;

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (k3_format_t format = 0; format < K3_FORMAT_LOGFMT10; format++) {
            for (int exponent = -130; exponent <= 120; exponent += 25) {
                uint16_t *row = random_row(&seed, sizes[s], ldexp(1, exponent));

                compare(vector, format, row, sizes[s]);
                if (format != K3_FORMAT_MXFP4) {
                    compare(vector, format, row, sizes[s] - 1);
                }
                free(row);
            }
        }
    }
}

/* Every bf16 value, its neighbours in the row; with NaN and infinities. */
static void test_vector_all_values(void **state)
{
    const k3_kernels_t *vector = vector_or_skip();
    uint16_t            row[128];

    (void)state;
    for (k3_format_t format = 0; format < K3_FORMAT_LOGFMT10; format++) {
        for (unsigned bits = 0; bits < 65536; bits += 128) {
            for (unsigned i = 0; i < 128; i++) {
                row[i] = (uint16_t)(bits + i);
            }
            compare(vector, format, row, 128);
        }
    }
}

/* The divisor of groups whose largest magnitude is below 1e-4, and values up to there. */
static void test_vector_fixed_divisor(void **state)
{
    const k3_kernels_t *vector = vector_or_skip();
    uint16_t            row[128];

    (void)state;
    for (unsigned bits = 0; bits < bf16(1e-4f); bits++) {
        for (unsigned i = 0; i < 128; i++) {
            row[i] = (uint16_t)(i <= bits ? bits - i : 0);
        }
        compare(vector, K3_FORMAT_FP8, row, 128);
        compare(vector, K3_FORMAT_MXFP8, row, 128);
    }
}

/* Every quotient that can occur: it depends on the two fractions and the difference of the
 * exponents, but for the largest magnitude below 1e-4, where the divisor is fixed (test above). */
static void test_vector_all_quotients(void **state)
{
    const k3_kernels_t *vector = vector_or_skip();
    uint16_t            row[128];

    (void)state;
    for (unsigned largest = 0x3f80; largest < 0x4000; largest += PLACES_STEP) {
        for (unsigned below = 0; below < 24; below++) {
            for (unsigned i = 0; i < 128; i++) {
                unsigned bits = (largest & ~0x7fu) - 128 * below + i;

                row[i] = (uint16_t)((bits < largest ? bits : largest) | (i & 1) << 15);
            }
            row[(largest + below) % 128] = (uint16_t)largest;
            compare(vector, K3_FORMAT_FP8, row, 128);
            compare(vector, K3_FORMAT_MXFP8, row, 128);
            compare(vector, K3_FORMAT_MXFP4, row, 128);
            compare(vector, K3_FORMAT_INT8, row, 128);
        }
    }
}

static void check_decode(const k3_kernels_t *vector, k3_format_t format, const uint8_t *codes,
                         const void *scale)
{
    const k3_kernels_t *scalar = k3_kernels_cpu("scalar");
    float               a[256], b[256];

    scalar->decode(format, codes, scale, 256, a);
    vector->decode(format, codes, scale, 256, b);
    for (unsigned k = 0; k < 256; k++) {
        assert_true((isnan(a[k]) && isnan(b[k])) || memcmp(a + k, b + k, 4) == 0);
    }
}

/* Every code under scales of all kinds, in both; also without NaN, and with one at any place. */
static void test_vector_decode_all_codes(void **state)
{
    const k3_kernels_t *vector = vector_or_skip();
    uint8_t             codes[3][256];
    float               scales[2];

    (void)state;
    for (unsigned i = 0; i < 256; i++) {
        codes[0][i] = (uint8_t)i;
        codes[1][i] = (i & 0x7f) == 0x7f ? 0x7e : (uint8_t)i;
    }
    for (unsigned i = 0; i < 256; i++) {
        uint8_t mx[8];

        memset(mx, (int)i, sizeof mx);
        memcpy(codes[2], codes[1], sizeof codes[1]);
        codes[2][i] = (uint8_t)(0x7f | (i & 1) << 7);
        scales[0] = 1.0f / (float)(i + 3);
        scales[1] = k3_e8m0_to_f32((uint8_t)i) * 1.3f;
        for (k3_format_t format = K3_FORMAT_FP8; format < K3_FORMAT_LOGFMT10; format++) {
            bool is_mx = format == K3_FORMAT_MXFP8 || format == K3_FORMAT_MXFP4;

            for (unsigned kind = 0; kind < 3; kind++) {
                check_decode(vector, format, codes[kind], is_mx ? (const void *)mx : scales);
            }
        }
    }
}

static void test_not_finite(void **state)
{
    static const uint16_t bad[] = {0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81};
    uint8_t               codes[256];
    float                 scales[8], out[256];

    (void)state;
    for (size_t isa = 0; k3_kernels_isa_names[isa] != NULL; isa++) {
        const k3_kernels_t *kernels = k3_kernels_cpu(k3_kernels_isa_names[isa]);

        for (size_t b = 0; kernels != NULL && b < sizeof bad / sizeof *bad; b++) {
            for (k3_format_t format = K3_FORMAT_FP8; format < K3_FORMAT_LOGFMT10; format++) {
                uint16_t row[256];
                size_t   group = format == K3_FORMAT_INT8 ? 256 : k3_format_group(format);

                for (size_t i = 0; i < 256; i++) {
                    row[i] = bf16(1.0f);
                }
                row[5] = bad[b];
                kernels->encode(format, row, 256, codes, scales);
                kernels->decode(format, codes, scales, 256, out);
                for (size_t i = 0; i < 256; i++) {
                    assert_true(i < group ? isnan(out[i]) : out[i] == 1.0f);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_e4m3_codes),
        cmocka_unit_test(test_e4m3_rounding),
        cmocka_unit_test(test_e2m1),
        cmocka_unit_test(test_e8m0),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_vector_random),
        cmocka_unit_test(test_vector_all_values),
        cmocka_unit_test(test_vector_fixed_divisor),
        cmocka_unit_test(test_vector_all_quotients),
        cmocka_unit_test(test_vector_decode_all_codes),
        cmocka_unit_test(test_not_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
