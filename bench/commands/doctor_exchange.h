/* What the cores of a host do when all of them exchange rows at once, as a dispatch and a combine do: costs
 * of a row and of its bytes, by how much memory each core touches until it comes round again. */
#ifndef K3_COMMANDS_DOCTOR_EXCHANGE_H
#define K3_COMMANDS_DOCTOR_EXCHANGE_H

#include "bench/plan/machine.h"
#include "harness/mpi/qp.h"
#include "harness/mpi/world.h"
#include "kernels/kernels.h"

/* Collective. Sets the figures of K3_FIG_WORK, of signals, of switches between processes and of the end
 * of a phase; one rank for each core takes part, the others wait. */
k3_status_t k3_doctor_exchange(const k3_world_t *world, k3_fabric_t *fabric,
                               const k3_kernels_t *kernels, k3_machine_file_t *machine,
                               k3_error_t *err);

#endif
