#!/usr/bin/env bash
# Dead and late ranks by profile: masks, traps, endless waits. F01, F02, F04, F08, P23.
# Alone: time limits.
. "$(dirname "$0")/lib.sh"

cell=(--model "tiny:E=32,K=4,I=128" --dp 2 --nodes-as 2 --seed 7 --check every)
masks='.faults.masks | table'

# F01: dead when the results are due. All survivors leave out its experts, the weights stay, nothing of an
# earlier call appears: the oracle looks at every row of every iteration.
launch 8 run "${cell[@]}" --backend mooncake,nixl --iters 5 --call-timeout 1.5 --fault dead:2:combine_send:3 --out dead.json
expect_rc 0
expect dead.json '.cells | length == 2'
expect dead.json '.cells[] | .status == "degraded" and .check.state == "ok" and .qps.matches_plan'
expect dead.json '.cells[] | .reason | test("rank 2 masked by 7 of 7 others .* in combine_wait of call 3")'
expect dead.json ".cells[] | [$masks | select(.rank == 2 and .phase == \"combine_wait\" and .call == 3) | .by] == [0, 1, 3, 4, 5, 6, 7]"
expect dead.json '.cells[] | .faults | .injected == "dead:2:combine_send:3" and .action == "mask" and .limit_s == 1.5'
expect_text out '^degraded: mooncake .*rank 2'
# Mooncake goes on sending to it, NIXL does not.
expect dead.json 'of("mooncake") | any(lanes; .phase == "dispatch" and .src == 0 and .dst == 2 and .messages > 0)'
expect dead.json 'of("nixl") | all(lanes; .phase != "dispatch" or .src == 2 or .dst != 2 or .signals == 0)'

# F02: dead before its rows are sent; the default iteration is the second timed one.
masking=deepep:ll # and mooncake above
long_tests && masking=mooncake,deepep:ll
launch 8 run "${cell[@]}" --backend "$masking" --on-timeout mask --iters 6 --p2p off --call-timeout 1.5 --fault dead:3:dispatch_send --out send.json
expect_rc 0
expect send.json '.cells[] | .status == "degraded" and .check.state == "ok" and .qps.matches_plan'
expect send.json ".cells[] | [$masks | [.rank, .phase]] | unique == [[3, \"dispatch_wait\"]]"
expect send.json '.cells[] | .warmup.n as $w | [.faults.masks | table | .call] | unique == [$w + 2]'

# F04: late in the first call, which has no limit; then in a later one. What comes late is never counted:
# the rank stays masked, and every row is checked on both sides.
launch 4 run "${cell[@]}" --backend mooncake --iters 3 --call-timeout 1 --fault stall:1:dispatch_send:2000:1 --out first.json
expect_rc 0
expect_good first.json 1
launch 4 run "${cell[@]}" --backend mooncake --iters 6 --call-timeout 1 --fault stall:1:dispatch_send:2500:4 --out later.json
expect_rc 0
expect later.json '.cells[0] | .status == "degraded" and .check.state == "ok" and .qps.matches_plan'
expect later.json ".cells[0] | [$masks | select(.rank == 1)] | length == 3 and all(.call == 4 and .phase == \"dispatch_wait\")"
expect later.json ".cells[0] | [$masks | select(.by == 1)] | length == 3 and all(.call == 4)"
expect later.json '.cells[0].reason | test("rank 1 masked by 3 of 3 .* call 4.*has masked 3 itself")'

# F08: a trap fails its cell and no other.
trapped=deepep:ll,mooncake
long_tests && trapped=deepep:ll,uccl,nixl,mooncake
launch 4 run "${cell[@]}" --backend "$trapped" --iters 3 --call-timeout 1.5 --fault dead:2:expert_mlp --out trap.json
expect_rc 1
expect trap.json '.cells[] | .status == (if name == "deepep:ll" or name == "uccl" then "failed" else "degraded" end)'
expect trap.json 'of("deepep:ll", "uccl") | .reason | test("trap: flags of rank 2 missing after 1.5 s in combine_wait of call [0-9]+")'
expect trap.json 'of("deepep:ll") | .faults.action == "trap" and .phases == null'

# Where nobody gives up the watchdog speaks.
launch 4 run "${cell[@]}" --backend pplx --iters 3 --timeout 4 --fault dead:2:dispatch_send --out wait.json
expect_rc 4
expect_text err 'no progress .* rank 0 .*dispatch_wait.*counts or their rows missing' 'rank 2 .*in dispatch_send'
expect wait.json '.cells[0] | .status == "failed" and (.reason | test("no progress"))'

# P23: half of the ranks dead before the first call. Places go by the number of a rank, masked ranks get no
# message in the timed iterations.
launch 6 run --model "tiny:E=36,K=4" --backend nixl --check every --iters 3 --call-timeout 2 --fault dead:1+3+4:dispatch_send:1 --out half.json
expect_rc 0
expect half.json '.cells[0] | .status == "degraded" and .check.state == "ok" and .qps.matches_plan'
expect half.json ".cells[0] | [$masks | [.by, .rank, .call]] == [[0,1,1],[0,3,1],[0,4,1],[2,1,1],[2,3,1],[2,4,1],[5,1,1],[5,3,1],[5,4,1]]"
expect half.json '.cells[0] | [lanes | select(.messages + .signals > 0) | .src, .dst] | unique == [0, 2, 5]'

# Without a fault no limit is in force, and the record says so.
launch 4 run "${cell[@]}" --backend mooncake --iters 2 --out plain.json
expect_rc 0
expect plain.json '.cells[0].faults | .limit_s == null and (.limit_s_reason | test("for ever")) and .injected == null and .masks.rows == []'

# A fault that never comes tests nothing.
launch 4 run "${cell[@]}" --backend mooncake --iters 2 --call-timeout 2 --fault dead:2:tp_all_reduce --out never.json
expect_rc 1
expect never.json '.cells[0].reason | test("never came to tp_all_reduce")'
launch_failing 4 run "${cell[@]}" --backend mooncake --fault dead:8:router --out no.json
expect_refused 2 "'8'" '0 to 3'
launch_failing 4 run "${cell[@]}" --backend mooncake --fault dead:1:router --component control --out no.json
expect_refused 2 control
single plan --backend mooncake --on-timeout trap
expect_refused 2 mooncake 'on-timeout trap' mask
expect_no_file no.json

# A limit that the engine does not know is refused, and what its calls do is said as it is.
launch 2 run --model tiny --tokens 2 --backend nccl_ep,none --iters 2 --call-timeout 1 --out nolimit.json
expect_rc 2
expect nolimit.json 'all(.cells[]; .status == "unsupported" and (.reason | test("call-timeout 1 s: calls of .* wait for ever")))'
launch 2 run --model tiny --tokens 2 --backend nccl_ep --iters 2 --out waits.json
expect_rc 0
expect waits.json '.cells[0].faults.action == "wait"'
