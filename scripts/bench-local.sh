#!/usr/bin/env bash
# What the machine file `local` foresees: calibrates, runs dispatch and combine with a barrier between them, prints
# predicted beside measured. Usage: scripts/bench-local.sh K3BENCH_BINARY [FOLDER [PLACE...]] (the build target bench-local
# calls it). PLACE is memory, or the rate of a virtual cluster's links (200mbit, 1gbit), which needs what scripts/cluster.sh
# needs. Rounds are kept in FOLDER, so that they can be made in pieces: each call adds ROUNDS to each place and shows the medians
# of all. RANKS, BACKENDS, MODEL, TOKENS, SECONDS_PER_CELL scale it. Some 30 s a place and round on a machine left alone.
set -euo pipefail

bin=$(readlink -f "${1:?usage: bench-local.sh K3BENCH_BINARY [FOLDER [PLACE...]]}")
work=$(mktemp -d)
folder=${2:-$work}
places=("${@:3}")
[ "${#places[@]}" -gt 0 ] || places=(memory 200mbit 1gbit)
cluster=$(dirname "$(readlink -f "$0")")/cluster.sh
ranks=${RANKS:-2 4 8} backends=${BACKENDS:-deepep:ll,mooncake} seconds=${SECONDS_PER_CELL:-0.5} rounds=${ROUNDS:-1}
model=${MODEL:-kimi-k3:E=64,I=64} # true widths and top-k; fewer experts, so that slots fit anywhere
export CLUSTER_STATE=$work/cluster
trap '"$cluster" down; rm -rf "$work"' EXIT
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
mkdir -p "$folder"
lines=$(readlink -f "$folder")/rounds.tsv
cd "$work"

# Each of two nodes has half of the cores, as nodes do.
cat >pinned <<PINNED
#!/bin/sh
half=$((($(nproc) + 1) / 2)) first=0
[ "\$(hostname)" = node0 ] || first=$(($(nproc) / 2))
exec taskset -c "\$first-\$((first + half - 1))" "$bin" "\$@"
PINNED
chmod +x pinned

on() { # PLACE RANKS ARGUMENTS...: k3bench there
    local place=$1 count=$2
    shift 2
    if [ "$place" = memory ]; then
        mpirun -q --oversubscribe -np "$count" "$bin" "$@"
    else
        "$cluster" run -- mpirun -q --host "node0:$((count / 2)),node1:$((count / 2))" --map-by "ppr:$((count / 2)):node" \
            "$work/pinned" "$@"
    fi
}

# A barrier between the parts: where ranks outnumber cores the time of one would else hold the next part of others.
measure() { # PLACE RANKS
    local tokens=${TOKENS:-16,128}
    [ "$1" = memory ] || tokens=${TOKENS:-16} # more would only be a longer stream
    rm -f run.json
    on "$1" "$2" run --model "$model" --backend "$backends" --tokens "$tokens" --component dispatch --machine local \
        --check ends --max-seconds "$seconds" --ci-target 0.5 --progress off --out "$work/run.json"
    jq -r --arg place "$1" '.run.launch.ranks as $ranks | .cells[] | . as $c | .limits.phases[]
        | select(.name == "dispatch" or .name == "combine") | [$place, $ranks, $c.backend + (if $c.mode == "" then "" else ":" + $c.mode end),
           $c.work.rows_global / $ranks, .name, .predicted_us, .measured_us] | @tsv' run.json >>"$lines"
}

one_round() { # PLACE
    local pairs=2
    # Two ranks a node: pairs inside of one are measured too.
    [ "$1" = memory ] || { "$cluster" up 2 --rate "$1" --owner $$ 2>/dev/null; pairs=4; }
    on "$1" $pairs doctor --calibrate >out 2>&1 </dev/null || { cat out; exit 1; }
    for count in $ranks; do
        measure "$1" "$count" >out 2>&1 </dev/null || { cat out; exit 1; }
    done
    cp results/local/machine.ini "$(dirname "$lines")/machine-$1.ini"
    "$cluster" down
}

for ((round = 0; round < rounds; round++)); do
    for place in "${places[@]}"; do
        one_round "$place"
    done
done
printf '%s: medians over rounds of one calibration and one launch each\n\n' "$model"
python3 - "$lines" <<'PYTHON'
import statistics, sys
cells = {}
for line in open(sys.argv[1]):
    *cell, predicted, measured = line.rstrip("\n").split("\t")
    cells.setdefault(tuple(cell), []).append((float(predicted), float(measured)))
print("| place | ranks | backend | rows a rank | phase | rounds | predicted us | measured us | predicted / measured | lowest, highest |")
print("|---|---:|---|---:|---|---:|---:|---:|---:|---|")
within = 0
for cell, rounds in cells.items():
    ratios = [p / m for p, m in rounds]
    ratio = statistics.median(ratios)
    within += 0.75 <= ratio <= 1.25
    print("| %s | %d | %.0f | %.0f | %.2f | %.2f, %.2f |" % (" | ".join(cell), len(rounds), statistics.median(p for p, _ in rounds),
          statistics.median(m for _, m in rounds), ratio, min(ratios), max(ratios)))
print("\n%d of %d within 25 %%" % (within, len(cells)))
PYTHON
