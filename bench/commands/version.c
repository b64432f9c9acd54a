#include "bench/commands/version.h"

#include <hwloc.h>
#include <mpi.h>
#include <string.h>

#include "bench/commands/accelerators.h"
#include "harness/mpi/qp.h"
#include "harness/record/json_values.h"
#include "kernels/kernels.h"

#ifndef K3BENCH_VERSION
#define K3BENCH_VERSION "0"
#endif
#ifndef K3BENCH_GIT
#define K3BENCH_GIT "unknown"
#endif
#ifndef K3BENCH_BUILD_TYPE
#define K3BENCH_BUILD_TYPE "unknown"
#endif

const char k3_version_text[] = K3BENCH_VERSION;
const char k3_version_git[] = K3BENCH_GIT;

static void mpi_compiled(char *text, size_t size)
{
#ifdef OMPI_MAJOR_VERSION
    snprintf(text, size, "Open MPI %d.%d.%d", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
             OMPI_RELEASE_VERSION);
#else
    snprintf(text, size, "MPI %d.%d", MPI_VERSION, MPI_SUBVERSION);
#endif
}

static void mpi_loaded(char *text, size_t size)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int  length;

    MPI_Get_library_version(library, &length);
    snprintf(text, size, "%.*s", (int)strcspn(library, ",\n"), library);
}

static void hwloc_text(unsigned version, char *text, size_t size)
{
    snprintf(text, size, "%u.%u.%u", version >> 16, version >> 8 & 0xff, version & 0xff);
}

/* What the kernels were compiled for; NULL: the build has none. */
static const char *const built_cuda =
#ifdef K3BENCH_CUDA
    K3BENCH_CUDA;
#else
    NULL;
#endif
static const char *const built_hip =
#ifdef K3BENCH_HIP
    K3BENCH_HIP;
#else
    NULL;
#endif

/* Runtime and driver of a kind that the build has; else "". */
static void device_loaded(const char *kind, char *text, size_t size)
{
    char runtime[K3_DEVICE_VERSION], driver[K3_DEVICE_VERSION];

    text[0] = '\0';
    for (const k3_accelerator_t *a = k3_accelerators; a->kind != NULL; a++) {
        if (strcmp(a->kind->name, kind) == 0) {
            a->kind->versions(runtime, driver);
            snprintf(text, size, "%s, driver %s", runtime, driver);
        }
    }
}

static json_t *loaded_or_null(const char *kind)
{
    char text[96];

    device_loaded(kind, text, sizeof(text));
    return text[0] != '\0' ? json_string(text) : json_null();
}

json_t *k3_version_build(void)
{
    char mpi[128], hwloc[32];

    mpi_compiled(mpi, sizeof(mpi));
    hwloc_text(HWLOC_API_VERSION, hwloc, sizeof(hwloc));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "compiler", "gcc " __VERSION__, "type",
                     K3BENCH_BUILD_TYPE, "mpi", mpi, "ucx", k3_fabric_version_compiled(), "hwloc",
                     hwloc, "cuda", k3_json_string(built_cuda), "hip", k3_json_string(built_hip));
}

json_t *k3_version_loaded(void)
{
    char mpi[128], hwloc[32];

    mpi_loaded(mpi, sizeof(mpi));
    hwloc_text(hwloc_get_api_version(), hwloc, sizeof(hwloc));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "mpi", mpi, "ucx",
                     k3_fabric_version_loaded(), "hwloc", hwloc, "dense", k3_dense_library(),
                     "cuda", loaded_or_null("cuda"), "hip", loaded_or_null("hip"));
}

static void print_device(const char *title, const char *kind, const char *built, FILE *out)
{
    char text[96];

    device_loaded(kind, text, sizeof(text));
    fprintf(out, "  %-7s %-20s %s\n", title, built != NULL ? built : "not built",
            text[0] != '\0' ? text : "-");
}

void k3_version_print(FILE *out)
{
    char mpi[128], loaded[128], hwloc[32], hwloc_now[32];

    mpi_compiled(mpi, sizeof(mpi));
    mpi_loaded(loaded, sizeof(loaded));
    hwloc_text(HWLOC_API_VERSION, hwloc, sizeof(hwloc));
    hwloc_text(hwloc_get_api_version(), hwloc_now, sizeof(hwloc_now));
    fprintf(out, "k3bench %s (%s, %s, gcc %s)\n", K3BENCH_VERSION, K3BENCH_GIT, K3BENCH_BUILD_TYPE,
            __VERSION__);
    fprintf(out, "          compiled             loaded\n");
    fprintf(out, "  MPI     %-20s %s\n", mpi, loaded);
    fprintf(out, "  UCX     %-20s %s\n", k3_fabric_version_compiled(), k3_fabric_version_loaded());
    fprintf(out, "  hwloc   %-20s %s\n", hwloc, hwloc_now);
    fprintf(out, "  dense   %-20s %s\n", "", k3_dense_library());
    print_device("CUDA", "cuda", built_cuda, out);
    print_device("HIP", "hip", built_hip, out);
}
