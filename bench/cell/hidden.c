#include "bench/cell/hidden.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "bench/cell/npy.h"
#include "harness/base/digest.h"
#include "harness/base/memory.h"

/* An expert multiplies two sums over a row with each other and sums that again: of values beyond this f32, the
 * type of all recipes' sums, would not hold it. States of models are many orders of magnitude smaller. */
static const double largest = 1e12;

struct k3_hidden {
    char     *path;
    uint64_t  rows, width;
    uint16_t *values; /* bf16 */
};

static uint16_t bf16_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* Exact: every half is a float. */
static float float_of_half(uint16_t half)
{
    int   exponent = half >> 10 & 31, fraction = half & 1023;
    float size = exponent == 0    ? ldexpf((float)fraction, -24)
                 : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                  : ldexpf((float)(1024 + fraction), exponent - 25);

    return (half & 0x8000) != 0 ? -size : size;
}

static float float_of_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float    value;

    memcpy(&value, &wide, sizeof(value));
    return value;
}

/* Value i, exact; it may be anything. */
static float value_at(const k3_npy_t *a, uint64_t i)
{
    switch (a->type) {
    case K3_NPY_U16:
        return float_of_bf16(((const uint16_t *)a->data)[i]);
    case K3_NPY_F32:
        return ((const float *)a->data)[i];
    default:
        return float_of_half(((const uint16_t *)a->data)[i]);
    }
}

static k3_status_t check_form(const char *path, const k3_npy_t *a, k3_error_t *err)
{
    if (a->type != K3_NPY_F32 && a->type != K3_NPY_F16 && a->type != K3_NPY_U16) {
        return k3_fail(
            err, K3_ERR_USAGE,
            "hidden %s: the elements are neither float32, float16 nor uint16 (bit patterns "
            "of bf16)",
            path);
    }
    if (a->dims != 2) {
        return k3_fail(err, K3_ERR_USAGE, "hidden %s: %u dimensions (hidden states are [rows, H])",
                       path, a->dims);
    }
    return K3_OK;
}

static k3_status_t take_values(const char *path, const k3_npy_t *a, k3_hidden_t *h, k3_error_t *err)
{
    h->rows = a->shape[0];
    h->width = a->shape[1];
    if (k3_alloc("hidden states", h->rows * h->width, sizeof(uint16_t), &h->values, err) != K3_OK ||
        k3_alloc("name of a file", strlen(path) + 1, 1, &h->path, err) != K3_OK) {
        return err->status;
    }
    memcpy(h->path, path, strlen(path));
    for (uint64_t i = 0; i < h->rows * h->width; i++) {
        float value = value_at(a, i);

        if (!isfinite(value) || fabsf(value) > largest) {
            return k3_fail(err, K3_ERR_USAGE,
                           "hidden %s: row %" PRIu64 ", column %" PRIu64
                           ": %g is not between -%g and %g",
                           path, i / h->width, i % h->width, (double)value, largest, largest);
        }
        h->values[i] = bf16_of(value);
    }
    return K3_OK;
}

k3_status_t k3_hidden_open(const char *path, k3_hidden_t **hidden_p, k3_error_t *err)
{
    k3_hidden_t *h;
    k3_npy_t     array;

    *hidden_p = NULL;
    if (k3_npy_read(path, &array, err) != K3_OK) {
        return err->status;
    }
    if (check_form(path, &array, err) == K3_OK &&
        k3_alloc("hidden states", 1, sizeof(*h), &h, err) == K3_OK) {
        if (take_values(path, &array, h, err) == K3_OK) {
            *hidden_p = h;
        } else {
            k3_hidden_close(h);
        }
    }
    k3_npy_free(&array);
    return err->status;
}

void k3_hidden_close(k3_hidden_t *h)
{
    if (h != NULL) {
        k3_free(h->values);
        k3_free(h->path);
        k3_free(h);
    }
}

k3_status_t k3_hidden_match(const k3_hidden_t *h, const k3_model_t *model, uint64_t rows,
                            k3_error_t *err)
{
    if (h->width != model->hidden) {
        return k3_fail(err, K3_ERR_USAGE,
                       "hidden %s: rows of %" PRIu64 " values, model %s has H %u", h->path,
                       h->width, model->name, model->hidden);
    }
    if (h->rows < rows) {
        return k3_fail(err, K3_ERR_USAGE,
                       "hidden %s: %" PRIu64 " rows where %" PRIu64
                       " are needed (the rows of all ranks)",
                       h->path, h->rows, rows);
    }
    return K3_OK;
}

const uint16_t *k3_hidden_row(const k3_hidden_t *h, uint64_t row)
{
    return h->values + row * h->width;
}

const char *k3_hidden_path(const k3_hidden_t *h)
{
    return h->path;
}

uint64_t k3_hidden_rows(const k3_hidden_t *h)
{
    return h->rows;
}

uint64_t k3_hidden_identity(const k3_hidden_t *h, uint64_t rows)
{
    return k3_digest(h->width, h->values, rows * h->width * sizeof(*h->values));
}
