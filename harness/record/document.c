#define _GNU_SOURCE /* O_TMPFILE */

#include "harness/record/document.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/record/json_values.h"
#include "harness/record/run_id.h"

#define READ_LIMIT ((uint64_t)1 << 30)
#define DUMP_FLAGS (JSON_INDENT(1) | JSON_REAL_PRECISION(K3_JSON_DIGITS))

/* --- writing --------------------------------------------------------------------------------- */

static k3_status_t fail_io(const char *path, const char *what, k3_error_t *err)
{
    return k3_fail(err, K3_ERR_IO, "%.300s: %s: %s", path, what, strerror(errno));
}

static k3_status_t refuse_existing(const char *path, k3_error_t *err)
{
    return k3_fail(err, K3_ERR_IO,
                   "%.300s: exists already and is never replaced; name another file or remove it",
                   path);
}

static k3_status_t check_absent(const char *path, k3_error_t *err)
{
    struct stat facts;

    if (path[0] == '\0' || path[strlen(path) - 1] == '/') {
        return k3_fail(err, K3_ERR_IO, "'%.300s': names no file", path);
    }
    if (lstat(path, &facts) == 0) {
        return refuse_existing(path, err);
    }
    return errno == ENOENT ? K3_OK : fail_io(path, "cannot be written", err);
}

/* Length of "folder/" in front of the last part of the path; 0 for the current folder. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* Creates a new file beside `path`, with a name of its own length so that a long path stays legal.
 */
static int open_temporary(const char *path, char temporary[PATH_MAX])
{
    char id[17];
    int  length;

    k3_run_id(id);
    length =
        snprintf(temporary, PATH_MAX, "%.*s.k3bench-%s.tmp", (int)folder_length(path), path, id);
    if (length < 0 || length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

/* Closes `file` in any case. */
static k3_status_t fill_and_close(k3_file_fill_t fill, const void *arg, FILE *file,
                                  const char *path, k3_error_t *err)
{
    k3_status_t status = K3_OK;

    if (fill(file, arg) != 0 || ferror(file) != 0 || fflush(file) != 0 ||
        fsync(fileno(file)) != 0) {
        status = fail_io(path, "writing failed", err);
    }
    if (fclose(file) != 0 && status == K3_OK) {
        status = fail_io(path, "closing failed", err);
    }
    return status;
}

/* Gives the finished file its name without replacing anything. A few file systems know no hard
 * links; there the name is claimed by an empty file, which the rename then replaces: the record is
 * still never torn, but a crash between the two calls leaves the empty file. */
static k3_status_t publish(const char *temporary, const char *path, k3_error_t *err)
{
    if (link(temporary, path) == 0) {
        return K3_OK;
    }
    if (errno == EEXIST) {
        return refuse_existing(path, err);
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK) {
        return fail_io(path, "cannot be created", err);
    }

    int claim = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    if (claim < 0) {
        return errno == EEXIST ? refuse_existing(path, err)
                               : fail_io(path, "cannot be created", err);
    }
    (void)close(claim);
    if (rename(temporary, path) != 0) {
        k3_status_t status = fail_io(path, "cannot be created", err);

        (void)unlink(path);
        return status;
    }
    return K3_OK;
}

static void folder_of(const char *path, char folder[PATH_MAX])
{
    size_t length = folder_length(path);

    (void)snprintf(folder, PATH_MAX, "%.*s", length == 0 ? 1 : (int)length,
                   length == 0 ? "." : path);
}

/* Makes the new name durable; not every file system can, and the data are safe already. */
static void sync_folder(const char *path)
{
    char folder[PATH_MAX];

    folder_of(path, folder);

    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
}

static k3_status_t write_stdout(k3_file_fill_t fill, const void *arg, k3_error_t *err)
{
    if (fill(stdout, arg) != 0 || ferror(stdout) != 0 || fflush(stdout) != 0) {
        return fail_io("standard output", "writing failed", err);
    }
    return K3_OK;
}

static k3_status_t replace(const char *temporary, const char *path, k3_error_t *err)
{
    return rename(temporary, path) == 0 ? K3_OK : fail_io(path, "cannot be replaced", err);
}

typedef k3_status_t (*name_it_t)(const char *temporary, const char *path, k3_error_t *err);

static k3_status_t write_and_name(const char *path, k3_file_fill_t fill, const void *arg,
                                  name_it_t name_it, k3_error_t *err)
{
    char        temporary[PATH_MAX];
    k3_status_t status;
    int         fd = open_temporary(path, temporary);

    if (fd < 0) {
        return fail_io(path, "its folder cannot be written", err);
    }

    FILE *file = fdopen(fd, "w");

    if (file == NULL) {
        status = fail_io(path, "cannot be written", err);
        (void)close(fd);
    } else {
        status = fill_and_close(fill, arg, file, path, err);
    }
    if (status == K3_OK) {
        status = name_it(temporary, path, err);
    }
    (void)unlink(temporary);
    if (status == K3_OK) {
        sync_folder(path);
    }
    return status;
}

/* A file without a name until it is whole: even a kill in the middle leaves nothing. False: this file
 * system has none such, nothing was done. */
static bool write_nameless(const char *path, k3_file_fill_t fill, const void *arg, k3_error_t *err)
{
    char  folder[PATH_MAX], self[32];
    FILE *file;
    bool  done = false;
    int   fd;

    folder_of(path, folder);
    fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0 || (file = fdopen(fd, "w")) == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return false;
    }
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    if (fill(file, arg) != 0 || ferror(file) != 0 || fflush(file) != 0 || fsync(fd) != 0) {
        (void)fail_io(path, "writing failed", err);
        done = true;
    } else if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0) {
        done = true;
    } else if (errno == EEXIST) {
        (void)refuse_existing(path, err);
        done = true;
    }
    (void)fclose(file);
    return done;
}

k3_status_t k3_file_write(const char *path, k3_file_fill_t fill, const void *arg, k3_error_t *err)
{
    if (strcmp(path, "-") == 0) {
        return write_stdout(fill, arg, err);
    }

    k3_status_t status = check_absent(path, err);

    if (status == K3_OK && !write_nameless(path, fill, arg, err)) {
        return write_and_name(path, fill, arg, publish, err);
    }
    if (err->status == K3_OK) {
        sync_folder(path);
    }
    return err->status;
}

static int fill_json(FILE *file, const void *arg)
{
    return json_dumpf(arg, file, DUMP_FLAGS) != 0 || fputc('\n', file) == EOF ? -1 : 0;
}

k3_status_t k3_document_write(const json_t *document, const char *path, k3_error_t *err)
{
    return k3_file_write(path, fill_json, document, err);
}

k3_status_t k3_file_replace(const char *path, k3_file_fill_t fill, const void *arg, k3_error_t *err)
{
    return write_and_name(path, fill, arg, replace, err);
}

k3_status_t k3_document_replace(const json_t *document, const char *path, k3_error_t *err)
{
    return write_and_name(path, fill_json, document, replace, err);
}

k3_status_t k3_document_check_path(const char *path, k3_error_t *err)
{
    char        temporary[PATH_MAX];
    k3_status_t status;

    if (strcmp(path, "-") == 0) {
        return K3_OK;
    }
    status = check_absent(path, err);
    if (status != K3_OK) {
        return status;
    }

    int fd = open_temporary(path, temporary);

    if (fd < 0) {
        return fail_io(path, "its folder cannot be written", err);
    }
    (void)close(fd);
    (void)unlink(temporary);
    return K3_OK;
}

/* --- reading --------------------------------------------------------------------------------- */

typedef struct source {
    int      fd;
    uint64_t bytes; /* handed to jansson so far */
    int      error; /* errno of a failed read; jansson itself takes a failure for the end */
    bool     too_big;
} source_t;

static size_t read_more(void *buffer, size_t room, void *data)
{
    source_t *source = data;
    ssize_t   count;

    do {
        count = read(source->fd, buffer, room);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        source->error = errno;
        return 0;
    }
    source->bytes += (uint64_t)count;
    if (source->bytes > READ_LIMIT) {
        source->too_big = true;
        return 0;
    }
    return (size_t)count;
}

static k3_status_t load(int fd, const char *path, json_t **document_p, k3_error_t *err)
{
    source_t     source = {.fd = fd};
    struct stat  facts;
    json_error_t fault;
    json_t      *document = NULL;

    /* A size known beforehand spares parsing a gigabyte in vain; pipes are stopped while reading.
     */
    source.too_big =
        fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && (uint64_t)facts.st_size > READ_LIMIT;
    if (!source.too_big) {
        document = json_load_callback(read_more, &source, JSON_REJECT_DUPLICATES, &fault);
    }
    if (document != NULL && source.error == 0 && !source.too_big) {
        *document_p = document;
        return K3_OK;
    }
    json_decref(document);
    if (source.too_big) {
        return k3_fail(err, K3_ERR_IO, "%.300s: more than %" PRIu64 " bytes", path, READ_LIMIT);
    }
    if (source.error != 0) {
        errno = source.error;
        return fail_io(path, "cannot be read", err);
    }
    return k3_fail(err, K3_ERR_IO, "%.300s:%d:%d: %s", path, fault.line, fault.column, fault.text);
}

k3_status_t k3_document_read(const char *path, json_t **document_p, k3_error_t *err)
{
    *document_p = NULL;

    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return fail_io(path, "cannot be read", err);
    }

    k3_status_t status = load(fd, path, document_p, err);

    (void)close(fd);
    return status;
}
