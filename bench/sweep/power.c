#include "bench/sweep/power.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "harness/record/verdict.h"

static const double level = 0.95;

static bool is_of(const k3_variant_t *variant, const char *section)
{
    return strcmp(variant->section, section) == 0;
}

/* The first cell of a work is what the others are held against. `firsts`: work -> number of its variant. */
static void add(k3_power_t *p, const k3_variants_t *variants, size_t i, json_t *firsts)
{
    const k3_variant_t *v = &variants->items[i];

    p->launches = p->cells == 0 || v->launches < p->launches ? v->launches : p->launches;
    p->cells += v->works.count;
    for (size_t c = 0; c < v->works.count; c++) {
        const json_t *first = json_object_get(firsts, v->works.items[c]);

        if (first == NULL) {
            (void)json_object_set_new(firsts, v->works.items[c], json_integer((json_int_t)i));
        } else if (json_integer_value(first) == (json_int_t)i) {
            p->within++;
        } else {
            p->between++;
        }
    }
}

k3_power_t k3_power_of(const k3_variants_t *variants, const char *section)
{
    k3_power_t p = {.section = section};
    json_t    *firsts = json_object();

    for (size_t i = 0; i < variants->count; i++) {
        if (is_of(&variants->items[i], section)) {
            add(&p, variants, i, firsts);
        }
    }
    json_decref(firsts);
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

/* The section that lacks most: launches that its family needs over those that it makes. */
static k3_power_t worst_of(const k3_variants_t *variants, bool backends)
{
    k3_power_t worst = {.section = ""};
    double     most = 0.0;

    for (size_t i = 0; i < variants->count; i++) {
        const char *section = variants->items[i].section;
        k3_power_t  p;
        size_t      family;
        double      lack;

        if (i > 0 && is_of(&variants->items[i - 1], section)) {
            continue; /* a section's variants stand together */
        }
        p = k3_power_of(variants, section);
        family = backends ? p.within + p.between : p.cells;
        if (family == 0) {
            continue;
        }
        lack =
            (double)k3_launches_least(backends && p.within > 0, family, level) / (double)p.launches;
        if (lack > most) {
            most = lack;
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
