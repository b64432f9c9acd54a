#include "bench/sweep/power.h"

#include <stdbool.h>
#include <string.h>

#include "harness/record/verdict.h"

static const double level = 0.95;

static bool is_of(const k3_variant_t *variant, const char *section)
{
    return strcmp(variant->section, section) == 0;
}

/* The first variant of the section with a cell of this work, which the others are held against. */
static const k3_variant_t *first_with(const k3_variants_t *variants, const char *section,
                                      const char *work, size_t *cell)
{
    for (size_t i = 0; i < variants->count; i++) {
        const k3_variant_t *v = &variants->items[i];

        for (*cell = 0; is_of(v, section) && *cell < v->works.count; ++*cell) {
            if (strcmp(v->works.items[*cell], work) == 0) {
                return v;
            }
        }
    }
    return NULL;
}

static void add(k3_power_t *p, const k3_variants_t *variants, const k3_variant_t *v)
{
    p->launches = p->cells == 0 || v->launches < p->launches ? v->launches : p->launches;
    p->cells += v->works.count;
    for (size_t c = 0; c < v->works.count; c++) {
        size_t              cell;
        const k3_variant_t *base = first_with(variants, p->section, v->works.items[c], &cell);

        p->within += base == v && cell != c;
        p->between += base != v;
    }
}

k3_power_t k3_power_of(const k3_variants_t *variants, const char *section)
{
    k3_power_t p = {.section = section};

    for (size_t i = 0; i < variants->count; i++) {
        if (is_of(&variants->items[i], section)) {
            add(&p, variants, &variants->items[i]);
        }
    }
    return p;
}

/* "better and worse are out of reach: these 8 need 9, one needs 6" */
static void print_reach(bool paired, size_t launches, size_t family, size_t all, const char *what,
                        const char *section, FILE *out)
{
    double p = paired ? k3_smallest_paired_p(launches) : k3_smallest_p(launches, launches);
    size_t range = paired ? K3_LAUNCHES_FOR_PAIRED_RANGE : K3_LAUNCHES_FOR_RANGE;
    size_t needed = k3_launches_least(paired, family, level);

    (void)fprintf(out, "%zu launch%s%s reach p = %.2g by %s, ", launches, launches == 1 ? "" : "es",
                  paired ? "" : " a side", p, paired ? "signed ranks" : "Mann-Whitney");
    if (launches >= needed) {
        (void)fprintf(out, "better and worse can be told for %zu %s%s of %s", family, what,
                      family == 1 ? "" : "s", section);
    } else {
        (void)fprintf(out, "better and worse are out of reach: %zu %s%s of %s need%s %zu", family,
                      what, family == 1 ? "" : "s", section, family == 1 ? "s" : "", needed);
    }
    (void)fprintf(out, " (one alone: %zu", k3_launches_least(paired, 1, level));
    if (all > family) {
        (void)fprintf(out, "; all %zu in one gate: %zu", all,
                      k3_launches_least(paired, all, level));
    }
    (void)fprintf(out, "); same: %s %zu\n",
                  launches >= range ? "possible, from" : "out of reach below", range);
}

/* The section that needs most. */
static k3_power_t worst_of(const k3_variants_t *variants, bool backends)
{
    k3_power_t worst = {.section = ""};
    size_t     most = 0;

    for (size_t i = 0; i < variants->count; i++) {
        k3_power_t p = k3_power_of(variants, variants->items[i].section);
        size_t     family = backends ? p.within + p.between : p.cells;

        if (family > most) {
            most = family;
            worst = p;
        }
    }
    return worst;
}

void k3_power_print(const k3_variants_t *variants, FILE *out)
{
    k3_power_t backends = worst_of(variants, true), sides = worst_of(variants, false);
    size_t     all = 0;

    for (size_t i = 0; i < variants->count; i++) {
        all += variants->items[i].works.count;
    }

    if (backends.within + backends.between > 0) {
        (void)fprintf(out, "verdicts, backends of a section (compare RECORD...): ");
        print_reach(backends.within > 0, (size_t)backends.launches,
                    backends.within + backends.between, 0, "comparison", backends.section, out);
    }
    if (sides.cells > 0) {
        (void)fprintf(out, "verdicts, two sections or sweeps (compare A... -- B...): ");
        print_reach(false, (size_t)sides.launches, sides.cells, all, "cell", sides.section, out);
    }
}
