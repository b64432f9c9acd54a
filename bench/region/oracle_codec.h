/* The oracle's own number formats: by value (frexp, rint), where the kernels work on bit patterns,
 * so that one mistake cannot hide in both. The rules are those of kernels/format.h, from which only
 * the names of the formats are taken. */
#ifndef K3_REGION_ORACLE_CODEC_H
#define K3_REGION_ORACLE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/format.h"

/* Nearest bf16 value, ties to even, straight from f64 (no second rounding by way of f32). */
double   k3_oracle_round_bf16(double value);
uint16_t k3_oracle_bf16_bits(double value); /* of the nearest bf16 value */
float    k3_oracle_bf16_value(uint16_t bits);
void     k3_oracle_bf16_row(const uint16_t *bits, size_t n, float *out);

/* Nearest e4m3 and E2M1 values, ties to even, saturating. */
double k3_oracle_round_e4m3(double value);
double k3_oracle_round_e2m1(double value);

/* The value of a code. */
float k3_oracle_e4m3_value(uint8_t code);
float k3_oracle_e2m1_value(uint8_t code); /* low four bits */
float k3_oracle_e8m0_value(uint8_t code);

/* What is left of a row of n values after encoding and decoding; bf16 in, f32 out for the quantised
 * formats. A group that holds a value that is not finite becomes NaN, in logfmt10 it stays. */
void k3_oracle_quantise(k3_format_t format, size_t n, float *row);

#endif
