/* What is asked of a history. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/memory.h"
#include "harness/base/stats.h"
#include "harness/record/history_internal.h"
#include "harness/record/how.h"
#include "harness/record/json_values.h"

static const char *column(sqlite3_stmt *s, int i)
{
    const char *text = (const char *)sqlite3_column_text(s, i);

    return text != NULL ? text : "";
}

k3_status_t k3_history_faults(k3_history_t *h, json_t **faults_p, k3_error_t *err)
{
    sqlite3_stmt *s = NULL;

    *faults_p = json_array();
    k3_history_prepare(h, &s, err,
                       "SELECT name, fault FROM file WHERE fault IS NOT NULL ORDER BY name", "");
    while (k3_history_step(h, s, err)) {
        json_array_append_new(*faults_p,
                              json_pack("{s:o, s:o}", "file", k3_json_string(column(s, 0)), "fault",
                                        k3_json_string(column(s, 1))));
    }
    sqlite3_finalize(s);
    return err->status;
}

#define OF_MACHINE                                                                                 \
    " WHERE launch.machine = (SELECT id FROM machine WHERE key = ?1) AND launch.started <= ?2"

k3_status_t k3_history_launches(k3_history_t *h, const k3_history_question_t *q, size_t *count,
                                k3_error_t *err)
{
    sqlite3_stmt *s = NULL;

    *count = 0;
    k3_history_prepare(h, &s, err, "SELECT count(*) FROM launch" OF_MACHINE, "tt", q->machine,
                       q->until);
    if (k3_history_step(h, s, err)) {
        *count = (size_t)sqlite3_column_int64(s, 0);
    }
    sqlite3_finalize(s);
    return err->status;
}

k3_status_t k3_history_days(k3_history_t *h, const k3_history_question_t *q, size_t most,
                            json_t **days_p, k3_error_t *err)
{
    sqlite3_stmt *s = NULL;

    *days_p = json_array();
    k3_history_prepare(h, &s, err,
                       "SELECT DISTINCT substr(started, 1, 10) FROM launch" OF_MACHINE
                       " ORDER BY 1 DESC LIMIT ?3",
                       "tti", q->machine, q->until, (sqlite3_int64)most);
    while (k3_history_step(h, s, err)) {
        json_array_append_new(*days_p, k3_json_string(column(s, 0)));
    }
    sqlite3_finalize(s);
    return err->status;
}

/* CROSS JOIN keeps the order of the tables: launches from the last one back, of each the rows of the
 * cell. */
#define OF_CELL                                                                                    \
    " FROM launch CROSS JOIN result ON result.file = launch.file"                                  \
    " JOIN how ON how.id = result.how" OF_MACHINE                                                  \
    " AND result.cell = (SELECT id FROM cell WHERE key = ?3) AND result.routing = ?4"              \
    " AND result.state = 'ok' AND result.us IS NOT NULL"

/* Was a row measured as is asked? Most rows say the same as the one before. */
typedef struct likeness {
    const json_t *how;
    char         *text; /* of the row before, owned */
    bool          alike;
} likeness_t;

static bool is_alike(likeness_t *l, const char *text)
{
    json_t *how;

    if (l->text == NULL || strcmp(l->text, text) != 0) {
        how = json_loads(text, 0, NULL);
        l->alike = k3_how_differs(l->how, how, NULL) == NULL;
        json_decref(how);
        free(l->text);
        l->text = strdup(text);
    }
    return l->alike;
}

/* The attempts of one launch, until it is complete. */
typedef struct attempts {
    sqlite3_int64 file;
    double       *us, *scratch;
    size_t        count, room;
    json_t       *point;
} attempts_t;

static k3_status_t add_attempt(attempts_t *a, double us, k3_error_t *err)
{
    if (a->count == a->room) {
        size_t  room = 2 * a->room + 8;
        double *larger = NULL;

        if (k3_alloc("attempts", 2 * room, sizeof(double), &larger, err) != K3_OK) {
            return err->status;
        }
        for (size_t i = 0; i < a->count; i++) {
            larger[i] = a->us[i];
        }
        k3_free(a->us);
        a->us = larger;
        a->scratch = larger + room;
        a->room = room;
    }
    a->us[a->count++] = us;
    return K3_OK;
}

/* Puts the launch in front of the later ones. */
static void end_launch(attempts_t *a, json_t *points)
{
    k3_summary_t summary;

    if (a->point != NULL) {
        k3_summarize(a->us, a->count, a->scratch, &summary);
        json_object_set_new(a->point, "us", json_real(summary.median));
        json_array_append_new(points, a->point);
    }
    a->point = NULL;
    a->count = 0;
}

static void reverse(json_t *points)
{
    size_t n = json_array_size(points);

    for (size_t i = 0; i < n / 2; i++) {
        json_t *early = json_incref(json_array_get(points, i));
        json_t *late = json_incref(json_array_get(points, n - 1 - i));

        json_array_set_new(points, i, late);
        json_array_set_new(points, n - 1 - i, early);
    }
}

k3_status_t k3_history_series(k3_history_t *h, const k3_history_question_t *q, size_t most,
                              const json_t *without, json_t **points_p, k3_error_t *err)
{
    attempts_t    a = {.file = -1};
    likeness_t    like = {.how = q->how};
    sqlite3_stmt *s = NULL;
    json_t       *points = json_array();

    k3_history_prepare(h, &s, err,
                       "SELECT launch.file, us, run, started, git_sha, how.key" OF_CELL
                       " ORDER BY launch.started DESC, launch.run DESC",
                       "tttt", q->machine, q->until, q->key, q->routing);
    while (k3_history_step(h, s, err)) {
        if (json_object_get(without, column(s, 2)) != NULL || !is_alike(&like, column(s, 5))) {
            continue;
        }
        if (sqlite3_column_int64(s, 0) != a.file) {
            end_launch(&a, points);
            if (json_array_size(points) == most) {
                break;
            }
            a.file = sqlite3_column_int64(s, 0);
            a.point = json_pack("{s:f, s:s, s:s, s:s}", "us", 0.0, "run", column(s, 2), "started",
                                column(s, 3), "git_sha", column(s, 4));
        }
        add_attempt(&a, sqlite3_column_double(s, 1), err);
    }
    end_launch(&a, points);
    sqlite3_finalize(s);
    k3_free(a.us);
    free(like.text);
    reverse(points);
    *points_p = points;
    return err->status;
}

k3_status_t k3_history_best(k3_history_t *h, const k3_history_question_t *q, double *us,
                            k3_error_t *err)
{
    sqlite3_stmt *s = NULL;
    likeness_t    like = {.how = q->how};

    *us = NAN;
    k3_history_prepare(h, &s, err, "SELECT min(us), how.key" OF_CELL " GROUP BY result.how", "tttt",
                       q->machine, q->until, q->key, q->routing);
    while (k3_history_step(h, s, err)) {
        if (is_alike(&like, column(s, 1))) {
            *us = fmin(*us, sqlite3_column_double(s, 0)); /* fmin leaves out NaN */
        }
    }
    sqlite3_finalize(s);
    free(like.text);
    return err->status;
}
