#!/usr/bin/env bash
# Compiles the GPU kernels for what this machine has a compiler for: compile.sh cuda|hip ROOT NVCC HIPCC.
# By itself as far as PTX for one architecture, and as far as types for gfx90a; with K3BENCH_TEST_LONG to
# code for every architecture that the compiler knows. Exit code 77 where there is no compiler.
set -euo pipefail

dialect=$1 root=$2 nvcc=$3 hipcc=$4
source=$root/kernels/gpu/kernels.cu
out=$(mktemp -d "${TMPDIR:-/tmp}/k3bench-gpu.XXXXXX")
trap 'rm -rf "$out"' EXIT

need() { # COMPILER NAME PACKAGE
    [ -x "$1" ] || { echo "skipped: no $2 here ($3)"; exit 77; }
}

cuda() { # ARCHITECTURE OUTPUT-OPTION
    "$nvcc" -std=c++17 --fmad=false -Werror all-warnings -I "$root" "$2" -arch="sm_$1" "$source" -o "$out/cuda_$1"
    echo "compiled for sm_$1 ($2)"
}

hip() { # ARCHITECTURE
    "$hipcc" -x hip -std=c++17 -O3 -ffp-contract=off -Wall -Werror -Wno-unused-command-line-argument \
        -I "$root" --offload-arch="$1" "${depth[@]}" "$source"
    echo "compiled for $1 (${depth[0]})"
}

knows_hip() { "$hipcc" -x hip --offload-arch="$1" -fsyntax-only /dev/null >/dev/null 2>&1; }

depth=(-fsyntax-only)
[ -z "${K3BENCH_TEST_LONG:-}" ] || depth=(-c -o "$out/object")
if [ "$dialect" = cuda ]; then
    need "$nvcc" nvcc "CUDA 13"
    if [ -z "${K3BENCH_TEST_LONG:-}" ]; then
        cuda 90a -ptx
    else
        for architecture in 90a 100a 103a; do cuda "$architecture" -cubin; done
    fi
else
    need "$hipcc" hipcc "apt-get install hipcc"
    hip gfx90a
    if [ -n "${K3BENCH_TEST_LONG:-}" ]; then
        for architecture in gfx942 gfx950; do
            if knows_hip "$architecture"; then hip "$architecture"; else echo "not known to this compiler: $architecture"; fi
        done
    fi
fi
