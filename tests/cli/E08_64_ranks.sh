#!/usr/bin/env bash
# Far more ranks than cores: waiting ranks yield, no design needs all of them at once. E08, E09.
# Alone: 64 ranks.
. "$(dirname "$0")/lib.sh"

launch 64 run --model tiny --backend "$slabs" --tokens 2 --iters 2 --timeout 60 --out many.json
expect_rc 0
expect_good many.json 2
expect many.json '.cells[] | .work.rows_global == 128 and .layout.ep == 64 and .check.rows_checked > 0'
expect many.json '(.topology.ranks | length) == 64'
# 64 x 64 lanes each way; where the record keeps the slowest only, it says so and has the sums.
expect many.json '.cells[].qps | .lanes_total == 2 * 64 * 64 and .lanes_kept == (.rows | length)'

# The shapes of the model, thirty-two ranks.
if [ -n "${K3BENCH_TEST_LONG:-}" ]; then
    launch 32 run --model kimi-k3-mini --backend "$slabs" --tokens 2 --iters 2 --timeout 120 --out mini.json
    expect_rc 0
    expect_good mini.json 2
    expect mini.json '(.topology.ranks | length) == 32 and all(.cells[]; .layout.ep == 32)'
fi
