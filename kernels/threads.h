/* The threads of this process that the kernels compute on. */
#ifndef K3_KERNELS_THREADS_H
#define K3_KERNELS_THREADS_H

#include <stddef.h>

/* At least 1, which is what a process begins with; fewer than asked for when the system refuses
 * more. Not to be called while a kernel runs. */
void k3_threads_set(int count);
int  k3_threads(void);

/* Calls task(arg, i) once for each i < count, on all threads, in no order; returns when all are
 * done. With one thread or one task it is a loop. The caller takes part, and waits at the end for
 * none but those that are within a task: a thread that gets no core holds nobody up. Who waits
 * sleeps. Called by one thread at a time, not from within a task. */
typedef void (*k3_task_t)(void *arg, size_t index);
void k3_parallel(size_t count, k3_task_t task, void *arg);
int  k3_thread_index(void); /* within a task: 0 .. k3_threads() - 1 */

/* How many threads oneDNN may start in a call by this thread, where it is built on OpenMP as in
 * Debian. The threads of k3_parallel have 1. */
void k3_threads_of_library(int count);

#endif
