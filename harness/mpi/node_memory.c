/* Memory that this node can still give: what the kernel has left, or the control group if that is
 * less. */
#include <stdio.h>
#include <stdlib.h>

#include "harness/base/sysfiles.h"
#include "harness/mpi/world.h"

typedef unsigned long long bytes_t;

#define NO_LIMIT (~0ULL)

static bytes_t number_in(const char *root, const char *folder, const char *file)
{
    char    path[K3_SYS_PATH + 64];
    int64_t value;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    return k3_sys_number(root, path, &value) && value >= 0 ? (bytes_t)value : NO_LIMIT;
}

static bytes_t field_in(const char *root, const char *folder, const char *file, const char *head)
{
    char path[K3_SYS_PATH + 64], text[K3_SYS_LINE];

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    return k3_sys_field(root, path, head, text) ? strtoull(text, NULL, 10) : NO_LIMIT;
}

/* What one group leaves; pages of files that the kernel can drop count as free. */
static void visit_group(const char *root, const char *folder, bool version2, void *arg)
{
    bytes_t *least = arg;
    bytes_t  limit = number_in(root, folder, version2 ? "memory.max" : "memory.limit_in_bytes");
    bytes_t  used = number_in(root, folder, version2 ? "memory.current" : "memory.usage_in_bytes");
    bytes_t  cache =
        field_in(root, folder, "memory.stat", version2 ? "inactive_file " : "total_inactive_file ");
    bytes_t left;

    if (limit == NO_LIMIT || used == NO_LIMIT) {
        return;
    }
    used -= cache == NO_LIMIT || cache > used ? 0 : cache;
    left = used > limit ? 0 : limit - used;
    *least = left < *least ? left : *least;
}

unsigned long long k3_node_memory_available(void)
{
    bytes_t kib = field_in("", "/proc", "meminfo", "MemAvailable:");
    bytes_t least = kib == NO_LIMIT ? NO_LIMIT : kib * 1024;

    k3_sys_groups("", "memory", visit_group, &least);
    return least;
}
