#!/usr/bin/env bash
# Far more ranks than cores: waiting ranks yield, no design needs all of them at once, and a busy program on one of the
# cores sets off no watchdog. E08, E09.
# Alone: many ranks.
. "$(dirname "$0")/lib.sh"

# A program that takes core 0, as long as this script lives.
taskset -c 0 sh -c 'while kill -0 "$1" 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; done' sh $$ &

many() { # RANKS FILE ARGUMENTS
    local ranks=$1 file=$2
    shift 2
    launch "$ranks" run --tokens 2 --iters 2 --out "$file" "$@"
    expect_rc 0
    expect_good "$file" 2
    expect "$file" '(.topology.ranks | length) == $n and .topology.oversubscribed == true' --argjson n "$ranks"
    expect "$file" '.cells[] | .work.rows_global == 2 * $n and .layout.ep == $n and .check.rows_checked > 0' --argjson n "$ranks"
    # One expert a rank: n x n lanes each way. Where the record keeps the slowest only, it says so and has the sums.
    [ "$file" = mini.json ] ||
        expect "$file" '.cells[].qps | .lanes_total == 2 * $n * $n and .lanes_kept == (.rows | length)' --argjson n "$ranks"
}

many 32 32.json --model tiny:E=32,K=4 --backend "$slabs"
if long_tests; then
    many 48 48.json --model tiny:E=48,K=4 --backend "$slabs"
    many 64 64.json --model tiny:E=64,K=4 --backend "$slabs"
    # Its 112 experts do not divide over 32 ranks.
    many 32 mini.json --model kimi-k3-mini:E=128 --backend "$slabs" --timeout 120
fi
