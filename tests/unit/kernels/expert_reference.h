/* The expert MLP in f64, written apart from the kernels: own codecs by search, own order of steps.
 */
#ifndef K3_TESTS_KERNELS_EXPERT_REFERENCE_H
#define K3_TESTS_KERNELS_EXPERT_REFERENCE_H

#include "support.h"

static inline double reference_e4m3(unsigned code)
{
    double magnitude = (code & 0x78) == 0 ? ldexp(code & 7, -9)
                                          : ldexp(8 + (code & 7), (int)(code >> 3 & 15) - 10);

    return (code & 0x80) != 0 ? -magnitude : magnitude;
}

static inline double reference_e2m1(unsigned code)
{
    static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

    return (code & 8) != 0 ? -values[code & 7] : values[code & 7];
}

/* To the nearest of values 0 .. last of a format, even code at a tie. */
static inline double nearest(double value, double (*of)(unsigned), unsigned last)
{
    double   magnitude = fabs(value);
    unsigned best = 0;

    for (unsigned code = 1; code <= last; code++) {
        double gain = fabs(of(best) - magnitude) - fabs(of(code) - magnitude);

        if (gain > 0 || (gain == 0 && code % 2 == 0)) {
            best = code;
        }
    }
    return copysign(of(best), value);
}

static inline double reference_bf16(double value)
{
    int    exponent;
    double fraction = frexp(value, &exponent);

    return value == 0 ? 0 : ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
}

/* One group of bf16 values through a format. */
static inline void reference_group(k3_format_t format, double *row, size_t n)
{
    double amax = 0, scale;

    for (size_t i = 0; i < n; i++) {
        amax = fmax(amax, fabs(row[i]));
    }
    if (format == K3_FORMAT_FP8) {
        scale = (double)(float)(fmax(amax, (double)1e-4f) / 448);
    } else if (format == K3_FORMAT_INT8) {
        scale = amax == 0 ? 1 : (double)(float)(amax / 127);
    } else if (format == K3_FORMAT_MXFP8) {
        scale = amax == 0 ? 1 : exp2(ceil(log2(amax / 448)));
    } else {
        scale = amax == 0 ? 1 : exp2(floor(log2(amax)) - 2);
    }
    for (size_t i = 0; i < n; i++) {
        double value = (double)(float)(row[i] / scale);

        if (format == K3_FORMAT_INT8) {
            row[i] = nearbyint(value) * scale;
        } else if (format == K3_FORMAT_MXFP4) {
            row[i] = nearest(value, reference_e2m1, 7) * scale;
        } else {
            row[i] = nearest(value, reference_e4m3, 0x7e) * scale;
        }
    }
}

static inline void reference_format(k3_format_t format, double *row, size_t n)
{
    size_t group = format == K3_FORMAT_INT8 ? n : k3_format_group(format);

    for (size_t i = 0; format != K3_FORMAT_BF16 && i < n; i += group) {
        reference_group(format, row + i, n - i < group ? n - i : group);
    }
}

static inline double reference_weight(k3_weight_format_t format, const uint8_t *values,
                                      const void *scales, size_t columns, size_t i, size_t k)
{
    if (format == K3_WEIGHT_MXFP4) {
        unsigned code = values[(i * columns + k) / 2] >> (k % 2 * 4) & 15;

        return ldexp(reference_e2m1(code),
                     ((const uint8_t *)scales)[i * (columns / 32) + k / 32] - 127);
    }
    return reference_e4m3(values[i * columns + k]) *
           (double)((const float *)scales)[i / 128 * ((columns + 127) / 128) + k / 128];
}

/* A decoded matrix, to be freed. */
static inline double *reference_matrix(k3_weight_format_t format, const uint8_t *values,
                                       const void *scales, size_t rows, size_t columns)
{
    double *matrix = block(sizeof *matrix * rows * columns);

    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < columns; k++) {
            matrix[i * columns + k] = reference_weight(format, values, scales, columns, i, k);
        }
    }
    return matrix;
}

static inline void reference_gemv(const double *w, size_t rows, size_t columns, const double *x,
                                  double *y)
{
    for (size_t i = 0; i < rows; i++) {
        y[i] = 0;
        for (size_t k = 0; k < columns; k++) {
            y[i] += w[i * columns + k] * x[k];
        }
    }
}

static inline double reference_act(k3_activation_t activation, double g, double u)
{
    double s = 1 / (1 + exp(-g));

    return activation == K3_ACT_SWIGLU ? g * s * u : 4 * tanh(g / 4) * s * 25 * tanh(u / 25);
}

/* w1, w3, w2 in f64. */
typedef struct k3_reference {
    double *w1, *w3, *w2;
} k3_reference_t;

static inline k3_reference_t reference_make(const k3_expert_shape_t   *shape,
                                            const k3_expert_weights_t *w)
{
    size_t         latent = shape->latent, inter = shape->inter;
    k3_reference_t reference;

    reference.w1 = reference_matrix(shape->weights, w->w1, w->w1_scale, inter, latent);
    reference.w3 = reference_matrix(shape->weights, w->w3, w->w3_scale, inter, latent);
    reference.w2 = reference_matrix(shape->weights, w->w2, w->w2_scale, latent, inter);
    return reference;
}

static inline void reference_drop(k3_reference_t *reference)
{
    free(reference->w1);
    free(reference->w3);
    free(reference->w2);
}

/* One row; recipe NULL: no rounding at all. `arrived` values are those of the row as it arrived,
 * `weight` goes on the activation's output. */
static inline void reference_expert(const k3_expert_shape_t *shape, const k3_recipe_t *recipe,
                                    const k3_reference_t *w, k3_format_t format,
                                    const double *arrived, double weight, double *out)
{
    size_t  latent = shape->latent, inter = shape->inter;
    double *x = block(sizeof *x * latent), *g = block(sizeof *g * inter),
           *u = block(sizeof *u * inter);

    memcpy(x, arrived, sizeof *x * latent);
    if (recipe != NULL && format != recipe->input) {
        for (size_t i = 0; i < latent; i++) {
            x[i] = reference_bf16(x[i]);
        }
        reference_format(recipe->input, x, latent);
    }
    reference_gemv(w->w1, inter, latent, x, g);
    reference_gemv(w->w3, inter, latent, x, u);
    for (size_t i = 0; i < inter; i++) {
        bool round = recipe != NULL && recipe->round_gate_up;

        g[i] = reference_act(shape->activation, round ? reference_bf16(g[i]) : g[i],
                             round ? reference_bf16(u[i]) : u[i]) *
               weight;
        g[i] = recipe != NULL ? reference_bf16(g[i]) : g[i];
    }
    if (recipe != NULL) {
        reference_format(recipe->middle, g, inter);
    }
    reference_gemv(w->w2, latent, inter, g, out);
    for (size_t i = 0; recipe != NULL && i < latent; i++) {
        out[i] = reference_bf16(out[i]);
    }
    free(x);
    free(g);
    free(u);
}

#endif
