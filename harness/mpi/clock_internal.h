/* The conversion of ticks, apart from the clock itself, so that it can be tested with hand values
 * and inlined where every nanosecond counts. */
#ifndef K3_MPI_CLOCK_INTERNAL_H
#define K3_MPI_CLOCK_INTERNAL_H

#include <stdint.h>

enum { K3_CLOCK_SHIFT = 32 };

typedef struct k3_clock_scale {
    uint64_t multiplier; /* nanoseconds per tick, 32 bits behind the point */
    double   ns_per_tick;
} k3_clock_scale_t;

/* The rate of a clock that counted `ticks` > 0 in `ns`; ns below 2^32 times ticks. */
k3_clock_scale_t        k3_clock_scale(uint64_t ticks, uint64_t ns);
const k3_clock_scale_t *k3_clock_current_scale(void);

/* The product is 128 bits wide: no number of ticks can overflow it. */
static inline uint64_t k3_clock_scaled_ns(const k3_clock_scale_t *scale, uint64_t ticks)
{
    return (uint64_t)(((unsigned __int128)ticks * scale->multiplier) >> K3_CLOCK_SHIFT);
}

#endif
