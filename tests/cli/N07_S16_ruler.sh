#!/usr/bin/env bash
# The truth of the ruler: the rate of a link with a known rate, and the node whose link is slow. N07, S16.
# Alone: times on links of a known rate.
. "$(dirname "$0")/lib.sh"
long_only
. "$source_dir/tests/cli/libcluster.sh"

# The link is what takes the time: no expert, bf16 rows, 8 copies of each row.
cell=(--model "tiny:E=24,K=8,H=3584,L=3584" --dispatch-dtype bf16 --component pair --check ends --backend deepep:ll)

start_cluster 2 100mbit
on_nodes 2 1 run "${cell[@]}" --model "tiny:E=16,K=8,H=3584,L=3584" --tokens 32 --iters 4 --out two.json
expect_rc 0
expect_good two.json 1
# Never above the rate; how near it comes is measured on a quiet machine (bench-cluster).
expect two.json '.cells[0].links | table | .out_GBps * 8000 <= 100 and .in_GBps * 8000 <= 100'
expect two.json '[.cells[0].links | table | select(.phase == "dispatch") | .out_GBps * 8000] | max > 80'
stop_cluster

# Three nodes, one at half the rate: its name is in the report. With two nodes both directions of the one path
# are slow, so nothing tells which of the two it is.
start_cluster 3 100mbit
run_it "$cluster" shape node1 40mbit
expect_rc 0
on_nodes 3 2 run "${cell[@]}" --tokens 16 --iters 5 --out slow.json
expect_rc 0
expect_good slow.json 1
expect slow.json '.cells[0].pattern | .name == "slow node" and .node == 1'
expect_text out 'slow node: node 1, [0-9]+ % of the (dispatch|combine)'
