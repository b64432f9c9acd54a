/* What a look at a machine found: one line each, with what to do where something will disturb a
 * measurement. Plain data, so that the findings of all hosts can be sent to one rank as they are. */
#ifndef K3_DOCTOR_FINDINGS_H
#define K3_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum k3_level {
    K3_LEVEL_OK,
    K3_LEVEL_WARN, /* figures will be worse, noisier or harder to compare */
    K3_LEVEL_BAD   /* runs will fail, or figures will mean something else than they say */
} k3_level_t;

extern const char *const k3_level_names[]; /* "ok", "warn", "bad" */

enum { K3_FINDING_NAME = 64, K3_FINDING_TEXT = 320 };

typedef struct k3_finding {
    char       topic[16];
    char       name[K3_FINDING_NAME]; /* unique in its topic */
    k3_level_t level;
    bool       varies; /* differs between equal hosts too (load, free memory) */
    char       value[K3_FINDING_TEXT];
    char       advice[K3_FINDING_TEXT]; /* empty when ok */
} k3_finding_t;

typedef struct k3_findings {
    k3_finding_t *items; /* owned */
    size_t        count, capacity;
    bool          out_of_memory;
} k3_findings_t;

/* Appends a line and returns it, to be judged by k3_advise; never NULL: where memory is short the line is
 * written to a spare one and lost, and the list says so. */
k3_finding_t *k3_find(k3_findings_t *findings, const char *topic, const char *name,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Raises the level; the advice of the highest level stays. */
void k3_advise(k3_finding_t *finding, k3_level_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

k3_level_t k3_findings_worst(const k3_findings_t *findings);
void       k3_findings_free(k3_findings_t *findings);

#endif
