/* Instead of CUDA and HIP: the emulated device, under its own name. */
#include "bench/commands/accelerators.h"
#include "tests/gpu/emulated.h"

const k3_accelerator_t k3_accelerators[] = {
    {&k3_device_kind_emulated, &k3_gpu_emulated, NULL},
    {NULL, NULL, NULL},
};
