#include "harness/mpi/watchdog.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "harness/base/log.h"

#define PERIOD_SECONDS 0.2

enum {
    EXIT_TIMEOUT = 4,
    ACTION_LIMIT = 5, /* seconds that the action on fire may take */
    ABORT_LIMIT = 3   /* seconds that MPI_Abort may take */
};
#define ROLL_SECONDS 0.5 /* for the answers of the others */
#define TOLD_SECONDS 3.0 /* in which another rank tells what it found, and leaves a record */
/* The same after SIGTERM, which mpirun lets a SIGKILL follow a second later. */
#define LAST_ROLL_SECONDS 0.4
#define LAST_TOLD_SECONDS 0.8

/* Written by the measuring thread, read by the watchdog thread. */
static atomic_uint_fast64_t  moves;
static _Atomic(const char *) where;
static atomic_uint_fast64_t  step;

/* Describe function and argument change together, under a lock of one word: the measuring thread
 * takes it around each wait, so it must cost next to nothing. */
static atomic_flag            describe_lock = ATOMIC_FLAG_INIT;
static k3_watchdog_describe_t describe_function, lanes_function;
static const void            *describe_argument, *lanes_argument;

static k3_watchdog_action_t fire_action;
static void                *fire_argument;
static k3_rollcall_t       *roll;

static struct {
    bool              running;
    _Atomic(double)   limit;
    atomic_bool       held, works;
    const k3_world_t *world;
    pthread_t         thread;
    /* the thread's: seconds since it told others that it works, and whether it has moved in them */
    double           worked;
    bool             moved;
    int              wake; /* eventfd: stop or terminate was set */
    atomic_bool      stop, terminate;
    struct sigaction before; /* what SIGTERM did */
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

/* --- what this rank is doing ----------------------------------------------------------------- */

static void describe_own(k3_roll_entry_t *own, double idle)
{
    const char *place = atomic_load(&where);
    char        lanes[K3_ROLL_TEXT / 2] = "";
    size_t      used;

    memset(own, 0, sizeof(*own));
    own->rank = dog.world->rank;
    own->heard = true;
    own->step = atomic_load(&step);
    own->idle_s = idle;
    snprintf(own->place, sizeof(own->place), "%s", place != NULL ? place : "start");
    lock_describe();
    if (describe_function != NULL) {
        describe_function(describe_argument, own->text, sizeof(own->text));
    }
    if (lanes_function != NULL) {
        lanes_function(lanes_argument, lanes, sizeof(lanes));
    }
    unlock_describe();
    used = strlen(own->text);
    snprintf(own->text + used, sizeof(own->text) - used, "%s%s",
             used > 0 && lanes[0] != '\0' ? "; " : "", lanes);
}

static void write_state(const k3_roll_entry_t *own, const char *what, char *text, size_t size)
{
    snprintf(text, size, "%s on rank %d (%s) in %s, step %llu%s%s", what, own->rank,
             dog.world->host, own->place, (unsigned long long)own->step,
             own->text[0] != '\0' ? ": " : "", own->text);
}

/* --- the end --------------------------------------------------------------------------------- */

typedef struct roll_call {
    k3_roll_entry_t *entries; /* [size]; NULL: this rank asks nobody */
    bool             tells;   /* this rank prints, and leaves the record */
    bool             told;    /* another one has */
    char             verdict[K3_ROLL_VERDICT];
} roll_call_t;

/* Answers questions for so long, or until all have answered an own one, or until another rank has told:
 * true then. */
static bool listen_to_others(double seconds, const k3_roll_entry_t *own, k3_roll_entry_t *entries)
{
    double until = now_seconds() + seconds, left;
    bool   told = false, complete = false;

    while (!told && !complete && (left = until - now_seconds()) > 0.0) {
        struct pollfd fd = {.fd = k3_rollcall_socket(roll), .events = POLLIN};

        poll(&fd, 1, 1 + (int)(1e3 * left));
        told = k3_rollcall_read(roll, own, entries).told;
        complete = entries != NULL && k3_rollcall_silent(entries, dog.world->size) == 0;
    }
    return told;
}

/* Rank 0 asks and tells; the last rank asks too, and tells when rank 0 is silent. */
static void call_the_roll(double seconds, const k3_roll_entry_t *own, roll_call_t *call)
{
    int size = dog.world->size, last = size - 1;

    memset(call, 0, sizeof(*call));
    call->tells = own->rank == 0;
    if (roll == NULL || size == 1 || (own->rank != 0 && own->rank != last) ||
        (call->entries = calloc((size_t)size, sizeof(*call->entries))) == NULL) {
        return;
    }
    call->entries[own->rank] = *own;
    k3_rollcall_ask(roll, own->rank);
    call->told = listen_to_others(seconds, own, call->entries);
    call->tells = own->rank == 0 || (!call->told && !call->entries[0].heard);
    k3_rollcall_judge(call->entries, size, dog.world->host_of, call->verdict);
}

static void add_verdict(const roll_call_t *call, char *text, size_t size)
{
    size_t used = strlen(text);

    snprintf(text + used, size - used, "%s%s", call->verdict[0] != '\0' ? "; " : "", call->verdict);
}

/* What the rank that tells knows goes into the record. The others stay to answer until it has. */
static void tell(double seconds, const k3_roll_entry_t *own, roll_call_t *call, const char *reason)
{
    if (fire_action != NULL) {
        fire_action(fire_argument, reason);
    }
    fflush(NULL);
    free(call->entries);
    if (roll == NULL) {
        return;
    }
    if (call->tells) {
        k3_rollcall_told(roll, own->rank);
    } else if (!call->told) {
        (void)listen_to_others(seconds, own, NULL);
    }
}

enum { REASON = 2 * K3_ROLL_TEXT + K3_ROLL_VERDICT };

/* Ends the job. Before that the other ranks get the time to say where they are. */
static void fire(const char *what, double idle)
{
    k3_roll_entry_t own;
    roll_call_t     call;
    char            text[REASON];

    limit_life(ACTION_LIMIT);
    describe_own(&own, idle);
    write_state(&own, what, text, sizeof(text));
    k3_log_error("%s", text);
    if (roll != NULL) {
        k3_rollcall_alarm(roll, own.rank);
    }
    call_the_roll(ROLL_SECONDS, &own, &call);
    if (call.tells && call.entries != NULL) {
        k3_rollcall_print(call.entries, dog.world->size, dog.world->host_of);
        k3_log_error("%s", call.verdict);
    }
    add_verdict(&call, text, sizeof(text));
    tell(TOLD_SECONDS, &own, &call, text);
    limit_life(ABORT_LIMIT);
    MPI_Abort(MPI_COMM_WORLD, EXIT_TIMEOUT);
    _exit(EXIT_TIMEOUT);
}

/* A launcher that ends the job sends SIGTERM, and a second later SIGKILL: often because a rank has died, so
 * that one is named, by its own last words where it had some. Those that answer do their work and are no news. */
static void terminate(void)
{
    const k3_roll_entry_t *words;
    k3_roll_entry_t        own;
    roll_call_t            call;
    char                   text[REASON];

    limit_life(ACTION_LIMIT);
    describe_own(&own, 0.0);
    write_state(&own, "ended by SIGTERM", text, sizeof(text));
    call_the_roll(LAST_ROLL_SECONDS, &own, &call);
    words = roll != NULL ? k3_rollcall_words(roll) : NULL;
    if (words != NULL) {
        snprintf(text, sizeof(text), "rank %d (%s) ended the job: %s", words->rank,
                 dog.world->host_of[words->rank], words->text);
    } else if (call.entries != NULL && k3_rollcall_silent(call.entries, dog.world->size) > 0) {
        add_verdict(&call, text, sizeof(text));
    }
    if (call.tells) {
        k3_log_error("%s", text);
    }
    tell(LAST_TOLD_SECONDS, &own, &call, text);
    signal(SIGTERM, SIG_DFL);
    kill(getpid(), SIGTERM);
    sleep(ABORT_LIMIT);
    _exit(EXIT_TIMEOUT);
}

void k3_watchdog_last_words(const char *text)
{
    if (roll != NULL) {
        k3_rollcall_last_words(roll, dog.world->rank, text);
    }
}

void k3_watchdog_over(void)
{
    signal(SIGTERM, SIG_DFL);
}

static void on_sigterm(int signal_number)
{
    static const uint64_t one = 1;
    int                   saved = errno;

    (void)signal_number;
    atomic_store(&dog.terminate, true);
    if (write(dog.wake, &one, sizeof(one)) < 0) {
        /* Full: the thread is awake. */
    }
    errno = saved;
}

/* --- the thread ------------------------------------------------------------------------------ */

/* Sleeps one period, and sees to what comes in between. True: another rank works at what this one may wait
 * for. */
static bool watch_period(double period, double idle)
{
    double until = now_seconds() + period, left;
    bool   working = false;

    while (!atomic_load(&dog.stop) && (left = until - now_seconds()) > 0.0) {
        struct pollfd fds[2] = {
            {.fd = dog.wake, .events = POLLIN},
            {.fd = roll != NULL ? k3_rollcall_socket(roll) : -1, .events = POLLIN}};
        k3_roll_entry_t own;
        k3_roll_news_t  news;
        char            what[64];

        poll(fds, 2, 1 + (int)(1e3 * left));
        if (atomic_load(&dog.terminate)) {
            terminate();
        }
        if (fds[1].revents != 0) {
            describe_own(&own, idle);
            news = k3_rollcall_read(roll, &own, NULL);
            working = working || news.working;
            if (news.alarm_by >= 0) {
                snprintf(what, sizeof(what), "no progress for %.1f s (alarm of rank %d)", idle,
                         news.alarm_by);
                fire(what, idle);
            }
        }
    }
    return working;
}

/* Often enough that a lost message or two do no harm, and only of work that takes long. */
static void tell_of_work(bool moved, double passed)
{
    bool held = atomic_load(&dog.held), works = atomic_load(&dog.works);

    dog.worked = held || works ? dog.worked + passed : 0.0;
    dog.moved = (held || works) && (dog.moved || held || moved);
    if (dog.worked >= dog.limit / 4 && dog.moved && roll != NULL) {
        k3_rollcall_working(roll, dog.world->rank);
        dog.worked = 0.0;
        dog.moved = false;
    }
}

/* Counts the time in which nothing moved, but of each sleep at most two periods: a process that was
 * stopped, or that got no core, has not had that time. */
static void *watch(void *arg)
{
    double   period = dog.limit < 5 * PERIOD_SECONDS ? dog.limit / 5 : PERIOD_SECONDS;
    double   idle = 0, last = now_seconds();
    uint64_t seen = atomic_load(&moves);

    (void)arg;
    for (;;) {
        double   now, passed;
        uint64_t current;
        char     what[64];
        bool     working = watch_period(period, idle);

        if (atomic_load(&dog.stop)) {
            return NULL;
        }
        now = now_seconds();
        passed = now - last;
        current = atomic_load(&moves);
        last = now;
        tell_of_work(current != seen, passed);
        idle = current != seen || working || atomic_load(&dog.held)
                   ? 0
                   : idle + (passed > 2 * period ? 2 * period : passed);
        seen = current;
        if (idle >= dog.limit) {
            snprintf(what, sizeof(what), "no progress for %.1f s", idle);
            fire(what, idle);
        }
    }
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

static char guard_text[256];

/* Only what a signal handler may do. */
static void guard_ends(int signal_number)
{
    (void)signal_number;
    if (write(STDERR_FILENO, guard_text, strlen(guard_text)) < 0) {
        /* Nobody listens. */
    }
    _exit(EXIT_TIMEOUT);
}

void k3_watchdog_guard(double seconds)
{
    struct sigaction action;
    const char      *rank = getenv("OMPI_COMM_WORLD_RANK");
    char             host[K3_HOST_MAX] = "unknown";

    gethostname(host, sizeof(host) - 1);
    snprintf(guard_text, sizeof(guard_text),
             "k3bench: error: the launch did not start within %.0f s on rank %.12s (%s): another "
             "rank never arrived\n",
             seconds, rank != NULL ? rank : "?", host);
    memset(&action, 0, sizeof(action));
    action.sa_handler = guard_ends;
    sigaction(SIGALRM, &action, NULL);
    alarm((unsigned)seconds + 1);
}

k3_status_t k3_watchdog_start(const k3_world_t *world, double limit_seconds, k3_error_t *err)
{
    struct sigaction action;
    int              rc;

    if (dog.running) {
        return k3_fail(err, K3_ERR_ENV, "the watchdog runs already");
    }
    if (!(limit_seconds > 0)) {
        return k3_fail(err, K3_ERR_USAGE, "watchdog limit %g s must be above 0", limit_seconds);
    }
    atomic_store(&dog.stop, false);
    atomic_store(&dog.terminate, false);
    atomic_store(&dog.held, false);
    atomic_store(&dog.works, false);
    dog.worked = 0.0;
    dog.moved = false;
    atomic_store(&dog.limit, limit_seconds);
    dog.world = world;
    dog.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (dog.wake < 0) {
        return k3_fail(err, K3_ERR_ENV, "the watchdog cannot start: %s", strerror(errno));
    }
    rc = start_thread();
    if (rc != 0) {
        close(dog.wake);
        return k3_fail(err, K3_ERR_ENV, "the watchdog thread cannot start: %s", strerror(rc));
    }
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_sigterm;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, &dog.before);
    dog.running = true;
    alarm(0);
    return K3_OK;
}

void k3_watchdog_stop(void)
{
    static const uint64_t one = 1;

    if (!dog.running) {
        return;
    }
    sigaction(SIGTERM, &dog.before, NULL);
    atomic_store(&dog.stop, true);
    if (write(dog.wake, &one, sizeof(one)) < 0) {
        /* Full: the thread is awake. */
    }
    pthread_join(dog.thread, NULL);
    close(dog.wake);
    dog.running = false;
    if (atomic_load(&dog.terminate)) {
        raise(SIGTERM);
    }
}

void k3_watchdog_limit(double limit_seconds)
{
    atomic_store(&dog.limit, limit_seconds);
    k3_watchdog_alive();
}

void k3_watchdog_hold(bool held)
{
    atomic_store(&dog.held, held);
    k3_watchdog_alive();
}

void k3_watchdog_work(bool works)
{
    atomic_store(&dog.works, works);
    k3_watchdog_alive();
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

void k3_watchdog_describe_lanes(k3_watchdog_describe_t describe, const void *arg)
{
    lock_describe();
    lanes_function = describe;
    lanes_argument = arg;
    unlock_describe();
}

void k3_watchdog_on_fire(k3_watchdog_action_t action, void *arg)
{
    fire_argument = arg;
    fire_action = action;
}

void k3_watchdog_roll(k3_rollcall_t *rollcall)
{
    roll = rollcall;
}
