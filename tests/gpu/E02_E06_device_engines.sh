#!/usr/bin/env bash
# Every engine that runs with its rows on a device, which is the emulated one: against plan and oracle on 2, 4 and
# 8 ranks, the two hops over virtual nodes, formats whose records are no multiples of 16 bytes, the budgets of both
# memories. Called with EMULATED_BINARY SOURCE_DIR PLAIN_BINARY.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"

limit=500
small=(--device emulated --share-device on --tokens 3 --check every --iters 1)
model=(--model "tiny:E=8,K=2,H=128,L=512,I=64,S=64")
apart=nccl_ep,pplx_garden,mori:asyncll,deepep_v2:direct # one hop, a copy for each rank or expert
rails=mori:v1,mori:v1ll,deepep_v2:hybrid,deepep:normal  # two hops

lanes_fit='.cells[].qps | select(. != null) | .matches_plan and ([table | select(.lane == "p2p")] | length == 0)'

# --- all of them on four ranks of two nodes, in their own formats; pplx needs groups ---------------------------------
launch 4 run "${small[@]}" "${model[@]}" --nodes-as 2 --dp 2 --component pair --backend "mpi,pplx,$apart,$rails" --out four.json
expect_rc 0
expect_good four.json 10
expect four.json "$lanes_fit"
expect four.json 'of("mpi") | .qps == null and ([.phases[].name] | contains(["notify", "quantize", "expert_mlp", "combine_reduce"]))'
check "the record is valid" python3 "$source_dir/tests/rules/check_schema.py" \
    "$source_dir/results/schema/k3bench.result.1.schema.json" four.json

# --- two budgets: what is planned for the device is what it takes, and the host keeps no weights ----------------------
expect four.json '.cells[].memory | .on_device_allocated_bytes < 1.1 * .on_device_bytes + 300000'
expect four.json '.cells[].memory | .on_device_bytes + .host_bytes == .total_bytes'
K3_EMULATED_MEMORY=1000000 launch_failing 2 run "${small[@]}" "${model[@]}" --backend mooncake --tokens 32 --max-tokens 32
expect_rc 3
expect_text err 'mooncake: needs [0-9.]+ [kM]B of the device.s memory a rank \(and [0-9.]+ [kM]?B of the host.s\), [0-9.]+ MB for the 2 ranks on emulated:0, which has 1\.00 MB$'
single plan "${model[@]}" --tp 2 --backend mooncake --device cuda --json plan.json
expect_rc 0
expect plan.json '.cells[0].memory | .on_device_bytes > .expert_weights_bytes and .host_bytes > 0'

# --- an empty rank, and records of any size ----------------------------------------------------------------------------
launch 2 run "${small[@]}" --model "tiny:E=8,K=2,H=128,L=256,I=64,S=64" --dispatch-dtype fp8 --backend "mpi,mooncake,$apart" \
    --tokens 4 --component pair --tokens-skew one-empty --iters 2 --out any.json
expect_rc 0
expect_good any.json 6
expect any.json 'of("mpi") | .events.n_off == 1' # the cost of events; others want more iterations
expect any.json "$lanes_fit"

# --- what stays refused, with its reason -------------------------------------------------------------------------------
launch 2 run "${small[@]}" "${model[@]}" --backend megamoe,flashinfer_megamoe,ascend_fuseep,null --dispatch-dtype auto --out some.json
expect_rc 0
expect some.json '.cells[] | if name == "null" then good else .status == "unsupported"
    and (.reason | test("one kernel brings rows in, computes and sends results: .* \\(--device cpu\\)")) end'
single run --device emulated --model tiny:E=8,K=2,L=16384 --tokens 4 --backend deepep:ll --combine-dtype logfmt10
expect_refused 2 'the kernels of its results take rows of up to 8192 values'

# --- results in fp8: a sum for each rank, sums of a node and over nodes ---------------------------------------------------
results=mori:asyncll,mori:v1,mori:v1ll
launch 4 run "${small[@]}" "${model[@]}" --nodes-as 2 --component pair --combine-dtype fp8 --backend "$results" --out back.json
expect_rc 0
expect_good back.json 3
expect back.json "$lanes_fit"
expect back.json '.cells[].choices.combine_dtype == "fp8"'
expect back.json '.cells[].memory | .on_device_allocated_bytes < 1.1 * .on_device_bytes + 300000'

# --- results at any address: weights of an odd number of selections behind them, scales of few groups ---------------------------
odd=(--nodes-as 2 --component pair --tokens-skew 4,0,3,1)
launch 4 run "${small[@]}" "${odd[@]}" --model "tiny:E=8,K=3,H=128,L=256,I=64,S=64" --backend "mooncake,deepep:ll,$apart,$rails" --out odd.json
expect_rc 0
expect_good odd.json 10
expect odd.json "$lanes_fit"
launch 4 run "${small[@]}" "${odd[@]}" --model "tiny:E=8,K=2,H=128,L=256,I=64,S=64" --combine-dtype fp8 --backend "$results" --out odd8.json
expect_rc 0
expect_good odd8.json 3
expect odd8.json "$lanes_fit"
expect odd8.json '.cells[].memory | .on_device_allocated_bytes < 1.1 * .on_device_bytes + 300000'

# --- results as messages of the length that they take, of rows whose messages are no multiples of 16 bytes too ----------------
launch 4 run "${small[@]}" "${model[@]}" --nodes-as 2 --component pair --combine-dtype logfmt10 --backend deepep:ll \
    --tokens-skew 4,0,3,1 --iters 2 --out log.json
expect_rc 0
expect_good log.json 1
expect log.json "$lanes_fit"
expect log.json '.cells[0] | ([lanes | select(.phase == "combine") | .bytes_payload] | add) as $sent
    | .choices.combine_dtype == "logfmt10" and $sent >= 16 * 656 and $sent < 16 * 1040'
expect log.json '.cells[].memory | .on_device_allocated_bytes < 1.1 * .on_device_bytes + 300000'
launch_failing 2 run "${small[@]}" "${model[@]}" --component pair --combine-dtype logfmt10 --backend deepep:ll --max-tokens 4 --fault corrupt:1:0 --out bad.json
expect_rc 1
expect bad.json '.cells[0] | .status == "failed" and (.reason | startswith("check: stage combined of row "))'

# --- the whole region; quantised rows, many to a rank, over TCP; eight ranks; all formats --------------------------------------
long_tests || exit 0
launch 4 run "${small[@]}" "${model[@]}" --nodes-as 2 --dp 2 --backend "mpi,pplx,$apart,$rails" --out region.json
expect_rc 0
expect_good region.json 10
expect region.json "$lanes_fit"
expect region.json '.cells[].memory | .on_device_allocated_bytes < 1.1 * .on_device_bytes + 300000'
UCX_TLS=tcp,self launch 4 run "${small[@]}" "${model[@]}" --nodes-as 2 --dispatch-dtype fp8 --component pair \
    --tokens 40 --backend "$rails" --out fp8.json
expect_rc 0
expect_good fp8.json 4
expect fp8.json "$lanes_fit"
launch 8 run "${small[@]}" --model "tiny:E=16,K=4,H=128,L=512,I=64,S=64" --nodes-as 2 --component pair \
    --backend "mpi,mooncake,$apart,$rails" --routing zipf:1.2 --tokens 6 --out eight.json
expect_rc 0
expect_good eight.json 10
expect eight.json "$lanes_fit"
UCX_TLS=tcp,self launch 4 run "${small[@]}" "${model[@]}" --nodes-as 2 --tokens 80 --component pair --combine-dtype fp8 \
    --backend "$results" --out many.json # more sums than are started together
expect_rc 0
expect_good many.json 3
expect many.json "$lanes_fit"
UCX_TLS=tcp,self launch 4 run "${small[@]}" --model "tiny:E=8,K=2,H=128,L=384,I=64,S=64" --nodes-as 2 --tokens 40 \
    --combine-dtype logfmt10 --backend deepep:ll --staged on --out whole.json # the whole region
expect_rc 0
expect_good whole.json 1
expect whole.json "$lanes_fit"
launch 4 run "${small[@]}" --model "tiny:E=8,K=3,H=128,L=256,I=64,S=64" --nodes-as 2 --tokens 4 --backend "mooncake,deepep:ll,$apart,$rails" --out all_odd.json
expect_rc 0
expect_good all_odd.json 10
launch 2 run "${small[@]}" --model "tiny:E=8,K=3,H=128,L=256,I=64,S=64" --tokens 4 --backend deepep:ll --zero-copy on --out straight.json
expect_rc 0
expect_good straight.json 1
for format in bf16 mxfp8 mxfp4; do
    launch 4 run "${small[@]}" "${model[@]}" --nodes-as 2 --dispatch-dtype "$format" --tokens 40 \
        --backend mpi,mooncake,mori:asyncll,mori:v1,mori:v1ll --out "$format.json"
    expect_rc 0
    expect_good "$format.json" 5
    expect "$format.json" "$lanes_fit"
done
