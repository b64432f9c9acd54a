#define _GNU_SOURCE
#include "kernels/threads.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

/* All under the lock. Tasks take microseconds at least, so that it is hardly ever waited for. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t  work, done;
    int             threads, started; /* `started` count the caller too */
    k3_task_t       task;
    void           *arg;
    size_t          count, next, finished;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER,
          .threads = 1,
          .started = 1};

static _Thread_local int own_index;

/* The call is looked up as nothing else links OpenMP. */
void k3_threads_of_library(int count)
{
    void (*set_threads)(int);

    *(void **)&set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (set_threads != NULL) {
        set_threads(count);
    }
}

/* With the lock held, which it gives up meanwhile. */
static void run_next(void)
{
    size_t    i = pool.next++;
    k3_task_t task = pool.task;
    void     *arg = pool.arg;

    pthread_mutex_unlock(&pool.lock);
    task(arg, i);
    pthread_mutex_lock(&pool.lock);
    pool.finished++;
    if (pool.finished == pool.count) {
        pthread_cond_signal(&pool.done);
    }
}

static void *serve(void *index)
{
    own_index = (int)(size_t)index;
    k3_threads_of_library(1);
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.next >= pool.count || own_index >= pool.threads) {
            pthread_cond_wait(&pool.work, &pool.lock);
        }
        run_next();
    }
    return NULL;
}

/* Signals are for the threads that were there before. */
static int start(int index)
{
    sigset_t  all, before;
    pthread_t thread;
    int       rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, NULL, serve, (void *)(size_t)index);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) {
        pthread_detach(thread);
    }
    return rc;
}

void k3_threads_set(int count)
{
    count = count < 1 ? 1 : count;
    pthread_mutex_lock(&pool.lock);
    while (pool.started < count && start(pool.started) == 0) {
        pool.started++;
    }
    pool.threads = count < pool.started ? count : pool.started;
    pthread_mutex_unlock(&pool.lock);
}

int k3_threads(void)
{
    return pool.threads;
}

int k3_thread_index(void)
{
    return own_index;
}

void k3_parallel(size_t count, k3_task_t task, void *arg)
{
    static _Thread_local int told;

    if (!told) {
        k3_threads_of_library(1);
        told = 1;
    }
    if (pool.threads == 1 || count <= 1) {
        for (size_t i = 0; i < count; i++) {
            task(arg, i);
        }
        return;
    }
    pthread_mutex_lock(&pool.lock);
    pool.task = task;
    pool.arg = arg;
    pool.next = 0;
    pool.finished = 0;
    pool.count = count;
    pthread_cond_broadcast(&pool.work);
    while (pool.next < pool.count) {
        run_next();
    }
    while (pool.finished < pool.count) {
        pthread_cond_wait(&pool.done, &pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
}
