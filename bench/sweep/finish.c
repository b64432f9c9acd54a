/* What is made of a launch that has ended, and of what an earlier sweep left behind. */
#define _GNU_SOURCE /* asprintf */

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/sweep/execute_internal.h"
#include "bench/sweep/readback.h"
#include "harness/base/log.h"

static bool exists(const char *path)
{
    struct stat facts;

    return lstat(path, &facts) == 0;
}

static char **carried_of(state_t *s, const k3_variant_t *variant)
{
    return &s->carried[variant - s->sweep->schedule->variants->items];
}

/* --- verdict on a record --------------------------------------------------------------------- */

static k3_asked_t asked_of(const state_t *s, const k3_launch_item_t *item, char rotate[32])
{
    (void)snprintf(rotate, 32, "%llu",
                   (unsigned long long)(item->round - 1) % item->variant->cells);
    return (k3_asked_t){.source = s->sweep->source,
                        .variant = item->variant,
                        .rotate = rotate,
                        .carried_by = s->sweep->carried_by,
                        .carried = s->carried[item->variant - s->sweep->schedule->variants->items]};
}

/* Reads a record back and moves it to where it belongs: to the good ones, or aside. `out` is what --out was
 * asked to be, NULL: not known any more. */
static k3_status_t place_record(state_t *s, const k3_launch_item_t *item, const char *path,
                                const char *out, k3_launch_end_t *end, char kept[PATH_MAX],
                                char reason[K3_ERROR_TEXT], k3_error_t *err)
{
    char          rotate[32];
    k3_asked_t    asked = asked_of(s, item, rotate);
    k3_readback_t back;
    k3_error_t    fault = K3_ERROR_INIT;
    char          good[PATH_MAX], aside[PATH_MAX];

    k3_folder_file(s->sweep->folder, K3_RECORDS, item->id, 0, good);
    k3_folder_file(s->sweep->folder, K3_ASIDE, item->id, end->attempt, aside);
    asked.out = out;
    if (k3_readback(path, &asked, &back, &fault) == K3_OK) {
        end->state = K3_LAUNCH_DONE;
        end->wrong = end->wrong || back.wrong;
        free(*carried_of(s, item->variant));
        end->carried = *carried_of(s, item->variant) = back.carried;
    } else {
        end->state = fault.status == K3_ERR_CHECK ? K3_LAUNCH_REJECTED : K3_LAUNCH_FAILED;
        (void)snprintf(reason, K3_ERROR_TEXT, "%s", fault.text);
        end->reason = reason;
    }
    (void)snprintf(kept, PATH_MAX, "%s", end->state == K3_LAUNCH_DONE ? good : aside);
    end->record = kept;
    return strcmp(path, kept) == 0 ? K3_OK : k3_folder_move(path, kept, err);
}

/* --- an ended launch ------------------------------------------------------------------------- */

/* The line in which k3bench itself says what is wrong: whom a roll call names, else its last one. */
static void last_words(const state_t *s, const job_t *job, char text[K3_ERROR_TEXT])
{
    char  path[PATH_MAX], line[K3_ERROR_TEXT + 64];
    bool  named = false;
    FILE *log;

    text[0] = '\0';
    k3_folder_file(s->sweep->folder, K3_LOGS, job->item->id, job->attempt, path);
    log = fopen(path, "re");
    while (log != NULL && fgets(line, sizeof(line), log) != NULL) {
        bool names = strstr(line, "roll call: ") != NULL;

        if (strncmp(line, "k3bench: ", 9) == 0 && strstr(line, "error: ") != NULL &&
            (names || !named)) {
            line[strcspn(line, "\r\n")] = '\0';
            (void)snprintf(text, K3_ERROR_TEXT, "%.700s", line + 9);
            named = names;
        }
    }
    if (log != NULL) {
        (void)fclose(log);
    }
}

/* A launcher whose rank was killed ends as shells do: with 128 and the signal. */
static void describe_status(int status, char how[64])
{
    if (WIFSIGNALED(status)) {
        (void)snprintf(how, 64, "signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) > 128) {
        (void)snprintf(how, 64, "exit %d, signal %d to a rank", WEXITSTATUS(status),
                       WEXITSTATUS(status) - 128);
    } else {
        (void)snprintf(how, 64, "exit %d", WEXITSTATUS(status));
    }
}

static void print_end(state_t *s, const k3_launch_item_t *item, const k3_launch_end_t *end)
{
    FILE       *out = s->sweep->progress;
    const char *word = end->state == K3_LAUNCH_DONE     ? end->wrong ? "WRONG" : "ok"
                       : end->state == K3_LAUNCH_FAILED ? "FAILED"
                                                        : "REJECTED";

    if (out == NULL) {
        return;
    }
    (void)fprintf(out, "[%zu/%zu] %-8s %s, round %llu, %zu cells",
                  s->sweep->schedule->count - s->sweep->schedule->open, s->sweep->schedule->count,
                  word, item->variant->label, (unsigned long long)item->round,
                  item->variant->cells - item->variant->refused);
    if (isfinite(end->seconds)) {
        (void)fprintf(out, ", %.1f s", end->seconds);
    }
    if (end->reason != NULL) {
        (void)fprintf(out, ": %s%s%s", end->how != NULL ? end->how : "",
                      end->how != NULL ? ", " : "", end->reason);
    }
    if (s->sweep->schedule->open > 0) {
        (void)fprintf(out, "; %.0f s to go",
                      k3_schedule_remaining(s->sweep->schedule) / (double)s->sweep->jobs);
    }
    (void)fprintf(out, "\n");
    (void)fflush(out);
}

static k3_status_t note(state_t *s, k3_launch_item_t *item, const k3_launch_end_t *end,
                        k3_error_t *err)
{
    if (k3_journal_end(&s->sweep->folder->journal, end, err) != K3_OK) {
        return err->status;
    }
    k3_schedule_close(s->sweep->schedule, item, end);
    print_end(s, item, end);
    return K3_OK;
}

/* A launch that ended otherwise than by saying 0 or 1 has no record that counts, but for the one that says why none
 * of its cells can be done (2 or 3). */
static k3_status_t judge(state_t *s, const job_t *job, int status, k3_launch_end_t *end,
                         char kept[PATH_MAX], char reason[K3_ERROR_TEXT], k3_error_t *err)
{
    bool whole = !job->late && WIFEXITED(status) && WEXITSTATUS(status) <= 3;

    end->wrong = whole && WEXITSTATUS(status) == 1;
    if (whole && exists(job->out)) {
        return place_record(s, job->item, job->out, job->out, end, kept, reason, err);
    }
    end->state = K3_LAUNCH_FAILED;
    end->wrong = false;
    end->reason = reason;
    if (job->late) {
        (void)snprintf(reason, K3_ERROR_TEXT, "it did not end within its limit");
    } else {
        last_words(s, job, reason);
        if (reason[0] == '\0') {
            (void)snprintf(reason, K3_ERROR_TEXT, "no record; see logs/%s.a%llu.txt", job->item->id,
                           (unsigned long long)job->attempt);
        }
    }
    if (exists(job->out)) { /* a part */
        k3_folder_file(s->sweep->folder, K3_ASIDE, job->item->id, job->attempt, kept);
        end->record = kept;
        return k3_folder_move(job->out, kept, err);
    }
    /* Without room no launch can leave a record: that is not this one's fault. */
    return k3_folder_check_space(s->sweep->folder, err);
}

k3_status_t k3_job_finish(state_t *s, job_t *job, int status, k3_error_t *err)
{
    char            how[64], kept[PATH_MAX], reason[K3_ERROR_TEXT];
    k3_launch_end_t end = {
        .id = job->item->id, .attempt = job->attempt, .seconds = job->seconds, .how = how};

    describe_status(status, how);
    if (judge(s, job, status, &end, kept, reason, err) == K3_OK) {
        note(s, job->item, &end, err);
    }
    (void)unlink(job->hostfile);
    job->stage = JOB_IDLE;
    job->late = false;
    return err->status;
}

/* --- what was left behind -------------------------------------------------------------------- */

static k3_status_t set_aside(state_t *s, const char *id, k3_error_t *err)
{
    k3_launch_past_t past;
    char             from[PATH_MAX], to[PATH_MAX];

    k3_journal_past(&s->sweep->folder->journal, id, &past);
    k3_folder_file(s->sweep->folder, K3_RECORDS, id, 0, from);
    k3_folder_file(s->sweep->folder, K3_ASIDE, id, past.attempts, to);
    if (exists(from) && k3_folder_move(from, to, err) != K3_OK) {
        return err->status;
    }

    k3_launch_end_t end = {.id = id,
                           .state = K3_LAUNCH_ASIDE,
                           .attempt = past.attempts,
                           .seconds = past.seconds,
                           .reason = "the sweep no longer asks for it",
                           .record = to};

    s->result->aside++;
    return k3_journal_end(&s->sweep->folder->journal, &end, err);
}

/* Launches of other options than today's: their records would be counted among these. */
static k3_status_t set_others_aside(state_t *s, k3_error_t *err)
{
    const k3_schedule_t *schedule = s->sweep->schedule;
    json_t              *asked = json_object(), *launch;
    k3_list_t            stale = {0};
    const char          *id;

    for (size_t i = 0; i < schedule->count; i++) {
        (void)json_object_set_new(asked, schedule->items[i].id, json_true());
    }
    json_object_foreach(k3_journal_launches(&s->sweep->folder->journal), id, launch)
    {
        if (json_integer_value(json_object_get(launch, "state")) == K3_LAUNCH_DONE &&
            json_object_get(asked, id) == NULL) {
            k3_list_add(&stale, id);
        }
    }
    for (size_t i = 0; i < stale.count && err->status == K3_OK; i++) {
        set_aside(s, stale.items[i], err);
    }
    k3_list_free(&stale);
    json_decref(asked);
    return err->status;
}

/* A launch may have finished while nobody was there to note it. How it ended is not known, so only a record
 * without a fault counts; else it is started again. */
static k3_status_t adopt(state_t *s, k3_launch_item_t *item, k3_error_t *err)
{
    char            path[PATH_MAX], out[PATH_MAX], kept[PATH_MAX], reason[K3_ERROR_TEXT];
    bool            moved;
    k3_launch_end_t end = {.id = item->id, .attempt = item->past.attempts, .seconds = NAN};

    k3_folder_file(s->sweep->folder, K3_RECORDS, item->id, 0, path);
    k3_folder_file(s->sweep->folder, K3_RUNNING, item->id, item->past.attempts, out);
    moved = exists(path);
    if (!moved && (item->past.attempts == 0 || !exists(out))) {
        return K3_OK;
    }
    if (place_record(s, item, moved ? path : out, moved ? NULL : out, &end, kept, reason, err) !=
        K3_OK) {
        return err->status;
    }
    if (end.state != K3_LAUNCH_DONE || end.wrong) {
        char aside[PATH_MAX];

        k3_folder_file(s->sweep->folder, K3_ASIDE, item->id, item->past.attempts, aside);
        return strcmp(kept, aside) == 0 ? K3_OK : k3_folder_move(kept, aside, err);
    }
    s->result->adopted++;
    return note(s, item, &end, err);
}

/* The record of a launch that is noted as done may be gone, or another one in its place: it is made again then. */
static k3_status_t review(state_t *s, k3_launch_item_t *item, k3_error_t *err)
{
    char            path[PATH_MAX], aside[PATH_MAX], rotate[32];
    k3_asked_t      asked = asked_of(s, item, rotate);
    k3_launch_end_t end = {.id = item->id,
                           .state = K3_LAUNCH_ASIDE,
                           .attempt = item->past.attempts,
                           .seconds = item->past.seconds};
    k3_error_t      fault = K3_ERROR_INIT;
    k3_readback_t   back;

    k3_folder_file(s->sweep->folder, K3_RECORDS, item->id, 0, path);
    k3_folder_file(s->sweep->folder, K3_ASIDE, item->id, item->past.attempts, aside);
    if (k3_readback(path, &asked, &back, &fault) == K3_OK) {
        free(back.carried);
        return K3_OK;
    }
    if (exists(path)) {
        if (k3_folder_move(path, aside, err) != K3_OK) {
            return err->status;
        }
        end.record = aside;
    }
    k3_log_warn("%s is made again, its record is not the one that was noted: %s", item->id,
                fault.text);
    end.reason = fault.text;
    if (k3_journal_end(&s->sweep->folder->journal, &end, err) == K3_OK) {
        k3_schedule_reopen(s->sweep->schedule, item);
    }
    return err->status;
}

k3_status_t k3_resume(state_t *s, k3_error_t *err)
{
    k3_schedule_t *schedule = s->sweep->schedule;

    if (set_others_aside(s, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < schedule->count; i++) {
        const k3_launch_past_t *past = &schedule->items[i].past;
        char                  **carried = carried_of(s, schedule->items[i].variant);

        if (past->state == K3_LAUNCH_DONE && past->carried != NULL && *carried == NULL) {
            *carried = strdup(past->carried);
        }
    }
    for (size_t i = 0; i < schedule->count && err->status == K3_OK; i++) {
        if (schedule->items[i].past.state == K3_LAUNCH_NONE) {
            adopt(s, &schedule->items[i], err);
        } else if (schedule->items[i].past.state == K3_LAUNCH_DONE) {
            review(s, &schedule->items[i], err);
        }
    }
    return err->status;
}
