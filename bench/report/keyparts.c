#include "bench/report/keyparts.h"

#include <stdio.h>
#include <string.h>

#include "harness/base/text.h"

enum { SEGMENTS = 40 };

typedef struct piece {
    const char *at;
    size_t      length;
} piece_t;

static const char *const names[K3_KEY_PARTS] = {
    "backend",       "generation", "model",   "layout",    "ep",     "nodes",     "tokens",
    "max-tokens",    "skew",       "routing", "path-rule", "path",   "runner",    "dispatch-dtype",
    "combine-dtype", "qps",        "fabric",  "p2p",       "signal", "zero-copy", "component",
    "shared",        "weights",    "hidden",  "device"};

/* --- splitting ------------------------------------------------------------------------------- */

static void set(k3_key_t *key, k3_key_part_t part, piece_t p)
{
    key->part[part].at = p.at;
    key->part[part].length = p.length;
}

/* What stands in front of the n-th dot from the front (n > 0) or behind; the rest stays in *p. All where there is none. */
static piece_t take_front(piece_t *p, int dots)
{
    piece_t taken = *p;

    for (size_t i = 0; i < p->length; i++) {
        if (p->at[i] == '.' && --dots == 0) {
            taken.length = i;
            p->at += i + 1;
            p->length -= i + 1;
            return taken;
        }
    }
    *p = (piece_t){taken.at + taken.length, 0};
    return taken;
}

static piece_t take_back(piece_t *p)
{
    size_t i = p->length;

    while (i > 0 && p->at[i - 1] != '.') {
        i--;
    }
    piece_t taken = {p->at + i, p->length - i};

    p->length = i > 0 ? i - 1 : 0;
    return taken;
}

static bool starts(piece_t p, const char *text)
{
    return p.length >= strlen(text) && memcmp(p.at, text, strlen(text)) == 0;
}

static bool is(piece_t p, const char *text)
{
    return p.length == strlen(text) && starts(p, text);
}

static size_t segments_of(const char *text, piece_t *segments)
{
    size_t count = 0;

    for (;; text++) {
        size_t length = strcspn(text, "/");

        if (count == SEGMENTS) {
            return 0;
        }
        segments[count++] = (piece_t){text, length};
        text += length;
        if (*text == '\0') {
            return count;
        }
    }
}

/* "q32.ib.p2p": a routing may hold slashes, so this segment is looked for from the end. */
static bool is_transfer(piece_t p)
{
    piece_t rest = p, qps = take_front(&rest, 1);

    (void)take_front(&rest, 1);
    return starts(qps, "q") && qps.length > 1 &&
           strspn(qps.at + 1, "0123456789") == qps.length - 1 &&
           (starts(rest, "p2p") || starts(rest, "nop2p"));
}

static void split_transfer(piece_t p, k3_key_t *key)
{
    piece_t qps = take_front(&p, 1);

    set(key, K3_KEY_QPS, (piece_t){qps.at + 1, qps.length - 1});
    set(key, K3_KEY_FABRIC, take_front(&p, 1));
    set(key, K3_KEY_P2P, take_front(&p, 1));
    while (p.length > 0) {
        piece_t word = take_front(&p, 1);

        set(key, is(word, "zerocopy") ? K3_KEY_ZERO_COPY : K3_KEY_SIGNAL, word);
    }
}

static void split_tail(const piece_t *segments, size_t count, k3_key_t *key)
{
    set(key, K3_KEY_COMPONENT, segments[0]);
    for (size_t i = 1; i < count; i++) {
        piece_t p = segments[i];

        if (starts(p, "shared-")) {
            set(key, K3_KEY_SHARED, (piece_t){p.at + 7, p.length - 7});
        } else if (starts(p, "weights#")) {
            set(key, K3_KEY_WEIGHTS, p);
        } else if (starts(p, "hidden#")) {
            set(key, K3_KEY_HIDDEN, p);
        } else {
            set(key, K3_KEY_DEVICE, p);
        }
    }
}

bool k3_key_split(const char *text, k3_key_t *key)
{
    piece_t segments[SEGMENTS], p;
    size_t  count = segments_of(text, segments), transfer = count;

    for (size_t i = 0; i < K3_KEY_PARTS; i++) {
        set(key, (k3_key_part_t)i, (piece_t){"", 0});
    }
    while (transfer > 8 && !is_transfer(segments[transfer - 1])) {
        transfer--;
    }
    if (transfer <= 8 || transfer == count) { /* the component is missing */
        return false;
    }
    transfer--;
    set(key, K3_KEY_BACKEND, segments[0]);
    set(key, K3_KEY_GENERATION, segments[1]);
    set(key, K3_KEY_MODEL, segments[2]);
    p = segments[3];
    set(key, K3_KEY_LAYOUT, take_front(&p, 3));
    set(key, K3_KEY_EP, take_front(&p, 1));
    set(key, K3_KEY_NODES, p);
    p = segments[4];
    set(key, K3_KEY_TOKENS, take_front(&p, 1));
    set(key, K3_KEY_MAX_TOKENS, take_front(&p, 1));
    set(key, K3_KEY_SKEW, p);
    p = segments[transfer - 3];
    set(key, K3_KEY_ROUTING, (piece_t){segments[5].at, (size_t)(p.at + p.length - segments[5].at)});
    p = segments[transfer - 2];
    set(key, K3_KEY_PATH, take_back(&p));
    set(key, K3_KEY_RULE, p);
    p = segments[transfer - 1];
    set(key, K3_KEY_COMBINE, take_back(&p));
    set(key, K3_KEY_DISPATCH, take_back(&p));
    set(key, K3_KEY_RUNNER, p);
    split_transfer(segments[transfer], key);
    split_tail(segments + transfer + 1, count - transfer - 1, key);
    return true;
}

/* --- comparing ------------------------------------------------------------------------------- */

bool k3_key_equal(const k3_key_t *a, const k3_key_t *b, k3_key_part_t part)
{
    return a->part[part].length == b->part[part].length &&
           memcmp(a->part[part].at, b->part[part].at, a->part[part].length) == 0;
}

bool k3_key_is_work(k3_key_part_t part)
{
    switch (part) {
    case K3_KEY_MODEL:
    case K3_KEY_LAYOUT:
    case K3_KEY_NODES:
    case K3_KEY_TOKENS:
    case K3_KEY_SKEW:
    case K3_KEY_ROUTING:
    case K3_KEY_WEIGHTS:
    case K3_KEY_HIDDEN:
        return true;
    default:
        return false;
    }
}

const char *k3_key_work(const char *key, char *text, size_t size)
{
    k3_key_t k;
    size_t   used = 0;

    text[0] = '\0';
    if (!k3_key_split(key, &k)) {
        return text;
    }
    for (int i = 0; i < K3_KEY_PARTS; i++) {
        if (k3_key_is_work((k3_key_part_t)i) || i == K3_KEY_COMPONENT) {
            used = k3_append(text, size, used, "%.*s/", (int)k.part[i].length, k.part[i].at);
        }
    }
    return text;
}

/* As the option would have it. */
static piece_t value_of(const k3_key_t *key, k3_key_part_t part)
{
    piece_t p = {key->part[part].at, key->part[part].length};

    if (part == K3_KEY_P2P) {
        return is(p, "p2p") ? (piece_t){"on", 2} : (piece_t){"off", 3};
    }
    if (part == K3_KEY_ZERO_COPY) {
        return p.length > 0 ? (piece_t){"on", 2} : (piece_t){"off", 3};
    }
    if (p.length == 0) {
        return part == K3_KEY_DEVICE ? (piece_t){"cpu", 3} : (piece_t){"auto", 4};
    }
    if ((part == K3_KEY_TOKENS && starts(p, "t")) ||
        (part == K3_KEY_MAX_TOKENS && starts(p, "m")) || (part == K3_KEY_NODES && starts(p, "n"))) {
        return (piece_t){p.at + 1, p.length - 1};
    }
    return part == K3_KEY_EP && starts(p, "ep") ? (piece_t){p.at + 2, p.length - 2} : p;
}

const char *k3_key_difference(const char *a, const char *b, char *text, size_t size)
{
    k3_key_t x, y;
    size_t   used = 0;

    text[0] = '\0';
    if (!k3_key_split(a, &x) || !k3_key_split(b, &y)) {
        return text;
    }
    for (int i = 0; i < K3_KEY_PARTS; i++) {
        k3_key_part_t part = (k3_key_part_t)i;
        piece_t       from = value_of(&x, part), to = value_of(&y, part);

        if (!k3_key_equal(&x, &y, part)) {
            used = k3_append(text, size, used, "%s%s %.*s -> %.*s", used > 0 ? ", " : "", names[i],
                             (int)from.length, from.at, (int)to.length, to.at);
        }
    }
    return text;
}

bool k3_key_carried_apart(const char *a, const char *b)
{
    k3_key_t x, y;

    return k3_key_split(a, &x) && k3_key_split(b, &y) &&
           !(k3_key_equal(&x, &y, K3_KEY_P2P) && k3_key_equal(&x, &y, K3_KEY_DEVICE) &&
             k3_key_equal(&x, &y, K3_KEY_COMPONENT));
}

const char *k3_key_describe(const char *key, const bool *marked, char *text, size_t size)
{
    k3_key_t k;
    size_t   used = 0;

    text[0] = '\0';
    if (!k3_key_split(key, &k)) {
        return text;
    }
    for (int i = 0; i < K3_KEY_PARTS; i++) {
        piece_t p = value_of(&k, (k3_key_part_t)i);

        if (marked[i]) {
            used = k3_append(text, size, used, "%s%s %.*s", used > 0 ? ", " : "", names[i],
                             (int)p.length, p.at);
        }
    }
    return text;
}
