#!/usr/bin/env bash
# The code path of the kernels and the threads of a rank: a name that nobody knows, a path that this
# processor lacks, more threads than a rank's share. O02, O06.
. "$(dirname "$0")/lib.sh"

cell=(--model "tiny:E=8,K=2" --backend null --tokens 2 --iters 1 --check every)

# --- names ------------------------------------------------------------------------------------------

single run "${cell[@]}" --isa avx3 --out no.json
expect_refused 2 isa "'avx3'" avx2
single run "${cell[@]}" --isa '' --out no.json
expect_refused 2 isa

# Each path is taken and recorded, or refused with the list of those that are there: the first of
# them is what auto takes.
launch 1 run "${cell[@]}" --isa auto --out auto.json
expect_rc 0
best=$(jq -r .run.kernels.isa auto.json)
usable=
for isa in amx avx512_bf16 avx512 avx2 neon scalar; do
    single run "${cell[@]}" --isa "$isa" --out "$isa.json"
    if [ "$rc" = 0 ]; then
        usable=$usable${usable:+, }$isa
        expect "$isa.json" '.run.kernels.isa == $isa and (.cells[] | good)' --arg isa "$isa"
    else
        cp err "refused.$isa"
        expect_refused 2 "isa $isa is not usable on this processor"
    fi
done
check "auto takes the first of $usable, not $best" test "$best" = "${usable%%,*}"
check "scalar is in $usable" test "${usable##* }" = scalar
for file in refused.*; do
    [ ! -e "$file" ] || check "$file lists $usable" grep -q "which has $usable\$" "$file"
done

# --- threads ----------------------------------------------------------------------------------------

sizes=2
long_tests && sizes="1 2"
for ranks in $sizes; do
    launch "$ranks" run "${cell[@]}" --threads auto --out "auto$ranks.json"
    expect_rc 0
    share=$(jq '.topology.ranks[0].threads' "auto$ranks.json")
    launch "$ranks" run "${cell[@]}" --threads "$share" --out "share$ranks.json"
    expect_rc 0
    expect "share$ranks.json" 'all(.topology.ranks[]; .threads == $n)' --argjson n "$share"
    launch_failing "$ranks" run "${cell[@]}" --threads $((share + 1)) --out no.json
    expect_refused 2 "threads $((share + 1))" "share is $share"
done
for text in 0 -1 2x 99999999999 ''; do
    single run "${cell[@]}" --threads "$text" --out no.json
    expect_refused 2 threads "'$text'"
done
expect_no_file no.json
