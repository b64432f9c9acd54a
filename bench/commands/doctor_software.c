#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "bench/commands/doctor.h"
#include "bench/commands/version.h"
#include "harness/mpi/transports.h"
#include "harness/record/fingerprint.h"

/* --- libraries --------------------------------------------------------------------------------- */

/* The first "A.B" of a text such as "Open MPI v4.1.4"; false when it has none. */
static bool version_of(const char *text, long *major, long *minor)
{
    for (const char *c = text; c != NULL && *c != '\0'; c++) {
        char *end;

        if (isdigit((unsigned char)*c)) {
            *major = strtol(c, &end, 10);
            if (*end == '.' && isdigit((unsigned char)end[1])) {
                *minor = strtol(end + 1, NULL, 10);
                return true;
            }
            c = end - 1;
        }
    }
    return false;
}

static void compare_versions(const char *name, const char *built, const char *loaded,
                             k3_findings_t *out)
{
    long          a[2], b[2];
    k3_finding_t *line = k3_find(out, "software", name, "%s (compiled with %s)", loaded, built);

    if (!version_of(built, &a[0], &a[1]) || !version_of(loaded, &b[0], &b[1])) {
        return;
    }
    if (a[0] != b[0]) {
        k3_advise(
            line, K3_LEVEL_BAD,
            "another major version than at build time: build again with what is loaded, or see "
            "LD_LIBRARY_PATH");
    } else if (b[1] < a[1]) {
        k3_advise(line, K3_LEVEL_WARN, "older than at build time: see LD_LIBRARY_PATH");
    }
}

static void look_at_versions(k3_findings_t *out)
{
    static const struct {
        const char *key, *name;
    } libraries[] = {{"mpi", "MPI"}, {"ucx", "UCX"}, {"hwloc", "hwloc"}};
    json_t *built = k3_version_build(), *loaded = k3_version_loaded();

    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        compare_versions(libraries[i].name,
                         json_string_value(json_object_get(built, libraries[i].key)),
                         json_string_value(json_object_get(loaded, libraries[i].key)), out);
    }
    k3_find(out, "software", "dense layers", "%s",
            json_string_value(json_object_get(loaded, "dense")));
    if (strcmp(json_string_value(json_object_get(built, "type")), "Release") != 0) {
        k3_advise(k3_find(out, "software", "build", "%s",
                          json_string_value(json_object_get(built, "type"))),
                  K3_LEVEL_WARN, "not optimised: measure with the preset release");
    }
    json_decref(built);
    json_decref(loaded);
}

/* --- transports -------------------------------------------------------------------------------- */

typedef struct seen {
    k3_findings_t *out;
    char           text[4][K3_FINDING_TEXT]; /* by kind */
} seen_t;

static const char *const kinds[] = {"network", "shared memory", "accelerator", "self"};

static void note_transport(const char *name, const char *device, const char *kind, void *arg)
{
    seen_t *seen = arg;

    for (size_t i = 0; i < 4; i++) {
        char  *text = seen->text[i];
        size_t used = strlen(text);

        if (strcmp(kind, kinds[i]) == 0 && used + 2 < K3_FINDING_TEXT) {
            snprintf(text + used, K3_FINDING_TEXT - used, "%s%s/%s", used > 0 ? ", " : "", name,
                     device);
        }
    }
}

static void look_at_transports(k3_findings_t *out)
{
    k3_error_t err = K3_ERROR_INIT;
    seen_t     seen = {.out = out};
    char       memory[K3_FINDING_TEXT];

    if (k3_transports_list(note_transport, &seen, &err) != K3_OK) {
        k3_advise(k3_find(out, "ucx", "transports", "none"), K3_LEVEL_BAD, "%.250s", err.text);
        return;
    }
    for (size_t i = 0; i < 4; i++) {
        k3_find(out, "ucx", kinds[i], "%s", seen.text[i][0] != '\0' ? seen.text[i] : "none");
    }
    if (k3_transports_memory(memory, sizeof(memory), &err) == K3_OK) {
        k3_find(out, "ucx", "memory", "%s", memory);
    }
}

/* --- environment -------------------------------------------------------------------------------- */

/* Beginnings of names; a variable that is in no row changes nothing that matters, or is the launcher's.
 */
static const struct {
    const char *head, *advice;
} changing[] = {
    {"LD_PRELOAD", "a preloaded library stands between the program and its calls: unset it"},
    {"LD_AUDIT", "an audit library stands between the program and its calls: unset it"},
    {"MALLOC_", "the allocator behaves in another way than by default"},
    {"GLIBC_TUNABLES", "the C library behaves in another way than by default"},
    {"UCX_", "transports or their settings are chosen by hand: compare with runs of the same only"},
    {"OMPI_MCA_pml", "the transport of MPI is chosen by hand"},
    {"OMPI_MCA_btl", "the transport of MPI is chosen by hand"},
    {"OMPI_MCA_mtl", "the transport of MPI is chosen by hand"},
    {"OMPI_MCA_coll", "the collectives of MPI are chosen by hand"},
    {"DNNL_", "the dense layers run in another way than by default"},
    {"ONEDNN_", "the dense layers run in another way than by default"},
};

/* Paths, lists, numbers and flags; anything else may be private and is not repeated. */
static bool is_plain(const char *value)
{
    return strlen(value) < 120 &&
           strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                         "_.,:/^=+- ") == strlen(value);
}

static void look_at_environment(k3_findings_t *out)
{
    json_t     *environment = k3_environment();
    const char *name;
    json_t     *value;
    unsigned    silent = 0;

    json_object_foreach(environment, name, value)
    {
        const char *text = json_string_value(value), *advice = NULL;

        for (size_t i = 0; i < sizeof(changing) / sizeof(changing[0]) && advice == NULL; i++) {
            if (strncmp(name, changing[i].head, strlen(changing[i].head)) == 0) {
                advice = changing[i].advice;
            }
        }
        if (advice == NULL) {
            silent++;
            continue;
        }
        k3_advise(k3_find(out, "environment", name, "%s",
                          text != NULL && is_plain(text) ? text : "set (value not shown)"),
                  K3_LEVEL_WARN, "%s", advice);
    }
    k3_find(out, "environment", "others", "%u known variables that change no figure", silent)
        ->varies = true;
    json_decref(environment);
}

void k3_doctor_software(k3_findings_t *findings)
{
    look_at_versions(findings);
    look_at_transports(findings);
    look_at_environment(findings);
}
