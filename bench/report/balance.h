/* How evenly the lanes of a cell were used. */
#ifndef K3_REPORT_BALANCE_H
#define K3_REPORT_BALANCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Lanes are looked at by phase; a measure is "PHASE.NAME", in words for people. */
typedef struct k3_balance_measure {
    const char *phase, *name; /* "dispatch", "busy_gini" */
    const char *text;         /* "Gini of the busy time of the lanes" */
    bool        timed;        /* varies from launch to launch; else it follows from the plan */
} k3_balance_measure_t;

extern const k3_balance_measure_t k3_balance_measures[];
extern const size_t               k3_balance_measure_count;

/* "dispatch.busy_gini"; `text` is returned. */
const char *k3_balance_name(const k3_balance_measure_t *measure, char *text, size_t size);

/* {measure: value} of a cell's lanes (`qps` of a record); empty where there are none, or not all were kept. */
json_t *k3_balance_of(const json_t *qps);

#endif
