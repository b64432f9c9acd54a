/* The instructions of the tile unit (AMX) that kernels/cpu/simd_amx.h needs: macros, since the
 * number of a tile is part of the instruction. A test defines the same names on plain memory.
 *
 * The compiler's own intrinsics do not say that they read and write memory (GCC 12), so that what is
 * stored before a load of a tile might come after it; these do. */
#ifndef K3_KERNELS_CPU_TILE_OPS_H
#define K3_KERNELS_CPU_TILE_OPS_H

#define k3_tiles_configure(config) __asm__ volatile("ldtilecfg %0" : : "m"(*(config)) : "memory")

#define k3_tiles_release() __asm__ volatile("tilerelease" : : : "memory")

/* 16 rows of 64 bytes, `stride` bytes apart. */
#define k3_tile_load(tile, from, stride)                                                           \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile                                            \
                     :                                                                             \
                     : "r"(from), "r"((size_t)(stride))                                            \
                     : "memory")
#define k3_tile_store(tile, to, stride)                                                            \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)"                                        \
                     :                                                                             \
                     : "r"(to), "r"((size_t)(stride))                                              \
                     : "memory")

/* sum[i][j] += left[i][.] . right[.][j], bf16 in pairs. */
#define k3_tile_multiply(sum, left, right)                                                         \
    __asm__ volatile("tdpbf16ps %%tmm" #right ", %%tmm" #left ", %%tmm" #sum : : : "memory")

#endif
