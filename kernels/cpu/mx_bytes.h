/* Scaled E2M1 values by table, for ISAs that look up bytes by 16 codes at a time. */
#ifndef K3_KERNELS_CPU_MX_BYTES_H
#define K3_KERNELS_CPU_MX_BYTES_H

#include <stdint.h>

/* The bytes of the bf16 values of E2M1 codes 0 to 15 times an E8M0 scale, by scale. */
typedef struct k3_mx_bytes {
    _Alignas(32) uint8_t low[16];
    uint8_t high[16];
} k3_mx_bytes_t;

extern k3_mx_bytes_t k3_mx_bytes[256];

void k3_mx_prepare(void); /* once, before the table is read */

#endif
