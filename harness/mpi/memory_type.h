/* What UCX calls the kinds of memory of devices. */
#ifndef K3_MPI_MEMORY_TYPE_H
#define K3_MPI_MEMORY_TYPE_H

#include <ucs/memory/memory_type.h>

#include "harness/device/device.h"

static inline ucs_memory_type_t k3_ucs_memory_type(k3_memory_type_t type)
{
    switch (type) {
    case K3_MEMORY_CUDA:
        return UCS_MEMORY_TYPE_CUDA;
    case K3_MEMORY_ROCM:
        return UCS_MEMORY_TYPE_ROCM;
    default:
        return UCS_MEMORY_TYPE_HOST;
    }
}

#endif
