/* What CUDA, HIP and the emulator of the tests call by different names. Kernels are written against
 * this header alone; each of them reads and writes memory through k3_load and k3_store, so that the
 * emulator sees every access. */
#ifndef K3_KERNELS_GPU_DIALECT_H
#define K3_KERNELS_GPU_DIALECT_H

#include <stddef.h>
#include <stdint.h>

/* 16 bytes, the unit of memory traffic. */
struct alignas(16) k3_words {
    uint32_t word[4];
};

#if defined(__CUDACC__) || defined(__HIP__)

#if defined(__HIP__)
#include <hip/hip_runtime.h>
constexpr unsigned k3_warp = 64; /* gfx90a, gfx942, gfx950 */
#else
constexpr unsigned k3_warp = 32;
#endif

#define K3_DEVICE                    __device__ __forceinline__
#define K3_KERNEL                    __global__ void __launch_bounds__(k3_threads)
#define K3_SHARED(type, name, count) __shared__ __align__(16) type name[count]

K3_DEVICE unsigned k3_thread()
{
    return threadIdx.x;
}
K3_DEVICE unsigned k3_block(unsigned axis)
{
    return axis == 0 ? blockIdx.x : blockIdx.y;
}
K3_DEVICE void k3_barrier()
{
    __syncthreads();
}

template <typename T> K3_DEVICE T k3_load(const T *at)
{
    return *at;
}
template <typename T> K3_DEVICE void k3_store(T *at, T value)
{
    *at = value;
}

template <typename T> K3_DEVICE T k3_shuffle_xor(T value, unsigned mask)
{
#if defined(__HIP__)
    return __shfl_xor(value, (int)mask, (int)k3_warp);
#else
    return __shfl_xor_sync(0xffffffffu, value, (int)mask, (int)k3_warp);
#endif
}

/* The value of lane `from`. */
template <typename T> K3_DEVICE T k3_shuffle(T value, unsigned from)
{
#if defined(__HIP__)
    return __shfl(value, (int)from, (int)k3_warp);
#else
    return __shfl_sync(0xffffffffu, value, (int)from, (int)k3_warp);
#endif
}

K3_DEVICE float k3_as_float(uint32_t bits)
{
    return __uint_as_float(bits);
}
K3_DEVICE uint32_t k3_as_bits(float value)
{
    return __float_as_uint(value);
}
K3_DEVICE uint64_t k3_as_bits64(double value)
{
    return (uint64_t)__double_as_longlong(value);
}
K3_DEVICE float k3_sqrt(float value)
{
    return __fsqrt_rn(value);
}
K3_DEVICE double k3_log2(double value)
{
    return log2(value);
}
K3_DEVICE double k3_exp2(double value)
{
    return exp2(value);
}

#else
#include K3_GPU_EMULATOR /* the build of the tests says where it is */
#endif

constexpr unsigned k3_threads = 4 * k3_warp; /* of a block, in all kernels */
constexpr unsigned k3_warps = k3_threads / k3_warp;

K3_DEVICE unsigned k3_lane()
{
    return k3_thread() % k3_warp;
}

/* 16 bytes at an address that is a multiple of 16. */
K3_DEVICE k3_words k3_load16(const void *at)
{
    return k3_load(static_cast<const k3_words *>(at));
}

K3_DEVICE void k3_store16(void *at, k3_words value)
{
    k3_store(static_cast<k3_words *>(at), value);
}

/* 16 bytes at an even address: whole where that is a multiple of 16, else in units of 4 bytes or of 2. */
K3_DEVICE k3_words k3_load_octet(const void *at)
{
    k3_words value = {};

    if ((uintptr_t)at % 16 == 0) {
        return k3_load16(at);
    }
    for (unsigned i = 0; i < 4; i++) {
        const uint16_t *word = (const uint16_t *)at + 2 * i;

        value.word[i] = (uintptr_t)at % 4 == 0 ? k3_load((const uint32_t *)(const void *)word)
                                               : k3_load(word) | (uint32_t)k3_load(word + 1) << 16;
    }
    return value;
}

K3_DEVICE void k3_store_octet(void *at, k3_words value)
{
    if ((uintptr_t)at % 16 == 0) {
        k3_store16(at, value);
        return;
    }
    for (unsigned i = 0; i < 4; i++) {
        uint16_t *word = (uint16_t *)at + 2 * i;

        if ((uintptr_t)at % 4 == 0) {
            k3_store((uint32_t *)(void *)word, value.word[i]);
        } else {
            k3_store(word, (uint16_t)value.word[i]);
            k3_store(word + 1, (uint16_t)(value.word[i] >> 16));
        }
    }
}

/* The largest value of a group of `width` lanes, a power of two. */
template <typename T> K3_DEVICE T k3_max_over(T value, unsigned width)
{
    for (unsigned mask = width / 2; mask != 0; mask /= 2) {
        T other = k3_shuffle_xor(value, mask);

        value = other > value ? other : value;
    }
    return value;
}

#endif
