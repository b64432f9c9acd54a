/* The kernels of this CPU, chosen at run time. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/avx512.h"

const char *const k3_kernels_isa_names[] = {"auto", "avx512", "avx2", "scalar", NULL};

#if defined(__x86_64__)
static void prepare(void)
{
    k3_avx2_prepare_e4m3();
    k3_avx2_prepare_mx();
}

/* F16C, older than AVX2, is in every CPU with it; not every compiler can ask for it. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

/* The best first. */
static size_t usable(const k3_kernels_t *tables[3])
{
    size_t count = 0;

#if defined(__x86_64__)
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (has_avx2()) {
        pthread_once(&once, prepare);
    }
    if (has_avx512()) {
        tables[count++] = &k3_kernels_avx512;
    }
    if (has_avx2()) {
        tables[count++] = &k3_kernels_avx2;
    }
#endif
    tables[count++] = &k3_kernels_scalar;
    return count;
}

const k3_kernels_t *k3_kernels_cpu(const char *isa)
{
    const k3_kernels_t *tables[3];
    size_t              count = usable(tables);

    if (isa == NULL || strcmp(isa, "auto") == 0) {
        return tables[0];
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(isa, tables[i]->isa) == 0) {
            return tables[i];
        }
    }
    return NULL;
}

const char *k3_kernels_usable(void)
{
    static char         text[64];
    const k3_kernels_t *tables[3];
    size_t              count = usable(tables), used = 0;

    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? ", " : "",
                                 tables[i]->isa);
    }
    return text;
}

const k3_row_ops_t *k3_row_ops_cpu(void)
{
#if defined(__x86_64__)
    if (has_avx2()) {
        return &k3_row_ops_avx2;
    }
#endif
    return &k3_row_ops_scalar;
}
