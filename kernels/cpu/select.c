/* The kernels of this CPU, chosen at run time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/avx512.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/mx_bytes.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

const char *const k3_kernels_isa_names[] = {"auto", "amx",  "avx512_bf16", "avx512",
                                            "avx2", "neon", "scalar",      NULL};

enum { TABLES = 5 };

#if defined(__x86_64__)
enum {
    REQUEST_PERMISSION = 0x1023, /* ARCH_REQ_XCOMP_PERM of <asm/prctl.h>, from Linux 5.16 on */
    TILE_DATA = 18               /* the state that is asked for */
};

static bool tiles_permitted;

/* The state of the tiles is large: Linux saves it only for a process that has asked for it. A
 * kernel that knows nothing of it refuses, and so does one on a processor without it. */
static void prepare(void)
{
    k3_avx2_prepare_e4m3();
    k3_mx_prepare();
    k3_bf16_prepare();
    tiles_permitted = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
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

static bool has_avx512_bf16(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;

    return has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1) != 0;
}

/* Called after `prepare`. */
static bool has_amx(void)
{
    const unsigned bf16 = 1u << 22, tile = 1u << 24;
    unsigned       a = 0, b = 0, c = 0, d = 0;

    return has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bf16) != 0 &&
           (d & tile) != 0 && tiles_permitted;
}
#endif

/* The best first. */
static size_t usable(const k3_kernels_t *tables[TABLES])
{
    size_t count = 0;

#if defined(__x86_64__)
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (has_avx2()) {
        pthread_once(&once, prepare);
    }
    if (has_amx()) {
        tables[count++] = &k3_kernels_amx;
    }
    if (has_avx512_bf16()) {
        tables[count++] = &k3_kernels_avx512_bf16;
    }
    if (has_avx512()) {
        tables[count++] = &k3_kernels_avx512;
    }
    if (has_avx2()) {
        tables[count++] = &k3_kernels_avx2;
    }
#elif defined(__aarch64__)
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, k3_mx_prepare);
    tables[count++] = &k3_kernels_neon;
#endif
    tables[count++] = &k3_kernels_scalar;
    return count;
}

const k3_kernels_t *k3_kernels_cpu(const char *isa)
{
    const k3_kernels_t *tables[TABLES];
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
    const k3_kernels_t *tables[TABLES];
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
    return &k3_row_ops_scalar;
#elif defined(__aarch64__)
    return &k3_row_ops_neon;
#else
    return &k3_row_ops_scalar;
#endif
}
