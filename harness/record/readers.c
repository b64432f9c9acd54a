#include "harness/record/readers.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/base/memory.h"

/* Results that wait for their turn: the readers run at most so far ahead. */
enum { AHEAD = 64, READERS_MAX = 16 };

typedef struct result {
    bool       ready;
    json_t    *document;
    k3_error_t err;
} result_t;

typedef struct reading {
    const char        *folder;
    const char *const *names;
    size_t             count;
    k3_reader_t        read;
    void              *arg;
    pthread_mutex_t    mutex;
    pthread_cond_t     changed;
    size_t             next, taken; /* files that a reader has begun, that were handed on */
    bool               stop;
    result_t           result[AHEAD];
} reading_t;

static void read_one(reading_t *r, size_t i, result_t *result)
{
    char path[PATH_MAX];

    *result = (result_t){.err = K3_ERROR_INIT};
    if (r->folder == NULL) {
        r->read(r->arg, r->names[i], &result->document, &result->err);
    } else if (snprintf(path, sizeof(path), "%s/%s", r->folder, r->names[i]) < (int)sizeof(path)) {
        r->read(r->arg, path, &result->document, &result->err);
    } else {
        k3_fail(&result->err, K3_ERR_IO, "%.300s: the path is too long", r->names[i]);
    }
    result->ready = true;
}

static void *reader(void *arg)
{
    reading_t *r = arg;
    result_t   result;

    pthread_mutex_lock(&r->mutex);
    for (;;) {
        size_t i;

        while (!r->stop && r->next < r->count && r->next >= r->taken + AHEAD) {
            pthread_cond_wait(&r->changed, &r->mutex);
        }
        if (r->stop || r->next >= r->count) {
            break;
        }
        i = r->next++;
        pthread_mutex_unlock(&r->mutex);
        read_one(r, i, &result);
        pthread_mutex_lock(&r->mutex);
        r->result[i % AHEAD] = result;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

static void wait_for(reading_t *r, size_t i, result_t *result)
{
    pthread_mutex_lock(&r->mutex);
    while (!r->result[i % AHEAD].ready) {
        pthread_cond_wait(&r->changed, &r->mutex);
    }
    *result = r->result[i % AHEAD];
    r->result[i % AHEAD].ready = false;
    r->taken++;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
}

static size_t start_readers(reading_t *r, pthread_t *threads)
{
    long   processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = processors > 0 ? (size_t)processors : 1, started = 0;

    wanted = wanted > READERS_MAX ? READERS_MAX : wanted;
    wanted = wanted > r->count ? r->count : wanted;
    while (started < wanted && pthread_create(&threads[started], NULL, reader, r) == 0) {
        started++;
    }
    return started;
}

static void stop_readers(reading_t *r, pthread_t *threads, size_t started)
{
    pthread_mutex_lock(&r->mutex);
    r->stop = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    for (size_t t = 0; t < started; t++) {
        pthread_join(threads[t], NULL);
    }
    for (size_t i = 0; i < AHEAD; i++) {
        json_decref(r->result[i].ready ? r->result[i].document : NULL);
    }
}

static void hand_on(reading_t *r, size_t started, k3_taker_t take, void *arg, k3_error_t *err)
{
    for (size_t i = 0; i < r->count && err->status == K3_OK; i++) {
        result_t result;

        if (started > 0) {
            wait_for(r, i, &result);
        } else {
            read_one(r, i, &result); /* no thread could be started */
        }
        take(arg, i, result.document, &result.err, err);
        json_decref(result.document);
    }
}

k3_status_t k3_read_each(const char *folder, const char *const *names, size_t count,
                         k3_reader_t read, k3_taker_t take, void *arg, k3_error_t *err)
{
    pthread_t  threads[READERS_MAX];
    reading_t *r = NULL;
    size_t     started;

    if (k3_alloc("records that are read", 1, sizeof(*r), &r, err) != K3_OK) {
        return err->status;
    }
    *r = (reading_t){.folder = folder, .names = names, .count = count, .read = read, .arg = arg};
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->changed, NULL);
    started = start_readers(r, threads);
    hand_on(r, started, take, arg, err);
    stop_readers(r, threads, started);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
    k3_free(r);
    return err->status;
}
