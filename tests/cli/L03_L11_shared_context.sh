#!/usr/bin/env bash
# Context parallelism of DeepSeek-V4, variants of the shared expert, runners that a backend cannot
# have: measured, checked, or refused with one line. L03, L11.
. "$(dirname "$0")/lib.sh"

model=(--model "deepseek-v4-flash:E=32,H=256,I=128,S=128" --generation k3 --tokens 4 --seed 11 --check every --iters 2)

# Without an all-to-all rows are gathered over cp and sums scattered back; spanning backends keep
# their rows. The shared expert is added once in each (the oracle says so).
launch 8 run "${model[@]}" --cp 2,4 --dp 1,2 --backend none,deepep:ll --out cp.json
expect_rc 0
expect_good cp.json 8
expect cp.json '.cells[] | .layout | .attn_tp == .tp / .dp / .cp'
expect cp.json 'of("none") | [.phases[].name] | contains(["cp_gather", "cp_reduce_scatter"])'
expect cp.json 'of("none") | (.layout.dp > 1) as $dp | [.phases[].name] | contains(["dp_gather", "dp_scatter"]) == $dp'
expect cp.json 'of("deepep:ll") | [.phases[].name] | any(startswith("cp_")) | not'
expect cp.json 'of("deepep:ll") | .work.rows_dispatched == 32 and .choices.shared == "replicated"'
expect cp.json 'of("none") | .choices.shared == "tp"'
expect cp.json '[.cells[].work.routing_hash] | unique | length == 1'
launch 8 run "${model[@]}" --cp 2 --dp 2 --backend none,deepep:ll --tokens-skew 7,0,13,3 --out skew.json
expect_rc 0
expect_good skew.json 2

# A wrong row is seen through the reduce-scatter too.
launch_failing 8 run "${model[@]}" --cp 2 --backend none --fault corrupt:3:1 --out wrong.json
expect_rc 1
expect wrong.json '.cells[0] | .status == "failed" and .check.first_wrong.stage == "combined"'

# Who may: none, deepep, megamoe, mori upstream. Kimi-K3 not at all.
launch 8 run "${model[@]}" --cp 2 --backend none,mooncake,pplx,deepep_v2:direct --dp 2 --out who.json
expect_rc 0
expect who.json 'of("none") | good'
expect who.json 'of("mooncake", "pplx", "deepep_v2:direct") | .status == "unsupported" and (.reason | test("cp 2 is not allowed by upstream"))'
single plan --model kimi-k3 --cp 2 --backend none
expect_refused 2 'cp 2' 'kimi-k3' 'cp must be 1'

spanning=mooncake variants=4
long_tests && spanning=$slabs variants=8
# Variants of the shared expert: equal rows, other memory, phases and key.
launch 8 run --model "tiny:E=32,K=4" --dp 2 --tokens 5 --tokens-skew ragged --dispatch-dtype bf16 --check every --iters 2 \
    --backend "$spanning" --shared replicated,sharded --shared-overlap off,on --out shared.json
expect_rc 0
expect_good shared.json "$variants"
expect shared.json '[.cells[].key] | unique | length == $n' --argjson n "$variants"
expect shared.json '.cells[] | select(.choices.shared == "replicated") | .memory.shared_expert_bytes == 3 * 512 * 256 * 2'
expect shared.json '.cells[] | select(.choices.shared == "sharded") | .memory.shared_expert_bytes == 3 * 512 * 256 * 2 / 4'
expect shared.json '.cells[] | (.choices.shared == "sharded") as $s | [.phases[].name] | contains(["shared_gather", "shared_reduce_scatter"]) == $s'
expect shared.json '[.cells[] | select(.choices.shared_overlap)] | length == $n / 2' --argjson n "$variants"
launch 8 run --model "tiny:E=32,K=4" --dp 2 --tokens 5 --check every --iters 2 --backend mpi,null,none --shared auto,sharded --out other.json
expect_rc 0
expect other.json '[.cells[] | select(good)] | length == 5'
expect other.json 'of("none") | select(.status == "unsupported") | .reason | test("shared sharded needs the fast path")'

# 264.24 MB a layer, 24.31 GB over 92 layers.
single plan --model kimi-k3 --tp 32 --dp 4 --backend mooncake --shared replicated,sharded --json bytes.json
expect_rc 0
expect bytes.json '.cells[0].memory | .shared_expert_bytes == 264241152 and .shared_expert_model_bytes == 24310185984'
expect bytes.json '.cells[1].memory | .shared_expert_bytes == 264241152 / 8'

# Nothing that is asked for is without effect.
single plan --model tiny:S=0 --shared sharded --backend mooncake
expect_refused 2 'no effect' 'no shared expert'
single plan --model tiny --dp 8 --shared sharded --backend mooncake
expect_refused 2 'no effect' 'attn_tp 1'
single plan --model tiny --component pair --shared-overlap on --backend mooncake
expect_refused 2 'no effect' 'component pair'
single plan --model tiny --shared tp --backend mooncake
expect_refused 2 mooncake 'shared tp' 'fast path'
single plan --model tiny --shared-overlap on --backend mpi
expect_refused 2 mpi 'sends and waits apart'

# Runners: refused before anything is allocated, each with both names.
launch_failing 2 run --model tiny --backend mooncake --runner marlin --out no.json
expect_refused 2 'runner marlin' 'deepep_ll' 'mooncake' 'only standard'
expect_no_file no.json
single plan --model tiny --backend deepep:ll --runner flashinfer_mxfp4
expect_refused 2 'flashinfer_mxfp4' 'deepep_ll' 'deepep:ll'
single plan --model kimi-k3 --backend deepep_v2:direct --generation stock
expect_refused 2 'deepep_v2:direct' "upstream's gate" 'fp8_b128' 'mxfp4'
single plan --model deepseek-v3 --backend none --runner aiter:a8w4
expect_refused 2 'aiter:a8w4' 'mxfp4' 'fp8_b128'
single plan --model deepseek-v4-flash --backend deepep:ll --runner aiter --dispatch-dtype fp8
expect_refused 2 'runner aiter' 'bf16' 'generation stock'
launch 8 run --model "tiny:E=32,K=4" --tokens 4 --check every --iters 2 --backend deepep:ll --dispatch-dtype bf16 \
    --runner deep_gemm,aiter,aiter:a8w4,aiter:a4w4 --out runners.json
expect_rc 0
expect_good runners.json 4
expect runners.json '[.cells[].choices.recipe.name] == ["w4a8-fp8", "a16w4", "a8w4", "a4w4"]'
expect runners.json '.cells[].choices.recipe | (.points | length) == 5 and .rows_converted == false'
