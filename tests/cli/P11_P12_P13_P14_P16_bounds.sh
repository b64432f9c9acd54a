#!/usr/bin/env bash
# The bound of rows that buffers are sized by: slots keep their stride whatever is sent, all ranks
# agree on the bound before anything starts, more rows than it are refused. P11, P12, P13, P14, P16.
. "$(dirname "$0")/lib.sh"

# Cells that alternate in one launch, sized for 64 rows, and another top-k after that.
launch 4 run --model "tiny:E=32,K=4,tiny:E=32,K=8" --backend "$slabs" --nodes-as 2 --tokens 8,64,1,64,8 --max-tokens 64 \
    --dispatch-dtype bf16 --component pair --iters 3 --out sizes.json
expect_rc 0
expect_good sizes.json 20
expect sizes.json '[.cells[] | select(name == "mooncake" and .model.topk == 4) | .tokens.asked] == [8, 64, 1, 64, 8]'
expect sizes.json '.cells[] | .tokens.bound == 64'
for backend in mooncake deepep:ll; do
    expect sizes.json '[of($b) | .memory.block_bytes] | unique | length == 1' --arg b "$backend"
    expect sizes.json 'of($b) | . as $c | [lanes | select(.phase == "dispatch") | .messages] | add == 4 * $c.tokens.asked * $c.model.topk' --arg b "$backend"
done
# Without the bound the block follows the rows.
single plan --model "tiny:E=32,K=4" --backend mooncake --tokens 8,64 --json free.json
expect free.json '.cells | length == 2 and .[0].memory.block_bytes < .[1].memory.block_bytes'

# Bounds that differ over ranks.
cell=(run --model "tiny:E=32,K=4" --backend mooncake --tokens 4 --iters 2 --out no.json)
run_it mpirun --oversubscribe -n 4 env K3BENCH_MAX_TOKENS=32 "$k3bench" "${cell[@]}" : -n 4 env K3BENCH_MAX_TOKENS=16 "$k3bench" "${cell[@]}"
expect_refused 2 'max-tokens' '16 on rank 4' '32 on rank 0'
run_it mpirun --oversubscribe -n 1 "$k3bench" "${cell[@]}" --max-tokens 16 : -n 2 "$k3bench" "${cell[@]}" --max-tokens 100 : \
    -n 1 "$k3bench" "${cell[@]}" --max-tokens 9 : -n 4 "$k3bench" "${cell[@]}" --max-tokens 20
expect_refused 2 'max-tokens' '9 on rank 3' '100 on rank 1'
# The derived one: unequal rows with no agreed bound.
run_it mpirun --oversubscribe -n 4 "$k3bench" run "${cell[@]:1}" : -n 4 "$k3bench" run "${cell[@]:1}" --tokens 8
expect_refused 2 'tokens' '4 on rank 0' '8 on rank 4'
# The same number on all: nothing to refuse, however it was given.
run_it mpirun --oversubscribe -n 4 env K3BENCH_MAX_TOKENS=32 "$k3bench" "${cell[@]:0:9}" : -n 4 "$k3bench" "${cell[@]:0:9}" --max-tokens 32
expect_rc 0
expect_no_file no.json

# Unequal rows under one bound are legal; one row more than it is not.
launch 8 run "${base[@]}" --backend "$slabs" --tokens-skew 16,32,16,1,16,32,16,16 --iters 2 --out ragged.json
expect_rc 0
expect_good ragged.json 2
expect ragged.json '.cells[].tokens | .min == 1 and .max == 32 and .total == 145'
launch_failing 8 run "${base[@]}" --backend "$slabs" --tokens-skew 16,16,16,16,33,16,16,16 --out no.json
expect_refused 2 'rank 4' '33' '32'
launch_failing 8 run "${base[@]}" --backend none --tokens-skew 40,16,16,16,33,16,16,16 --out no.json
expect_refused 2 'rank 0' '40' '32'
expect_no_file no.json

# 6 ranks: 6 x 33 rows are no multiple of 4, which fp8 needs.
launch_failing 6 run --model "tiny:E=36,K=4" --backend mooncake --tokens 4 --max-tokens 33 --dispatch-dtype fp8 --out no.json
expect_refused 2 mooncake '198' 'multiple of 4' 'fp8'
expect_no_file no.json
launch 6 run --model "tiny:E=36,K=4" --backend "$slabs" --tokens 4 --max-tokens 33 --dispatch-dtype bf16,fp8 --iters 2 --out six.json
expect_rc 0
expect six.json '[.cells[] | select(.status == "ok") | .choices.dispatch_dtype] == ["bf16", "bf16"]'
expect six.json '[.cells[] | select(.status == "unsupported") | .reason | test("198") and test("multiple of 4")] == [true, true]'
launch 6 run --model "tiny:E=36,K=4" --backend "$slabs" --tokens 4 --max-tokens 34 --dispatch-dtype fp8 --iters 2 --out even.json
expect_rc 0
expect_good even.json 2

# What a profile itself allows.
single plan --backend mooncake,deepep:ll --tokens 1025 --json limit.json
expect_rc 0
expect limit.json 'of("mooncake") | .status == "unsupported" and (.reason | test("1025") and test("1024"))'
expect limit.json 'of("deepep:ll") | .status == "planned"'
