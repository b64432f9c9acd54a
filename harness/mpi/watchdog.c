#include "harness/mpi/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness/base/log.h"

#define PERIOD_SECONDS 0.2

enum {
    EXIT_TIMEOUT = 4,
    ACTION_LIMIT = 5, /* seconds that the action on fire may take */
    ABORT_LIMIT = 3,  /* seconds that MPI_Abort may take */
    DESCRIBE_MAX = 512
};

/* Written by the measuring thread, read by the watchdog thread. */
static atomic_uint_fast64_t  moves;
static _Atomic(const char *) where;
static atomic_uint_fast64_t  step;

/* Describe function and argument change together, under a lock of one word: the measuring thread
 * takes it around each wait, so it must cost next to nothing. */
static atomic_flag            describe_lock = ATOMIC_FLAG_INIT;
static k3_watchdog_describe_t describe_function;
static const void            *describe_argument;

static void (*fire_action)(void *arg);
static void *fire_argument;

static struct {
    bool            running;
    bool            stop; /* under mutex */
    double          limit;
    MPI_Comm        comm;
    char            host[K3_HOST_MAX];
    int             rank;
    pthread_t       thread;
    pthread_mutex_t mutex;
    pthread_cond_t  wake;
} dog;

static double now_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void lock_describe(void)
{
    while (atomic_flag_test_and_set_explicit(&describe_lock, memory_order_acquire)) {
        sched_yield();
    }
}

static void unlock_describe(void)
{
    atomic_flag_clear_explicit(&describe_lock, memory_order_release);
}

static void hard_exit(int signal_number)
{
    (void)signal_number;
    _exit(EXIT_TIMEOUT);
}

/* From here on the process ends after `seconds`, whatever hangs. */
static void limit_life(unsigned seconds)
{
    struct sigaction action;
    sigset_t         alarm_only;

    memset(&action, 0, sizeof(action));
    action.sa_handler = hard_exit;
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    alarm(seconds);
}

static void report(double seconds)
{
    char        text[DESCRIBE_MAX] = "";
    const char *place = atomic_load(&where);

    lock_describe();
    if (describe_function != NULL) {
        describe_function(describe_argument, text, sizeof(text));
    }
    unlock_describe();
    k3_log_error("no progress for %.1f s on rank %d (%s) in %s, step %llu%s%s", seconds, dog.rank,
                 dog.host, place != NULL ? place : "start", (unsigned long long)atomic_load(&step),
                 text[0] != '\0' ? ": " : "", text);
}

/* Ends the job. Before that a second passes in which the other ranks, whose limit ends at about the
 * same time, can say where they are. */
static void fire(double seconds)
{
    limit_life(ACTION_LIMIT);
    report(seconds);
    if (fire_action != NULL) {
        fire_action(fire_argument);
    }
    fflush(NULL);
    limit_life(1 + ABORT_LIMIT);
    sleep(1);
    MPI_Abort(dog.comm, EXIT_TIMEOUT);
    _exit(EXIT_TIMEOUT);
}

/* Sleeps one period; true when the watchdog was stopped. */
static bool sleep_period(double period)
{
    struct timespec until;
    bool            stop;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(period * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&dog.mutex);
    while (!dog.stop && pthread_cond_timedwait(&dog.wake, &dog.mutex, &until) != ETIMEDOUT) {
    }
    stop = dog.stop;
    pthread_mutex_unlock(&dog.mutex);
    return stop;
}

/* Counts the time in which nothing moved, but of each sleep at most two periods: a process that was
 * stopped, or that got no core, has not had that time. */
static void *watch(void *arg)
{
    double   period = dog.limit < 5 * PERIOD_SECONDS ? dog.limit / 5 : PERIOD_SECONDS;
    double   idle = 0, last = now_seconds();
    uint64_t seen = atomic_load(&moves);

    (void)arg;
    while (!sleep_period(period)) {
        double   now = now_seconds(), passed = now - last;
        uint64_t current = atomic_load(&moves);

        last = now;
        idle = current != seen ? 0 : idle + (passed > 2 * period ? 2 * period : passed);
        seen = current;
        if (idle >= dog.limit) {
            fire(idle);
        }
    }
    return NULL;
}

static int start_thread(void)
{
    sigset_t all, before;
    int      rc;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    rc = pthread_create(&dog.thread, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

k3_status_t k3_watchdog_start(const k3_world_t *world, double limit_seconds, k3_error_t *err)
{
    pthread_condattr_t attr;
    int                rc;

    if (dog.running) {
        return k3_fail(err, K3_ERR_ENV, "the watchdog runs already");
    }
    if (!(limit_seconds > 0)) {
        return k3_fail(err, K3_ERR_USAGE, "watchdog limit %g s must be above 0", limit_seconds);
    }
    dog.stop = false;
    dog.limit = limit_seconds;
    dog.comm = world->comm;
    dog.rank = world->rank;
    snprintf(dog.host, sizeof(dog.host), "%s", world->host);
    pthread_mutex_init(&dog.mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&dog.wake, &attr);
    pthread_condattr_destroy(&attr);
    rc = start_thread();
    if (rc != 0) {
        pthread_cond_destroy(&dog.wake);
        pthread_mutex_destroy(&dog.mutex);
        return k3_fail(err, K3_ERR_ENV, "the watchdog thread cannot start: %s", strerror(rc));
    }
    dog.running = true;
    return K3_OK;
}

void k3_watchdog_stop(void)
{
    if (!dog.running) {
        return;
    }
    pthread_mutex_lock(&dog.mutex);
    dog.stop = true;
    pthread_cond_signal(&dog.wake);
    pthread_mutex_unlock(&dog.mutex);
    pthread_join(dog.thread, NULL);
    pthread_cond_destroy(&dog.wake);
    pthread_mutex_destroy(&dog.mutex);
    dog.running = false;
}

void k3_watchdog_alive(void)
{
    /* One writer: a plain store of the next value, no locked instruction. */
    uint64_t next = atomic_load_explicit(&moves, memory_order_relaxed) + 1;

    atomic_store_explicit(&moves, next, memory_order_relaxed);
}

void k3_watchdog_tick(const char *place, uint64_t now_at)
{
    atomic_store_explicit(&where, place, memory_order_relaxed);
    atomic_store_explicit(&step, now_at, memory_order_relaxed);
    k3_watchdog_alive();
}

void k3_watchdog_describe(k3_watchdog_describe_t describe, const void *arg)
{
    lock_describe();
    describe_function = describe;
    describe_argument = arg;
    unlock_describe();
}

void k3_watchdog_on_fire(void (*action)(void *arg), void *arg)
{
    fire_argument = arg;
    fire_action = action;
}
