/* The parts of a cell's key (bench/plan/cell_key.c), by the names of the options that they follow from. */
#ifndef K3_REPORT_KEYPARTS_H
#define K3_REPORT_KEYPARTS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum k3_key_part {
    K3_KEY_BACKEND,
    K3_KEY_GENERATION,
    K3_KEY_MODEL,
    K3_KEY_LAYOUT, /* tp, dp, cp */
    K3_KEY_EP,
    K3_KEY_NODES,
    K3_KEY_TOKENS,
    K3_KEY_MAX_TOKENS,
    K3_KEY_SKEW,
    K3_KEY_ROUTING, /* and seed */
    K3_KEY_RULE,
    K3_KEY_PATH,
    K3_KEY_RUNNER,
    K3_KEY_DISPATCH,
    K3_KEY_COMBINE,
    K3_KEY_QPS,
    K3_KEY_FABRIC,
    K3_KEY_P2P,
    K3_KEY_SIGNAL,
    K3_KEY_ZERO_COPY,
    K3_KEY_COMPONENT,
    K3_KEY_SHARED,
    K3_KEY_WEIGHTS,
    K3_KEY_HIDDEN,
    K3_KEY_DEVICE,
    K3_KEY_PARTS
} k3_key_part_t;

/* Pieces of the key; empty where an option is as by default. */
typedef struct k3_key {
    struct {
        const char *at;
        size_t      length;
    } part[K3_KEY_PARTS];
} k3_key_t;

/* False for a text that is not made like a key. */
bool k3_key_split(const char *text, k3_key_t *key);

bool k3_key_equal(const k3_key_t *a, const k3_key_t *b, k3_key_part_t part);

/* Whether the part says which work is done; the others say how. The component is among these: it is chosen as they are. */
bool k3_key_is_work(k3_key_part_t part);

/* What two cells must have in common to have done the same work, for two backends to be rivals: those parts and the
 * component. "" for what is no key. */
const char *k3_key_work(const char *key, char *text, size_t size);

/* "p2p on -> off, shared auto -> overlap": the parts in which two keys differ; "" where they do not, or where one is no
 * key. */
const char *k3_key_difference(const char *a, const char *b, char *text, size_t size);

/* Whether they differ in one of the parts that decide who carries a message: p2p, device and component. */
bool k3_key_carried_apart(const char *a, const char *b);

/* "p2p off, dispatch-dtype bf16": the parts of a key that are marked. */
const char *k3_key_describe(const char *key, const bool *marked, char *text, size_t size);

#endif
