/* Which cells of two sets belong together though their keys differ, and how cells of one backend are told apart. */
#ifndef K3_REPORT_PAIRING_H
#define K3_REPORT_PAIRING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Sides as k3_side_add makes them. Of the cells that only one side has: base key -> new key where both did the same work
 * (or are of another component each) and differ in nothing but options in which all such cells of their backend agree on
 * each side. The caller frees it. */
json_t *k3_pair_options(const json_t *base, const json_t *fresh);

/* "mooncake", or "mooncake (p2p off)" where the side has other cells of this backend, of the same work or (any_work) of any:
 * with what tells it from them. */
const char *k3_pair_label(const json_t *side, const char *key, bool any_work, char *text,
                          size_t size);

#endif
