/* Fast path or fallback, by the registry or by a historical rule.
 *
 * The registry's rule is one predicate: a backend that spans the EP group takes the fast path. The
 * historical rules are sglang's hand-written lists before a given fix, kept as data so that a user
 * can measure what the fix was worth. */
#ifndef K3_PROFILES_PATH_H
#define K3_PROFILES_PATH_H

#include <stdbool.h>

#include "bench/profiles/profile.h"

typedef struct k3_path_rule {
    const char        *name;
    const char        *what;          /* one line for `list paths` */
    bool               by_registry;   /* the lists below are not used */
    const char *const *fast;          /* backends on the list of fast ones, NULL-terminated */
    const char *const *reduced_again; /* whose complete combine was reduced once more; "*": all */
} k3_path_rule_t;

unsigned              k3_path_rule_count(void);
const k3_path_rule_t *k3_path_rule_at(unsigned i);
k3_status_t k3_path_rule_find(const char *name, const k3_path_rule_t **rule_p, k3_error_t *err);

typedef enum k3_path_choice { K3_PATH_AUTO, K3_PATH_FAST, K3_PATH_FALLBACK } k3_path_choice_t;
extern const char *const k3_path_choice_names[]; /* "auto", "fast", "fallback", NULL */

typedef struct k3_path {
    const k3_path_rule_t *rule;
    bool                  fast; /* each global row is dispatched once, by the rank that owns it */
    bool sp_moe;        /* reduce-scatter before and all-gather after: fast and attn_tp > 1 */
    bool all_rows;      /* a spanning backend on the fallback: every rank dispatches all rows */
    bool reduce_latent; /* the latent partial sums are reduced over tp (needed: not
                           combine_complete) */
    bool reduced_twice; /* ... although the combine was complete */
} k3_path_t;

/* Refused (K3_ERR_UNSUPPORTED): fast for a backend that does not span; a rule that reduces a
 * complete combine again, unless the fallback is asked for by name (then the check will find it).
 */
k3_status_t k3_path_resolve(const k3_profile_t *profile, const k3_path_rule_t *rule,
                            k3_path_choice_t choice, unsigned attn_tp, k3_path_t *path,
                            k3_error_t *err);

#endif
