/* What the files of the history share. */
#ifndef K3_RECORD_HISTORY_INTERNAL_H
#define K3_RECORD_HISTORY_INTERNAL_H

#include <limits.h>
#include <sqlite3.h>

#include "harness/record/history.h"

struct k3_history {
    char     folder[PATH_MAX];
    char     index[PATH_MAX]; /* of SQLite: a path, or ":memory:" */
    sqlite3 *db;
    int      lock;    /* -1 where the folder cannot be written */
    bool     damaged; /* the last fault was that the index is no index */
};

/* Describes the last fault of SQLite. */
k3_status_t k3_history_fail(k3_history_t *h, k3_error_t *err);

k3_status_t k3_history_execute(k3_history_t *h, const char *sql, k3_error_t *err);

/* Prepares a statement and binds a text for each `t`, a whole number for each `i` of `types`. */
k3_status_t k3_history_prepare(k3_history_t *h, sqlite3_stmt **s, k3_error_t *err, const char *sql,
                               const char *types, ...);

/* One row: true. The end or a fault: false. */
bool k3_history_step(k3_history_t *h, sqlite3_stmt *s, k3_error_t *err);

/* Takes in the files that came, and forgets those that went; within a transaction. */
k3_status_t k3_history_update(k3_history_t *h, k3_reader_t read, k3_history_changes_t *changes,
                              k3_error_t *err);

#endif
