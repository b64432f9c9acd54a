#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness/base/sysfiles.h"
#include "harness/doctor/host.h"

#define CPU_FOLDER "/sys/devices/system/cpu"

static unsigned count_of(const char *root, const char *path)
{
    char text[K3_SYS_LINE];

    return k3_sys_line(root, path, text) ? k3_sys_count_ids(text) : 0;
}

static unsigned allowed_cores(const char *root, char text[K3_SYS_LINE])
{
    if (!k3_sys_field(root, "/proc/self/status", "Cpus_allowed_list:", text)) {
        text[0] = '\0';
    }
    return k3_sys_count_ids(text);
}

static void look_at_cores(const k3_host_facts_t *f, k3_findings_t *out)
{
    char          allowed_text[K3_SYS_LINE], model[K3_SYS_LINE], smt[K3_SYS_LINE];
    unsigned      online = count_of(f->root, CPU_FOLDER "/online");
    unsigned      allowed = allowed_cores(f->root, allowed_text);
    unsigned      numa = count_of(f->root, "/sys/devices/system/node/online");
    k3_finding_t *line;

    if (!k3_sys_field(f->root, "/proc/cpuinfo", "model name", model)) {
        snprintf(model, sizeof(model), "unknown model");
    }
    k3_find(out, "cpu", "cores", "%u online, %s", online, model + strspn(model, "\t :"));
    k3_find(out, "cpu", "numa", "%u node%s", numa, numa == 1 ? "" : "s");
    line = k3_find(out, "cpu", "allowed", "%u of %u cores (%s)", allowed, online, allowed_text);
    if (allowed < online && f->ranks == 0) {
        k3_advise(
            line, K3_LEVEL_WARN,
            "this shell or container may use a part of the cores: start ranks for those only");
    }
    if (k3_sys_line(f->root, CPU_FOLDER "/smt/active", smt)) {
        line = k3_find(out, "cpu", "smt", "%s", smt[0] == '1' ? "on" : "off");
        if (smt[0] == '1' && f->ranks > online / 2) {
            k3_advise(line, K3_LEVEL_WARN,
                      "%u ranks share %u cores as hardware threads: start at most one rank a core "
                      "(mpirun --map-by core)",
                      f->ranks, online / 2);
        }
    }
}

static void look_at_quota(const k3_host_facts_t *f, k3_findings_t *out)
{
    char          text[K3_SYS_LINE];
    double        quota;
    uint64_t      held_back, periods;
    unsigned      allowed = allowed_cores(f->root, text);
    k3_finding_t *line;

    if (!k3_sys_cpu_quota(f->root, &quota)) {
        k3_find(out, "cpu", "quota", "none");
    } else {
        line = k3_find(out, "cpu", "quota", "%.4g cores of %u (control group)", quota, allowed);
        if (quota < allowed) {
            k3_advise(line, K3_LEVEL_WARN,
                      "what exceeds the quota is held back until the next period: raise it (docker "
                      "--cpus, limits.cpu) or start at most %.0f ranks",
                      floor(quota) < 1 ? 1 : floor(quota));
        }
        if (f->ranks > ceil(quota)) {
            k3_advise(line, K3_LEVEL_BAD,
                      "%u ranks stop together for the rest of each period once %.4g cores' time is "
                      "used: start at most %.0f ranks or raise the quota",
                      f->ranks, quota, ceil(quota));
        }
    }
    if (k3_sys_throttled(f->root, &held_back, &periods) && held_back > 0) {
        line = k3_find(out, "cpu", "throttled", "in %llu of %llu periods",
                       (unsigned long long)held_back, (unsigned long long)periods);
        line->varies = true;
        if (held_back * 100 > periods) {
            k3_advise(line, K3_LEVEL_WARN, "this group has been held back: raise its CPU quota");
        }
    }
}

static void look_at_frequency(const k3_host_facts_t *f, k3_findings_t *out)
{
    static k3_sys_names_t cpus;
    char                  text[K3_SYS_LINE], path[K3_SYS_PATH], first[K3_SYS_LINE] = "";
    unsigned              count = 0, others = 0;
    bool                  turbo;
    k3_finding_t         *line;

    k3_sys_list(f->root, CPU_FOLDER, &cpus);
    for (unsigned i = 0; i < cpus.count; i++) {
        snprintf(path, sizeof(path), CPU_FOLDER "/%s/cpufreq/scaling_governor", cpus.name[i]);
        if (strncmp(cpus.name[i], "cpu", 3) == 0 && k3_sys_line(f->root, path, text)) {
            if (count++ == 0) {
                memcpy(first, text, sizeof(first));
            }
            others += strcmp(first, text) != 0;
        }
    }
    if (count == 0) {
        k3_find(out, "cpu", "governor", "not shown by the kernel (virtual machine)");
    } else {
        line =
            k3_find(out, "cpu", "governor", "%s%s", first, others > 0 ? ", not on all cores" : "");
        if (others > 0 || strcmp(first, "performance") != 0) {
            k3_advise(line, K3_LEVEL_WARN,
                      "the clock follows the load: cpupower frequency-set -g performance");
        }
    }
    if (k3_sys_turbo(f->root, &turbo)) {
        line = k3_find(out, "cpu", "turbo", "%s", turbo ? "on" : "off");
        if (turbo) {
            k3_advise(
                line, K3_LEVEL_WARN,
                "the clock depends on temperature and on busy cores: switch it off to compare "
                "days (cpupower set, or no_turbo)");
        }
    } else {
        k3_find(out, "cpu", "turbo", "not shown by the kernel");
    }
}

static void look_at_clock_source(const k3_host_facts_t *f, k3_findings_t *out)
{
    static const char *const fast[] = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page",
                                       "arch_sys_counter", NULL};
    char                     text[K3_SYS_LINE];
    bool                     is_fast = false;
    k3_finding_t            *line;

    if (!k3_sys_line(f->root, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                     text)) {
        k3_find(out, "cpu", "clock source", "not shown by the kernel");
        return;
    }
    line = k3_find(out, "cpu", "clock source", "%s", text);
    for (int i = 0; fast[i] != NULL; i++) {
        is_fast |= strcmp(text, fast[i]) == 0;
    }
    if (!is_fast) {
        k3_advise(line, K3_LEVEL_BAD,
                  "each reading is a system call of a microsecond or more, and two are taken for "
                  "every message: boot with clocksource=tsc");
    }
}

static void look_at_load(const k3_host_facts_t *f, k3_findings_t *out)
{
    unsigned      online = count_of(f->root, CPU_FOLDER "/online");
    double        load;
    k3_finding_t *line;

    if (!k3_sys_load(f->root, &load)) {
        return;
    }
    line = k3_find(out, "cpu", "load", "%.2f on %u cores", load, online);
    line->varies = true;
    if (load > K3_SYS_BUSY_SHARE * online) {
        k3_advise(line, K3_LEVEL_WARN,
                  "other processes were busy in the last minute: wait, or see who (top)");
    }
}

static void look_at_balancing(const k3_host_facts_t *f, k3_findings_t *out)
{
    int64_t       on;
    k3_finding_t *line;

    if (count_of(f->root, "/sys/devices/system/node/online") > 1 &&
        k3_sys_number(f->root, "/proc/sys/kernel/numa_balancing", &on)) {
        line = k3_find(out, "cpu", "numa balancing", "%s", on != 0 ? "on" : "off");
        if (on != 0) {
            k3_advise(
                line, K3_LEVEL_WARN,
                "the kernel unmaps pages to see who uses them: sysctl kernel.numa_balancing=0");
        }
    }
}

/* Of ranks that share a host; whether each rank is bound is seen where all ranks are known. */
static void look_at_oversubscription(const k3_host_facts_t *f, k3_findings_t *out)
{
    unsigned      online = count_of(f->root, CPU_FOLDER "/online");
    k3_finding_t *line;

    if (f->ranks == 0) {
        return;
    }
    line = k3_find(out, "cpu", "ranks", "%u on %u cores", f->ranks, online);
    if (f->ranks > online) {
        k3_advise(line, K3_LEVEL_WARN,
                  "ranks wait for a core: times hold this wait, so compare them only with runs of "
                  "as many ranks on as many cores");
    }
}

void k3_doctor_cpu(const k3_host_facts_t *facts, k3_findings_t *findings)
{
    look_at_cores(facts, findings);
    look_at_oversubscription(facts, findings);
    look_at_quota(facts, findings);
    look_at_frequency(facts, findings);
    look_at_clock_source(facts, findings);
    look_at_load(facts, findings);
    look_at_balancing(facts, findings);
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void k3_doctor_clock_cost(k3_findings_t *findings)
{
    enum { READINGS = 20000 };
    double        start = now_ns(), cost;
    k3_finding_t *line;

    for (int i = 0; i < READINGS; i++) {
        (void)now_ns();
    }
    cost = (now_ns() - start) / READINGS;
    line = k3_find(findings, "cpu", "clock reading", "%.0f ns", cost);
    line->varies = true;
    if (cost > 500) {
        k3_advise(line, K3_LEVEL_WARN,
                  "reading the clock should take 20 to 60 ns; see the clock source, or a tracer");
    }
}
