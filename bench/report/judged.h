/* Verdicts, sides and machines as members of a document; shared by comparisons and gates. */
#ifndef K3_REPORT_JUDGED_H
#define K3_REPORT_JUDGED_H

#include <jansson.h>

#include "harness/record/verdict.h"

/* {launches, median_us}; null without values. */
json_t *k3_judged_side(const json_t *values, double median);

/* Shift, interval and floor in percent of the base, in us where a time is 0; p, alone and after Holm over `family`. */
void k3_judged_shift(json_t *row, const k3_judged_t *judged);

/* `reason` and `launches_needed`: null unless the verdict is `inconclusive`. */
void k3_judged_reason(json_t *row, const k3_judged_t *judged);

/* `note`: where the columns' medians and the shift differ in sign, what that means; else null. */
void k3_judged_note(json_t *row, const k3_judged_t *judged);

/* Takes the numbers of two lists, which item->a and item->b then point to. The caller frees *values_p. */
k3_status_t k3_judged_take(const json_t *base, const json_t *fresh, k3_judged_t *item,
                           double **values_p, k3_error_t *err);

/* "machines differ in cores: 2 and 4": the first stable fact that differs. */
void k3_machines_differ(const json_t *stable_a, const json_t *stable_b, char *text, size_t size);

#endif
