/* One cell of a record. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "bench/report/balance.h"
#include "bench/report/cellview.h"
#include "bench/report/facts_internal.h"
#include "bench/report/fields.h"
#include "harness/record/json_values.h"

enum { PHASES_MOST = 64, NAME_MOST = 128 };

typedef struct phase {
    k3_view_t name, median;
} phase_t;

enum { TP, DP, CP, NODES, LAYOUT };
enum { HASH, DISPATCHED, WORK };

/* The parts of a cell that something follows from; what is absent is empty. */
typedef struct cell {
    k3_view_t key, backend, mode, component, status, reason;
    k3_view_t model, layout[LAYOUT], moves_rows, total, weights, hidden, work[WORK], check, sync;
    k3_view_t transport, scaled, qps, injected;
    bool      has_model, has_layout, has_phases, no_phases; /* a list, null */
    phase_t   phase[PHASES_MOST];
    int       phases;
} cell_t;

/* --- reading --------------------------------------------------------------------------------- */

/* Its samples and statistics stand behind the two. */
static phase_t take_phase(k3_cursor_t *c)
{
    static const char *const names[] = {"name", "median", NULL};
    phase_t                  p = {{0}, {0}};
    uint32_t                 seen = 0;
    int                      i;

    if (!k3_cursor_enter(c, '{')) {
        k3_cursor_skip(c);
        return p;
    }
    while ((i = k3_cursor_member(c, names, &seen)) >= 0) {
        *(i == 0 ? &p.name : &p.median) = k3_cursor_view(c);
        if (seen == 3) {
            k3_cursor_leave(c);
            break;
        }
    }
    return p;
}

static void take_phases(k3_cursor_t *c, cell_t *cell)
{
    cell->no_phases = !c->wrong && *c->at == 'n';
    cell->has_phases = k3_cursor_enter(c, '[');
    if (!cell->has_phases) {
        k3_cursor_skip(c);
        return;
    }
    while (k3_cursor_element(c)) {
        phase_t p = take_phase(c);

        if (cell->phases < PHASES_MOST) {
            cell->phase[cell->phases++] = p;
        }
    }
}

/* {weights: {digest}, hidden: {digest}} */
static void take_choices(k3_cursor_t *c, cell_t *cell)
{
    static const char *const names[] = {"weights", "hidden", NULL};
    static const char *const digest[] = {"digest", NULL};
    uint32_t                 seen = 0;
    int                      i;

    if (!k3_cursor_enter(c, '{')) {
        k3_cursor_skip(c);
        return;
    }
    while ((i = k3_cursor_member(c, names, &seen)) >= 0) {
        k3_facts_take(c, digest, i == 0 ? &cell->weights : &cell->hidden);
    }
}

static void take_transport(k3_cursor_t *c, cell_t *cell)
{
    static const char *const names[] = {"transport", NULL};
    uint32_t                 seen = 0;

    if (!k3_cursor_enter(c, '{')) {
        k3_cursor_skip(c);
    } else if (k3_cursor_member(c, names, &seen) == 0) {
        cell->transport = k3_cursor_view(c);
        k3_cursor_leave(c);
    }
}

/* The lanes are most of a record, and wanted of few: else nothing behind the transport is looked at. */
static void take_qps(k3_cursor_t *c, bool lanes, cell_t *cell)
{
    k3_cursor_t inside;

    if (!lanes) {
        take_transport(c, cell);
        return;
    }
    cell->qps = k3_cursor_view(c);
    inside = k3_cursor_in(cell->qps, c);
    if (!c->wrong) {
        take_transport(&inside, cell);
        c->wrong = inside.wrong;
    }
}

enum member {
    KEY,
    BACKEND,
    MODE,
    COMPONENT,
    STATUS,
    REASON,
    TEXTS, /* those before are views in this order */
    MODEL = TEXTS,
    LAYOUT_OF,
    PATH,
    TOKENS,
    CHOICES,
    WORK_OF,
    CHECK,
    SYNC,
    HOST,
    FAULTS,
    PHASES,
    QPS,
};

static const char *const member_names[] = {"key",     "backend", "mode",   "component", "status",
                                           "reason",  "model",   "layout", "path",      "tokens",
                                           "choices", "work",    "check",  "sync",      "host",
                                           "faults",  "phases",  "qps",    NULL};

static void take_object(k3_cursor_t *c, int member, cell_t *cell)
{
    static const char *const name[] = {"name", NULL}, *const moves_rows[] = {"moves_rows", NULL},
                             *const total[] = {"total", NULL}, *const state[] = {"state", NULL},
                             *const method[] = {"method", NULL},
                             *const scaled[] = {"scaled_us", NULL},
                             *const injected[] = {"injected", NULL},
                             *const layout[] = {"tp", "dp", "cp", "nodes", NULL},
                             *const work[] = {"routing_hash", "rows_dispatched", NULL};
    const struct {
        const char *const *names;
        k3_view_t         *views;
    } objects[] = {
        [MODEL] = {name, &cell->model},           [LAYOUT_OF] = {layout, cell->layout},
        [PATH] = {moves_rows, &cell->moves_rows}, [TOKENS] = {total, &cell->total},
        [WORK_OF] = {work, cell->work},           [CHECK] = {state, &cell->check},
        [SYNC] = {method, &cell->sync},           [HOST] = {scaled, &cell->scaled},
        [FAULTS] = {injected, &cell->injected},
    };

    cell->has_model = cell->has_model || (member == MODEL && *c->at == '{');
    cell->has_layout = cell->has_layout || (member == LAYOUT_OF && *c->at == '{');
    k3_facts_take(c, objects[member].names, objects[member].views);
}

static void take_cell(k3_cursor_t *c, bool lanes, cell_t *cell)
{
    k3_view_t *const texts[] = {&cell->key,       &cell->backend, &cell->mode,
                                &cell->component, &cell->status,  &cell->reason};
    uint32_t         seen = 0;
    int              i;

    if (!k3_cursor_enter(c, '{')) {
        k3_cursor_skip(c);
        return;
    }
    while ((i = k3_cursor_member(c, member_names, &seen)) >= 0) {
        if (i < TEXTS) {
            *texts[i] = k3_cursor_view(c);
        } else if (i == PHASES) {
            take_phases(c, cell);
        } else if (i == QPS) {
            take_qps(c, lanes, cell);
        } else if (i == CHOICES) {
            take_choices(c, cell);
        } else {
            take_object(c, i, cell);
        }
    }
}

/* --- what follows ---------------------------------------------------------------------------- */

static bool is_one_of(k3_view_t view, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (view.at != NULL && *view.at == '"' && k3_view_is(view, *words)) {
            return true;
        }
    }
    return false;
}

static k3_status_t check(const cell_t *cell, const char *name, size_t index, k3_error_t *err)
{
    const char *wrong = NULL;

    if (cell->backend.at == NULL || *cell->backend.at != '"') {
        wrong = "backend";
    } else if (!is_one_of(cell->status, k3_cell_statuses)) {
        wrong = "status";
    } else if (!cell->has_model || !cell->has_layout) {
        wrong = "model or layout";
    } else if (!cell->has_phases && !cell->no_phases) {
        wrong = "phases";
    } else if (cell->has_phases && !is_one_of(cell->check, k3_cell_check_states)) {
        wrong = "check.state";
    }
    return wrong == NULL ? K3_OK : k3_cell_refuse(name, index, wrong, err);
}

static const char *text_of(k3_view_t view, char text[NAME_MOST])
{
    json_t *json = k3_facts_text(view);

    snprintf(text, NAME_MOST, "%s", json != NULL ? json_string_value(json) : "");
    json_decref(json);
    return text;
}

static double number_of(k3_view_t view)
{
    double value;

    return k3_view_number(view, &value) ? value : 0.0;
}

/* What must be equal for two backends to have done the same work. */
static json_t *work_of(const cell_t *cell)
{
    char model[NAME_MOST], hash[NAME_MOST], component[NAME_MOST], weights[NAME_MOST],
        hidden[NAME_MOST], text[6 * NAME_MOST];

    text_of(cell->weights, weights);
    text_of(cell->hidden, hidden);
    snprintf(text, sizeof(text), "%s tp%.0f dp%.0f cp%.0f n%.0f, %.0f rows, routing %s, %s%s%s%s%s",
             text_of(cell->model, model), number_of(cell->layout[TP]), number_of(cell->layout[DP]),
             number_of(cell->layout[CP]), number_of(cell->layout[NODES]), number_of(cell->total),
             text_of(cell->work[HASH], hash), text_of(cell->component, component),
             weights[0] != '\0' ? ", weights " : "", weights, hidden[0] != '\0' ? ", hidden " : "",
             hidden);
    return k3_json_string(text);
}

static json_t *backend_of(const cell_t *cell)
{
    char backend[NAME_MOST], mode[NAME_MOST], text[K3_CELL_BACKEND];

    return k3_json_string(k3_backend_text(text_of(cell->backend, backend),
                                          text_of(cell->mode, mode), text, sizeof(text)));
}

/* A backend that moves nothing, the bare loop, and the experts of one that dispatches nothing measure the
 * host: dense arithmetic, copies, the harness. */
static bool is_control(const cell_t *cell)
{
    double rows;

    return k3_view_is(cell->moves_rows, "false") || k3_view_is(cell->component, "control") ||
           (k3_view_is(cell->component, "experts") &&
            !k3_view_number(cell->work[DISPATCHED], &rows));
}

static k3_view_t median_of(const cell_t *cell, const char *phase)
{
    for (int i = 0; i < cell->phases; i++) {
        if (k3_view_is(cell->phase[i].name, phase)) {
            return cell->phase[i].median;
        }
    }
    return (k3_view_t){0};
}

static json_t *number_json(k3_view_t view)
{
    double value;

    return k3_view_number(view, &value) ? json_real(value) : json_null();
}

static bool is_broken(const cell_t *cell)
{
    return k3_view_is(cell->status, "failed") || k3_view_is(cell->check, "wrong");
}

/* Why a cell has no time: "failed: ...", "check: ...", "unsupported: ...", or it was not measured. */
static json_t *why_none(const cell_t *cell, const k3_facts_wanted_t *wanted, const char *phase)
{
    bool        is_ok = k3_view_is(cell->status, "ok");
    char        status[NAME_MOST];
    json_t     *given, *why;
    const char *text;

    if (is_ok && !is_broken(cell)) {
        return wanted->scaled ? json_string("the speed of its host was not measured")
                              : json_sprintf("it has no time of phase %s", phase);
    }
    given = k3_facts_text(cell->reason);
    text = json_string_value(given);
    why = json_sprintf("%s: %s", is_ok ? "check" : text_of(cell->status, status),
                       text != NULL && text[0] != '\0' ? text : "no reason is given");
    json_decref(given);
    return why;
}

/* A record that was edited may hold times that nobody can measure; 12 days are the longest that is one. */
static bool is_time(const json_t *us)
{
    return json_is_number(us) && json_number_value(us) >= 0 && json_number_value(us) < 1e12;
}

static void set_time(const cell_t *cell, const k3_facts_wanted_t *wanted, json_t *facts)
{
    char        component[NAME_MOST];
    const char *phase = wanted->phase != NULL
                            ? wanted->phase
                            : k3_component_headline(text_of(cell->component, component));
    json_t     *us = number_json(wanted->scaled ? cell->scaled : median_of(cell, phase));
    bool        broken = is_broken(cell);
    bool        ok = !broken && k3_view_is(cell->status, "ok") && is_time(us);

    k3_facts_set(facts, "state", json_string(broken ? "broken" : ok ? "ok" : "none"));
    k3_facts_set(facts, "reason", ok ? json_null() : why_none(cell, wanted, phase));
    k3_facts_set(facts, "us", ok ? json_incref(us) : json_null());
    json_decref(us);
}

static json_t *balance_json(const cell_t *cell)
{
    json_t *qps = k3_view_json(cell->qps), *balance = k3_balance_of(qps);

    json_decref(qps);
    return balance;
}

static json_t *routing_json(const cell_t *cell)
{
    json_t *hash = k3_facts_text(cell->work[HASH]);

    return hash != NULL ? hash : json_string("");
}

/* What was delayed or killed on purpose is another measurement. */
static json_t *injected_json(const cell_t *cell)
{
    json_t *injected = k3_facts_text(cell->injected);

    return injected == NULL && cell->injected.at != NULL ? json_string("none") : injected;
}

static json_t *facts_json(const cell_t *cell, json_t *key, const k3_facts_wanted_t *wanted)
{
    json_t *facts = json_object(), *how = json_object();

    k3_facts_set(facts, "key", key);
    k3_facts_set(facts, "backend", backend_of(cell));
    k3_facts_set(facts, "work", work_of(cell));
    k3_facts_set(facts, "control", json_boolean(is_control(cell)));
    k3_facts_set(facts, "moves", json_boolean(!k3_view_is(cell->moves_rows, "false")));
    k3_facts_set(facts, "routing", routing_json(cell));
    k3_facts_set(facts, "bound_us", number_json(median_of(cell, "control")));
    k3_facts_set(how, "sync.method", k3_facts_text(cell->sync));
    k3_facts_set(how, K3_HOW_TRANSPORT, k3_facts_text(cell->transport));
    k3_facts_set(how, "faults.injected", injected_json(cell));
    k3_facts_set(facts, "how", how);
    set_time(cell, wanted, facts);
    if (wanted->lanes) {
        k3_facts_set(facts, "balance", balance_json(cell));
    }
    return facts;
}

k3_status_t k3_facts_cell(k3_cursor_t *c, const char *name, size_t index,
                          const k3_facts_wanted_t *wanted, json_t *cells, k3_error_t *err)
{
    cell_t  cell;
    json_t *key;

    memset(&cell, 0, offsetof(cell_t, phase));
    cell.phases = 0;
    take_cell(c, wanted->lanes, &cell);
    if (c->wrong || check(&cell, name, index, err) != K3_OK) {
        return err->status;
    }
    key = k3_facts_text(cell.key);
    if (key != NULL && json_string_length(key) > 0) {
        json_array_append_new(cells, facts_json(&cell, key, wanted));
    } else {
        json_decref(key);
    }
    return K3_OK;
}
