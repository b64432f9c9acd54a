/* Counter-based random numbers: every value is a pure function of a key and a position, so any rank
 * can recompute what another rank holds. Not cryptographic. The mixer is the finaliser of splitmix64
 * (Steele, Lea, Flood, OOPSLA 2014), applied once per key word. */
#ifndef K3_BASE_KEYED_H
#define K3_BASE_KEYED_H

#include <stdint.h>

static inline uint64_t k3_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Folds one more word into a key. */
static inline uint64_t k3_key(uint64_t key, uint64_t word)
{
    return k3_mix(key ^ k3_mix(word));
}

/* Uniform in [0, n), n > 0, by the multiply-shift of Lemire; bias below n / 2^64. */
static inline uint64_t k3_below(uint64_t random, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)random * n) >> 64);
}

/* Uniform in [0, 1) with 53 bits. */
static inline double k3_unit(uint64_t random)
{
    return (double)(random >> 11) * 0x1p-53;
}

#endif
