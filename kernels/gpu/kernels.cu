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

int k3_gpu_encode(const k3_gpu_encode_t *arguments, void *stream)
{
    return begin(arguments, stream);
}
int k3_gpu_decode(const k3_gpu_decode_t *arguments, void *stream)
{
    return begin(arguments, stream);
}
int k3_gpu_copy(const k3_gpu_copy_t *arguments, void *stream)
{
    return begin(arguments, stream);
}
int k3_gpu_route(const k3_gpu_route_t *arguments, void *stream)
{
    return begin(arguments, stream);
}
int k3_gpu_combine(const k3_gpu_combine_t *arguments, void *stream)
{
    return begin(arguments, stream);
}
int k3_gpu_norm(const k3_gpu_norm_t *arguments, void *stream)
{
    return begin(arguments, stream);
}
int k3_gpu_gate_up(const k3_gpu_gate_up_t *arguments, void *stream)
{
    return begin(arguments, stream);
}
int k3_gpu_down(const k3_gpu_down_t *arguments, void *stream)
{
    return begin(arguments, stream);
}
