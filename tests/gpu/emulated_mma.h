/* The matrix operation of kernels/gpu/mma.h by definition, from the register layouts in the manuals:
 * element k of a row or column lies in lane-group k / 4 (64 lanes), or as pairs 2 t, 2 t + 1 and
 * 2 t + 8, 2 t + 9 in lane t (32 lanes). The hardware's order within the sum of 16 is not
 * documented; here the sum is exact and rounded once. */
#ifndef K3_TESTS_GPU_EMULATED_MMA_H
#define K3_TESTS_GPU_EMULATED_MMA_H

struct k3_fragments {
    const uint32_t *a, *b;
};

static inline float k3_element(const uint32_t *pairs, unsigned i)
{
    return k3_as_float((i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xffff0000u));
}

static inline double k3_product_sum(const void *const *all, unsigned row, unsigned column)
{
    double sum = 0;

    for (unsigned k = 0; k < 16; k++) {
        unsigned            group = k3_warp == 32 ? k % 8 / 2 : k / 4;
        unsigned            place = k3_warp == 32 ? k / 8 * 2 + k % 2 : k % 4;
        unsigned            a_lane = k3_warp == 32 ? row % 8 * 4 + group : group * 16 + row;
        unsigned            b_lane = k3_warp == 32 ? column * 4 + group : group * 16 + column;
        const k3_fragments *a = static_cast<const k3_fragments *>(all[a_lane]);
        const k3_fragments *b = static_cast<const k3_fragments *>(all[b_lane]);

        sum += (double)k3_element(a->a + 2 * (k3_warp == 32 ? row / 8 : 0), place) *
               (double)k3_element(b->b, place);
    }
    return sum;
}

K3_DEVICE void k3_mma(float acc[4], const uint32_t *a, const uint32_t *b)
{
    k3_fragments       mine = {a, b};
    const void *const *all = k3_emulator::exchange(&mine);

    k3_emulator::count_product();
    for (unsigned i = 0; i < 4; i++) {
        acc[i] = (float)((double)acc[i] + k3_product_sum(all, k3_c_row(i), k3_c_column(i)));
    }
    k3_emulator::exchange(nullptr); /* nobody's registers change before all have read */
}

#endif
