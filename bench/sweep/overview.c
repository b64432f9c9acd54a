#include "bench/sweep/overview.h"

#include <stdlib.h>

#include "bench/sweep/power.h"

static size_t cells_of(const k3_variants_t *variants, size_t *refused)
{
    size_t cells = 0;

    *refused = 0;
    for (size_t i = 0; i < variants->count; i++) {
        cells += variants->items[i].cells;
        *refused += variants->items[i].refused;
    }
    return cells;
}

static size_t already_done(const k3_schedule_t *schedule)
{
    size_t done = 0;

    for (size_t i = 0; i < schedule->count; i++) {
        done += schedule->items[i].past.state == K3_LAUNCH_DONE;
    }
    return done;
}

static void put_time(double seconds, FILE *out)
{
    if (seconds < 120.0) {
        (void)fprintf(out, "%.0f s", seconds);
    } else if (seconds < 7200.0) {
        (void)fprintf(out, "%.0f min", seconds / 60.0);
    } else {
        (void)fprintf(out, "%.1f h", seconds / 3600.0);
    }
}

static k3_status_t put_variants(const k3_sweep_t *sweep, bool commands, FILE *out, k3_error_t *err)
{
    const k3_variants_t *variants = sweep->schedule->variants;

    (void)fprintf(out, "  %-36s %6s %6s %8s  %s\n", "variant", "ranks", "cells", "launches",
                  "one launch takes");
    for (size_t i = 0; i < variants->count && err->status == K3_OK; i++) {
        const k3_variant_t *variant = &variants->items[i];

        (void)fprintf(out, "  %-36s %6u %6zu %8llu  ", variant->label, variant->ranks,
                      variant->cells - variant->refused, (unsigned long long)variant->launches);
        put_time(k3_schedule_expect(sweep->schedule, variant), out);
        (void)fprintf(out, "%s\n", sweep->schedule->tallies[i].timed > 0 ? "" : " (a guess)");
        if (commands) {
            char *text = k3_sweep_command(sweep, variant, err);

            (void)fprintf(out, "    %s\n", text != NULL ? text : "");
            free(text);
        }
    }
    return err->status;
}

static void put_refusals(const k3_variants_t *variants, FILE *out)
{
    if (variants->refusal_count > 0) {
        (void)fprintf(out, "refused, and not tried:\n");
    }
    for (size_t i = 0; i < variants->refusal_count; i++) {
        const k3_refusal_t *r = &variants->refusals[i];

        (void)fprintf(out, "  %s, %s (%zu cell%s): %s\n", r->where, r->backends, r->cells,
                      r->cells == 1 ? "" : "s", r->reason);
    }
}

static void put_duration(const k3_sweep_t *sweep, FILE *out)
{
    size_t timed = 0;

    for (size_t i = 0; i < sweep->schedule->variants->count; i++) {
        timed += sweep->schedule->tallies[i].timed;
    }
    (void)fprintf(out, "time: ");
    put_time(k3_schedule_remaining(sweep->schedule) / (double)sweep->jobs, out);
    (void)fprintf(out, " for %zu launches, %llu at a time; ", sweep->schedule->open,
                  (unsigned long long)sweep->jobs);
    if (timed > 0) {
        (void)fprintf(out, "from %zu launches that are done\n", timed);
    } else {
        (void)fprintf(out, "a guess: 2 s a launch, 1 s and --max-seconds a cell\n");
    }
}

k3_status_t k3_sweep_overview(const k3_sweep_t *sweep, bool commands, FILE *out, k3_error_t *err)
{
    const k3_variants_t *variants = sweep->schedule->variants;
    size_t               refused, cells = cells_of(variants, &refused);

    (void)fprintf(out, "sweep: %s in %s: %zu launch%s of %zu variant%s, %zu done; %zu cell%s\n",
                  sweep->source->file, sweep->folder->path, sweep->schedule->count,
                  sweep->schedule->count == 1 ? "" : "es", variants->count,
                  variants->count == 1 ? "" : "s", already_done(sweep->schedule), cells - refused,
                  cells - refused == 1 ? "" : "s");
    if (put_variants(sweep, commands, out, err) == K3_OK) {
        put_refusals(variants, out);
        put_duration(sweep, out);
        k3_power_print(variants, out);
    }
    return err->status;
}
