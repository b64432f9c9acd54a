#!/usr/bin/env bash
# Ranks on several nodes (network namespaces): each family of backends, checked; nodes by host identity; what
# crosses the links. E06, L07, N07, U06; C01 and the truth of the ruler with K3BENCH_TEST_LONG.
# Alone: a cluster of its own.
. "$(dirname "$0")/lib.sh"
. "$source_dir/tests/cli/libcluster.sh"

cell=(--model "tiny:E=24,K=4" --tokens 8 --check every --iters 2)
families=mooncake,deepep:ll,deepep:normal,mori:v1

start_cluster 4
# A second one in the same place is refused, and harms nothing.
run_it "$cluster" up 2
expect_rc 3
expect_text err 'is up in .* already'
run_it "$cluster" status
expect_rc 0
expect_text out '^node0 +10\.' '^node3 '

# all_right NODES EACH FILE [CELLS]
all_right() {
    expect_rc 0
    expect_good "$3" "${4:-4}"
    expect "$3" '[.topology.ranks[].host] == [range($n) as $i | range($e) | "node\($i)"]' --argjson n "$1" --argjson e "$2"
    expect "$3" '[.topology.ranks[].local_rank] == [range($n) | range($e)]' --argjson n "$1" --argjson e "$2"
    expect "$3" '.run.launch.hosts == [range($n) | "node\(.)"] and all(.topology.ranks[]; .nic == "eth0")' --argjson n "$1"
    expect "$3" '.cells[].qps.transport | test("tcp/eth0") and test("mapped")'
    # Within a node stores, between nodes queue pairs.
    expect "$3" '[.topology.ranks[].node] as $node | .cells[] | lanes | .lane == (if .src == .dst then "self" elif $node[.src] == $node[.dst] then "p2p" else "qp" end)'
    # What leaves the nodes enters them, and is what the lanes between nodes carry.
    expect "$3" '[.topology.ranks[].node] as $node | .cells[] | ("dispatch", "combine") as $p
        | ([lanes | select(.phase == $p and $node[.src] != $node[.dst]) | .bytes_wire] | add) as $sum
        | [.links | table | select(.phase == $p)] | (map(.bytes_out) | add) == $sum and (map(.bytes_in) | add) == $sum and all(.out_GBps > 0)'
}

on_nodes 2 2 run "${cell[@]}" --backend "$families" --out n2.json
all_right 2 2 n2.json
expect_text out 'busiest link: node [01] (out|in), [0-9.e-]+ GB/s'
on_nodes 3 2 run "${cell[@]}" --backend "$families" --out n3.json
all_right 3 2 n3.json
check "valid records" python3 "$source_dir/tests/rules/check_schema.py" "$source_dir/results/schema/k3bench.result.1.schema.json" n2.json n3.json

if [ -n "${K3BENCH_TEST_LONG:-}" ]; then
    # mori:v1 takes a power of two of ranks a node, and says so.
    for nodes in 2 3 4; do
        on_nodes "$nodes" 3 run "${cell[@]}" --model "tiny:E=36,K=4" --backend "${families%,*}" --out "w${nodes}3.json"
        all_right "$nodes" 3 "w${nodes}3.json" 3
        on_nodes "$nodes" 4 run "${cell[@]}" --model "tiny:E=48,K=4" --backend "$families" --out "w${nodes}4.json"
        all_right "$nodes" 4 "w${nodes}4.json"
    done
    on_nodes 4 2 run "${cell[@]}" --backend "$families" --out w42.json
    all_right 4 2 w42.json
    on_nodes 2 3 run "${cell[@]}" --backend none,mori:v1 --out refused.json
    expect_rc 0
    expect refused.json '.cells[1] | .status == "unsupported" and (.reason | test("3 ranks a node, .*power of two"))'
    on_nodes 4 2 run --model "tiny:E=32,K=8" --tokens-skew 1,8,3,0,8,2,5,1 --max-tokens 8 --check every --iters 3 --backend deepep_v2:hybrid,mori:v1ll --out uneven.json
    expect_rc 0
    expect_good uneven.json 2
fi

# One node is not slowed by its neighbours' rate, and down is down.
stop_cluster
run_it "$cluster" status
expect_rc 1
stop_cluster
expect_no_file cluster
check "no first process of a node is left" bash -c '! pgrep -f "cluster_node.sh $1" >/dev/null' check "$CLUSTER_STATE"
run_it "$cluster" up 0
expect_rc 2
expect_text err 'allowed are 1 to'
run_it "$cluster" up 2 --rate fast
expect_rc 2
expect_text err 'rate "fast"'
mkdir cluster && touch cluster/other
run_it "$cluster" up 2
expect_rc 3
expect_text err 'something else'
run_it "$cluster" down
expect_rc 0
check "what is not ours stays" [ -f cluster/other ]
rm -r cluster

# It ends with its owner, however that ends.
sleep 60 &
owner=$!
run_it "$cluster" up 1 --owner "$owner"
expect_rc 0
kill -KILL "$owner"
for _ in $(seq 50); do "$cluster" status >/dev/null || break; sleep 0.1; done
run_it "$cluster" status
expect_rc 1
stop_cluster
