/* One thread per rank that ends the job when nothing moves.
 *
 * The measuring code calls k3_watchdog_tick at every step; it costs one store. When no tick came
 * for the limit, the thread prints rank, host and what the rank was doing, calls the roll of the other
 * ranks, and ends the whole job with exit code 4. `where` strings must live until the next tick.
 *
 * SIGTERM, by which launchers end a job whose other ranks have died, is taken here as well: the action
 * on fire is carried out before the process ends by it. */
#ifndef K3_MPI_WATCHDOG_H
#define K3_MPI_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/base/status.h"
#include "harness/mpi/rollcall.h"
#include "harness/mpi/world.h"

k3_status_t k3_watchdog_start(const k3_world_t *world, double limit_seconds, k3_error_t *err);
void        k3_watchdog_stop(void);

/* The work is done, and what there was to say has been said: from here on a SIGTERM, which launchers
 * send when another rank has ended with an error, ends this rank without a word. */
void k3_watchdog_over(void);

/* This rank is about to end the job because of `text`: the others hear it, and the one that leaves the record writes it
 * there. */
void k3_watchdog_last_words(const char *text);

/* Before MPI is started, where no watchdog can be: the process ends with exit code 4 when none has been
 * started within so many seconds. */
void k3_watchdog_guard(double seconds);

/* Another limit from here on. */
void k3_watchdog_limit(double limit_seconds);

/* Held, it still answers and reports but counts no time: the rank computes without steps and waits for
 * nobody. As long as it is, the ranks that wait for this one in MPI are told that it works. */
void k3_watchdog_hold(bool held);

/* At work, it counts time as ever, and tells the ranks that may wait for this one in MPI of its steps. */
void k3_watchdog_work(bool works);

/* Progress: says where the rank is now. `where` names cell or phase, `step` the iteration. */
void k3_watchdog_tick(const char *where, uint64_t step);

/* Something moved inside the present step (a signal seen, a message completed). */
void k3_watchdog_alive(void);

/* Writes what the rank is waiting for ("4 of 112 signals missing, first: source 3, expert 7") into
 * `text`; called by the watchdog thread when it fires. The waiting code sets it before it waits and
 * clears it (NULL) after. */
typedef void (*k3_watchdog_describe_t)(const void *arg, char *text, unsigned size);
void k3_watchdog_describe(k3_watchdog_describe_t describe, const void *arg);

/* The same for the state of the queue pairs, from their making to their end. */
void k3_watchdog_describe_lanes(k3_watchdog_describe_t describe, const void *arg);

/* Called once, on the watchdog's thread, just before the job is ended (to leave a partial record);
 * `reason` says why. */
typedef void (*k3_watchdog_action_t)(void *arg, const char *reason);
void k3_watchdog_on_fire(k3_watchdog_action_t action, void *arg);

/* While no watchdog runs; NULL: none. The caller keeps it. */
void k3_watchdog_roll(k3_rollcall_t *rollcall);

#endif
