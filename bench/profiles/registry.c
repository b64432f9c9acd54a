#include <stdio.h>
#include <string.h>

#include "bench/profiles/profile.h"
#include "bench/profiles/rows.h"
#include "harness/base/options.h"
#include "harness/base/text.h"

static const k3_rows_t *const families[] = {
    &k3_rows_slab, &k3_rows_ranks, &k3_rows_rails, &k3_rows_fused, &k3_rows_base,
};

enum { FAMILY_COUNT = sizeof(families) / sizeof(families[0]), NAMES_MAX = 64, MODES_TEXT = 128 };

unsigned k3_registry_count(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < FAMILY_COUNT; i++) {
        count += families[i]->count;
    }
    return count;
}

const k3_profile_t *k3_registry_at(unsigned i)
{
    for (unsigned family = 0; family < FAMILY_COUNT; family++) {
        if (i < families[family]->count) {
            return &families[family]->row[i];
        }
        i -= families[family]->count;
    }
    return NULL;
}

/* Rows of the backend named by the first `length` characters; the last one in *profile_p, all their
 * names in `text`. */
static unsigned rows_of_backend(const char *name, size_t length, const k3_profile_t **profile_p,
                                char text[MODES_TEXT])
{
    unsigned count = 0;
    size_t   used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        const k3_profile_t *p = k3_registry_at(i);

        if (strlen(p->backend) != length || memcmp(p->backend, name, length) != 0) {
            continue;
        }

        used = k3_append(text, MODES_TEXT, used, "%s%s", count > 0 ? ", " : "", p->name);
        *profile_p = p;
        count++;
    }
    return count;
}

static k3_status_t refuse_unknown(const char *name, k3_error_t *err)
{
    const char *names[NAMES_MAX + 1] = {NULL};
    size_t      index;

    for (unsigned i = 0; i < k3_registry_count() && i < NAMES_MAX; i++) {
        names[i] = k3_registry_at(i)->name;
    }
    return k3_parse_name("backend", name, names, &index, err);
}

k3_status_t k3_registry_find(const char *name, const k3_profile_t **profile_p, k3_error_t *err)
{
    for (unsigned i = 0; i < k3_registry_count(); i++) {
        if (strcmp(k3_registry_at(i)->name, name) == 0) {
            *profile_p = k3_registry_at(i);
            return K3_OK;
        }
    }

    const k3_profile_t *found = NULL;
    char                modes[MODES_TEXT];
    size_t              backend = strcspn(name, ":");
    unsigned            count = rows_of_backend(name, backend, &found, modes);

    if (count == 1 && name[backend] == '\0') {
        *profile_p = found;
        return K3_OK;
    }
    if (count > 1 && name[backend] == '\0') {
        return k3_fail(err, K3_ERR_USAGE, "backend: %s has several modes, name one: %s", name,
                       modes);
    }
    if (count > 1) {
        return k3_fail(err, K3_ERR_USAGE, "backend: %s has no such mode, known: %s", name, modes);
    }
    return refuse_unknown(name, err);
}

/* --- names ----------------------------------------------------------------------------------- */

#define NAME_OF(table, value)                                                                      \
    ((unsigned)(value) < sizeof(table) / sizeof((table)[0]) ? (table)[(unsigned)(value)]           \
                                                            : "unknown")

const char *k3_engine_name(k3_engine_id_t engine)
{
    static const char *const names[K3_ENGINE_ID_COUNT] = {
        [K3_ENGINE_GATHER] = "gather", [K3_ENGINE_SLAB] = "slab",   [K3_ENGINE_RANKS] = "ranks",
        [K3_ENGINE_RAILS] = "rails",   [K3_ENGINE_FUSED] = "fused", [K3_ENGINE_MPI] = "mpi",
        [K3_ENGINE_NULL] = "null",
    };

    return NAME_OF(names, engine);
}

const char *k3_dispatch_layout_name(k3_dispatch_layout_t layout)
{
    static const char *const names[K3_DISPATCH_LAYOUT_COUNT] = {
        [K3_DISPATCH_STANDARD] = "standard",   [K3_DISPATCH_DEEPEP_NORMAL] = "deepep_normal",
        [K3_DISPATCH_DEEPEP_LL] = "deepep_ll", [K3_DISPATCH_DEEPEP_V2] = "deepep_v2",
        [K3_DISPATCH_PPLX] = "pplx",           [K3_DISPATCH_FLASHINFER] = "flashinfer",
    };

    return NAME_OF(names, layout);
}

const char *k3_copy_rule_name(k3_copy_rule_t rule)
{
    static const char *const names[] = {
        [K3_COPY_NONE] = "none",           [K3_COPY_PER_EXPERT] = "per_expert",
        [K3_COPY_PER_RANK] = "per_rank",   [K3_COPY_PER_NODE] = "per_node",
        [K3_COPY_CHUNK] = "chunk",         [K3_COPY_PULL] = "pull",
        [K3_COPY_REPLICATE] = "replicate",
    };

    return NAME_OF(names, rule);
}

const char *k3_slot_rule_name(k3_slot_rule_t rule)
{
    static const char *const names[] = {
        [K3_SLOTS_PER_EXPERT] = "per_expert",
        [K3_SLOTS_PER_SOURCE] = "per_source",
        [K3_SLOTS_COMPACT] = "compact",
        [K3_SLOTS_SPLIT] = "split",
    };

    return NAME_OF(names, rule);
}

const char *k3_signal_op_name(k3_signal_op_t op)
{
    static const char *const names[] = {
        [K3_SIGNAL_NONE] = "none",
        [K3_SIGNAL_ADD] = "add",
        [K3_SIGNAL_WRITE] = "write",
    };

    return NAME_OF(names, op);
}

const char *k3_signal_value_name(k3_signal_value_t value)
{
    static const char *const names[] = {
        [K3_VALUE_NONE] = "none",
        [K3_VALUE_MINUS_COUNT] = "minus_count",
        [K3_VALUE_PLUS_COUNT] = "plus_count",
        [K3_VALUE_ROUND] = "round",
        [K3_VALUE_ONE] = "one",
        [K3_VALUE_TAIL] = "tail",
    };

    return NAME_OF(names, value);
}

const char *k3_signal_when_name(k3_signal_when_t when)
{
    static const char *const names[] = {
        [K3_WHEN_NEVER] = "never",
        [K3_WHEN_PER_EXPERT] = "per_expert",
        [K3_WHEN_PER_PEER] = "per_peer",
        [K3_WHEN_PER_CHUNK] = "per_chunk",
        [K3_WHEN_PER_MESSAGE] = "per_message",
        [K3_WHEN_PER_QP] = "per_qp",
    };

    return NAME_OF(names, when);
}

const char *k3_qp_count_name(k3_qp_count_t rule)
{
    static const char *const names[] = {
        [K3_QPS_ZERO] = "zero",         [K3_QPS_PER_LOCAL_EXPERT] = "per_local_expert",
        [K3_QPS_SHARE] = "share",       [K3_QPS_FIXED] = "fixed",
        [K3_QPS_CHANNELS] = "channels",
    };

    return NAME_OF(names, rule);
}

const char *k3_qp_map_name(k3_qp_map_t map)
{
    static const char *const names[] = {
        [K3_QP_BY_LOCAL_EXPERT] = "by_local_expert",
        [K3_QP_BY_CHANNEL] = "by_channel",
        [K3_QP_BY_CHUNK] = "by_chunk",
        [K3_QP_BY_SLOT] = "by_slot",
        [K3_QP_SPLIT] = "split",
        [K3_QP_BY_PROXY] = "by_proxy",
    };

    return NAME_OF(names, map);
}

const char *k3_completion_name(k3_completion_t completion)
{
    static const char *const names[] = {
        [K3_DONE_NONE] = "none",         [K3_DONE_SAME_QP_ORDER] = "same_qp_order",
        [K3_DONE_COUNTING] = "counting", [K3_DONE_DRAIN_FLAG] = "drain_flag",
        [K3_DONE_BARRIER] = "barrier",
    };

    return NAME_OF(names, completion);
}

const char *k3_weights_at_name(k3_weights_at_t weights)
{
    static const char *const names[] = {
        [K3_WEIGHTS_AT_ORIGIN] = "origin",
        [K3_WEIGHTS_AT_EXPERT] = "expert",
        [K3_WEIGHTS_IN_ACTIVATION] = "activation",
    };

    return NAME_OF(names, weights);
}

const char *k3_fault_action_name(k3_fault_action_t action)
{
    static const char *const names[] = {
        [K3_FAULT_WAIT] = "wait",
        [K3_FAULT_MASK] = "mask",
        [K3_FAULT_TRAP] = "trap",
        [K3_FAULT_ERROR] = "error",
    };

    return NAME_OF(names, action);
}
