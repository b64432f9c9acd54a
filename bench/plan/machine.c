#include "bench/plan/machine.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/base/inifile.h"
#include "harness/base/options.h"
#include "harness/base/sysfiles.h"

#ifndef K3BENCH_SOURCE_DIR
#define K3BENCH_SOURCE_DIR "."
#endif

#define FOLDER "results/machines"

const char *const k3_source_kind_names[] = {"datasheet", "published", "secondary",
                                            "measured",  "decided",   NULL};

const double k3_work_mb[K3_WORK_SIZES] = {1, 8, 64}, k3_work_kb[K3_WORK_SPREADS] = {4, 64};

typedef struct figure_def {
    const char *name;
    double      least, most;
} figure_def_t;

#define WORK_DEFS(work, name)                                                                      \
    [K3_FIG_WORK_US(work, 0)] = {name "_4kb_us", 0, 1e6},                                          \
                          [K3_FIG_WORK_US(work, 1)] = {name "_64kb_us", 0, 1e6},                   \
                          [K3_FIG_WORK_GBPS(work, 0)] = {name "_1mb_gbps", 1e-3, 1e6},             \
                          [K3_FIG_WORK_GBPS(work, 1)] = {name "_8mb_gbps", 1e-3, 1e6},             \
                          [K3_FIG_WORK_GBPS(work, 2)] = {name "_64mb_gbps", 1e-3, 1e6}

/* Bounds of what can be meant: they catch a slip of unit, not an odd machine. */
static const figure_def_t defs[K3_FIG_COUNT] = {
    [K3_FIG_RANKS_PER_NODE] = {"ranks_per_node", 1, 65536},
    [K3_FIG_CORES_PER_NODE] = {"cores_per_node", 0, 65536},
    [K3_FIG_MEMORY_GB] = {"memory_gb", 0.1, 1e5},
    [K3_FIG_MEMORY_GBPS] = {"memory_gbps", 0.1, 1e6},
    [K3_FIG_BF16_TFLOPS] = {"bf16_tflops", 1e-3, 1e6},
    [K3_FIG_FP8_TFLOPS] = {"fp8_tflops", 1e-3, 1e6},
    [K3_FIG_FP4_TFLOPS] = {"fp4_tflops", 1e-3, 1e6},
    [K3_FIG_SCALEUP_GBPS] = {"scaleup_gbps", 0.01, 1e5},
    [K3_FIG_SCALEUP_LINKS] = {"scaleup_links", 0, 4096},
    [K3_FIG_NIC_GBPS] = {"nic_gbps", 0.001, 1e5},
    [K3_FIG_SMS] = {"sms", 1, 1e5},
    [K3_FIG_GEMM_TILE] = {"gemm_tile", 16, 4096},
    [K3_FIG_SCALEUP_LATENCY_US] = {"scaleup_latency_us", 1e-4, 1e6},
    [K3_FIG_NETWORK_LATENCY_US] = {"network_latency_us", 1e-4, 1e6},
    [K3_FIG_MESSAGE_US] = {"message_us", 1e-5, 1e6},
    [K3_FIG_SIGNAL_US] = {"signal_us", 1e-5, 1e6},
    [K3_FIG_DOORBELL_US] = {"doorbell_us", 0, 1e6},
    [K3_FIG_STORE_MESSAGE_US] = {"store_message_us", 1e-5, 1e6},
    [K3_FIG_STORE_SIGNAL_US] = {"store_signal_us", 1e-5, 1e6},
    [K3_FIG_STORE_PEAK_GBPS] = {"store_peak_gbps", 1e-3, 1e6},
    [K3_FIG_COPY_GBPS] = {"copy_gbps", 1e-3, 1e6},
    [K3_FIG_WEIGHTS_GBPS] = {"weights_gbps", 1e-3, 1e6},
    [K3_FIG_GEMM_GFLOPS] = {"gemm_gflops", 1e-3, 1e9},
    [K3_FIG_BARRIER_US] = {"barrier_us", 1e-3, 1e9},
    [K3_FIG_SWITCH_US] = {"switch_us", 1e-4, 1e6},
    [K3_FIG_NETWORK_MESSAGE_US] = {"network_message_us", 0, 1e6},
    [K3_FIG_NETWORK_SIGNAL_US] = {"network_signal_us", 0, 1e6},
    [K3_FIG_FINISH_US] = {"finish_us", 0, 1e9},
    [K3_FIG_FINISH_LANE_US] = {"finish_lane_us", 0, 1e6},
    [K3_FIG_LAUNCH_US] = {"launch_us", 0, 1e6},
    [K3_FIG_CALIBRATION_LOAD] = {"calibration_load", 0, 1e6},
    [K3_FIG_EXPERT_US] = {"expert_us", 0, 1e6},
    [K3_FIG_FEED_GBPS] = {"feed_gbps", 1, 1e5},
    [K3_FIG_UNPACK_GPS] = {"unpack_gps", 0.01, 1e5},
    [K3_FIG_QP_MESSAGE_US] = {"qp_message_us", 0, 1e6},
    WORK_DEFS(K3_WORK_ENCODE, "encode"),
    WORK_DEFS(K3_WORK_STORE, "store"),
    WORK_DEFS(K3_WORK_FORWARD, "forward"),
    WORK_DEFS(K3_WORK_REDUCE, "reduce"),
    WORK_DEFS(K3_WORK_OWN_STORE, "own_store"),
    WORK_DEFS(K3_WORK_OWN_FORWARD, "own_forward"),
    WORK_DEFS(K3_WORK_OWN_REDUCE, "own_reduce"),
    [K3_FIG_SCALEUP_SHARE] = {"scaleup_share", 0.01, 1.5},
    [K3_FIG_NIC_SHARE] = {"nic_share", 0.01, 1.5},
    [K3_FIG_MEMORY_SHARE] = {"memory_share", 0.01, 1.5},
    [K3_FIG_WEIGHTS_SHARE] = {"weights_share", 0.01, 1.5},
    [K3_FIG_GEMM_SHARE] = {"gemm_share", 0.01, 1.5},
};

const char *k3_figure_name(k3_figure_t figure)
{
    return defs[figure].name;
}

double k3_figure(const k3_machine_file_t *machine, k3_figure_t figure, double otherwise)
{
    return machine->figure[figure].known ? machine->figure[figure].value : otherwise;
}

void k3_machine_set(k3_machine_file_t *machine, k3_figure_t figure, double value,
                    k3_source_kind_t kind, const char *source)
{
    k3_machine_figure_t *f = &machine->figure[figure];

    if (!isfinite(value) || value < defs[figure].least || value > defs[figure].most) {
        return;
    }
    *f = (k3_machine_figure_t){.known = true, .value = value, .kind = kind};
    (void)snprintf(f->source, sizeof(f->source), "%s", source);
}

/* --- reading ----------------------------------------------------------------------------------- */

typedef struct reading {
    k3_machine_file_t *machine;
    bool               seen[K3_FIG_COUNT];
} reading_t;

static char *trimmed(char *text)
{
    size_t length;

    text += strspn(text, " \t");
    length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) {
        text[--length] = '\0';
    }
    return text;
}

static k3_status_t read_kind(const char *where, char *text, k3_machine_figure_t *f, k3_error_t *err)
{
    char  *colon = strchr(text, ':');
    size_t index;

    if (colon == NULL || trimmed(colon + 1)[0] == '\0') {
        return k3_fail(err, K3_ERR_USAGE,
                       "%s: the source is \"%.60s\"; it must be KIND: WHERE FROM", where, text);
    }
    *colon = '\0';
    if (k3_parse_name(where, trimmed(text), k3_source_kind_names, &index, err) != K3_OK) {
        return err->status;
    }
    f->kind = (k3_source_kind_t)index;
    (void)snprintf(f->source, sizeof(f->source), "%s", trimmed(colon + 1));
    return K3_OK;
}

static k3_status_t read_figure(const char *where, k3_figure_t figure, const char *value,
                               k3_machine_figure_t *f, k3_error_t *err)
{
    char  copy[512];
    char *bar;

    (void)snprintf(copy, sizeof(copy), "%s", value);
    bar = strchr(copy, '|');
    if (bar == NULL) {
        return k3_fail(err, K3_ERR_USAGE,
                       "%s: \"%.80s\" has no source; a line is NAME = VALUE | "
                       "KIND: WHERE FROM",
                       where, value);
    }
    *bar = '\0';
    if (read_kind(where, trimmed(bar + 1), f, err) != K3_OK) {
        return err->status;
    }
    f->known = strcmp(trimmed(copy), "unknown") != 0;
    return !f->known ? K3_OK
                     : k3_parse_double(where, trimmed(copy), defs[figure].least, defs[figure].most,
                                       &f->value, err);
}

static k3_status_t read_entry(void *user, const k3_ini_entry_t *entry, k3_error_t *err)
{
    reading_t  *reading = user;
    const char *key = entry->key, *value = entry->value;
    const char *names[K3_FIG_COUNT + 2] = {NULL};
    char        where[256];
    const char *near;

    if (value == NULL) {
        return K3_OK; /* heads of sections have no meaning here */
    }
    (void)snprintf(where, sizeof(where), "%.180s:%d: %.40s", entry->path, entry->line, key);
    if (strcmp(key, "what") == 0) {
        (void)snprintf(reading->machine->what, sizeof(reading->machine->what), "%s", value);
        return K3_OK;
    }
    for (int i = 0; i < K3_FIG_COUNT; i++) {
        names[i] = defs[i].name;
        if (strcmp(key, defs[i].name) == 0) {
            if (reading->seen[i]) {
                return k3_fail(err, K3_ERR_USAGE, "%s stands twice", where);
            }
            reading->seen[i] = true;
            return read_figure(where, (k3_figure_t)i, value, &reading->machine->figure[i], err);
        }
    }
    near = k3_nearest(key, names);
    return k3_fail(err, K3_ERR_USAGE, "%s is no figure of a machine%s%s%s", where,
                   near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                   near != NULL ? "?" : "");
}

/* --- finding ----------------------------------------------------------------------------------- */

/* From the working folder, then from where the program was built. */
static bool find_below(const char *file, char path[K3_SYS_PATH])
{
    static const char *const tops[] = {".", K3BENCH_SOURCE_DIR};

    for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++) {
        int length = snprintf(path, K3_SYS_PATH, "%s/%s", tops[i], file);

        if (length < K3_SYS_PATH && access(path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

bool k3_machine_busy(const k3_machine_file_t *machine, char *text, size_t size)
{
    double share = k3_figure(machine, K3_FIG_CALIBRATION_LOAD, 0.0);

    if (share <= K3_SYS_BUSY_SHARE) {
        return false;
    }
    (void)snprintf(
        text, size,
        "machine %s was calibrated at a load of %.2f a core: other programs took part of "
        "its rates, and limits and predictions are too slow; calibrate it again",
        machine->name, share);
    return true;
}

bool k3_machine_has_local(void)
{
    return access(K3_MACHINE_LOCAL, R_OK) == 0;
}

static k3_status_t refuse_name(const char *name, k3_error_t *err)
{
    static k3_sys_names_t found;
    char                  path[K3_SYS_PATH], list[400] = "local";

    if (strcmp(name, "local") == 0) {
        return k3_fail(err, K3_ERR_USAGE,
                       "machine: there is no %s; make it with " K3_MACHINE_MAKE_LOCAL,
                       K3_MACHINE_LOCAL);
    }
    found.count = 0;
    if (find_below(FOLDER, path)) {
        k3_sys_list("", path, &found);
    }
    for (unsigned i = 0; i < found.count; i++) {
        size_t used = strlen(list), length = strlen(found.name[i]);

        if (length > 4 && strcmp(found.name[i] + length - 4, ".ini") == 0) {
            (void)snprintf(list + used, sizeof(list) - used, ", %.*s", (int)length - 4,
                           found.name[i]);
        }
    }
    return k3_fail(err, K3_ERR_USAGE,
                   "machine: \"%.80s\" is unknown; there are %s, or a path with a "
                   "'/'",
                   name, list);
}

static bool is_name(const char *name)
{
    return name[0] != '\0' && strlen(name) < K3_MACHINE_NAME - 8 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(name);
}

static k3_status_t check_whole(const char *path, const k3_machine_file_t *machine, k3_error_t *err)
{
    static const k3_figure_t needed[] = {K3_FIG_RANKS_PER_NODE, K3_FIG_MEMORY_GB,
                                         K3_FIG_MEMORY_GBPS};

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (!machine->figure[needed[i]].known) {
            return k3_fail(err, K3_ERR_USAGE, "%.200s: %s is missing", path, defs[needed[i]].name);
        }
    }
    return K3_OK;
}

k3_status_t k3_machine_read(const char *name, k3_machine_file_t *machine, k3_error_t *err)
{
    char      path[K3_SYS_PATH], file[K3_MACHINE_NAME + 32];
    reading_t reading = {.machine = machine};
    bool      found = true;

    memset(machine, 0, sizeof(*machine));
    (void)snprintf(machine->name, sizeof(machine->name), "%.63s", name);
    if (strchr(name, '/') != NULL) {
        (void)snprintf(path, sizeof(path), "%.1000s", name);
    } else if (strcmp(name, "local") == 0) {
        (void)snprintf(path, sizeof(path), "%s", K3_MACHINE_LOCAL);
        found = k3_machine_has_local();
    } else {
        (void)snprintf(file, sizeof(file), FOLDER "/%.60s.ini", is_name(name) ? name : "");
        found = is_name(name) && find_below(file, path);
    }
    if (!found) {
        return refuse_name(name, err);
    }
    if (k3_ini_read(path, read_entry, &reading, err) != K3_OK) {
        return err->status;
    }
    return check_whole(path, machine, err);
}

/* --- writing ----------------------------------------------------------------------------------- */

void k3_machine_print(const k3_machine_file_t *machine, FILE *out)
{
    fprintf(out, "what = %s\n", machine->what);
    for (int i = 0; i < K3_FIG_COUNT; i++) {
        const k3_machine_figure_t *f = &machine->figure[i];

        if (f->known) {
            fprintf(out, "%s = %.6g | %s: %s\n", defs[i].name, f->value,
                    k3_source_kind_names[f->kind], f->source);
        } else if (f->source[0] != '\0') {
            fprintf(out, "%s = unknown | %s: %s\n", defs[i].name, k3_source_kind_names[f->kind],
                    f->source);
        }
    }
}
