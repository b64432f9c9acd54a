#include "kernels/cpu/mx_bytes.h"

#include "kernels/format.h"

k3_mx_bytes_t k3_mx_bytes[256];

void k3_mx_prepare(void)
{
    for (unsigned scale = 0; scale < 256; scale++) {
        for (unsigned code = 0; code < 16; code++) {
            /* Exact: a bf16 holds every product, infinite ones and subnormal ones too. */
            uint16_t bits =
                k3_f32_to_bf16(k3_e2m1_to_f32((uint8_t)code) * k3_e8m0_to_f32((uint8_t)scale));

            k3_mx_bytes[scale].low[code] = (uint8_t)bits;
            k3_mx_bytes[scale].high[code] = (uint8_t)(bits >> 8);
        }
    }
}
