#!/usr/bin/env bash
# What was checked and when; nothing is carried from the warm-up into the timed iterations. N14, U14.
. "$(dirname "$0")/lib.sh"
long_only

launch 8 run "${base[@]}" --backend "$backends" --check ends --iters 20 --out ends.json
expect_rc 0
expect_good ends.json 5
# All rows of the first warm-up iteration and of the last one; in between single rows of 1, 2, 4, 8, 16.
expect ends.json '.cells[] | .check.mode == "ends" and .check.rows_checked == 2 * 128 + 5 * 8'
launch 8 run "${base[@]}" --backend "$backends" --check every --iters 5 --out every.json
expect_rc 0
expect_good every.json 5
expect every.json '.cells[] | .check.mode == "every" and .check.rows_checked == 6 * 128'
launch 8 run "${base[@]}" --backend "$backends" --check off --iters 5 --out off.json
expect_rc 0
expect off.json '.cells[] | .status == "ok" and .check.state == "not checked" and .check.mode == "off" and .check.rows_checked == 0 and .check.max_rel_err == null'

# A slow router cuts the warm-up short: other iterations are timed and checked, right all the same.
one=(run --model "tiny:E=32,K=4" --tokens 4 --seed 7 --backend "mooncake,none,mpi" --iters 5)
launch 1 "${one[@]}" --fault stall:0:router:210 --out short.json
expect_rc 0
expect_good short.json 3
launch 1 "${one[@]}" --out long.json
expect_rc 0
expect_good long.json 3
expect short.json '.cells[] | .warmup.n == 2'
expect long.json '.cells[] | .warmup.n > 2'
# What is counted is counted in the timed iterations only.
for file in short.json long.json; do
    expect "$file" 'of("mooncake") | [waits | select(.phase == "dispatch") | .count] | add == 5 * 32'
    expect "$file" '.cells[] | .phases[] | .n == 5'
done
expect ends.json '.cells[] | .phases[] | .n == 20'
