#include "harness/record/fingerprint.h"

#include <gnu/libc-version.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "harness/base/sysfiles.h"
#include "harness/record/json_values.h"

static json_t *line_of(const char *path)
{
    char text[K3_SYS_LINE];

    return k3_sys_line("", path, text) ? k3_json_string(text) : json_null();
}

/* --- stable facts ---------------------------------------------------------------------------- */

static json_t *memory_gib(void)
{
    char               text[K3_SYS_LINE];
    unsigned long long kib = 0;

    if (!k3_sys_field("", "/proc/meminfo", "MemTotal:", text) || sscanf(text, "%llu", &kib) != 1) {
        return json_null();
    }
    return json_integer((json_int_t)((kib + (1u << 19)) >> 20));
}

static json_t *stable_facts(const k3_machine_t *machine)
{
    json_t        *facts = json_object();
    struct utsname system;

    (void)json_object_set_new(facts, "cpu_model", k3_json_string(machine->cpu_model));
    (void)json_object_set_new(facts, "architecture",
                              k3_json_string(uname(&system) == 0 ? system.machine : NULL));
    (void)json_object_set_new(facts, "cores", json_integer(machine->cores));
    (void)json_object_set_new(facts, "numa_nodes", json_integer(machine->numa_nodes));
    (void)json_object_set_new(facts, "memory_gib", memory_gib());
    (void)json_object_set_new(facts, "nodes", json_integer(machine->nodes));
    (void)json_object_set_new(facts, "ranks", json_integer(machine->ranks));
    if (machine->device != NULL) {
        (void)json_object_set_new(facts, "device", k3_json_string(machine->device));
    }
    return facts;
}

/* --- volatile facts -------------------------------------------------------------------------- */

static json_t *chosen_of(const char *path)
{
    char text[K3_SYS_LINE];

    return k3_sys_chosen("", path, text) ? k3_json_string(text) : json_null();
}

static json_t *turbo(void)
{
    bool on;

    return k3_sys_turbo("", &on) ? json_boolean(on) : json_null();
}

static json_t *load_averages(void)
{
    double  loads[3];
    int     count = getloadavg(loads, 3);
    json_t *list = json_array();

    for (int i = 0; i < count; i++) {
        (void)json_array_append_new(list, k3_json_number(loads[i]));
    }
    return list;
}

static json_t *system_name(void)
{
    char text[K3_SYS_LINE];

    if (!k3_sys_field("", "/etc/os-release", "PRETTY_NAME=", text)) {
        return json_null();
    }

    size_t length = strlen(text);

    if (length >= 2 && text[0] == '"' && text[length - 1] == '"') {
        text[length - 1] = '\0';
        return k3_json_string(text + 1);
    }
    return k3_json_string(text);
}

static json_t *group_cpus(void)
{
    double cpus;

    return k3_sys_cpu_quota("", &cpus) ? k3_json_number(cpus) : json_null();
}

static json_t *group_memory(void)
{
    uint64_t bytes;

    return k3_sys_memory_limit("", &bytes) ? json_integer((json_int_t)bytes) : json_null();
}

static json_t *libraries(void)
{
    json_t *facts = json_object();

    (void)json_object_set_new(facts, "libc", k3_json_string(gnu_get_libc_version()));
    (void)json_object_set_new(facts, "jansson", k3_json_string(jansson_version_str()));
    (void)json_object_set_new(facts, "compiler", k3_json_string(__VERSION__));
    return facts;
}

static json_t *volatile_facts(void)
{
    json_t        *facts = json_object();
    struct utsname system;
    const char    *cpu0 = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    const char    *thp = "/sys/kernel/mm/transparent_hugepage/enabled";
    const char    *shared = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

    (void)json_object_set_new(facts, "system", system_name());
    (void)json_object_set_new(facts, "kernel",
                              k3_json_string(uname(&system) == 0 ? system.release : NULL));
    (void)json_object_set_new(facts, "governor", line_of(cpu0));
    (void)json_object_set_new(facts, "turbo", turbo());
    (void)json_object_set_new(facts, "smt", line_of("/sys/devices/system/cpu/smt/control"));
    (void)json_object_set_new(facts, "transparent_huge_pages", chosen_of(thp));
    (void)json_object_set_new(facts, "shared_huge_pages", chosen_of(shared));
    (void)json_object_set_new(facts, "load", load_averages());
    (void)json_object_set_new(facts, "cgroup_cpus", group_cpus());
    (void)json_object_set_new(facts, "cgroup_memory_bytes", group_memory());
    (void)json_object_set_new(facts, "libraries", libraries());
    return facts;
}

/* --- the key --------------------------------------------------------------------------------- */

/* FNV-1a over the canonical form: compact, keys sorted. */
static uint64_t hash_of(const json_t *facts)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char    *text = json_dumps(facts, JSON_COMPACT | JSON_SORT_KEYS);

    for (const char *c = text; c != NULL && *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    free(text);
    return hash;
}

json_t *k3_fingerprint(const k3_machine_t *machine)
{
    json_t *fingerprint = json_object();
    json_t *stable = stable_facts(machine);
    char    key[17];

    (void)snprintf(key, sizeof(key), "%016llx", (unsigned long long)hash_of(stable));
    (void)json_object_set_new(fingerprint, "key", json_string(key));
    (void)json_object_set_new(fingerprint, "stable", stable);
    (void)json_object_set_new(fingerprint, "volatile", volatile_facts());
    return fingerprint;
}

void k3_utc_now(char text[21])
{
    time_t    now = time(NULL);
    struct tm parts;

    if (gmtime_r(&now, &parts) == NULL || strftime(text, 21, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
        memcpy(text, "1970-01-01T00:00:00Z", 21);
    }
}
