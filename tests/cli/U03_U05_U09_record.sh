#!/usr/bin/env bash
# The record: written once and never over another, with every option and where it came from, without
# secrets. U03, U05, U07, U09, U10, U13.
. "$(dirname "$0")/lib.sh"

cell=(--model "tiny:E=16,K=4" --backend mooncake --tokens 4 --iters 2)

# A file that exists is refused before anything runs, and stays as it is.
printf 'mine' >mine.json
launch_failing 4 run "${cell[@]}" --out mine.json
expect_refused 3 'mine.json' 'exists'
check "the file is untouched" [ "$(cat mine.json)" = mine ]
expect_no_text out mooncake
ln -s nowhere link.json
launch_failing 2 run "${cell[@]}" --out link.json
expect_refused 3 'link.json' 'exists'
mkdir folder
launch_failing 2 run "${cell[@]}" --out folder
expect_refused 3 'folder' 'exists'
launch_failing 2 run "${cell[@]}" --out absent/record.json
expect_refused 3 'absent/record.json' 'No such file'
launch_failing 2 run "${cell[@]}" --out /proc/record.json
expect_refused 3 '/proc/record.json' 'written|No such file|denied'
launch_failing 2 run "${cell[@]}" --out "$(printf 'x%.0s' {1..300}).json"
expect_refused 2 'out' 'longer'
single plan --backend none --json mine.json
expect_refused 3 'mine.json' 'exists'
check "nothing but what was there" [ "$(find . -type f -name '*.json' | sort | tr '\n' ' ')" = "./mine.json " ]

# Three cells, one record, no other file.
launch 4 run "${cell[@]}" --tokens 2,4,8 --out three.json
expect_rc 0
expect_good three.json 3
expect_text out 'record: three.json'
expect three.json '.fingerprint.volatile.load_at_start >= 0'
check "one record" [ "$(find . -name '*three*' | wc -l)" = 1 ]
launch_failing 4 run "${cell[@]}" --tokens 2,4,8 --out three.json
expect_refused 3 'three.json' 'exists'
expect_good three.json 3
# Without --out, where the folder is: names that differ, and sort by the start.
mkdir -p results/local
launch 2 run "${cell[@]}"
sleep 1
launch 2 run "${cell[@]}"
expect_rc 0
check "two names" [ "$(find results/local -name '2*T*Z-*.json' | wc -l)" = 2 ]
jq -r .run.started_utc results/local/*.json >starts
check "in order of their start" sort -c starts
rm -r results
# To standard output; the table then goes to stderr.
launch 2 run "${cell[@]}" --out -
expect_rc 0
expect_good out 1
expect_text err '^mooncake .* ok'

# File, environment, command line, and one in all three.
cat >set.ini <<'INI'
; a comment
[any section]
seed = 11
tokens = 5
max_tokens = 64
dp = 2
INI
export MY_TOKEN=abcSECRETdef K3BENCH_SEED=12 K3BENCH_TOKENS=6 K3BENCH_CHECK=every
launch 4 run "${cell[@]:0:4}" --iters 2 --seed 13 --options set.ini --out origins.json
unset K3BENCH_SEED K3BENCH_TOKENS K3BENCH_CHECK
expect_rc 0
expect_good origins.json 1
option='def option(n): .run.options[] | select(.name == n) | [.value, .origin];'
expect origins.json "$option"'option("seed") == ["13", "command line"]'
expect origins.json "$option"'option("tokens") == ["6", "environment"]'
expect origins.json "$option"'option("max-tokens") == ["64", "file"]'
expect origins.json "$option"'option("dp") == ["2", "file"]'
expect origins.json "$option"'option("check") == ["every", "environment"]'
expect origins.json "$option"'option("cp") == ["1", "default"]'
expect origins.json '.cells[0] | .choices.seed == 13 and .tokens.asked == 6 and .tokens.bound == 64 and .layout.dp == 2 and .check.mode == "every"'
# Every option of the help is there, once.
single run --help
expect_rc 0
grep -oE '^  --[a-z0-9-]+' out | sed 's/^  --//' | sort >help.txt
jq -r '.run.options[].name' origins.json | sort >recorded.txt
check "every option is recorded" cmp -s help.txt recorded.txt
check "and there are some" [ "$(wc -l <help.txt)" -gt 20 ]
# The contract's fields of a run.
expect origins.json '.run | has("id") and has("started_utc") and has("argv") and has("options") and has("version") and has("git_sha") and has("build") and has("loaded") and has("launch")'

# No variable that is not on the list.
expect_no_text origins.json SECRET MY_TOKEN
check "nor in any other file" [ -z "$(grep -lr SECRET . | grep -v '^./out$\|^./err$')" ]
expect_no_text out SECRET
expect_no_text err SECRET
expect origins.json '.run.environment | type == "object" and has("OMPI_COMM_WORLD_SIZE")'

# One rank: no byte leaves it, so there is no rate of wire bytes; null with a reason, not 0.
launch 1 run --model "tiny:E=16,K=4" --tokens 4 --iters 2 --backend "$backends" --out one.json
expect_rc 0
expect_good one.json 5
expect one.json 'of("mooncake", "deepep:ll") | .rates[] | select(.basis == "wire") | .GBps == null and (.GBps_reason | length) > 0'
expect one.json 'of("mooncake", "deepep:ll") | .work.imbalance | .qp == null and (.qp_reason | length) > 0'
expect one.json '.topology.ranks | length == 1 and .[0].nic == null and (.[0].nic_reason | length) > 0'
single run --model "tiny:E=16,K=4" --tokens 4 --iters 2 --backend mooncake --out alone.json
expect_rc 0
expect_good alone.json 1
expect alone.json '.run.launch | .launcher == "singleton" and .ranks == 1'

# Two runs do not get the same id.
check_not "ids differ" [ "$(value one.json .run.id)" = "$(value alone.json .run.id)" ]

# Time for no sample at all: at least one is taken, or the cell has failed with the reason.
launch 2 run --model "tiny:E=16,K=4" --tokens 4 --backend mooncake --max-seconds 0.001 --fault stall:0:router:20 --out short.json
checks=$((checks + 1))
if [ "$rc" = 0 ]; then
    expect short.json '.cells[0] | good and (phase("region") | .n >= 1 and (.samples | length) == .n)'
else
    expect short.json '.cells[0] | .status == "failed" and (.reason | length) > 0'
fi
