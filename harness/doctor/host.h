/* What one host is set to, read from the kernel's files below a root ("" for this machine's own):
 * nothing here talks to other ranks or loads a library, but for the names of GPUs. */
#ifndef K3_DOCTOR_HOST_H
#define K3_DOCTOR_HOST_H

#include "harness/doctor/findings.h"

typedef struct k3_host_facts {
    const char *root;
    unsigned    ranks;       /* of this launch on this host; 0: without a launcher */
    unsigned    hosts;       /* of this launch */
    const char *net_devices; /* UCX_NET_DEVICES; NULL: not set */
} k3_host_facts_t;

/* Cores, NUMA nodes, binding, quota, frequency, clock, load. */
void k3_doctor_cpu(const k3_host_facts_t *facts, k3_findings_t *findings);

/* Memory, its limits, huge pages, locks, shared memory. */
void k3_doctor_memory(const k3_host_facts_t *facts, k3_findings_t *findings);

/* RDMA devices and network interfaces, and what the filter of UCX leaves of them. */
void k3_doctor_nics(const k3_host_facts_t *facts, k3_findings_t *findings);

/* GPUs on the PCI bus, and their names where NVML or ROCm SMI can be loaded (this machine only). */
void k3_doctor_gpus(const k3_host_facts_t *facts, k3_findings_t *findings);

/* Mean cost of reading the clock that this program uses, ns; of this machine. */
void k3_doctor_clock_cost(k3_findings_t *findings);

#endif
