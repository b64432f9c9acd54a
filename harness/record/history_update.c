/* The folder against the index: files that came, went or changed. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/base/memory.h"
#include "harness/record/history_internal.h"

/* --- the folder ------------------------------------------------------------------------------ */

typedef struct found {
    char   *name; /* owned by the list of scandir */
    int64_t size, changed;
} found_t;

typedef struct folder {
    struct dirent **entries;
    int             entry_count;
    found_t        *files;
    size_t          count;
    const char    **missing; /* names of files that the index does not know: views */
    size_t         *missing_at;
    size_t          missing_count;
} folder_t;

static int is_record(const struct dirent *entry)
{
    const char *ending = strrchr(entry->d_name, '.');

    return entry->d_name[0] != '.' && ending != NULL && strcmp(ending, ".json") == 0 &&
           strcmp(entry->d_name, K3_HISTORY_BASELINE) != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static k3_status_t scan(const k3_history_t *h, folder_t *f, k3_error_t *err)
{
    char path[PATH_MAX + 300];

    f->entry_count = scandir(h->folder, &f->entries, is_record, by_name);
    if (f->entry_count < 0) {
        return k3_fail(err, K3_ERR_IO, "history %.300s: cannot be read: %s", h->folder,
                       strerror(errno));
    }
    if (k3_alloc("files", (uint64_t)f->entry_count, sizeof(*f->files), &f->files, err) != K3_OK ||
        k3_alloc("files", (uint64_t)f->entry_count, sizeof(char *), &f->missing, err) != K3_OK ||
        k3_alloc("files", (uint64_t)f->entry_count, sizeof(size_t), &f->missing_at, err) != K3_OK) {
        return err->status;
    }
    for (int i = 0; i < f->entry_count; i++) {
        struct stat facts;

        (void)snprintf(path, sizeof(path), "%s/%s", h->folder, f->entries[i]->d_name);
        if (stat(path, &facts) == 0 && S_ISREG(facts.st_mode)) {
            f->files[f->count++] =
                (found_t){f->entries[i]->d_name, facts.st_size,
                          (int64_t)facts.st_mtim.tv_sec * 1000000000 + facts.st_mtim.tv_nsec};
        }
    }
    return K3_OK;
}

static void free_folder(folder_t *f)
{
    for (int i = 0; i < f->entry_count; i++) {
        free(f->entries[i]);
    }
    free(f->entries);
    k3_free(f->missing_at);
    k3_free(f->missing);
    k3_free(f->files);
}

/* --- what went ------------------------------------------------------------------------------- */

static void mark_missing(folder_t *f, size_t i)
{
    f->missing[f->missing_count] = f->files[i].name;
    f->missing_at[f->missing_count++] = i;
}

/* Both lists are in the order of the bytes of their names. Files with a fault are read again: the fault
 * may lie in another file (two files with one launch). Ids of rows to be removed go to `gone`. */
static k3_status_t match(k3_history_t *h, folder_t *f, json_t *gone, k3_history_changes_t *changes,
                         k3_error_t *err)
{
    sqlite3_stmt *s = NULL;
    size_t        i = 0;

    k3_history_prepare(h, &s, err,
                       "SELECT id, name, size, changed, fault IS NULL FROM file ORDER BY name", "");
    while (k3_history_step(h, s, err)) {
        const char *name = (const char *)sqlite3_column_text(s, 1);
        bool        there;

        while (i < f->count && strcmp(f->files[i].name, name) < 0) {
            mark_missing(f, i++);
        }
        there = i < f->count && strcmp(f->files[i].name, name) == 0;
        if (there && f->files[i].size == sqlite3_column_int64(s, 2) &&
            f->files[i].changed == sqlite3_column_int64(s, 3) && sqlite3_column_int(s, 4) != 0) {
            i++;
            changes->kept++;
            continue;
        }
        changes->removed += !there;
        json_array_append_new(gone, json_integer(sqlite3_column_int64(s, 0)));
        if (there) {
            mark_missing(f, i++);
        }
    }
    sqlite3_finalize(s);
    while (i < f->count) {
        mark_missing(f, i++);
    }
    return err->status;
}

static k3_status_t run_once(k3_history_t *h, const char *sql, sqlite3_int64 id, k3_error_t *err)
{
    sqlite3_stmt *s = NULL;

    if (k3_history_prepare(h, &s, err, sql, "i", id) == K3_OK) {
        k3_history_step(h, s, err);
    }
    sqlite3_finalize(s);
    return err->status;
}

static k3_status_t forget(k3_history_t *h, const json_t *gone, k3_error_t *err)
{
    for (size_t i = 0; i < json_array_size(gone) && err->status == K3_OK; i++) {
        sqlite3_int64 id = json_integer_value(json_array_get(gone, i));

        run_once(h, "DELETE FROM result WHERE file = ?", id, err);
        run_once(h, "DELETE FROM launch WHERE file = ?", id, err);
        run_once(h, "DELETE FROM file WHERE id = ?", id, err);
    }
    return err->status;
}

/* --- what came ------------------------------------------------------------------------------- */

typedef struct adding {
    k3_history_t         *h;
    const folder_t       *folder;
    k3_history_changes_t *changes;
    json_t               *cells, *hows; /* key -> id */
    sqlite3_stmt         *file, *result;
} adding_t;

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text != NULL ? text : "";
}

/* The id of a name in one of the tables (id, key, ...). */
static sqlite3_int64 id_of(k3_history_t *h, const char *insert, const char *select, const char *key,
                           const char *more, k3_error_t *err)
{
    sqlite3_stmt *s = NULL;
    sqlite3_int64 id = 0;

    k3_history_prepare(h, &s, err, insert, more != NULL ? "tt" : "t", key, more);
    k3_history_step(h, s, err);
    sqlite3_finalize(s);
    s = NULL;
    k3_history_prepare(h, &s, err, select, "t", key);
    if (k3_history_step(h, s, err)) {
        id = sqlite3_column_int64(s, 0);
    }
    sqlite3_finalize(s);
    return id;
}

static sqlite3_int64 cell_id(adding_t *a, const char *key, k3_error_t *err)
{
    json_t       *known = json_object_get(a->cells, key);
    sqlite3_int64 id;

    if (known != NULL) {
        return json_integer_value(known);
    }
    id = id_of(a->h, "INSERT OR IGNORE INTO cell(key) VALUES(?)",
               "SELECT id FROM cell WHERE key = ?", key, NULL, err);
    json_object_set_new(a->cells, key, json_integer(id));
    return id;
}

/* How the launch and the cell were measured, as one text. */
static sqlite3_int64 how_id(adding_t *a, const json_t *facts, const json_t *cell, k3_error_t *err)
{
    json_t       *how = json_object(), *known;
    sqlite3_int64 id = 0;
    char         *text;

    json_object_update(how, json_object_get(facts, "how"));
    json_object_update(how, json_object_get(cell, "how"));
    text = json_dumps(how, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(how);
    if (text == NULL) {
        k3_fail(err, K3_ERR_ENV, "memory is short");
        return 0;
    }
    known = json_object_get(a->hows, text);
    id = json_integer_value(known);
    if (known == NULL) {
        id = id_of(a->h, "INSERT OR IGNORE INTO how(key) VALUES(?)",
                   "SELECT id FROM how WHERE key = ?", text, NULL, err);
        json_object_set_new(a->hows, text, json_integer(id));
    }
    free(text);
    return id;
}

static k3_status_t add_file(adding_t *a, const found_t *f, const char *fault, k3_error_t *err)
{
    sqlite3_reset(a->file);
    sqlite3_bind_text(a->file, 1, f->name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(a->file, 2, f->size);
    sqlite3_bind_int64(a->file, 3, f->changed);
    sqlite3_bind_text(a->file, 4, fault, -1, SQLITE_STATIC);
    k3_history_step(a->h, a->file, err);
    return err->status;
}

/* The attempts of a cell in one launch are numbered: each stays a row. */
static k3_status_t add_results(adding_t *a, sqlite3_int64 file, const json_t *facts,
                               k3_error_t *err)
{
    const json_t *cells = json_object_get(facts, "cells"), *cell;
    size_t        i;

    json_array_foreach(cells, i, cell)
    {
        const json_t *us = json_object_get(cell, "us");

        sqlite3_reset(a->result);
        sqlite3_bind_int64(a->result, 1, file);
        sqlite3_bind_int64(a->result, 2, cell_id(a, text_of(cell, "key"), err));
        sqlite3_bind_int64(a->result, 3, (sqlite3_int64)i);
        sqlite3_bind_text(a->result, 4, text_of(cell, "state"), -1, SQLITE_STATIC);
        if (json_is_number(us)) {
            sqlite3_bind_double(a->result, 5, json_number_value(us));
        } else {
            sqlite3_bind_null(a->result, 5);
        }
        sqlite3_bind_text(a->result, 6, text_of(cell, "routing"), -1, SQLITE_STATIC);
        sqlite3_bind_int64(a->result, 7, how_id(a, facts, cell, err));
        k3_history_step(a->h, a->result, err);
        if (err->status != K3_OK) {
            break;
        }
    }
    return err->status;
}

static k3_status_t add_launch(adding_t *a, sqlite3_int64 file, const json_t *facts, k3_error_t *err)
{
    sqlite3_stmt *s = NULL;
    char *stable = json_dumps(json_object_get(facts, "stable"), JSON_COMPACT | JSON_ENCODE_ANY);
    sqlite3_int64 machine =
        id_of(a->h, "INSERT OR IGNORE INTO machine(key, stable) VALUES(?, ?)",
              "SELECT id FROM machine WHERE key = ?", text_of(facts, "machine"), stable, err);

    free(stable);
    if (k3_history_prepare(a->h, &s, err, "INSERT INTO launch VALUES(?, ?, ?, ?, ?)", "ititt", file,
                           text_of(facts, "run"), machine, text_of(facts, "started"),
                           text_of(facts, "git_sha")) == K3_OK) {
        k3_history_step(a->h, s, err);
    }
    sqlite3_finalize(s);
    return err->status;
}

/* Where a launch stands already: copies of a record do not count twice. */
static bool known_launch(adding_t *a, const char *run, char *fault, size_t size, k3_error_t *err)
{
    sqlite3_stmt *s = NULL;
    bool          known;

    k3_history_prepare(a->h, &s, err,
                       "SELECT name FROM launch JOIN file ON file.id = launch.file WHERE run = ?",
                       "t", run);
    known = k3_history_step(a->h, s, err);
    if (known) {
        (void)snprintf(fault, size, "run %.64s is already in %.200s", run,
                       (const char *)sqlite3_column_text(s, 0));
    }
    sqlite3_finalize(s);
    return known;
}

static k3_status_t take(void *arg, size_t i, const json_t *facts, const k3_error_t *why,
                        k3_error_t *err)
{
    adding_t      *a = arg;
    const char    *fault = facts == NULL ? why->text : NULL;
    const found_t *f = &a->folder->files[a->folder->missing_at[i]];
    char           twice[300];
    sqlite3_int64  file;

    if (facts != NULL && known_launch(a, text_of(facts, "run"), twice, sizeof(twice), err)) {
        fault = twice;
    }
    if (add_file(a, f, fault, err) != K3_OK || fault != NULL) {
        return err->status;
    }
    a->changes->added++;
    file = sqlite3_last_insert_rowid(a->h->db);
    if (add_launch(a, file, facts, err) == K3_OK) {
        add_results(a, file, facts, err);
    }
    return err->status;
}

static k3_status_t add_missing(k3_history_t *h, const folder_t *f, k3_reader_t read,
                               k3_history_changes_t *changes, k3_error_t *err)
{
    adding_t a = {
        .h = h, .folder = f, .changes = changes, .cells = json_object(), .hows = json_object()};

    if (k3_history_prepare(h, &a.file, err,
                           "INSERT INTO file(name, size, changed, fault) VALUES(?, ?, ?, ?)",
                           "") == K3_OK &&
        k3_history_prepare(h, &a.result, err, "INSERT INTO result VALUES(?, ?, ?, ?, ?, ?, ?)",
                           "") == K3_OK) {
        k3_read_each(h->folder, f->missing, f->missing_count, read, take, &a, err);
    }
    sqlite3_finalize(a.result);
    sqlite3_finalize(a.file);
    json_decref(a.hows);
    json_decref(a.cells);
    return err->status;
}

k3_status_t k3_history_update(k3_history_t *h, k3_reader_t read, k3_history_changes_t *changes,
                              k3_error_t *err)
{
    folder_t f = {0};
    json_t  *gone = json_array();

    if (scan(h, &f, err) == K3_OK && match(h, &f, gone, changes, err) == K3_OK &&
        forget(h, gone, err) == K3_OK) {
        add_missing(h, &f, read, changes, err);
    }
    json_decref(gone);
    free_folder(&f);
    return err->status;
}
