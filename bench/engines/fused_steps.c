/* What both protocols of the fused family do: the begin and the end of a call and its spans, waiting for what
 * the helper thread brings. */
#include <stdarg.h>
#include <stdio.h>

#include "bench/engines/fused_engine.h"

/* --- waiting --------------------------------------------------------------------------------- */

static void describe_wait(const void *arg, char *text, unsigned size)
{
    const fused_engine_t *e = arg;
    uint32_t              i = 0;
    int used = snprintf(text, size, "%llu %s", (unsigned long long)e->missing, e->waiting_for);

    while (e->seen != NULL && i < e->seen_count && e->seen[i]) {
        i++;
    }
    if (e->seen != NULL && i < e->seen_count && used > 0 && (unsigned)used < size) {
        snprintf(text + used, size - (unsigned)used, ", first: of rank %u",
                 e->seen_count == e->row.experts ? i / e->row.local : i);
    }
}

void k3_fused_describe(fused_engine_t *e, const char *waiting_for, uint64_t missing)
{
    e->missing = missing;
    e->waiting_for = waiting_for;
    k3_watchdog_describe(describe_wait, e);
}

void k3_fused_fail(fused_engine_t *e, const char *format, ...)
{
    char    text[K3_ERROR_TEXT / 2];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    k3_fail(&e->fault, K3_ERR_CHECK, "%s", text);
    __atomic_store_n(&e->failed, true, __ATOMIC_RELEASE);
}

static k3_status_t helper_fault(const fused_engine_t *e, k3_error_t *err)
{
    if (__atomic_load_n(&e->failed, __ATOMIC_ACQUIRE)) {
        return k3_fail(err, e->fault.status, "%s", e->fault.text);
    }
    return K3_OK;
}

k3_status_t k3_fused_wait_in(fused_engine_t *e, uint64_t want, const char *what, k3_error_t *err)
{
    uint64_t seen = __atomic_load_n(&e->in, __ATOMIC_ACQUIRE), now;

    if (seen >= want) {
        return K3_OK;
    }
    k3_span_begin(e->env.spans, K3_PHASE_DISPATCH_WAIT);
    k3_fused_describe(e, what, want - seen);
    while (seen < want && helper_fault(e, err) == K3_OK && err->status == K3_OK) {
        k3_qps_idle(e->qps, err);
        now = __atomic_load_n(&e->in, __ATOMIC_ACQUIRE);
        if (now != seen) {
            seen = now;
            e->missing = want > seen ? want - seen : 0;
            k3_watchdog_alive();
        }
    }
    k3_watchdog_describe(NULL, NULL);
    k3_span_end(e->env.spans, K3_PHASE_DISPATCH_WAIT);
    return err->status;
}

/* --- a call ---------------------------------------------------------------------------------- */

void k3_fused_begin(fused_engine_t *e)
{
    k3_span_begin(e->env.spans, K3_PHASE_DISPATCH);
    e->begin = e->env.spans->begin[K3_PHASE_DISPATCH];
    e->in = 0;
    e->out_of = 0;
    e->last_in = 0;
    e->waited = 0;
    e->pushed = 0;
    e->pushing = false;
}

void k3_fused_start_helper(fused_engine_t *e)
{
    k3_qps_banks_begin(e->qps, K3_TRAFFIC_COMBINE, K3_TRAFFIC_DISPATCH);
    k3_helper_run(&e->helper);
}

void k3_fused_push_begin(fused_engine_t *e)
{
    if (!e->pushing) {
        e->pushing = true;
        k3_span_begin(e->env.spans, K3_PHASE_COMBINE);
    }
    k3_span_begin(e->env.spans, K3_PHASE_COMBINE_SEND);
}

void k3_fused_push_end(fused_engine_t *e)
{
    k3_span_end(e->env.spans, K3_PHASE_COMBINE_SEND);
    e->pushed += k3_clock_now() - e->env.spans->begin[K3_PHASE_COMBINE_SEND];
}

k3_status_t k3_fused_all_in(fused_engine_t *e, k3_error_t *err)
{
    while (!__atomic_load_n(&e->helper.done, __ATOMIC_ACQUIRE) && err->status == K3_OK) {
        k3_qps_idle(e->qps, err);
    }
    if (helper_fault(e, err) == K3_OK) {
        k3_span_end_at(e->env.spans, K3_PHASE_DISPATCH, e->last_in);
    }
    return err->status;
}

/* The parts' own times: dispatch from its begin until the last row was in, less what the helper
 * waited for room; the experts; the pushes, and everything behind the last expert. */
void k3_fused_complete(fused_engine_t *e, uint64_t experts_end)
{
    k3_spans_t *spans = e->env.spans;
    uint64_t    now = k3_clock_now();

    k3_span_end(spans, K3_PHASE_COMBINE);
    /* A rank without rows computes nothing, one that is late waits for nothing: zero, not absent. */
    spans->used[K3_PHASE_EXPERT_MLP] = true;
    spans->used[K3_PHASE_DISPATCH_WAIT] = true;
    spans->overlap = (k3_overlap_t){
        .dispatch = e->last_in - e->begin - e->waited,
        .combine = e->pushed + (now - experts_end),
        .span = now - e->begin,
    };
}
