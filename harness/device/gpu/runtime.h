/* The two runtimes; each is there where the build has it. */
#ifndef K3_DEVICE_GPU_RUNTIME_H
#define K3_DEVICE_GPU_RUNTIME_H

#include "harness/device/device.h"

extern const k3_device_kind_t k3_device_kind_cuda, k3_device_kind_hip;

#endif
