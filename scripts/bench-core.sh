#!/usr/bin/env bash
# The claims about speed and overhead, each as a ratio of two times from one launch, so that a slow machine
# shifts both. Usage: scripts/bench-core.sh K3BENCH_BINARY (the build target bench-core calls it).
set -euo pipefail

bin=$(readlink -f "${1:?usage: bench-core.sh K3BENCH_BINARY}")
seconds=${SECONDS_PER_CELL:-10}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# launch NAME RANKS OPTIONS...: one launch, its record in $work/NAME.json
launch() {
    local name=$1 ranks=$2
    shift 2
    mpirun --oversubscribe -np "$ranks" "$bin" run --max-seconds "$seconds" --ci-target 0.5 \
        --out "$work/$name.json" "$@" >"$work/$name.txt"
}

# median NAME CELL PHASE, in us
median() {
    jq -r --argjson c "$2" --arg p "$3" '.cells[$c].phases[] | select(.name == $p) | .median' "$work/$1.json"
}

# minimum over iterations, in us: the least disturbed sample where ranks outnumber cores
minimum() {
    jq -r --argjson c "$2" --arg p "$3" '.cells[$c].phases[] | select(.name == $p) | .min' "$work/$1.json"
}

ratio() {
    awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'
}

shape=kimi-k3:E=64,I=64 # true widths and top-k; fewer experts, so that the slots fit anywhere

# over NAME PHASE: a dispatch over it, of the medians and (of the minima)
over() {
    printf '%s (%s)' "$(ratio "$(median "$1" 0 dispatch)" "$(median "$1" 0 "$2")")" \
        "$(ratio "$(minimum "$1" 0 dispatch)" "$(minimum "$1" 0 "$2")")"
}

echo "dispatch of deepep:ll, 8 ranks, $shape, shared memory (ratios of medians, of minima in brackets)"
for p2p in on off; do
    for tokens in 128 1; do
        for format in fp8 bf16; do
            name=control-$p2p-$tokens-$format
            launch "$name" 8 --model "$shape" --component control --backend deepep:ll --tokens "$tokens" --p2p "$p2p" \
                --dispatch-dtype "$format"
            printf '  p2p %-3s T=%-4s %-4s dispatch %10.1f us   over bare loop %s   over the loop that brings rows to their format %s   accounts on over off %s\n' \
                "$p2p" "$tokens" "$format" "$(median "$name" 0 dispatch)" "$(over "$name" control)" "$(over "$name" control_floor)" \
                "$(over "$name" dispatch_unbooked)"
        done
    done
done

echo "against MPI_Alltoallv of the same rows, T=128 (same launch)"
for p2p in on off; do
    launch "mpi-$p2p" 8 --model "$shape" --component dispatch --backend deepep:ll,mooncake,mpi \
        --dispatch-dtype fp8 --tokens 128 --p2p "$p2p"
    m=$(median "mpi-$p2p" 2 dispatch)
    for i in 0 1; do
        printf '  p2p %-3s %-10s mpi over it %s\n' "$p2p" \
            "$(jq -r ".cells[$i] | .backend + (if .mode == \"\" then \"\" else \":\" + .mode end)" "$work/mpi-$p2p.json")" \
            "$(ratio "$m" "$(median "mpi-$p2p" "$i" dispatch)")"
    done
done

echo "region of the null backend, tiny, 16 rows a rank (what the harness and the rest of the region cost)"
for ranks in 2 8 64; do
    launch "null-$ranks" "$ranks" --model tiny --backend null --check off
    printf '  %3d ranks: region %10.1f us, dispatch + combine %6.2f us\n' "$ranks" "$(median "null-$ranks" 0 region)" \
        "$(awk -v a="$(median "null-$ranks" 0 dispatch)" -v b="$(median "null-$ranks" 0 combine)" 'BEGIN { print a + b }')"
done
