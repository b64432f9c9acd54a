#!/usr/bin/env bash
# The same rows under other layouts: each agrees with the oracle; the shared experts are added once.
# L11, L12, N15.
. "$(dirname "$0")/lib.sh"
long_only

model=(--model "tiny:E=32,K=4" --seed 11 --check every --iters 2)

# Shared experts: whole on each rank on the fast path, in slices on the fallback; with other groups.
launch 4 run "${model[@]}" --backend "$backends" --tp 4 --dp 1 --tokens 4 --out tp4.json
expect_rc 0
expect_good tp4.json 5
expect tp4.json '.cells[] | .model.shared == 256 and any(.phases[]; .name == "shared_expert")'
launch 8 run --model deepseek-v3:H=256,L=256,E=16,K=4,I=128,S=128 --seed 11 --check every --iters 2 --generation k3 \
    --backend deepep:ll,mpi,none --tp 8 --dp 1 --cp 2 --tokens 4 --out cp.json
expect_rc 0
expect_good cp.json 3
expect cp.json '.cells[] | .layout.cp == 2 and .layout.attn_tp == 4 and .work.rows_global == 32'
launch 8 run --model "tiny:E=32,K=4,S=0" --seed 11 --check every --iters 2 --backend mooncake,none --tokens 4 --out none.json
expect_rc 0
expect_good none.json 2
expect none.json '.cells[] | any(.phases[]; .name == "shared_expert") | not'
# Kimi-K3 has no path with context parallelism upstream.
launch_failing 8 run "${model[@]}" --backend deepep:ll --tp 8 --cp 2 --tokens 4
expect_refused 2 'cp 2' 'tiny'

# 256 rows: gathered, gathered with ep 8, dispatched over 8 and over 32 ranks.
launch 8 run "${model[@]}" --iters 1 --backend none --path fallback --ep 1,8 --tokens 32 --out gathered.json
expect_rc 0
expect_good gathered.json 2
expect gathered.json '[.cells[].layout.ep] | sort == [1, 8]'
launch 8 run "${model[@]}" --iters 1 --backend "$slabs" --tokens 32 --out eight.json
expect_rc 0
expect_good eight.json 2
launch 32 run "${model[@]}" --iters 1 --backend deepep:ll,none --tokens 8 --out thirty.json
expect_rc 0
expect_good thirty.json 2
for file in gathered.json eight.json thirty.json; do
    expect "$file" '.cells[] | .work.rows_global == 256 and .check.rows_checked == 512 and .check.max_rel_err > 0'
    expect "$file" '.cells[] | .check.stages | [.combined, .output] | all(.max_error <= .tolerance)'
    value "$file" '.cells[] | "\(name) tp\(.layout.tp) ep\(.layout.ep): deviation from the oracle \(.check.max_rel_err), combined \(.check.stages.combined.max_error) of \(.check.stages.combined.tolerance)"'
done
check "one routing in all" [ "$(for f in gathered eight thirty; do value "$f.json" '.cells[].work.routing_hash'; done | sort -u | wc -l)" = 1 ]
