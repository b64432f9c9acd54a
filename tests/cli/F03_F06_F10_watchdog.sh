#!/usr/bin/env bash
# A rank that stands still or dies ends the job, with its place, within the limit. F03, F06, F10.
# Alone: time limits.
. "$(dirname "$0")/lib.sh"

# The process of rank $1 below mpirun $job, once it has used 0.6 s of processor time: then it is
# past its set-up.
find_rank() {
    local stat fields pid
    for _ in $(seq 300); do
        for stat in /proc/[0-9]*/stat; do
            { fields=$(<"$stat"); } 2>/dev/null || continue
            pid=${fields%% *}
            fields=${fields##*) }
            # shellcheck disable=SC2086 # words
            set -- "$1" $fields
            [ "$3" = "$job" ] || continue
            if tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" && [ $((${13} + ${14})) -ge 60 ]; then
                rank_pid=$pid
                return 0
            fi
        done
        sleep 0.1
    done
    return 1
}

rank_pid=0
start_job() { # ARGUMENTS: 4 ranks in the background
    last="mpirun -n 4 k3bench $*"
    mpirun --oversubscribe -n 4 "$k3bench" "$@" </dev/null >out 2>err &
    job=$!
}

end_job() { # SECONDS: waits for the job so long, gives its status in $rc
    local until=$((SECONDS + $1))
    while kill -0 "$job" 2>/dev/null && [ "$SECONDS" -lt "$until" ]; do sleep 0.2; done
    checks=$((checks + 1))
    if kill -0 "$job" 2>/dev/null; then
        fail "the job still runs after $1 s"
        kill -CONT "$rank_pid" 2>/dev/null
        kill -TERM "$job"
        sleep 2
        kill -KILL "$job" 2>/dev/null
    fi
    wait "$job"
    rc=$?
}

gone() { # or dead and not yet collected by its new parent
    local fields
    { fields=$(<"/proc/$1/stat"); } 2>/dev/null || return 0
    fields=${fields##*) }
    [ "${fields%% *}" = Z ]
}

segments() { # System V segments whose creator was a rank of the job and is gone
    ipcs -m -p 2>/dev/null | awk -v pid="$rank_pid" '$3 == pid' | wc -l
}

# Rank 0 had the time to write what there was, or there is nothing; a part never.
expect_valid_partial() { # FILE REASON...
    local file=$1 reason
    shift
    [ -e "$file" ] || return 0
    for reason in "$@"; do
        expect "$file" '.cells[-1] | (.status == "failed" or .status == "skipped") and (.reason | test($r))' --arg r "$reason"
    done
    expect_no_file "$file.part"
}

long=(run --model "tiny:E=16,K=4" --tokens 8 --backend mooncake --iters 1000000 --check off)

# Stopped: each of the others says where it waits, then the job ends with 4.
start_job "${long[@]}" --timeout 3 --out stopped.json
check "rank 2 is found" find_rank 2
kill -STOP "$rank_pid"
end_job 25
expect_rc 4
expect_text err 'no progress for [3-9]' 'rank [013]' 'in [a-z]'
check_not "a stopped rank counts no time" grep -q 'no progress for [0-9.]* s on rank 2 (' err
expect_text err 'roll call: in [a-z_ ]+, step [0-9]+: rank 0 ' 'roll call: no answer, so stopped, dead or unreachable: rank 2 '
expect_valid_partial stopped.json 'no progress' 'roll call: no answer, so stopped, dead or unreachable: rank 2 '
# What is missing is named: signals of rank 2, or a collective step that it has not entered.
expect_text err 'from rank 2|in (start of the iteration|end of the iteration|[a-z_]+)'
check "no half-written file" [ -z "$(find . -name '.k3bench-*')" ]
check "no rank is left" gone "$rank_pid"

# Stopped while it makes its plan, for which the others wait: what is lawfully slow holds no watchdog of theirs. A machine
# that plans so much in no time has nobody to stop.
start_job run --model kimi-k3:E=896 --tp 4 --dp 4 --backend none --tokens 600000 --max-tokens 600000 --timeout 2 --out planning.json
if find_rank 1; then
    kill -STOP "$rank_pid"
    end_job 60
    expect_rc 4
    expect_text err 'no answer, so stopped, dead or unreachable: rank 1 '
    expect_no_file planning.json.part
    check "no rank is left" gone "$rank_pid"
else
    end_job 60
fi

# Killed: mpirun ends the others within seconds, with a status of its own; they name the dead one before.
start_job "${long[@]}" --out killed.json
check "rank 1 is found" find_rank 1
kill -KILL "$rank_pid"
end_job 15
expect_rc 137
expect_text err 'ended by SIGTERM on rank 0 .*; roll call: no answer, so stopped, dead or unreachable: rank 1 '
expect_valid_partial killed.json 'ended by SIGTERM' 'roll call: no answer, so stopped, dead or unreachable: rank 1 '
check "no memory of the killed rank is left" [ "$(segments)" = 0 ]

# Ended from outside, in the middle of waits.
start_job "${long[@]}" --fault stall:0:dispatch_send:5000 --out ended.json
check "rank 3 is found" find_rank 3
kill -TERM "$job"
end_job 15
check_not "not a success" [ "$rc" = 0 ]
expect_valid_partial ended.json 'ended by SIGTERM'
check_not "nobody is called dead who is not" grep -q 'no answer' err

# Slow is not still: a stall below the limit passes.
launch 4 run --model "tiny:E=16,K=4" --tokens 8 --backend mooncake --iters 1 --timeout 4 --fault stall:1:dispatch_send:1000 --out slow.json
expect_rc 0
expect_good slow.json 1

# Every engine says which lane it waits for.
names_the_lane() { # BACKEND NODES PHASE EXPRESSION
    launch 4 run --model "tiny:E=16,K=4" --tokens 8 --backend "$1" --nodes-as "$2" --iters 1 --timeout 4 --fault "stall:1:$3:20000" --out "lane-$1-$3.json"
    expect_rc 4
    expect_text err "no progress for .*$4" 'roll call: stalled, and waits for no signal itself: rank 1 '
}
names_the_lane deepep:normal 2 dispatch_wait 'streams left, first: with rank [0-3] by queue pair [0-9]+, channel [0-9]+'
if long_tests; then
    names_the_lane deepep:normal 1 combine_send 'streams left, first: with rank 1 by queue pair [0-9]+, channel [0-9]+'
    names_the_lane mori:v1 2 dispatch_send 'missing, first: rank [13] by queue pair [01]'
    names_the_lane deepep_v2:hybrid 2 dispatch_send 'missing, first: (rank [13] by queue pair|number) [0-9]+'
    names_the_lane pplx_garden 2 dispatch_send 'immediates missing, first: number 1, from rank 1 by queue pair 1'
    names_the_lane mori:asyncll 2 combine_send 'flags missing, first: number [23], from rank 1 by queue pair [01]'
    names_the_lane deepep_v2:direct 2 dispatch_send 'barrier signals missing, first: number 1, from rank 1 by queue pair 0'
    names_the_lane megamoe 1 combine_send '1 ranks missing at the barrier'
fi

# One above it does not. What was measured is kept, the running cell failed, the rest skipped.
launch 4 run --model "tiny:E=16,K=4" --tokens 8 --backend none,mooncake,deepep:ll --iters 3 --timeout 2 --fault stall:2:dispatch_send:20000 --out kept.json
expect_rc 4
expect_text err 'no progress for [2-9]' 'missing, first: local expert [0-9]+ from rank 2' 'roll call: stalled, and waits for no signal itself: rank 2 '
expect kept.json '[.cells[].status] == ["failed", "failed", "skipped"]'
expect kept.json '.cells[0] | .check.state == "ok" and (.reason | test("rank 2 never came to dispatch_send"))'
expect kept.json '.cells[1].reason | test("no progress") and test("roll call: stalled, and waits for no signal itself: rank 2 ")'
check "a valid record" python3 "$source_dir/tests/rules/check_schema.py" "$source_dir/results/schema/k3bench.result.1.schema.json" kept.json

# In a collective step nobody can say for whom it waits: the one that is elsewhere is named.
launch 4 run --model "tiny:E=16,K=4" --dp 4 --tokens 8 --backend mooncake --iters 3 --timeout 2 --fault stall:1:latent_up:20000:2 --out elsewhere.json
expect_rc 4
expect elsewhere.json '.cells[0].reason | test("roll call: stalled elsewhere than most ranks: rank 1 ")'

# A rank that makes one dispatch fewer is ahead of the others: it and its call are named.
launch 4 run --model "tiny:E=16,K=4" --dp 4 --tokens 8 --backend mooncake --iters 5 --timeout 2 --fault skip:2:4 --out fewer.json
expect_rc 4
expect_text err 'missing, first: local expert [0-9]+ from rank 2' 'roll call: in dispatch_wait, step 3: rank 0 ' 'roll call: in .*: rank 2 '
expect fewer.json '.cells[0] | .status == "failed" and (.reason | test("roll call: .*: rank 2 "))'

# A rank that does not even come to MPI_Init: not a stall, and said so. Starting may take 20 s more than --timeout.
if long_tests; then
    run_it mpirun --oversubscribe -n 4 sh -c '[ "$OMPI_COMM_WORLD_RANK" != 1 ] || exec sleep 60; exec "$@"' sh "$k3bench" \
        run --model "tiny:E=16,K=4" --backend mooncake --timeout 1
    check_not "not a success" [ "$rc" = 0 ]
    expect_text err 'the launch did not start within 21 s on rank [023] .*: another rank never arrived'
fi
