/* Memory that this node can still give: what the kernel has left, or the control group if that is
 * less. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/mpi/world.h"

typedef unsigned long long bytes_t;

#define NO_LIMIT (~0ULL)

enum { PATH_SIZE = 1024 };

/* The number after `key` in a file of "key number" lines (or the first number when key is NULL);
 * NO_LIMIT when it is missing or "max". */
static bytes_t read_number(const char *path, const char *key)
{
    char    line[512];
    FILE   *file = fopen(path, "r");
    bytes_t value = NO_LIMIT;
    size_t  length = key == NULL ? 0 : strlen(key);

    if (file == NULL) {
        return NO_LIMIT;
    }
    while (value == NO_LIMIT && fgets(line, sizeof(line), file) != NULL) {
        if (key == NULL || strncmp(line, key, length) == 0) {
            char *end, *start = line + length;

            value = strtoull(start, &end, 10);
            value = end == start ? NO_LIMIT : value;
        }
        if (key == NULL) {
            break;
        }
    }
    fclose(file);
    return value;
}

static bytes_t read_in(const char *folder, const char *file, const char *key)
{
    char path[PATH_SIZE + 64];

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    return read_number(path, key);
}

/* What one group leaves; pages of files that the kernel can drop count as free. */
static bytes_t left_in_group(const char *folder, const char *limit_file, const char *used_file,
                             const char *cache_key)
{
    bytes_t limit = read_in(folder, limit_file, NULL);
    bytes_t used = read_in(folder, used_file, NULL);
    bytes_t cache = read_in(folder, "memory.stat", cache_key);

    if (limit == NO_LIMIT || used == NO_LIMIT) {
        return NO_LIMIT;
    }
    used -= cache == NO_LIMIT || cache > used ? 0 : cache;
    return used > limit ? 0 : limit - used;
}

/* The smallest rest from `group` (a path below `root`) up to the root; every group above binds too.
 */
static bytes_t left_above(const char *root, char *group, const char *limit_file,
                          const char *used_file, const char *cache_key)
{
    bytes_t least = NO_LIMIT;

    for (;;) {
        char    folder[PATH_SIZE];
        bytes_t left;
        char   *slash;

        snprintf(folder, sizeof(folder), "%s%s", root, group);
        left = left_in_group(folder, limit_file, used_file, cache_key);
        least = left < least ? left : least;
        slash = strrchr(group, '/');
        if (slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

static bytes_t left_by_groups(void)
{
    char    line[PATH_SIZE / 2];
    bytes_t least = NO_LIMIT;
    FILE   *file = fopen("/proc/self/cgroup", "r");

    if (file == NULL) {
        return NO_LIMIT;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        char   *first = strchr(line, ':');
        char   *second = first == NULL ? NULL : strchr(first + 1, ':');
        bytes_t left = NO_LIMIT;

        if (second == NULL) {
            continue;
        }
        *second = '\0';
        second[1 + strcspn(second + 1, "\n")] = '\0';
        if (first[1] == '\0') {
            left = left_above("/sys/fs/cgroup", second + 1, "memory.max", "memory.current",
                              "inactive_file ");
        } else if (strstr(first + 1, "memory") != NULL) {
            left = left_above("/sys/fs/cgroup/memory", second + 1, "memory.limit_in_bytes",
                              "memory.usage_in_bytes", "total_inactive_file ");
        }
        least = left < least ? left : least;
    }
    fclose(file);
    return least;
}

unsigned long long k3_node_memory_available(void)
{
    bytes_t kib = read_number("/proc/meminfo", "MemAvailable:");
    bytes_t free_bytes = kib == NO_LIMIT ? NO_LIMIT : kib * 1024;
    bytes_t left = left_by_groups();

    return left < free_bytes ? left : free_bytes;
}
