#define _GNU_SOURCE /* asprintf */

#include "bench/sweep/variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/plan/buffers.h"
#include "bench/plan/effect.h"
#include "bench/report/keyparts.h"
#include "bench/sweep/variants_internal.h"
#include "harness/base/keyed.h"
#include "harness/base/memory.h"
#include "harness/base/text.h"

enum { VARIANTS_MAX = 10000, REFUSALS_MAX = 10000 };

/* --- variants -------------------------------------------------------------------------------- */

static void *checked(void *pointer)
{
    if (pointer == NULL) {
        abort();
    }
    return pointer;
}

/* Options that belong to one launch or to none. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {"out", "rotate", "progress", "options", "help", NULL};

    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_option_of_run(const expansion_t *x, size_t i)
{
    return k3_option_is_of_run(x, i) && !is_ours(k3_option_at(x, i)->name);
}

/* Options that are given for the cells of other launches, and change nothing in those of this one. */
static bool is_idle(const expansion_t *x, const candidate_t *c, size_t i)
{
    k3_error_t unused = K3_ERROR_INIT;

    return c != NULL &&
           k3_effect_none(c->options, x->source->table.defs[i].name, &c->requests, &unused);
}

/* The words of `run` for the values; `brief`: without what is as by default; c: without what would change
 * nothing in its cells. */
static void make_words(const expansion_t *x, bool brief, const candidate_t *c, k3_list_t *words)
{
    const k3_option_def_t *defs = x->source->table.defs;

    memset(words, 0, sizeof(*words));
    for (size_t i = 0; i < x->source->table.count; i++) {
        const char *fallback = defs[i].fallback != NULL  ? defs[i].fallback
                               : defs[i].metavar == NULL ? "off"
                                                         : NULL;
        char       *word = NULL;

        if (x->values[i] == NULL || !is_option_of_run(x, i) || is_idle(x, c, i) ||
            (brief && fallback != NULL && strcmp(fallback, x->values[i]) == 0)) {
            continue;
        }
        if (asprintf(&word, "--%s=%s", defs[i].name, x->values[i]) < 0) {
            abort();
        }
        k3_list_add(words, word);
        free(word);
    }
}

static uint64_t hash_text(uint64_t key, const char *text)
{
    key = k3_key(key, strlen(text));
    for (; *text != '\0'; text++) {
        key = k3_key(key, (unsigned char)*text);
    }
    return key;
}

static double number_of(const k3_options_t *options, const char *name, double fallback)
{
    const char *text = k3_options_get(options, name);
    k3_error_t  unused = K3_ERROR_INIT;
    double      value = fallback;

    if (text != NULL && k3_parse_double(name, text, 0.0, 1e9, &value, &unused) != K3_OK) {
        value = fallback;
    }
    return value;
}

/* Two seconds to start, and for each cell its time limit and one more for set-up and warm-up. */
static double guess_of(const k3_variant_t *variant)
{
    return 2.0 + (double)(variant->cells - variant->refused) *
                     (1.0 + number_of(variant->options, "max-seconds", 3.0));
}

/* At most 47 bytes of section, 48 of model, and 13 for each size. */
static void make_label(const expansion_t *x, char text[K3_VARIANT_LABEL_MAX])
{
    static const char *const sizes[] = {"tp", "dp", "cp", "ep", NULL};
    size_t                   used;

    used = k3_append(text, K3_VARIANT_LABEL_MAX, 0, "%s%s%.48s", x->section,
                     x->section[0] != '\0' ? " " : "", k3_value_named(x, "model"));
    for (int i = 0; sizes[i] != NULL; i++) {
        const char *value = k3_value_named(x, sizes[i]);

        if (value != NULL && (i == 0 || strcmp(value, "1") != 0)) {
            used = k3_append(text, K3_VARIANT_LABEL_MAX, used, " %s%.10s", sizes[i], value);
        }
    }
}

static uint64_t hash_words(const expansion_t *x, const k3_list_t *words)
{
    uint64_t hash = hash_text(k3_key(0, x->ranks), x->source->build);

    hash = hash_text(hash, x->launcher != NULL ? x->launcher : "");
    for (size_t i = 0; i < words->count; i++) {
        hash = hash_text(hash, words->items[i]);
    }
    return hash;
}

static k3_options_t *options_of(const expansion_t *x, const candidate_t *c, k3_error_t *err)
{
    k3_option_table_t table = x->source->table;
    k3_list_t         words;
    k3_options_t     *options = NULL;

    table.command = x->source->run;
    table.file = table.section = NULL;
    make_words(x, false, c, &words);
    k3_options_parse(&table, (int)words.count, words.items, &options, err);
    k3_list_free(&words);
    return options;
}

/* Of two values of an option that changes nothing in these cells the second one would be the same launch again. */
static bool is_there(const expansion_t *x, const k3_variant_t *v)
{
    for (size_t i = 0; i < x->variants->count; i++) {
        const k3_variant_t *other = &x->variants->items[i];

        if (strcmp(other->section, v->section) == 0 && other->hash == v->hash &&
            other->asked != v->asked) {
            return true;
        }
    }
    return false;
}

static void free_variant(k3_variant_t *variant)
{
    if (variant->options != NULL) {
        k3_options_free(variant->options);
    }
    k3_list_free(&variant->words);
    k3_list_free(&variant->works);
    free(variant->launcher);
}

static k3_status_t fill_variant(const expansion_t *x, const candidate_t *c, k3_variant_t *variant,
                                k3_error_t *err)
{
    k3_list_t asked;

    memset(variant, 0, sizeof(*variant));
    (void)snprintf(variant->section, sizeof(variant->section), "%s",
                   x->section[0] != '\0' ? x->section : "all");
    make_label(x, variant->label);
    variant->options = options_of(x, c, err);
    if (variant->options == NULL) {
        return err->status;
    }
    make_words(x, true, c, &variant->words);
    make_words(x, true, NULL, &asked);
    variant->launcher = x->launcher != NULL ? checked(strdup(x->launcher)) : NULL;
    variant->ranks = x->ranks;
    variant->launches = x->launches;
    variant->cells = c->requests.count;
    variant->refused = c->unsupported;
    for (size_t i = 0; i < c->works.count; i++) {
        k3_list_add(&variant->works, c->works.items[i]);
    }
    variant->guess = guess_of(variant);
    variant->hash = hash_words(x, &variant->words);
    variant->asked = hash_words(x, &asked);
    k3_list_free(&asked);
    return K3_OK;
}

static k3_status_t add_variant(expansion_t *x, const candidate_t *c, k3_error_t *err)
{
    k3_variants_t *all = x->variants;
    k3_variant_t   variant, *grown;

    if (all->count == VARIANTS_MAX) {
        return k3_fail(err, K3_ERR_USAGE, "the lists need more than %d variants", VARIANTS_MAX);
    }
    if (fill_variant(x, c, &variant, err) != K3_OK || is_there(x, &variant)) {
        free_variant(&variant);
        return err->status;
    }
    grown = realloc(all->items, (all->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        abort();
    }
    all->items = grown;
    all->items[all->count++] = variant;
    return K3_OK;
}

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = strstr(list, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static void add_backend(k3_refusal_t *refusal, const char *backend)
{
    char *longer = NULL;

    refusal->cells++;
    if (!has_word(refusal->backends, backend)) {
        if (asprintf(&longer, "%s, %s", refusal->backends, backend) < 0) {
            abort();
        }
        free(refusal->backends);
        refusal->backends = longer;
    }
}

static void add_refusal(expansion_t *x, const char *backend, const char *reason)
{
    k3_variants_t *all = x->variants;
    char           where[K3_VARIANT_LABEL_MAX];

    make_label(x, where);
    for (size_t i = 0; i < all->refusal_count; i++) {
        k3_refusal_t *refusal = &all->refusals[i];

        if ((strcmp(refusal->where, where) == 0 && strcmp(refusal->reason, reason) == 0) ||
            i + 1 == REFUSALS_MAX) {
            add_backend(refusal, backend);
            return;
        }
    }
    all->refusals =
        checked(realloc(all->refusals, (all->refusal_count + 1) * sizeof(*all->refusals)));
    all->refusals[all->refusal_count++] = (k3_refusal_t){.where = checked(strdup(where)),
                                                         .backends = checked(strdup(backend)),
                                                         .reason = checked(strdup(reason)),
                                                         .cells = 1};
}

/* --- what can run ---------------------------------------------------------------------------- */

/* Of this host the memory is known too. */
static k3_status_t check_memory(const expansion_t *x, const k3_cell_t *cell, k3_error_t *err)
{
    uint64_t need;
    uint32_t ranks = 0;
    int     *here = NULL; /* all ranks on one node, 0 */

    if (x->hosts->kind != K3_HOSTS_HERE && x->hosts->kind != K3_HOSTS_CORES) {
        return K3_OK;
    }
    if (k3_alloc("nodes", cell->layout.tp, sizeof(*here), &here, err) != K3_OK) {
        return err->status;
    }
    need = k3_memory_of_node(cell, here, 0, &ranks);
    k3_free(here);
    return need <= x->memory
               ? K3_OK
               : k3_fail(err, K3_ERR_UNSUPPORTED,
                         "%u ranks need %llu bytes, this host has %llu available", ranks,
                         (unsigned long long)need, (unsigned long long)x->memory);
}

static k3_status_t check_cell(const expansion_t *x, const k3_cell_request_t *request,
                              k3_list_t *works, k3_error_t *err)
{
    k3_cell_t cell;
    char      work[K3_CELL_KEY_MAX];

    if (k3_cell_create(request, &cell, err) == K3_OK) {
        if (check_memory(x, &cell, err) == K3_OK && k3_profile_moves_rows(cell.profile)) {
            k3_list_add(works, k3_key_work(cell.key, work, sizeof(work)));
        }
        k3_cell_destroy(&cell);
    }
    return err->status;
}

static void free_candidate(candidate_t *c)
{
    for (size_t i = 0; i < c->requests.count && c->faults != NULL; i++) {
        free(c->faults[i]);
    }
    k3_free(c->faults);
    k3_list_free(&c->works);
    k3_requests_free(&c->requests);
    if (c->options != NULL) {
        k3_options_free(c->options);
    }
    memset(c, 0, sizeof(*c));
}

/* The cells that the values stand for, each held against all rules. */
static k3_status_t examine(expansion_t *x, candidate_t *c, k3_error_t *err)
{
    k3_cell_request_t base = {.world = x->ranks,
                              .ranks_per_node = k3_hosts_ranks_per_node(x->hosts, x->ranks)};

    memset(c, 0, sizeof(*c));
    c->options = options_of(x, NULL, err);
    if (c->options == NULL || k3_requests_create(c->options, &base, &c->requests, err) != K3_OK ||
        k3_alloc("cells", c->requests.count, sizeof(char *), &c->faults, err) != K3_OK) {
        free_candidate(c);
        return err->status;
    }
    for (size_t i = 0; i < c->requests.count; i++) {
        k3_error_t  fault = K3_ERROR_INIT;
        k3_status_t status = check_cell(x, &c->requests.items[i], &c->works, &fault);

        c->impossible += status == K3_ERR_USAGE || status == K3_ERR_IO;
        c->unsupported += status != K3_OK && status != K3_ERR_USAGE && status != K3_ERR_IO;
        c->faults[i] = status == K3_OK ? NULL : strdup(fault.text);
    }
    return K3_OK;
}

static k3_status_t consider(expansion_t *x, k3_error_t *err);

/* Items of a list that are possible together with whatever stands in the other lists stay together; each of
 * the others is looked at alone. */
static k3_status_t part(expansion_t *x, size_t i, const k3_list_t *items, k3_error_t *err)
{
    char *whole = x->values[i];
    char *together = calloc(strlen(whole) + 2, 1);
    bool *alone = calloc(items->count, sizeof(*alone));

    if (together == NULL || alone == NULL) {
        abort();
    }
    for (size_t v = 0; v < items->count && err->status == K3_OK; v++) {
        candidate_t c;

        x->values[i] = items->items[v];
        if (examine(x, &c, err) == K3_OK) {
            alone[v] = c.impossible > 0;
            if (!alone[v]) {
                strcat(together, together[0] != '\0' ? "," : "");
                strcat(together, items->items[v]);
            }
            free_candidate(&c);
        }
    }
    if (together[0] != '\0' && err->status == K3_OK) {
        x->values[i] = together;
        consider(x, err);
    }
    for (size_t v = 0; v < items->count && err->status == K3_OK; v++) {
        x->values[i] = items->items[v];
        if (alone[v]) {
            consider(x, err);
        }
    }
    x->values[i] = whole;
    free(together);
    free(alone);
    return err->status;
}

/* `run` ends at a cell that can never work, so none may come out of its lists. */
static k3_status_t divide(expansion_t *x, k3_error_t *err)
{
    for (size_t i = 0; i < x->source->table.count; i++) {
        k3_list_t items = {0};

        if (x->values[i] != NULL && is_option_of_run(x, i)) {
            k3_values_of(x, i, &items);
        }
        if (items.count > 1) {
            part(x, i, &items, err);
            k3_list_free(&items);
            return err->status;
        }
        k3_list_free(&items);
    }
    return k3_fail(err, K3_ERR_USAGE, "a cell without lists is possible and impossible");
}

static void refuse_cells(expansion_t *x, const candidate_t *c)
{
    for (size_t i = 0; i < c->requests.count; i++) {
        if (c->faults[i] != NULL) {
            add_refusal(x, c->requests.items[i].backend, c->faults[i]);
        }
    }
}

/* The values as they are: one variant, several, or none. */
static k3_status_t consider(expansion_t *x, k3_error_t *err)
{
    candidate_t c;
    size_t      cells;

    if (examine(x, &c, err) != K3_OK) {
        return err->status;
    }
    cells = c.requests.count;
    if (c.impossible > 0 && c.impossible < cells) {
        divide(x, err);
    } else {
        refuse_cells(x, &c);
        k3_values_mark(x, c.impossible > 0 ? c.faults[0] : NULL);
        if (c.impossible + c.unsupported < cells) {
            k3_values_act(x, &c);
            add_variant(x, &c, err);
        }
    }
    free_candidate(&c);
    return err->status;
}

k3_status_t k3_variant_consider(expansion_t *x, k3_error_t *err)
{
    k3_error_t fault = K3_ERROR_INIT;

    if (k3_hosts_check(x->hosts, x->ranks, &fault) != K3_OK) {
        k3_values_mark(x, NULL);
        add_refusal(x, k3_value_named(x, "backend"), fault.text);
        return K3_OK;
    }
    return consider(x, err);
}

/* --- all ------------------------------------------------------------------------------------- */

void k3_variants_free(k3_variants_t *variants)
{
    for (size_t i = 0; i < variants->count; i++) {
        free_variant(&variants->items[i]);
    }
    for (size_t i = 0; i < variants->refusal_count; i++) {
        free(variants->refusals[i].where);
        free(variants->refusals[i].backends);
        free(variants->refusals[i].reason);
    }
    free(variants->items);
    free(variants->refusals);
    memset(variants, 0, sizeof(*variants));
}

void k3_launch_id(const k3_variant_t *variant, uint64_t round, char id[K3_LAUNCH_ID_MAX])
{
    (void)snprintf(id, K3_LAUNCH_ID_MAX, "%s.np%u.%012llx.r%03llu", variant->section,
                   variant->ranks, (unsigned long long)(variant->hash >> 16),
                   (unsigned long long)round);
}
