#!/usr/bin/env bash
# The CPU kernels built for aarch64 and their unit tests run there, NEON against scalar bit for bit: kernels.sh ROOT.
# On another processor it needs a cross compiler and qemu; by itself long tests then take a part of their trials, with
# K3BENCH_TEST_LONG all. Nothing here tells how fast anything is. Exit code 77 where a tool is missing.
set -euo pipefail

root=$1
out=$(mktemp -d "${TMPDIR:-/tmp}/k3bench-aarch64.XXXXXX")
trap 'rm -rf "$out"' EXIT

need() { # TOOL PACKAGE
    command -v "$1" >/dev/null || { echo "skipped: no $1 here (apt-get install $2)"; exit 77; }
}

if [ "$(uname -m)" = aarch64 ]; then
    compiler=cc run=()
    need cc build-essential
else
    compiler=aarch64-linux-gnu-gcc run=(qemu-aarch64)
    need "$compiler" "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    need qemu-aarch64 qemu-user
fi

flags=(-std=gnu17 -Wall -Wextra -Wshadow -Wundef -Wno-missing-field-initializers -Werror -I "$root" -I "$root/tests/aarch64")
[ -n "${K3BENCH_TEST_LONG:-}" ] || [ ${#run[@]} = 0 ] || flags+=(-DK3_TEST_EMULATED)

# All but the dense layers, which need oneDNN.
(cd "$out" && "$compiler" "${flags[@]}" -O2 -c "$root"/kernels/cpu/*.c "$root"/kernels/{format,layout,threads}.c)

for test in rows formats e4m3_rows route gemm expert; do
    "$compiler" "${flags[@]}" -O1 -static -pthread "$root/tests/unit/kernels/test_$test.c" "$out"/*.o -lm -o "$out/test_$test"
    said=$("${run[@]}" "$out/test_$test") # by itself: an echo around it would hide how it ended
    echo "$test: $said"
done
