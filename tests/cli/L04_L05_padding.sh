#!/usr/bin/env bash
# Rows that the attention group does not divide: padded, counted apart, never dispatched. L04, L05.
. "$(dirname "$0")/lib.sh"

small=(--model "tiny:E=32,K=4,I=128" --nodes-as 2 --iters 2 --check every --seed 3)

# expect_rows FILE ROWS PADDING: every cell of 8 ranks; K = 4; each check looks at all rows.
expect_rows() {
    expect "$1" '.cells[] | .work.rows_global == $r and .work.rows_padding == $p and .tokens.total == $r' \
        --argjson r "$2" --argjson p "$3"
    expect "$1" '.cells[] | select(.work.rows_dispatched != null) | .work.rows_dispatched == $r and .work.assignments == 4 * $r' \
        --argjson r "$2"
    # The first warm-up iteration and both timed ones.
    expect "$1" '.cells[] | .check.rows_checked == 3 * $r' --argjson r "$2"
    expect "$1" 'of("mooncake", "deepep:ll") | [lanes | select(.phase == "dispatch") | .messages] | add == 4 * $r' \
        --argjson r "$2"
    # Ranks without a row enter all the same: everyone hears from everyone.
    expect "$1" 'of("mooncake", "deepep:ll") | [waits | select(.phase == "dispatch" and .count > 0)] | length == 64'
}

# 10 rows in one group of 8.
launch 8 run "${small[@]}" --backend "$backends" --tp 8 --dp 1 --tokens-skew 10 --out ten.json
expect_rc 0
expect_good ten.json 5
expect_rows ten.json 10 6
expect ten.json '.cells[] | .tokens.max == 2 and .tokens.min == 0'

# 7 and 0 rows in two groups of 4.
launch 8 run "${small[@]}" --backend "$backends" --tp 8 --dp 2 --tokens-skew 7,0 --out seven.json
expect_rc 0
expect_good seven.json 5
expect_rows seven.json 7 1

# The empty group first, and no padding.
launch 8 run "${small[@]}" --backend mooncake,deepep:ll,none --tp 8 --dp 2 --tokens-skew 0,8 --out eight.json
expect_rc 0
expect_good eight.json 3
expect_rows eight.json 8 0

# The same rows without a group's padding: a list for each rank.
launch 8 run "${small[@]}" --backend mooncake,deepep:ll,none --tp 8 --dp 2 --tokens-skew 2,2,2,1,0,0,0,0 --out list.json
expect_rc 0
expect_good list.json 3
expect_rows list.json 7 0
check "the same 7 rows have the same routing" \
    [ "$(value list.json '.cells[0].work.routing_hash')" = "$(value seven.json '.cells[0].work.routing_hash')" ]
check_not "8 rows have another routing" \
    [ "$(value list.json '.cells[0].work.routing_hash')" = "$(value eight.json '.cells[0].work.routing_hash')" ]

# Both paths.
launch 8 run "${small[@]}" --backend mooncake,mpi --path fallback --tp 8 --dp 2 --tokens-skew 7,0 --out fallback.json
expect_rc 0
expect_good fallback.json 2
expect fallback.json '.cells[] | .work.rows_global == 7 and .work.dispatch_ratio == 8 and .work.rows_dispatched == 56'

# A list that fits neither the ranks nor the groups.
launch_failing 8 run "${small[@]}" --backend mooncake --tp 8 --dp 2 --tokens-skew 7,0,1
expect_refused 2 'tokens-skew' '3 numbers' '8 \(one for each rank\)' '2 \(one for each DP group\)'
