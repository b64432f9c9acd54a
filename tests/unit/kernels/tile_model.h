/* The tile unit on plain memory, in the place of kernels/cpu/tile_ops.h: include it before. */
#ifndef K3_KERNELS_CPU_TILE_OPS_H
#define K3_KERNELS_CPU_TILE_OPS_H

#include "bf16_sums.h"

typedef struct k3_model_tile {
    union {
        uint16_t pairs[16][32];
        float    sums[16][16];
    };
} k3_model_tile_t;

static k3_model_tile_t k3_model_tiles[8];
static bool            k3_model_configured;

/* 8 tiles of 16 rows of 64 bytes are what the kernel works with. */
static inline void k3_model_configure(const void *config)
{
    const uint8_t *bytes = config;

    assert_int_equal(bytes[0], 1);
    for (int tile = 0; tile < 8; tile++) {
        assert_int_equal(bytes[16 + 2 * tile] | bytes[17 + 2 * tile] << 8, 64);
        assert_int_equal(bytes[48 + tile], 16);
    }
    k3_model_configured = true;
}

static inline void k3_model_load(int tile, const void *from, size_t stride)
{
    assert_true(k3_model_configured);
    for (size_t row = 0; row < 16; row++) {
        memcpy(k3_model_tiles[tile].pairs[row], (const char *)from + row * stride, 64);
    }
}

static inline void k3_model_store(int tile, void *to, size_t stride)
{
    for (size_t row = 0; row < 16; row++) {
        memcpy((char *)to + row * stride, k3_model_tiles[tile].pairs[row], 64);
    }
}

/* TDPBF16PS: even and odd products are summed apart. */
static inline void k3_model_multiply(int sum, int left, int right)
{
    for (size_t i = 0; i < 16; i++) {
        for (size_t j = 0; j < 16; j++) {
            float even = 0, odd = 0, *to = &k3_model_tiles[sum].sums[i][j];

            for (size_t k = 0; k < 16; k++) {
                const uint16_t *a = &k3_model_tiles[left].pairs[i][2 * k];
                const uint16_t *b = &k3_model_tiles[right].pairs[k][2 * j];

                even = bf16_unit_add(even, a[0], b[0]);
                odd = bf16_unit_add(odd, a[1], b[1]);
            }
            *to = unit_flush(unit_flush(*to) + unit_flush(even + odd));
        }
    }
}

#define k3_tiles_configure(config)         k3_model_configure(config)
#define k3_tiles_release()                 (k3_model_configured = false)
#define k3_tile_load(tile, from, stride)   k3_model_load(tile, from, stride)
#define k3_tile_store(tile, to, stride)    k3_model_store(tile, to, stride)
#define k3_tile_multiply(sum, left, right) k3_model_multiply(sum, left, right)

#endif
