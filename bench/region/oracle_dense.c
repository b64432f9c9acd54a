#include <math.h>
#include <string.h>

#include "bench/region/oracle_codec.h"
#include "bench/region/oracle_internal.h"
#include "harness/mpi/watchdog.h"

/* Four f32 at once: gcc and clang make this of any vector unit. */
typedef float lanes_t __attribute__((vector_size(16)));

static lanes_t load(const float *p)
{
    lanes_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

double k3_oracle_dot32(const float *a, const float *b)
{
    lanes_t s0 = load(a) * load(b) + load(a + 16) * load(b + 16);
    lanes_t s1 = load(a + 4) * load(b + 4) + load(a + 20) * load(b + 20);
    lanes_t s2 = load(a + 8) * load(b + 8) + load(a + 24) * load(b + 24);
    lanes_t s3 = load(a + 12) * load(b + 12) + load(a + 28) * load(b + 28);
    lanes_t s = (s0 + s1) + (s2 + s3);

    return (double)((s[0] + s[1]) + (s[2] + s[3]));
}

double k3_oracle_dot(const float *a, const float *b, size_t n)
{
    double sum = 0.0;
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        sum += k3_oracle_dot32(a + i, b + i);
    }
    for (; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

double k3_oracle_activate(k3_activation_t activation, double gate, double up)
{
    static const double beta = 4.0, lambda = 25.0;
    double              sigmoid = 1.0 / (1.0 + exp(-gate));

    if (activation == K3_ACT_SITU) {
        return beta * tanh(gate / beta) * sigmoid * lambda * tanh(up / lambda);
    }
    return gate * sigmoid * up;
}

k3_oracle_part_t k3_oracle_whole(const k3_model_t *model, k3_tensor_t tensor)
{
    k3_oracle_part_t part = {0};

    k3_tensor_shape(model, tensor, &part.row_end, &part.column_end);
    return part;
}

void k3_oracle_dense_run(k3_oracle_dense_t *dense, k3_tensor_t tensor, k3_oracle_part_t part,
                         size_t n, const float *x, double *out, size_t stride)
{
    size_t columns = part.column_end - part.column_begin;

    for (uint32_t r = part.row_begin; r < part.row_end && n > 0; r++) {
        k3_watchdog_alive();
        k3_source_tensor_row(&dense->source, tensor, r, part.column_begin, part.column_end,
                             dense->bits);
        k3_oracle_bf16_row(dense->bits, columns, dense->row);
        for (size_t i = 0; i < n; i++) {
            out[i * stride + (r - part.row_begin)] =
                k3_oracle_dot(x + i * columns, dense->row, columns);
        }
    }
}

void k3_oracle_dense_load(const k3_measured_row_t *const *rows, const size_t *picked, size_t n,
                          size_t hidden, float *x)
{
    for (size_t p = 0; p < n; p++) {
        k3_oracle_bf16_row(rows[picked[p]]->x, hidden, x + p * hidden);
    }
}
