/* The devices that this program was built for, with their kernels. */
#ifndef K3_COMMANDS_ACCELERATORS_H
#define K3_COMMANDS_ACCELERATORS_H

#include "harness/device/device.h"
#include "kernels/gpu/blas.h"

typedef struct k3_accelerator {
    const k3_device_kind_t *kind; /* NULL: the end of the table */
    const k3_gpu_t         *gpu;
    const k3_blas_ops_t    *blas; /* NULL: dense layers by plain kernels */
} k3_accelerator_t;

/* In a file of its own: a program that brings another table is linked with that instead. */
extern const k3_accelerator_t k3_accelerators[];

#endif
