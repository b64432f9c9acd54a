#include "bench/cell/inputs.h"

#include <math.h>
#include <string.h>

#include "harness/base/keyed.h"

/* First word of every key, so that no two kinds of value share random numbers. */
enum { TAG_PARTIAL = 0x70617274, TAG_TENSOR = 0x74656e73, TAG_BIAS = 0x62696173, TAG_EXPERT };

/* Apart from the values' words, which count up from the row's key. */
static const uint64_t scale_salt = UINT64_C(0xa0761d6478bd642f);

/* --- bf16 values on a lattice
 * ----------------------------------------------------------------------
 *
 * value = offset + k * step with an integer |k| <= reach <= 256 and a power of two for the step:
 * exact in bf16, and any f32 sum of such values is exact, so a sum does not depend on its order. */
typedef struct lattice {
    uint32_t reach;
    float    step, offset;
} lattice_t;

enum { BLOCK = 256 };

/* Uniform k has the mean square reach * (reach + 1) / 3. */
static lattice_t lattice_of_rms(double rms)
{
    lattice_t lattice = {.offset = 0.0f};
    int       exponent;
    double    fraction = frexp(rms * sqrt(3.0), &exponent);

    lattice.reach = (uint32_t)(fraction * 256.0);
    lattice.step = (float)ldexp(1.0, exponent - 8);
    return lattice;
}

static uint16_t exact_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

__attribute__((optimize("O3"))) static void lanes_to_bf16(lattice_t lattice, const uint16_t *lanes,
                                                          uint32_t n, uint16_t *restrict out)
{
    uint32_t span = 2 * lattice.reach + 1;

    for (uint32_t i = 0; i < n; i++) {
        int32_t k = (int32_t)(((uint32_t)lanes[i] * span) >> 16) - (int32_t)lattice.reach;

        out[i] = exact_bf16(lattice.offset + (float)k * lattice.step);
    }
}

/* Values [begin, end) of the row of this key: one random word for four values. */
static void lattice_row(uint64_t key, lattice_t lattice, uint32_t begin, uint32_t end,
                        uint16_t *out)
{
    uint64_t words[BLOCK / 4];
    uint16_t lanes[BLOCK];

    for (uint32_t at = begin; at < end; at += BLOCK) {
        uint32_t n = end - at < BLOCK ? end - at : BLOCK;
        uint32_t count = (n + 3) / 4;

        for (uint32_t i = 0; i < count; i++) {
            words[i] = k3_mix(key + at / 4 + i);
        }
        memcpy(lanes, words, (size_t)count * sizeof(words[0]));
        lanes_to_bf16(lattice, lanes, n, out + (at - begin));
    }
}

void k3_input_partial(const k3_model_t *model, uint64_t seed, uint64_t payload, uint64_t row,
                      uint32_t attn_index, uint32_t attn_tp, uint16_t *out)
{
    uint64_t key = k3_key(k3_key(k3_key(k3_key(seed, TAG_PARTIAL), payload), row), attn_index);

    lattice_row(key, lattice_of_rms(1.0 / sqrt((double)attn_tp)), 0, model->hidden, out);
}

/* --- dense tensors --------------------------------------------------------------------------- */

void k3_tensor_shape(const k3_model_t *model, k3_tensor_t tensor, uint32_t *rows, uint32_t *columns)
{
    const uint32_t h = model->hidden, l = model->latent, s = model->shared;
    const uint32_t shapes[K3_TENSOR_COUNT][2] = {
        [K3_TENSOR_GATE] = {model->experts, h}, [K3_TENSOR_LATENT_DOWN] = {l, h},
        [K3_TENSOR_LATENT_NORM] = {1, l},       [K3_TENSOR_LATENT_UP] = {h, l},
        [K3_TENSOR_SHARED_GATE] = {s, h},       [K3_TENSOR_SHARED_UP] = {s, h},
        [K3_TENSOR_SHARED_DOWN] = {h, s},
    };

    *rows = shapes[tensor][0];
    *columns = shapes[tensor][1];
}

/* Rows of unit rms give outputs of unit rms; logits spread by 1.5, so that the weights of a row's
 * experts differ. */
static lattice_t tensor_lattice(k3_tensor_t tensor, uint32_t columns)
{
    if (tensor == K3_TENSOR_LATENT_NORM) {
        return (lattice_t){.reach = 32, .step = 0x1p-7f, .offset = 1.0f}; /* 0.75 to 1.25 */
    }
    return lattice_of_rms((tensor == K3_TENSOR_GATE ? 1.5 : 1.0) / sqrt((double)columns));
}

void k3_tensor_row(const k3_model_t *model, uint64_t seed, k3_tensor_t tensor, uint32_t row,
                   uint32_t begin, uint32_t end, uint16_t *out)
{
    uint64_t key = k3_key(k3_key(k3_key(seed, TAG_TENSOR), tensor), row);
    uint32_t rows, columns;

    k3_tensor_shape(model, tensor, &rows, &columns);
    lattice_row(key, tensor_lattice(tensor, columns), begin, end, out);
}

float k3_router_bias(uint64_t seed, uint32_t expert)
{
    double unit = k3_unit(k3_key(k3_key(seed, TAG_BIAS), expert));

    return (float)(0.04 * (unit - 0.5));
}

/* --- experts
 * ---------------------------------------------------------------------------------------
 *
 * Scales follow the width of the whole matrix, also for a slice of its columns. */

static uint32_t matrix_columns(const k3_model_t *model, k3_expert_matrix_t matrix)
{
    return matrix == K3_MATRIX_W2 ? model->intermediate : model->latent;
}

/* Eight bytes of values for each random word; `keep` and `set` choose the bits of each byte. */
static void random_bytes(uint64_t key, uint32_t first_word, uint32_t words, uint64_t keep,
                         uint64_t set, uint8_t *out)
{
    for (uint32_t i = 0; i < words; i++) {
        uint64_t bits = (k3_mix(key + first_word + i) & keep) | set;

        memcpy(out + (size_t)8 * i, &bits, sizeof(bits));
    }
}

/* All 16 codes of E2M1 alike have the root mean square 2.926, the three exponents add a factor of
 * 1.323: rows of about unit norm. */
static void mxfp4_scales(uint64_t key, uint32_t columns, uint32_t begin, uint32_t end, uint8_t *out)
{
    int      low = 126 + (int)lrint(-log2(2.926 * 1.323 * sqrt((double)columns)));
    uint64_t word = 0;

    for (uint32_t g = begin; g < end; g++) {
        if (g == begin || g % 8 == 0) {
            word = k3_mix(key + g / 8);
        }
        out[g - begin] = (uint8_t)(low + (int)((word >> (8 * (g % 8)) & 255) * 3 >> 8));
    }
}

/* Codes with exponents -3..0 have the root mean square 0.845. */
static void fp8_scales(uint64_t key, uint32_t columns, uint32_t begin, uint32_t end, void *out)
{
    double base = 1.0 / (0.845 * sqrt((double)columns));

    for (uint32_t b = begin; b < end; b++) {
        float scale = (float)(base * (0.75 + 0.5 * k3_unit(k3_mix(key + b))));

        memcpy((char *)out + (size_t)(b - begin) * sizeof(scale), &scale, sizeof(scale));
    }
}

void k3_expert_row(const k3_model_t *model, uint64_t seed, uint32_t expert,
                   k3_expert_matrix_t matrix, uint32_t row, uint32_t begin, uint32_t end,
                   uint8_t *values, void *scales)
{
    uint64_t which = k3_key(k3_key(seed, TAG_EXPERT), (uint64_t)expert << 2 | matrix);
    uint64_t key = k3_key(which, row);
    uint32_t columns = matrix_columns(model, matrix);

    if (model->weights == K3_WEIGHT_MXFP4) {
        random_bytes(key, begin / 16, (end - begin) / 16, UINT64_MAX, 0, values);
        mxfp4_scales(k3_mix(key ^ scale_salt), columns, begin / 32, end / 32, scales);
        return;
    }
    /* Sign, two low exponent bits and fraction are random; the exponent field is 4 to 7. */
    random_bytes(key, begin / 8, (end - begin) / 8, UINT64_C(0x9f9f9f9f9f9f9f9f),
                 UINT64_C(0x2020202020202020), values);
    fp8_scales(k3_key(which ^ scale_salt, row / 128), columns, begin / 128, end / 128, scales);
}

float k3_stand_in_factor(uint32_t expert)
{
    float size = (expert & 1) != 0 ? 1.5f : 1.0f;
    float power = (float)(1u << (expert >> 2 & 3)) * 0.25f;

    return (expert & 2) != 0 ? -size * power : size * power;
}
