#include "harness/base/digest.h"

#include "harness/base/keyed.h"

/* Four independent chains, so that a chain's latency does not bound the rate. */
enum { LANES = 4, BLOCK = LANES * 8 };

static uint64_t word_at(const unsigned char *at, uint64_t bytes)
{
    uint64_t word = 0;

    for (uint64_t i = 0; i < bytes; i++) {
        word |= (uint64_t)at[i] << (8 * i);
    }
    return word;
}

uint64_t k3_digest(uint64_t key, const void *data, uint64_t bytes)
{
    const unsigned char *at = data;
    uint64_t             lane[LANES], left = bytes;

    for (unsigned l = 0; l < LANES; l++) {
        lane[l] = k3_key(key, bytes + l);
    }
    for (; left >= BLOCK; left -= BLOCK, at += BLOCK) {
        for (unsigned l = 0; l < LANES; l++) {
            lane[l] = k3_mix(lane[l] ^ word_at(at + (uint64_t)8 * l, 8));
        }
    }
    for (unsigned l = 0; left > 0; l++) {
        uint64_t part = left < 8 ? left : 8;

        lane[l] = k3_mix(lane[l] ^ word_at(at, part));
        at += part;
        left -= part;
    }
    return k3_key(k3_key(k3_key(lane[0], lane[1]), lane[2]), lane[3]);
}
