/* Where is everybody? Asked when a job stands still, by the watchdogs alone.
 *
 * MPI cannot be used then: the ranks sit in it. So each watchdog has a UDP socket, whose address all ranks
 * learned at the start. A rank that is asked answers with what it is doing; one that does not answer is
 * stopped, dead or unreachable, and that names it. A random number known to the ranks alone keeps out what
 * does not belong to the launch. */
#ifndef K3_MPI_ROLLCALL_H
#define K3_MPI_ROLLCALL_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/base/status.h"
#include "harness/mpi/world.h"

enum { K3_ROLL_PLACE = 64, K3_ROLL_TEXT = 384, K3_ROLL_VERDICT = 1024 };

/* What a rank is doing. */
typedef struct k3_roll_entry {
    int32_t  rank;
    bool     heard;
    uint64_t step;
    double   idle_s;
    char     place[K3_ROLL_PLACE];
    char     text[K3_ROLL_TEXT]; /* what it waits for; "": for nothing */
} k3_roll_entry_t;

typedef struct k3_rollcall k3_rollcall_t;

/* Collective. NULL where no socket can be made on some rank: then there is no roll call. */
k3_rollcall_t *k3_rollcall_open(const k3_world_t *world);
void           k3_rollcall_close(k3_rollcall_t *roll);

/* To wait on, beside other things. */
int k3_rollcall_socket(const k3_rollcall_t *roll);

/* Tells all other watchdogs that the job ends; each of them reports then. */
void k3_rollcall_alarm(k3_rollcall_t *roll, int rank);

/* Asks all ranks. */
void k3_rollcall_ask(k3_rollcall_t *roll, int rank);

/* Tells all others that what there was to say has been said: none needs to answer any longer. */
void k3_rollcall_told(k3_rollcall_t *roll, int rank);

/* Tells all others that this rank gets on with what they wait for. */
void k3_rollcall_working(k3_rollcall_t *roll, int rank);

/* Tells all others why this rank ends the job, just before it does. */
void k3_rollcall_last_words(k3_rollcall_t *roll, int rank, const char *text);

/* Who said so first, and what (text); NULL: nobody that was heard. Valid until the roll call is closed. */
const k3_roll_entry_t *k3_rollcall_words(const k3_rollcall_t *roll);

/* What has come. */
typedef struct k3_roll_news {
    int  alarm_by; /* rank; -1: no alarm was among it */
    bool told;
    bool working; /* some rank */
} k3_roll_news_t;

/* Reads it: answers go into entries[size] (NULL: dropped), questions are answered with `own`. */
k3_roll_news_t k3_rollcall_read(k3_rollcall_t *roll, const k3_roll_entry_t *own,
                                k3_roll_entry_t *entries);

/* Ranks of entries[size] that have not answered. */
int k3_rollcall_silent(const k3_roll_entry_t *entries, int size);

/* A line for people for each place that ranks are in. */
void k3_rollcall_print(const k3_roll_entry_t *entries, int size, char (*hosts)[K3_HOST_MAX]);

/* Who holds the others up, in one line: the silent ones, or those behind, or those that wait for
 * nobody, or those that are elsewhere than most. */
void k3_rollcall_judge(const k3_roll_entry_t *entries, int size, char (*hosts)[K3_HOST_MAX],
                       char verdict[K3_ROLL_VERDICT]);

#endif
