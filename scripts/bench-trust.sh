#!/usr/bin/env bash
# How far the verdicts and the named patterns can be trusted: a build against itself, planted delays, planted
# culprits. Usage: scripts/bench-trust.sh K3BENCH_BINARY (the build target bench-trust calls it).
# COMPARISONS (20), LAUNCHES a side (8) and PATTERNS (20) scale it; with the defaults it takes about half an hour
# on 2 quiet cores.
set -euo pipefail

bin=$(readlink -f "${1:?usage: bench-trust.sh K3BENCH_BINARY}")
comparisons=${COMPARISONS:-20} launches=${LAUNCHES:-8} patterns=${PATTERNS:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# launch RANKS FILE OPTIONS...
launch() {
    local ranks=$1 file=$2
    shift 2
    rm -f "$file"
    mpirun --oversubscribe -np "$ranks" "$bin" run --check off --progress off --out "$file" "$@" \
        >/dev/null 2>"$work/err" || { cat "$work/err"; exit 1; }
}

cell=(--model "kimi-k3-mini:E=16,K=4" --backend "mooncake,deepep:ll" --tokens 16 --iters 30)

# compared FAULT NAME: LAUNCHES a side in turns, the new side with the fault; leaves $work/NAME.json.
compared() {
    local fault=$1 name=$2 i
    for ((i = 0; i < launches; i++)); do
        launch 2 "$work/a$i.json" "${cell[@]}"
        launch 2 "$work/b$i.json" "${cell[@]}" --fault "$fault"
    done
    rm -f "$work/$name.json"
    "$bin" compare "$work"/a?*.json -- "$work"/b?*.json -o "$work/$name.json" || true
}

# verdicts FILTER FILE...: how many cells
verdicts() {
    local filter=$1
    shift
    jq -s "[.[].cells[] | select($filter)] | length" "$@"
}

launch 2 "$work/probe.json" "${cell[@]}"
region=$(jq '[.cells[].phases[] | select(.name == "region") | .median] | min' "$work/probe.json")
percent() { awk -v r="$region" -v p="$1" 'BEGIN { printf "%.3f", r * p / 100 / 1000 }'; } # of the region, in ms
printf 'region %.0f us (2 ranks); %s comparisons of %s launches a side, two cells each\n' "$region" "$comparisons" "$launches"

for ((c = 0; c < comparisons; c++)); do compared none "aa$c"; done
printf 'A/A        worse or better %s of %s cells (p alone below 5 %%: %s)\n' \
    "$(verdicts '.verdict == "worse" or .verdict == "better"' "$work"/aa*.json)" "$((2 * comparisons))" \
    "$(verdicts '.p <= 0.05' "$work"/aa*.json)"

for size in 10 5 2; do
    for ((c = 0; c < comparisons; c++)); do compared "stall:1:expert_mlp:$(percent "$size")" "p$size.$c"; done
    printf 'delay %2d %% worse %s, inconclusive %s, same %s, better %s of %s cells\n' "$size" \
        "$(verdicts '.verdict == "worse"' "$work/p$size".*.json)" "$(verdicts '.verdict == "inconclusive"' "$work/p$size".*.json)" \
        "$(verdicts '.verdict == "same"' "$work/p$size".*.json)" "$(verdicts '.verdict == "better"' "$work/p$size".*.json)" \
        "$((2 * comparisons))"
done

# named FILTER OPTIONS...: how often the pattern fits, 8 ranks on 2 virtual nodes
named() {
    local filter=$1 right=0 i
    shift
    for ((i = 0; i < patterns; i++)); do
        launch 8 "$work/pattern.json" --model tiny:E=32,K=4 --backend deepep:ll --tokens 16 --iters 30 --nodes-as 2 --seed "$((i + 1))" "$@"
        if jq -e ".cells[0].pattern | $filter" "$work/pattern.json" >/dev/null; then right=$((right + 1)); fi
    done
    echo "$right of $patterns"
}
echo "patterns, 8 ranks on 2 cores"
echo "  nothing planted: none            $(named '.name == "none"')"
echo "  rank 3 late by 30 ms             $(named '.name == "late rank" and .rank == 3' --fault stall:3:dispatch_send:30)"
echo "  lane 0->5 QP 2 slow, 400 fold    $(named '.name == "slow lane" and .lane == [0, 5, 2]' --fault slow-qp:0:5:2:400)"
echo "  nine tenths of the rows to rank 2 $(named '.name == "skewed routing" and .rank == 2' --tokens 128 --routing hot-rank:2:0.9)"
