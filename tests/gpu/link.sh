#!/usr/bin/env bash
# The whole program with the kernels of a dialect, for one architecture: it links, and on a machine without a device
# it starts, says what it was built for and refuses --device in one line. link.sh cuda|hip ROOT NVCC HIPCC; minutes of
# compiling, so with scripts/test.sh --long only. Exit code 77 where it cannot be tried.
set -euo pipefail

dialect=$1 root=$2
compiler=$([ "$dialect" = cuda ] && echo "$3" || echo "$4")
[ -n "${K3BENCH_TEST_LONG:-}" ] || { echo "skipped: runs with scripts/test.sh --long"; exit 77; }
[ -x "$compiler" ] || { echo "skipped: no compiler for $dialect here"; exit 77; }
unset K3BENCH_TEST_LONG # not an option of the program
out=$(mktemp -d "${TMPDIR:-/tmp}/k3bench-link.XXXXXX")
trap 'rm -rf "$out"' EXIT

cmake -S "$root" -B "$out" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DK3BENCH_${dialect^^}=on" \
    -DK3BENCH_CUDA_ARCHITECTURES=90a -DK3BENCH_HIP_ARCHITECTURES=gfx90a >"$out/cmake.txt"
ninja -C "$out" k3bench >"$out/ninja.txt" || { tail -n 20 "$out/ninja.txt"; exit 1; }
"$out/k3bench" --version | grep -Eiq "^ *$dialect +(90a|gfx90a) "
"$out/k3bench" list backends >/dev/null
if [ -e /dev/nvidiactl ] || [ -e /dev/kfd ]; then
    echo "linked; a driver is here"
    exit 0
fi
rc=0
"$out/k3bench" run --model tiny --device "$dialect" 2>"$out/err" || rc=$?
if [ "$rc" != 3 ] || [ "$(wc -l <"$out/err")" != 1 ] || ! grep -q "no $dialect device: " "$out/err"; then
    echo "exit status $rc:"
    cat "$out/err"
    exit 1
fi
echo "linked for $dialect, and refuses without a device: $(cat "$out/err")"
