#include "harness/record/readers.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum { READERS_MAX = 16 };

/* Each reader takes the next file, reads it beside the others, waits for the files before it to be taken and
 * then takes its own: what it made is also freed by it, so that threads do not meet in the allocator. */
typedef struct reading {
    const char        *folder;
    const char *const *names;
    size_t             count;
    k3_reader_t        read;
    k3_taker_t         take;
    void              *arg;
    k3_error_t        *err;
    pthread_mutex_t    mutex;
    pthread_cond_t     changed;
    size_t             next, taken; /* files that a reader has begun, that were taken */
} reading_t;

static void read_one(const reading_t *r, size_t i, json_t **result_p, k3_error_t *fault)
{
    char path[PATH_MAX];

    *result_p = NULL;
    *fault = (k3_error_t)K3_ERROR_INIT;
    if (r->folder == NULL) {
        r->read(r->arg, r->names[i], result_p, fault);
    } else if (snprintf(path, sizeof(path), "%s/%s", r->folder, r->names[i]) < (int)sizeof(path)) {
        r->read(r->arg, path, result_p, fault);
    } else {
        k3_fail(fault, K3_ERR_IO, "%.300s: the path is too long", r->names[i]);
    }
}

/* With the mutex held. */
static bool begin(reading_t *r, size_t *i)
{
    *i = r->next;
    if (r->err->status != K3_OK || r->next >= r->count) {
        return false;
    }
    r->next++;
    return true;
}

static void take_in_turn(reading_t *r, size_t i, const json_t *result, const k3_error_t *fault)
{
    while (r->taken != i) {
        pthread_cond_wait(&r->changed, &r->mutex);
    }
    if (r->err->status == K3_OK) {
        r->take(r->arg, i, result, fault, r->err);
    }
    r->taken++;
    pthread_cond_broadcast(&r->changed);
}

static void *reader(void *arg)
{
    reading_t *r = arg;
    size_t     i;

    pthread_mutex_lock(&r->mutex);
    while (begin(r, &i)) {
        json_t    *result;
        k3_error_t fault;

        pthread_mutex_unlock(&r->mutex);
        read_one(r, i, &result, &fault);
        pthread_mutex_lock(&r->mutex);
        take_in_turn(r, i, result, &fault);
        pthread_mutex_unlock(&r->mutex);
        json_decref(result);
        pthread_mutex_lock(&r->mutex);
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

k3_status_t k3_read_each(const char *folder, const char *const *names, size_t count,
                         k3_reader_t read, k3_taker_t take, void *arg, k3_error_t *err)
{
    reading_t r = {folder,
                   names,
                   count,
                   read,
                   take,
                   arg,
                   err,
                   PTHREAD_MUTEX_INITIALIZER,
                   PTHREAD_COND_INITIALIZER,
                   0,
                   0};
    long      processors = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[READERS_MAX];
    size_t    helpers = 0;

    /* The calling thread reads too. */
    while (helpers + 1 < count && (long)helpers + 1 < processors && helpers < READERS_MAX &&
           pthread_create(&threads[helpers], NULL, reader, &r) == 0) {
        helpers++;
    }
    reader(&r);
    while (helpers > 0) {
        pthread_join(threads[--helpers], NULL);
    }
    pthread_cond_destroy(&r.changed);
    pthread_mutex_destroy(&r.mutex);
    return err->status;
}
