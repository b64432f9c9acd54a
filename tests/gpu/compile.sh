#!/usr/bin/env bash
# Compiles the GPU kernels for what this machine has a compiler for: compile.sh cuda|hip|gfx950 ROOT NVCC HIPCC, and
# what calls the runtimes against their headers (those of HIP in K3BENCH_ROCM, where that is set).
# By itself as far as PTX for one architecture, not optimised, and as far as types for gfx90a; with K3BENCH_TEST_LONG to
# code for every architecture that the compiler knows. gfx950 needs a newer clang than Debian's: K3BENCH_AMDGCN_CLANG, the
# one of the Python package ziglang that setup.sh fetched, or that of an installed one; with the HIP headers of hipcc.
# Exit code 77 where there is no compiler.
set -euo pipefail

dialect=$1 root=$2 nvcc=$3 hipcc=$4
source=$root/kernels/gpu/kernels.cu
out=$(mktemp -d "${TMPDIR:-/tmp}/k3bench-gpu.XXXXXX")
trap 'rm -rf "$out"' EXIT

need() { # COMPILER NAME PACKAGE
    [ -x "$1" ] || { echo "skipped: no $2 here ($3)"; exit 77; }
}

# hipBLASLt is no package of Debian 12: its headers and HIP's may lie in a folder of their own, include/ and lib/ of
# K3BENCH_ROCM.
callers() { # CUDA|HIP INCLUDE
    local flags=(-Wall -Wextra -Werror -fsyntax-only "-DK3_RUNTIME_$1" -I "$root")
    [ ! -d "$2" ] || flags+=(-isystem "$2")
    cc -std=gnu17 "${flags[@]}" "$root/harness/device/gpu/runtime.c"
    c++ -std=c++17 "${flags[@]}" "$root/kernels/gpu/blas.cpp"
    {
        cc "${flags[@]}" -dM -E "$root/harness/device/gpu/runtime.c"
        c++ "${flags[@]}" -dM -E "$root/kernels/gpu/blas.cpp"
    } | awk -v dialect="$1" '{ value[$2] = $3 } END {
        hip = value["HIP_VERSION_MAJOR"] ? " " value["HIP_VERSION_MAJOR"] "." value["HIP_VERSION_MINOR"] : ""
        print "callers compiled against " dialect hip ", " ("HAS_BLAS" in value ? "with" : "without") " its library of matrix products"
    }'
}

cuda() { # ARCHITECTURE OUTPUT-OPTION...
    "$nvcc" -std=c++17 --fmad=false -Werror all-warnings -I "$root" "${@:2}" -arch="sm_$1" "$source" -o "$out/cuda_$1"
    echo "compiled for sm_$1 (${*:2})"
}

hip() { # ARCHITECTURE
    "$hipcc" -x hip -std=c++17 -O3 -ffp-contract=off -Wall -Werror -Wno-unused-command-line-argument \
        -I "$root" --offload-arch="$1" "${depth[@]}" "$source"
    echo "compiled for $1 (${depth[0]})"
}

knows_hip() { "$hipcc" -x hip --offload-arch="$1" -fsyntax-only /dev/null >/dev/null 2>&1; }

# Device code alone, with the headers of Debian's clang for what a bare clang lacks.
newer() { # ARCHITECTURE
    local clang=() own
    if [ -n "${K3BENCH_AMDGCN_CLANG:-}" ]; then
        read -ra clang <<<"$K3BENCH_AMDGCN_CLANG"
    else
        own=$(find "$root"/build/tools/ziglang-*/ziglang -maxdepth 1 -name zig 2>/dev/null | sort -V | tail -n 1) || true
        [ -n "$own" ] || own=$(python3 -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__) + "/zig")' 2>/dev/null) || true
        [ -n "$own" ] || { echo "skipped: no clang that knows $1 here (pip install ziglang, or K3BENCH_AMDGCN_CLANG)"; exit 77; }
        clang=("$own" clang)
    fi
    own=$(find /usr/lib/llvm-*/lib/clang /opt/rocm*/llvm/lib/clang -name __clang_hip_runtime_wrapper.h 2>/dev/null | sort -V | tail -n 1) || true
    [ -n "$own" ] || { echo "skipped: no headers of HIP here (apt-get install hipcc)"; exit 77; }
    "${clang[@]}" -x hip "--offload-arch=$1" --offload-device-only -nogpulib -nogpuinc -std=c++17 -O3 -ffp-contract=off \
        -I "$root" -D__HIP_PLATFORM_AMD__ -D__AMDGCN_WAVEFRONT_SIZE=64 -isystem /usr/include/c++/12 \
        -isystem "/usr/include/$(gcc -dumpmachine)/c++/12" -idirafter /usr/include \
        -idirafter "/usr/include/$(gcc -dumpmachine)" -idirafter "$(dirname "$own")" \
        -include __clang_hip_runtime_wrapper.h "${depth[@]}" "$source"
    echo "compiled for $1 (${depth[0]})"
}

depth=(-fsyntax-only)
if [ "$dialect" = cuda ]; then
    need "$nvcc" nvcc "CUDA 13"
    callers CUDA "$(dirname "$nvcc")/../include"
    if [ -z "${K3BENCH_TEST_LONG:-}" ]; then
        cuda 90a -ptx -G
    else
        for architecture in 90a 100a 103a; do cuda "$architecture" -cubin; done
    fi
elif [ "$dialect" = gfx950 ]; then
    newer gfx950
    for architecture in ${K3BENCH_TEST_LONG:+gfx942 gfx950}; do
        depth=(-S -o "$out/code.s")
        newer "$architecture"
        count=$(grep -c v_mfma "$out/code.s")
        echo "$count matrix instructions"
    done
else
    need "$hipcc" hipcc "apt-get install hipcc"
    [ -z "${K3BENCH_TEST_LONG:-}" ] || depth=(-c -o "$out/object")
    callers HIP "${K3BENCH_ROCM:-/opt/rocm}/include"
    hip gfx90a
    if [ -n "${K3BENCH_TEST_LONG:-}" ]; then
        for architecture in gfx942 gfx950; do
            if knows_hip "$architecture"; then hip "$architecture"; else echo "not known to this compiler: $architecture"; fi
        done
    fi
fi
