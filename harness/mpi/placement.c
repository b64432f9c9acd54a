#include "harness/mpi/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORTS_MAX = 8 };

hwloc_topology_t k3_topology_load(const char *xml, const char *synthetic)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0) {
        return NULL;
    }
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
        (xml != NULL && hwloc_topology_set_xml(topology, xml) != 0) ||
        (synthetic != NULL && hwloc_topology_set_synthetic(topology, synthetic) != 0) ||
        hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return NULL;
    }
    return topology;
}

/* --- accelerators ---------------------------------------------------------------------------- */

/* A card shows itself in several ways (CUDA, NVML, OpenCL, rsmi); its PCI function is one. */
static bool is_accelerator(const struct hwloc_obj *pci)
{
    unsigned class = pci->attr->pcidev.class_id;

    return class == 0x0302 || class == 0x0380 || class == 0x1200;
}

int k3_topology_accelerators(hwloc_topology_t topology)
{
    hwloc_obj_t pci = NULL;
    int         count = 0;

    while ((pci = hwloc_get_next_pcidev(topology, pci)) != NULL) {
        count += is_accelerator(pci);
    }
    return count;
}

hwloc_obj_t k3_topology_accelerator(hwloc_topology_t topology, int index)
{
    hwloc_obj_t pci = NULL;

    while ((pci = hwloc_get_next_pcidev(topology, pci)) != NULL) {
        if (is_accelerator(pci) && index-- == 0) {
            return pci;
        }
    }
    return NULL;
}

/* --- distances ------------------------------------------------------------------------------- */

static int levels_above(const struct hwloc_obj *object)
{
    int levels = 0;

    while ((object = object->parent) != NULL) {
        levels++;
    }
    return levels;
}

/* Levels above the deepest object that holds both. */
static int common_levels(hwloc_obj_t a, hwloc_obj_t b)
{
    int of_a = levels_above(a), of_b = levels_above(b);

    for (; of_a > of_b; of_a--) {
        a = a->parent;
    }
    for (; of_b > of_a; of_b--) {
        b = b->parent;
    }
    for (; a != b; of_a--) {
        a = a->parent;
        b = b->parent;
    }
    return of_a;
}

/* How near a device is to its reference; more is nearer. For cores: the smaller the part of the machine
 * that the device belongs to and that holds one of them, the nearer. */
static int nearness(hwloc_topology_t topology, hwloc_obj_t device, hwloc_obj_t accelerator,
                    hwloc_const_cpuset_t cpus)
{
    hwloc_obj_t home;

    if (accelerator != NULL) {
        return common_levels(device, accelerator);
    }
    home = hwloc_get_non_io_ancestor_obj(topology, device);
    return hwloc_bitmap_intersects(home->cpuset, cpus) ? levels_above(home) : 0;
}

int k3_topology_accelerator_at(hwloc_topology_t topology, const char *bus)
{
    hwloc_obj_t at = hwloc_get_pcidev_by_busidstring(topology, bus);

    for (int i = 0; at != NULL && i < k3_topology_accelerators(topology); i++) {
        if (k3_topology_accelerator(topology, i) == at) {
            return i;
        }
    }
    return -1;
}

int k3_topology_nearness(hwloc_topology_t topology, const char *bus, hwloc_const_cpuset_t cpus)
{
    hwloc_obj_t at = hwloc_get_pcidev_by_busidstring(topology, bus);

    return at != NULL ? nearness(topology, at, NULL, cpus) : 0;
}

/* --- network devices ------------------------------------------------------------------------- */

/* The first port that is not known to be down (IB calls an active port 4); 0: none. */
static int active_port(hwloc_obj_t device)
{
    bool known = false;

    for (int port = 1; port <= PORTS_MAX; port++) {
        char        name[24];
        const char *state;

        snprintf(name, sizeof(name), "Port%dState", port);
        state = hwloc_obj_get_info_by_name(device, name);
        if (state != NULL && atoi(state) == 4) {
            return port;
        }
        known |= state != NULL;
    }
    return known ? 0 : 1;
}

static hwloc_obj_t next_usable(hwloc_topology_t topology, hwloc_obj_t device)
{
    while ((device = hwloc_get_next_osdev(topology, device)) != NULL) {
        if (device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && active_port(device) > 0) {
            return device;
        }
    }
    return NULL;
}

bool k3_nearest_nic(hwloc_topology_t topology, int accelerator, hwloc_const_cpuset_t cpus,
                    int local_rank, char nic[K3_NIC_MAX])
{
    hwloc_obj_t near = accelerator >= 0 ? k3_topology_accelerator(topology, accelerator) : NULL;
    hwloc_obj_t device = NULL;
    int         best = -1, count = 0, turn;

    while ((device = next_usable(topology, device)) != NULL) {
        int here = nearness(topology, device, near, cpus);

        count = here > best ? 1 : count + (here == best);
        best = here > best ? here : best;
    }
    if (count == 0) {
        return false;
    }
    turn = local_rank % count;
    while ((device = next_usable(topology, device)) != NULL) {
        if (nearness(topology, device, near, cpus) == best && turn-- == 0) {
            break;
        }
    }
    snprintf(nic, K3_NIC_MAX, "%.48s:%d", device->name, active_port(device));
    return true;
}

/* --- cores ----------------------------------------------------------------------------------- */

bool k3_share_of_cores(hwloc_topology_t topology, int local_rank, int local_size,
                       hwloc_cpuset_t share)
{
    int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);

    if (cores < local_size || local_size < 1) {
        return false;
    }
    hwloc_bitmap_zero(share);
    for (int c = (int)((long long)cores * local_rank / local_size);
         c < (int)((long long)cores * (local_rank + 1) / local_size); c++) {
        hwloc_bitmap_or(share, share,
                        hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)c)->cpuset);
    }
    return true;
}
