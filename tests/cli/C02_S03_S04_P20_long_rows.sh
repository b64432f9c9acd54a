#!/usr/bin/env bash
# More rows than 32 bits of bytes hold, phases that add up to their call, ten thousand calls that follow one
# another. C02, S03, S04, P20.
. "$(dirname "$0")/lib.sh"

# 8 ranks x 65536 rows x 14336 bytes, 4 copies each: the numbers of the plan are those of 64-bit arithmetic.
single plan --model tiny:E=32,K=4,L=7168 --tp 8 --backend mpi --tokens 65536 --dispatch-dtype bf16 --json large.json
expect_rc 0
expect large.json '.cells[0].traffic.dispatch.bytes_payload == 8 * 65536 * 4 * 7168 * 2'
launch 2 run --model "tiny:E=8,K=2,L=32,H=64,I=32,S=32" --backend mpi --tokens 65536 --component pair --iters 1 --out rows.json
expect_rc 0
expect_good rows.json 1
expect rows.json '.cells[0].check.rows_checked >= 131072'

# One rank, one iteration: no maximum over ranks and no median between the parts and their whole.
launch 1 run --model "tiny:E=16,K=4" --backend mooncake --tokens 64 --iters 1 --accounting off --out one.json
expect_rc 0
expect one.json '.cells[0] | phase("dispatch").median as $d | [phase("quantize", "dispatch_send", "dispatch_wait").median] | add <= $d + 0.5 and add >= 0.9 * $d - 20'
expect one.json '.cells[0] | phase("combine").median as $c | [phase("combine_send", "combine_wait", "combine_reduce").median] | add <= $c + 0.5 and add >= 0.9 * $c - 20'
expect one.json '.cells[0] | phase("region").median as $r | [phase("router", "latent_down", "dispatch", "expert_mlp", "combine", "latent_up").median] | add <= $r + 0.5'
expect one.json '.cells[0] | phase("dispatch_wait").median < phase("dispatch").median'

# What follows the transport has phases of its own, at every size.
launch 2 run --model "tiny:E=16,K=4" --backend deepep_v2:direct --tokens 1,16 --iters 8 --out after.json
expect_rc 0
expect after.json '.cells | length == 2 and all(phase("combine_reduce").median > 0 and phase("combine_wait").median > 0
    and phase("combine_reduce").median < phase("combine").median)'

# Rounds are told apart by their number alone: no barrier lies between the pairs of a chain.
iters=200
long_tests && iters=10000
launch 4 run --model "tiny:E=16,K=4" --backend mori:intra --tokens 2 --component chain --iters "$iters" --check ends --out chain.json
expect_rc 0
expect_good chain.json 1
expect chain.json '.cells[0] | phase("chain").n == $n and .qps.matches_plan' --argjson n "$iters"
