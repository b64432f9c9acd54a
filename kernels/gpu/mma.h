/* One matrix operation of a warp: acc[16][columns] += a[16][16] b[16][columns], bf16 to f32.
 *
 * A is 16 rows of weights, B some rows of activations. Which element a lane holds differs between
 * mma.sync.m16n8k16 (32 lanes, 8 columns) and mfma_f32_16x16x16bf16_1k (64 lanes, 16 columns), but
 * on both four lanes share a row of A and a column of B, each with four of the 16 elements of the
 * sum. As a sum may be taken in any order, the four lanes take theirs from four different groups of
 * 32 values (k3_group), four at a time: a lane's elements of 8 operations are one MX group, 16 bytes
 * of MXFP4 with one scale. */
#ifndef K3_KERNELS_GPU_MMA_H
#define K3_KERNELS_GPU_MMA_H

#include "kernels/gpu/dialect.h"

constexpr unsigned k3_mma_rows = 16;
constexpr unsigned k3_mma_columns = k3_warp == 32 ? 8 : 16;
constexpr unsigned k3_lane_rows = k3_warp == 32 ? 2 : 1; /* rows of A that a lane holds */

/* Which of the four groups of a row, and of a column, a lane holds. */
K3_DEVICE unsigned k3_group()
{
    return k3_warp == 32 ? k3_lane() % 4 : k3_lane() / 16;
}

K3_DEVICE unsigned k3_a_row(unsigned i)
{
    return k3_warp == 32 ? k3_lane() / 4 + 8 * i : k3_lane() % 16;
}

K3_DEVICE unsigned k3_b_column()
{
    return k3_warp == 32 ? k3_lane() / 4 : k3_lane() % 16;
}

/* Row and column of a lane's i-th of four results. */
K3_DEVICE unsigned k3_c_row(unsigned i)
{
    return k3_warp == 32 ? k3_lane() / 4 + 8 * (i / 2) : k3_lane() / 16 * 4 + i;
}

K3_DEVICE unsigned k3_c_column(unsigned i)
{
    return k3_warp == 32 ? k3_lane() % 4 * 2 + i % 2 : k3_lane() % 16;
}

/* a: for each of the lane's rows two pairs of bf16, the first value in the low half; b: two pairs. */
#if defined(__HIP__)

K3_DEVICE void k3_mma(float acc[4], const uint32_t *a, const uint32_t *b)
{
#if defined(__HIP_DEVICE_COMPILE__) /* the host's pass knows no such instruction */
    typedef short bf16x4 __attribute__((ext_vector_type(4)));
    typedef float f32x4 __attribute__((ext_vector_type(4)));
    union {
        uint32_t word[2];
        bf16x4   values;
    } left = {{a[0], a[1]}}, right = {{b[0], b[1]}};
    f32x4 c = {acc[0], acc[1], acc[2], acc[3]};

    c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(left.values, right.values, c, 0, 0, 0);
    for (int i = 0; i < 4; i++) {
        acc[i] = c[i];
    }
#else
    (void)acc;
    (void)a;
    (void)b;
#endif
}

#elif defined(__CUDACC__)

K3_DEVICE void k3_mma(float acc[4], const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                 : "r"(a[0]), "r"(a[2]), "r"(a[1]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else
#include K3_GPU_EMULATED_MMA
#endif
#endif
