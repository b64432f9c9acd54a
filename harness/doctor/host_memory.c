#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "harness/base/sysfiles.h"
#include "harness/doctor/host.h"

#define MIB 1048576.0
#define GIB 1073741824.0

static double kib_field(const char *root, const char *head)
{
    char text[K3_SYS_LINE];

    return k3_sys_field(root, "/proc/meminfo", head, text) ? strtod(text, NULL) * 1024.0 : 0.0;
}

static void look_at_amounts(const k3_host_facts_t *f, k3_findings_t *out)
{
    double   total = kib_field(f->root, "MemTotal:"), left = kib_field(f->root, "MemAvailable:");
    uint64_t limit;
    k3_finding_t *line;

    k3_find(out, "memory", "total", "%.1f GiB", total / GIB);
    line = k3_find(out, "memory", "available", "%.1f GiB", left / GIB);
    line->varies = true;
    if (left < GIB) {
        k3_advise(line, K3_LEVEL_BAD, "below 1 GiB: end what holds the memory");
    }
    if (!k3_sys_memory_limit(f->root, &limit)) {
        k3_find(out, "memory", "limit", "none");
        return;
    }
    line = k3_find(out, "memory", "limit", "%.2f GiB (control group)", (double)limit / GIB);
    if ((double)limit < 1.0 * GIB) {
        k3_advise(
            line, K3_LEVEL_BAD,
            "ranks will be killed without a message: raise it (docker --memory, limits.memory)");
    } else if ((double)limit < 4.0 * GIB) {
        k3_advise(line, K3_LEVEL_WARN,
                  "`plan` says what a cell takes for each rank; raise the limit if it is more");
    }
}

static void look_at_huge_pages(const k3_host_facts_t *f, k3_findings_t *out)
{
    char          text[K3_SYS_LINE];
    k3_finding_t *line;

    if (!k3_sys_chosen(f->root, "/sys/kernel/mm/transparent_hugepage/enabled", text)) {
        k3_find(out, "memory", "huge pages", "not shown by the kernel");
        return;
    }
    line = k3_find(out, "memory", "huge pages", "transparent: %s", text);
    if (strcmp(text, "never") == 0) {
        k3_advise(line, K3_LEVEL_WARN,
                  "large buffers cost more address translations: echo madvise > "
                  "/sys/kernel/mm/transparent_hugepage/enabled");
    }
    if (k3_sys_chosen(f->root, "/sys/kernel/mm/transparent_hugepage/defrag", text) &&
        strcmp(text, "always") == 0) {
        k3_advise(line, K3_LEVEL_WARN,
                  "defrag is `always`: a first touch may wait while memory is compacted; use "
                  "madvise or defer");
    }
}

/* Most systems have them off. */
static void look_at_shared_huge_pages(const k3_host_facts_t *f, k3_findings_t *out)
{
    char text[K3_SYS_LINE];

    if (k3_sys_chosen(f->root, "/sys/kernel/mm/transparent_hugepage/shmem_enabled", text)) {
        bool off = strcmp(text, "never") == 0 || strcmp(text, "deny") == 0;

        k3_find(
            out, "memory", "shared huge pages", "%s%s", text,
            off ? "; `advise` in /sys/kernel/mm/transparent_hugepage/shmem_enabled saves mapped "
                  "lanes (--p2p on) address translations"
                : "");
    }
}

static bool has_rdma(const char *root)
{
    static k3_sys_names_t names;

    k3_sys_list(root, "/sys/class/infiniband", &names);
    return names.count > 0;
}

static void look_at_locks(const k3_host_facts_t *f, k3_findings_t *out)
{
    char          text[K3_SYS_LINE];
    k3_finding_t *line;
    double        bytes;

    if (!k3_sys_field(f->root, "/proc/self/limits", "Max locked memory", text)) {
        return;
    }
    if (strncmp(text, "unlimited", 9) == 0) {
        k3_find(out, "memory", "locked", "unlimited");
        return;
    }
    bytes = strtod(text, NULL);
    line = k3_find(out, "memory", "locked", "at most %.0f MiB", bytes / MIB);
    if (has_rdma(f->root)) {
        k3_advise(line, K3_LEVEL_BAD,
                  "RDMA registers memory by locking it: ulimit -l unlimited (limits.conf, "
                  "LimitMEMLOCK, docker --ulimit memlock=-1)");
    }
}

/* Container engines give 64 MiB; a rank that does not fit dies of SIGBUS, without a message. */
static void look_at_shared_memory(const k3_host_facts_t *f, k3_findings_t *out)
{
    char           path[K3_SYS_PATH];
    struct statvfs fs;
    double         size, left;
    k3_finding_t  *line;

    snprintf(path, sizeof(path), "%s/dev/shm", f->root);
    if (statvfs(path, &fs) != 0) {
        line = k3_find(out, "memory", "shared memory", "no /dev/shm");
        k3_advise(line, f->ranks > 1 ? K3_LEVEL_BAD : K3_LEVEL_WARN,
                  "MPI and UCX need it between ranks of a host: mount a tmpfs at /dev/shm");
        return;
    }
    size = (double)fs.f_blocks * (double)fs.f_frsize;
    left = (double)fs.f_bavail * (double)fs.f_frsize;
    line = k3_find(out, "memory", "shared memory", "/dev/shm: %.0f MiB", size / MIB);
    if (left < 32 * MIB) {
        k3_advise(line, K3_LEVEL_BAD,
                  "%.0f MiB are left: ranks die of a bus error; remove old files", left / MIB);
    } else if (size <= 64 * MIB) {
        k3_advise(line, K3_LEVEL_WARN,
                  "the size that containers get by default: start them with --shm-size=1g or more");
    }
}

void k3_doctor_memory(const k3_host_facts_t *facts, k3_findings_t *findings)
{
    look_at_amounts(facts, findings);
    look_at_huge_pages(facts, findings);
    look_at_shared_huge_pages(facts, findings);
    look_at_locks(facts, findings);
    look_at_shared_memory(facts, findings);
}
