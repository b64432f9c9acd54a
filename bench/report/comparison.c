#include "bench/report/comparison.h"

#include <stdint.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/judged.h"
#include "bench/report/values.h"
#include "harness/base/memory.h"
#include "harness/base/stats.h"

static const char *const side_names[] = {"base", "new"};

k3_status_t k3_comparison_open(k3_comparison_t *c, k3_error_t *err)
{
    c->cells = json_object();
    c->machines[K3_SIDE_BASE] = json_object();
    c->machines[K3_SIDE_NEW] = json_object();
    if (c->cells == NULL || c->machines[K3_SIDE_BASE] == NULL || c->machines[K3_SIDE_NEW] == NULL) {
        return k3_fail(err, K3_ERR_ENV, "memory is short");
    }
    return K3_OK;
}

void k3_comparison_close(k3_comparison_t *c)
{
    json_decref(c->cells);
    json_decref(c->machines[K3_SIDE_BASE]);
    json_decref(c->machines[K3_SIDE_NEW]);
}

/* --- records --------------------------------------------------------------------------------- */

/* What must be equal for two backends to have done the same work. */
static json_t *work_of(const json_t *cell)
{
    const json_t *layout = json_object_get(cell, "layout"), *work = json_object_get(cell, "work");
    const json_t *tokens = json_object_get(cell, "tokens"),
                 *choices = json_object_get(cell, "choices");
    const char *weights = k3_get_text(json_object_get(choices, "weights"), "digest");
    const char *hidden = k3_get_text(json_object_get(choices, "hidden"), "digest");

    return json_sprintf("%s tp%lld dp%lld cp%lld n%lld, %lld rows, routing %s, %s%s%s%s%s",
                        k3_get_text(json_object_get(cell, "model"), "name"),
                        (long long)k3_get_int(layout, "tp"), (long long)k3_get_int(layout, "dp"),
                        (long long)k3_get_int(layout, "cp"), (long long)k3_get_int(layout, "nodes"),
                        (long long)k3_get_int(tokens, "total"), k3_get_text(work, "routing_hash"),
                        k3_get_text(cell, "component"), weights[0] != '\0' ? ", weights " : "",
                        weights, hidden[0] != '\0' ? ", hidden " : "", hidden);
}

static json_t *entry_of(k3_comparison_t *c, const json_t *cell)
{
    const char *key = k3_get_text(cell, "key");
    json_t     *entry = json_object_get(c->cells, key);
    char        backend[32];

    if (entry == NULL) {
        entry = json_pack(
            "{s:o, s:s, s:{s:[], s:[]}, s:{s:[], s:[]}, s:{s:{}, s:{}}, s:{}, s:{}, s:{}}", "work",
            work_of(cell), "backend", k3_cell_backend(cell, backend, sizeof(backend)), "values",
            side_names[0], side_names[1], "launches", side_names[0], side_names[1], "how",
            side_names[0], side_names[1], "mixed", "wrong", "hash");
        json_object_set_new(c->cells, key, entry);
    }
    return entry;
}

/* --- how it was measured --------------------------------------------------------------------- */

static const json_t *option_of(const json_t *record, const char *name)
{
    const json_t *options = json_object_get(json_object_get(record, "run"), "options"), *option;
    size_t        i;

    json_array_foreach(options, i, option)
    {
        if (strcmp(k3_get_text(option, "name"), name) == 0) {
            return json_object_get(option, "value");
        }
    }
    return NULL;
}

/* What is not known is not held against anybody: older records have less. */
static void note(json_t *entry, const char *side, const char *field, const char *text)
{
    json_t     *how = json_object_get(json_object_get(entry, "how"), side);
    const char *known = k3_get_text(how, field);

    if (text == NULL || strcmp(known, text) == 0) {
        return;
    }
    if (known[0] == '\0') {
        json_object_set_new(how, field, json_string(text));
    } else {
        json_object_set_new(
            json_object_get(entry, "mixed"), side,
            json_sprintf("launches of one side differ in %s: %s and %s", field, known, text));
    }
}

/* What gives the same work another time. Between backends the transport is part of what is compared. */
static void note_how(const k3_comparison_t *c, const char *side, const json_t *record,
                     const json_t *cell, json_t *entry)
{
    static const char *const options[] = {"check", "isa", "accounting"};
    const json_t            *sync = json_object_get(cell, "sync");
    const json_t *crowded = json_object_get(json_object_get(record, "topology"), "oversubscribed");

    if (json_is_object(sync)) {
        note(entry, side, "sync.method", json_string_value(json_object_get(sync, "method")));
    }
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        note(entry, side, options[i], json_string_value(option_of(record, options[i])));
    }
    if (json_is_boolean(crowded)) {
        note(entry, side, "topology.oversubscribed", json_is_true(crowded) ? "true" : "false");
    }
    if (c->sides) {
        note(entry, side, "qps.transport",
             json_string_value(json_object_get(json_object_get(cell, "qps"), "transport")));
    }
}

/* "measured differently: sync.method is round and barrier"; false where nothing differs. */
static bool how_differs(const json_t *base, const char *base_side, const json_t *fresh,
                        const char *new_side, char *text, size_t size)
{
    const json_t *a = json_object_get(json_object_get(base, "how"), base_side);
    const json_t *b = json_object_get(json_object_get(fresh, "how"), new_side);
    const char   *mixed =
        json_string_value(json_object_get(json_object_get(base, "mixed"), base_side));
    const char *field;
    json_t     *value;

    mixed = mixed != NULL
                ? mixed
                : json_string_value(json_object_get(json_object_get(fresh, "mixed"), new_side));
    if (mixed != NULL) {
        snprintf(text, size, "%s", mixed);
        return true;
    }
    json_object_foreach((json_t *)(uintptr_t)a, field, value)
    {
        const char *other = k3_get_text(b, field);

        if (other[0] != '\0' && strcmp(json_string_value(value), other) != 0) {
            snprintf(text, size, "measured differently: %s is %s and %s", field,
                     json_string_value(value), other);
            return true;
        }
    }
    return false;
}

/* --- times ----------------------------------------------------------------------------------- */

static bool time_of(const k3_comparison_t *c, const json_t *cell, const char *phase, double *us)
{
    const json_t *scaled = json_object_get(json_object_get(cell, "host"), "scaled_us");

    if (!c->scaled) {
        return k3_cell_median(cell, phase, us);
    }
    *us = json_number_value(scaled);
    return json_is_number(scaled);
}

static double median_of(const json_t *attempts)
{
    double       values[16], scratch[16];
    size_t       n = json_array_size(attempts), most = sizeof(values) / sizeof(values[0]);
    k3_summary_t summary;

    n = n < most ? n : most; /* nobody tries a cell more often */
    for (size_t i = 0; i < n; i++) {
        values[i] = json_number_value(json_array_get(attempts, i));
    }
    k3_summarize(values, n, scratch, &summary);
    return summary.median;
}

/* The launch is the unit: what it measured again does not count twice. */
static void add_value(const k3_comparison_t *c, const char *side, json_t *entry, double us)
{
    json_t *values = json_object_get(json_object_get(entry, "values"), side);
    json_t *launches = json_object_get(json_object_get(entry, "launches"), side);
    size_t  n = json_array_size(values);

    if (n > 0 && json_integer_value(json_array_get(launches, n - 1)) == (json_int_t)c->launches) {
        json_t *attempts = json_object_get(entry, "attempts");

        if (attempts == NULL) {
            attempts = json_pack("[O]", json_array_get(values, n - 1));
            json_object_set_new(entry, "attempts", attempts);
        }
        json_array_append_new(attempts, json_real(us));
        json_array_set_new(values, n - 1, json_real(median_of(attempts)));
        return;
    }
    json_object_del(entry, "attempts");
    json_array_append_new(values, json_real(us));
    json_array_append_new(launches, json_integer((json_int_t)c->launches));
}

/* The cell's time, or why it has none. */
static void add_time(const k3_comparison_t *c, k3_side_t side, const json_t *cell, json_t *entry)
{
    const char *name = side_names[side], *status = k3_get_text(cell, "status");
    const char *state = k3_get_text(json_object_get(cell, "check"), "state");
    const char *phase = c->phase != NULL ? c->phase : k3_cell_headline(cell);
    json_t     *wrong = json_object_get(entry, "wrong");
    double      us;

    if (strcmp(status, "failed") == 0 || strcmp(state, "wrong") == 0) {
        json_object_set_new(wrong, name,
                            json_sprintf("%s: %s", status[0] == 'f' ? status : "check",
                                         k3_get_text(cell, "reason")));
    } else if (time_of(c, cell, phase, &us)) {
        add_value(c, name, entry, us);
    } else {
        char key[16];

        snprintf(key, sizeof(key), "no_%s", name);
        json_object_set_new(entry, key,
                            strcmp(status, "ok") != 0
                                ? json_sprintf("%s: %s", status, k3_get_text(cell, "reason"))
                            : c->scaled ? json_string("the speed of its host was not measured")
                                        : json_sprintf("it has no phase %s", phase));
    }
}

void k3_comparison_add(k3_comparison_t *c, k3_side_t side, const json_t *record)
{
    const json_t *fingerprint = json_object_get(record, "fingerprint");
    const json_t *cells = json_object_get(record, "cells"), *cell;
    size_t        i;

    c->launches++;
    if (json_object_get(c->machines[side], k3_get_text(fingerprint, "key")) == NULL) {
        json_object_set(c->machines[side], k3_get_text(fingerprint, "key"),
                        json_object_get(fingerprint, "stable"));
    }
    json_array_foreach(cells, i, cell)
    {
        json_t *entry = entry_of(c, cell);
        json_t *hash = json_object_get(json_object_get(cell, "work"), "routing_hash");

        add_time(c, side, cell, entry);
        note_how(c, side_names[side], record, cell, entry);
        if (json_is_string(hash) &&
            !json_equal(hash, json_object_get(json_object_get(entry, "hash"), side_names[side]))) {
            json_object_set(json_object_get(entry, "hash"), side_names[side], hash);
        }
    }
}

/* --- pairs ----------------------------------------------------------------------------------- */

typedef struct pair {
    const char   *base_key, *new_key;
    const json_t *base, *fresh; /* entries; NULL: that side does not know the cell */
    k3_side_t     base_side, new_side;
    double       *values;   /* owned: base, then new */
    const char   *reason;   /* why nothing was judged */
    k3_verdict_t  verdict;  /* then */
    size_t        at;       /* else: its number among the judged ones */
    char          how[200]; /* room for a reason */
} pair_t;

typedef struct pairs {
    pair_t      *pair;
    size_t       count;
    k3_judged_t *judged;
    size_t       judged_count;
    char         machine[160]; /* why the sides cannot be compared at all, or "" */
} pairs_t;

static const json_t *values_of(const json_t *entry, k3_side_t side)
{
    return entry == NULL ? NULL
                         : json_object_get(json_object_get(entry, "values"), side_names[side]);
}

static const char *wrong_of(const json_t *entry, k3_side_t side)
{
    return entry == NULL ? NULL
                         : json_string_value(
                               json_object_get(json_object_get(entry, "wrong"), side_names[side]));
}

static const char *missing_of(const json_t *entry, k3_side_t side)
{
    const char *reason = NULL;

    if (entry != NULL) {
        reason =
            json_string_value(json_object_get(entry, side == K3_SIDE_BASE ? "no_base" : "no_new"));
    }
    return reason != NULL ? reason : "this side does not have the cell";
}

/* All records must come from one kind of machine. */
static void compare_machines(const k3_comparison_t *c, char *text, size_t size)
{
    const json_t *first = NULL;
    const char   *key, *first_key = NULL;
    json_t       *stable;

    text[0] = '\0';
    for (int side = 0; side < K3_SIDE_COUNT; side++) {
        json_object_foreach(c->machines[side], key, stable)
        {
            if (first_key == NULL) {
                first_key = key;
                first = stable;
            } else if (strcmp(key, first_key) != 0 && text[0] == '\0') {
                k3_machines_differ(first, stable, text, size);
            }
        }
    }
}

static void refuse(pair_t *p, k3_verdict_t verdict, const char *reason)
{
    p->verdict = verdict;
    p->reason = reason;
}

/* Why a pair cannot be judged; reason NULL: it can. */
static void examine(pair_t *p, const char *machine)
{
    const char *wrong_base = wrong_of(p->base, p->base_side);
    const char *wrong_new = wrong_of(p->fresh, p->new_side);
    bool        has_base = json_array_size(values_of(p->base, p->base_side)) > 0;
    bool        has_new = json_array_size(values_of(p->fresh, p->new_side)) > 0;
    const char *hash_base, *hash_new;

    if (wrong_base != NULL || wrong_new != NULL) {
        refuse(p, K3_VERDICT_BROKEN, wrong_new != NULL ? wrong_new : wrong_base);
    } else if (!has_base && has_new) {
        refuse(p, K3_VERDICT_ADDED, missing_of(p->base, p->base_side));
    } else if (!has_new) {
        refuse(p, K3_VERDICT_MISSING, missing_of(p->fresh, p->new_side));
    } else if (machine[0] != '\0') {
        refuse(p, K3_VERDICT_INCOMPARABLE, machine);
    } else {
        hash_base = k3_get_text(json_object_get(p->base, "hash"), side_names[p->base_side]);
        hash_new = k3_get_text(json_object_get(p->fresh, "hash"), side_names[p->new_side]);
        if (strcmp(hash_base, hash_new) != 0) {
            refuse(p, K3_VERDICT_INCOMPARABLE, "the routing differs (work.routing_hash)");
        } else if (how_differs(p->base, side_names[p->base_side], p->fresh, side_names[p->new_side],
                               p->how, sizeof(p->how))) {
            refuse(p, K3_VERDICT_INCOMPARABLE, p->how);
        }
    }
}

/* Two cells that were measured in the same launches: the launch's bias is in both, and leaves their difference. */
static bool share_launches(const pair_t *p)
{
    return p->base_side == p->new_side &&
           json_equal(
               json_object_get(json_object_get(p->base, "launches"), side_names[p->base_side]),
               json_object_get(json_object_get(p->fresh, "launches"), side_names[p->new_side]));
}

static k3_status_t add_pair(pairs_t *pairs, pair_t pair, k3_error_t *err)
{
    pair_t *p = &pairs->pair[pairs->count++];

    *p = pair;
    examine(p, pairs->machine);
    if (p->reason == NULL) {
        p->at = pairs->judged_count++;
        pairs->judged[p->at].paired = share_launches(p);
        k3_judged_take(values_of(p->base, p->base_side), values_of(p->fresh, p->new_side),
                       &pairs->judged[p->at], &p->values, err);
    }
    return err->status;
}

static k3_status_t pair_sides(const k3_comparison_t *c, pairs_t *pairs, k3_error_t *err)
{
    const char *key;
    json_t     *entry;

    json_object_foreach(c->cells, key, entry)
    {
        if (add_pair(pairs,
                     (pair_t){key, key, entry, entry, K3_SIDE_BASE, K3_SIDE_NEW, NULL, NULL,
                              K3_VERDICT_SAME, 0, ""},
                     err) != K3_OK) {
            break;
        }
    }
    return err->status;
}

/* For each work the key of what the others are held against. */
static json_t *find_baselines(const k3_comparison_t *c)
{
    json_t     *found = json_object(), *entry;
    const char *key;

    json_object_foreach(c->cells, key, entry)
    {
        const char *work = k3_get_text(entry, "work");
        bool        wanted =
            c->baseline == NULL || strcmp(k3_get_text(entry, "backend"), c->baseline) == 0;

        if (wanted && json_object_get(found, work) == NULL) {
            json_object_set_new(found, work, json_string(key));
        }
    }
    return found;
}

static k3_status_t pair_backends(const k3_comparison_t *c, pairs_t *pairs, k3_error_t *err)
{
    json_t     *baselines = find_baselines(c), *entry;
    const char *key;

    json_object_foreach(c->cells, key, entry)
    {
        const char *base =
            json_string_value(json_object_get(baselines, k3_get_text(entry, "work")));

        if (base != NULL && strcmp(base, key) == 0) {
            continue;
        }
        if (add_pair(pairs,
                     (pair_t){base, key, base != NULL ? json_object_get(c->cells, base) : NULL,
                              entry, K3_SIDE_BASE, K3_SIDE_BASE, NULL, NULL, K3_VERDICT_SAME, 0,
                              ""},
                     err) != K3_OK) {
            break;
        }
    }
    /* The names outlive the object: they are keys of c->cells. */
    for (size_t i = 0; i < pairs->count; i++) {
        if (pairs->pair[i].base_key != NULL) {
            pairs->pair[i].base_key =
                json_object_iter_key(json_object_iter_at(c->cells, pairs->pair[i].base_key));
        }
    }
    json_decref(baselines);
    return err->status;
}

/* --- the document ---------------------------------------------------------------------------- */

static json_t *row_json(const pairs_t *pairs, const pair_t *p)
{
    const k3_judged_t *j = p->reason == NULL ? &pairs->judged[p->at] : NULL;
    json_t            *row = json_object();

    k3_set_text(row, "key", p->new_key);
    k3_set_text(row, "base_key", p->base_key != NULL ? p->base_key : "");
    k3_set_text(row, "backend", k3_get_text(p->fresh, "backend"));
    k3_set_text(row, "work", k3_get_text(p->fresh, "work"));
    k3_set_text(row, "verdict", k3_verdict_names[j != NULL ? j->verdict : p->verdict]);
    if (j != NULL) {
        k3_judged_reason(row, j);
        k3_judged_shift(row, j);
        k3_set_text(row, "test", j->paired ? "signed ranks" : "Mann-Whitney");
    } else {
        k3_set_text(row, "reason", p->reason);
    }
    json_object_set_new(
        row, side_names[0],
        k3_judged_side(values_of(p->base, p->base_side), j != NULL ? j->median_a : NAN));
    json_object_set_new(
        row, side_names[1],
        k3_judged_side(values_of(p->fresh, p->new_side), j != NULL ? j->median_b : NAN));
    return row;
}

static json_t *document_json(const k3_comparison_t *c, const k3_verdict_rule_t *rule,
                             const pairs_t *pairs, size_t *counts)
{
    json_t *cells = json_array(), *verdicts = json_object();

    for (size_t i = 0; i < pairs->count; i++) {
        const pair_t *p = &pairs->pair[i];

        counts[p->reason == NULL ? pairs->judged[p->at].verdict : p->verdict]++;
        json_array_append_new(cells, row_json(pairs, p));
    }
    for (int v = 0; v < K3_VERDICT_COUNT; v++) {
        k3_set_count(verdicts, k3_verdict_names[v], counts[v]);
    }
    return json_pack(
        "{s:s, s:s, s:s, s:b, s:o, s:f, s:f, s:i, s:s, s:o, s:o}", "schema", "k3bench.comparison/1",
        "compares", c->sides ? "sides" : "backends", "phase",
        c->phase != NULL ? c->phase : "headline", "scaled", c->scaled, "baseline",
        c->baseline != NULL ? json_string(c->baseline) : json_null(), "level", rule->level,
        "floor_pct", 100.0 * rule->floor, "family", (int)pairs->judged_count, "method",
        "Mann-Whitney over launches, or signed ranks within them, Holm over the family, "
        "Hodges-Lehmann shift",
        "verdicts", verdicts, "cells", cells);
}

k3_status_t k3_comparison_judge(const k3_comparison_t *c, const k3_verdict_rule_t *rule,
                                json_t **document_p, size_t *worse, k3_error_t *err)
{
    pairs_t pairs = {0};
    size_t  most = json_object_size(c->cells) + 1, counts[K3_VERDICT_COUNT] = {0};

    compare_machines(c, pairs.machine, sizeof(pairs.machine));
    if (k3_alloc("pairs", most, sizeof(pair_t), &pairs.pair, err) == K3_OK &&
        k3_alloc("judgements", most, sizeof(k3_judged_t), &pairs.judged, err) == K3_OK &&
        (c->sides ? pair_sides : pair_backends)(c, &pairs, err) == K3_OK &&
        k3_judge(pairs.judged, pairs.judged_count, rule, err) == K3_OK) {
        *document_p = document_json(c, rule, &pairs, counts);
        *worse = counts[K3_VERDICT_BROKEN];
        if (c->sides) {
            *worse += counts[K3_VERDICT_WORSE] + counts[K3_VERDICT_MISSING];
        }
    }
    for (size_t i = 0; i < pairs.count; i++) {
        k3_free(pairs.pair[i].values);
    }
    k3_free(pairs.judged);
    k3_free(pairs.pair);
    return err->status;
}
