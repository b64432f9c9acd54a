#include "bench/plan/effect.h"

#include <string.h>

#include "bench/plan/cell.h"
#include "bench/profiles/profile.h"

/* --- of one cell ------------------------------------------------------------------------------- */

/* Why the option changes nothing in the cell; NULL: it may. */
typedef const char *(*why_t)(const k3_cell_request_t *q, const k3_profile_t *p);

static bool on_device(const k3_cell_request_t *q)
{
    return q->device != NULL && strcmp(q->device, K3_DEVICE_CPU) != 0;
}

static const char *without_lanes(const k3_cell_request_t *q, const k3_profile_t *p)
{
    (void)q;
    return k3_profile_has_lanes(p) ? NULL : "it has no queue pairs";
}

static const char *without_mapping(const k3_cell_request_t *q, const k3_profile_t *p)
{
    return on_device(q) ? "memory of a device is not mapped, p2p is off there"
                        : without_lanes(q, p);
}

static const char *on_any_fabric(const k3_cell_request_t *q, const k3_profile_t *p)
{
    if (p->qp_active_roce == 0) {
        return "it has as many queue pairs on ib as on roce";
    }
    return q->qps > 0 && p->qp_count == K3_QPS_SHARE ? "--qps says how many queue pairs are used"
                                                     : NULL;
}

static const char *without_device(const k3_cell_request_t *q, const k3_profile_t *p)
{
    (void)p;
    return on_device(q) ? NULL : "it is for rows on a device, and --device is cpu";
}

static const char *without_processor(const k3_cell_request_t *q, const k3_profile_t *p)
{
    (void)p;
    return on_device(q) ? "experts and rows are the device's" : NULL;
}

static const char *without_choice_of_path(const k3_cell_request_t *q, const k3_profile_t *p)
{
    if (!p->spans_ep) {
        return "it does not span the EP group, and has the fallback by any rule";
    }
    return q->path != NULL && strcmp(q->path, "fast") == 0 ? "--path fast leaves nothing to a rule"
                                                           : NULL;
}

/* Rows that are listed are counted as they are. */
static const char *without_distribution(const k3_cell_request_t *q, const k3_profile_t *p)
{
    bool listed = q->routing != NULL
                      ? strncmp(q->routing, "trace:", 6) == 0 || strcmp(q->routing, "gate") == 0
                      : q->hidden != NULL;

    (void)p;
    return listed ? "the routing is given row by row, it is counted exactly" : NULL;
}

static const struct {
    const char *option;
    why_t       why; /* NULL: ends the iterations where their number does not */
} rules[] = {
    {"ci-target", NULL},
    {"max-seconds", NULL},
    {"p2p", without_mapping},
    {"fabric", on_any_fabric},
    {"transport", without_lanes},
    {"accounting", without_lanes},
    {"share-device", without_device},
    {"staged", without_device},
    {"events", without_device},
    {"isa", without_processor},
    {"path-rule", without_choice_of_path},
    {"counting", without_distribution},
};

enum { RULES = sizeof(rules) / sizeof(rules[0]) };

/* --- of all cells ------------------------------------------------------------------------------ */

/* A name that does not exist is told by the cell. */
static const char *why_in_cell(why_t why, const k3_cell_request_t *q, const char **backend)
{
    const k3_profile_t *profile;
    k3_error_t          unknown = K3_ERROR_INIT;

    if (k3_registry_find(q->backend != NULL ? q->backend : "none", &profile, &unknown) != K3_OK) {
        return NULL;
    }
    *backend = profile->name;
    return why(q, profile);
}

static bool in_no_cell(const k3_options_t *options, const char *option, why_t why,
                       const k3_requests_t *requests, k3_error_t *text)
{
    const char *first = NULL, *backend = NULL, *other;

    for (size_t i = 0; i < requests->count; i++) {
        const char *reason = why_in_cell(why, &requests->items[i], i == 0 ? &backend : &other);

        if (reason == NULL) {
            return false;
        }
        first = i == 0 ? reason : first;
    }
    if (first == NULL) {
        return false;
    }
    k3_fail(text, K3_ERR_USAGE, "%s %s has no effect on %s: %s: %s", option,
            k3_options_get(options, option), requests->count > 1 ? "any of the cells" : "the cell",
            backend, first);
    return true;
}

static bool is_numbered(const k3_options_t *options, const char *option, k3_error_t *text)
{
    const char *iters = k3_options_get(options, "iters");

    if (iters != NULL) {
        k3_fail(text, K3_ERR_USAGE, "%s %s has no effect: --iters %s is the number of iterations",
                option, k3_options_get(options, option), iters);
    }
    return iters != NULL;
}

bool k3_effect_none(const k3_options_t *options, const char *option, const k3_requests_t *requests,
                    k3_error_t *why)
{
    for (size_t i = 0; i < RULES; i++) {
        if (strcmp(rules[i].option, option) == 0) {
            return rules[i].why == NULL ? is_numbered(options, option, why)
                                        : in_no_cell(options, option, rules[i].why, requests, why);
        }
    }
    return false;
}

k3_status_t k3_effect_check(const k3_options_t *options, const k3_requests_t *requests,
                            k3_error_t *err)
{
    for (size_t i = 0; i < RULES; i++) {
        if (k3_options_origin(options, rules[i].option) == K3_ORIGIN_COMMAND_LINE &&
            k3_effect_none(options, rules[i].option, requests, err)) {
            break;
        }
    }
    return err->status;
}
