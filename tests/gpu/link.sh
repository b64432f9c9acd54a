#!/usr/bin/env bash
# The whole program with the kernels of a dialect, for one architecture: it links, and on a machine without a device
# it starts, says what it was built for and refuses --device in one line. link.sh cuda|hip ROOT NVCC HIPCC; minutes of
# compiling, so with scripts/test.sh --long only. Exit code 77 where it cannot be tried. With K3BENCH_ROCM set, headers and
# libraries are those there, which may be of another system: the program is then linked and not started.
set -euo pipefail

dialect=$1 root=$2
compiler=$([ "$dialect" = cuda ] && echo "$3" || echo "$4")
[ -n "${K3BENCH_TEST_LONG:-}" ] || { echo "skipped: runs with scripts/test.sh --long"; exit 77; }
[ -x "$compiler" ] || { echo "skipped: no compiler for $dialect here"; exit 77; }
rocm=${K3BENCH_ROCM:-}
unset K3BENCH_TEST_LONG K3BENCH_ROCM # no options of the program
out=$(mktemp -d "${TMPDIR:-/tmp}/k3bench-link.XXXXXX")
trap 'rm -rf "$out"' EXIT

foreign=()
if [ "$dialect" = hip ] && [ -n "$rocm" ]; then
    runtime=$(find -L "$rocm"/lib* -name libamdhip64.so | head -n 1)
    foreign=("-DK3_HIP_INCLUDE=$rocm/include" "-DK3_HIP_RUNTIME=$runtime" "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined")
fi

# Each function that blas.cpp asks the library for by its name is one of the library.
check_names() { # LIBRARY
    nm -D --defined-only "$1" | awk '{ print $3 }' >"$out/defined.txt"
    strings -a "$out/libk3_hip.a" | grep -xE 'hipblasLt[A-Z][A-Za-z]*' | sort -u >"$out/asked.txt"
    [ -s "$out/asked.txt" ] || { echo "hipBLASLt is not called"; return 1; }
    ! grep -vxFf "$out/defined.txt" "$out/asked.txt" || return 1
    echo "$(wc -l <"$out/asked.txt") functions of $(basename "$1")"
}

cmake -S "$root" -B "$out" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DK3BENCH_${dialect^^}=on" "-DK3_HIPCC=$4" \
    -DK3BENCH_CUDA_ARCHITECTURES=90a -DK3BENCH_HIP_ARCHITECTURES=gfx90a "${foreign[@]}" >"$out/cmake.txt"
ninja -C "$out" k3bench >"$out/ninja.txt" || { tail -n 20 "$out/ninja.txt"; exit 1; }
if [ "${#foreign[@]}" -gt 0 ]; then
    library=$(find -L "$rocm"/lib* -name libhipblaslt.so | head -n 1)
    [ -z "$library" ] || check_names "$library"
    runtime=$(readelf -d "$out/k3bench" | grep -o 'libamdhip64[^]]*')
    echo "linked with $runtime of $rocm"
    exit 0
fi
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
