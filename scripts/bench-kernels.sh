#!/usr/bin/env bash
# The kernels beside what this machine can do: every recipe's expert MLP, and what happens to rows.
# Usage: scripts/bench-kernels.sh BENCH_KERNELS_BINARY (the build target bench-kernels calls it).
set -euo pipefail

bin=$(readlink -f "${1:?usage: bench-kernels.sh BENCH_KERNELS_BINARY}")
seconds=${SECONDS_PER_LINE:-1}

"$bin" --seconds "$seconds"
for recipe in fp8 mxfp8 a4w4 int8; do
    "$bin" --seconds "$seconds" --recipe "$recipe" --rows 1,4,64
done
for model in deepseek-v3 deepseek-v4-flash; do
    "$bin" --seconds "$seconds" --model "$model"
done
"$bin" --seconds "$seconds" --part rows
