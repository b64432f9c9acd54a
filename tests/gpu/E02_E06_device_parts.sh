#!/usr/bin/env bash
# Parts of the region with rows on a device: pairs in a chain, the control and its loops, dumps, contexts that are
# split. Called with EMULATED_BINARY SOURCE_DIR.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"

limit=500
small=(--device emulated --share-device on --tokens 4 --check every --iters 2)
model=(--model "tiny:E=8,K=2,H=128,L=512,I=64,S=64")

# --- controls: the slab's own, and the loops of the others; pairs one behind the other ----------------------------------
launch 4 run "${small[@]}" "${model[@]}" --nodes-as 2 --component control,chain \
    --backend mooncake,pplx_garden,deepep_v2:direct,deepep:normal --out parts.json
expect_rc 0
expect_good parts.json 8
expect parts.json '.cells[].qps.matches_plan'
expect parts.json 'of("pplx_garden", "deepep_v2:direct", "deepep:normal") | select(.component == "control")
    | [.phases[] | select(.median > 0) | .name] | contains(["dispatch", "control", "control_ordered", "control_floor"])'
expect parts.json 'of("mooncake") | select(.component == "control") | [.phases[].name] | contains(["control"])'
expect parts.json '.cells[] | select(.component == "chain") | [.phases[].name] | contains(["chain", "quantize", "expert_mlp", "combine_reduce"])'
# Kernels of all pairs are timed, not those of the last of eight: the experts of a pair take as long in either.
launch 1 run "${small[@]}" "${model[@]}" --component pair,chain --backend mooncake --iters 7 --out lone.json
expect_rc 0
expect_good lone.json 2
expect lone.json '[.cells[] | {(.component): phase("expert_mlp").min}] | add | .chain > 0.4 * .pair and .pair > 0'
UCX_TLS=tcp,self launch 2 run "${small[@]}" "${model[@]}" --component control,chain --backend mooncake,nccl_ep,mori:intra --out tcp.json
expect_rc 0
expect_good tcp.json 6
expect tcp.json '.cells[].qps.matches_plan'

# --- rows gathered over cp, and their sums scattered back ------------------------------------------------------------------
context=(--model "deepseek-v4-flash:E=8,K=2,H=128,I=128,S=64" --generation k3 --seed 11)
launch 4 run "${small[@]}" "${context[@]}" --tokens-skew 5,0,3,1 --cp 2 --backend none --out cp.json
expect_rc 0
expect_good cp.json 1
expect cp.json '.cells[0].phases | [.[].name] | contains(["cp_gather", "cp_reduce_scatter"])'
launch 4 run "${small[@]}" "${context[@]}" --cp 2 --backend none --fault corrupt:1:0 --out wrong.json
expect_rc 1
expect wrong.json '.cells[0].check.first_wrong.stage == "combined"'

# --- a dump that NumPy recomputes --------------------------------------------------------------------------------------------
launch 2 run "${small[@]}" --model "tiny:E=8,K=2,H=128,L=512,I=128,S=128" --backend mooncake --dump folder --check ends --iters 1
expect_rc 0
for file in hidden ids combined arrived_values arrived_scales output; do
    check "the dump has $file" [ -s "folder/$file.npy" ]
done
for python in python3 /usr/bin/python3; do
    "$python" -c 'import numpy' 2>/dev/null || continue
    run_it "$python" "$source_dir/scripts/verify_dump.py" folder
    expect_rc 0
    expect_text out '^verified'
    break
done

# --- all others, complete sums that are only cut -------------------------------------------------------------------------------
long_tests || exit 0
launch 4 run "${small[@]}" "${model[@]}" --nodes-as 2 --dp 2 --component control,chain --dispatch-dtype fp8 \
    --backend nccl_ep,mori:asyncll,mori:v1,mori:v1ll,deepep_v2:hybrid --out others.json
expect_rc 0
expect_good others.json 10
expect others.json '.cells[].qps.matches_plan'
launch 4 run "${small[@]}" "${model[@]}" --dp 4 --component control,chain --backend mori:intra,mori:intra_pull,flashinfer --out peers.json
expect_rc 0
expect_good peers.json 6
launch 4 run "${small[@]}" --model "deepseek-v4-flash:E=8,K=2,H=512,I=128,S=64" --generation k3 --cp 2 --backend none,deepep:ll,mori:asyncll \
    --path fast,fallback --out cut.json
expect_rc 0
expect cut.json '[.cells[] | select(good)] | length >= 4'
expect cut.json '[.cells[] | select(.path.fast | not) | select(good) | .backend] | index("deepep") != null'
