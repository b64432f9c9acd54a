#include "bench/profiles/path.h"

#include <string.h>

#include "harness/base/options.h"

/* What sglang's model file listed before each fix. `null` is ours and moves nothing, so no list can
 * forget it; `mpi` is ours too, but has to be forgotten like any backend that is not on a list. */
static const char *const fast_before_35630[] = {"megamoe", "deepep", "null", NULL};
static const char *const fast_before_36862[] = {"megamoe", "deepep", "mori", "null", NULL};
static const char *const fast_before_37516[] = {
    "megamoe", "flashinfer_megamoe", "deepep", "mooncake", "mori", "ascend_fuseep", "null", NULL};
static const char *const fast_unlisted[] = {"null", NULL};

/* PR 36862 calls the fallback of mooncake right but redundant, PR 37516 that of deepep_v2 a second
 * reduction. */
static const char *const again_deepep_v2[] = {"deepep_v2", NULL};
static const char *const again_all[] = {"*", NULL};

static const k3_path_rule_t rules[] = {
    {.name = "registry",
     .what = "fast for every backend that spans the EP group, by its row",
     .by_registry = true},
    {.name = "before-35630",
     .what = "sglang before PR 35630: fast only for megamoe and deepep",
     .fast = fast_before_35630,
     .reduced_again = again_deepep_v2},
    {.name = "before-36862",
     .what = "sglang before PR 36862: fast for megamoe, deepep and mori, not for mooncake",
     .fast = fast_before_36862,
     .reduced_again = again_deepep_v2},
    {.name = "before-37516",
     .what = "sglang before PR 37516: deepep_v2 missing, its complete combine reduced again",
     .fast = fast_before_37516,
     .reduced_again = again_deepep_v2},
    {.name = "unlisted",
     .what = "a backend forgotten in both lists: gathered, dispatched by all, reduced again",
     .fast = fast_unlisted,
     .reduced_again = again_all},
};

enum { RULE_COUNT = sizeof(rules) / sizeof(rules[0]) };

const char *const k3_path_choice_names[] = {
    [K3_PATH_AUTO] = "auto", [K3_PATH_FAST] = "fast", [K3_PATH_FALLBACK] = "fallback", NULL};

unsigned k3_path_rule_count(void)
{
    return RULE_COUNT;
}

const k3_path_rule_t *k3_path_rule_at(unsigned i)
{
    return i < RULE_COUNT ? &rules[i] : NULL;
}

k3_status_t k3_path_rule_find(const char *name, const k3_path_rule_t **rule_p, k3_error_t *err)
{
    const char *names[RULE_COUNT + 1] = {NULL};
    size_t      index = 0;

    for (unsigned i = 0; i < RULE_COUNT; i++) {
        names[i] = rules[i].name;
    }

    k3_status_t status = k3_parse_name("path-rule", name, names, &index, err);

    if (status == K3_OK) {
        *rule_p = &rules[index];
    }
    return status;
}

static bool listed(const char *backend, const char *const *list)
{
    for (; list != NULL && *list != NULL; list++) {
        if (strcmp(*list, "*") == 0 || strcmp(*list, backend) == 0) {
            return true;
        }
    }
    return false;
}

static bool takes_fast(const k3_profile_t *profile, const k3_path_rule_t *rule,
                       k3_path_choice_t choice)
{
    if (choice != K3_PATH_AUTO) {
        return choice == K3_PATH_FAST;
    }
    return profile->spans_ep && (rule->by_registry || listed(profile->backend, rule->fast));
}

k3_status_t k3_path_resolve(const k3_profile_t *profile, const k3_path_rule_t *rule,
                            k3_path_choice_t choice, unsigned attn_tp, k3_path_t *path,
                            k3_error_t *err)
{
    bool fast = takes_fast(profile, rule, choice);
    bool twice = !fast && profile->spans_ep && profile->combine_complete &&
                 listed(profile->backend, rule->reduced_again);

    if (fast && !profile->spans_ep) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: path fast needs a backend that spans the EP group, this one does not",
                       profile->name);
    }
    if (twice && choice != K3_PATH_FALLBACK) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "%s: combine is already complete, path rule %s would reduce it again "
                       "(--path fallback forces it, and the check then fails)",
                       profile->name, rule->name);
    }
    *path = (k3_path_t){
        .rule = rule,
        .fast = fast,
        .sp_moe = fast && attn_tp > 1,
        .all_rows = !fast && profile->spans_ep,
        .reduce_latent = !profile->combine_complete || twice,
        .reduced_twice = twice,
    };
    return K3_OK;
}
