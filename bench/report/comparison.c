#include "bench/report/comparison.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "bench/report/fields.h"
#include "bench/report/judged.h"
#include "bench/report/keyparts.h"
#include "bench/report/pairing.h"
#include "bench/report/sides.h"
#include "bench/report/values.h"
#include "harness/base/memory.h"
#include "harness/base/text.h"

k3_status_t k3_comparison_open(k3_comparison_t *c, k3_error_t *err)
{
    for (int side = 0; side < K3_SIDE_COUNT; side++) {
        c->cells[side] = json_object();
        if (c->cells[side] == NULL) {
            return k3_fail(err, K3_ERR_ENV, "memory is short");
        }
    }
    return K3_OK;
}

void k3_comparison_close(k3_comparison_t *c)
{
    for (int side = 0; side < K3_SIDE_COUNT; side++) {
        json_decref(c->cells[side]);
    }
}

void k3_comparison_add(k3_comparison_t *c, k3_side_t side, const json_t *facts)
{
    k3_side_add(c->cells[side], facts);
}

/* --- pairs ----------------------------------------------------------------------------------- */

typedef struct pair {
    const char   *base_key, *new_key;
    const json_t *base, *fresh; /* entries; NULL: that side does not know the cell */
    double       *values;       /* owned: base, then new */
    const char   *reason;       /* why nothing was judged */
    k3_verdict_t  verdict;      /* then */
    size_t        at;           /* else: its number among the judged ones */
    char          how[320];     /* room for a reason */
    bool          transports;   /* they are part of what is compared */
    char          differs[512]; /* the options in which the keys of two sets differ; "" */
} pair_t;

typedef struct pairs {
    pair_t      *pair;
    size_t       count;
    k3_judged_t *judged;
    size_t       judged_count;
    size_t       met;      /* pairs with a cell on both sides */
    bool         backends; /* of one set of launches */
    json_t      *idle;     /* keys of cells that move no rows, and are no rivals of backends */
} pairs_t;

static const char *missing_of(const json_t *entry)
{
    const char *reason = json_string_value(json_object_get(entry, "none"));

    return reason != NULL ? reason : "this side does not have the cell";
}

static void refuse(pair_t *p, k3_verdict_t verdict, const char *reason)
{
    p->verdict = verdict;
    p->reason = reason;
}

/* Why a pair cannot be judged; reason NULL: it can. */
static void examine(pair_t *p, const pairs_t *pairs)
{
    const char *wrong_base = k3_side_wrong(p->base), *wrong_new = k3_side_wrong(p->fresh);

    if (wrong_base != NULL || wrong_new != NULL) {
        refuse(p, K3_VERDICT_BROKEN, wrong_new != NULL ? wrong_new : wrong_base);
    } else if (!k3_side_has_times(p->base) && k3_side_has_times(p->fresh)) {
        refuse(p, K3_VERDICT_ADDED, missing_of(p->base));
    } else if (!k3_side_has_times(p->fresh)) {
        refuse(p, K3_VERDICT_MISSING, missing_of(p->fresh));
    } else if (k3_sides_differ(p->base, p->fresh, pairs->backends || p->transports, p->how,
                               sizeof(p->how))) {
        refuse(p, K3_VERDICT_INCOMPARABLE, p->how);
    }
}

/* Two cells that were measured in the same launches: the launch's bias is in both, and leaves their difference. */
static bool share_launches(const pair_t *p, const pairs_t *pairs)
{
    return pairs->backends &&
           json_equal(json_object_get(p->base, "runs"), json_object_get(p->fresh, "runs"));
}

/* In which options the cells of two sets differ; the transports are compared where these, or UCX's, say so. */
static void set_difference(pair_t *p)
{
    char   asked[256];
    size_t used;

    k3_key_difference(p->base_key, p->new_key, p->differs, sizeof(p->differs));
    p->transports = k3_key_carried_apart(p->base_key, p->new_key);
    if (k3_sides_asked(p->base, p->fresh, asked, sizeof(asked))) {
        used = strlen(p->differs);
        k3_append(p->differs, sizeof(p->differs), used, "%s%s", used > 0 ? ", " : "", asked);
        p->transports = true;
    }
}

static k3_status_t add_pair(pairs_t *pairs, const char *base_key, const json_t *base,
                            const char *new_key, const json_t *fresh, k3_error_t *err)
{
    pair_t *p = &pairs->pair[pairs->count++];

    *p = (pair_t){.base_key = base_key, .new_key = new_key, .base = base, .fresh = fresh};
    if (!pairs->backends && base != NULL && fresh != NULL) {
        set_difference(p);
    }
    pairs->met += base != NULL && fresh != NULL;
    examine(p, pairs);
    if (p->reason == NULL) {
        p->at = pairs->judged_count++;
        pairs->judged[p->at].paired = share_launches(p, pairs);
        pairs->judged[p->at].apart =
            !pairs->backends && (!k3_side_moves(base) || !k3_side_moves(fresh));
        k3_judged_take(json_object_get(base, "us"), json_object_get(fresh, "us"),
                       &pairs->judged[p->at], &p->values, err);
    }
    return err->status;
}

/* A key of `side` as the object itself holds it: it outlives what it was found in. */
static const char *key_in(json_t *side, const char *key)
{
    return key != NULL ? json_object_iter_key(json_object_iter_at(side, key)) : NULL;
}

static k3_status_t pair_base(const k3_comparison_t *c, const json_t *options, pairs_t *pairs,
                             k3_error_t *err)
{
    json_t     *fresh = c->cells[K3_SIDE_NEW], *entry;
    const char *key, *other;

    json_object_foreach(c->cells[K3_SIDE_BASE], key, entry)
    {
        other = key_in(fresh, json_string_value(json_object_get(options, key)));
        other = other != NULL ? other : key;
        if (add_pair(pairs, key, entry, other, json_object_get(fresh, other), err) != K3_OK) {
            break;
        }
    }
    return err->status;
}

/* The new cells that no cell of the base was paired with. */
static k3_status_t pair_new(const k3_comparison_t *c, const json_t *options, pairs_t *pairs,
                            k3_error_t *err)
{
    json_t     *taken = json_object(), *entry;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)options, key, entry)
    {
        json_object_set_new(taken, json_string_value(entry), json_true());
    }
    json_object_foreach(c->cells[K3_SIDE_NEW], key, entry)
    {
        if (json_object_get(c->cells[K3_SIDE_BASE], key) == NULL &&
            json_object_get(taken, key) == NULL &&
            add_pair(pairs, key, NULL, key, entry, err) != K3_OK) {
            break;
        }
    }
    json_decref(taken);
    return err->status;
}

/* The cells of the base in their order, then those that are new. */
static k3_status_t pair_sides(const k3_comparison_t *c, pairs_t *pairs, k3_error_t *err)
{
    json_t *options = k3_pair_options(c->cells[K3_SIDE_BASE], c->cells[K3_SIDE_NEW]);

    if (pair_base(c, options, pairs, err) == K3_OK) {
        pair_new(c, options, pairs, err);
    }
    json_decref(options);
    return err->status;
}

/* For each work the key of what the others are held against. */
static json_t *find_baselines(const k3_comparison_t *c)
{
    json_t     *found = json_object(), *entry;
    const char *key;

    json_object_foreach(c->cells[K3_SIDE_BASE], key, entry)
    {
        const char *work = k3_get_text(entry, "work");
        bool        wanted = c->baseline == NULL ? k3_side_moves(entry)
                                                 : strcmp(k3_get_text(entry, "backend"), c->baseline) == 0;

        if (wanted && json_object_get(found, work) == NULL) {
            json_object_set_new(found, work, json_string(key));
        }
    }
    return found;
}

static k3_status_t pair_backends(const k3_comparison_t *c, pairs_t *pairs, k3_error_t *err)
{
    json_t     *cells = c->cells[K3_SIDE_BASE], *baselines = find_baselines(c), *entry;
    const char *key, *base;

    pairs->backends = true;
    json_object_foreach(cells, key, entry)
    {
        base = json_string_value(json_object_get(baselines, k3_get_text(entry, "work")));
        if (base != NULL && strcmp(base, key) == 0) {
            continue;
        }
        if (!k3_side_moves(entry) && k3_side_wrong(entry) == NULL) {
            json_array_append_new(pairs->idle, json_string(key));
            continue;
        }
        base = key_in(cells, base);
        if (add_pair(pairs, base, base != NULL ? json_object_get(cells, base) : NULL, key, entry,
                     err) != K3_OK) {
            break;
        }
    }
    json_decref(baselines);
    return err->status;
}

/* --- the document ---------------------------------------------------------------------------- */

/* What the two cells are called: within their work among backends, within their side between sides. */
static void set_labels(const k3_comparison_t *c, const pairs_t *pairs, const pair_t *p, json_t *row)
{
    const json_t *base = c->cells[K3_SIDE_BASE];
    const json_t *of = pairs->backends || p->fresh == NULL ? base : c->cells[K3_SIDE_NEW];
    char          text[512];

    k3_set_text(row, "label", k3_pair_label(of, p->new_key, !pairs->backends, text, sizeof(text)));
    if (p->base != NULL) {
        k3_set_text(row, "base_label",
                    k3_pair_label(base, p->base_key, !pairs->backends, text, sizeof(text)));
    } else {
        k3_set_null(row, "base_label", "there is no base");
    }
}

static json_t *row_json(const k3_comparison_t *c, const pairs_t *pairs, const pair_t *p)
{
    const k3_judged_t *j = p->reason == NULL ? &pairs->judged[p->at] : NULL;
    const json_t      *of = p->fresh != NULL ? p->fresh : p->base;
    json_t            *row = json_object();

    k3_set_text(row, "key", p->new_key);
    k3_set_text(row, "base_key", p->base_key != NULL ? p->base_key : "");
    k3_set_text(row, "backend", k3_get_text(of, "backend"));
    set_labels(c, pairs, p, row);
    k3_set_text(row, "differs", p->differs);
    k3_set_bool(row, "moves", k3_side_moves(of));
    k3_set_text(row, "work", k3_get_text(of, "work"));
    k3_set_text(row, "verdict", k3_verdict_names[j != NULL ? j->verdict : p->verdict]);
    if (j != NULL) {
        k3_judged_reason(row, j);
        k3_judged_note(row, j);
        k3_judged_shift(row, j);
        k3_set_text(row, "test", j->paired ? "signed ranks" : "Mann-Whitney");
    } else {
        k3_set_text(row, "reason", p->reason);
    }
    json_object_set_new(
        row, "base", k3_judged_side(json_object_get(p->base, "us"), j != NULL ? j->median_a : NAN));
    json_object_set_new(
        row, "new", k3_judged_side(json_object_get(p->fresh, "us"), j != NULL ? j->median_b : NAN));
    return row;
}

/* More ranks than cores, in any launch of any side. */
static bool oversubscribed(const k3_comparison_t *c)
{
    static const char field[] = "topology.oversubscribed";
    json_t           *entry;
    const char       *key;

    for (int side = 0; side < K3_SIDE_COUNT; side++) {
        json_object_foreach(c->cells[side], key, entry)
        {
            if (strcmp(k3_get_text(json_object_get(entry, "how"), field), "true") == 0 ||
                json_object_get(json_object_get(entry, "mixed"), field) != NULL) {
                return true;
            }
        }
    }
    return false;
}

static size_t family_of(const pairs_t *pairs)
{
    size_t family = 0;

    for (size_t i = 0; i < pairs->judged_count; i++) {
        family += !pairs->judged[i].apart;
    }
    return family;
}

/* The options in which all pairs of two sets differ alike; "" where they do not. */
static const char *differs_in(const pairs_t *pairs)
{
    const char *text = NULL;

    for (size_t i = 0; i < pairs->count; i++) {
        const pair_t *p = &pairs->pair[i];

        if (p->base == NULL || p->fresh == NULL) {
            continue;
        }
        if (text != NULL && strcmp(text, p->differs) != 0) {
            return "";
        }
        text = p->differs;
    }
    return text != NULL ? text : "";
}

static json_t *verdicts_json(const size_t *counts)
{
    json_t *verdicts = json_object();

    for (int v = 0; v < K3_VERDICT_COUNT; v++) {
        k3_set_count(verdicts, k3_verdict_names[v], counts[v]);
    }
    return verdicts;
}

static json_t *document_json(const k3_comparison_t *c, const k3_verdict_rule_t *rule,
                             const pairs_t *pairs, size_t *counts)
{
    json_t *cells = json_array();

    for (size_t i = 0; i < pairs->count; i++) {
        const pair_t *p = &pairs->pair[i];

        counts[p->reason == NULL ? pairs->judged[p->at].verdict : p->verdict]++;
        json_array_append_new(cells, row_json(c, pairs, p));
    }
    return json_pack(
        "{s:s, s:s, s:s, s:b, s:o, s:f, s:f, s:i, s:i, s:s, s:O, s:s, s:b, s:o, s:o}", "schema",
        "k3bench.comparison/2", "compares", c->sides ? "sides" : "backends", "phase",
        c->phase != NULL ? c->phase : "headline", "scaled", c->scaled, "baseline",
        c->baseline != NULL ? json_string(c->baseline) : json_null(), "level", rule->level,
        "floor_pct", 100.0 * rule->floor, "pairs", (int)pairs->met, "family", (int)family_of(pairs),
        "differs", differs_in(pairs), "not_judged", pairs->idle, "method",
        "Mann-Whitney over launches, or signed ranks within them, Holm over the family, "
        "Hodges-Lehmann shift of the ratios new over base",
        "oversubscribed", oversubscribed(c), "verdicts", verdicts_json(counts), "cells", cells);
}

k3_status_t k3_comparison_judge(const k3_comparison_t *c, const k3_verdict_rule_t *rule,
                                json_t **document_p, size_t *worse, k3_error_t *err)
{
    pairs_t pairs = {.idle = json_array()};
    size_t  counts[K3_VERDICT_COUNT] = {0};
    size_t  most =
        json_object_size(c->cells[K3_SIDE_BASE]) + json_object_size(c->cells[K3_SIDE_NEW]) + 1;

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
    json_decref(pairs.idle);
    k3_free(pairs.judged);
    k3_free(pairs.pair);
    return err->status;
}
