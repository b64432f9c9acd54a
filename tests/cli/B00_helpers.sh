#!/usr/bin/env bash
# shellcheck disable=SC2030,SC2031 # that is how failures are kept apart
# The helpers of these scripts can fail: each is given what must not pass.
. "$(dirname "$0")/lib.sh"

must_fail() { # WHAT COMMANDS: run in a subshell, they must count exactly one failure
    local what=$1 count
    shift
    count=$(
        trap - EXIT
        failures=0
        eval "$*" >/dev/null 2>&1
        echo "$failures"
    )
    checks=$((checks + 1))
    [ "$count" = 1 ] || fail "$what: counted $count failures"
}

printf '{"cells": [{"backend": "a", "mode": "b", "status": "ok", "reason": null, "check": {"state": "ok"}, "qps": {"matches_plan": true, "columns": ["x", "y"], "rows": [[1, 2], [3, 4]]}}]}' >record.json
jq '.cells[0].status = "failed"' record.json >failed.json
jq '.cells[0].check.state = "wrong"' record.json >wrong.json
jq '.cells[0].qps.matches_plan = false' record.json >unplanned.json
single --version

must_fail "another exit status" expect_rc 5
must_fail "text that is not there" expect_text out no-such-text
must_fail "text that is there" expect_no_text out k3bench
must_fail "a file" expect_no_file record.json
must_fail "false" expect record.json "'.cells[0].status == \"failed\"'"
must_fail "one false among true" expect record.json "'true, false, true'"
must_fail "nothing" expect record.json "'.cells[] | select(.status == \"failed\")'"
must_fail "no boolean" expect record.json "'.cells[0].status'"
must_fail "no filter" expect record.json "'.cells['"
must_fail "no file" expect absent.json true
must_fail "too few cells" expect_good record.json 2
must_fail "a failed cell" expect_good failed.json 1
must_fail "a wrong cell" expect_good wrong.json 1
must_fail "a cell that was not as planned" expect_good unplanned.json 1
must_fail "false" check words false
must_fail "true" check_not words true

expect_good record.json 1
expect record.json 'of("a:b") | [lanes | .y] == [2, 4]'
check "and what is right passes" [ "$failures" = 0 ]
