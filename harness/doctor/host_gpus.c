/* GPUs: what the PCI bus shows, and the names that the vendor's library gives. The libraries are
 * opened at run time; the program builds and runs without them. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/sysfiles.h"
#include "harness/doctor/host.h"

enum { NVIDIA = 0x10de, AMD = 0x1002, NAMES_MAX = 64, NAME_SIZE = 96 };

typedef struct gpu_names {
    int  count; /* -1: the library is not there or does not start */
    char name[NAMES_MAX][NAME_SIZE];
    char state[NAMES_MAX][NAME_SIZE]; /* clock and power now; "": the library does not say */
} gpu_names_t;

/* --- names ------------------------------------------------------------------------------------ */

/* POSIX defines the conversion of dlsym's result; ISO C does not, hence the copy. */
static bool find_function(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);

    memcpy(function, &address, sizeof(address));
    return address != NULL;
}

/* Clock of the processors now and at most, power now and its limit, as far as the library says. */
static void nvml_state(void *library, void *device, char text[NAME_SIZE])
{
    enum { CLOCK_SM = 1 };
    int (*clock)(void *, int, unsigned *), (*most)(void *, int, unsigned *);
    int (*power)(void *, unsigned *), (*limit)(void *, unsigned *);
    unsigned mhz = 0, most_mhz = 0, mw = 0, limit_mw = 0;

    if (find_function(library, "nvmlDeviceGetClockInfo", &clock) &&
        find_function(library, "nvmlDeviceGetMaxClockInfo", &most) &&
        find_function(library, "nvmlDeviceGetPowerUsage", &power) &&
        find_function(library, "nvmlDeviceGetEnforcedPowerLimit", &limit) &&
        clock(device, CLOCK_SM, &mhz) == 0 && most(device, CLOCK_SM, &most_mhz) == 0 &&
        power(device, &mw) == 0 && limit(device, &limit_mw) == 0) {
        snprintf(text, NAME_SIZE, "%u of %u MHz, %u of %u W", mhz, most_mhz, mw / 1000,
                 limit_mw / 1000);
    }
}

/* MI300 and later know no average: what they know instead is asked for by another call, of ROCm 6 and later. */
static bool rocm_power(void *library, uint32_t device, uint64_t *uw)
{
    int (*power)(uint32_t, uint64_t *, int *), (*average)(uint32_t, uint32_t, uint64_t *);
    int type = 0;

    return (find_function(library, "rsmi_dev_power_get", &power) &&
            power(device, uw, &type) == 0) ||
           (find_function(library, "rsmi_dev_power_ave_get", &average) &&
            average(device, 0, uw) == 0);
}

static void rocm_state(void *library, uint32_t device, char text[NAME_SIZE])
{
    int (*cap)(uint32_t, uint32_t, uint64_t *);
    uint64_t uw = 0, cap_uw = 0;

    if (rocm_power(library, device, &uw) &&
        find_function(library, "rsmi_dev_power_cap_get", &cap) && cap(device, 0, &cap_uw) == 0) {
        snprintf(text, NAME_SIZE, "%llu of %llu W", (unsigned long long)(uw / 1000000),
                 (unsigned long long)(cap_uw / 1000000));
    }
}

static void nvml_names(gpu_names_t *names)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(void), (*count)(unsigned *), (*handle)(unsigned, void **);
    int (*name)(void *, char *, unsigned), (*finish)(void);
    unsigned found = 0;

    names->count = -1;
    if (library == NULL) {
        return;
    }
    if (find_function(library, "nvmlInit_v2", &init) &&
        find_function(library, "nvmlDeviceGetCount_v2", &count) &&
        find_function(library, "nvmlDeviceGetHandleByIndex_v2", &handle) &&
        find_function(library, "nvmlDeviceGetName", &name) &&
        find_function(library, "nvmlShutdown", &finish) && init() == 0) {
        names->count = 0;
        if (count(&found) == 0) {
            for (unsigned i = 0; i < found && i < NAMES_MAX; i++) {
                void *device;

                if (handle(i, &device) != 0 || name(device, names->name[i], NAME_SIZE) != 0) {
                    snprintf(names->name[i], NAME_SIZE, "unknown");
                } else {
                    nvml_state(library, device, names->state[i]);
                }
                names->count++;
            }
        }
        finish();
    }
    dlclose(library);
}

static void rocm_names(gpu_names_t *names)
{
    static const char *const libraries[] = {/* upstream's, Debian's */
                                            "librocm_smi64.so.7", "librocm_smi64.so.6",
                                            "librocm_smi64.so.5", "librocm_smi64.so.1",
                                            "librocm_smi64.so"};
    void                    *library = NULL;
    int (*init)(uint64_t), (*count)(uint32_t *), (*name)(uint32_t, char *, size_t), (*finish)(void);
    uint32_t found = 0;

    names->count = -1;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && library == NULL; i++) {
        library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) {
        return;
    }
    if (find_function(library, "rsmi_init", &init) &&
        find_function(library, "rsmi_num_monitor_devices", &count) &&
        find_function(library, "rsmi_dev_name_get", &name) &&
        find_function(library, "rsmi_shut_down", &finish) && init(0) == 0) {
        names->count = 0;
        if (count(&found) == 0) {
            for (uint32_t i = 0; i < found && i < NAMES_MAX; i++) {
                if (name(i, names->name[i], NAME_SIZE) != 0) {
                    snprintf(names->name[i], NAME_SIZE, "unknown");
                }
                rocm_state(library, i, names->state[i]);
                names->count++;
            }
        }
        finish();
    }
    dlclose(library);
}

/* --- the bus ---------------------------------------------------------------------------------- */

static int64_t hex_of(const char *root, const char *device, const char *file)
{
    char path[K3_SYS_PATH], text[K3_SYS_LINE];

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", device, file);
    return k3_sys_line(root, path, text) ? (int64_t)strtoll(text, NULL, 16) : -1;
}

static int64_t number_of(const char *root, const char *device, const char *file)
{
    char    path[K3_SYS_PATH];
    int64_t value;

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", device, file);
    return k3_sys_number(root, path, &value) ? value : -1;
}

/* 0x0300 VGA (AMD: the graphics of a processor), 0x0302 3D controller, 0x0380 display without monitor,
 * 0x1200 processing accelerator. */
static bool is_gpu(int64_t class, int64_t vendor)
{
    int64_t kind = class >> 8;

    return (vendor == NVIDIA && kind == 0x0300) ||
           ((vendor == NVIDIA || vendor == AMD) &&
            (kind == 0x0302 || kind == 0x0380 || kind == 0x1200));
}

static void look_at_gpu(const k3_host_facts_t *f, const char *device, int64_t vendor,
                        k3_findings_t *out)
{
    int64_t       width = number_of(f->root, device, "current_link_width");
    int64_t       most = number_of(f->root, device, "max_link_width");
    k3_finding_t *line;

    line = k3_find(out, "gpu", device, "%04llx:%04llx, NUMA node %lld", (unsigned long long)vendor,
                   (unsigned long long)hex_of(f->root, device, "device"),
                   (long long)number_of(f->root, device, "numa_node"));
    if (width > 0 && most > 0 && width < most) {
        k3_advise(line, K3_LEVEL_WARN,
                  "PCIe link of %lld lanes where the device has %lld: reseat it, check the slot",
                  (long long)width, (long long)most);
    }
}

static void name_gpus(k3_findings_t *out, const char *vendor, const char *library, unsigned on_bus,
                      const gpu_names_t *names)
{
    k3_finding_t *line;

    if (names->count < 0) {
        line = k3_find(out, "gpu", vendor, "%u on the bus, %s does not answer", on_bus, library);
        k3_advise(line, K3_LEVEL_WARN, "install or load the driver, and give it to the container");
        return;
    }
    line = k3_find(out, "gpu", vendor, "%u on the bus, %d by %s: %s", on_bus, names->count, library,
                   names->count > 0 ? names->name[0] : "none");
    if ((unsigned)names->count != on_bus) {
        k3_advise(line, K3_LEVEL_WARN,
                  "a GPU of the bus is missing in the driver (or is not given to this container): "
                  "see the kernel log");
    }
    for (int i = 0; i < names->count; i++) {
        char subject[32];

        if (names->state[i][0] != '\0') {
            snprintf(subject, sizeof(subject), "%s %d", vendor, i);
            k3_find(out, "gpu", subject, "%s", names->state[i])->varies = true;
        }
    }
    for (int i = 1; i < names->count; i++) {
        if (strcmp(names->name[i], names->name[0]) != 0) {
            k3_advise(line, K3_LEVEL_WARN, "GPUs of different kinds: %s and %s", names->name[0],
                      names->name[i]);
        }
    }
}

void k3_doctor_gpus(const k3_host_facts_t *facts, k3_findings_t *findings)
{
    static k3_sys_names_t devices;
    static gpu_names_t    names;
    unsigned              nvidia = 0, amd = 0;
    bool                  here = facts->root[0] == '\0';

    k3_sys_list(facts->root, "/sys/bus/pci/devices", &devices);
    for (unsigned i = 0; i < devices.count; i++) {
        int64_t vendor = hex_of(facts->root, devices.name[i], "vendor");

        if (is_gpu(hex_of(facts->root, devices.name[i], "class"), vendor)) {
            nvidia += vendor == NVIDIA;
            amd += vendor == AMD;
            look_at_gpu(facts, devices.name[i], vendor, findings);
        }
    }
    if (nvidia + amd == 0) {
        k3_find(findings, "gpu", "devices", "none");
    }
    if (nvidia > 0 && here) {
        nvml_names(&names);
        name_gpus(findings, "NVIDIA", "NVML", nvidia, &names);
    }
    if (amd > 0 && here) {
        rocm_names(&names);
        name_gpus(findings, "AMD", "ROCm SMI", amd, &names);
    }
}
