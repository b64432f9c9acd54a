/* The local monotonic clock. Ticks are those of the processor's invariant time-stamp counter where
 * it has one (one instruction, no system call), else of clock_gettime; k3_clock_init measures the
 * rate once, before any timed span. */
#ifndef K3_MPI_CLOCK_H
#define K3_MPI_CLOCK_H

#include <stdint.h>

void        k3_clock_init(void);         /* about 10 ms; idempotent */
const char *k3_clock_source(void);       /* "tsc" or "clock_monotonic" */
double      k3_clock_us(uint64_t ticks); /* a difference of ticks in microseconds */
uint64_t    k3_clock_ns(uint64_t ticks); /* ... in nanoseconds */
uint64_t    k3_clock_ticks(double us);   /* microseconds in ticks */

#if defined(__x86_64__)
extern int k3_clock_has_tsc;
uint64_t   k3_clock_slow(void);

/* Not __rdtsc: its header alone takes half a second to compile, in each file that looks at the clock. */
static inline uint64_t k3_clock_now(void)
{
    return k3_clock_has_tsc ? __builtin_ia32_rdtsc() : k3_clock_slow();
}
#else
uint64_t k3_clock_slow(void);

static inline uint64_t k3_clock_now(void)
{
    return k3_clock_slow();
}
#endif

#endif
