/* Members of a record that become members of its facts. */
#include "bench/report/facts_internal.h"
#include "bench/report/fields.h"

json_t *k3_facts_text(k3_view_t view)
{
    json_t *text = view.at != NULL && *view.at == '"' ? k3_view_json(view) : NULL;

    k3_clean_texts(text);
    return text;
}

void k3_facts_set(json_t *object, const char *name, json_t *value)
{
    if (value != NULL) {
        json_object_set_new_nocheck(object, name, value);
    }
}

void k3_facts_take(k3_cursor_t *c, const char *const *names, k3_view_t *views)
{
    uint32_t seen = 0;
    int      i;

    if (!k3_cursor_enter(c, '{')) {
        k3_cursor_skip(c);
        return;
    }
    while ((i = k3_cursor_member(c, names, &seen)) >= 0) {
        views[i] = k3_cursor_view(c);
    }
}
