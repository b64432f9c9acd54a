/* 64-bit size arithmetic that saturates instead of wrapping: a product or sum that does not fit
 * becomes K3_TOO_BIG and stays there, so a formula is checked once, at its end. */
#ifndef K3_BASE_ARITH_H
#define K3_BASE_ARITH_H

#include <stdint.h>

#define K3_TOO_BIG UINT64_MAX

static inline uint64_t k3_mul(uint64_t a, uint64_t b)
{
    uint64_t r;

    return __builtin_mul_overflow(a, b, &r) ? K3_TOO_BIG : r;
}

static inline uint64_t k3_add(uint64_t a, uint64_t b)
{
    uint64_t r;

    return __builtin_add_overflow(a, b, &r) ? K3_TOO_BIG : r;
}

/* The smallest multiple of `unit` that is not below `a`; `unit` > 0. */
static inline uint64_t k3_round_up(uint64_t a, uint64_t unit)
{
    uint64_t rest = a % unit;

    return rest == 0 ? a : k3_add(a, unit - rest);
}

static inline uint64_t k3_ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

#endif
