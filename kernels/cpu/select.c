/* The kernels of this CPU, chosen at run time. */
#include <pthread.h>
#include <string.h>

#include "kernels/cpu/avx2.h"

const char *const k3_kernels_isa_names[] = {"auto", "avx2", "scalar", NULL};

static const k3_kernels_t *avx2_if_usable(void)
{
#if defined(__x86_64__)
    /* F16C, older than AVX2, is in every CPU with it; not every compiler can ask for it. */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, k3_avx2_prepare_e4m3);
        return &k3_kernels_avx2;
    }
#endif
    return NULL;
}

const k3_kernels_t *k3_kernels_cpu(const char *isa)
{
    const k3_kernels_t *avx2 = avx2_if_usable();

    if (isa == NULL || strcmp(isa, "auto") == 0) {
        return avx2 != NULL ? avx2 : &k3_kernels_scalar;
    }
    if (strcmp(isa, "avx2") == 0) {
        return avx2;
    }
    return strcmp(isa, "scalar") == 0 ? &k3_kernels_scalar : NULL;
}

const k3_row_ops_t *k3_row_ops_cpu(void)
{
#if defined(__x86_64__)
    if (avx2_if_usable() != NULL) {
        return &k3_row_ops_avx2;
    }
#endif
    return &k3_row_ops_scalar;
}
