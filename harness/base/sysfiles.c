#include "harness/base/sysfiles.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *open_below(const char *root, const char *path)
{
    char full[2 * K3_SYS_PATH];
    int  length = snprintf(full, sizeof(full), "%s%s", root, path);

    return length > 0 && length < (int)sizeof(full) ? fopen(full, "re") : NULL;
}

/* What a driver or a captured tree says is shown to people: control characters become blanks. */
static void clean(char *text)
{
    size_t length = strcspn(text, "\n");

    text[length] = '\0';
    for (char *c = text; *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x20 || (unsigned char)*c == 0x7f ? ' ' : *c;
    }
    while (length > 0 && text[length - 1] == ' ') {
        text[--length] = '\0';
    }
}

bool k3_sys_line(const char *root, const char *path, char text[K3_SYS_LINE])
{
    FILE *file = open_below(root, path);
    bool  found;

    if (file == NULL) {
        return false;
    }
    found = fgets(text, K3_SYS_LINE, file) != NULL;
    (void)fclose(file);
    if (found) {
        clean(text);
    }
    return found;
}

bool k3_sys_field(const char *root, const char *path, const char *head, char text[K3_SYS_LINE])
{
    FILE *file = open_below(root, path);
    bool  found = false;

    if (file == NULL) {
        return false;
    }
    while (!found && fgets(text, K3_SYS_LINE, file) != NULL) {
        found = strncmp(text, head, strlen(head)) == 0;
    }
    (void)fclose(file);
    if (found) {
        char *rest = text + strlen(head);

        rest += strspn(rest, " \t");
        memmove(text, rest, strlen(rest) + 1);
        clean(text);
    }
    return found;
}

bool k3_sys_chosen(const char *root, const char *path, char text[K3_SYS_LINE])
{
    char *open, *close;

    if (!k3_sys_line(root, path, text)) {
        return false;
    }
    open = strchr(text, '[');
    close = open == NULL ? NULL : strchr(open, ']');
    if (close != NULL) {
        *close = '\0';
        memmove(text, open + 1, strlen(open + 1) + 1);
    }
    return true;
}

bool k3_sys_number(const char *root, const char *path, int64_t *value)
{
    char text[K3_SYS_LINE], *end;

    if (!k3_sys_line(root, path, text)) {
        return false;
    }
    *value = strtoll(text, &end, 10);
    return end != text;
}

bool k3_sys_load(const char *root, double *load)
{
    char text[K3_SYS_LINE], *end;

    if (!k3_sys_line(root, "/proc/loadavg", text)) {
        return false;
    }
    *load = strtod(text, &end);
    return end != text;
}

long k3_sys_cores(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    return online > 0 ? online : 1;
}

bool k3_sys_exists(const char *root, const char *path)
{
    char full[2 * K3_SYS_PATH];
    int  length = snprintf(full, sizeof(full), "%s%s", root, path);

    return length > 0 && length < (int)sizeof(full) && access(full, F_OK) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

void k3_sys_list(const char *root, const char *folder, k3_sys_names_t *names)
{
    char           full[2 * K3_SYS_PATH];
    int            length = snprintf(full, sizeof(full), "%s%s", root, folder);
    DIR           *open = length > 0 && length < (int)sizeof(full) ? opendir(full) : NULL;
    struct dirent *entry;

    names->count = 0;
    if (open == NULL) {
        return;
    }
    while (names->count < K3_SYS_NAMES_MAX && (entry = readdir(open)) != NULL) {
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < K3_SYS_NAME) {
            memcpy(names->name[names->count++], entry->d_name, strlen(entry->d_name) + 1);
        }
    }
    (void)closedir(open);
    qsort(names->name, names->count, sizeof(names->name[0]), compare_names);
}

unsigned k3_sys_count_ids(const char *list)
{
    uint64_t count = 0;

    for (const char *at = list; *at != '\0';) {
        char              *end;
        unsigned long long first = strtoull(at, &end, 10), last = first;

        if (end == at) {
            return 0;
        }
        if (*end == '-') {
            at = end + 1;
            last = strtoull(at, &end, 10);
            if (end == at || last < first) {
                return 0;
            }
        }
        count += last - first + 1;
        if ((*end != ',' && *end != '\0') || count > UINT32_MAX) {
            return 0;
        }
        at = *end == ',' ? end + 1 : end;
    }
    return (unsigned)count;
}

/* --- control groups --------------------------------------------------------------------------- */

/* Whether the comma separated list of controllers of a /proc/self/cgroup line holds the word. */
static bool holds(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* `group` is cut from its end until nothing is left. */
static void visit_upwards(const char *root, const char *top, char *group, bool version2,
                          k3_sys_group_visit_t visit, void *arg)
{
    for (;;) {
        char  folder[K3_SYS_PATH];
        char *slash;
        int   length = snprintf(folder, sizeof(folder), "%s%s", top, group);

        if (length < (int)sizeof(folder) && k3_sys_exists(root, folder)) {
            visit(root, folder, version2, arg);
        }
        slash = strrchr(group, '/');
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

void k3_sys_groups(const char *root, const char *controller, k3_sys_group_visit_t visit, void *arg)
{
    FILE *file = open_below(root, "/proc/self/cgroup");
    char  line[K3_SYS_LINE], top[K3_SYS_LINE];

    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        char *list = strchr(line, ':');
        char *group = list == NULL ? NULL : strchr(list + 1, ':');

        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (strcmp(group, "/") == 0) {
            group[0] = '\0';
        }
        if (list[1] == '\0') {
            visit_upwards(root, "/sys/fs/cgroup", group, true, visit, arg);
        } else if (holds(list + 1, controller)) {
            (void)snprintf(top, sizeof(top), "/sys/fs/cgroup/%s", controller);
            visit_upwards(root, top, group, false, visit, arg);
        }
    }
    (void)fclose(file);
}

typedef struct least {
    bool   found;
    double value;
} least_t;

static void keep_least(least_t *least, double value)
{
    if (!least->found || value < least->value) {
        *least = (least_t){true, value};
    }
}

/* Version 2 "QUOTA PERIOD" or "max PERIOD", version 1 two files with -1 for no limit. */
static void visit_quota(const char *root, const char *folder, bool version2, void *arg)
{
    char    path[K3_SYS_PATH + 32], text[K3_SYS_LINE];
    double  quota = -1, period = 0;
    int64_t value = 0;

    if (version2) {
        (void)snprintf(path, sizeof(path), "%s/cpu.max", folder);
        if (!k3_sys_line(root, path, text) || sscanf(text, "%lf %lf", &quota, &period) != 2) {
            return;
        }
    } else {
        (void)snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
        quota = k3_sys_number(root, path, &value) ? (double)value : -1;
        (void)snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
        period = k3_sys_number(root, path, &value) ? (double)value : 0;
    }
    if (quota > 0 && period > 0) {
        keep_least(arg, quota / period);
    }
}

bool k3_sys_cpu_quota(const char *root, double *cpus)
{
    least_t least = {0};

    k3_sys_groups(root, "cpu", visit_quota, &least);
    *cpus = least.value;
    return least.found;
}

/* Version 1 says "no limit" with a number near 2^63. */
static void visit_memory(const char *root, const char *folder, bool version2, void *arg)
{
    char    path[K3_SYS_PATH + 32];
    int64_t bytes;

    (void)snprintf(path, sizeof(path), "%s/%s", folder,
                   version2 ? "memory.max" : "memory.limit_in_bytes");
    if (k3_sys_number(root, path, &bytes) && bytes >= 0 && bytes < INT64_C(1) << 60) {
        keep_least(arg, (double)bytes);
    }
}

bool k3_sys_memory_limit(const char *root, uint64_t *bytes)
{
    least_t least = {0};

    k3_sys_groups(root, "memory", visit_memory, &least);
    *bytes = (uint64_t)least.value;
    return least.found;
}

static void visit_throttled(const char *root, const char *folder, bool version2, void *arg)
{
    uint64_t *counts = arg;
    char      path[K3_SYS_PATH + 32], text[K3_SYS_LINE];

    (void)version2;
    (void)snprintf(path, sizeof(path), "%s/cpu.stat", folder);
    if (k3_sys_field(root, path, "nr_throttled ", text)) {
        uint64_t held_back = strtoull(text, NULL, 10);

        if (held_back >= counts[0] && k3_sys_field(root, path, "nr_periods ", text)) {
            counts[0] = held_back;
            counts[1] = strtoull(text, NULL, 10);
        }
    }
}

bool k3_sys_throttled(const char *root, uint64_t *held_back, uint64_t *periods)
{
    uint64_t counts[2] = {0, 0};

    k3_sys_groups(root, "cpu", visit_throttled, counts);
    *held_back = counts[0];
    *periods = counts[1];
    return counts[1] > 0;
}

/* --- what the machine is set to ---------------------------------------------------------------- */

bool k3_sys_turbo(const char *root, bool *on)
{
    char text[K3_SYS_LINE];

    if (k3_sys_line(root, "/sys/devices/system/cpu/intel_pstate/no_turbo", text)) {
        *on = text[0] == '0';
        return true;
    }
    if (k3_sys_line(root, "/sys/devices/system/cpu/cpufreq/boost", text)) {
        *on = text[0] == '1';
        return true;
    }
    return false;
}
