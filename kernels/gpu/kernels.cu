/* The kernels for a device, by nvcc or by hipcc (-x hip). */
#include "kernels/gpu/launch.h"

#if defined(__HIP__)
typedef hipStream_t k3_stream;
static int          k3_last_error()
{
    return (int)hipGetLastError();
}
#else
#include <cuda_runtime.h>
typedef cudaStream_t k3_stream;
static int           k3_last_error()
{
    return (int)cudaGetLastError();
}
#endif

namespace
{

struct launcher {
    k3_stream stream;

    template <typename A> int start(unsigned x, unsigned y, void (*kernel)(A), const A &arguments)
    {
        if (x == 0 || y == 0) {
            return 0;
        }
        kernel<<<dim3(x, y), dim3(k3_threads), 0, stream>>>(arguments);
        return k3_last_error();
    }
};

template <typename A> int begin(const A *arguments, void *stream)
{
    launcher l = {static_cast<k3_stream>(stream)};

    return k3_start(l, *arguments);
}

} // namespace

#if defined(__HIP__)
#define K3_TABLE   k3_gpu_hip
#define K3_DIALECT "hip"
#else
#define K3_TABLE   k3_gpu_cuda
#define K3_DIALECT "cuda"
#endif

#define K3_STARTERS                                                                                \
    {                                                                                              \
        K3_DIALECT, begin, begin, begin, begin, begin, begin, begin, begin, begin, begin, begin,   \
            begin, begin, begin, begin                                                             \
    }

#if defined(__HIP_DEVICE_COMPILE__)
/* A constant of the file would go to the device too, and the functions in it are the host's. What they start
 * is compiled for them alone. */
k3_gpu_t k3_started_by_the_host()
{
    return K3_STARTERS;
}
#else
extern const k3_gpu_t K3_TABLE = K3_STARTERS;
#endif
