#!/usr/bin/env bash
# A fault that was asked for and did not come about is no test: the cell says so.
. "$(dirname "$0")/lib.sh"

cell=(--model "tiny:E=16,K=4" --tp 4 --dp 2 --tokens 2 --max-tokens 8 --iters 3)
for fault in stall:1:notify:20 stall:1:dispatch_send:5:99 skip:1:99 stall:1:dispatch_send:5:/99; do
    rm -f missed.json
    launch_failing 4 run "${cell[@]}" --backend mooncake,none --fault "$fault" --out missed.json
    expect_rc 1
    expect missed.json '.cells[] | .status == "failed" and (.reason | test("^fault: rank 1 never came to (notify|dispatch_send|iteration 99)"))'
done
rm -f missed.json
launch_failing 4 run "${cell[@]}" --backend null,mooncake --fault corrupt:0:0 --out missed.json
expect_rc 1
expect missed.json '[.cells[].status] == ["unsupported", "failed"]'
expect missed.json '.cells[0].reason | test("moves no rows")'
# The slice of the intermediate width that this rank has is empty: all its rows are zero.
launch_failing 8 run --model tiny:I=64 --tp 8 --tokens 2 --iters 2 --backend none --fault corrupt:2:0 --out same.json
expect_rc 1
expect same.json '.cells[0].reason | test("row 0 of rank 2 and its neighbour are the same")'
# What strikes is no failure by itself.
launch 4 run "${cell[@]}" --backend mooncake,none --fault stall:1:latent_down:2 --out late.json
expect_rc 0
expect_good late.json 2

rm -f missed.json
launch_failing 4 run "${cell[@]}" --backend mooncake --fault dead:0+1+2+3:dispatch_send --out no.json
expect_refused 2 'all 4 ranks'
launch_failing 4 run "${cell[@]}" --backend mooncake --fault stall:1:dispatch_send:0 --out no.json
expect_refused 2 'fault ms' 0.001
expect_no_file no.json
