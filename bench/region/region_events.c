/* Phases that kernels alone make up, timed by events of the device: the host only starts them. All other
 * phases, and the totals, are the host's. A phase that is entered several times in an iteration has a pair of events
 * for each. */
#include "bench/engines/compute_tables.h"
#include "bench/region/region_internal.h"
#include "harness/base/memory.h"

/* begin[0] NULL: the host's clock. */
typedef struct timed_phase {
    void    *begin[K3_CHAIN_PAIRS], *end[K3_CHAIN_PAIRS];
    unsigned entered; /* in this iteration */
} timed_phase_t;

typedef struct k3_region_events {
    void         *base; /* when the iteration began */
    uint64_t      base_ticks;
    timed_phase_t phase[K3_PHASE_COUNT];
    bool          on; /* off: the device's phases are not timed at all */
} k3_region_events_t;

static const k3_phase_t of_kernels[] = {
    K3_PHASE_ROUTER,     K3_PHASE_LATENT_DOWN,    K3_PHASE_SHARED_EXPERT, K3_PHASE_QUANTIZE,
    K3_PHASE_EXPERT_MLP, K3_PHASE_COMBINE_REDUCE, K3_PHASE_LATENT_UP};

enum { OF_KERNELS = sizeof(of_kernels) / sizeof(of_kernels[0]) };

static void mark(void *region, k3_phase_t phase, bool end)
{
    k3_region_t        *r = region;
    k3_region_events_t *e = r->events;
    timed_phase_t      *p = &e->phase[phase];
    unsigned            n = p->entered;

    if (!e->on || p->begin[0] == NULL) {
        return;
    }
    if (n < r->pairs) {
        k3_device_event_record(r->compute.device, end ? p->end[n] : p->begin[n],
                               r->compute.on->stream);
    }
    p->entered += end;
}

static k3_status_t create_phase(k3_region_t *r, timed_phase_t *p, k3_error_t *err)
{
    k3_device_t *device = r->compute.device;

    for (unsigned i = 0; i < r->pairs && err->status == K3_OK; i++) {
        if (k3_device_event_create(device, &p->begin[i], err) == K3_OK) {
            k3_device_event_create(device, &p->end[i], err);
        }
    }
    return err->status;
}

k3_status_t k3_region_events_create(k3_region_t *r, k3_error_t *err)
{
    k3_device_t *device = r->compute.device;

    if (device == NULL) {
        return K3_OK;
    }
    if (k3_alloc("events", 1, sizeof(*r->events), &r->events, err) != K3_OK ||
        k3_device_event_create(device, &r->events->base, err) != K3_OK) {
        return err->status;
    }
    for (int i = 0; i < OF_KERNELS && err->status == K3_OK; i++) {
        create_phase(r, &r->events->phase[of_kernels[i]], err);
    }
    r->events->on = r->times_kernels;
    r->spans.mark = mark;
    r->spans.mark_arg = r;
    return err->status;
}

void k3_region_events_destroy(k3_region_t *r)
{
    if (r->events == NULL) {
        return;
    }
    for (int i = 0; i < OF_KERNELS; i++) {
        for (unsigned n = 0; n < r->pairs; n++) {
            k3_device_event_destroy(r->compute.device, r->events->phase[of_kernels[i]].begin[n]);
            k3_device_event_destroy(r->compute.device, r->events->phase[of_kernels[i]].end[n]);
        }
    }
    k3_device_event_destroy(r->compute.device, r->events->base);
    k3_free(r->events);
    r->events = NULL;
}

bool k3_region_times_kernels(const k3_region_t *r)
{
    return r->events != NULL && r->events->on;
}

void k3_region_time_kernels(k3_region_t *r, bool on)
{
    r->events->on = on;
}

void k3_region_events_begin(k3_region_t *r)
{
    if (r->events == NULL || !r->events->on) {
        return;
    }
    for (int i = 0; i < OF_KERNELS; i++) {
        r->events->phase[of_kernels[i]].entered = 0;
    }
    k3_device_event_record(r->compute.device, r->events->base, K3_STREAM_MAIN);
    r->events->base_ticks = k3_clock_now();
}

static void take_times(k3_region_t *r, k3_phase_t phase)
{
    k3_region_events_t  *e = r->events;
    const timed_phase_t *p = &e->phase[phase];
    k3_device_t         *device = r->compute.device;
    double               first = k3_device_event_us(device, e->base, p->begin[0]);
    double               last = k3_device_event_us(device, e->base, p->end[p->entered - 1]);
    double               took = 0.0;

    for (unsigned n = 0; n < p->entered; n++) {
        took += k3_device_event_us(device, p->begin[n], p->end[n]);
    }
    r->spans.ticks[phase] = k3_clock_ticks(took);
    r->spans.first[phase] = e->base_ticks + k3_clock_ticks(first);
    r->spans.last[phase] = e->base_ticks + k3_clock_ticks(last);
}

/* One that was entered more often than there are events for has no time. */
static bool has_times(const k3_region_t *r, k3_phase_t phase)
{
    unsigned entered = r->events->phase[phase].entered;

    return r->events->on && entered > 0 && entered <= r->pairs;
}

void k3_region_events_end(k3_region_t *r)
{
    for (int i = 0; r->events != NULL && i < OF_KERNELS; i++) {
        k3_phase_t phase = of_kernels[i];

        if (has_times(r, phase)) {
            take_times(r, phase);
        } else {
            r->spans.used[phase] = false;
        }
    }
}
