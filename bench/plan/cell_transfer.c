/* How rows are signalled and copied, and what follows when a rank stays silent: the profile's way, or
 * what was asked for. */
#include "bench/plan/cell_internal.h"
#include "harness/base/options.h"

/* A write that stands for the profile's add waits for the messages before it: it is not ordered behind
 * them as an atomic operation is. */
static k3_status_t resolve_signal(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    static const char *const names[] = {"auto", "add", "write", NULL};
    const k3_profile_t      *p = cell->profile;
    size_t                   index;

    if (k3_parse_name("signal", q->signal != NULL ? q->signal : "auto", names, &index, err) !=
        K3_OK) {
        return err->status;
    }
    cell->signal_op = p->signal_op;
    if (index == 0) {
        return K3_OK;
    }
    if (p->engine != K3_ENGINE_SLAB) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: --signal %s is for backends that signal each (expert, source)", p->name,
                       names[index]);
    }
    cell->signal_op = index == 1 ? K3_SIGNAL_ADD : K3_SIGNAL_WRITE;
    cell->signal_waits = index == 2 && p->signal_op == K3_SIGNAL_ADD;
    if (index == 2 && p->completion == K3_DONE_COUNTING) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: --signal write cannot count, its arrivals are added up", p->name);
    }
    return K3_OK;
}

static k3_status_t resolve_copies(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    cell->zero_copy = false;
    if (q->zero_copy != NULL &&
        k3_parse_switch("zero-copy", q->zero_copy, &cell->zero_copy, err) != K3_OK) {
        return err->status;
    }
    if (cell->zero_copy && !cell->profile->zero_copy) {
        return k3_fail(err, K3_ERR_UNSUPPORTED, "%s: --zero-copy on is not offered by this backend",
                       cell->profile->name);
    }
    if (cell->zero_copy && cell->combine_format != K3_FORMAT_BF16) {
        return k3_fail(
            err, K3_ERR_UNSUPPORTED,
            "%s: --zero-copy on excludes --combine-dtype %s: what is sent is not what the "
            "experts wrote",
            cell->profile->name, k3_format_names[cell->combine_format]);
    }
    return K3_OK;
}

static k3_status_t resolve_fault(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    static const char *const       names[] = {"auto", "wait", "mask", "trap", NULL};
    static const k3_fault_action_t actions[] = {K3_FAULT_WAIT, K3_FAULT_WAIT, K3_FAULT_MASK,
                                                K3_FAULT_TRAP};
    const k3_profile_t            *p = cell->profile;
    size_t                         index;

    if (k3_parse_name("on-timeout", q->on_timeout != NULL ? q->on_timeout : "auto", names, &index,
                      err) != K3_OK) {
        return err->status;
    }
    cell->fault = index == 0 ? p->fault : actions[index];
    if (cell->fault != p->fault && (p->fault_choices & K3_BIT(cell->fault)) == 0) {
        return k3_fail(err, K3_ERR_UNSUPPORTED, "%s: --on-timeout %s: upstream's action is %s",
                       p->name, names[index], k3_fault_action_name(p->fault));
    }
    return K3_OK;
}

k3_status_t k3_cell_resolve_transfer(const k3_cell_request_t *q, k3_cell_t *cell, k3_error_t *err)
{
    if (resolve_signal(q, cell, err) != K3_OK || resolve_copies(q, cell, err) != K3_OK) {
        return err->status;
    }
    return resolve_fault(q, cell, err);
}
