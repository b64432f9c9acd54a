#!/usr/bin/env bash
# Which lane carries what: one busy queue pair, the others silent but present; nodes, real and
# virtual; the transport that is really used. Q06.
# Alone: times of lanes.
. "$(dirname "$0")/lib.sh"

# 16 ranks, 2 nodes of 8: only rank 0 has rows, all for the second expert of rank 8 (33).
trace one.npy '[[33]] * 12'
launch 16 run --model "tiny:E=64,K=1,I=128" --nodes-as 2 --tokens-skew "12$(printf ',0%.0s' {1..15})" --routing trace:one.npy \
    --dispatch-dtype bf16 --backend "$slabs" --check every --iters 3 --out one.json
expect_rc 0
expect_good one.json 2
expect one.json '.cells[] | [lanes | select(.messages > 0)] | length == 2'
expect one.json '.cells[] | lanes | select(.messages > 0 and .phase == "dispatch")
    | .src == 0 and .dst == 8 and .qp == 1 and .lane == "qp" and .messages == 12 and .signals == 1 and .bytes_payload == 12 * 512'
expect one.json '.cells[] | lanes | select(.messages > 0 and .phase == "combine") | .src == 8 and .dst == 0 and .qp == 1 and .messages == 12'
expect one.json '.cells[] | [lanes | select(.src == 0 and .dst == 8 and .phase == "dispatch") | [.qp, .messages, .signals]]
    == [[0, 0, 1], [1, 12, 1], [2, 0, 1], [3, 0, 1]]'
expect one.json '.cells[] | lanes | select(.messages > 0) | .first_post_us > 0 and .first_post_us < .last_done_us'
# Every (source, destination, index) with a signal is there: 16 x 16 x 4, both ways.
expect one.json '.cells[] | [lanes] | length == 2 * 16 * 16 * 4 and ([.[].signals] | unique) == [1]'
# Same node: plain stores; own rank: self; other node: queue pair.
expect one.json '.cells[] | lanes | .lane == (if .src == .dst then "self" elif (.src / 8 | floor) == (.dst / 8 | floor) then "p2p" else "qp" end)'
# Plain stores ring no doorbell, and where all posts ring, each post rings.
expect one.json '.cells[] | lanes | select(.lane != "qp") | .doorbells == 0'
expect one.json 'of("mooncake") | lanes | select(.lane == "qp") | .doorbells == .messages + .signals'
expect one.json 'of("deepep:ll") | lanes | select(.lane == "qp") | .doorbells == (.messages / 4 | floor) + 1'

# The same rows without mapped memory, and with a node for each rank: the same bytes through queue pairs.
cells=(--model "tiny:E=32,K=4,I=128" --tokens 4 --backend "$slabs" --check every --iters 2)
launch 8 run "${cells[@]}" --p2p off --out off.json
expect_rc 0
launch 8 run "${cells[@]}" --nodes-as 8 --out nodes.json
expect_rc 0
launch 8 run "${cells[@]}" --out mapped.json
expect_rc 0
for file in off.json nodes.json mapped.json; do expect_good "$file" 2; done
for file in off.json nodes.json; do
    expect "$file" '.cells[] | lanes | .lane == (if .src == .dst then "self" else "qp" end)'
    expect "$file" '.cells[].qps.transport | test("sysv|posix|tcp|rc|cma")'
done
expect mapped.json '.cells[] | lanes | .lane == (if .src == .dst then "self" else "p2p" end)'
expect nodes.json '.cells[].layout | .nodes == 8 and .virtual_nodes'
expect mapped.json '.cells[].layout | .nodes == 1 and (.virtual_nodes | not)'
sums='[.cells[] | [lanes | [.phase, .src, .dst, .qp, .messages, .signals, .bytes_payload, .bytes_wire]]] | tostring'
check "queue pairs carry what plain stores carry" [ "$(value off.json "$sums" | md5sum)" = "$(value mapped.json "$sums" | md5sum)" ]
check "and over virtual nodes" [ "$(value nodes.json "$sums" | md5sum)" = "$(value mapped.json "$sums" | md5sum)" ]
launch_failing 8 run "${cells[@]}" --nodes-as 3
expect_refused 2 'nodes-as 3' '8 ranks'

# TCP: puts are emulated in software there.
UCX_TLS=tcp,self launch 4 run "${cells[@]}" --p2p off --out tcp.json
expect_rc 0
expect_good tcp.json 2
expect tcp.json '.cells[].qps | (.transport | test("tcp/")) and (.transport | test("sysv|posix|mapped") | not)'
expect tcp.json '.cells[].qps.signal_order | (.used == "fence" or .used == "flush") and .rounds > 0'
# Who expects RDMA and gets something else is told so.
launch 4 run "${cells[@]}" --backend mooncake --nodes-as 2 --transport rdma --out rdma.json
if [ "$rc" = 0 ]; then
    expect rdma.json '.cells[].qps.transport | test("rc|dc|ud|ib")'
else
    expect_refused 3 'RDMA' 'transport any'
    expect_no_file rdma.json
fi
# Without shared memory nothing can be mapped: said clearly, not found out as a wrong count.
UCX_TLS=tcp,self launch_failing 4 run "${cells[@]}" --backend mooncake --nodes-as 2 --p2p on --out mixed.json
expect_refused 3 'p2p on.*same node.*mapped' 'sysv' 'p2p off'
expect_no_file mixed.json
