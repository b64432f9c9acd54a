#include "bench/report/pairing.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "bench/report/fields.h"
#include "bench/report/keyparts.h"
#include "harness/base/text.h"

/* Parts in which all keys of a list agree. */
typedef struct agreement {
    k3_key_t first;
    bool     same[K3_KEY_PARTS];
    size_t   count;
} agreement_t;

static void agree(agreement_t *g, const k3_key_t *key)
{
    if (g->count++ == 0) {
        g->first = *key;
    }
    for (int i = 0; i < K3_KEY_PARTS; i++) {
        k3_key_part_t part = (k3_key_part_t)i;

        g->same[i] = (g->count == 1 || g->same[i]) && k3_key_equal(&g->first, key, part);
    }
}

static bool is_of(const k3_key_t *key, const k3_key_t *other)
{
    return k3_key_equal(key, other, K3_KEY_BACKEND);
}

/* Of the cells of `side` that `other` lacks, those with the backend of `like`. */
static agreement_t agreement_of(const json_t *side, const json_t *other, const k3_key_t *like)
{
    agreement_t g = {.count = 0};
    const char *text;
    json_t     *entry;
    k3_key_t    key;

    json_object_foreach((json_t *)(uintptr_t)side, text, entry)
    {
        if (json_object_get(other, text) == NULL && k3_key_split(text, &key) && is_of(&key, like)) {
            agree(&g, &key);
        }
    }
    return g;
}

static bool belong(const k3_key_t *a, const k3_key_t *b, const agreement_t *x, const agreement_t *y)
{
    for (int i = 0; i < K3_KEY_PARTS; i++) {
        k3_key_part_t part = (k3_key_part_t)i;

        if (!k3_key_equal(a, b, part) && (k3_key_is_work(part) || !x->same[i] || !y->same[i])) {
            return false;
        }
    }
    return true;
}

static const char *partner_of(const k3_key_t *key, const json_t *base, const json_t *fresh)
{
    agreement_t x = agreement_of(base, fresh, key), y = agreement_of(fresh, base, key);
    const char *text;
    json_t     *entry;
    k3_key_t    other;

    json_object_foreach((json_t *)(uintptr_t)fresh, text, entry)
    {
        if (json_object_get(base, text) == NULL && k3_key_split(text, &other) &&
            is_of(&other, key) && belong(key, &other, &x, &y)) {
            return text;
        }
    }
    return NULL;
}

json_t *k3_pair_options(const json_t *base, const json_t *fresh)
{
    json_t     *pairs = json_object(), *entry;
    const char *text, *partner;
    k3_key_t    key;

    json_object_foreach((json_t *)(uintptr_t)base, text, entry)
    {
        if (json_object_get(fresh, text) == NULL && k3_key_split(text, &key)) {
            partner = partner_of(&key, base, fresh);
            if (partner != NULL) {
                json_object_set_new(pairs, text, json_string(partner));
            }
        }
    }
    return pairs;
}

const char *k3_pair_label(const json_t *side, const char *key, bool any_work, char *text,
                          size_t size)
{
    const json_t *own = json_object_get(side, key);
    agreement_t   g = {.count = 0};
    const char   *other;
    json_t       *entry;
    k3_key_t      split;
    bool          marked[K3_KEY_PARTS];
    char          parts[512];

    json_object_foreach((json_t *)(uintptr_t)side, other, entry)
    {
        if (strcmp(k3_get_text(entry, "backend"), k3_get_text(own, "backend")) == 0 &&
            (any_work || strcmp(k3_get_text(entry, "work"), k3_get_text(own, "work")) == 0) &&
            k3_key_split(other, &split)) {
            agree(&g, &split);
        }
    }
    for (int i = 0; i < K3_KEY_PARTS; i++) {
        marked[i] = g.count > 1 && !g.same[i];
    }
    k3_key_describe(key, marked, parts, sizeof(parts));
    k3_append(text, size, 0, "%s%s%s%s", k3_get_text(own, "backend"), parts[0] != '\0' ? " (" : "",
              parts, parts[0] != '\0' ? ")" : "");
    return text;
}
