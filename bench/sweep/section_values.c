/* The values of a section's options: their lists, and what each item was good for. */
#include <stdio.h>
#include <string.h>

#include "bench/plan/effect.h"
#include "bench/sweep/variants_internal.h"

/* Commas that part no list. */
static bool is_text(const char *name)
{
    return strcmp(name, "tokens-skew") == 0;
}

void k3_values_of(const expansion_t *x, size_t i, k3_list_t *items)
{
    const char *name = k3_option_at(x, i)->name, *text = x->values[i];

    memset(items, 0, sizeof(*items));
    if (is_text(name)) {
        k3_list_add(items, text);
    } else if (strcmp(name, "model") == 0) {
        k3_split_models(text, items);
    } else {
        k3_list_split(text, ',', items);
    }
}

const char *k3_value_named(const expansion_t *x, const char *name)
{
    for (size_t i = 0; i < x->source->table.count; i++) {
        if (strcmp(k3_option_at(x, i)->name, name) == 0) {
            return x->values[i];
        }
    }
    return NULL;
}

void k3_values_mark(expansion_t *x, const char *fault)
{
    for (size_t i = 0; i < x->source->table.count; i++) {
        k3_list_t items;

        if (x->values[i] == NULL || !k3_option_is_of_run(x, i)) {
            continue;
        }
        k3_values_of(x, i, &items);
        for (size_t v = 0; v < items.count; v++) {
            char key[512];

            (void)snprintf(key, sizeof(key), "%s=%s", k3_option_at(x, i)->name, items.items[v]);
            if (fault == NULL) {
                (void)json_object_set_new(x->marks, key, json_true());
            } else if (json_object_get(x->marks, key) == NULL) {
                (void)json_object_set_new(x->marks, key, json_string(fault));
            }
        }
        k3_list_free(&items);
    }
}

/* In the file or behind it. What the command line says once for all files goes over what one of them says. */
static bool is_given(const k3_options_t *options, const char *name)
{
    bool limit = strcmp(name, "ci-target") == 0 || strcmp(name, "max-seconds") == 0;

    switch (k3_options_origin(options, name)) {
    case K3_ORIGIN_COMMAND_LINE:
        return true;
    case K3_ORIGIN_FILE:
        return !limit || k3_options_origin(options, "iters") != K3_ORIGIN_COMMAND_LINE;
    default:
        return false;
    }
}

void k3_values_act(expansion_t *x, const candidate_t *c)
{
    for (size_t i = 0; i < x->source->table.count; i++) {
        const char *name = k3_option_at(x, i)->name;
        k3_error_t  why = K3_ERROR_INIT;

        if (!k3_option_is_of_run(x, i) || !is_given(x->options, name)) {
            continue;
        }
        if (!k3_effect_none(c->options, name, &c->requests, &why)) {
            (void)json_object_set_new(x->idle, name, json_true());
        } else if (json_object_get(x->idle, name) == NULL) {
            (void)json_object_set_new(x->idle, name, json_string(why.text));
        }
    }
}
