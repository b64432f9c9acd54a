/* The journal of a sweep: JSON lines that are appended and synced one by one, never rewritten. What it says has
 * happened whatever ended the program; a torn last line is cut off, a line that is none of ours is left out with
 * a warning and costs a repetition at most. */
#ifndef K3_SWEEP_JOURNAL_H
#define K3_SWEEP_JOURNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "harness/base/status.h"

typedef enum k3_launch_state {
    K3_LAUNCH_NONE,     /* never ended */
    K3_LAUNCH_DONE,     /* its record is good */
    K3_LAUNCH_FAILED,   /* no record, or a part of one */
    K3_LAUNCH_REJECTED, /* its record is not of what was asked for */
    K3_LAUNCH_ASIDE     /* its record was set aside: the sweep no longer asks for it */
} k3_launch_state_t;
extern const char *const k3_launch_state_names[]; /* "none", "done", ..., NULL at the end */

/* What the journal knows of a launch. */
typedef struct k3_launch_past {
    k3_launch_state_t state;
    uint64_t          attempts; /* begun */
    double            seconds;  /* of the one that ended last; NAN: none did */
    bool              wrong;    /* done, but a cell failed or its check */
    const char       *carried;  /* transports of its record; lives as long as the journal */
} k3_launch_past_t;

typedef struct k3_journal {
    int     fd; /* -1: only read */
    off_t   length;
    json_t *launches; /* id -> {attempts, state, seconds, wrong, carried} */
    size_t  lines, strange;
} k3_journal_t;

/* Opens or makes the file at `path`; `write`: to append. A journal that is not there is empty. */
k3_status_t k3_journal_open(const char *path, bool write, k3_journal_t *journal, k3_error_t *err);
void        k3_journal_close(k3_journal_t *journal);

void k3_journal_past(const k3_journal_t *journal, const char *id, k3_launch_past_t *past);

/* All launches that it names: id -> {attempts, state, ...}; to be looked at only. */
json_t *k3_journal_launches(const k3_journal_t *journal);

/* Appends and syncs. On a full disk nothing of the line stays. */
k3_status_t k3_journal_begin(k3_journal_t *journal, const char *id, uint64_t attempt,
                             k3_error_t *err);

typedef struct k3_launch_end {
    const char       *id;
    k3_launch_state_t state;
    uint64_t          attempt;
    double            seconds; /* NAN: not known */
    const char       *how;     /* "exit 0", "signal 9", ...; NULL: not known */
    const char       *reason;  /* NULL where it is done */
    const char       *carried;
    const char       *record; /* where it is; NULL: there is none */
    bool              wrong;
} k3_launch_end_t;
k3_status_t k3_journal_end(k3_journal_t *journal, const k3_launch_end_t *end, k3_error_t *err);

/* Takes lines of text[length] as the file holds them; returns how many bytes end with a whole line. */
size_t k3_journal_read(k3_journal_t *journal, const char *text, size_t length);

#endif
