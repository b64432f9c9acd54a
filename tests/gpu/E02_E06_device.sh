#!/usr/bin/env bash
# The region with its rows on a device, which is the emulated one: every engine that can against plan and
# oracle, over two transports; what is refused, and what a fault of the device says. Called with
# EMULATED_BINARY SOURCE_DIR PLAIN_BINARY.
plain=$(realpath "$3")
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"

limit=120
small=(--device emulated --model "tiny:E=8,K=2,H=128,L=512,I=64,S=64" --tokens 3 --max-tokens 4 --check every --iters 1)

# --- two ranks, collectives of MPI around the experts, rows fp8 where a profile sends them so -----------------
launch 2 run "${small[@]}" --share-device on --backend "null,none,$slabs" --out all.json
expect_rc 0
expect_good all.json 4
expect all.json '[.cells[].qps | select(. != null) | table | select(.lane == "p2p")] | length == 0'
expect all.json '[of("deepep:ll") | lanes | .lane] | unique == ["qp", "self"]'
expect all.json '[.cells[].phases[].name] | contains(["router", "latent_down", "quantize", "expert_mlp", "combine_reduce", "latent_up", "attn_reduce_scatter"])'
expect all.json '.run.device | .kind == "emulated" and .memory == "host" and (.staged | not) and .events'
expect all.json '.topology.ranks | all(.device == "emulated" and .accelerator.bus == "emulated:0" and .accelerator.ranks == 2)'
expect all.json '.fingerprint.stable.device == "emulated device, warps of 32"'
expect all.json '.cells | all(.key | endswith("/emulated"))'
check "the record is valid" python3 "$source_dir/tests/rules/check_schema.py" \
    "$source_dir/results/schema/k3bench.result.1.schema.json" all.json

# Alone there is no lane to test for its order.
launch 1 run "${small[@]}" --backend "none,$slabs" --out lone.json
expect_rc 0
expect_good lone.json 3

# --- four ranks over TCP: groups, an empty rank, bf16 rows, the shared expert beside the dispatch --------------
UCX_TLS=tcp,self launch 4 run "${small[@]}" --share-device on --backend none,deepep:ll --dp 2 --dispatch-dtype bf16 \
    --tokens-skew one-empty --shared-overlap on --out four.json
expect_rc 0
expect four.json '.cells | length == 2'
expect four.json 'of("deepep:ll") | good and .qps.matches_plan'
expect four.json 'of("none") | (.status == "ok" or .status == "unsupported")'

# --- pairs with stand-in experts, rows staged in the host, phases without events ------------------------------
launch 2 run "${small[@]}" --share-device on --backend mooncake --component pair --staged on --events off --out pair.json
expect_rc 0
expect_good pair.json 1
expect pair.json '[.cells[0].phases[].name] | (index("quantize") | not) and (index("dispatch_send") != null)'
expect pair.json '.run.device | .staged and .memory == "host" and (.events | not)'

# --- the check can fail ------------------------------------------------------------------------------------------
launch_failing 2 run "${small[@]}" --share-device on --backend deepep:ll --component pair --fault corrupt:1:0 --out bad.json
expect_rc 1
expect bad.json '.cells[0] | .status == "failed" and (.reason | startswith("check: stage combined of row "))'

# --- refusals ------------------------------------------------------------------------------------------------------
run_it "$plain" run --device hip
expect_refused 3 'device hip: this build has none \(CMake option -DK3BENCH_HIP=on, with hipcc: apt-get install hipcc\)'
single run --device emulatd
expect_refused 2 'device: unknown name "emulatd"|device.*emulatd'
launch_failing 2 run "${small[@]}" --backend null
expect_rc 3
expect_text err '2 ranks of host [^ ]+ would share the emulated device emulated:0: it has 1 for 2 ranks \(--share-device on allows it\)'
K3_EMULATED_DEVICES=2 launch 2 run "${small[@]}" --backend null --out two.json
expect_rc 0
expect two.json '[.topology.ranks[].accelerator | .bus, .ranks] == ["emulated:0", 1, "emulated:1", 1]'
K3_EMULATED_DEVICES=0 single run "${small[@]}" --backend null
expect_refused 3 'no emulated device: rank 0 sees none'
launch 2 run "${small[@]}" --share-device on --backend megamoe,null --out some.json
expect_rc 0
expect some.json 'of("megamoe") | .status == "unsupported"'
expect some.json 'of("null") | good'

# --- a fault names call, device and rank, and ends the job -----------------------------------------------------------
K3_EMULATED_BYTES=100000 launch 2 run "${small[@]}" --share-device on --backend null
check "a fault ends the job" [ "$rc" != 0 ]
expect_text err 'alloc of the emulated device: out of memory \(code 2\) on emulated device 0 .* of rank [01]'

# --- doctor and plan know devices ----------------------------------------------------------------------------------
single doctor
expect_text out 'emulated 0 .*emulated device, warps of 32 \(emulated\), emulated:0' 'memory +host'
K3_EMULATED_DEVICES=2 single doctor
expect_text out 'emulated peers +not reached: 0->1, 1->0'
single plan --model tiny --tp 2 --backend deepep:ll --device cuda --json plan.json
expect_rc 0
expect plan.json '.cells[0] | (.key | endswith("/cuda")) and (.choices.p2p | not)'
single plan --model tiny --tp 2 --device cuba
expect_rc 2
