#!/usr/bin/env bash
# Bytes of a row: the latent width is dispatched, the hidden width goes through the rest; payload and
# record follow the format. L09, N06, N16.
. "$(dirname "$0")/lib.sh"
long_only

# The true shape, planned: 7168 B or 3584 B + one f32 scale for 128.
single plan --model kimi-k3 --backend "$slabs" --tokens 1 --dispatch-dtype bf16,fp8 --json plan.json
expect_rc 0
expect plan.json '.cells | length == 4'
expect plan.json '.cells[] | select(.choices.dispatch_dtype == "bf16") | .traffic.dispatch | .bytes_payload == .messages * 7168'
expect plan.json '.cells[] | select(.choices.dispatch_dtype == "fp8") | .traffic.dispatch | .bytes_payload == .messages * 3696'
expect plan.json '.cells[].model | .hidden == 7168 and .latent == 3584'

# Both widths in a run; the experts are made few and thin.
launch 4 run --model kimi-k3:E=32,I=32,S=64 --backend "$slabs" --tokens 1 --dispatch-dtype bf16,fp8 --iters 2 --out k3.json
expect_rc 0
expect_good k3.json 4
expect k3.json '.cells[] | select(.choices.dispatch_dtype == "bf16") | lanes | select(.phase == "dispatch") | .bytes_payload == .messages * 7168'
expect k3.json '.cells[] | select(.choices.dispatch_dtype == "fp8") | lanes | select(.phase == "dispatch") | .bytes_payload == .messages * 3696'
expect k3.json '.cells[] | [lanes | select(.phase == "dispatch") | .messages] | add == 4 * 16'
expect k3.json '.cells[] | lanes | select(.phase == "combine") | .bytes_payload == .messages * 7168'

# The record of deepep:ll: 16 + 2 w in bf16, 16 + w + w/128*4 in fp8; the signal 4 B.
launch 8 run "${base[@]}" --backend deepep:ll --dispatch-dtype bf16,fp8 --iters 10 --out ll.json
expect_rc 0
expect_good ll.json 2
expect ll.json '.cells[] | select(.choices.dispatch_dtype == "bf16") | lanes | select(.phase == "dispatch")
    | .bytes_wire == .messages * (16 + 2 * 256) + 4 * .signals'
expect ll.json '.cells[] | select(.choices.dispatch_dtype == "fp8") | lanes | select(.phase == "dispatch")
    | .bytes_wire == .messages * (16 + 256 + 8) + 4 * .signals'

# Rates: each names its basis; bytes over the median of the phase.
expect ll.json '.cells[] | [.rates[] | .basis] | sort == ["assignment", "assignment", "deduplicated", "deduplicated", "wire", "wire"]'
expect ll.json '.cells[] | . as $cell | .rates[] | . as $r | near(.GBps; .bytes / ($cell | phase($r.name) | .median) / 1000; 1e-6)'
expect ll.json '.cells[] | . as $cell | rates("dispatch"; "assignment")
    | .bytes == 512 * (if $cell.choices.dispatch_dtype == "bf16" then 512 else 264 end)'
expect ll.json '.cells[] | . as $cell | .rates[] | select(.basis == "wire") | .name as $p
    | .bytes == ([$cell | lanes | select(.phase == $p and .src != .dst) | .bytes_wire] | add)'
expect ll.json '.cells[] | rates("dispatch"; "deduplicated").bytes < rates("dispatch"; "assignment").bytes'
