#include "bench/engines/fused_engine.h"

#include <string.h>

static void *help(void *arg)
{
    fused_helper_t *h = arg;

    pthread_mutex_lock(&h->lock);
    while (!h->quit) {
        if (!h->asked) {
            pthread_cond_wait(&h->wake, &h->lock);
            continue;
        }
        h->asked = false;
        pthread_mutex_unlock(&h->lock);
        h->work(h->arg);
        __atomic_store_n(&h->done, true, __ATOMIC_RELEASE);
        pthread_mutex_lock(&h->lock);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

k3_status_t k3_helper_create(fused_helper_t *h, void (*work)(void *arg), void *arg, k3_error_t *err)
{
    int rc;

    h->work = work;
    h->arg = arg;
    h->done = true;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->wake, NULL);
    rc = pthread_create(&h->thread, NULL, help, h);
    if (rc != 0) {
        pthread_cond_destroy(&h->wake);
        pthread_mutex_destroy(&h->lock);
        return k3_fail(err, K3_ERR_ENV, "cannot create a second thread for the rank: %s",
                       strerror(rc));
    }
    h->exists = true;
    return K3_OK;
}

void k3_helper_run(fused_helper_t *h)
{
    pthread_mutex_lock(&h->lock);
    __atomic_store_n(&h->done, false, __ATOMIC_RELAXED);
    h->asked = true;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
}

void k3_helper_destroy(fused_helper_t *h)
{
    if (!h->exists) {
        return;
    }
    pthread_mutex_lock(&h->lock);
    h->quit = true;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    h->exists = false;
}
