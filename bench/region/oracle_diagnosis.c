#include <math.h>
#include <stdio.h>

#include "bench/region/oracle_internal.h"

double k3_oracle_fit(size_t n, const float *base, const float *part, const float *got, double *rest)
{
    double part2 = 0.0, cross = 0.0, total2 = 0.0, rest2 = 0.0, factor;

    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (base == NULL ? 0.0 : (double)base[i]);

        part2 += (double)part[i] * (double)part[i];
        cross += (double)part[i] * d;
        total2 += d * d;
    }
    factor = part2 > 0.0 ? cross / part2 : 0.0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (base == NULL ? 0.0 : (double)base[i]);

        rest2 += (d - factor * (double)part[i]) * (d - factor * (double)part[i]);
    }
    *rest = total2 > 0.0 ? sqrt(rest2 / total2) : 1.0;
    return factor;
}

/* Room for a few flipped roundings, not for another cause. */
static const double rest_max = 0.03;

static bool near_whole(double factor)
{
    return fabs(factor - round(factor)) < 0.01 * fabs(factor);
}

static const char *subject(k3_stage_t stage)
{
    return stage == K3_STAGE_COMBINED ? "combined latent rows" : k3_stage_names[stage];
}

static void describe_factor(k3_stage_t stage, uint32_t tp, double factor, char *text)
{
    const char *what = subject(stage);

    if (stage == K3_STAGE_COMBINED && near_whole(factor) && factor > 1.5 && factor < tp + 0.5) {
        snprintf(text, K3_DIAGNOSIS_TEXT,
                 "%s are %.2f times the right value: reduced twice (a complete combine was reduced "
                 "over tp again)",
                 what, factor);
    } else if (factor > 0.0 && factor < 0.75 && near_whole(1.0 / factor)) {
        snprintf(text, K3_DIAGNOSIS_TEXT, "%s are 1/%.0f of the right value: not reduced", what,
                 1.0 / factor);
    } else {
        snprintf(text, K3_DIAGNOSIS_TEXT, "%s are %.3f times the right value", what, factor);
    }
}

bool k3_oracle_diagnose_row(k3_stage_t stage, uint32_t tp, size_t n, const float *want,
                            const float *got, char *text)
{
    size_t numbers = 0, zeros = 0;
    double factor, rest;

    for (size_t i = 0; i < n; i++) {
        numbers += isfinite(got[i]) != 0;
        zeros += got[i] == 0.0f;
    }
    if (numbers < n) {
        snprintf(text, K3_DIAGNOSIS_TEXT, "row holds NaN or infinity in %zu of %zu elements",
                 n - numbers, n);
        return true;
    }
    if (zeros == n) {
        snprintf(text, K3_DIAGNOSIS_TEXT, "row is all zero");
        return true;
    }
    factor = k3_oracle_fit(n, NULL, want, got, &rest);
    if (rest > rest_max || fabs(factor - 1.0) < 0.01) {
        return false;
    }
    describe_factor(stage, tp, factor, text);
    return true;
}

/* The sums are rounded to bf16, which a term that is small in them shows: more room than above. */
bool k3_oracle_diagnose_term(uint32_t k, int32_t expert, size_t n, const float *want,
                             const float *term, const float *got, char *text)
{
    double rest, factor = k3_oracle_fit(n, want, term, got, &rest);

    if (rest > 0.2 || fabs(factor) < 0.5 || fabs(factor - round(factor)) > 0.05) {
        return false;
    }
    if (round(factor) == -1.0) {
        snprintf(text, K3_DIAGNOSIS_TEXT, "expert %d (selection %u) is missing", expert, k);
    } else {
        snprintf(text, K3_DIAGNOSIS_TEXT, "expert %d (selection %u) was added %.0f times", expert,
                 k, 1.0 + factor);
    }
    return true;
}

static double distance(size_t n, const float *a, const float *b)
{
    double sum = 0.0;

    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (b == NULL ? 0.0 : (double)b[i]);

        sum += d * d;
    }
    return sqrt(sum);
}

bool k3_oracle_diagnose_shared(size_t n, const float *routed, const float *shared, const float *got,
                               char *text)
{
    double rest, factor = k3_oracle_fit(n, routed, shared, got, &rest);

    if (distance(n, got, routed) < rest_max * distance(n, shared, NULL)) {
        snprintf(text, K3_DIAGNOSIS_TEXT, "the shared experts' output is missing");
        return true;
    }
    if (rest > rest_max || !near_whole(factor) || fabs(factor - 1.0) < 0.1) {
        return false;
    }
    snprintf(text, K3_DIAGNOSIS_TEXT, "the shared experts' output was added %.0f times", factor);
    return true;
}
