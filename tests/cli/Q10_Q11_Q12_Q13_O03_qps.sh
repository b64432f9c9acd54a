#!/usr/bin/env bash
# How many queue pairs a peer gets, by the profile's rule and by --qps; their sums never change.
# Q10, Q11, Q12, Q13, O03.
. "$(dirname "$0")/lib.sh"

wide=(--model "tiny:E=128,K=4,H=256,L=128,I=32,S=64" --nodes-as 2 --tokens 8 --seed 5 --iters 4)
used='([lanes | select(.lane == "qp") | .qp] | unique)'

# Mooncake on RoCE: 256/8 exist, 8 are active; --qps overrides.
launch 8 run "${wide[@]}" --backend mooncake --fabric roce --qps auto,4 --out roce.json
expect_rc 0
expect_good roce.json 2
expect roce.json '.cells[] | .choices.qps_existing == 32 and .choices.fabric == "roce"'
expect roce.json "[.cells[] | .choices.qps_per_peer] == [8, 4]"
expect roce.json ".cells[0] | $used == [range(8)]"
expect roce.json ".cells[1] | $used == [range(4)]"
expect roce.json '.cells[] | .qps.columns | contains(["p50_us", "p99_us", "max_us"])'
expect roce.json '.cells[] | lanes | select(.messages > 0) | .p50_us > 0 and .p50_us <= .p99_us and .p99_us <= .max_us'
single plan --backend mooncake --fabric ib --tp 8 --json ib.json
expect ib.json '.cells[0].choices | .qps_existing == 32 and .qps_per_peer == 32'

# Fewer, as many and more than local experts.
launch 8 run "${wide[@]}" --backend "$slabs" --qps 1,4,16 --out sums.json
expect_rc 0
expect_good sums.json 6
expect sums.json '.cells[] | .choices.qps_per_peer as $q | '"$used"' == [range($q)]'
# All sums over the queue pairs are the same, also for each pair of ranks.
for sum in messages signals bytes_payload bytes_wire; do
    expect sums.json '[.cells[] | [lanes | .[$s]] | add] | unique | length == 1' --arg s "$sum"
    expect sums.json '[.cells[] | [lanes | select(.src == 1 and .dst == 6) | .[$s]] | add] | unique | length == 1' --arg s "$sum"
done
expect sums.json '.cells[] | ([lanes | .bytes_wire] | add) == .traffic.dispatch.bytes_wire + .traffic.combine.bytes_wire'
# Upstream's deepep wants one for each local expert, so fewer are marked; mooncake's rule has no such minimum.
expect sums.json '[of("deepep:ll") | .choices.below_upstream_minimum] == [true, true, false]'
expect sums.json '[of("mooncake") | .choices.below_upstream_minimum] | any | not'
expect sums.json 'of("deepep:ll") | select(.choices.qps_per_peer == 1) | [lanes | select(.src == 0 and .dst == 4 and .phase == "dispatch")] | length == 1 and .[0].signals == 16'

# 256/R rounded down: 21 of 12 ranks, 85 of 3.
single plan --backend mooncake --model tiny:E=288 --tp 12 --json twelve.json
expect twelve.json '.cells[0] | .choices.qps_existing == 21 and 12 * .choices.qps_per_peer == 252'
single plan --backend mooncake --model tiny:E=33 --tp 3 --json three.json
expect three.json '.cells[0] | .choices.qps_existing == 85 and 3 * .choices.qps_per_peer == 255'
launch 3 run --backend mooncake --model "tiny:E=33,K=4" --tokens 4 --iters 3 --check every --p2p off --out e33.json
expect_rc 0
expect_good e33.json 1
expect e33.json '.cells[0] | .choices.qps_existing == 85'
if long_tests; then
    launch 12 run --backend mooncake --model "tiny:E=288,K=4,H=128,L=128,I=32,S=32" --nodes-as 4 --tokens 2 --iters 2 --out e288.json
    expect_rc 0
    expect_good e288.json 1
    expect e288.json ".cells[0] | .choices.qps_existing == 21 and $used == [range(21)]"
fi
single plan --backend mooncake --model tiny:E=512 --tp 512 --json many.json
expect_refused 2 mooncake 512 256

# Limits and the value given.
launch_failing 8 run "${wide[@]}" --backend mooncake --qps 1000000 --out no.json
expect_refused 2 1000000 32
launch_failing 2 run "${wide[@]}" --backend deepep:ll --qps 1000000 --out no.json
expect_refused 2 1000000 1024
launch_failing 8 run "${wide[@]}" --backend mooncake --qps 33 --out no.json
expect_refused 2 33 32
launch_failing 2 run "${wide[@]}" --backend mooncake --qps 0 --out no.json
expect_refused 2 qps "'0'" 'at least 1|1 to'
launch_failing 2 run "${wide[@]}" --backend none --qps 2 --out no.json
expect_refused 2 none 2 'no queue pairs'
expect_no_file no.json
