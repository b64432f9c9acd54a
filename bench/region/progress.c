#include "bench/region/progress.h"

#include <math.h>
#include <stdio.h>

static double half_width(const k3_summary_t *s)
{
    return (s->ci_high - s->ci_low) / 2.0 / s->median;
}

double k3_progress_left(const k3_progress_state_t *s)
{
    double each, left, more;

    if (s->warm_up || s->n == 0) {
        return -1.0;
    }
    each = s->elapsed_us / (double)s->n;
    if (s->iters != 0) {
        return each * (double)(s->iters - (s->n < s->iters ? s->n : s->iters));
    }
    left = s->timed_us > 0.0 ? fmax(s->limit_us - s->timed_us, 0.0) * s->elapsed_us / s->timed_us
                             : -1.0;
    if (s->summary.has_ci && s->summary.median > 0.0 && s->target > 0.0) {
        more = pow(fmax(half_width(&s->summary) / s->target, 1.0), 2.0) - 1.0;
        left = left < 0.0 ? each * (double)s->n * more : fmin(left, each * (double)s->n * more);
    }
    return left;
}

static void time_text(double us, char text[32])
{
    snprintf(text, 32,
             us >= 1e6   ? "%.2f s"
             : us >= 1e3 ? "%.2f ms"
                         : "%.1f us",
             us >= 1e6   ? us / 1e6
             : us >= 1e3 ? us / 1e3
                         : us);
}

const char *k3_progress_text(const k3_progress_t *p, const k3_progress_state_t *s, char *text,
                             size_t size)
{
    double left = k3_progress_left(s);
    char   median[32], interval[32] = "", eta[32] = "";

    if (s->warm_up || !s->summary.valid) {
        snprintf(text, size, "cell %llu/%llu %s: %s %llu", (unsigned long long)p->cell,
                 (unsigned long long)p->cells, s->name, s->warm_up ? "warm-up" : "iteration",
                 (unsigned long long)s->n);
        return text;
    }
    time_text(s->summary.median, median);
    if (s->summary.has_ci && s->summary.median > 0.0) {
        snprintf(interval, sizeof(interval), " +-%.1f %%", 100.0 * half_width(&s->summary));
    }
    if (left >= 0.0) {
        snprintf(eta, sizeof(eta), ", about %.0f s left", left / 1e6);
    }
    snprintf(text, size, "cell %llu/%llu %s: iteration %llu, median %s%s%s",
             (unsigned long long)p->cell, (unsigned long long)p->cells, s->name,
             (unsigned long long)s->n, median, interval, eta);
    return text;
}
