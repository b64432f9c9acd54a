#include "bench/cell/routing_weights.h"

#include <math.h>

#include "bench/cell/model.h"
#include "harness/base/keyed.h"
#include "harness/base/memory.h"

enum { BISECTIONS = 30 };

static const double SIGMA_MAX = 64;
static const double TWO_PI = 6.283185307179586;

void k3_weights_zipf(double exponent, uint32_t experts, double *weights)
{
    for (uint32_t p = 0; p < experts; p++) {
        weights[p] = pow((double)p + 1, -exponent);
    }
}

/* The probability that fewer than `topk` places other than `top` have rung by `time`, when the
 * clock of a place rings at an exponential time of rate weight. `some[j]`: probability of exactly
 * j. */
static double few_rang(const double *weights, uint32_t experts, uint32_t topk, uint32_t top,
                       double time)
{
    double some[K3_TOPK_MAX] = {1};
    double sum = 0;

    for (uint32_t p = 0; p < experts; p++) {
        double rang = p == top ? 0 : -expm1(-weights[p] * time);

        for (uint32_t j = topk - 1; j > 0; j--) {
            some[j] += rang * (some[j - 1] - some[j]);
        }
        some[0] -= rang * some[0];
    }
    for (uint32_t j = 0; j < topk; j++) {
        sum += some[j];
    }
    return sum;
}

static uint32_t top_place(const double *weights, uint32_t experts)
{
    uint32_t top = 0;

    for (uint32_t p = 1; p < experts; p++) {
        top = weights[p] > weights[top] ? p : top;
    }
    return top;
}

/* Drawing without replacement in proportion to weights is the order in which exponential clocks
 * ring, so the share is the integral over the top's ringing time t of P(fewer than topk others rang
 * by t). Integrated in steps of log t: from where nearly nothing can have rung to where the top
 * surely has. */
double k3_weights_top_share(const double *weights, uint32_t experts, uint32_t topk)
{
    const double step = exp(0.2), half = exp(0.1);
    uint32_t     top = top_place(weights, experts);
    double       time = 1e-3 * topk / experts;
    double       share = -expm1(-time);

    for (double few = 1; few > 1e-9 && time < 40; time *= step) {
        few = few_rang(weights, experts, topk, top, time * half);
        share += few * (exp(-time) - exp(-time * step));
    }
    return share;
}

static double normal(uint64_t key, uint32_t p)
{
    double radius = sqrt(-2 * log(1 - k3_unit(k3_key(key, 2 * (uint64_t)p))));

    return radius * cos(TWO_PI * k3_unit(k3_key(key, 2 * (uint64_t)p + 1)));
}

static void spread(const double *z, double sigma, uint32_t experts, double *weights)
{
    double top = z[top_place(z, experts)];

    for (uint32_t p = 0; p < experts; p++) {
        weights[p] = exp(sigma * (z[p] - top));
    }
}

static double violation(const double *weights, uint32_t experts, uint32_t topk)
{
    return k3_weights_top_share(weights, experts, topk) * experts / topk - 1;
}

static k3_status_t find_sigma(const double *z, double max_violation, uint32_t experts,
                              uint32_t topk, double *weights, k3_error_t *err)
{
    double low = 0, high = SIGMA_MAX, most;

    spread(z, high, experts, weights);
    most = violation(weights, experts, topk);
    if (most < max_violation) {
        return k3_fail(
            err, K3_ERR_USAGE,
            "routing: lognormal MaxVio %g cannot be reached: at most %.6g with %u experts "
            "and top-k %u (a row picks an expert once: below E / K - 1 = %.6g)",
            max_violation, most, experts, topk, (double)experts / topk - 1);
    }
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = (low + high) / 2;

        spread(z, middle, experts, weights);
        if (violation(weights, experts, topk) < max_violation) {
            low = middle;
        } else {
            high = middle;
        }
    }
    spread(z, high, experts, weights);
    return K3_OK;
}

k3_status_t k3_weights_lognormal(uint64_t key, double max_violation, uint32_t experts,
                                 uint32_t topk, double *weights, k3_error_t *err)
{
    double     *z;
    k3_status_t status = k3_alloc("lognormal spread", experts, sizeof(double), &z, err);

    if (status != K3_OK) {
        return status;
    }
    for (uint32_t p = 0; p < experts; p++) {
        z[p] = normal(key, p);
    }
    if (max_violation > 0) {
        status = find_sigma(z, max_violation, experts, topk, weights, err);
    } else {
        spread(z, 0, experts, weights);
    }
    k3_free(z);
    return status;
}
