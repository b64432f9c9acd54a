#!/usr/bin/env bash
# Which ranks dispatch which rows: once on the fast path, tp times on the fallback, and a complete
# combine that is reduced again is named. L01, L02, L03.
. "$(dirname "$0")/lib.sh"

# The 32x claim, planned.
single plan --backend mooncake --model kimi-k3 --tp 32 --dp 4 --tokens 4 --path-rule registry,before-36862 --json plan.json
expect_rc 0
expect plan.json '.cells | length == 2'
expect plan.json '.cells[] | .work.rows_global == 128 and .layout.attn_tp == 8 and .layout.ep == 32'
expect plan.json '.cells[0] | .path.fast and .work.dispatch_ratio == 1 and .work.rows_dispatched == 128 and .work.assignments == 128 * 16'
expect plan.json '.cells[1] | (.path.fast | not) and .work.dispatch_ratio == 32 and .work.rows_dispatched == 4096 and .work.assignments == 4096 * 16'
expect plan.json '.cells[1].traffic.dispatch.messages == 32 * .cells[0].traffic.dispatch.messages'

# Measured: 8 ranks, both rules in one launch.
layout=(--model "tiny:E=32,K=4,I=128" --tp 8 --dp 2 --tokens 4 --nodes-as 2 --iters 3 --check every)
launch 8 run "${layout[@]}" --backend "$slabs" --path auto --path-rule registry,before-36862 --out paths.json
expect_rc 0
expect_good paths.json 4
expect paths.json '[.cells[] | select(name == "mooncake")] | length == 2'
expect paths.json 'of("mooncake") | select(.path.rule == "registry") | .path.fast and .path.sp_moe and .work.dispatch_ratio == 1 and .work.rows_dispatched == 32 and .work.assignments == 128'
expect paths.json 'of("mooncake") | select(.path.rule == "before-36862") | (.path.fast | not) and .work.dispatch_ratio == 8 and .work.rows_dispatched == 256 and .work.assignments == 1024'
# That rule knew deepep.
expect paths.json 'of("deepep:ll") | .path.fast and .work.dispatch_ratio == 1'
expect paths.json '[.cells[].work.routing_hash] | unique | length == 1'
expect paths.json '.cells[] | .work.rows_global == 32'
# What was counted at the lanes, not what was planned.
expect paths.json 'of("mooncake") | select(.path.fast) | [lanes | select(.phase == "dispatch") | .messages] | add == 128'
expect paths.json 'of("mooncake") | select(.path.fast | not) | [lanes | select(.phase == "dispatch") | .messages] | add == 1024'
# The phases of each path; the others are absent.
expect paths.json 'of("mooncake") | select(.path.fast) | [.phases[].name] | contains(["attn_reduce_scatter", "all_gather"]) and (contains(["dp_gather"]) or contains(["tp_all_reduce"]) | not)'
expect paths.json 'of("mooncake") | select(.path.fast | not) | [.phases[].name] | contains(["attn_all_reduce", "dp_gather", "dp_scatter", "tp_all_reduce"]) and (contains(["attn_reduce_scatter"]) or contains(["all_gather"]) | not)'

# attn_tp 1: nothing to reduce or gather, said in the row.
launch 8 run --model "tiny:E=32,K=4" --tp 8 --dp 8 --tokens 4 --path fast --backend mooncake,mpi --iters 2 --check every --out dp8.json
expect_rc 0
expect_good dp8.json 2
expect dp8.json '.cells[] | .layout.attn_tp == 1 and .path.fast and .path.sp_moe == false and .work.dispatch_ratio == 1'
expect dp8.json '.cells[] | [.phases[].name] | any(. == "attn_reduce_scatter" or . == "all_gather" or . == "dp_gather") | not'

# A combine that was complete is reduced again: the check names it.
again=mooncake
long_tests && again="mooncake deepep:ll mpi"
for backend in $again; do
    rm -f twice.json
    launch_failing 8 run "${layout[@]}" --backend "$backend" --path fallback --path-rule unlisted --out twice.json
    expect_rc 1
    expect twice.json '.cells[0] | .status == "failed" and .path.reduced_twice and .check.state == "wrong" and .check.rows_wrong > 0'
    expect twice.json '.cells[0] | .reason | test("combined") and test("reduced twice") and test("8.00 times")'
    expect twice.json '.cells[0].check.first_wrong | .stage == "combined" and near(.got; 8 * .want; 0.05)'
    expect_text out '^failed: .*reduced twice'
done

# Under auto it is refused, alone and in a list.
launch_failing 8 run "${layout[@]}" --backend mooncake --path auto --path-rule unlisted --out no.json
expect_refused 2 mooncake unlisted 'already complete' 'reduce it again'
expect_no_file no.json
launch 8 run "${layout[@]}" --backend mooncake,none,deepep:ll --path-rule unlisted --out some.json
expect_rc 0
expect some.json 'of("none") | good'
expect some.json 'of("mooncake", "deepep:ll") | .status == "unsupported" and (.reason | test("already complete"))'
single plan --backend deepep_v2:direct --path-rule before-37516
expect_refused 2 deepep_v2:direct before-37516 'already complete'

# The fallback itself is right: every rank dispatches every row, nothing is reduced twice.
launch 8 run "${layout[@]}" --backend "$backends" --path fallback --out fallback.json
expect_rc 0
expect_good fallback.json 5
expect fallback.json 'of("mooncake", "deepep:ll", "mpi") | .work.dispatch_ratio == 8 and .path.reduced_twice == false'
expect fallback.json 'of("none") | .work | .dispatch_ratio == null and .rows_dispatched == null and .dispatch_ratio_reason == "no dispatch"'
launch_failing 8 run "${layout[@]}" --backend none --path fast
expect_refused 2 none 'fast' 'spans the EP group'
