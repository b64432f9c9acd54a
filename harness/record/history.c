#include "harness/record/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness/base/memory.h"
#include "harness/record/history_internal.h"

/* --- opening --------------------------------------------------------------------------------- */

/* Another number than this: the index is made again. */
enum { VERSION = 2 };

static const char schema[] =
    "CREATE TABLE file(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size INTEGER NOT NULL,"
    " changed INTEGER NOT NULL, fault TEXT);"
    "CREATE TABLE machine(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, stable TEXT NOT NULL);"
    "CREATE TABLE cell(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);"
    "CREATE TABLE how(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);"
    "CREATE TABLE launch(file INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE,"
    " machine INTEGER NOT NULL, started TEXT NOT NULL, git_sha TEXT NOT NULL);"
    "CREATE INDEX launch_order ON launch(machine, started, run);"
    "CREATE TABLE result(file INTEGER, cell INTEGER, attempt INTEGER, state TEXT NOT NULL, us REAL,"
    " routing TEXT NOT NULL, how INTEGER NOT NULL, PRIMARY KEY(file, cell, attempt)) WITHOUT ROWID;"
    "PRAGMA user_version = 2;";

static k3_status_t take_lock(k3_history_t *h, double seconds, k3_error_t *err)
{
    char            path[PATH_MAX];
    struct timespec pause = {.tv_nsec = 20000000};

    (void)snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX - 32, h->folder, K3_HISTORY_LOCK);
    h->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (h->lock < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
        return K3_OK;
    }
    if (h->lock < 0) {
        return k3_fail(err, K3_ERR_IO, "%.300s: cannot be made: %s", path, strerror(errno));
    }
    for (double waited = 0.0; flock(h->lock, LOCK_EX | LOCK_NB) != 0; waited += 0.02) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return k3_fail(err, K3_ERR_ENV, "%.300s: cannot be locked: %s", path, strerror(errno));
        }
        if (waited >= seconds) {
            return k3_fail(err, K3_ERR_ENV,
                           "%.300s: another k3bench has held the history for %g s; try later, or "
                           "wait longer (--timeout)",
                           path, seconds);
        }
        nanosleep(&pause, NULL);
    }
    return K3_OK;
}

k3_status_t k3_history_open(const char *folder, double seconds, k3_history_t **history_p,
                            k3_error_t *err)
{
    struct stat   facts;
    k3_history_t *h = NULL;

    *history_p = NULL;
    if (stat(folder, &facts) != 0) {
        return k3_fail(
            err, K3_ERR_IO,
            "history %.300s: %s; it is a folder of records, one file a launch (mkdir it)", folder,
            strerror(errno));
    }
    if (!S_ISDIR(facts.st_mode)) {
        return k3_fail(err, K3_ERR_IO, "history %.300s: it is no folder", folder);
    }
    if (k3_alloc("history", 1, sizeof(*h), &h, err) != K3_OK) {
        return err->status;
    }
    h->lock = -1;
    if (snprintf(h->folder, sizeof(h->folder), "%s", folder) >= (int)sizeof(h->folder) - 32) {
        k3_fail(err, K3_ERR_USAGE, "history: the path is too long");
    } else if (take_lock(h, seconds, err) == K3_OK && h->lock >= 0) {
        (void)snprintf(h->index, sizeof(h->index), "%.*s/%s", PATH_MAX - 32, folder,
                       K3_HISTORY_INDEX);
    } else {
        (void)snprintf(h->index, sizeof(h->index), ":memory:");
    }
    if (err->status != K3_OK) {
        k3_history_close(h);
        return err->status;
    }
    *history_p = h;
    return K3_OK;
}

static void close_index(k3_history_t *h)
{
    sqlite3_close(h->db);
    h->db = NULL;
}

void k3_history_close(k3_history_t *h)
{
    if (h == NULL) {
        return;
    }
    close_index(h);
    if (h->lock >= 0) {
        (void)close(h->lock); /* and with it the lock */
    }
    k3_free(h);
}

bool k3_history_in_memory(const k3_history_t *h)
{
    return h->lock < 0;
}

static void remove_index(const k3_history_t *h)
{
    char journal[PATH_MAX + 16];

    if (h->lock >= 0) {
        (void)snprintf(journal, sizeof(journal), "%s-journal", h->index);
        (void)unlink(h->index);
        (void)unlink(journal);
    }
}

static int version_of(k3_history_t *h, k3_error_t *err)
{
    sqlite3_stmt *s = NULL;
    int           version = -1;

    if (k3_history_prepare(h, &s, err, "PRAGMA user_version", "") == K3_OK &&
        k3_history_step(h, s, err)) {
        version = sqlite3_column_int(s, 0);
    }
    sqlite3_finalize(s);
    return version;
}

/* The index as it is, or a new one: *made. */
static k3_status_t open_index(k3_history_t *h, bool *made, k3_error_t *err)
{
    close_index(h);
    if (sqlite3_open(h->index, &h->db) != SQLITE_OK) {
        return k3_history_fail(h, err);
    }
    sqlite3_busy_timeout(h->db, 10000); /* of programs that read it without the lock */
    *made = version_of(h, err) != VERSION;
    if (err->status == K3_OK && *made) {
        close_index(h);
        remove_index(h);
        if (sqlite3_open(h->index, &h->db) != SQLITE_OK) {
            return k3_history_fail(h, err);
        }
        k3_history_execute(h, schema, err);
    }
    return err->status;
}

/* --- bringing it up to date ------------------------------------------------------------------ */

typedef struct refresh {
    k3_history_t *h;
    k3_reader_t   read;
    bool          rebuild;
} refresh_t;

static k3_status_t update(const refresh_t *r, k3_history_changes_t *changes, k3_error_t *err)
{
    k3_history_t *h = r->h;

    *changes = (k3_history_changes_t){0};
    if (r->rebuild) {
        remove_index(h);
    }
    if (open_index(h, &changes->rebuilt, err) != K3_OK ||
        k3_history_execute(h, "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE", err) != K3_OK) {
        return err->status;
    }
    if (k3_history_update(h, r->read, changes, err) == K3_OK) {
        k3_history_execute(h, "COMMIT", err);
    }
    if (err->status != K3_OK) {
        sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return err->status;
}

k3_status_t k3_history_refresh(k3_history_t *h, bool rebuild, k3_reader_t read,
                               k3_history_changes_t *changes, k3_error_t *err)
{
    refresh_t r = {h, read, rebuild};

    h->damaged = false;
    if (update(&r, changes, err) != K3_OK && h->damaged && !rebuild) {
        k3_error_clear(err);
        r.rebuild = true;
        update(&r, changes, err);
    }
    return err->status;
}
