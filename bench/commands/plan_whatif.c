/* plan --what-if: the predicted times with one rule turned into another. A rule that an option or the machine
 * can have is asked for in the ordinary way; one that the backend refuses is forced on the resolved cell and
 * marked hypothetical, with the refusal. */
#include <stdlib.h>
#include <string.h>

#include "bench/commands/plan_model.h"
#include "bench/plan/counted.h"
#include "bench/profiles/rules.h"
#include "bench/report/values.h"
#include "harness/base/options.h"

enum { RULES_MAX = 32 };

typedef struct variant {
    k3_cell_request_t   request;
    k3_machine_file_t   machine;
    uint32_t            doorbell_every; /* of the profile; 0: as it is */
    bool                doorbell_batch;
    const k3_profile_t *as;           /* whose rules the profile takes over; NULL: none */
    unsigned            as_rules;     /* bits of k3_rule_t */
    bool                machine_only; /* the cell, and so its loads, are as they were */
    char                texts[RULES_MAX][64];
} variant_t;

/* --- one rule ---------------------------------------------------------------------------------- */

static const char *const rule_names[] = {
    "qps", "p2p", "fabric", "posting", "signal", "dispatch-dtype", "combine-dtype", NULL};

static k3_status_t set_figure(const char *name, const char *value, variant_t *v, k3_error_t *err)
{
    const char *names[K3_FIG_COUNT + sizeof(rule_names) / sizeof(rule_names[0])];
    size_t      count = 0, index;
    double      number;

    for (int i = 0; i < K3_FIG_COUNT; i++) {
        names[count++] = k3_figure_name((k3_figure_t)i);
    }
    for (size_t i = 0; rule_names[i] != NULL; i++) {
        names[count++] = rule_names[i];
    }
    names[count] = NULL;
    if (k3_parse_name("what-if", name, names, &index, err) != K3_OK ||
        k3_parse_double(name, value, 0, 1e9, &number, err) != K3_OK) {
        return err->status;
    }
    k3_machine_set(&v->machine, (k3_figure_t)index, number, K3_FROM_DECIDED, "what-if");
    if (k3_figure(&v->machine, (k3_figure_t)index, -1) != number) {
        k3_fail(err, K3_ERR_USAGE, "what-if: %s=%s lies beyond what the figure can be", name,
                value);
    }
    return err->status;
}

static k3_status_t set_posting(const char *value, variant_t *v, k3_error_t *err)
{
    uint64_t every = 0;

    v->machine_only = false;
    if (strcmp(value, "batch") == 0) {
        v->doorbell_batch = true;
        return K3_OK;
    }
    if (strncmp(value, "every", 5) != 0) {
        return k3_fail(err, K3_ERR_USAGE, "what-if: posting=%.40s; it is everyN or batch", value);
    }
    if (k3_parse_u64("what-if posting=every", value + 5, 1, 65536, &every, err) == K3_OK) {
        v->doorbell_every = (uint32_t)every;
    }
    return err->status;
}

static k3_status_t set_rule(const char *name, const char *value, variant_t *v, k3_error_t *err)
{
    if (strcmp(name, "qps") == 0) {
        v->machine_only = false;
        return k3_parse_u64("what-if qps", value, 1, K3_QPS_ASKED_MAX, &v->request.qps, err);
    }
    if (strcmp(name, "p2p") == 0) {
        v->machine_only = false;
        return k3_parse_switch("what-if p2p", value, &v->request.p2p, err);
    }
    if (strcmp(name, "posting") == 0) {
        return set_posting(value, v, err);
    }
    if (strcmp(name, "fabric") == 0) {
        v->request.fabric = value;
    } else if (strcmp(name, "signal") == 0) {
        v->request.signal = value;
    } else if (strcmp(name, "dispatch-dtype") == 0) {
        v->request.dispatch_dtype = value;
    } else if (strcmp(name, "combine-dtype") == 0) {
        v->request.combine_dtype = value;
    } else {
        return set_figure(name, value, v, err);
    }
    v->machine_only = false;
    return K3_OK;
}

/* `text` lives in the variant: the request points to its value. */
static k3_status_t add_rule(const char *text, unsigned index, variant_t *v, k3_error_t *err)
{
    char *copy = v->texts[index], *equals;

    if (strlen(text) >= sizeof(v->texts[0]) || strchr(text, '=') == NULL) {
        return k3_fail(err, K3_ERR_USAGE, "what-if: \"%.60s\"; a rule is NAME=VALUE", text);
    }
    snprintf(copy, sizeof(v->texts[0]), "%s", text);
    equals = strchr(copy, '=');
    *equals = '\0';
    return set_rule(copy, equals + 1, v, err);
}

/* --- prediction -------------------------------------------------------------------------------- */

/* What the request asks beyond what the backend can have. */
static k3_status_t force(const variant_t *v, k3_cell_t *cell, k3_error_t *err)
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

static void change_posting(const variant_t *v, planned_t *p, char reason[K3_ERROR_TEXT])
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
static k3_status_t change_rules(const variant_t *v, planned_t *p, char reason[K3_ERROR_TEXT],
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

static k3_status_t plan_variant(const k3_cell_request_t *base, const variant_t *v, planned_t *p,
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
    const planned_t         *as_is;
    outcome_t                before;
    json_t                  *rules;
} list_t;

static k3_status_t add_variant(list_t *l, const char *rule, const variant_t *v, k3_error_t *err)
{
    char      reason[K3_ERROR_TEXT] = "";
    outcome_t after = {.memory = l->as_is->memory};
    planned_t changed;

    if (v->machine_only) {
        k3_predict(&l->as_is->cell, &l->as_is->loads, &v->machine, &after.prediction);
    } else if (plan_variant(l->request, v, &changed, reason, err) == K3_OK) {
        k3_predict(&changed.cell, &changed.loads, &v->machine, &after.prediction);
        after.memory = changed.memory;
        unplan(&changed);
    }
    if (err->status == K3_OK) {
        json_array_append_new(l->rules, difference(rule, reason, &l->before, &after));
    }
    return err->status;
}

/* "as:BACKEND": each rule in which the two differ alone, all of them, and the other backend itself. */
static k3_status_t add_backend(list_t *l, const char *name, const variant_t *base, k3_error_t *err)
{
    const k3_profile_t *own = l->as_is->cell.profile;
    static variant_t    one, all, other;
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

static k3_status_t add_word(list_t *l, const char *word, const variant_t *base, variant_t *all,
                            unsigned index, k3_error_t *err)
{
    static variant_t one;

    if (strncmp(word, "as:", 3) == 0) {
        return add_backend(l, word + 3, base, err);
    }
    one = *base;
    if (add_rule(word, 0, &one, err) == K3_OK && add_rule(word, index, all, err) == K3_OK) {
        add_variant(l, word, &one, err);
    }
    return err->status;
}

k3_status_t k3_plan_whatif(const k3_cell_request_t *request, const k3_machine_file_t *machine,
                           const char *rules, json_t **list_p, k3_error_t *err)
{
    static variant_t base, all;
    char             reason[K3_ERROR_TEXT];
    k3_list_t        words;
    planned_t        as_is;
    list_t           list = {.request = request, .as_is = &as_is, .rules = json_array()};
    size_t           alone = 0;

    *list_p = list.rules;
    base = (variant_t){.request = *request, .machine = *machine, .machine_only = true};
    all = base;
    if (plan_variant(request, &base, &as_is, reason, err) != K3_OK) {
        return err->status;
    }
    k3_predict(&as_is.cell, &as_is.loads, machine, &list.before.prediction);
    list.before.memory = as_is.memory;
    k3_list_split(rules, ',', &words);
    if (words.count > RULES_MAX) {
        k3_fail(err, K3_ERR_USAGE, "what-if: %zu rules; at most %d", words.count, RULES_MAX);
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

static void print_buffers(const json_t *buffers, FILE *out)
{
    double before = json_number_value(json_object_get(buffers, "before"));
    double after = json_number_value(json_object_get(buffers, "after"));

    if (buffers != NULL) {
        fprintf(out, "%-30s %-11s %10.1f %10.1f %+7.1f%%\n", "", "block MB", before * 1e-6,
                after * 1e-6, before > 0 ? 100 * (after - before) / before : 0);
    }
}

void k3_whatif_print(const json_t *list, FILE *out)
{
    fprintf(out, "\n%-30s %-11s %10s %10s %8s  %s\n", "what if", "phase", "before us", "after us",
            "change", "bound by");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *rule = json_array_get(list, i);
        const json_t *phases = json_object_get(rule, "phases");

        for (size_t p = 0; p < json_array_size(phases); p++) {
            const json_t *phase = json_array_get(phases, p);
            double        before = json_number_value(json_object_get(phase, "before"));
            double        after = json_number_value(json_object_get(phase, "after"));

            fprintf(out, "%-30s %-11s %10.1f %10.1f %+7.1f%%  %s\n",
                    p == 0 ? json_string_value(json_object_get(rule, "rule")) : "",
                    json_string_value(json_object_get(phase, "name")), before, after,
                    before > 0 ? 100 * (after - before) / before : 0,
                    json_string_value(json_object_get(phase, "bound_by")));
        }
        print_buffers(json_object_get(rule, "buffers"), out);
        if (json_is_true(json_object_get(rule, "hypothetical"))) {
            fprintf(out, "%-30s hypothetical: %s\n", "",
                    json_string_value(json_object_get(rule, "reason")));
        }
    }
}
