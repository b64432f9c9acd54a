#!/usr/bin/env bash
# The commands that need no ranks, and the program's own words.
. "$(dirname "$0")/lib.sh"

single --version
expect_rc 0
expect_text out '^k3bench [0-9]+\.[0-9]+' 'MPI +.*MPI' 'UCX +[0-9.]+ +[0-9.]+' 'hwloc +[0-9.]+ +[0-9.]+' 'CUDA' 'HIP' 'compiled +loaded'
[ -s err ] && fail "words on stderr"
for flag in --help -h; do
    single "$flag"
    expect_rc 0
    expect_text out '^usage: k3bench COMMAND' '^  run ' '^  plan ' '^  report ' '^  list '
done
for command in run plan report list; do
    single "$command" --help
    expect_rc 0
    expect_text out "^usage: k3bench $command"
done
launch 2 run --help
expect_rc 0
expect_text out '^usage: k3bench run'

# The registry: a row for every name of the contract.
single list backends --json
expect_rc 0
for name in mooncake deepep:ll deepep:normal deepep_v2:direct deepep_v2:hybrid mori:intra mori:v1 mori:v1ll mori:asyncll pplx nixl \
    flashinfer megamoe flashinfer_megamoe ascend_fuseep moonep nccl_ep uccl pplx_garden none mpi null; do
    expect out '[.backends[] | select(.name == $n)] | length == 1' --arg n "$name"
done
expect out '[.backends[] | select(.state != "available") | .name] == ["moonep"]'
expect out '.backends[] | (.source | length) > 0 and (.limits_stock | type) == "object" and (.qps | type) == "object"'
expect out '.backends[] | select(.name == "mooncake") | .reliance.spans_ep and .reliance.combine_complete and .limits_stock.topk == 11'
expect out '.runners | length > 0'
single list models --json
expect_rc 0
expect out '[.models[].name] | contains(["tiny", "kimi-k3-mini", "kimi-k3", "deepseek-v3"])'
expect out '.models[] | select(.name == "kimi-k3") | [.experts, .topk, .hidden, .latent] == [896, 16, 7168, 3584]'
expect out '.models[] | select(.name == "kimi-k3-mini") | [.experts, .topk, .hidden, .latent, .intermediate, .shared] == [112, 16, 1024, 512, 384, 768]'
single list paths --json
expect_rc 0
expect out '[.paths[].name] | contains(["registry", "before-35630", "before-36862", "before-37516"])'
single list runners --json
expect_rc 0
expect out '[.runners[].name] | contains(["marlin", "deep_gemm", "flashinfer_mxfp4", "aiter", "aiter:a8w4", "aiter:a4w4", "triton", "flashinfer_cutlass"])'
expect out '.runners[] | .recipe | (.points | length) == 5 and (.input | length) > 0 and (.middle_rule | length) > 0'
expect out '.runners[] | select(.name == "marlin") | .layouts == ["standard"] and .rows == ["bf16"] and (.backends | index("mooncake") == null)'
for topic in backends runners models paths; do
    single list "$topic"
    expect_rc 0
    cp out text
    single list "$topic" --json
    for name in $(jq -r '.[] | arrays | .[].name' out | head -n 30); do
        [ "$topic" = backends ] && ! jq -e '.backends[] | select(.name == $n)' --arg n "$name" out >/dev/null && continue
        expect_text text "^$name "
    done
done
# --json alone, with - and with a file, in either order.
single list models --json
cp out models.json
for words in "models --json -" "--json models" "models --json=-" "--json - models"; do
    # shellcheck disable=SC2086 # words
    single list $words
    expect_rc 0
    check "list $words is the same" cmp -s out models.json
done
single list models --json file.json
expect_rc 0
check "a file is the same" cmp -s file.json models.json
check "and nothing is printed" [ ! -s out ]
single list models --json file.json
expect_refused 3 'file.json'
single list models paths
expect_refused 2 'name one of'
single list --help
expect_rc 0
expect_text out '^  --json FILE ' 'also without FILE'
run_it env K3BENCH_FOO=1 "$k3bench" list paths
expect_refused 2 'K3BENCH_FOO'
single list models
check "columns are straight" [ "$(sed -n '/^$/q; p' out | awk '{ print length }' | sort -u | wc -l)" = 1 ]
expect_text out '^--weights reads no checkpoints of the other models'

# Help: what a command alone takes stands first where most is another's; a switch has no default to tell.
single sweep --help
expect_rc 0
check "launches before model" [ "$(sed -n 's/^  --\(launches\|model\) .*/\1/p' out | head -n 1)" = launches ]
expect_text out '^of the launches, as `k3bench run` takes them:$'
for command in run plan sweep report gate; do
    single "$command" --help
    expect_no_text out 'this text .default' '.{101}'
done

single list modls
expect_refused 2 modls models
single list
expect_refused 2 'backends'
single list models --jsno
expect_refused 2 jsno

# A stream that is closed is not taken for a file that is opened later, and what should have gone there is missed.
run_it bash -c 'exec <&- >&- 2>&-; exec "$@"' closed "$k3bench" run --model tiny --backend none --iters 2 --out closed.json
expect_rc 3
expect_good closed.json 1
run_it bash -c 'exec <&-; exec "$@"' closed "$k3bench" plan --json -
expect_rc 0
expect out '.cells | length == 4'

# plan needs no ranks, and does not mind one.
single plan --json -
expect_rc 0
expect out '.schema == "k3bench.result/1" and (.cells | length == 4)'
expect out '.cells[] | .status == "planned" and .check == null and .phases == null and .qps == null and (.qps_reason | length) > 0'
expect out '.cells[] | (.memory.total_bytes > 0) and (.work.routing_hash | length == 16)'
cp out alone
launch 1 plan --json -
expect_rc 0
check "under mpirun the same" cmp -s out alone
single plan --backend none --tp 1024 --model kimi-k3 --tokens 1 --json -
expect_rc 0
expect out '.cells[0].work.rows_global == 1024'
