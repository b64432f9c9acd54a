#include "harness/mpi/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "harness/mpi/clock_internal.h"

#define NS_PER_S    UINT64_C(1000000000)
#define CALIBRATION UINT64_C(10000000) /* ns */

static k3_clock_scale_t scale = {UINT64_C(1) << K3_CLOCK_SHIFT, 1.0};
static bool             initialised;

#if defined(__x86_64__)
int k3_clock_has_tsc;
#endif

uint64_t k3_clock_slow(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

k3_clock_scale_t k3_clock_scale(uint64_t ticks, uint64_t ns)
{
    k3_clock_scale_t s;

    s.ns_per_tick = (double)ns / (double)ticks;
    s.multiplier = (uint64_t)(((unsigned __int128)ns << K3_CLOCK_SHIFT) / ticks);
    return s;
}

#if defined(__x86_64__)
/* The counter is a clock only where it runs at one rate in all power states. */
static bool tsc_is_invariant(void)
{
    static char line[16384];
    FILE       *file = fopen("/proc/cpuinfo", "r");
    bool        found = false;

    if (file == NULL) {
        return false;
    }
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "flags", 5) == 0) {
            found = true;
        }
    }
    fclose(file);
    return found && strstr(line, " constant_tsc") != NULL && strstr(line, " nonstop_tsc") != NULL;
}

/* One reading of both clocks. Of a few tries the one with the smallest gap between the two readings
 * of the counter counts, so that being descheduled in between does no harm. */
static void read_both(uint64_t *tsc, uint64_t *ns)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 16; i++) {
        uint64_t before = __builtin_ia32_rdtsc();
        uint64_t now = k3_clock_slow();
        uint64_t after = __builtin_ia32_rdtsc();

        if (after - before < best) {
            best = after - before;
            *tsc = before + (after - before) / 2;
            *ns = now;
        }
    }
}

static void calibrate(void)
{
    uint64_t tsc_start = 0, ns_start = 0, tsc_end = 0, ns_end = 0;

    read_both(&tsc_start, &ns_start);
    while (k3_clock_slow() - ns_start < CALIBRATION) {
    }
    read_both(&tsc_end, &ns_end);
    if (tsc_end <= tsc_start) {
        return;
    }
    scale = k3_clock_scale(tsc_end - tsc_start, ns_end - ns_start);
    k3_clock_has_tsc = 1;
}
#endif

void k3_clock_init(void)
{
    if (initialised) {
        return;
    }
    initialised = true;
#if defined(__x86_64__)
    if (tsc_is_invariant()) {
        calibrate();
    }
#endif
}

const char *k3_clock_source(void)
{
#if defined(__x86_64__)
    if (k3_clock_has_tsc) {
        return "tsc";
    }
#endif
    return "clock_monotonic";
}

double k3_clock_us(uint64_t ticks)
{
    return (double)ticks * scale.ns_per_tick * 1e-3;
}

uint64_t k3_clock_ns(uint64_t ticks)
{
    return k3_clock_scaled_ns(&scale, ticks);
}

uint64_t k3_clock_ticks(double us)
{
    return us <= 0.0 ? 0 : (uint64_t)(us * 1e3 / scale.ns_per_tick);
}

const k3_clock_scale_t *k3_clock_current_scale(void)
{
    return &scale;
}
