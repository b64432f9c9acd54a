/* What a rank is given of its node: the nearest network device, and cores where the launcher gave none.
 * Works on any hwloc topology, so that captured machines can be tested. */
#ifndef K3_MPI_PLACEMENT_H
#define K3_MPI_PLACEMENT_H

#include <hwloc.h>
#include <stdbool.h>

enum { K3_NIC_MAX = 64 };

/* The topology with the devices that placement looks at; NULL when hwloc cannot. `xml` and `synthetic`
 * name another machine than this one; both NULL: this one. */
hwloc_topology_t k3_topology_load(const char *xml, const char *synthetic);

/* Accelerators in PCI order, one object for each card. */
int         k3_topology_accelerators(hwloc_topology_t topology);
hwloc_obj_t k3_topology_accelerator(hwloc_topology_t topology, int index);

/* Which of them lies there on the bus ("0000:17:00.0"); -1: none. */
int k3_topology_accelerator_at(hwloc_topology_t topology, const char *bus);

/* How near what lies there on the bus is to the cores; more is nearer, 0 also for what hwloc does not know. */
int k3_topology_nearness(hwloc_topology_t topology, const char *bus, hwloc_const_cpuset_t cpus);

/* The RDMA device nearest to accelerator `accelerator` (-1: to `cpus`), as UCX names it ("mlx5_0:1"):
 * the one with the deepest common ancestor. Of several equally near ones local rank r gets number
 * r modulo their count, in PCI order. Devices whose port is known to be down are left out. False: there is
 * none. */
bool k3_nearest_nic(hwloc_topology_t topology, int accelerator, hwloc_const_cpuset_t cpus,
                    int local_rank, char nic[K3_NIC_MAX]);

/* Disjoint blocks of whole cores, in hwloc's order: the share of local rank r of n. False when there are
 * fewer cores than ranks. */
bool k3_share_of_cores(hwloc_topology_t topology, int local_rank, int local_size,
                       hwloc_cpuset_t share);

#endif
