/* An emulated device: memory that only its kernels, copies and transports reach, and streams that do
 * nothing before somebody waits for them.
 *
 * Device memory is mapped twice. The addresses that the program gets belong to a mapping without any rights,
 * so that a stray access of the host is a segmentation fault; kernels and copies find the bytes in the
 * other mapping, as do UCX and MPI at k3_device_reach. Work of a stream is kept until the stream, or an
 * event behind it, is waited for: whoever looks at results or changes inputs too early gets it wrong. */
#ifndef K3_TESTS_GPU_EMULATED_H
#define K3_TESTS_GPU_EMULATED_H

#include "harness/device/device.h"
#include "kernels/gpu/gpu.h"

#ifdef __cplusplus
#include <functional>
#include <string>

namespace k3_emulated
{
/* Work of a stream; it returns what went wrong in words, "" when nothing did. */
void enqueue(void *stream, std::function<std::string()> work);
} // namespace k3_emulated

extern "C" {
#endif

extern const k3_device_kind_t k3_device_kind_emulated;
extern const k3_gpu_t         k3_gpu_emulated;

#ifdef __cplusplus
}
#endif

#endif
