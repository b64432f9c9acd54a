#!/usr/bin/env bash
# Ranks without rows, ranks that get no rows, entries that are not sent, entries that do not exist.
# P01, P02, P03, P04, U15.
. "$(dirname "$0")/lib.sh"

# Every rank still sends all its signals: one for each expert and direction (32 experts, 8 ranks).
expect_signals() { # FILE
    expect "$1" 'of("mooncake", "deepep:ll") | . as $cell | range(8) as $r | "dispatch", "combine"
        | . as $p | [$cell | lanes | select(.phase == $p and .src == $r) | .signals] | add == 32'
    expect "$1" 'of("mooncake", "deepep:ll") | [waits | select(.count > 0)] | length == 2 * 64'
}

# The rows alone take half of the time; a backend that gathers has no such part.
all=(--backend "$backends") some=(--backend "${backends/none,/}" --component pair) few=4
long_tests && some=("${all[@]}") few=5

skews="one-empty 0,3,0,0,16,1,0,2"
long_tests && skews="$skews all-but-one-empty ragged"
for skew in $skews; do
    rm -f skew.json
    cells=("${some[@]}") count=$few
    [ "$skew" = one-empty ] && cells=("${all[@]}") count=5
    launch 8 run "${base[@]}" "${cells[@]}" --tokens-skew "$skew" --iters 2 --out skew.json
    expect_rc 0
    expect_good skew.json "$count"
    expect_signals skew.json
    expect skew.json '.cells[] | .check.rows_checked == 3 * .work.rows_global'
    case $skew in
    one-empty) rows=112 min=0 empty='[0]' ;;
    all-but-one-empty) rows=16 min=0 empty='[0,1,2,3,4,5,6]' ;;
    ragged) rows=100 min=9 empty='[]' ;;
    *) rows=22 min=0 empty='[0,2,3,6]' ;;
    esac
    expect skew.json '.cells[].tokens | .total == $rows and .min == $min and .max == 16 and .bound == 32' \
        --argjson rows "$rows" --argjson min "$min"
    # The empty ranks, and only they, dispatch no row and get none back.
    expect skew.json 'of("mooncake", "deepep:ll")
        | ([lanes | select(.phase == "dispatch")] | group_by(.src) | map(select((map(.messages) | add) == 0) | .[0].src)) == $e
        and ([lanes | select(.phase == "combine")] | group_by(.dst) | map(select((map(.messages) | add) == 0) | .[0].dst)) == $e' \
        --argjson e "$empty"
done

# No expert of rank 3 (12 to 15).
trace spare.npy '[random.sample([e for e in range(32) if e // 4 != 3], 4) for _ in range(128)]'
launch 8 run "${base[@]}" "${some[@]}" --routing trace:spare.npy --iters 2 --out spare.json
expect_rc 0
expect_good spare.json "$few"
expect_signals spare.json
expect spare.json 'of("mooncake", "deepep:ll") | [lanes | select(.phase == "dispatch" and .dst == 3) | .messages] | add == 0'
expect spare.json 'of("mooncake", "deepep:ll") | [lanes | select(.phase == "combine" and .src == 3) | .messages] | add == 0'
expect spare.json 'of("mooncake", "deepep:ll", "mpi") | .work.assignments == 512'

# 10 entries that are not sent, and one row without any: 512 - 10 - 4 are left. int64 this time.
trace gaps.npy '(lambda rows: [[-1] * 4 if r == 77 else [-1 if (r, k) in [(5 * i + 1, i % 4) for i in range(10)] else e for k, e in enumerate(row)] for r, row in enumerate(rows)])([random.sample(range(32), 4) for _ in range(128)])' '<i8'
launch 8 run "${base[@]}" "${all[@]}" --routing trace:gaps.npy --iters 2 --out gaps.json
expect_rc 0
expect_good gaps.json 5
expect gaps.json 'of("mooncake", "deepep:ll", "mpi") | .work.assignments == 498 and .work.rows_dispatched == 128'
expect gaps.json 'of("mooncake", "deepep:ll") | [lanes | select(.phase == "dispatch") | .messages] | add == 498'
# Nothing is sent at all.
trace void.npy '[[-1] * 4] * 128'
launch 8 run "${base[@]}" "${some[@]}" --routing trace:void.npy --iters 2 --out void.json
expect_rc 0
expect_good void.json "$few"
expect void.json 'of("mooncake", "deepep:ll", "mpi") | .work.assignments == 0'

# Entries outside the table, the same expert twice, a short file, other types: refused, once for all ranks.
plan=(--model "tiny:E=32,K=4" --tp 8 --tokens 16 --backend mooncake)
trace past.npy '[[0, 1, 2, 3]] * 50 + [[0, 1, 32, 3]] + [[0, 1, 2, 3]] * 77'
launch_failing 8 run "${base[@]}" --backend "$slabs" --routing trace:past.npy --out no.json
expect_refused 2 'past.npy' 'row 50' 'id 32' '0 to 31'
trace below.npy '[[0, 1, 2, 3]] * 127 + [[0, -7, 2, 3]]'
single plan "${plan[@]}" --routing trace:below.npy --json no.json
expect_refused 2 'row 127' 'id -7'
trace twice.npy '[[4, 1, 4, 3]] * 128'
single plan "${plan[@]}" --routing trace:twice.npy --json no.json
expect_refused 2 'row 0' 'expert 4 twice'
trace short.npy '[[0, 1, 2, 3]] * 127'
single plan "${plan[@]}" --routing trace:short.npy --json no.json
expect_refused 2 '127 rows' '128'
expect_no_file no.json
