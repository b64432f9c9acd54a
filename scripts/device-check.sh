#!/usr/bin/env bash
# The first minutes on a machine with a GPU: builds, holds every kernel on it against the scalar ones, prints
# their times beside floors measured there, and runs the region with 2 and 4 ranks that share the device,
# every iteration checked. Under 8 minutes from a clean tree; exit status 0 only when everything was right.
#
#   scripts/device-check.sh [cuda|hip]      default: what this machine has
#
# For the tests, on the emulated device and without building:
#   scripts/device-check.sh emulated K3BENCH DEVICE_CHECK
set -euo pipefail

cd "$(dirname "$0")/.."
kind=${1:-}
say() { echo "device-check: $*"; }
end() { say "$2"; exit "$1"; }

if [ -z "$kind" ]; then
    if [ -e /dev/nvidiactl ]; then kind=cuda; elif [ -e /dev/kfd ]; then kind=hip; fi
fi
[ -n "$kind" ] || end 3 "no GPU here: neither /dev/nvidiactl nor /dev/kfd (a driver makes them)"

# The architecture of the first device alone: a build for all of them takes minutes more.
architecture() {
    case $kind in
    cuda) nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d . | sed 's/$/a/' ;;
    hip) rocminfo | grep -om 1 'gfx9[0-9a-f]*' ;;
    esac
}

build() {
    local dialect=${kind^^} jobs
    jobs=$(nproc)
    ./scripts/setup.sh
    say "building for $kind $(architecture)"
    cmake -S . -B build/device -G Ninja -DCMAKE_BUILD_TYPE=Release "-DK3BENCH_$dialect=on" \
        "-DK3BENCH_${dialect}_ARCHITECTURES=$(architecture)" >build-device.log 2>&1 ||
        { tail -n 20 build-device.log; end 3 "configuration failed, see build-device.log"; }
    cmake --build build/device -j "$jobs" --target k3bench device_check >>build-device.log 2>&1 ||
        { tail -n 20 build-device.log; end 1 "build failed, see build-device.log"; }
    rm -f build-device.log
    k3bench=build/device/k3bench check=build/device/tests/gpu/device_check
}

case $kind in
cuda | hip)
    build
    shapes=k3 model=kimi-k3-mini backends=null,none,mooncake,deepep:ll tokens=64 iters=20 staged=auto
    ;;
emulated)
    k3bench=${2:?the emulated program} check=${3:?the emulated check}
    shapes=small model='tiny:E=8,K=2,H=128,L=512,I=64,S=64' backends=null,deepep:ll tokens=2 iters=1 staged=off
    ;;
*) end 2 "$kind: cuda, hip or emulated" ;;
esac

failed=0
say "kernels"
"$check" "$kind" "$shapes" || failed=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Right only when every cell was: one that is unsupported was not run. Its output is in $work/out.
launch() { # RANKS STAGED
    rm -f "$work/record.json"
    mpirun --allow-run-as-root --oversubscribe -n "$1" "$k3bench" run --device "$kind" --share-device on \
        --staged "$2" --model "$model" --backend "$backends" --tokens "$tokens" --iters "$iters" --check every \
        --out "$work/record.json" >"$work/out" 2>&1 && ! any_cell 'status != "ok"'
}

# Whether some cell of the record has that status; no record: no.
any_cell() { # 'status == "failed"'
    [ -e "$work/record.json" ] &&
        python3 -c "import json, sys
sys.exit(not any($1 for status in [c['status'] for c in json.load(open(sys.argv[1]))['cells']]))" "$work/record.json"
}

# UCX and MPI that do not take addresses of the device are no fault of the kernels: staged, and said.
if [ "$staged" = auto ]; then
    staged=off
    if ! launch 2 off; then
        staged=on
        say "rows do not go from device to device here; what follows is staged in the host. Without:"
        grep -E '^k3bench:|unsupported|failed' "$work/out" | head -n 6 || true
        if any_cell 'status == "failed"'; then failed=1; fi # ran, and wrongly
    fi
fi
for ranks in 2 4; do
    say "the region on $ranks ranks that share the device, staged $staged"
    launch "$ranks" "$staged" || failed=1
    cat "$work/out"
done
[ "$failed" = 0 ] || end 1 "something is wrong, see above"
say "all right"
