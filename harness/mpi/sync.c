#include "harness/mpi/sync.h"

#include <math.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "harness/base/memory.h"
#include "harness/mpi/clock.h"
#include "harness/mpi/sync_internal.h"
#include "harness/mpi/watchdog.h"

enum {
    TRIES = 10,       /* exchanges for one comparison */
    FIRST_POINTS = 4, /* comparisons at the opening */
    TAG_TURN = 1,
    TAG_ASK,
    TAG_TIME
};

static const double first_slack = 100e3, refit_after = 2e9; /* ns */

/* What every rank tells all others after a comparison. */
typedef struct shared {
    double anchor, offset, drift;
    double error, residual, round_trip, predicted, steps;
} shared_t;

enum { SHARED_VALUES = sizeof(shared_t) / sizeof(double) };

struct k3_sync {
    const k3_world_t *world;
    MPI_Comm          comm; /* owned: exchanges meet no other messages */
    k3_clock_source_t clock;
    k3_clock_fit_t    fit;
    k3_clock_line_t   line;    /* to rank 0 */
    int              *parent;  /* [size]; of rank 0 -1 */
    int              *leaders; /* [nodes] */
    shared_t         *all;     /* [size] */
    k3_sync_quality_t quality;
    double            last, slack; /* ns */
};

static uint64_t read_ticks(void *arg)
{
    (void)arg;
    return k3_clock_now();
}

/* Where ranks outnumber cores the others need this one. */
static void wait_a_little(void *arg)
{
    const k3_sync_t *s = arg;

    if (s->world->oversubscribed) {
        sched_yield();
    }
}

/* --- who compares with whom ------------------------------------------------------------------ */

static void build_tree(k3_sync_t *s)
{
    const k3_world_t *w = s->world;

    for (int node = 0; node < w->nodes; node++) {
        s->leaders[node] = -1;
    }
    for (int r = 0; r < w->size; r++) {
        int node = w->node_of[r];

        if (s->leaders[node] <
            0) { /* nodes are numbered by their lowest rank: parents come first */
            s->leaders[node] = r;
            s->parent[r] = node == 0 ? -1 : s->leaders[k3_sync_tree_parent(node)];
        } else {
            s->parent[r] = s->leaders[node];
        }
    }
}

/* --- one comparison -------------------------------------------------------------------------- */

typedef struct line_to {
    const k3_sync_t *sync;
    int              rank;
} line_to_t;

static double ask(void *arg)
{
    const line_to_t *to = arg;
    double           time;

    MPI_Send(NULL, 0, MPI_BYTE, to->rank, TAG_ASK, to->sync->comm);
    MPI_Recv(&time, 1, MPI_DOUBLE, to->rank, TAG_TIME, to->sync->comm, MPI_STATUS_IGNORE);
    return time;
}

static void answer(const k3_sync_t *s, int child)
{
    MPI_Send(NULL, 0, MPI_BYTE, child, TAG_TURN, s->comm);
    for (int i = 0; i < TRIES; i++) {
        double now;

        MPI_Recv(NULL, 0, MPI_BYTE, child, TAG_ASK, s->comm, MPI_STATUS_IGNORE);
        now = k3_clock_source_now(&s->clock);
        MPI_Send(&now, 1, MPI_DOUBLE, child, TAG_TIME, s->comm);
    }
}

/* Asleep, so that the pair that compares has the cores. */
static void wait_asleep(MPI_Request *request)
{
    const struct timespec pause = {.tv_nsec = 20000};
    int                   done = 0;

    for (;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done) {
            return;
        }
        nanosleep(&pause, NULL);
    }
}

static void compare_with_parent(k3_sync_t *s)
{
    line_to_t        to = {s, s->parent[s->world->rank]};
    k3_sync_peer_t   peer = {ask, &to};
    k3_clock_point_t point;
    MPI_Request      request;

    MPI_Irecv(NULL, 0, MPI_BYTE, to.rank, TAG_TURN, s->comm, &request);
    wait_asleep(&request);
    point = k3_sync_compare(&s->clock, &peer, TRIES);
    k3_clock_fit_add(&s->fit, &point);
}

/* First with the parent, then with the children one after another: down the tree. */
static void compare_all(k3_sync_t *s)
{
    int rank = s->world->rank;

    if (s->parent[rank] >= 0) {
        compare_with_parent(s);
    }
    for (int r = rank + 1; r < s->world->size; r++) {
        if (s->parent[r] == rank) {
            answer(s, r);
        }
    }
}

/* --- the lines of all ranks ------------------------------------------------------------------ */

static void judge(k3_sync_t *s, uint64_t fits)
{
    k3_sync_quality_t *q = &s->quality;

    *q = (k3_sync_quality_t){.fits = fits};
    for (int r = 0; r < s->world->size; r++) {
        double          error = 0.0;
        k3_clock_line_t line = {0};

        for (int at = r; at > 0; at = s->parent[at]) {
            const shared_t *a = &s->all[at];
            k3_clock_line_t outer = {a->anchor, a->offset, a->drift};

            line = at == r ? outer : k3_clock_line_chain(&line, &outer);
            error += a->error;
        }
        if (r == s->world->rank) {
            s->line = line;
        }
        q->error = fmax(q->error, error / 1e3);
        q->residual = fmax(q->residual, s->all[r].residual / 1e3);
        q->round_trip = fmax(q->round_trip, s->all[r].round_trip / 1e3);
        q->predicted = fmax(q->predicted, fabs(s->all[r].predicted) / 1e3);
        q->drift_ppm = fmax(q->drift_ppm, fabs(line.drift) * 1e6);
        q->steps += (uint64_t)s->all[r].steps;
    }
}

void k3_sync_refit(k3_sync_t *s)
{
    const k3_clock_fit_t *f = &s->fit;
    MPI_Request           request;
    shared_t              own;

    k3_watchdog_tick("comparison of the clocks", s->quality.fits);
    compare_all(s);
    own = (shared_t){f->line.anchor, f->line.offset, f->line.drift, k3_clock_fit_error(f),
                     f->residual,    f->round_trip,  f->predicted,  (double)f->steps};
    MPI_Iallgather(&own, SHARED_VALUES, MPI_DOUBLE, s->all, SHARED_VALUES, MPI_DOUBLE, s->comm,
                   &request);
    wait_asleep(&request);
    judge(s, s->quality.fits + 1);
    s->last = k3_clock_source_now(&s->clock);
}

bool k3_sync_due(const k3_sync_t *s)
{
    return k3_clock_source_now(&s->clock) - s->last > refit_after;
}

/* --- opening --------------------------------------------------------------------------------- */

k3_status_t k3_sync_open(const k3_world_t *world, k3_sync_t **sync_p, k3_error_t *err)
{
    k3_sync_t *s = NULL;
    uint64_t   ranks = (uint64_t)world->size;

    if (k3_alloc("clock", 1, sizeof(*s), &s, err) == K3_OK) {
        s->world = world;
        s->comm = MPI_COMM_NULL;
        s->slack = first_slack;
        s->clock = (k3_clock_source_t){read_ticks, wait_a_little, s, k3_clock_current_scale(),
                                       k3_clock_now()};
        if (k3_alloc("clock tree", ranks, sizeof(int), &s->parent, err) == K3_OK &&
            k3_alloc("clock tree", (uint64_t)world->nodes, sizeof(int), &s->leaders, err) ==
                K3_OK) {
            k3_alloc("clock lines", ranks, sizeof(shared_t), &s->all, err);
        }
    }
    if (k3_world_agree(world, err) != K3_OK) {
        k3_sync_close(s);
        return err->status;
    }
    MPI_Comm_dup(world->comm, &s->comm);
    build_tree(s);
    for (int i = 0; i < FIRST_POINTS; i++) {
        const struct timespec pause = {.tv_nsec = 2000000};

        k3_sync_refit(s);
        nanosleep(&pause, NULL);
    }
    *sync_p = s;
    return K3_OK;
}

void k3_sync_close(k3_sync_t *s)
{
    if (s == NULL) {
        return;
    }
    if (s->comm != MPI_COMM_NULL) {
        MPI_Comm_free(&s->comm);
    }
    k3_free(s->all);
    k3_free(s->leaders);
    k3_free(s->parent);
    k3_free(s);
}

void k3_sync_quality(const k3_sync_t *s, k3_sync_quality_t *quality)
{
    *quality = s->quality;
}

/* --- times and starts ------------------------------------------------------------------------ */

double k3_sync_local(const k3_sync_t *s, uint64_t ticks)
{
    return k3_clock_source_at(&s->clock, ticks);
}

double k3_sync_global(const k3_sync_t *s, double local)
{
    return k3_clock_line_at(&s->line, local);
}

double k3_sync_start(k3_sync_t *s)
{
    double start = 0.0;

    /* All have left the iteration before, else the announcement waits for the last one. */
    MPI_Barrier(s->comm);
    if (s->world->rank == 0) {
        start = k3_clock_source_now(&s->clock) + s->slack;
    }
    MPI_Bcast(&start, 1, MPI_DOUBLE, 0, s->comm);
    return k3_sync_wait_until(&s->clock, k3_clock_line_back(&s->line, start)) / 1e3;
}

void k3_sync_punctuality(k3_sync_t *s, double late_us)
{
    s->slack = k3_sync_next_slack(s->slack, late_us > K3_SYNC_LATE_US ? late_us * 1e3 : 0.0);
}

double k3_sync_slack_us(const k3_sync_t *s)
{
    return s->slack / 1e3;
}
