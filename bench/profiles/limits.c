/* What a profile cannot carry, as a refusal that names backend, rule, limit and value. */
#include <stdarg.h>
#include <stdio.h>

#include "bench/profiles/profile.h"
#include "harness/base/arith.h"
#include "harness/base/text.h"

enum { LIST_TEXT = 160 };

/* --- queue pairs ----------------------------------------------------------------------------- */

static uint32_t local_experts(uint32_t ranks, uint32_t experts)
{
    return ranks > 0 ? experts / ranks : 0;
}

/* What the rule creates for each peer when --qps says nothing. */
static uint32_t qps_by_rule(const k3_profile_t *p, uint32_t ranks, uint32_t experts)
{
    switch (p->qp_count) {
    case K3_QPS_PER_LOCAL_EXPERT:
        return local_experts(ranks, experts);
    case K3_QPS_SHARE:
        return ranks > 0 ? p->qp_param / ranks : 0;
    case K3_QPS_FIXED:
    case K3_QPS_CHANNELS:
        return p->qp_param;
    case K3_QPS_ZERO:
        break;
    }
    return 0;
}

/* The largest --qps; a share cannot grow, other counts are a setting of the library. */
static uint32_t qps_asked_max(const k3_profile_t *p, uint32_t by_rule)
{
    if (p->qp_count == K3_QPS_ZERO || p->qp_count == K3_QPS_SHARE || by_rule > K3_QPS_ASKED_MAX) {
        return by_rule;
    }
    return K3_QPS_ASKED_MAX;
}

/* More lanes than the map ever names carry nothing. */
static uint32_t qps_mapped(const k3_profile_t *p, uint32_t by_rule)
{
    if (p->qp_count == K3_QPS_PER_LOCAL_EXPERT) {
        return by_rule;
    }
    if (p->qp_count == K3_QPS_CHANNELS) {
        return 2 * p->channels; /* data on c, credits on c + C */
    }
    return p->qp_active_max > 0 ? p->qp_active_max : UINT32_MAX;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static k3_status_t check_asked(const k3_profile_t *p, uint32_t by_rule, uint64_t asked,
                               k3_error_t *err)
{
    uint32_t limit = qps_asked_max(p, by_rule);

    if (p->qp_count == K3_QPS_ZERO) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: --qps %llu is above the limit 0, this backend has no queue pairs",
                       p->name, (unsigned long long)asked);
    }
    if (asked > limit) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: --qps %llu is above the limit of %u queue pairs per peer", p->name,
                       (unsigned long long)asked, limit);
    }
    if (p->qp_count == K3_QPS_CHANNELS && asked != p->channels && asked < p->sms) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: --qps %llu, but queue pairs per peer must be the %u channels or at "
                       "least the %u SMs",
                       p->name, (unsigned long long)asked, p->channels, p->sms);
    }
    if (p->qp_count == K3_QPS_PER_LOCAL_EXPERT && asked < by_rule && !p->qp_fewer_is_what_if) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: --qps %llu is below the limit of %u local experts", p->name,
                       (unsigned long long)asked, by_rule);
    }
    return K3_OK;
}

k3_status_t k3_profile_qps(const k3_profile_t *p, uint32_t ranks, uint32_t experts,
                           k3_fabric_type_t fabric, uint64_t asked, k3_qp_choice_t *choice,
                           k3_error_t *err)
{
    uint32_t by_rule = qps_by_rule(p, ranks, experts);

    if (p->qp_count == K3_QPS_SHARE && by_rule == 0) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: %u queue pairs in all cannot give one to each of %u ranks", p->name,
                       p->qp_param, ranks);
    }
    if (asked > 0) {
        k3_status_t status = check_asked(p, by_rule, asked, err);

        if (status != K3_OK) {
            return status;
        }
    }

    bool     share = p->qp_count == K3_QPS_SHARE;
    uint32_t existing = asked > 0 && !share ? (uint32_t)asked : by_rule;
    uint32_t active = smaller(existing, qps_mapped(p, by_rule));

    if (asked > 0 && share) {
        active = (uint32_t)asked;
    } else if (fabric == K3_FABRIC_ROCE && p->qp_active_roce > 0) {
        active = smaller(active, p->qp_active_roce);
    }
    *choice = (k3_qp_choice_t){
        .existing = existing,
        .active = active,
        .what_if = p->qp_fewer_is_what_if && existing < by_rule,
    };
    return K3_OK;
}

/* --- limits ---------------------------------------------------------------------------------- */

static bool lifted(const k3_profile_t *p, const k3_limit_facts_t *f, unsigned bit)
{
    return f->generation == K3_GENERATION_K3 && (p->limits.lifted & bit) != 0;
}

static const char *generation_name(const k3_limit_facts_t *f)
{
    return f->generation == K3_GENERATION_K3 ? "k3" : "stock";
}

__attribute__((format(printf, 4, 5))) static k3_status_t
refuse(const k3_profile_t *p, const k3_limit_facts_t *f, k3_error_t *err, const char *format, ...)
{
    char    text[K3_ERROR_TEXT / 2];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return k3_fail(err, K3_ERR_UNSUPPORTED, "%s: %s (generation %s)", p->name, text,
                   generation_name(f));
}

/* limit 0: none. */
static k3_status_t at_most(const k3_profile_t *p, const k3_limit_facts_t *f, const char *what,
                           uint64_t value, uint64_t limit, k3_error_t *err)
{
    if (limit == 0 || value <= limit) {
        return K3_OK;
    }
    return refuse(p, f, err, "%s %llu is above upstream's limit %llu", what,
                  (unsigned long long)value, (unsigned long long)limit);
}

static k3_status_t multiple_of(const k3_profile_t *p, const k3_limit_facts_t *f, const char *what,
                               uint64_t value, const char *unit_name, uint64_t unit,
                               k3_error_t *err)
{
    if (unit == 0 || value % unit == 0) {
        return K3_OK;
    }
    return refuse(p, f, err, "%s %llu is not a multiple of %s %llu", what,
                  (unsigned long long)value, unit_name, (unsigned long long)unit);
}

/* "2048, 2560"; false when the list is empty or holds the value. */
static bool outside(const uint32_t *list, unsigned max, uint32_t value, char text[LIST_TEXT])
{
    size_t used = 0;
    bool   found = list[0] == 0;

    text[0] = '\0';
    for (unsigned i = 0; i < max && list[i] != 0; i++) {
        used = k3_append(text, LIST_TEXT, used, "%s%u", i > 0 ? ", " : "", list[i]);
        found = found || list[i] == value;
    }
    return !found;
}

static k3_status_t check_structure(const k3_profile_t *p, const k3_limit_facts_t *f,
                                   k3_error_t *err)
{
    const k3_limits_t *l = &p->limits;
    k3_status_t        status = K3_OK;

    if (l->experts_divide) {
        status = multiple_of(p, f, "experts", f->experts, "the ranks", f->ranks, err);
    }
    if (status == K3_OK && !lifted(p, f, K3_LIFT_EXPERTS)) {
        status = at_most(p, f, "experts", f->experts, l->experts, err);
    }
    if (status == K3_OK) {
        status = at_most(p, f, "local experts", local_experts(f->ranks, f->experts),
                         l->local_experts, err);
    }
    return status;
}

static k3_status_t check_topk(const k3_profile_t *p, const k3_limit_facts_t *f, k3_error_t *err)
{
    uint32_t limit = p->limits.topk;

    if (lifted(p, f, K3_LIFT_TOPK) && limit > 0 && limit < K3_LIFTED_TOPK) {
        limit = K3_LIFTED_TOPK;
    }
    if (limit == 0 || f->topk <= limit) {
        return K3_OK;
    }
    return refuse(p, f, err, "top-k %u is above %slimit %u", f->topk,
                  limit == p->limits.topk ? "upstream's " : "the ", limit);
}

/* Of kernels that hold the experts too. */
static k3_status_t check_intermediate(const k3_profile_t *p, const k3_limit_facts_t *f,
                                      k3_error_t *err)
{
    const k3_limits_t *l = &p->limits;

    if (f->intermediate == 0) {
        return K3_OK;
    }
    if (f->intermediate < l->inter_min) {
        return refuse(p, f, err, "intermediate width %u is below upstream's limit %u",
                      f->intermediate, l->inter_min);
    }

    k3_status_t status = at_most(p, f, "intermediate width", f->intermediate, l->inter_max, err);

    return status != K3_OK ? status
                           : multiple_of(p, f, "intermediate width", f->intermediate, "upstream's",
                                         l->inter_unit, err);
}

/* What upstream is compiled or asserted for. */
static k3_status_t check_width_stock(const k3_profile_t *p, const k3_limit_facts_t *f,
                                     k3_error_t *err)
{
    const k3_limits_t *l = &p->limits;
    char               text[LIST_TEXT];

    if (outside(l->widths, K3_WIDTHS_MAX, f->width, text)) {
        return refuse(p, f, err, "width %u is not among upstream's widths %s", f->width, text);
    }
    if (f->width < l->width_min) {
        return refuse(p, f, err, "width %u is below upstream's limit %u", f->width, l->width_min);
    }

    k3_status_t status = at_most(p, f, "width", f->width, l->width_max, err);

    if (status == K3_OK) {
        status = multiple_of(p, f, "width", f->width, "upstream's", l->width_unit, err);
    }
    if (status == K3_OK && f->dispatch_format == K3_FORMAT_FP8) {
        status = multiple_of(p, f, "width", f->width, "upstream's fp8", l->fp8_width_unit, err);
    }
    return status != K3_OK ? status : check_intermediate(p, f, err);
}

/* What the row formats need in either generation: whole scale groups, values in 16-byte pieces. */
static k3_status_t check_row(const k3_profile_t *p, const k3_limit_facts_t *f, k3_format_t format,
                             k3_error_t *err)
{
    char        text[LIST_TEXT];
    const char *name = k3_format_names[format];
    size_t      group = k3_format_group(format);

    outside(p->limits.widths, K3_WIDTHS_MAX, 0, text);

    const char *known = text[0] != '\0' ? "; upstream's widths: " : "";

    if (f->width % group != 0) {
        return refuse(p, f, err, "width %u is not a multiple of %zu, the scale group of %s%s%s",
                      f->width, group, name, known, text);
    }
    if (k3_format_value_bytes(format, f->width) % 16 != 0) {
        return refuse(p, f, err, "width %u in %s is %zu bytes, not a multiple of 16%s%s", f->width,
                      name, k3_format_value_bytes(format, f->width), known, text);
    }
    return K3_OK;
}

static k3_status_t check_width(const k3_profile_t *p, const k3_limit_facts_t *f, k3_error_t *err)
{
    k3_status_t status = K3_OK;

    if (!lifted(p, f, K3_LIFT_WIDTHS)) {
        status = check_width_stock(p, f, err);
    }
    if (status == K3_OK) {
        status = check_row(p, f, f->dispatch_format, err);
    }
    if (status == K3_OK) {
        status = check_row(p, f, f->combine_format, err);
    }
    return status;
}

static k3_status_t check_format(const k3_profile_t *p, const char *direction, unsigned allowed,
                                k3_format_t format, k3_error_t *err)
{
    char   text[LIST_TEXT] = "";
    size_t used = 0;

    if ((allowed & K3_BIT(format)) != 0) {
        return K3_OK;
    }
    for (unsigned i = 0; i < K3_FORMAT_COUNT; i++) {
        if ((allowed & K3_BIT(i)) != 0) {
            used =
                k3_append(text, LIST_TEXT, used, "%s%s", used > 0 ? ", " : "", k3_format_names[i]);
        }
    }
    return k3_fail(err, K3_ERR_UNSUPPORTED, "%s: %s format %s is not one of its formats %s",
                   p->name, direction, k3_format_names[format], text);
}

static k3_status_t check_formats(const k3_profile_t *p, const k3_limit_facts_t *f, k3_error_t *err)
{
    k3_status_t status = check_format(p, "dispatch", p->dispatch_formats, f->dispatch_format, err);

    if (status == K3_OK) {
        status = check_format(p, "combine", p->combine_formats, f->combine_format, err);
    }
    return status;
}

/* Upstream's checks of the quantisation in front of the library. */
static k3_status_t check_weights(const k3_profile_t *p, const k3_limit_facts_t *f, k3_error_t *err)
{
    unsigned allowed = p->limits.weights;
    char     text[LIST_TEXT] = "";
    size_t   used = 0;

    if (allowed == 0 || (allowed & K3_BIT(f->weights)) != 0 || lifted(p, f, K3_LIFT_WEIGHTS)) {
        return K3_OK;
    }
    for (unsigned i = 0; i < K3_WEIGHT_FORMAT_COUNT; i++) {
        if ((allowed & K3_BIT(i)) != 0) {
            used = k3_append(text, LIST_TEXT, used, "%s%s", used > 0 ? ", " : "",
                             k3_weight_format_names[i]);
        }
    }
    return refuse(p, f, err, "upstream's gate takes experts in %s only, not in %s", text,
                  k3_weight_format_names[f->weights]);
}

static k3_status_t check_ranks(const k3_profile_t *p, const k3_limit_facts_t *f, k3_error_t *err)
{
    const k3_limits_t *l = &p->limits;
    k3_status_t        status = at_most(p, f, "ranks", f->ranks, l->ranks, err);

    if (status == K3_OK && l->qps_total > 0 && f->ranks > l->qps_total) {
        return refuse(p, f, err,
                      "ranks %u is above the limit %u, one of %u queue pairs in all each", f->ranks,
                      l->qps_total, l->qps_total);
    }
    if (status == K3_OK && f->dp < l->dp_groups_min) {
        return refuse(p, f, err, "dp %u is below upstream's limit of %u groups", f->dp,
                      l->dp_groups_min);
    }
    return status;
}

/* Shapes of a node that upstream was written for. */
static k3_status_t check_node_shape(const k3_profile_t *p, const k3_limit_facts_t *f,
                                    k3_error_t *err)
{
    const k3_limits_t *l = &p->limits;
    char               text[LIST_TEXT];

    if (f->nodes <= 1) {
        if (outside(l->ranks_one_node, K3_COUNTS_MAX, f->ranks, text)) {
            return refuse(p, f, err, "ranks %u in one node is not among upstream's %s", f->ranks,
                          text);
        }
        return K3_OK;
    }
    if (l->ranks_per_node > 0 && f->ranks_per_node != l->ranks_per_node) {
        return refuse(p, f, err, "%u ranks a node, upstream's rule is %u", f->ranks_per_node,
                      l->ranks_per_node);
    }
    return multiple_of(p, f, "ranks", f->ranks, "upstream's", l->ranks_unit, err);
}

static k3_status_t check_nodes(const k3_profile_t *p, const k3_limit_facts_t *f, k3_error_t *err)
{
    const k3_limits_t *l = &p->limits;
    char               text[LIST_TEXT];
    uint32_t           n = f->ranks_per_node;

    if (l->one_node && f->nodes > 1) {
        return refuse(p, f, err, "lives on mapped memory, limit 1 node, not %u", f->nodes);
    }
    if (l->one_node && !f->p2p && !f->on_device) {
        return refuse(p, f, err, "lives on mapped memory and cannot run with --p2p off");
    }
    if (l->one_node_mapped && f->nodes <= 1 && !f->p2p && !f->on_device) {
        return refuse(p, f, err,
                      "lives on mapped memory in one node and cannot run there with --p2p off");
    }
    if (l->node_power_of_two && (n & (n - 1)) != 0) {
        return refuse(p, f, err, "%u ranks a node, upstream's rule is a power of two", n);
    }

    k3_status_t status = at_most(p, f, "nodes", f->nodes, l->nodes, err);

    if (status == K3_OK) {
        status = at_most(p, f, "ranks a node", n, l->ranks_per_node_max, err);
    }
    if (status == K3_OK && !lifted(p, f, K3_LIFT_NODE_SHAPE)) {
        status = check_node_shape(p, f, err);
    }
    if (status == K3_OK && outside(l->nodes_allowed, K3_COUNTS_MAX, f->nodes, text)) {
        return refuse(p, f, err, "nodes %u is not among upstream's %s", f->nodes, text);
    }
    return status;
}

/* A window of two halves, each of the rows of all ranks and 2 MiB of status. */
static k3_status_t check_window(const k3_profile_t *p, const k3_limit_facts_t *f, k3_error_t *err)
{
    uint64_t places = smaller(local_experts(f->ranks, f->experts), f->topk);
    uint64_t rows = k3_mul(k3_mul(f->max_tokens, f->ranks), places);
    uint64_t needed = k3_mul(2, k3_add(k3_mul(rows, 2 * (uint64_t)f->width), UINT64_C(2) << 20));

    if (p->limits.window == 0 || lifted(p, f, K3_LIFT_WINDOW) || needed <= p->limits.window) {
        return K3_OK;
    }
    return refuse(p, f, err,
                  "max-tokens %llu needs a window of %llu bytes, upstream's default is %llu "
                  "(HCCL_BUFFSIZE; --generation k3 takes what is needed)",
                  (unsigned long long)f->max_tokens, (unsigned long long)needed,
                  (unsigned long long)p->limits.window);
}

static k3_status_t check_tokens(const k3_profile_t *p, const k3_limit_facts_t *f, k3_error_t *err)
{
    const k3_limits_t *l = &p->limits;
    uint64_t           rows = k3_mul(f->ranks, f->max_tokens);
    uint64_t           posts = k3_mul(2, k3_add(f->max_tokens, 1));
    bool               raised = f->generation == K3_GENERATION_K3 && l->queue_depth_max > 0;
    uint32_t           depth = raised ? l->queue_depth_max : l->queue_depth;
    k3_status_t        status = at_most(p, f, "max-tokens", f->max_tokens, l->tokens, err);

    if (status != K3_OK) {
        return status;
    }
    if (depth > 0 && posts > depth) {
        return refuse(p, f, err, "max-tokens %llu needs queue depth %llu, limit %u",
                      (unsigned long long)f->max_tokens, (unsigned long long)posts, depth);
    }
    if (l->rm_unit > 0 && f->dispatch_format == K3_FORMAT_FP8 &&
        (uint64_t)f->ranks * (f->max_tokens % l->rm_unit) % l->rm_unit != 0) {
        return refuse(
            p, f, err, "ranks %u x max-tokens %llu = %llu is not a multiple of %u, needed for fp8",
            f->ranks, (unsigned long long)f->max_tokens, (unsigned long long)rows, l->rm_unit);
    }
    return K3_OK;
}

k3_status_t k3_profile_check(const k3_profile_t *p, const k3_limit_facts_t *facts, k3_error_t *err)
{
    static k3_status_t (*const checks[])(const k3_profile_t *, const k3_limit_facts_t *,
                                         k3_error_t *) = {
        check_structure, check_topk,  check_width,  check_formats, check_weights,
        check_ranks,     check_nodes, check_tokens, check_window,
    };
    k3_status_t status = K3_OK;

    for (unsigned i = 0; i < sizeof(checks) / sizeof(checks[0]) && status == K3_OK; i++) {
        status = checks[i](p, facts, err);
    }
    return status;
}
