#!/usr/bin/env bash
# Parts of the region on their own: named for what they span, checked as the whole is. N10.
. "$(dirname "$0")/lib.sh"

cell=(--model "tiny:E=16,K=4" --nodes-as 2 --tokens 8 --seed 7 --check every --iters 3)
launch 4 run "${cell[@]}" --backend mooncake,mpi,none --component region,pair,dispatch,combine,experts,control --out parts.json
expect_rc 0
expect parts.json '.cells | length == 18'
expect parts.json '[.cells[] | select(.status != "ok") | [.component, name]]
    == [["pair", "none"], ["dispatch", "none"], ["combine", "none"], ["control", "mpi"], ["control", "none"]]'
expect parts.json '.cells[] | select(.status == "unsupported") | .reason | test("component")'
expect parts.json '.cells[] | select(.status == "ok") | .check.state == "ok" and .check.rows_checked == 4 * 32'
expect parts.json '.cells[] | select(.status == "ok" and .component != "region") | [.phases[].name] | any(. == "router" or . == "shared_expert" or . == "latent_up") | not'
# Back to back is both ways, not half of it.
expect parts.json 'of("mooncake", "mpi") | select(.component == "pair") | (phase("dispatch").samples) as $d | (phase("combine").samples) as $c
    | phase("pair").samples | to_entries[] | .value > $d[.key] and .value > $c[.key]'
expect parts.json 'of("mooncake") | select(.component == "control") | [.phases[] | select(.median > 0) | .name] | contains(["control", "control_floor", "dispatch"])'
# What is asked for keeps its samples and has a span; of the parts nothing else does.
expect parts.json '.cells[] | select(.component == "experts") | phase("expert_mlp") | (.samples | length) == 3 and has("span")'
expect parts.json '.cells[] | select(.component != "experts" and .status == "ok") | .phases[] | select(.name == "expert_mlp") | has("samples") or has("span") | not'
# The same messages, whatever is timed.
expect parts.json 'of("mooncake") | select(.component == "control") | [.phases[].name] | index("control_ordered") == null'
expect parts.json '[of("mooncake") | select(.component != "control") | [lanes | .bytes_wire] | add] | unique | length == 1'

# The controls of engines that have none of their own: bare, in order, with the protocol's copies.
launch 4 run "${cell[@]}" --dp 2 --backend deepep:normal,pplx_garden,deepep_v2:direct,pplx --component control --out loops.json
expect_rc 0
expect_good loops.json 4
expect loops.json '.cells[] | [.phases[] | select(.median > 0) | .name] | contains(["dispatch", "control", "control_ordered", "control_floor"])'
check "a valid record" python3 "$source_dir/tests/rules/check_schema.py" "$source_dir/results/schema/k3bench.result.1.schema.json" loops.json

for component in pair dispatch combine experts; do
    rm -f wrong.json
    launch_failing 4 run "${cell[@]}" --backend mooncake --component "$component" --fault corrupt:2:3 --out wrong.json
    expect_rc 1
    expect wrong.json '.cells[0] | .check.state == "wrong" and .check.rows_wrong == 8 and (.check.first_wrong.row == 19 or .check.first_wrong.row == 20)'
done
single plan --component dispatsch
expect_refused 2 dispatsch dispatch

# The waits of control are those of the booked dispatch and combine alone.
launch 2 run --model tiny --backend deepep:ll --component control --tokens 2 --iters 20 --check off --out waits.json
expect_rc 0
expect waits.json '[.cells[0].waits as $w | $w.columns as $c | $w.rows[] | [., $c] | transpose | map({(.[1]): .[0]}) | add | select(.phase == "dispatch") | .count] | add == 20 * 32 * 4' 
