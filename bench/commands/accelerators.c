#include "bench/commands/accelerators.h"

#include <stddef.h>

#include "harness/device/gpu/runtime.h"

const k3_accelerator_t k3_accelerators[] = {
#ifdef K3BENCH_CUDA
    {&k3_device_kind_cuda, &k3_gpu_cuda, &k3_blas_cuda},
#endif
#ifdef K3BENCH_HIP
    {&k3_device_kind_hip, &k3_gpu_hip, &k3_blas_hip},
#endif
    {NULL, NULL, NULL},
};
