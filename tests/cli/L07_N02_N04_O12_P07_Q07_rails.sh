#!/usr/bin/env bash
# Two hops by the rank with the same local index: chunks, channels and rings, on virtual nodes, over mapped
# memory and over queue pairs. L07, N02, N04, O12, P07, Q07.
. "$(dirname "$0")/lib.sh"

all=mori:v1,mori:v1ll,deepep_v2:hybrid,deepep:normal
small=(--model "tiny:E=32,K=4,I=128" --seed 7 --check every --iters 2)

# Region with all it does, two nodes and four.
launch 8 run "${small[@]}" --backend "$all" --qps 10 --tokens 16 --nodes-as 2 --out two.json
expect_rc 0
expect_good two.json 4
launch 8 run "${small[@]}" --backend "$all" --qps 10 --tokens 70 --tokens-skew one-empty --component pair --nodes-as 4 --out four.json
expect_rc 0
expect_good four.json 4

# Between nodes rows go to the own index only, and come back from there.
for file in two four; do
    expect "$file.json" '.cells[] | (8 / .layout.nodes) as $per | [lanes | select(.lane == "qp") | .src % $per == .dst % $per] | all'
done
# Credits have queue pairs of their own where there are enough; rings say meta for each channel, also for no row.
launch 8 run "${small[@]}" --backend deepep:normal --tokens 16 --tokens-skew all-but-one-empty --nodes-as 2 --component pair --out empty.json
expect_rc 0
expect_good empty.json 1
expect empty.json '.cells[0] | [lanes | select(.phase == "dispatch" and .lane == "qp") | .messages] | add >= 8 * 10'

# One node: no hop 1; rings are mapped memory and nothing else.
launch 8 run "${small[@]}" --backend "$all" --qps 10 --tokens 16 --nodes-as 1 --component pair --out one.json
expect_rc 0
expect_good one.json 4
expect one.json '.cells[] | [lanes | .lane != "qp"] | all'
expect one.json 'of("deepep:normal") | [lanes | select(.phase == "dispatch") | .qp] | max == 9'
single plan --backend deepep:normal --model "tiny:E=32,K=4" --tp 8 --p2p off
expect_refused 2 deepep:normal 'one node' 'p2p off'

# Over queue pairs inside the node too, and where puts are emulated.
launch 8 run "${small[@]}" --backend "$all" --qps 10 --tokens 16 --nodes-as 2 --p2p off --component pair --out qp.json
expect_rc 0
expect_good qp.json 4
UCX_TLS=tcp,self launch 8 run "${small[@]}" --backend mori:v1,deepep:normal --qps 10 --tokens 16 --nodes-as 2 --p2p off --component pair --out tcp.json
expect_rc 0
expect_good tcp.json 2

# N02, N04: formats and both roundings; a row that is wrong is seen.
launch 4 run "${small[@]}" --backend mori:v1,mori:v1ll --tokens 32 --max-tokens 32 --nodes-as 2 --component pair \
    --dispatch-dtype fp8,mxfp4 --combine-dtype bf16,fp8 --out formats.json
expect_rc 0
expect_good formats.json 8
trace ids.npy '[[-1, 3, 31, 8] if i % 3 else [-1] * 4 for i in range(32)]'
launch 4 run "${small[@]}" --backend "$all" --qps 10 --tokens 8 --nodes-as 2 --component pair --routing trace:ids.npy --out trace.json
expect_rc 0
expect_good trace.json 4
launch_failing 4 run "${small[@]}" --backend "$all" --qps 10 --tokens 4 --nodes-as 2 --component pair --fault corrupt:1:2 --out wrong.json
expect_rc 1
expect wrong.json '.cells[] | .check.state == "wrong" and .check.rows_wrong > 0'

# P07: a rank that is late in any phase changes nothing.
phases=dispatch_wait
long_tests && phases="dispatch_wait combine_send"
for phase in $phases; do
    rm -f late.json
    launch 4 run "${small[@]}" --backend "$all" --qps 10 --tokens 8 --nodes-as 2 --component pair --fault "stall:2:$phase:50" --out late.json
    expect_rc 0
    expect_good late.json 4
done

# L07, O12: shapes of nodes.
single plan --backend deepep:normal --model "tiny:E=24" --tp 12 --nodes-as 3 --json twelve.json
expect_rc 0
single plan --backend deepep:normal --model "tiny:E=40" --tp 40 --nodes-as 5
expect_refused 2 deepep:normal 'nodes 5' '1, 2, 3, 4, 6, 8'
single plan --backend mori:v1 --model "tiny:E=24" --tp 12 --nodes-as 2
expect_refused 2 mori:v1 '6 ranks a node' 'power of two'
single plan --backend mori:v1 --model "tiny:E=32" --tp 8 --combine-dtype mxfp4
expect_refused 2 mori:v1 mxfp4
launch_failing 4 run --backend mori:v1,deepep:normal --model "tiny:E=48" --tp 4 --nodes-as 3 --tokens 1
expect_refused 2 'nodes-as 3' '4 ranks'
# Q07: the channels, or at least the SMs.
for qps in 1 19; do
    single plan --backend deepep:normal --model "tiny:E=32,K=4" --tp 8 --nodes-as 2 --qps "$qps"
    expect_refused 2 deepep:normal "qps $qps" '10 channels' '20 SMs'
done
