#!/usr/bin/env bash
# plan against a machine: times with their largest term, device memory, layouts that fit, what-if, thousands
# of ranks, and what is refused with its numbers.
. "$(dirname "$0")/lib.sh"
prelude="$prelude
def predicted(n): .prediction.phases[] | select(.name == n);"

valid() {
    check "$1 follows the schema" python3 "$source_dir/tests/rules/check_schema.py" \
        "$source_dir/results/schema/k3bench.result.1.schema.json" "$1"
}

single plan --machine h200 --model kimi-k3 --backend deepep:ll,mooncake,none --tp 32 --dp 4 --tokens 64 --json a.json
expect_rc 0
valid a.json
expect a.json '.cells | length == 3'
expect a.json '.cells[0] | predicted("dispatch") | .us > .limit_us and .low < .us and .us < .high and .bound_by == "NIC wire"'
expect a.json '.cells[0].memory | .device.fits and .device.weights_bytes == 92 * (28 * 17547264 + 264241152 + .dense_weights_bytes)'
expect a.json '.cells[0].memory.shared_expert_model_bytes == 24310185984'
expect a.json '.cells[0].work.distinct | near(.ranks; .ranks_expected; 0.02) and near(.ranks_expected; 12.83; 0.001)'
single plan --machine h200 --model kimi-k3 --backend deepep:ll,mooncake,none --tp 32 --dp 4 --tokens 64 --json b.json
check "the same bytes twice" cmp a.json b.json

# The search: what fits first, fastest first; none fits: the numbers, exit 2.
single plan --ranks 32 --machine h200 --model kimi-k3 --backend deepep:ll,none --tokens 64 --fit --json fit.json
expect_rc 0
valid fit.json
expect fit.json '[.cells[].memory.device.fits] | . == (sort | reverse)'
expect fit.json '[.cells[] | select(.memory.device.fits) | predicted("region").us] | . == sort and length > 6'
single plan --ranks 8 --machine h200 --model kimi-k3 --backend deepep:ll --fit
expect_rc 2
expect_text err 'no layout fits: the smallest needs 216\.[0-9] GB .* the machine has 141\.0 GB'
single plan --ranks 48 --machine h200 --model kimi-k3 --backend deepep:ll --fit
expect_refused 2 'none of [0-9]+ layouts is legal' '896'

# What-if: a rule that the backend could not have is hypothetical, with its refusal.
single plan --machine h200 --model kimi-k3 --backend mooncake --tp 32 --tokens 64 \
    --what-if nic_gbps=100,qps=64,posting=batch,fabric=roce --json w.json
expect_rc 0
valid w.json
expect w.json '.cells[0].what_if | [.[].hypothetical] == [false, true, true, false, true]'
expect w.json '.cells[0].what_if[0].phases[] | select(.name == "dispatch") | .after < 0.9 * .before'
expect w.json '.cells[0].what_if[1].reason | test("64")'

# As another backend: each rule in which it differs, all of them, and that backend itself, which is the same.
single plan --machine h200 --model kimi-k3 --backend deepep:ll --tp 32 --tokens 64 \
    --what-if as:mooncake,signal=write --json as.json
expect_rc 0
valid as.json
expect as.json '[.cells[0].what_if[].rule] | index("qps as mooncake") != null and index("timeout as mooncake") != null'
expect as.json '.cells[0].what_if | [.[] | select(.rule | test("^(all rules as )?mooncake"))] |
    .[0].phases == .[1].phases and .[0].buffers == .[1].buffers and .[0].hypothetical and (.[1].hypothetical | not)'
expect as.json '.cells[0].what_if[-1] | .rule == "signal=write" and .phases[0].after > .phases[0].before'
single plan --machine h200 --backend deepep:ll --what-if as:mori:v1
expect_refused 2 'mori:v1' 'another way'
single plan --machine h200 --what-if nic=3
expect_refused 2 'nic'
single plan --machine h200 --what-if posting=seldom
expect_refused 2 'everyN or batch'
single plan --what-if qps=3
expect_refused 2 'machine NAME'

# A rule that changes no time is said in one line; every rule has its line of help.
single plan --machine h200 --model kimi-k3 --backend deepep:ll --tp 32 --tokens 64 --what-if qps=2
expect_rc 0
expect_text out '^no predicted time changes: qps=2$'
expect_no_text out '[+]0\.0%'

# What is so already is told from what changes nothing; a change within the range of the prediction is marked, one beyond it is not.
rules=qps=8,fabric=ib,p2p=on,signal=add,posting=every1,nic_gbps=50,fabric=roce,qps=64,nic_gbps=45,nic_gbps=10
single plan --machine h200 --model kimi-k3 --backend mooncake --tp 32 --tokens 64 --what-if "$rules"
expect_rc 0
expect_text out '^is so already: qps=8, fabric=ib, p2p=on, signal=add, posting=every1, nic_gbps=50$' \
    '^no predicted time changes: fabric=roce, qps=64 .hypothetical.$' '^nic_gbps=45 .*%~ ' '^nic_gbps=10 +dispatch .*%  ' "^~: within the model's error"
single plan --machine h200 --model kimi-k3 --backend mooncake --tp 32 --tokens 64 --what-if "$rules" --json near.json
valid near.json
expect near.json '[.cells[0].what_if[].already] == [true, true, true, true, true, true, false, false, false, false, false]'
expect near.json '.cells[0] as $c | $c.what_if[].phases[] | . as $p | $c.prediction.phases[] | select(.name == $p.name) |
    $p.within_error == ($p.after >= .low and $p.after <= .high)'
single plan --machine h200 --model kimi-k3 --backend mooncake --tp 32 --tokens 64 --what-if nic_gbps=10
expect_no_text out '%~ ' "error"

# Cells of one work that the model cannot order are named, those of other works and the one that moves nothing are not.
single plan --machine h200 --model kimi-k3 --backend mooncake,deepep:ll,none,null --tp 32 --dp 4 --tokens 64,512
expect_rc 0
expect_text out "^note: mooncake kimi-k3 32/4/32 T64 has the shortest region, and not alone; within the model's error of it \\(-22 to \\+28 %\\).*: deepep:ll kimi-k3 32/4/32 T64\$" \
    "^note: mooncake kimi-k3 32/4/32 T512 has .*: deepep:ll kimi-k3 32/4/32 T512\$"
expect_no_text out '^note:.*(null|none)'
single plan --machine h200 --model kimi-k3 --backend mooncake,none --tp 32 --dp 4 --tokens 64
expect_no_text out '^note:'

# The total of a rank stands in the table, and what no device or this host can hold is said; the exit code stays.
single plan --tokens 4096 --backend deepep:ll --tp 8 --model kimi-k3 --machine h200
expect_rc 0
expect_text out '^backend .* total$' '^deepep:ll .* 137\.[0-9]+ GB$' \
    '^note: deepep:ll kimi-k3 8/1/8 T4096 fits no device of h200: a rank needs 350\.[0-9]+ GB of weights and buffers, a device has 141\.00 GB$'
single plan --tokens 16000 --backend deepep:ll --tp 32 --model kimi-k3
expect_rc 0
expect_text err '^note: deepep:ll kimi-k3 32/1/32 T16000 does not fit this host: 8 ranks of a node need [0-9.]+ TB, it has [0-9.]+ [GT]B left$'
sed 's/^\(ranks_per_node\) = .*/\1 = 64 | decided: t/; s/^\(cores_per_node\) = .*/\1 = 2 | decided: t/' "$source_dir/results/machines/h200.ini" >shared.ini
single plan --machine ./shared.ini --tokens 16000 --backend deepep:ll --tp 32 --model kimi-k3
expect_rc 0
expect_text err '^note: .* does not fit this host: 32 ranks of a node need [0-9.]+ TB'
single plan --machine h200 --tokens 4096,4097,4098,4099,4100 --backend deepep:ll --tp 8 --model kimi-k3
check "four by name" [ "$(grep -c '^note: .* fits no device' out)" = 4 ]
expect_text out '^note: 1 more does not fit either$'
single plan --model tiny --backend deepep:ll
expect_no_text out '^note:'
single help what-if
expect_rc 0
expect_text out '^  qps=N ' 'posting=everyN' '^    mask-at-send ' '^    lock ' '^    buffer '

# Work that would take minutes is refused with the limit.
single plan --model kimi-k3 --backend deepep:normal --tp 8 --tokens 16777216
expect_refused 2 '16777216 rows' 'limit is 268435456'

# Unknown machines and files.
single plan --machine h900
expect_refused 2 'h900' 'h800' 'mi355x'
single plan --machine local
expect_refused 2 'mpirun -np N k3bench doctor --calibrate .*at least two on each host'
printf 'memory_gb = 80\n' >bad.ini
single plan --machine ./bad.ini
expect_refused 2 'bad.ini:1' 'no source'

# Thousands of ranks, and the simulator.
single plan --model kimi-k3:E=7168 --tp 7168 --tokens 128 --backend deepep:ll --machine gb300 --json big.json
expect_rc 0
valid big.json
expect big.json '.cells[0] | .work.routing_hash == null and .prediction.counting == "expected" and .work.assignments == 7168 * 128 * 16'
single plan --machine h200 --model kimi-k3 --tp 32 --tokens 128 --backend deepep:ll --simulate --json sim.json
expect_rc 0
valid sim.json
expect sim.json '.cells[0] | near(.simulation[0].us; predicted("dispatch").us; 0.1)'

# A measured run beside its machine; one that is faster than it can be is called an error.
launch 2 run --model tiny --backend deepep:ll --iters 3 --machine h200 --out r.json
expect_rc 0
valid r.json
expect r.json '.cells[0].limits | .machine == "h200" and ([.phases[] | .efficiency < 1 and (.above_limit | not)] | all)'
# A share of the limit is told from 1 % on.
if [ "$(value r.json '[.cells[0].limits.phases[] | select(.name == "dispatch") | .efficiency >= 0.01] | any')" = true ]; then
    expect_text out 'dispatch at .* of the limit of h200'
else
    expect_no_text out 'dispatch at '
fi
expect_text err 'warning: machine h200: its ranks are GPUs, these are processes on a CPU'
# One that was calibrated beside other programs.
(cat "$source_dir/results/machines/h200.ini" && echo 'calibration_load = 3.5 | measured: test') >busy.ini
launch 2 run --model tiny --backend deepep:ll --iters 3 --machine ./busy.ini
expect_rc 0
expect_text err 'warning: machine ./busy.ini was calibrated at a load of 3.50 a core'
single plan --machine ./busy.ini --model tiny --tp 2 --backend deepep:ll
expect_rc 0
expect_text err 'calibrated at a load of 3.50 a core'
sed 's/^scaleup_gbps = 450/scaleup_gbps = 0.011/' "$source_dir/results/machines/h200.ini" >slow.ini
launch 2 run --model tiny --backend deepep:ll --tokens 1024 --component pair --iters 3 --machine ./slow.ini --out s.json
expect_rc 0
expect s.json '.cells[0].limits.phases[] | select(.name == "dispatch") | .above_limit'
expect_text out 'ERROR of the measurement'
single report s.json -o s.html
expect_text s.html 'ERROR of the measurement'
