#include "bench/commands/plan_rules.h"

#include <stdlib.h>
#include <string.h>

#include "bench/profiles/rules.h"
#include "harness/base/options.h"

/* --- values ------------------------------------------------------------------------------------ */

static k3_status_t set_qps(const char *value, k3_variant_t *v, k3_error_t *err)
{
    return k3_parse_u64("what-if qps", value, 1, K3_QPS_ASKED_MAX, &v->request.qps, err);
}

static k3_status_t set_p2p(const char *value, k3_variant_t *v, k3_error_t *err)
{
    return k3_parse_switch("what-if p2p", value, &v->request.p2p, err);
}

static k3_status_t set_fabric(const char *value, k3_variant_t *v, k3_error_t *err)
{
    v->request.fabric = value;
    return err->status;
}

static k3_status_t set_posting(const char *value, k3_variant_t *v, k3_error_t *err)
{
    uint64_t every = 0;

    if (strcmp(value, "batch") == 0) {
        v->doorbell_batch = true;
        return K3_OK;
    }
    if (strncmp(value, "every", 5) != 0) {
        return k3_fail(err, K3_ERR_USAGE, "what-if: posting=%.40s; it is everyN or batch", value);
    }
    if (k3_parse_u64("what-if posting=every", value + 5, 1, 65536, &every, err) == K3_OK) {
        v->doorbell_every = (uint32_t)every;
    }
    return err->status;
}

static k3_status_t set_signal(const char *value, k3_variant_t *v, k3_error_t *err)
{
    v->request.signal = value;
    return err->status;
}

static k3_status_t set_dispatch(const char *value, k3_variant_t *v, k3_error_t *err)
{
    v->request.dispatch_dtype = value;
    return err->status;
}

static k3_status_t set_combine(const char *value, k3_variant_t *v, k3_error_t *err)
{
    v->request.combine_dtype = value;
    return err->status;
}

/* --- the table --------------------------------------------------------------------------------- */

static const struct rule {
    const char *name, *values, *what;
    k3_status_t (*set)(const char *value, k3_variant_t *v, k3_error_t *err);
} rules[] = {
    {"qps", "N", "queue pairs to each peer that carry traffic", set_qps},
    {"p2p", "on|off", "stores to peers of the node, or the queue pair for them too", set_p2p},
    {"fabric", "ib|roce", "for profiles whose number of queue pairs depends on it", set_fabric},
    {"posting", "everyN|batch", "a doorbell for each N messages, or for each signal alone",
     set_posting},
    {"signal", "add|write", "how data are announced; a write waits for the messages before it",
     set_signal},
    {"dispatch-dtype", "TYPE", "format of the rows that leave", set_dispatch},
    {"combine-dtype", "TYPE", "format of the results that return", set_combine},
};

enum { RULES = sizeof(rules) / sizeof(rules[0]) };

static k3_status_t set_figure(const char *name, const char *value, k3_variant_t *v, k3_error_t *err)
{
    const char *names[K3_FIG_COUNT + RULES + 1] = {NULL};
    size_t      index;
    double      number;

    for (int i = 0; i < K3_FIG_COUNT; i++) {
        names[i] = k3_figure_name((k3_figure_t)i);
    }
    for (int i = 0; i < RULES; i++) {
        names[K3_FIG_COUNT + i] = rules[i].name;
    }
    if (k3_parse_name("what-if", name, names, &index, err) != K3_OK ||
        k3_parse_double(name, value, 0, 1e9, &number, err) != K3_OK) {
        return err->status;
    }
    k3_machine_set(&v->machine, (k3_figure_t)index, number, K3_FROM_DECIDED, "what-if");
    if (k3_figure(&v->machine, (k3_figure_t)index, -1) != number) {
        k3_fail(err, K3_ERR_USAGE, "what-if: %s=%s lies beyond what the figure can be", name,
                value);
    }
    return err->status;
}

k3_status_t k3_rule_add(const char *text, unsigned index, k3_variant_t *v, k3_error_t *err)
{
    char *copy = v->texts[index], *equals;

    if (strlen(text) >= sizeof(v->texts[0]) || strchr(text, '=') == NULL) {
        return k3_fail(err, K3_ERR_USAGE,
                       "what-if: \"%.60s\"; a rule is NAME=VALUE (k3bench help what-if)", text);
    }
    snprintf(copy, sizeof(v->texts[0]), "%s", text);
    equals = strchr(copy, '=');
    *equals = '\0';
    for (int i = 0; i < RULES; i++) {
        if (strcmp(rules[i].name, copy) == 0) {
            v->machine_only = false;
            return rules[i].set(equals + 1, v, err);
        }
    }
    return set_figure(copy, equals + 1, v, err);
}

/* --- help -------------------------------------------------------------------------------------- */

void k3_help_whatif(FILE *out)
{
    char left[32];

    fputs("plan --what-if RULE=VALUE,...: each rule alone, then all together\n\n", out);
    for (int i = 0; i < RULES; i++) {
        snprintf(left, sizeof(left), "%s=%s", rules[i].name, rules[i].values);
        fprintf(out, "  %-22s %s\n", left, rules[i].what);
    }
    fprintf(out, "  %-22s %s\n", "FIGURE=NUMBER",
            "a figure of the machine file: nic_gbps=100, launch_us=0, ...");
    fprintf(out, "  %-22s %s\n", "as:BACKEND",
            "each of these rules in which that backend's profile differs, then all, then itself");
    for (int i = 0; i < K3_RULE_COUNT; i++) {
        fprintf(out, "    %-20s %s\n", k3_rule_name((k3_rule_t)i), k3_rule_what((k3_rule_t)i));
    }
}
