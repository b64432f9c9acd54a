/* A history: a folder of records, one file for each launch, never rewritten. What gates and reports ask of
 * it stands in an SQLite index in the folder (index.sqlite), which holds nothing that the records do not
 * hold: it can be deleted and is made again.
 *
 * Whoever has a history open holds a lock on the file index.lock in its folder, so that two programs
 * take turns. Where the folder cannot be written the index is made in memory. */
#ifndef K3_RECORD_HISTORY_H
#define K3_RECORD_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "harness/base/status.h"
#include "harness/record/readers.h"

/* Files of the folder that are no records. */
#define K3_HISTORY_INDEX    "index.sqlite"
#define K3_HISTORY_LOCK     "index.lock"
#define K3_HISTORY_BASELINE "baseline.json"

typedef struct k3_history k3_history_t;

/* Waits up to `seconds` for the lock; then K3_ERR_ENV. */
k3_status_t k3_history_open(const char *folder, double seconds, k3_history_t **history_p,
                            k3_error_t *err);
void        k3_history_close(k3_history_t *history);
bool        k3_history_in_memory(const k3_history_t *history);

typedef struct k3_history_changes {
    size_t added, removed, kept; /* files */
    bool   rebuilt; /* asked for, or the index was missing, of another version or damaged */
} k3_history_changes_t;

/* Brings the index up to date with the folder: by name, size and time of change of each file. A file that
 * is no record is kept with its fault, and nothing fails.
 *
 * `read` makes of a record what the index keeps, {run, started, git_sha, machine, stable, how, cells:
 * [{key, state, us, routing, how}]}: state is "ok", "broken" or "none", started like "2026-01-31T12:00:00Z". */
k3_status_t k3_history_refresh(k3_history_t *history, bool rebuild, k3_reader_t read,
                               k3_history_changes_t *changes, k3_error_t *err);

/* --- questions; each answers with a new reference -------------------------------------------- */

/* Which launches and cells: of one machine, started at `until` or before. */
typedef struct k3_history_question {
    const char   *machine, *until;
    const char   *key, *routing; /* of one cell */
    const json_t *how;           /* launches that were measured differently are left out */
} k3_history_question_t;

/* [{file, fault}] of files that are no records, by name. */
k3_status_t k3_history_faults(k3_history_t *history, json_t **faults_p, k3_error_t *err);

/* Launches of the machine. */
k3_status_t k3_history_launches(k3_history_t *history, const k3_history_question_t *question,
                                size_t *count, k3_error_t *err);

/* Days (the first ten characters of `started`) with launches of the machine, at most `most`, the last
 * one first. */
k3_status_t k3_history_days(k3_history_t *history, const k3_history_question_t *question,
                            size_t most, json_t **days_p, k3_error_t *err);

/* [{us, run, started, git_sha}]: the last `most` launches that have the cell right, oldest first. A cell
 * that stands in a launch more than once counts once, with the median. Runs named in the object `without`
 * are left out. */
k3_status_t k3_history_series(k3_history_t *history, const k3_history_question_t *question,
                              size_t most, const json_t *without, json_t **points_p,
                              k3_error_t *err);

/* The shortest time of the cell, over all launches; NAN when there is none. */
k3_status_t k3_history_best(k3_history_t *history, const k3_history_question_t *question,
                            double *us, k3_error_t *err);

#endif
