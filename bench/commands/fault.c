#include "bench/commands/fault.h"

#include <stdio.h>
#include <string.h>

#include "bench/plan/cell_rows.h"
#include "harness/base/options.h"

static k3_status_t parse_rank(const char *text, uint32_t world, int *rank, k3_error_t *err)
{
    uint64_t value;

    if (k3_parse_u64("fault rank", text, 0, world - 1, &value, err) != K3_OK) {
        return err->status;
    }
    *rank = (int)value;
    return K3_OK;
}

/* The iteration is the last part and can be missing. */
static k3_status_t parse_call(const k3_list_t *p, size_t at, uint64_t *call, k3_error_t *err)
{
    return p->count > at ? k3_parse_u64("fault iteration", p->items[at], 1, UINT32_MAX, call, err)
                         : K3_OK;
}

/* Alone or, behind a slash, of each so many. */
static k3_status_t parse_when(const k3_list_t *p, size_t at, k3_fault_t *f, k3_error_t *err)
{
    if (p->count > at && p->items[at][0] == '/') {
        return k3_parse_u64("fault iteration", p->items[at] + 1, 1, UINT32_MAX, &f->stall_every,
                            err);
    }
    return parse_call(p, at, &f->stall_call, err);
}

static k3_status_t parse_stall(const k3_list_t *p, uint32_t world, k3_fault_t *f, k3_error_t *err)
{
    size_t phase;

    if (parse_rank(p->items[1], world, &f->stall_rank, err) != K3_OK ||
        k3_parse_name("fault phase", p->items[2], k3_phase_names, &phase, err) != K3_OK ||
        k3_parse_double("fault ms", p->items[3], 1e-3, 3.6e6, &f->stall_ms, err) != K3_OK ||
        parse_when(p, 4, f, err) != K3_OK) {
        return err->status;
    }
    f->stall_phase = (int)phase;
    return K3_OK;
}

/* RANK+RANK+..., rising, so that no rank stands twice. */
static k3_status_t parse_ranks(const char *text, uint32_t world, k3_fault_t *f, k3_error_t *err)
{
    k3_list_t parts;

    k3_list_split(text, '+', &parts);
    if (parts.count > K3_DEAD_MAX) {
        k3_fail(err, K3_ERR_USAGE, "fault: %zu ranks, at most %d can die", parts.count,
                K3_DEAD_MAX);
    }
    for (size_t i = 0; i < parts.count && err->status == K3_OK; i++) {
        int rank = 0;

        if (parse_rank(parts.items[i], world, &rank, err) != K3_OK) {
            break;
        }
        if (i > 0 && rank <= f->dead_rank[i - 1]) {
            k3_fail(err, K3_ERR_USAGE, "fault: ranks \"%s\" are not in rising order", text);
        }
        f->dead_rank[f->dead_count++] = rank;
    }
    k3_list_free(&parts);
    if (err->status == K3_OK && (uint32_t)f->dead_count >= world) {
        k3_fail(err, K3_ERR_USAGE, "fault: all %u ranks dead; one must live to notice", world);
    }
    return err->status;
}

static k3_status_t parse_dead(const k3_list_t *p, uint32_t world, k3_fault_t *f, k3_error_t *err)
{
    size_t phase;

    if (parse_ranks(p->items[1], world, f, err) != K3_OK ||
        k3_parse_name("fault phase", p->items[2], k3_phase_names, &phase, err) != K3_OK ||
        parse_call(p, 3, &f->dead_call, err) != K3_OK) {
        return err->status;
    }
    f->dead_phase = (int)phase;
    return K3_OK;
}

static k3_status_t parse_skip(const k3_list_t *p, uint32_t world, k3_fault_t *f, k3_error_t *err)
{
    return parse_rank(p->items[1], world, &f->skip_rank, err) == K3_OK
               ? parse_call(p, 2, &f->skip_call, err)
               : err->status;
}

static k3_status_t parse_slow(const k3_list_t *p, uint32_t world, k3_fault_t *f, k3_error_t *err)
{
    uint64_t qp;

    if (parse_rank(p->items[1], world, &f->slow_src, err) != K3_OK ||
        parse_rank(p->items[2], world, &f->slow_dst, err) != K3_OK ||
        k3_parse_u64("fault QP", p->items[3], 0, 4095, &qp, err) != K3_OK ||
        k3_parse_double("fault factor", p->items[4], 1.0, 1e6, &f->slow_factor, err) != K3_OK) {
        return err->status;
    }
    f->slow_qp = (unsigned)qp;
    return K3_OK;
}

static k3_status_t parse_slow_node(const k3_list_t *p, uint32_t world, k3_fault_t *f,
                                   k3_error_t *err)
{
    uint64_t node;

    if (k3_parse_u64("fault node", p->items[1], 0, world - 1, &node, err) != K3_OK ||
        k3_parse_double("fault factor", p->items[2], 1.0, 1e6, &f->slow_factor, err) != K3_OK) {
        return err->status;
    }
    f->slow_node = (int)node;
    return K3_OK;
}

static k3_status_t parse_corrupt(const k3_list_t *p, uint32_t world, k3_fault_t *f, k3_error_t *err)
{
    if (parse_rank(p->items[1], world, &f->corrupt_rank, err) != K3_OK) {
        return err->status;
    }
    return k3_parse_u64("fault row", p->items[2], 0, UINT32_MAX, &f->corrupt_row, err);
}

k3_status_t k3_fault_parse(const char *text, uint32_t world, k3_fault_t *fault, k3_error_t *err)
{
    static const struct {
        const char *name;
        size_t      least, most; /* parts */
        k3_status_t (*parse)(const k3_list_t *, uint32_t, k3_fault_t *, k3_error_t *);
    } kinds[] = {{"stall", 4, 5, parse_stall},         {"dead", 3, 4, parse_dead},
                 {"skip", 3, 3, parse_skip},           {"slow-qp", 5, 5, parse_slow},
                 {"slow-node", 3, 3, parse_slow_node}, {"corrupt", 3, 3, parse_corrupt}};
    k3_list_t parts;
    bool      known = false;

    *fault = (k3_fault_t)K3_FAULT_NONE;
    if (strcmp(text, "none") == 0) {
        return K3_OK;
    }
    k3_list_split(text, ':', &parts);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(parts.items[0], kinds[i].name) == 0 && parts.count >= kinds[i].least &&
            parts.count <= kinds[i].most) {
            known = true;
            kinds[i].parse(&parts, world, fault, err);
        }
    }
    k3_list_free(&parts);
    if (!known) {
        k3_fail(err, K3_ERR_USAGE,
                "fault: \"%s\" is none of none, stall:RANK:PHASE:MS[:ITERATION or :/EVERY], "
                "dead:RANK[+RANK...]:PHASE[:ITERATION], skip:RANK:ITERATION, "
                "slow-qp:SRC:DST:QP:FACTOR, "
                "slow-node:NODE:FACTOR, corrupt:RANK:ROW",
                text);
    }
    return err->status;
}

/* --- what a cell can have -------------------------------------------------------------------- */

static k3_status_t check_corrupt(const k3_fault_t *f, const k3_cell_t *cell, k3_error_t *err)
{
    uint64_t first, rows;

    k3_cell_dispatched(cell, (uint32_t)f->corrupt_rank, &first, &rows);
    if (f->corrupt_row >= rows) {
        return k3_fail(err, K3_ERR_USAGE, "fault: row %llu of rank %d: it has %llu rows, from 0",
                       (unsigned long long)f->corrupt_row, f->corrupt_rank,
                       (unsigned long long)rows);
    }
    return K3_OK;
}

k3_status_t k3_fault_check(const k3_fault_t *f, const k3_cell_t *cell, k3_error_t *err)
{
    bool of_rows = f->corrupt_rank >= 0 || f->skip_rank >= 0 || f->dead_count > 0;

    if (of_rows && !k3_profile_moves_rows(cell->profile)) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "fault: %s moves no rows that could be wrong or missing",
                       cell->profile->name);
    }
    if (f->dead_count > 0 && cell->component == K3_COMPONENT_CONTROL) {
        return k3_fail(err, K3_ERR_USAGE, "fault: component control has no place for a dead rank");
    }
    if (f->slow_node >= 0 && (cell->nodes < 2 || (uint32_t)f->slow_node >= cell->nodes)) {
        return k3_fail(err, K3_ERR_USAGE,
                       "fault: node %d: the cell has %u, and a lane must leave it", f->slow_node,
                       cell->nodes);
    }
    if (f->slow_src >= 0 && f->slow_qp >= cell->qps.active) {
        return k3_fail(err, K3_ERR_USAGE,
                       "fault: QP index %u: %s has %u queue pairs to each peer, from 0", f->slow_qp,
                       cell->profile->name, cell->qps.active);
    }
    return f->corrupt_rank >= 0 ? check_corrupt(f, cell, err) : K3_OK;
}

int k3_fault_ranks(const k3_fault_t *f)
{
    return f->stall_rank >= 0 || f->skip_rank >= 0 || f->corrupt_rank >= 0 ? 1 : f->dead_count;
}

void k3_fault_missed(const k3_fault_t *f, char *text, size_t size)
{
    if (f->corrupt_rank >= 0) {
        (void)snprintf(
            text, size,
            "fault: row %llu of rank %d and its neighbour are the same: nothing was corrupted",
            (unsigned long long)f->corrupt_row, f->corrupt_rank);
    } else if (f->skip_rank >= 0) {
        (void)snprintf(text, size, "fault: rank %d never came to iteration %llu", f->skip_rank,
                       (unsigned long long)f->skip_call);
    } else {
        (void)snprintf(text, size, "fault: rank %d never came to %s in its iteration",
                       f->stall_rank >= 0 ? f->stall_rank : f->dead_rank[0],
                       k3_phase_names[f->stall_rank >= 0 ? f->stall_phase : f->dead_phase]);
    }
}
