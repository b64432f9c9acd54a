/* The threads of this process that the kernels compute on, those of the OpenMP runtime that oneDNN
 * uses too. */
#ifndef K3_KERNELS_THREADS_H
#define K3_KERNELS_THREADS_H

#include <stddef.h>

/* At least 1, which is what a process begins with. Not to be called while a kernel runs. */
void k3_threads_set(int count);
int  k3_threads(void);

/* Calls task(arg, i) once for each i < count, on all threads, in no order; returns when all are
 * done. With one thread or one task it is a loop. */
typedef void (*k3_task_t)(void *arg, size_t index);
int  k3_thread_index(void); /* within a task: 0 .. k3_threads() - 1 */
void k3_parallel(size_t count, k3_task_t task, void *arg);

#endif
