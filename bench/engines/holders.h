/* Who holds the experts of a row, each once. Which experts a router picks no processor can guess, so nothing
 * here branches on them: holders are bits of a set, which is read in ascending order and is empty again. */
#ifndef K3_ENGINES_HOLDERS_H
#define K3_ENGINES_HOLDERS_H

#include "harness/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct k3_holders {
    uint32_t  count; /* holders: 0 .. count - 1; `count` itself stands for none */
    uint32_t  words; /* of the set */
    uint32_t *of;    /* [1 + E] holder of expert x at 1 + x; none at 0, which is the id -1 */
    uint64_t *set;   /* [words], zero between calls */
} k3_holders_t;

/* Of E experts, all held by none so far; k3_holders_destroy frees what there is, also after an error. */
k3_status_t k3_holders_create(k3_holders_t *h, uint32_t experts, uint32_t count, k3_error_t *err);
void        k3_holders_destroy(k3_holders_t *h);

static inline void k3_holders_give(k3_holders_t *h, uint32_t expert, uint32_t holder)
{
    h->of[1 + (uint64_t)expert] = holder;
}

/* The holder of an expert, or `count` for one of none and for -1. */
static inline uint32_t k3_holders_of(const k3_holders_t *h, int32_t id)
{
    return h->of[1 + (int64_t)id];
}

/* Up to 63 holders are gathered in a register: bits that pass through memory wait for each other. */
static inline void k3_holders_add(k3_holders_t *h, const int32_t *ids, uint32_t topk)
{
    uint64_t few = 0;

    if (h->words == 1) {
        for (uint32_t k = 0; k < topk; k++) {
            few |= UINT64_C(1) << k3_holders_of(h, ids[k]);
        }
        h->set[0] = few;
    }
    for (uint32_t k = 0; k < topk && h->words > 1; k++) {
        uint32_t holder = k3_holders_of(h, ids[k]);

        h->set[holder / 64] |= UINT64_C(1) << holder % 64;
    }
    h->set[h->count / 64] &= ~(UINT64_C(1) << h->count % 64);
}

/* The holders of the experts `ids`, each -1 or below E, ascending; `list` holds topk. Returns how many. */
static inline uint32_t k3_holders_list(k3_holders_t *h, const int32_t *ids, uint32_t topk,
                                       uint32_t *list)
{
    uint32_t n = 0;

    k3_holders_add(h, ids, topk);
    for (uint32_t w = 0; w < h->words; w++) {
        for (uint64_t bits = h->set[w]; bits != 0; bits &= bits - 1) {
            list[n++] = w * 64 + (uint32_t)__builtin_ctzll(bits);
        }
        h->set[w] = 0;
    }
    return n;
}

/* How many they are. */
static inline uint32_t k3_holders_number(k3_holders_t *h, const int32_t *ids, uint32_t topk)
{
    uint32_t n = 0;

    k3_holders_add(h, ids, topk);
    for (uint32_t w = 0; w < h->words; w++) {
        n += (uint32_t)__builtin_popcountll(h->set[w]);
        h->set[w] = 0;
    }
    return n;
}

/* Bit k: ids[k] is one of the `local` experts from `first` on. */
static inline uint64_t k3_holders_mine(const int32_t *ids, uint32_t topk, uint32_t first,
                                       uint32_t local)
{
    uint64_t mine = 0;

    for (uint32_t k = 0; k < topk; k++) {
        mine |= (uint64_t)((uint32_t)ids[k] - first < local) << k;
    }
    return mine;
}

/* Some id is neither -1 nor below `experts`. */
static inline bool k3_holders_outside(const int32_t *ids, uint32_t topk, uint32_t experts)
{
    uint32_t outside = 0;

    for (uint32_t k = 0; k < topk; k++) {
        outside |= (uint32_t)ids[k] + 1 > experts;
    }
    return outside != 0;
}

#endif
