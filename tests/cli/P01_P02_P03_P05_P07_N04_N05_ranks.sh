#!/usr/bin/env bash
# One copy for each (row, rank): every profile of the family over mapped memory, queue pairs and TCP, with ranks
# that have no rows, entries that are not sent, one side late, rows at the cap, and a row that is wrong.
. "$(dirname "$0")/lib.sh"

apart=deepep_v2:direct,mori:asyncll,nccl_ep,pplx_garden # may be on several nodes
mapped=mori:intra,mori:intra_pull,flashinfer            # live on mapped memory
all=$apart,$mapped
small=(--model "tiny:E=32,K=4,H=512,L=256,I=128" --tokens 16 --seed 7 --check every --iters 3)
pair=("${small[@]}" --component pair) # the rows alone, half of the time

# --- each component, one node and several, by stores and by queue pairs -------------------------------

components=region
long_tests && components=region,pair,dispatch,combine
launch 8 run "${small[@]}" --backend "$all" --component "$components" --out one.json
expect_rc 0
expect_good one.json $((7 * $(tr ',' '\n' <<<"$components" | wc -l)))
expect one.json '.cells[] | select(name == "mori:intra" or name == "mori:intra_pull" or name == "flashinfer") | [lanes.doorbells] | all(. == 0 or . == null)'

launch 4 run "${pair[@]}" --backend "$apart" --nodes-as 4 --tokens 16,1 --out four.json
expect_rc 0
expect_good four.json 8
expect four.json '.cells[] | [lanes | select(.lane == "qp")] | length > 0'

if long_tests; then
    launch 8 run "${small[@]}" --backend "$apart" --nodes-as 2 --p2p off --out off.json
    expect_rc 0
    expect_good off.json 4
fi

UCX_TLS=tcp,self launch 4 run "${pair[@]}" --backend "$apart" --p2p off --out tcp.json
expect_rc 0
expect_good tcp.json 4

launch 4 run "${pair[@]}" --backend "$mapped" --p2p off --out refused.json
expect_rc 2
expect refused.json '.cells[] | .status == "unsupported" and (.reason | test("mapped memory"))'

# --- formats ------------------------------------------------------------------------------------------

launch 4 run "${pair[@]}" --backend mori:asyncll --nodes-as 2 --dispatch-dtype fp8,mxfp8,mxfp4 \
    --combine-dtype bf16,fp8 --out formats.json
expect_rc 0
expect_good formats.json 6

launch 4 run "${pair[@]}" --backend "$mapped" --combine-dtype fp8 --out back.json
expect_rc 0
expect_good back.json 3

# --- P01, P02, P03: no rows, no experts, entries that are not sent -------------------------------------

launch 8 run "${pair[@]}" --backend "$all" --tokens-skew one-empty --out empty.json
expect_rc 0
expect_good empty.json 7
expect empty.json 'of("deepep_v2:direct") | [lanes | select(.phase == "dispatch" and .src == 0 and .signals == 2)] | length == 8'
expect empty.json 'of("mori:asyncll") | [lanes | select(.phase == "dispatch" and .src == 0 and .signals == 1)] | length == 16'

launch 8 run "${pair[@]}" --backend "$apart" --nodes-as 2 --tokens-skew all-but-one-empty --out lone.json
expect_rc 0
expect_good lone.json 4

# Rank 3 (experts 12 to 15) is never picked, one row goes nowhere.
trace holes.npy '[[-1] * 4 if r == 5 else [e if random.random() > 0.2 else -1 for e in random.sample([x for x in range(32) if x // 4 != 3], 4)] for r in range(128)]'
launch 8 run "${pair[@]}" --backend "$all" --routing trace:holes.npy --out holes.json
expect_rc 0
expect_good holes.json 7
expect holes.json '.cells[] | [lanes | select(.phase == "dispatch" and .dst == 3) | .bytes_payload] | add // 0 | . == 0'

# --- P05: rows received are the distinct (row, rank) pairs ----------------------------------------------

trace six.npy '[random.sample(range(64), 6) for _ in range(128)]'
pairs=$(python3 - <<'PYTHON'
import random
random.seed(5)
print(sum(len({e // 8 for e in random.sample(range(64), 6)}) for _ in range(128)))
PYTHON
)
launch 8 run "${pair[@]}" --model "tiny:E=64,K=6,H=512,L=256" --backend mori:asyncll,nccl_ep --nodes-as 2 \
    --dispatch-dtype bf16 --routing trace:six.npy --out six.json
expect_rc 0
expect_good six.json 2
expect six.json '.cells[] | [lanes | select(.phase == "dispatch") | .bytes_payload] | add == $pairs * 512' --argjson pairs "$pairs"

# --- P07: one rank late, in each phase; a wrong row is found --------------------------------------------

phases=dispatch_wait
long_tests && phases="dispatch_wait combine_send"
for phase in $phases; do
    launch 4 run "${small[@]}" --backend "$all" --component pair --fault "stall:2:$phase:20" --out "stall-$phase.json"
    expect_rc 0
    expect_good "stall-$phase.json" 7
done
launch_failing 4 run "${pair[@]}" --backend "$all" --fault corrupt:1:3 --out corrupt.json
expect_rc 1
expect corrupt.json '.cells[] | .check.state == "wrong" and .status == "failed"'

# --- N04, N05: rows at the cap; one hot rank; one row -----------------------------------------------------

launch 8 run --model "tiny:E=32,K=16,H=512,L=256" --backend mori:intra --tokens 48 --max-tokens 48 \
    --routing hot-rank:0:0.5 --check every --iters 3 --out cap.json
expect_rc 0
expect_good cap.json 1
launch 4 run --model "tiny:E=32,K=16,H=512,L=256" --backend "$all" --tokens 1 --max-tokens 1 \
    --check every --iters 8 --component pair --out single.json
expect_rc 0
expect_good single.json 7

# --- what too little is known of ---------------------------------------------------------------------------

launch 2 run "${small[@]}" --backend moonep,null --out unknown.json
expect_rc 0
expect unknown.json 'of("moonep") | .status == "unsupported" and (.reason | test("not public"))'
