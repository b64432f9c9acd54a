#!/usr/bin/env bash
# What the ruler says about links of a known rate, and how long a launch of many ranks takes to start. Usage:
# scripts/bench-cluster.sh K3BENCH_BINARY (the build target bench-cluster calls it); RATES, ITERS scale it. About a
# minute on 2 quiet cores; needs what scripts/cluster.sh needs.
set -euo pipefail

bin=$(readlink -f "${1:?usage: bench-cluster.sh K3BENCH_BINARY}")
cluster=$(dirname "$(readlink -f "$0")")/cluster.sh
rates=${RATES:-200mbit 1gbit 5gbit} iters=${ITERS:-8}
work=$(mktemp -d)
export CLUSTER_STATE=$work/cluster
trap '"$cluster" down; rm -rf "$work"' EXIT
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# By default UCX cuts what it sends over TCP into pieces of 8 KB, which costs the cores more than the bytes do.
export UCX_TCP_TX_SEG_SIZE=${UCX_TCP_TX_SEG_SIZE:-256k} UCX_TCP_RX_SEG_SIZE=${UCX_TCP_RX_SEG_SIZE:-256k}

# trace ROWS: those of node 0 go to the eight experts of node 1, those of node 1 nowhere: one core sends, one receives.
trace() {
    python3 - "$1" "$work/trace.npy" <<'PYTHON'
import struct, sys
rows = int(sys.argv[1])
head = "{'descr': '<i4', 'fortran_order': False, 'shape': (%d, 8), }" % (2 * rows)
head += " " * (-(len(head) + 11) % 64) + "\n"
with open(sys.argv[2], "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    f.write(struct.pack("<8i", *range(8, 16)) * rows + struct.pack("<8i", *[-1] * 8) * rows)
PYTHON
}

# One rank a node, bf16 rows of 57344 bytes, eight copies of each: the link is what takes the time. About 300 ms of
# traffic in an iteration, since starting together and the last answer take some milliseconds; at most 160 rows.
printf 'deepep:ll, dispatch from node 0 to node 1, %s iterations; bytes_wire that cross the link over the median\n' "$iters"
for rate in $rates; do
    mbit=$(("$(sed 's/gbit/000/; s/mbit//' <<<"$rate")"))
    tokens=$((mbit * 8 / 100))
    [ "$tokens" -le 160 ] || tokens=160
    trace "$tokens"
    "$cluster" up 2 --rate "$rate" --owner $$ 2>/dev/null
    "$cluster" run -- mpirun -q --host node0:1,node1:1 --map-by ppr:1:node "$bin" run --model "tiny:E=16,K=8,H=28672,L=28672" \
        --dispatch-dtype bf16 --backend deepep:ll --tokens "$tokens" --routing "trace:$work/trace.npy" --component dispatch \
        --check ends --iters "$iters" --progress off --out "$work/$rate.json" >"$work/out" 2>&1 </dev/null || { cat "$work/out"; exit 1; }
    jq -r --arg rate "$rate" --argjson mbit "$mbit" --argjson rows "$tokens" '.cells[0] | [.links.rows[] | select(.[0] == "dispatch") | .[4], .[5]] | max
        | . * 8000 | "\($rate)  \($rows) rows  reported \(. * 10 | round / 10) Mbit/s, \(. / $mbit * 1000 | round / 10) % of the rate"' "$work/$rate.json"
    "$cluster" down
done

# From the start of mpirun to the first iteration, with nothing to do in it.
for ranks in ${RANKS:-8 64}; do
    begin=$(date +%s%N)
    mpirun -q --oversubscribe -np "$ranks" "$bin" run --model tiny:E=64,K=4 --backend none --tokens 1 --iters 1 --check off \
        --progress off >/dev/null 2>&1 </dev/null
    printf '%s ranks: %s ms from mpirun to its end, one iteration of none\n' "$ranks" $((($(date +%s%N) - begin) / 1000000))
done
