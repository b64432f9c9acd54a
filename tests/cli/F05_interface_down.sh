#!/usr/bin/env bash
# A network that cannot carry the queue pairs: the interface of one node is down before the start, or everything that is
# sent on it is lost. The wait is bounded, peer and interface are named. F05.
# Alone: a cluster of its own.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/libcluster.sh"

start_cluster 2
# Beside eth0, by which mpirun reaches the nodes, a cable between both for the queue pairs.
on0() { nsenter --target "$(cat "$CLUSTER_STATE/node0.pid")" --net -- "$@"; }
on1() { nsenter --target "$(cat "$CLUSTER_STATE/node1.pid")" --net -- "$@"; }
on0 ip link add eth1 type veth peer name eth1 netns "$(cat "$CLUSTER_STATE/node1.pid")"
on0 ip addr add 10.78.0.1/24 dev eth1
on1 ip addr add 10.78.0.2/24 dev eth1
on0 ip link set eth1 up
export UCX_NET_DEVICES=eth1

cell=(--model "tiny:E=16,K=4" --tokens 4 --iters 2)
started=$SECONDS
on_nodes 2 1 run "${cell[@]}" --backend mooncake --timeout 30 --out down.json
expect_rc 3
expect_text err 'no queue pair to rank [01] \(node[01]\) over eth1: Destination is unreachable'
check "before the time-out" [ $((SECONDS - started)) -lt 30 ]
expect_no_file down.json

# Up again, but each frame goes to an address that nobody has: UCX waits for an answer.
on1 ip link set eth1 up
on0 ip neigh replace 10.78.0.2 lladdr 02:00:00:00:00:09 dev eth1 nud permanent
on1 ip neigh replace 10.78.0.1 lladdr 02:00:00:00:00:09 dev eth1 nud permanent
on_nodes 2 1 run "${cell[@]}" --backend mooncake,none --timeout 2 --out lost.json
expect_rc 4
expect_text err 'no progress .* in set-up: connection of the queue pairs.*no connection yet: queue pair [01]->[01] \(node[01]\) QP 0 over eth1'
if [ -e lost.json ]; then
    expect lost.json '[.cells[].status] == ["failed", "skipped"]'
    expect lost.json '.cells[0].reason | test("queue pair 0->1 \\(node1\\) QP 0 over eth1")'
fi

# With the way back, the same command works.
on0 ip neigh del 10.78.0.2 dev eth1
on1 ip neigh del 10.78.0.1 dev eth1
on_nodes 2 1 run "${cell[@]}" --backend mooncake --out up.json
expect_rc 0
expect_good up.json 1
expect up.json '.cells[0].qps.transport | test("tcp/eth1")'
