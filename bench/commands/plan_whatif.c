/* plan --what-if: the predicted times with one rule turned into another. A rule that an option or the machine
 * can have is asked for in the ordinary way; one that the backend refuses is forced on the resolved cell and
 * marked hypothetical, with the refusal. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/commands/plan_model.h"
#include "bench/commands/plan_rules.h"
#include "bench/plan/buffers.h"
#include "bench/plan/counted.h"
#include "bench/profiles/rules.h"
#include "bench/report/fields.h"
#include "bench/report/values.h"
#include "harness/base/options.h"

/* --- prediction -------------------------------------------------------------------------------- */

/* What the request asks beyond what the backend can have. */
static k3_status_t force(const k3_variant_t *v, k3_cell_t *cell, k3_error_t *err)
{
    size_t format;

    cell->p2p = v->request.p2p;
    if (v->request.qps > 0) {
        cell->qps.active = (uint32_t)v->request.qps;
    }
    if (v->request.dispatch_dtype != NULL && strcmp(v->request.dispatch_dtype, "auto") != 0) {
        if (k3_parse_name("what-if dispatch-dtype", v->request.dispatch_dtype, k3_format_names,
                          &format, err) != K3_OK) {
            return err->status;
        }
        cell->dispatch_format = (k3_format_t)format;
    }
    if (v->request.combine_dtype != NULL && strcmp(v->request.combine_dtype, "auto") != 0) {
        if (k3_parse_name("what-if combine-dtype", v->request.combine_dtype, k3_format_names,
                          &format, err) != K3_OK) {
            return err->status;
        }
        cell->combine_format = (k3_format_t)format;
    }
    return K3_OK;
}

/* A cell and its loads; `profile` is a copy where a rule of it is changed. */
typedef struct planned {
    k3_cell_t    cell;
    k3_loads_t   loads;
    k3_memory_t  memory;
    k3_profile_t profile;
} planned_t;

static void unplan(planned_t *p)
{
    k3_loads_free(&p->loads);
    k3_cell_destroy(&p->cell);
}

static void change_posting(const k3_variant_t *v, planned_t *p, char reason[K3_ERROR_TEXT])
{
    const k3_profile_t *own = p->cell.profile;

    if (v->doorbell_every == 0 && !v->doorbell_batch) {
        return;
    }
    p->profile = *own;
    p->profile.doorbell_every = v->doorbell_batch ? K3_DOORBELL_NEVER : v->doorbell_every;
    p->profile.doorbell_signal = v->doorbell_batch || own->doorbell_signal;
    if (p->profile.doorbell_every != own->doorbell_every) {
        snprintf(reason, K3_ERROR_TEXT, "%s posts in another way", own->name);
    }
    p->cell.profile = &p->profile;
}

/* Rules of another backend; what the cell has taken over from its profile follows. */
static k3_status_t change_rules(const k3_variant_t *v, planned_t *p, char reason[K3_ERROR_TEXT],
                                k3_error_t *err)
{
    k3_cell_t *cell = &p->cell;

    if (v->as_rules == 0) {
        return K3_OK;
    }
    memcpy(&p->profile, cell->profile, sizeof(p->profile));
    for (int rule = 0; rule < K3_RULE_COUNT; rule++) {
        if ((v->as_rules >> rule & 1) != 0) {
            k3_rule_turn((k3_rule_t)rule, &p->profile, v->as);
        }
    }
    snprintf(reason, K3_ERROR_TEXT, "%s has rules of its own", cell->profile->name);
    cell->signal_op =
        cell->signal_op == cell->profile->signal_op ? p->profile.signal_op : cell->signal_op;
    cell->profile = &p->profile;
    return k3_profile_qps(&p->profile, cell->layout.tp, cell->model.experts, cell->fabric,
                          v->request.qps, &cell->qps, err);
}

static k3_status_t plan_variant(const k3_cell_request_t *base, const k3_variant_t *v, planned_t *p,
                                char reason[K3_ERROR_TEXT], k3_error_t *err)
{
    k3_error_t refusal = K3_ERROR_INIT;

    *p = (planned_t){0};
    reason[0] = '\0';
    if (k3_cell_create(&v->request, &p->cell, &refusal) != K3_OK) {
        if (refusal.status != K3_ERR_UNSUPPORTED) {
            return k3_fail(err, refusal.status, "%s", refusal.text);
        }
        snprintf(reason, K3_ERROR_TEXT, "%s", refusal.text);
        if (k3_cell_create(base, &p->cell, err) != K3_OK || force(v, &p->cell, err) != K3_OK) {
            unplan(p);
            return err->status;
        }
    }
    change_posting(v, p, reason);
    if (change_rules(v, p, reason, err) != K3_OK ||
        k3_loads_plan(&p->cell, &p->loads, err) != K3_OK) {
        unplan(p);
        return err->status;
    }
    k3_memory_largest(&p->cell, &p->memory);
    return K3_OK;
}

/* --- what is so already ------------------------------------------------------------------------ */

static bool same_choices(const k3_cell_t *a, const k3_cell_t *b)
{
    return strcmp(a->profile->name, b->profile->name) == 0 && a->p2p == b->p2p &&
           a->fabric == b->fabric && a->qps.existing == b->qps.existing &&
           a->qps.active == b->qps.active && a->dispatch_format == b->dispatch_format &&
           a->combine_format == b->combine_format && a->signal_op == b->signal_op &&
           a->profile->doorbell_every == b->profile->doorbell_every &&
           a->profile->doorbell_signal == b->profile->doorbell_signal;
}

static bool same_figures(const k3_machine_file_t *a, const k3_machine_file_t *b)
{
    for (int i = 0; i < K3_FIG_COUNT; i++) {
        if (k3_predict_figure(a, (k3_figure_t)i) != k3_predict_figure(b, (k3_figure_t)i)) {
            return false;
        }
    }
    return true;
}

/* --- the list ---------------------------------------------------------------------------------- */

static json_t *change_of(const char *name, double before, double after)
{
    json_t *o = json_object();

    k3_set_text(o, "name", name);
    k3_set_number(o, "before", before);
    k3_set_number(o, "after", after);
    return o;
}

/* What is compared: a plan, and its times. */
typedef struct outcome {
    k3_prediction_t prediction;
    k3_memory_t     memory;
} outcome_t;

static json_t *difference(const char *rule, const char *reason, const outcome_t *before,
                          const outcome_t *after)
{
    json_t *o = json_object(), *phases = json_array();

    k3_set_text(o, "rule", rule);
    k3_set_bool(o, "hypothetical", reason[0] != '\0');
    k3_set_text(o, "reason", reason[0] != '\0' ? reason : NULL);
    for (int i = 0; i < K3_PREDICT_COUNT; i++) {
        const k3_prediction_phase_t *b = &before->prediction.phase[i];
        const k3_prediction_phase_t *a = &after->prediction.phase[i];

        if (b->known && a->known) {
            json_t *p = change_of(k3_predicted_names[i], b->us, a->us);

            k3_set_text(p, "bound_by", k3_term_names[a->bound]);
            k3_set_bool(p, "within_error", a->us >= b->low && a->us <= b->high);
            json_array_append_new(phases, p);
        }
    }
    json_object_set_new(o, "phases", phases);
    if (before->memory.block != after->memory.block) {
        json_object_set_new(
            o, "buffers",
            change_of("bytes", (double)before->memory.block, (double)after->memory.block));
    }
    return o;
}

typedef struct list {
    const k3_cell_request_t *request; /* as it is */
    const k3_machine_file_t *machine;
    const planned_t         *as_is;
    outcome_t                before;
    json_t                  *rules;
} list_t;

static k3_status_t add_variant(list_t *l, const char *rule, const k3_variant_t *v, k3_error_t *err)
{
    char      reason[K3_ERROR_TEXT] = "";
    outcome_t after = {.memory = l->as_is->memory};
    bool      already = v->as_rules == 0 && same_figures(&v->machine, l->machine);
    planned_t changed;

    if (v->machine_only) {
        k3_predict(&l->as_is->cell, &l->as_is->loads, &v->machine, &after.prediction);
    } else if (plan_variant(l->request, v, &changed, reason, err) == K3_OK) {
        k3_predict(&changed.cell, &changed.loads, &v->machine, &after.prediction);
        after.memory = changed.memory;
        already = already && same_choices(&changed.cell, &l->as_is->cell);
        unplan(&changed);
    }
    if (err->status == K3_OK) {
        json_t *o = difference(rule, reason, &l->before, &after);

        k3_set_bool(o, "already", already);
        json_array_append_new(l->rules, o);
    }
    return err->status;
}

/* "as:BACKEND": each rule in which the two differ alone, all of them, and the other backend itself. */
static k3_status_t add_backend(list_t *l, const char *name, const k3_variant_t *base,
                               k3_error_t *err)
{
    const k3_profile_t *own = l->as_is->cell.profile;
    static k3_variant_t one, all, other;
    char                text[64];

    all = other = *base;
    all.machine_only = other.machine_only = false;
    if (k3_registry_find(name, &all.as, err) != K3_OK) {
        return err->status;
    }
    if (all.as->engine != own->engine || k3_is_counted(all.as) != k3_is_counted(own)) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "what-if as:%.40s: %s moves rows in another way than %s, which no rule of one "
            "turns into the other's",
            name, all.as->name, own->name);
    }
    for (int rule = 0; rule < K3_RULE_COUNT && err->status == K3_OK; rule++) {
        k3_profile_t copy;

        memcpy(&copy, own, sizeof(copy));
        if (!k3_rule_turn((k3_rule_t)rule, &copy, all.as)) {
            continue;
        }
        one = all;
        one.as_rules = 1u << rule;
        all.as_rules |= one.as_rules;
        snprintf(text, sizeof(text), "%s as %.40s", k3_rule_name((k3_rule_t)rule), all.as->name);
        add_variant(l, text, &one, err);
    }
    if (err->status == K3_OK) {
        snprintf(text, sizeof(text), "all rules as %.40s", all.as->name);
        add_variant(l, text, &all, err);
    }
    if (err->status == K3_OK) {
        other.request.backend = all.as->name;
        snprintf(text, sizeof(text), "%.40s itself", all.as->name);
        add_variant(l, text, &other, err);
    }
    return err->status;
}

static k3_status_t add_word(list_t *l, const char *word, const k3_variant_t *base,
                            k3_variant_t *all, unsigned index, k3_error_t *err)
{
    static k3_variant_t one;

    if (strncmp(word, "as:", 3) == 0) {
        return add_backend(l, word + 3, base, err);
    }
    one = *base;
    if (k3_rule_add(word, 0, &one, err) == K3_OK && k3_rule_add(word, index, all, err) == K3_OK) {
        add_variant(l, word, &one, err);
    }
    return err->status;
}

k3_status_t k3_plan_whatif(const k3_cell_request_t *request, const k3_machine_file_t *machine,
                           const char *rules, json_t **list_p, k3_error_t *err)
{
    static k3_variant_t base, all;
    char                reason[K3_ERROR_TEXT];
    k3_list_t           words;
    planned_t           as_is;
    list_t list = {.request = request, .machine = machine, .as_is = &as_is, .rules = json_array()};
    size_t alone = 0;

    *list_p = list.rules;
    base = (k3_variant_t){.request = *request, .machine = *machine, .machine_only = true};
    all = base;
    if (plan_variant(request, &base, &as_is, reason, err) != K3_OK) {
        return err->status;
    }
    k3_predict(&as_is.cell, &as_is.loads, machine, &list.before.prediction);
    list.before.memory = as_is.memory;
    k3_list_split(rules, ',', &words);
    if (words.count > K3_WHATIF_RULES) {
        k3_fail(err, K3_ERR_USAGE, "what-if: %zu rules; at most %d", words.count, K3_WHATIF_RULES);
    }
    for (size_t i = 0; i < words.count && err->status == K3_OK; i++) {
        alone += strncmp(words.items[i], "as:", 3) != 0;
        add_word(&list, words.items[i], &base, &all, (unsigned)i, err);
    }
    if (alone > 1 && err->status == K3_OK) {
        add_variant(&list, "all of these", &all, err);
    }
    k3_list_free(&words);
    unplan(&as_is);
    return err->status;
}

/* Rounded to what is printed. */
static double percent(const json_t *change)
{
    double before = json_number_value(json_object_get(change, "before"));
    double after = json_number_value(json_object_get(change, "after"));
    double part = before > 0 ? 100 * (after - before) / before : 0;

    return fabs(part) < 0.05 ? 0 : part;
}

static void print_change(const char *rule, const char *name, const json_t *change, double scale,
                         FILE *out)
{
    const char *bound = json_string_value(json_object_get(change, "bound_by"));
    bool        near = json_is_true(json_object_get(change, "within_error"));

    fprintf(out, "%-30s %-11s %10.1f %10.1f %+7.1f%%%s%s\n", rule, name,
            json_number_value(json_object_get(change, "before")) * scale,
            json_number_value(json_object_get(change, "after")) * scale, percent(change),
            bound == NULL ? ""
            : near        ? "~ "
                          : "  ",
            bound != NULL ? bound : "");
}

/* Whether anything of a rule is worth a line. */
static bool changes(const json_t *rule)
{
    const json_t *phases = json_object_get(rule, "phases"), *phase;
    bool          any = json_object_get(rule, "buffers") != NULL;
    size_t        i;

    json_array_foreach(phases, i, phase)
    {
        any = any || percent(phase) != 0;
    }
    return any;
}

/* The phases that a rule changes, and the block of buffers. */
static void print_rule(const json_t *rule, FILE *out)
{
    const json_t *phases = json_object_get(rule, "phases"), *phase;
    const json_t *buffers = json_object_get(rule, "buffers");
    const char   *name = k3_get_text(rule, "rule");
    size_t        i;

    json_array_foreach(phases, i, phase)
    {
        if (percent(phase) != 0) {
            print_change(name, k3_get_text(phase, "name"), phase, 1, out);
            name = "";
        }
    }
    if (buffers != NULL) {
        print_change(name, "block MB", buffers, 1e-6, out);
    }
    if (json_is_true(json_object_get(rule, "hypothetical"))) {
        fprintf(out, "%-30s hypothetical: %s\n", "", k3_get_text(rule, "reason"));
    }
}

/* Rules that change nothing share the last lines: those that are so, and those that are so without a difference. */
static void print_unchanged(const json_t *list, bool already, const char *head, FILE *out)
{
    enum { WIDTH = 116 };

    const json_t *rule;
    size_t        i, column = 0;
    char          name[80];

    json_array_foreach(list, i, rule)
    {
        bool beyond = json_is_true(json_object_get(rule, "hypothetical"));

        snprintf(name, sizeof(name), "%s%s", k3_get_text(rule, "rule"),
                 beyond ? " (hypothetical)" : "");
        if (changes(rule) || json_is_true(json_object_get(rule, "already")) != already) {
            continue;
        }
        if (column == 0) {
            column = (size_t)fprintf(out, "%s: %s", head, name);
        } else if (column + strlen(name) + 2 > WIDTH) {
            column = (size_t)fprintf(out, ",\n  %s", name);
        } else {
            column += (size_t)fprintf(out, ", %s", name);
        }
    }
    if (column > 0) {
        fputc('\n', out);
    }
}

/* Whether a change of it lies within the model's error. */
static bool is_near(const json_t *rule)
{
    const json_t *phases = json_object_get(rule, "phases"), *phase;
    size_t        i;

    json_array_foreach(phases, i, phase)
    {
        if (percent(phase) != 0 && json_is_true(json_object_get(phase, "within_error"))) {
            return true;
        }
    }
    return false;
}

void k3_whatif_print(const json_t *list, FILE *out)
{
    const json_t *rule;
    bool          headed = false, near = false;
    size_t        i;

    fputc('\n', out);
    json_array_foreach(list, i, rule)
    {
        if (!changes(rule)) {
            continue;
        }
        if (!headed) {
            fprintf(out, "%-30s %-11s %10s %10s %8s  %s\n", "what if", "phase", "before us",
                    "after us", "change", "bound by");
            headed = true;
        }
        print_rule(rule, out);
        near = near || is_near(rule);
    }
    print_unchanged(list, true, "is so already", out);
    print_unchanged(list, false, "no predicted time changes", out);
    if (near) {
        fprintf(out,
                "~: within the model's error of the time before, so that only a measurement can "
                "tell (k3bench help prediction)\n");
    }
}
