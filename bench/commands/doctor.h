/* The parts of k3bench doctor. */
#ifndef K3_COMMANDS_DOCTOR_H
#define K3_COMMANDS_DOCTOR_H

#include <jansson.h>
#include <stdio.h>

#include "harness/doctor/findings.h"
#include "harness/mpi/pairs.h"
#include "harness/mpi/world.h"

/* Libraries loaded against compiled, transports of UCX, environment that changes results. */
void k3_doctor_software(k3_findings_t *findings);

/* Devices that this build can use. */
void k3_doctor_devices(k3_findings_t *findings);

/* Where the ranks sit. Collective; lines at rank 0 only. */
k3_status_t k3_doctor_ranks(const k3_world_t *world, k3_findings_t *findings, k3_error_t *err);

/* One line for each class of pair. */
void k3_doctor_pairs(const k3_world_t *world, const k3_pair_report_t *pairs,
                     k3_findings_t *findings);

/* The findings of several hosts as one list: equal lines once, lines that differ with the hosts' names.
 * `of` holds one list for each host. */
void k3_doctor_merge(const k3_findings_t *of, const char *const *hosts, unsigned count,
                     k3_findings_t *merged);

void    k3_doctor_print(const k3_findings_t *findings, FILE *out);
json_t *k3_doctor_json(const k3_findings_t *findings, const k3_world_t *world,
                       const k3_pair_report_t *pairs);

/* Measures this machine and writes the machine file `local`. Collective. */
k3_status_t k3_doctor_calibrate(const k3_world_t *world, double load, k3_fabric_t *fabric,
                                const k3_pair_report_t *pairs, k3_error_t *err);

#endif
