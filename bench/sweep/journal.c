#include "bench/sweep/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/base/log.h"
#include "harness/record/fingerprint.h"
#include "harness/record/json_values.h"

#define JOURNAL_MAX_BYTES ((off_t)1 << 30)

enum { ATTEMPTS_MAX = 1000000 };

const char *const k3_launch_state_names[] = {"none", "done", "failed", "rejected", "aside", NULL};

/* --- what it says ---------------------------------------------------------------------------- */

static json_t *launch_of(k3_journal_t *journal, const char *id)
{
    json_t *launch = json_object_get(journal->launches, id);

    if (launch == NULL) {
        launch = json_pack("{s:i, s:i}", "attempts", 0, "state", K3_LAUNCH_NONE);
        (void)json_object_set_new(journal->launches, id, launch);
    }
    return launch;
}

static void note_begin(k3_journal_t *journal, const char *id, json_int_t attempt)
{
    json_t *launch = launch_of(journal, id);

    if (attempt > json_integer_value(json_object_get(launch, "attempts"))) {
        (void)json_object_set_new(launch, "attempts", json_integer(attempt));
    }
}

static void note_end(k3_journal_t *journal, const char *id, k3_launch_state_t state,
                     const json_t *line)
{
    static const char *const kept[] = {"seconds", "wrong", "carried", NULL};
    json_t                  *launch = launch_of(journal, id);

    (void)json_object_set_new(launch, "state", json_integer(state));
    for (size_t i = 0; kept[i] != NULL; i++) {
        json_t *value = json_object_get(line, kept[i]);

        if (value != NULL && !json_is_null(value)) {
            (void)json_object_set(launch, kept[i], value);
        }
    }
}

static bool find_state(const char *name, k3_launch_state_t *state)
{
    for (int i = K3_LAUNCH_DONE; name != NULL && k3_launch_state_names[i] != NULL; i++) {
        if (strcmp(k3_launch_state_names[i], name) == 0) {
            *state = (k3_launch_state_t)i;
            return true;
        }
    }
    return false;
}

/* False: the line is none of ours. */
static bool take_line(k3_journal_t *journal, const char *text, size_t length)
{
    json_t           *line = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    const char       *event = json_string_value(json_object_get(line, "event"));
    const char       *id = json_string_value(json_object_get(line, "launch"));
    json_int_t        attempt = json_integer_value(json_object_get(line, "attempt"));
    k3_launch_state_t state;
    bool              good = event != NULL && id != NULL && attempt >= 0 && attempt <= ATTEMPTS_MAX;

    if (good && strcmp(event, "begin") == 0) {
        note_begin(journal, id, attempt);
    } else if (good && strcmp(event, "end") == 0 &&
               find_state(json_string_value(json_object_get(line, "state")), &state)) {
        note_begin(journal, id, attempt);
        note_end(journal, id, state, line);
    } else {
        good = false;
    }
    json_decref(line);
    return good;
}

size_t k3_journal_read(k3_journal_t *journal, const char *text, size_t length)
{
    size_t done = 0;

    while (done < length) {
        const char *end = memchr(text + done, '\n', length - done);
        size_t      bytes;

        if (end == NULL) {
            break;
        }
        bytes = (size_t)(end - text) - done;
        journal->lines++;
        if (!take_line(journal, text + done, bytes)) {
            journal->strange++;
        }
        done += bytes + 1;
    }
    return done;
}

void k3_journal_past(const k3_journal_t *journal, const char *id, k3_launch_past_t *past)
{
    const json_t *launch = json_object_get(journal->launches, id);
    const json_t *seconds = json_object_get(launch, "seconds");

    past->state = (k3_launch_state_t)json_integer_value(json_object_get(launch, "state"));
    past->attempts = (uint64_t)json_integer_value(json_object_get(launch, "attempts"));
    past->seconds = json_is_number(seconds) ? json_number_value(seconds) : NAN;
    past->wrong = json_is_true(json_object_get(launch, "wrong"));
    past->carried = json_string_value(json_object_get(launch, "carried"));
}

json_t *k3_journal_launches(const k3_journal_t *journal)
{
    return journal->launches;
}

/* --- the file -------------------------------------------------------------------------------- */

static k3_status_t read_all(k3_journal_t *journal, int fd, const char *path, k3_error_t *err)
{
    struct stat facts;
    char       *text;
    off_t       have = 0;

    if (fstat(fd, &facts) != 0 || facts.st_size > JOURNAL_MAX_BYTES) {
        return k3_fail(err, K3_ERR_IO, "%.300s: no journal, or above 1 GiB", path);
    }
    text = malloc((size_t)facts.st_size + 1);
    while (text != NULL && have < facts.st_size) {
        ssize_t count = read(fd, text + have, (size_t)(facts.st_size - have));

        if (count <= 0 && (count == 0 || errno != EINTR)) {
            break;
        }
        have += count > 0 ? count : 0;
    }
    if (text == NULL || have < facts.st_size) {
        free(text);
        return k3_fail(err, K3_ERR_IO, "%.300s: cannot be read: %s", path, strerror(errno));
    }
    journal->length = (off_t)k3_journal_read(journal, text, (size_t)have);
    free(text);
    if (journal->strange > 0) {
        k3_log_warn("%s: %zu of %zu lines are none of a journal and are left out", path,
                    journal->strange, journal->lines);
    }
    return K3_OK;
}

k3_status_t k3_journal_open(const char *path, bool write, k3_journal_t *journal, k3_error_t *err)
{
    int fd = open(path, (write ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC, 0666);

    *journal = (k3_journal_t){.fd = -1, .launches = json_object()};
    if (fd < 0) {
        return !write && errno == ENOENT
                   ? K3_OK
                   : k3_fail(err, K3_ERR_IO, "%.300s: %s", path, strerror(errno));
    }
    if (read_all(journal, fd, path, err) == K3_OK && write &&
        (ftruncate(fd, journal->length) != 0 || lseek(fd, 0, SEEK_END) < 0)) {
        k3_fail(err, K3_ERR_IO, "%.300s: the torn line at its end stays: %s", path,
                strerror(errno));
    }
    if (err->status == K3_OK && write) {
        journal->fd = fd;
    } else {
        (void)close(fd);
    }
    return err->status;
}

void k3_journal_close(k3_journal_t *journal)
{
    if (journal->fd >= 0) {
        (void)close(journal->fd);
    }
    json_decref(journal->launches);
    *journal = (k3_journal_t){.fd = -1};
}

static bool write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t count = write(fd, text, length);

        if (count < 0 && errno != EINTR) {
            return false;
        }
        text += count > 0 ? count : 0;
        length -= count > 0 ? (size_t)count : 0;
    }
    return true;
}

/* Takes the reference. */
static k3_status_t append(k3_journal_t *journal, json_t *line, k3_error_t *err)
{
    char  *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
    size_t length = text != NULL ? strlen(text) : 0;

    json_decref(line);
    if (text == NULL) {
        return k3_fail(err, K3_ERR_ENV, "journal: no memory for a line");
    }
    text[length] = '\n'; /* in place of the end */
    if (!write_all(journal->fd, text, length + 1) || fdatasync(journal->fd) != 0) {
        k3_fail(err, K3_ERR_IO, "the journal cannot be written: %s; the same command goes on later",
                strerror(errno));
        if (ftruncate(journal->fd, journal->length) == 0) {
            (void)lseek(journal->fd, 0, SEEK_END);
        }
    } else {
        journal->length += (off_t)length + 1;
    }
    free(text);
    return err->status;
}

k3_status_t k3_journal_begin(k3_journal_t *journal, const char *id, uint64_t attempt,
                             k3_error_t *err)
{
    char now[21];

    k3_utc_now(now);
    if (append(journal,
               json_pack("{s:s, s:s, s:I, s:s}", "event", "begin", "launch", id, "attempt",
                         (json_int_t)attempt, "at", now),
               err) == K3_OK) {
        note_begin(journal, id, (json_int_t)attempt);
    }
    return err->status;
}

k3_status_t k3_journal_end(k3_journal_t *journal, const k3_launch_end_t *end, k3_error_t *err)
{
    char    now[21];
    json_t *line, *copy;

    k3_utc_now(now);
    line = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:b}", "event", "end",
                     "launch", end->id, "attempt", (json_int_t)end->attempt, "at", now, "state",
                     k3_launch_state_names[end->state], "seconds", k3_json_number(end->seconds),
                     "how", k3_json_string(end->how), "reason", k3_json_string(end->reason),
                     "carried", k3_json_string(end->carried), "record", k3_json_string(end->record),
                     "wrong", end->wrong);
    copy = json_incref(line);
    if (append(journal, line, err) == K3_OK) {
        note_end(journal, end->id, end->state, copy);
    }
    json_decref(copy);
    return err->status;
}
