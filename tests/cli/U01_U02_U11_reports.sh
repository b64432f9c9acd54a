#!/usr/bin/env bash
# Records and what is made of them: strict, complete, reproducible; hostile ones are refused.
# U01, U02, U04, U11, U15.
. "$(dirname "$0")/lib.sh"

# Three backends over three sizes; one cell failed, one unsupported.
launch 4 run --model "tiny:E=16,K=4" --backend "$slabs" --tokens 8,16,32 --iters 7 --out good.json
expect_rc 0
expect_good good.json 6
launch_failing 4 run --model "tiny:E=16,K=4" --backend deepep:ll,pplx,mpi,null --tokens-skew 16,8,0,1 --iters 2 --fault corrupt:0:1 --check every --out bad.json
expect_rc 1
expect bad.json '[.cells[].status] == ["failed", "unsupported", "failed", "unsupported"]'
for file in good.json bad.json; do
    check "$file is strict JSON" python3 -c '
import json, sys
def no(x): raise ValueError(x)
def unique(pairs):
    if len({k for k, v in pairs}) != len(pairs): raise ValueError("a key twice")
    return dict(pairs)
json.load(open(sys.argv[1], encoding="utf-8", errors="strict"), parse_constant=no, object_pairs_hook=unique)' "$file"
    expect "$file" '.schema == "k3bench.result/1"'
    expect "$file" '.run | (.id | test("^[0-9a-f]{16}$")) and .launch.ranks == 4 and .launch.launcher == "mpirun" and (.launch.hosts | length) == 1'
    expect "$file" '[.cells[] | has("key") and has("backend") and has("mode") and has("model") and has("layout") and has("status") and has("reason")] | all'
    expect "$file" '(.topology.ranks | map(.rank)) == [0, 1, 2, 3] and (.topology.ranks | all(has("host") and has("cpus") and has("device") and has("nic")))'
done
# What was not measured is null with a reason.
expect bad.json '[.. | objects | to_entries[] | select(.value == null and (.key | IN("phases", "rates", "qps", "waits", "ci95", "GBps", "nic", "dispatch_ratio", "rows_dispatched")))
    | .key] as $nulls | [.. | objects | . as $o | to_entries[] | select(.value == null) | .key | select(IN($nulls[])) | $o[. + "_reason"] | type] | length > 0 and all(. == "string")'
# Rows of the ranks.
expect bad.json '.cells[] | select(.status != "unsupported") | .tokens | .min == 0 and .max == 16 and .total == 25'

# CSV: one flat row for each cell and phase, the variables as columns.
single report good.json bad.json -o all.csv
expect_rc 0
single report good.json bad.json -o again.csv
expect_rc 0
check "the same records, the same bytes" cmp -s all.csv again.csv
python3 - all.csv >csv.json <<'PYTHON'
import csv, json, sys
with open(sys.argv[1], newline="") as f:
    rows = list(csv.reader(f, strict=True))
assert all(len(r) == len(rows[0]) for r in rows), "rows of unequal length"
assert len(set(rows[0])) == len(rows[0]), "a column twice"
json.dump([dict(zip(rows[0], r)) for r in rows[1:]], sys.stdout)
PYTHON
rows=$(value good.json '[.cells[].phases | length] | add')
bad_rows=$(value bad.json '[.cells[] | [(.phases // [] | length), 1] | max] | add')
expect csv.json 'length == $n' --argjson n $((rows + bad_rows))
jq -c '[.[] | select(.phase == "region" or .phase == "")]' csv.json >cells.json
expect cells.json 'length == 10'
expect cells.json '[.[0:6][] | [.backend, .tokens]] == [["mooncake", "8"], ["deepep", "8"], ["mooncake", "16"], ["deepep", "16"], ["mooncake", "32"], ["deepep", "32"]]'
for column in run_id host key backend mode generation component model tp dp cp ep tokens routing seed dispatch_dtype qps_per_peer fabric p2p path_rule status check phase median_us; do
    expect csv.json '.[] | has($c)' --arg c "$column"
done
expect cells.json '.[0:6][] | .status == "ok" and .check == "ok" and (.median_us | tonumber) > 0 and (.ci_low_us | tonumber) <= (.median_us | tonumber)'
expect cells.json '[.[6:][] | .status] == ["failed", "unsupported", "failed", "unsupported"]'
# Absent is blank, not 0.
expect cells.json '.[7] | .phase == "" and .median_us == "" and .dispatch_ratio == "" and (.reason | length) > 0'
expect cells.json '.[6] | .ci_low_us == ""'
check "the medians are those of the record" [ "$(value good.json '.cells[0] | phase("region").median')" = "$(value cells.json '.[0].median_us')" ]

# Markdown and the table.
single report good.json -o one.md
expect_rc 0
single report good.json -o two.md
expect_rc 0
check "the same record, the same bytes" cmp -s one.md two.md
check "a row for each cell" [ "$(sed '/^<details>/q' one.md | grep -Ec '^\| (\*\*)?(mooncake|deepep:ll)(\*\*)? \|')" = 6 ]
single report good.json bad.json
expect_rc 0
cp out first
single report good.json bad.json
check "the same records, the same text" cmp -s out first
check "no wider than 120 columns" [ "$(awk '!/^(failed|unsupported):/ && length > 120' out | wc -l)" = 0 ]
expect_text out '^unsupported: pplx' '^failed: deepep:ll'
single report good.json -o one.md
expect_refused 3 'one.md' 'exists'
single report good.json -o good.txt
expect_refused 2 'good.txt' '\.md' '\.csv'
expect_no_file good.txt

# Twice the same launch, and files that are no records.
single report good.json good.json
expect_refused 2 'good.json' 'already given' "$(value good.json .run.id)"
cp good.json copy.json
single report bad.json good.json copy.json -o no.csv
expect_refused 2 'copy.json' 'already given'
head -c 2000 good.json >cut.json
printf '{"schema": "k3bench.result/1", "schema": "k3bench.result/1", "run": {"id": "a"}, "cells": []}' >doubled.json
jq '.schema = "k3bench.result/2"' good.json >version.json
jq 'del(.cells)' good.json >empty.json
jq 'del(.run.id)' good.json >nameless.json
printf '[]' >list.json
printf '\xff\xfe{}' >bytes.json
: >nothing.json
head -c 3000000 /dev/zero | tr '\0' '[' >deep.json
for file in cut doubled version empty nameless list bytes nothing deep absent; do
    single report "$file.json" -o no.csv
    expect_refused 3 "$file.json"
done
expect_no_file no.csv
single report version.json
expect_refused 3 'k3bench.result/2' 'k3bench.result/1'
# Wrong types inside a record end in a report or a refusal, not in a crash.
for edit in '.cells = [1, null, "x", [], {}]' '.cells[0].phases = {"a": 1}' '.cells[0].phases[0].name = 7' '.cells[0].qps.rows = [[1], [], null]' \
    '.cells[0].backend = null | .cells[0].mode = 3' '.cells[0].model = "tiny"' '.run.launch = 5' '.topology = []' '.cells[0].phases[].ci95 = "x"' \
    '.cells[].work.imbalance = {expert: 1e300, rank: 1e300, qp: 1e300}' '.cells[].phases[].median = -1'; do
    jq "$edit" good.json >odd.json
    for output in "" "-o odd.csv" "-o odd.md"; do
        rm -f odd.csv odd.md
        # shellcheck disable=SC2086 # two words
        single report odd.json $output
        checks=$((checks + 1))
        [ "$rc" -le 3 ] || fail "exit status $rc for $edit"
    done
done
jq '.cells[0].backend = "a|b\n<script>" | .cells[0].model.name = "=cmd,\"x\""' good.json >markup.json
single report markup.json -o markup.csv
expect_rc 0
check "a cell stays one row for each phase" [ "$(python3 -c 'import csv; print(len(list(csv.reader(open("markup.csv", newline="")))))')" = $((rows + 1)) ]
single report markup.json -o markup.md
expect_no_text markup.md '[^\\]<script>' '\| a\|b'
single report
expect_refused 2 'no record'

# plan is deterministic.
single plan --backend "$backends" --model kimi-k3,tiny --tokens 4,16 --routing zipf:1.2 --json -
expect_rc 0
cp out plan1
single plan --backend "$backends" --model kimi-k3,tiny --tokens 4,16 --routing zipf:1.2 --json -
check "the same plan, the same bytes" cmp -s out plan1
expect plan1 '(.cells | length) == 20 and .schema == "k3bench.result/1"'
single plan --backend "$backends" --model kimi-k3,tiny --tokens 4,16 --routing zipf:1.2 --seed 2 --json -
check_not "another seed, another plan" cmp -s out plan1
