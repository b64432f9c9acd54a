/* SQLite as the files of the history use it: statements, and its faults as ours. */
#include <stdarg.h>

#include "harness/record/history_internal.h"

k3_status_t k3_history_fail(k3_history_t *h, k3_error_t *err)
{
    int code = sqlite3_errcode(h->db) & 0xff;

    h->damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    return k3_fail(err, K3_ERR_IO, "%.300s: %s", h->index, sqlite3_errmsg(h->db));
}

k3_status_t k3_history_execute(k3_history_t *h, const char *sql, k3_error_t *err)
{
    return sqlite3_exec(h->db, sql, NULL, NULL, NULL) == SQLITE_OK ? K3_OK
                                                                   : k3_history_fail(h, err);
}

k3_status_t k3_history_prepare(k3_history_t *h, sqlite3_stmt **s, k3_error_t *err, const char *sql,
                               const char *types, ...)
{
    va_list values;
    int     code = sqlite3_prepare_v2(h->db, sql, -1, s, NULL);

    va_start(values, types);
    for (int i = 0; types[i] != '\0' && code == SQLITE_OK; i++) {
        code = types[i] == 't'
                   ? sqlite3_bind_text(*s, i + 1, va_arg(values, const char *), -1, SQLITE_STATIC)
                   : sqlite3_bind_int64(*s, i + 1, va_arg(values, sqlite3_int64));
    }
    va_end(values);
    return code == SQLITE_OK ? K3_OK : k3_history_fail(h, err);
}

bool k3_history_step(k3_history_t *h, sqlite3_stmt *s, k3_error_t *err)
{
    int code = err->status == K3_OK ? sqlite3_step(s) : SQLITE_DONE;

    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        k3_history_fail(h, err);
    }
    return code == SQLITE_ROW;
}
