#!/usr/bin/env bash
# kill -9 and SIGSTOP of a random rank at random moments: the job ends within the limit, leaves a valid record or
# none, no process, no memory; the next run works. F02, F06, F09. A third argument is the seed. With
# K3BENCH_TEST_LONG a hundred times.
# Alone: time limits.
. "$(dirname "$0")/lib.sh"

rounds=3
[ -z "${K3BENCH_TEST_LONG:-}" ] || rounds=100
RANDOM=${3:-7}
schema=$source_dir/results/schema/k3bench.result.1.schema.json
cell=(run --model "tiny:E=16,K=4" --tokens 8 --backend "mooncake,mori:v1,deepep:normal" --iters 40 --check off --timeout 2)

ranks_of_job() { # the ranks' processes, in any order
    local stat line
    for stat in /proc/[0-9]*/stat; do
        { line=$(<"$stat"); } 2>/dev/null || continue
        # shellcheck disable=SC2086 # words
        set -- ${line##*) }
        [ "$2" != "$job" ] || basename "$(dirname "$stat")"
    done
}

# Files in /dev/shm that the ranks have mapped.
mapped() { for pid in "${ranks[@]}"; do grep -o '/dev/shm/[^ ]*' "/proc/$pid/maps" 2>/dev/null; done | sort -u; }
left() { while read -r file; do [ ! -e "$file" ] || echo "$file"; done <mapped.txt; }

for ((round = 0; round < rounds; round++)); do
    signal=KILL
    [ $((RANDOM % 2)) = 0 ] || signal=STOP
    after=$((RANDOM % 2000))
    rank=$((RANDOM % 4))
    rm -f end.json
    last="round $round: SIG$signal to rank number $rank after $after ms"
    mpirun --oversubscribe -n 4 "$k3bench" "${cell[@]}" --out end.json </dev/null >out 2>err &
    job=$!
    sleep "$(printf '%d.%03d' $((after / 1000)) $((after % 1000)))"
    mapfile -t ranks < <(ranks_of_job)
    mapped >mapped.txt
    [ "${#ranks[@]}" -le "$rank" ] || kill -"$signal" "${ranks[$rank]}" 2>/dev/null || true
    until=$((SECONDS + 40)) # 20 s to come up, and the time-out
    while kill -0 "$job" 2>/dev/null && [ "$SECONDS" -lt "$until" ]; do sleep 0.1; done
    check_not "still running after 40 s" kill -0 "$job"
    kill -KILL "$job" 2>/dev/null
    wait "$job"
    rc=$?
    for pid in "${ranks[@]}"; do
        for _ in $(seq 30); do [ -d "/proc/$pid" ] || break; sleep 0.1; done
        check_not "process $pid is left ($(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline"))" [ -d "/proc/$pid" ]
    done
    # Too early for a rank, or too late for a live one: then the run is as any other.
    if [ -e end.json ]; then
        check "a valid record" python3 "$source_dir/tests/rules/check_schema.py" "$schema" end.json
        expect end.json '.cells | length == 3'
        [ "$rc" != 4 ] || expect end.json '[.cells[] | select(.status == "failed") | .reason | test("no progress .*; roll call: ")] | all'
        expect end.json '[.cells[].status] | . == ["ok", "ok", "ok"] or (index("failed") as $f | $f != null and all(.[:$f][]; . == "ok") and all(.[$f + 1:][]; . == "skipped"))'
    fi
    checks=$((checks + 1))
    # mpirun 4.1.4 may crash itself, at its end, when ranks have ended in the middle of MPI_Init.
    [ "$rc" = 0 ] || [ "$rc" = 4 ] || [ "$signal" = KILL ] || grep -q PMIx_server_finalize err || fail "exit status $rc after SIGSTOP"
    [ -z "$(left)" ] || left >>kept.txt
    check "no half-written file" [ -z "$(find . -name '.k3bench-*')" ]
    echo "$last: exit status $rc, $([ -e end.json ] && jq -c '[.cells[].status]' end.json || echo 'no record')"
done
launch 4 run --model "tiny:E=16,K=4" --tokens 8 --backend mooncake --iters 3 --out next.json
expect_rc 0
expect_good next.json 1
cp kept.txt mapped.txt 2>/dev/null || : >mapped.txt
check "memory is left: $(left | tr '\n' ' ')" [ -z "$(left)" ]

# A rank that ends the job because of an error says so to the others before it goes: the record has the error and not
# the signal that came of it.
launch 4 run --model "tiny:E=16,K=3,H=128,L=128,I=128" --tokens 4 --nodes-as 2 --component pair --backend mooncake,deepep:ll --iters 3 \
    --check every --timeout 8 --call-timeout 2 --fault skip:1:2 --out words.json
expect_rc 1
expect words.json '.cells[0] | .status == "failed" and (.reason | test("^rank [0-9] \\(.*\\) ended the job: local expert [0-9]+: rank [0-9] announced"))'
expect words.json '.cells[1].status == "skipped"'
