#!/usr/bin/env bash
# Backends that live on mapped memory of the peers, with rows on a device, whose memory is not mapped: places in a
# compact range are reserved, and results read, through queue pairs; rings inside one node. Against plan and
# oracle over two transports. Called with EMULATED_BINARY SOURCE_DIR.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"

limit=500
small=(--device emulated --share-device on --tokens 4 --check every --iters 1)
model=(--model "tiny:E=8,K=2,H=128,L=512,I=64,S=64")
peers=mori:intra,mori:intra_pull,flashinfer,deepep:normal

lanes_fit='.cells[].qps | .matches_plan and ([table | .lane] | unique == ["qp", "self"])'
pulls='of("mori:intra_pull", "flashinfer") | [lanes | select(.phase == "combine" and .messages > 0)] | length > 0 and all(.p50_us > 0)'

# --- over shared memory and over TCP; every other rank without rows ----------------------------------------------------
launch 4 run "${small[@]}" "${model[@]}" --dp 4 --backend "$peers" --component pair --out four.json
expect_rc 0
expect_good four.json 4
expect four.json "$lanes_fit"
expect four.json "$pulls"

expect four.json '.cells[].memory | .on_device_allocated_bytes < 1.1 * .on_device_bytes + 300000'
check "the record is valid" python3 "$source_dir/tests/rules/check_schema.py" \
    "$source_dir/results/schema/k3bench.result.1.schema.json" four.json
UCX_TLS=tcp,self launch 4 run "${small[@]}" "${model[@]}" --dp 4 --backend "$peers" --component pair \
    --tokens-skew 4,0,3,0 --iters 2 --out tcp.json
expect_rc 0
expect_good tcp.json 4
expect tcp.json "$lanes_fit"

# --- results in fp8, where they stay and where they are sent ---------------------------------------------------------------
launch 4 run "${small[@]}" "${model[@]}" --dp 4 --backend mori:intra,mori:intra_pull,flashinfer --combine-dtype fp8 --component pair --out back.json
expect_rc 0
expect_good back.json 3
expect back.json "$lanes_fit"
expect back.json '.cells[].memory | .on_device_allocated_bytes < 1.1 * .on_device_bytes + 300000'

# --- results at any address -------------------------------------------------------------------------------------------------
launch 4 run "${small[@]}" --model "tiny:E=8,K=3,H=128,L=256,I=64,S=64" --dp 4 --backend "$peers" --component pair --out odd.json
expect_rc 0
expect_good odd.json 4
expect odd.json "$lanes_fit"

# --- a wrong row is seen, more nodes than one are not ------------------------------------------------------------------
launch 2 run "${small[@]}" "${model[@]}" --dp 2 --backend mori:intra_pull --component pair --fault corrupt:1:0 --out bad.json
expect_rc 1
expect bad.json '.cells[0] | .status == "failed" and (.reason | startswith("check: stage combined of row "))'
launch 4 run "${small[@]}" "${model[@]}" --dp 4 --nodes-as 2 --backend mori:intra
expect_refused 2 'mori:intra: lives on mapped memory, limit 1 node, not 2'

# --- the whole region, many rows, narrow records, one rank alone, staged -----------------------------------------------
long_tests || exit 0
launch 4 run "${small[@]}" "${model[@]}" --dp 2 --backend "$peers" --iters 2 --out region.json
expect_rc 0
expect_good region.json 4
expect region.json "$lanes_fit"
launch 8 run "${small[@]}" --model "tiny:E=16,K=4,H=128,L=512,I=64,S=64" --dp 8 --routing zipf:1.2 --tokens 40 \
    --component pair --backend "$peers" --out eight.json
expect_rc 0
expect_good eight.json 4
expect eight.json "$lanes_fit"
launch 2 run "${small[@]}" --model "tiny:E=8,K=2,H=128,L=256,I=64,S=64" --dp 2 --dispatch-dtype fp8 --tokens 4 \
    --component pair --tokens-skew one-empty --staged on --backend mori:intra,mori:intra_pull,deepep:normal --out narrow.json
expect_rc 0
expect_good narrow.json 3
launch 1 run "${small[@]}" "${model[@]}" --backend "$peers" --out lone.json
expect_rc 0
expect_good lone.json 4
