/* The devices that this build can use: what they are, which reach each other's memory, which network
 * device is near. */
#include <stdio.h>
#include <string.h>

#include "bench/commands/accelerators.h"
#include "bench/commands/doctor.h"
#include "harness/base/text.h"
#include "harness/mpi/devices.h"
#include "harness/mpi/placement.h"

static void look_at_device(const k3_accelerator_t *a, int index, hwloc_topology_t topology,
                           k3_findings_t *out)
{
    k3_device_info_t   info = {.bus = ""};
    k3_device_result_t result = a->kind->info(index, &info);
    char               subject[32], nic[K3_NIC_MAX] = "no RDMA device";
    int                near;

    snprintf(subject, sizeof(subject), "%s %d", a->kind->name, index);
    if (result.code != 0) {
        k3_advise(
            k3_find(out, "gpu", subject, "%s: %s", result.call, a->kind->describe(result.code)),
            K3_LEVEL_BAD, "the driver does not answer for it: see the kernel log");
        return;
    }
    near = topology != NULL ? k3_topology_accelerator_at(topology, info.bus) : -1;
    if (near >= 0) {
        k3_nearest_nic(topology, near, NULL, 0, nic);
    }
    k3_find(out, "gpu", subject, "%s (%s), %s, %llu GiB, %u processors, %u MHz, nearest: %s",
            info.name, info.architecture, info.bus, (unsigned long long)(info.memory_bytes >> 30),
            info.processors, info.clock_mhz, nic);
}

static void look_at_peers(const k3_accelerator_t *a, int count, k3_findings_t *out)
{
    char     text[K3_FINDING_TEXT] = "", subject[32];
    size_t   used = 0;
    unsigned apart = 0;

    for (int from = 0; from < count; from++) {
        for (int to = 0; to < count; to++) {
            int reachable = 0;

            if (from == to || (a->kind->peer(from, to, &reachable).code == 0 && reachable)) {
                continue;
            }
            apart++;
            if (used + 16 < sizeof(text)) {
                used =
                    k3_append(text, sizeof(text), used, "%s%d->%d", used > 0 ? ", " : "", from, to);
            }
        }
    }
    snprintf(subject, sizeof(subject), "%s peers", a->kind->name);
    k3_find(out, "gpu", subject, "%s%s",
            apart == 0 ? "all reach each other" : "not reached: ", text);
}

void k3_doctor_devices(k3_findings_t *findings)
{
    hwloc_topology_t topology = NULL;

    if (k3_accelerators[0].kind == NULL) {
        k3_find(findings, "gpu", "build", "for processors alone");
        return;
    }
    topology = k3_topology_load(NULL, NULL);
    for (const k3_accelerator_t *a = k3_accelerators; a->kind != NULL; a++) {
        char               runtime[K3_DEVICE_VERSION], driver[K3_DEVICE_VERSION];
        int                count = 0;
        k3_device_result_t result = a->kind->count(&count);

        a->kind->versions(runtime, driver);
        k3_find(findings, "gpu", a->kind->name, "runtime %s, driver %s, %d devices, MPI %s",
                runtime, driver, result.code == 0 ? count : 0,
                k3_mpi_reaches(a->kind->memory) ? "takes their addresses"
                                                : "takes no addresses of theirs (--staged on)");
        for (int d = 0; result.code == 0 && d < count; d++) {
            look_at_device(a, d, topology, findings);
        }
        if (result.code == 0 && count > 1) {
            look_at_peers(a, count, findings);
        }
    }
    if (topology != NULL) {
        hwloc_topology_destroy(topology);
    }
}
