#include "bench/report/fastest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"

enum { NAMES = 96 };

/* What moves no rows is no rival. */
static bool competes(const json_t *cell)
{
    return strcmp(k3_get_text(cell, "status"), "ok") == 0 && k3_cell_moves_rows(cell);
}

static bool is_rival(const json_t *cell, const json_t *other)
{
    return other != cell && competes(other) && k3_cell_same_group(other, cell);
}

/* --- the speed of the machine ----------------------------------------------------------------- */

static const char *text_of(const json_t *cell, const char *part, const char *name)
{
    return k3_get_text(json_object_get(cell, part), name);
}

/* Two cells of a group whose phases outside dispatch, experts and combine have the same rows. */
static bool same_shape(const json_t *a, const json_t *b)
{
    const json_t *path_a = json_object_get(a, "path"), *path_b = json_object_get(b, "path");

    return json_equal(json_object_get(a, "layout"), json_object_get(b, "layout")) &&
           json_is_true(json_object_get(path_a, "fast")) ==
               json_is_true(json_object_get(path_b, "fast")) &&
           strcmp(text_of(a, "choices", "shared"), text_of(b, "choices", "shared")) == 0;
}

static bool overlaps(const json_t *cell)
{
    return json_is_true(json_object_get(json_object_get(cell, "choices"), "shared_overlap"));
}

static bool phase_of(const json_t *cell, const char *name, double *us, double ends[2])
{
    const json_t *ci = json_object_get(k3_cell_phase(cell, name), "ci95");

    ends[0] = json_number_value(json_array_get(ci, 0));
    ends[1] = json_number_value(json_array_get(ci, 1));
    return k3_cell_median(cell, name, us) && json_is_array(ci);
}

/* By what factor a time differs, at least 1; `apart`: beyond its intervals too. */
static double factor(double us, double other_us, bool apart)
{
    return apart && fmin(us, other_us) > 0.0 ? fmax(us, other_us) / fmin(us, other_us) : 1.0;
}

/* The largest phase that is the same work in both; false: they have none. */
static bool compare_phases(const json_t *cell, const json_t *other, k3_fastest_t *f, double *by)
{
    static const char *const names[] = {"router", "latent_down", "shared_expert", "latent_up"};
    double                   us, other_us, ends[2], other_ends[2], most = 0.0;
    bool                     overlap = overlaps(cell) || overlaps(other);

    /* Where the shared expert runs inside the dispatch, latent_up waits for its end. */
    for (size_t i = 0; same_shape(cell, other) && i < (overlap ? 2 : 4); i++) {
        if (phase_of(cell, names[i], &us, ends) &&
            phase_of(other, names[i], &other_us, other_ends) && fmax(us, other_us) > most) {
            most = fmax(us, other_us);
            *by = factor(us, other_us, ends[1] < other_ends[0] || other_ends[1] < ends[0]);
            f->work = names[i];
            f->us = us;
            f->other_us = other_us;
        }
    }
    return most > 0.0;
}

/* Cells without such a phase (a component, another path): the beat in front of each iteration. */
static bool compare_beats(const json_t *cell, const json_t *other, k3_fastest_t *f, double *by)
{
    f->work = "the beat of the host";
    f->us = k3_get_number(json_object_get(cell, "host"), "beat_us");
    f->other_us = k3_get_number(json_object_get(other, "host"), "beat_us");
    *by = factor(f->us, f->other_us, true);
    return *by > 1.0;
}

static void compare_speed(const json_t *cell, const json_t *other, k3_fastest_t *f, double *worst)
{
    k3_fastest_t found = {0};
    double       by = 1.0;

    if ((compare_phases(cell, other, &found, &by) || compare_beats(cell, other, &found, &by)) &&
        by > 1.0 + K3_SPEED_BOUND && by > *worst) {
        *worst = by;
        f->work = found.work;
        f->us = found.us;
        f->other_us = found.other_us;
        f->other = other;
    }
}

/* --- the fastest ------------------------------------------------------------------------------ */

static void look_at(const json_t *other, double high, k3_fastest_t *f, double *nearest)
{
    double low, unused, us;

    f->apart = f->apart && k3_cell_interval(other, &low, &unused) && low > high;
    if (k3_cell_median(other, k3_cell_headline(other), &us) && us < *nearest) {
        *nearest = us;
        f->next = other;
    }
}

void k3_fastest(const json_t *cells, const json_t *cell, k3_fastest_t *f)
{
    double low, high, nearest = INFINITY, worst = 1.0;

    *f = (k3_fastest_t){.cells = cells,
                        .apart = competes(cell) && k3_cell_interval(cell, &low, &high)};
    for (size_t i = 0; f->apart && i < json_array_size(cells); i++) {
        if (is_rival(cell, json_array_get(cells, i))) {
            look_at(json_array_get(cells, i), high, f, &nearest);
        }
    }
    f->apart = f->apart && f->next != NULL;
    for (size_t i = 0; f->apart && i < json_array_size(cells); i++) {
        if (is_rival(cell, json_array_get(cells, i))) {
            compare_speed(cell, json_array_get(cells, i), f, &worst);
        }
    }
}

bool k3_is_fastest(const json_t *cells, const json_t *cell)
{
    k3_fastest_t f;

    k3_fastest(cells, cell, &f);
    return f.apart && f.work == NULL;
}

bool k3_fastest_doubt(const k3_fastest_t *f, char *text, size_t size)
{
    char name[NAMES];

    if (!f->apart || f->work == NULL) {
        return false;
    }
    snprintf(text, size, "%s, the same work in both, took %.*f us there and %.*f us in %s", f->work,
             f->us < 10 ? 2 : 0, f->us, f->other_us < 10 ? 2 : 0, f->other_us,
             k3_cell_name(f->cells, f->other, name, sizeof(name)));
    return true;
}

/* --- formats ---------------------------------------------------------------------------------- */

static const char *runner_of(const json_t *cell)
{
    return text_of(json_object_get(cell, "choices"), "recipe", "runner");
}

const char *k3_cell_formats(const json_t *cell, char *text, size_t size)
{
    snprintf(text, size, "rows %.16s, results %.16s, runner %.24s",
             text_of(cell, "choices", "dispatch_dtype"), text_of(cell, "choices", "combine_dtype"),
             runner_of(cell));
    return text;
}

bool k3_fastest_differs(const json_t *cell, const k3_fastest_t *f, char *text, size_t size)
{
    char own[NAMES], other[NAMES], name[NAMES];

    if (!f->apart || strcmp(k3_cell_formats(cell, own, sizeof(own)),
                            k3_cell_formats(f->next, other, sizeof(other))) == 0) {
        return false;
    }
    snprintf(text, size, "%s; %s, the next: %s", own,
             k3_cell_name(f->cells, f->next, name, sizeof(name)), other);
    return true;
}
