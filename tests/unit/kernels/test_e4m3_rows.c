/* Rows to e4m3 and E2M1 where groups of all kinds meet: ties, subnormal codes, zeros, what is not finite. */
#include "formats.h"

/* The smallest scales of mxfp8 and mxfp4 and values of every binade below the largest, subnormal ones too. */
static void test_vector_smallest_scales(void **state)
{
    const k3_kernels_t *vector = vector_or_skip();
    uint16_t            row[128];

    (void)state;
    for (unsigned largest = 0; largest < 0x0a00; largest++) {
        row[0] = (uint16_t)largest;
        for (unsigned i = 1; i < 128; i++) {
            row[i] = (uint16_t)((i % 32 == 0 ? largest : largest * i / 131) | (i & 1) << 15);
        }
        compare(vector, K3_FORMAT_FP8, row, 128);
        compare(vector, K3_FORMAT_MXFP8, row, 128);
        compare(vector, K3_FORMAT_MXFP4, row, 128);
    }
}

/* Middles between two e4m3 numbers go to the even code, in each group of a step over several. */
static void test_ties(void **state)
{
    (void)state;
    for (size_t isa = 0; k3_kernels_isa_names[isa] != NULL; isa++) {
        const k3_kernels_t *kernels = k3_kernels_cpu(k3_kernels_isa_names[isa]);

        for (unsigned code = 0; kernels != NULL && code < 0x7e; code++) {
            double   middle = (e4m3_value(code) + e4m3_value(code + 1)) / 2;
            unsigned even = code + (code & 1);
            uint16_t row[512] = {0};
            uint8_t  codes[512];
            float    scales[16];

            for (unsigned i = 0; i < 512; i += 32) { /* a scale of 2^n for every group */
                double scale = ldexp(1, (int)(i / 128) - 2);

                row[i] = bf16((float)(-448 * scale));
                row[i + 1 + code % 31] = bf16((float)(middle * scale));
            }
            for (k3_format_t format = K3_FORMAT_FP8; format <= K3_FORMAT_MXFP8; format++) {
                kernels->encode(format, row, 512, codes, scales);
                for (unsigned i = 0; i < 512; i++) {
                    unsigned expected = i % 32 == 0 ? 0xfe : i % 32 == 1 + code % 31 ? even : 0;

                    assert_int_equal(codes[i], expected);
                }
            }
        }
    }
}

/* A group of one kind: zeros of both signs, one value with a subnormal code, below 1e-4, subnormal
 * values, not finite, or plain. */
static void fill_group(uint64_t *seed, uint16_t *row, size_t n)
{
    unsigned kind = next_random(seed) % 8;
    double   scale = kind == 3 ? 1e-5 : kind == 4 ? 1e-38 : ldexp(1, (int)(next_random(seed) % 40));

    for (size_t i = 0; i < n; i++) {
        double value = random_value(seed);

        value = kind == 6 ? value * value * value * value * value * value : value;
        row[i] = bf16((float)(value * scale));
        row[i] = kind == 1 || (kind == 2 && i % 3 == 0) ? row[i] & 0x8000 : row[i];
    }
    if (kind == 2 || kind == 7) {
        row[next_random(seed) % n] = bf16((float)(random_value(seed) * scale / 40000));
    } else if (kind == 5) {
        row[next_random(seed) % n] = (uint16_t)(0x7f80 + next_random(seed) % 128);
    }
}

/* Groups of all kinds side by side, rows of any length. */
static void test_vector_mixed_groups(void **state)
{
    const k3_kernels_t *vector = vector_or_skip();
    uint64_t            seed = 7;

    (void)state;
    for (int repeat = 0; repeat < 6000 / THINNED; repeat++) {
        size_t    n = 1 + next_random(&seed) % 1300, group = repeat % 2 == 0 ? 128 : 32;
        uint16_t *row = block(sizeof *row * n);

        for (size_t i = 0; i < n; i += group) {
            fill_group(&seed, row + i, n - i < group ? n - i : group);
        }
        compare(vector, K3_FORMAT_FP8, row, n);
        compare(vector, K3_FORMAT_MXFP8, row, n);
        compare(vector, K3_FORMAT_MXFP4, row, n / 2 * 2);
        free(row);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector_smallest_scales),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_vector_mixed_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
