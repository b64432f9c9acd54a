#include "harness/mpi/clock_model.h"

#include <math.h>
#include <string.h>

/* Of the drift between two clocks: standard deviation before any evidence, and what none exceeds. */
static const double drift_prior = 50e-6, drift_most = 500e-6;

/* A reading of either clock is not finer than this. */
static const double finest = 20.0;

static double half_trip(const k3_clock_point_t *point)
{
    return fmax(point->round_trip / 2.0, finest);
}

double k3_clock_line_at(const k3_clock_line_t *line, double local)
{
    return local + line->offset + line->drift * (local - line->anchor);
}

double k3_clock_line_back(const k3_clock_line_t *line, double reference)
{
    return line->anchor + (reference - line->anchor - line->offset) / (1.0 + line->drift);
}

k3_clock_line_t k3_clock_line_chain(const k3_clock_line_t *inner, const k3_clock_line_t *outer)
{
    double middle = inner->anchor + inner->offset;

    return (k3_clock_line_t){
        .anchor = inner->anchor,
        .offset = k3_clock_line_at(outer, middle) - inner->anchor,
        .drift = inner->drift + outer->drift + inner->drift * outer->drift,
    };
}

static double distance(const k3_clock_fit_t *fit, const k3_clock_point_t *point)
{
    return point->offset - (k3_clock_line_at(&fit->line, point->local) - point->local);
}

static void solve(k3_clock_fit_t *fit)
{
    double weights = 0.0, x = 0.0, y = 0.0, trips = 0.0, xx, xy = 0.0, squares = 0.0;

    for (unsigned i = 0; i < fit->count; i++) {
        const k3_clock_point_t *p = &fit->points[i];
        double                  w = 1.0 / (half_trip(p) * half_trip(p));

        weights += w;
        x += w * (p->local - fit->points[0].local); /* small numbers: no digits are lost */
        y += w * (p->offset - fit->points[0].offset);
        trips += w * p->round_trip;
    }
    fit->line.anchor = fit->points[0].local + x / weights;
    fit->line.offset = fit->points[0].offset + y / weights;
    fit->round_trip = trips / weights;
    xx = 1.0 / (drift_prior * drift_prior);
    for (unsigned i = 0; i < fit->count; i++) {
        const k3_clock_point_t *p = &fit->points[i];
        double                  w = 1.0 / (half_trip(p) * half_trip(p));
        double                  away = p->local - fit->line.anchor;

        xx += w * away * away;
        xy += w * away * (p->offset - fit->line.offset);
    }
    fit->line.drift = fmin(fmax(xy / xx, -drift_most), drift_most);
    for (unsigned i = 0; i < fit->count; i++) {
        double off = distance(fit, &fit->points[i]);

        squares += off * off / (half_trip(&fit->points[i]) * half_trip(&fit->points[i]));
    }
    fit->residual = sqrt(squares / weights);
}

/* Both ends are known to half their round trips, and no drift moves them further apart than this. */
static bool is_step(const k3_clock_fit_t *fit, const k3_clock_point_t *point)
{
    const k3_clock_point_t *last;

    if (fit->count == 0) {
        return false;
    }
    last = &fit->points[fit->count - 1];
    return fabs(point->offset - last->offset) >
           half_trip(point) + half_trip(last) + drift_most * fabs(point->local - last->local);
}

void k3_clock_fit_add(k3_clock_fit_t *fit, const k3_clock_point_t *point)
{
    fit->predicted = fit->count > 0 ? distance(fit, point) : 0.0;
    if (is_step(fit, point)) {
        fit->steps++;
        fit->count = 0;
    }
    if (fit->count == K3_CLOCK_WINDOW) {
        memmove(&fit->points[0], &fit->points[1], (K3_CLOCK_WINDOW - 1) * sizeof(fit->points[0]));
        fit->count--;
    }
    fit->points[fit->count++] = *point;
    fit->added++;
    solve(fit);
}

double k3_clock_fit_error(const k3_clock_fit_t *fit)
{
    return fit->round_trip / 2.0 + fit->residual;
}
