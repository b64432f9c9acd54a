#include "kernels/threads.h"

#include <omp.h>

static int threads = 1;

void k3_threads_set(int count)
{
    threads = count < 1 ? 1 : count;
}

int k3_threads(void)
{
    return threads;
}

int k3_thread_index(void)
{
    return omp_get_thread_num();
}

/* oneDNN starts no threads of its own inside a task: a parallel region within another has one, and
 * outside of regions the calling thread is told so. */
void k3_parallel(size_t count, k3_task_t task, void *arg)
{
    if (threads == 1 || count <= 1) {
        omp_set_num_threads(1);
        for (size_t i = 0; i < count; i++) {
            task(arg, i);
        }
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (size_t i = 0; i < count; i++) {
        task(arg, i);
    }
}
