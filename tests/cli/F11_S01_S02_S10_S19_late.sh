#!/usr/bin/env bash
# A late rank, a slow queue pair, a busy receiver: the figures name them. F11, S01, S02, S10, S19.
# Alone: times.
. "$(dirname "$0")/lib.sh"

# 30 ms late in its sends: the column of rank 4 is the largest, at every destination.
launch 8 run "${base[@]}" --check ends --backend "$slabs" --iters 8 --fault stall:4:dispatch_send:30 --out late.json
expect_rc 0
expect_good late.json 2
expect late.json '.cells[] | ([waits | select(.phase == "dispatch")] | group_by(.src) | map({src: .[0].src, sum: (map(.sum_us) | add)}) | max_by(.sum)).src == 4'
expect late.json '.cells[] | range(8) as $dst | select($dst != 4)
    | ([waits | select(.phase == "dispatch" and .dst == $dst)] | max_by(.sum_us)).src == 4'
expect late.json '.cells[] | waits | select(.phase == "dispatch" and .src == 4 and .dst != 4)
    | .count == 8 * 4 and .max_us >= 20000 and .sum_us >= 8 * 4 * 20000 and .max_us * .count >= .sum_us'
expect late.json '.cells[].pattern | .name == "late rank" and .rank == 4 and .phase == "dispatch" and .excess_us > 15000'
expect_text out 'late rank: rank 4, [0-9]+ % of the dispatch'
# It is late, its transfers are not slow.
expect late.json '.cells[] | phase("dispatch_send") | .slowest_rank == 4 and .min >= 30000 and .n == 8'
expect late.json '.cells[] | phase("dispatch") | .min >= 30000'
expect late.json '.cells[] | phase("expert_mlp") | .median < 30000'

# 30 ms in every iteration of another phase: the maximum over ranks, and who.
launch 8 run "${base[@]}" --check ends --backend mooncake,mpi --iters 6 --fault stall:3:expert_mlp:30 --out slow.json
expect_rc 0
expect_good slow.json 2
expect slow.json '.cells[] | phase("expert_mlp") | .slowest_rank == 3 and .min >= 30000 and .reduction == "max over ranks per iteration"'
expect slow.json '.cells[] | phase("dispatch_send", "router") | .median < 30000'
expect slow.json '.cells[] | .phases[] | .min <= .median and .median <= .p95 and .p95 <= .p99 and .p99 <= .max'
expect slow.json '.cells[] | phase("region") | (.samples | length) == 6 and (.samples | min) == .min and (.samples | max) == .max'

# One iteration is late, behind any warm-up: the usual figures stay, it is named with its rank.
launch 4 run --model "tiny:E=16,K=4" --tokens 4 --backend mooncake --iters 60 --check off --accounting off --fault stall:2:router:700:61 --out once.json
expect_rc 0
expect once.json '.cells[0] | phase("router") | .max >= 700000 and .max_rank == 2 and .median < 100000 and .p95 < 700000'
expect once.json '.cells[0] | .warmup.n as $w | phase("router", "region") | .max_iteration == 61 - $w'
expect_text out 'iteration [0-9]+ took [0-9]+ us on rank [0-3], [0-9.]+ times the median'

# The receiver is busy for 50 ms: the time ends when it holds the data.
launch 8 run "${base[@]}" --check ends --backend deepep:ll --iters 4 --fault stall:2:dispatch_wait:50 --out busy.json
expect_rc 0
expect_good busy.json 1
expect busy.json '.cells[0] | phase("dispatch_wait", "dispatch", "region") | .min >= 50000'
# Where a put ends only when the receiver takes it, also for those that send to it.
UCX_TLS=tcp,self launch 4 run --model "tiny:E=16,K=4" --tokens 8 --backend deepep:ll --p2p off --iters 2 --check ends --fault stall:2:dispatch_wait:60 --out taken.json
expect_rc 0
expect_good taken.json 1
expect taken.json '.cells[0].timeline.rows | map(select(.[1] == "dispatch")) | length == 4 and all(.[]; .[4] >= 50000)'

# One slow queue pair, 0 to 5 number 2: no other lane with rows is like it.
launch 8 run "${base[@]}" --check ends --backend "$slabs" --iters 4 --fault slow-qp:0:5:2:20000 --out lane.json
expect_rc 0
expect_good lane.json 2
expect lane.json '.cells[] | [lanes | select(.messages > 0)]
    | (map(select(.src == 0 and .dst == 5 and .qp == 2))) as $slow | (map(select(.src != 0 or .dst != 5 or .qp != 2))) as $rest
    | ($slow | length) > 0 and ($slow | map(.p50_us) | max) > 20 * ($rest | map(.p50_us) | max)
      and ($slow | map(.p99_us) | max) > 100 * ($rest | map(.p99_us) | sort | .[length / 2 | floor])'
expect lane.json '.cells[] | ([lanes | select(.messages > 0)] | max_by(.p99_us)) | [.src, .dst, .qp] == [0, 5, 2]'
expect_text out 'slowest QP: (dispatch|combine) 0->5 QP 2'
expect lane.json '.cells[].pattern | .name == "slow lane" and .lane == [0, 5, 2]'

# Such a lane or phase must exist.
launch_failing 8 run "${base[@]}" --backend mooncake --fault slow-qp:0:5:99:3 --out no.json
expect_rc 2
expect_text err 'index 99' '32 queue pairs'
launch_failing 8 run "${base[@]}" --backend mooncake --fault stall:1:rooter:5 --out no.json
expect_refused 2 'rooter' 'router'
launch_failing 8 run "${base[@]}" --backend mooncake --fault stall:8:router:5 --out no.json
expect_refused 2 "'8'" '0 to 7'
expect_no_file no.json

# A check that takes longer than the time-out is work, for the rank that checks and for the one that waits for it.
launch 2 run --model "tiny:E=8,K=8,H=2048,L=2048,I=2048" --tokens-skew 160,0 --backend deepep:ll --iters 1 --check ends --timeout 1 --out long_check.json
expect_rc 0
expect_good long_check.json 1
