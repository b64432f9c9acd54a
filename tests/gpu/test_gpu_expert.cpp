/* The expert MLP on the emulated device: each recipe against the scalar kernel and an f64 reference
 * at Kimi-K3 widths and at awkward ones; the weights are read once, in units of 16 bytes. */
#include <algorithm>

#include "machine.h"

struct recipe_case {
    k3_recipe_t        recipe;
    k3_weight_format_t weights;
    k3_format_t        rows; /* as they arrive */
};

static const recipe_case recipes[] = {
    {{"w4a16", K3_FORMAT_BF16, true, K3_FORMAT_BF16}, K3_WEIGHT_MXFP4, K3_FORMAT_BF16},
    {{"w4a8-fp8", K3_FORMAT_FP8, true, K3_FORMAT_FP8}, K3_WEIGHT_MXFP4, K3_FORMAT_FP8},
    {{"w4a8-mxfp8", K3_FORMAT_MXFP8, false, K3_FORMAT_MXFP8}, K3_WEIGHT_MXFP4, K3_FORMAT_MXFP8},
    {{"a4w4", K3_FORMAT_MXFP4, false, K3_FORMAT_MXFP4}, K3_WEIGHT_MXFP4, K3_FORMAT_MXFP4},
    {{"a8-int8", K3_FORMAT_INT8, false, K3_FORMAT_INT8}, K3_WEIGHT_MXFP4, K3_FORMAT_INT8},
    {{"w8a8", K3_FORMAT_FP8, true, K3_FORMAT_FP8}, K3_WEIGHT_FP8_B128, K3_FORMAT_FP8},
};

/* Experts, their rows and everything between, in device memory. */
struct problem {
    k3_expert_shape_t                 shape;
    std::vector<unsigned>             rows; /* of each expert */
    uint32_t                          total = 0;
    uint64_t                          expert_bytes;
    device<uint8_t>                   weights;
    std::vector<k3_gpu_expert_task_t> tasks;

    problem(const k3_expert_shape_t &s, std::vector<unsigned> r)
        : shape(s), rows(r), expert_bytes((k3_expert_layout(&s, nullptr, nullptr) + 63) / 64 * 64),
          weights(expert_bytes * r.size())
    {
        uint64_t seed = s.latent;

        for (size_t i = 0; i < weights.size(); i++) {
            weights[i] = (uint8_t)random_bits(&seed);
        }
        for (uint32_t e = 0; e < rows.size(); e++) {
            fix_scales(e, &seed);
            for (uint32_t done = 0; done < rows[e]; done += K3_GPU_TASK_ROWS) {
                tasks.push_back({e, total + done, std::min(rows[e] - done, k3_task_rows)});
            }
            total += rows[e];
        }
    }

    k3_expert_weights_t expert(uint32_t e)
    {
        k3_expert_weights_t w;

        k3_expert_layout(&shape, weights.data() + e * expert_bytes, &w);
        return w;
    }

    /* Scales near 1/16, and no NaN among the e4m3 codes. */
    void fix_scales(uint32_t e, uint64_t *seed)
    {
        k3_expert_weights_t w = expert(e);
        const void *const   scales[] = {w.w1_scale, w.w3_scale, w.w2_scale};
        uint64_t            each = k3_expert_scale_bytes(&shape) / 3;
        uint8_t            *codes = weights.data() + e * expert_bytes;

        for (const void *s : scales) {
            uint8_t *at = (uint8_t *)s;

            for (uint64_t i = 0; i < each; i++) {
                if (shape.weights == K3_WEIGHT_MXFP4) {
                    at[i] = (uint8_t)(122 + random_bits(seed) % 4);
                } else if (i % 4 == 0) {
                    float value = 0.001f * (1.0f + (float)(random_bits(seed) % 7));

                    memcpy(at + i, &value, 4);
                }
            }
        }
        for (uint64_t i = 0;
             shape.weights == K3_WEIGHT_FP8_B128 && i < k3_expert_value_bytes(&shape); i++) {
            codes[i] = (codes[i] & 0x7f) == 0x7f ? 0x30 : codes[i];
        }
    }
};

static k3_gpu_matrix_t matrix(problem &p, const uint8_t *values, const void *scales)
{
    return {values, (const uint8_t *)scales, p.expert_bytes};
}

/* Rows of a format, with pointers to each. */
struct format_rows {
    uint32_t                width;
    size_t                  values_bytes, stride;
    k3_format_t             format;
    device<uint8_t>         bytes;
    device<const uint8_t *> values, scales;

    format_rows(k3_format_t f, uint32_t n, uint32_t w)
        : width(w), values_bytes((k3_format_value_bytes(f, w) + 15) / 16 * 16),
          stride(values_bytes + (k3_format_scale_bytes(f, w) + 15) / 16 * 16), format(f),
          bytes(n * stride, true), values(n), scales(n)
    {
        for (uint32_t i = 0; i < n; i++) {
            values[i] = bytes.data() + i * stride;
            scales[i] = values[i] + values_bytes;
        }
    }
    k3_gpu_rows_t rows()
    {
        return {format, values.data(), scales.data()};
    }
};

static void start(const std::string &fault)
{
    if (!fault.empty()) {
        print_error("%s\n", fault.c_str());
    }
    assert_true(fault.empty());
}

/* The result of a row by the scalar kernel. */
static void scalar_row(problem &p, const recipe_case &c, uint32_t expert, const void *values,
                       const void *scales, const float *weight, uint16_t *out)
{
    std::vector<char>   work(k3_expert_work_bytes(&p.shape));
    k3_expert_weights_t w = p.expert(expert);

    k3_kernels_cpu("scalar")->expert_mlp(&p.shape, &c.recipe, &w, 1, c.rows, &values, &scales,
                                         weight, &out, work.data());
}

static double distance(const uint16_t *got, const uint16_t *want, size_t n)
{
    double error = 0, norm = 0;

    for (size_t i = 0; i < n; i++) {
        double a = k3_bf16_to_f32(got[i]), b = k3_bf16_to_f32(want[i]);

        error += (a - b) * (a - b);
        norm += b * b;
    }
    assert_true(norm > 0);
    return sqrt(error / norm);
}

static void check_reads(problem &p, unsigned matrices, uint32_t out, uint32_t width,
                        uint64_t row_bytes)
{
    k3_emulator::counts c = k3_emulator::last_counts();
    uint64_t            tiles = (out + k3_tile_rows - 1) / k3_tile_rows;
    uint64_t            weights =
        matrices * (k3_expert_value_bytes(&p.shape) + k3_expert_scale_bytes(&p.shape)) / 3;

    /* Weights once for each task; rows, with pointers, once for each 64 results; the tasks. */
    assert_true(c.read_bytes <= p.tasks.size() * (weights + tiles * 64) * 101 / 100 +
                                    tiles * p.total * (row_bytes + 32 * (width / 64 + 1)));
    assert_true(c.bank_ways <= 2);
}

static void check_recipe(const recipe_case &c, uint32_t latent, uint32_t inter,
                         std::vector<unsigned> rows, k3_activation_t activation, bool weighted)
{
    k3_expert_shape_t  shape = {latent, inter, c.weights, activation};
    problem            p(shape, rows);
    format_rows        x(c.rows, p.total, latent), middle(c.recipe.middle, p.total, inter);
    const size_t       pitch = latent + 2; /* results at multiples of 4 bytes alone */
    device<uint16_t>   activated((size_t)p.total * inter, true), out(p.total * pitch, true);
    device<uint16_t *> out_rows(p.total);
    device<float>      row_weights(p.total);
    device<k3_gpu_expert_task_t> tasks(p.tasks.size());
    k3_expert_weights_t          w = p.expert(0);
    emulated                     machine;
    std::vector<uint16_t>        row(latent), want(latent);
    uint64_t                     seed = inter;

    for (uint32_t i = 0; i < p.total; i++) {
        fill_bf16(row.data(), latent, i * 7 + 1);
        k3_kernels_cpu("scalar")->encode(c.rows, row.data(), latent, (void *)x.values[i],
                                         (void *)x.scales[i]);
        out_rows[p.total - 1 - i] = out.data() + i * pitch;
        row_weights[i] = 0.5f + random_float(&seed) / 4;
    }
    memcpy(tasks.data(), p.tasks.data(), tasks.bytes());

    k3_gpu_gate_up_t gate_up = {(uint32_t)p.tasks.size(),
                                latent,
                                inter,
                                c.weights,
                                activation,
                                c.recipe.round_gate_up,
                                tasks.data(),
                                matrix(p, w.w1, w.w1_scale),
                                matrix(p, w.w3, w.w3_scale),
                                x.rows(),
                                weighted ? row_weights.data() : nullptr,
                                activated.data()};
    k3_gpu_encode_t  encode = {c.recipe.middle,
                               p.total,
                               inter,
                               activated.data(),
                               2ull * inter,
                               middle.bytes.data(),
                               middle.stride,
                               middle.bytes.data() + middle.values_bytes,
                               middle.stride,
                               nullptr,
                               0,
                               0};
    k3_gpu_down_t    down = {
           (uint32_t)p.tasks.size(),    latent,        inter,          c.weights, tasks.data(),
           matrix(p, w.w2, w.w2_scale), middle.rows(), out_rows.data()};

    start(k3_start(machine, gate_up));
    check_reads(p, 2, inter, latent, k3_format_row_bytes(c.rows, latent));
    if (c.recipe.middle == K3_FORMAT_BF16) {
        memcpy(middle.bytes.data(), activated.data(), activated.bytes());
    } else {
        start(k3_start(machine, encode));
    }
    start(k3_start(machine, down));
    check_reads(p, 1, latent, inter, k3_format_row_bytes(c.recipe.middle, inter));
    for (uint32_t e = 0, i = 0; e < rows.size(); e++) {
        for (uint32_t r = 0; r < rows[e]; r++, i++) {
            if (r > 2 && r + 1 < rows[e]) {
                continue;
            }
            scalar_row(p, c, e, x.values[i], x.scales[i], weighted ? &row_weights[i] : nullptr,
                       want.data());
            /* Sums differ in their order alone; a rounding point left out moves a row by 7e-3 or more. */
            assert_true(distance(out_rows[i], want.data(), latent) < 1e-4);
        }
    }
}

static void test_recipes(void **state)
{
    (void)state;
    for (const recipe_case &c : recipes) {
        check_recipe(c, 256, 128, {1, 0, 9, 33}, K3_ACT_SITU, true);
        if (c.weights == K3_WEIGHT_MXFP4) { /* tails: no whole chunk, no whole tile */
            check_recipe(c, 160, 96, {3}, K3_ACT_SWIGLU, false);
            check_recipe(c, 32, 32, {1}, K3_ACT_SITU, false);
        }
    }
}

static void test_true_widths(void **state)
{
    (void)state;
    /* Kimi-K3; with 64 lanes, whose operations take the emulator longer, a slice of an expert. */
    check_recipe(recipes[0], 3584, k3_warp == 32 ? 3072 : 256, {2}, K3_ACT_SITU, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipes),
        cmocka_unit_test(test_true_widths),
    };

    return cmocka_run_group_tests_name("gpu expert", tests, NULL, NULL);
}
