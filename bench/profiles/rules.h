/* The rules of a profile one by one, so that a what-if can turn each of them into another backend's. */
#ifndef K3_PROFILES_RULES_H
#define K3_PROFILES_RULES_H

#include "bench/profiles/profile.h"

typedef enum k3_rule {
    K3_RULE_QPS,            /* how many, which one carries what */
    K3_RULE_POSTING,        /* doorbells */
    K3_RULE_LOCK,           /* a lock for each post, or posters of their own */
    K3_RULE_SIGNAL,         /* when, what, by which operation, of which size */
    K3_RULE_COPY,           /* for each expert, rank or node; slots; counts apart */
    K3_RULE_RECORD,         /* header, metadata, padding of a dispatched row */
    K3_RULE_COMBINE_STRIDE, /* metadata and room of a returned row */
    K3_RULE_COMPLETION,
    K3_RULE_BUFFER, /* how many alternate, size formula */
    K3_RULE_MASK_AT_SEND,
    K3_RULE_TIMEOUT, /* limit of a call and what follows */
    K3_RULE_COUNT
} k3_rule_t;

const char *k3_rule_name(k3_rule_t rule); /* "qps", "posting", ... */
const char *k3_rule_what(k3_rule_t rule); /* one line for people */

/* Turns `rule` of the profile into that of `to`; false: they are the same. */
bool k3_rule_turn(k3_rule_t rule, k3_profile_t *profile, const k3_profile_t *to);

#endif
