#!/usr/bin/env bash
# The check can fail: two exchanged rows, which have the same norms and the same sum, are found and
# named, on every backend that moves rows, on any rank. N01, N14, U14.
. "$(dirname "$0")/lib.sh"

# Only rank 0 has rows, all for the experts 0 and 1.
trace two.npy '[[0, 1]] * 64'
one=(--model "tiny:E=32,K=2" --nodes-as 2 --tokens-skew "64,0,0,0,0,0,0,0" --routing trace:two.npy --dispatch-dtype bf16 --seed 7)
launch 8 run "${one[@]}" --backend "$slabs" --check every --iters 40 --out right.json
expect_rc 0
expect_good right.json 2
expect right.json '.cells[] | .check.rows_checked == 41 * 64 and .check.rows_wrong == 0 and .check.first_wrong == null'
expect right.json '.cells[] | [lanes | select(.phase == "dispatch" and .messages > 0)] | map([.src, .dst, .messages]) == [[0, 0, 64], [0, 0, 64]]'

# expect_wrong FILE ROW OTHER LEAST MOST: every cell names one of the two rows; so many are wrong.
expect_wrong() {
    expect "$1" '.cells[] | .status == "failed" and .check.state == "wrong" and .check.rows_wrong >= $n and .check.rows_wrong <= $m' \
        --argjson n "$4" --argjson m "$5"
    expect "$1" '.cells[].check.first_wrong | (.row == $a or .row == $b) and .stage == "combined"' --argjson a "$2" --argjson b "$3"
    expect "$1" '.cells[].reason | test("row (" + $a + "|" + $b + ") ") and test("wanted [-0-9.e]+, got [-0-9.e]+")' --arg a "$2" --arg b "$3"
    expect_text out "^failed: .*row ($2|$3) in iteration" FAILED
}

launch_failing 8 run "${one[@]}" --backend mooncake,deepep:ll,none,mpi --check every --iters 3 --fault corrupt:0:17 --out wrong.json
expect_rc 1
expect wrong.json '.cells | length == 4'
expect_wrong wrong.json 17 18 8 8
expect wrong.json '.cells[].reason | test("exchanged|swapped|row 18|row 17")'

# Other ranks and rows, the last row of a rank (exchanged with its first), without the last check.
if long_tests; then
    launch_failing 8 run "${base[@]}" --backend mooncake,mpi --check every --iters 2 --fault corrupt:5:3 --out five.json
    expect_rc 1
    expect_wrong five.json 83 84 6 6
fi
launch_failing 8 run "${base[@]}" --backend deepep:ll --check ends --iters 2 --fault corrupt:7:15 --out seven.json
expect_rc 1
expect_wrong seven.json 127 112 4 4
launch_failing 8 run --model "tiny:E=32,K=4" --tokens 1 --nodes-as 2 --backend deepep:ll --check ends --iters 2 --fault corrupt:2:0 --out single.json
expect_rc 1
# Of a single row one element gets the other sign, which is within the tolerance when it is small.
expect_wrong single.json 2 2 1 3

# Not looked at is not found, and not called right.
launch 8 run "${base[@]}" --backend mooncake --check off --iters 2 --fault corrupt:5:3 --out off.json
expect_rc 0
expect off.json '.cells[] | .status == "ok" and .check.state == "not checked" and .check.rows_checked == 0 and .check.max_rel_err == null'
expect_text out 'not checked'

# A row or a rank that does not exist: such a test would always pass.
launch_failing 8 run "${base[@]}" --backend mooncake --fault corrupt:8:0 --out no.json
expect_refused 2 'rank' "'8'" '0 to 7'
launch_failing 8 run "${base[@]}" --backend mooncake --iters 2 --fault corrupt:0:999 --out no.json
expect_refused 2 'fault' '999'
expect_no_file no.json
