#!/usr/bin/env bash
# Starts, clocks, spans, warm-up, the cost of the accounts, chains. O04, S01, S11.
# Alone: times.
. "$(dirname "$0")/lib.sh"

cell=(--model "tiny:E=16,K=4" --tokens 8 --seed 7)

# Behind a barrier: both reductions of the headline, and how well the clocks are known.
launch 2 run "${cell[@]}" --backend mooncake,mpi --sync barrier --iters 40 --out two.json
expect_rc 0
expect_good two.json 2
expect two.json '.cells[].sync | .method == "barrier" and .why == "asked for" and .late == null and (.late_reason | length) > 0'
expect two.json '.cells[].sync.clock | .error_us >= 0 and .steps == 0 and .comparisons >= 6 and .drift_ppm < 500'
expect two.json '.cells[] | phase("region", "dispatch", "combine") | (.span == null and (.span_reason | length) > 0) or .span.n == 40'
expect two.json '.cells[] | .sync.clock.error_us as $e | phase("region") | select(.span != null)
    | .span.median + 2 * $e >= .median and .span.median >= 20 * $e'
expect two.json '.cells[] | phase("router") | has("span") | not'

# One iteration in seven more is taken without accounts, and counted nowhere else.
expect two.json 'of("mooncake") | .instrument | .n_on == 40 and .n_off == 6 and .ci95_pct[0] <= .difference_pct and .difference_pct <= .ci95_pct[1]'
expect two.json 'of("mooncake") | [waits | select(.phase == "dispatch") | .count] | add == 40 * 2 * 16'
expect two.json '.cells[] | [.phases[].n] | all(. == 40)' # as asked, whatever the cells before were
expect two.json 'of("mpi") | .instrument == null and (.instrument_reason | length) > 0'
# What they cost is told where it is known to 10 %.
if [ "$(value two.json 'of("mooncake") | .instrument.ci95_pct | .[1] - .[0] <= 20')" = true ]; then
    expect_text out 'accounts cost [+-]'
else
    expect_no_text out 'accounts cost'
fi
launch 2 run "${cell[@]}" --backend mooncake --accounting off --iters 12 --out unbooked.json
expect_rc 0
expect unbooked.json '.cells[0] | .instrument == null and .instrument_reason == "accounting is off"'

# How fast the processors were, before each iteration.
expect two.json '.cells[].host | if . == null then true else .beat_min_us > 0 and .beat_min_us <= .beat_us and .beat_us <= .beat_max_us end'
expect two.json '.cells[] | select(.host != null) | .host.scaled_ci95_us[0] <= .host.scaled_us and .host.scaled_us <= .host.scaled_ci95_us[1]'

# The warm-up is kept, the first call on its own.
expect two.json '.cells[].warmup | .n >= 2 and .n <= 256 and (.samples | length) == .n and .first_call_us == .samples[0] and (.ended == "steady" or .ended == "limit")'
launch 2 run "${cell[@]}" --backend mooncake --fault stall:1:router:1200 --iters 1 --out slow.json
expect_rc 0
expect slow.json '.cells[0] | .warmup.n == 2 and .warmup.first_call_us >= 1200000 and .trend == null and (.trend_reason | length) > 0'
expect slow.json '.cells[0] | .instrument == null and phase("region").n == 1'

# --max-seconds is the time of whole iterations: of those that time their dispatch alone most is not dispatch.
launch 2 run "${cell[@]}" --backend mooncake --component dispatch --check off --ci-target 0.01 --max-seconds 0.5 --out limit.json
expect_rc 0
expect limit.json '.cells[0] | phase("dispatch") | .n >= 10 and .n < 20000 and .n * .mean < 0.35e6'

# A common start: missed ones are marked, whatever this machine does.
launch 3 run "${cell[@]}" --tp 3 --model "tiny:E=15,K=3" --backend mooncake --sync round --iters 30 --out round.json
expect_rc 0
expect_good round.json 1
expect round.json '.cells[0].sync | .method == "round" and .why == "asked for" and .late == (.late_iterations | length) and .late <= 30 and .slack_us > 0'
expect round.json '.cells[0].sync | (.late == 0 or .late_max_us > 5) and (.late_iterations | all(. >= 0 and . < 30))'

# By itself: a barrier where the ranks take all cores, and the record says so.
launch 8 run "${base[@]}" --backend deepep:ll --iters 5 --out eight.json
expect_rc 0
expect_good eight.json 1
expect eight.json 'if .topology.oversubscribed then .cells[0].sync | .method == "barrier" and (.why | test("no core is left")) else true end'
expect eight.json 'if .topology.oversubscribed then .cells[0] | .host == null and (.host_reason | test("outnumber")) else true end'
expect eight.json '.cells[0] | phase("region").span != null'

# Pairs back to back: a cell of its own beside the pair that is entered afresh.
kinds=("")
long_tests && kinds+=("tcp,self")
for tls in "${kinds[@]}"; do
    [ -z "$tls" ] || export UCX_TLS=$tls
    rm -f chain.json
    launch 4 run "${cell[@]}" --backend mooncake,deepep:ll,mpi --component pair,chain ${tls:+--p2p off} --check every --iters 9 --out chain.json
    unset UCX_TLS
    expect_rc 0
    expect_good chain.json 6
    expect chain.json '[.cells[].key] | unique | length == 6'
    expect chain.json '.cells[] | select(.component == "chain") | phase("chain") | .n == 9 and .median > 0 and (.samples | length) == 9'
    expect chain.json '.cells[] | select(.component == "chain") | ([.phases[].name] | index("pair") == null) and (phase("dispatch") | .span == null and (.span_reason | length) > 0)'
    expect chain.json '.cells[] | select(.component == "pair") | [.phases[].name] | index("chain") == null'
done
launch_failing 2 run "${cell[@]}" --backend none --component chain --out no.json
expect_refused 2 'none' 'chain' 'every rank has all rows'
launch_failing 4 run "${cell[@]}" --backend mooncake --component chain --iters 3 --fault corrupt:1:2 --out wrong.json
expect_rc 1
expect wrong.json '.cells[0] | .status == "failed" and .check.state == "wrong"'
launch_failing 2 run "${cell[@]}" --backend mooncake --sync never --out no.json
expect_refused 2 'never' 'barrier'
expect_no_file no.json

# Another order of execution; the record keeps its own.
launch 2 run "${cell[@]}" --backend mooncake,deepep:ll,mpi --iters 2 --rotate 5 --out rotated.json
expect_rc 0
expect_good rotated.json 3
expect rotated.json '[.cells[] | [name, .position]] == [["mooncake", 1], ["deepep:ll", 2], ["mpi", 0]]'

# What lies between the iterations.
expect two.json '.cells[].idle | .median_us > 0 and .max_us >= .median_us and (if .long > 0 then .difference_pct != null else .difference_pct == null end)'

# All records, with what a schema cannot say.
python3 "$source_dir/tests/rules/check_schema.py" "$source_dir/results/schema/k3bench.result.1.schema.json" \
    two.json unbooked.json slow.json round.json eight.json chain.json wrong.json rotated.json >schema.txt
status=$?
check "the schema holds: $(head -c 500 schema.txt)" [ "$status" = 0 -o "$status" = 77 ]
