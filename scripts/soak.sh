#!/usr/bin/env bash
# Many rounds of every backend with fresh rows in each, every row of every round checked, while one rank is late
# every now and then: no wrong row, no hang. Prints one line for each backend.
#
#   scripts/soak.sh [ROUNDS] [BACKEND...]     default: 10000 rounds, all backends that can run
#
# A backend's rounds are spread over three launches of the model tiny: the region with a rank that comes late to
# the dispatch, the same with one that comes late to the combine, and chains of pairs, in which no barrier holds
# back a rank that is ahead (their last pair is checked). Their lengths are half, half, and as many pairs again.
# RANKS (4), TOKENS (2 rows a rank), NODES (2 virtual nodes where a backend may span nodes), SEED (1; of routing,
# rows and weights, so that parts of a long soak differ) and BIN (build/release/k3bench) change it. Most of the
# time goes into the check.
# Exit codes: 0 all right, 1 a wrong row or a failed cell, 2 usage, 3 environment, 4 the watchdog: a hang.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
-h | --help)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac
rounds=${1:-10000}
[[ $rounds =~ ^[1-9][0-9]{0,5}$ ]] || die 2 "\"$rounds\" rounds: a number from 1 to 999999 is needed"
shift $(($# > 0))
bin=${BIN:-$ROOT/build/release/k3bench} ranks=${RANKS:-4} nodes=${NODES:-2} tokens=${TOKENS:-2} seed=${SEED:-1}
[ -x "$bin" ] || die 3 "$bin is not there; build it: cmake --preset release && cmake --build --preset release"
allow_mpirun
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
most=20000 # iterations of one launch
registry=$("$bin" list backends --json)
if [ $# -eq 0 ]; then
    mapfile -t names < <(jq -r '.backends[] | select(.state == "available") | .name' <<<"$registry")
    set -- "${names[@]}"
fi

# part BACKEND COMPONENT ITERATIONS FAULT: one launch; its verdict in $verdict, its status in $code.
part() {
    local name=$1 component=$2 left=$3 one n
    one=$(jq -r --arg n "$name" '.backends[] | select(.name == $n) | .limits_stock.one_node' <<<"$registry")
    for (( ; left > 0; left -= n)); do
        n=$((left < most ? left : most))
        fault=$4$((n < 50 ? n : 50)) # of the caller, which names it; a short launch is late too
        rm -f "$work/record.json"
        code=0
        mpirun -q --oversubscribe -np "$ranks" "$bin" run --model tiny --dp 2 --tokens "$tokens" --seed "$seed" --backend "$name" \
            --nodes-as "$([ "$one" = true ] && echo 1 || echo "$nodes")" --component "$component" --iters "$n" \
            --check every --fault "$fault" --progress off --out "$work/record.json" </dev/null >"$work/out" 2>&1 || code=$?
        verdict=$(verdict_of "$n") || code=$((code > 0 ? code : 1))
        [ "$code" -eq 0 ] || return 0
    done
}

# "ok", "unsupported: why", or what is wrong.
verdict_of() {
    [ -s "$work/record.json" ] || { grep -m1 '^k3bench:' "$work/out" || echo "no record"; return 1; }
    jq -er --argjson n "$1" '.cells[0]
        | if .status == "unsupported" then "unsupported: \(.reason)"
          elif .status != "ok" then "\(.status): \(.reason)\n" | halt_error(1)
          elif .check.state != "ok" then "check \(.check.state): \(.check.first_wrong)\n" | halt_error(1)
          elif .qps.matches_plan == false then "measured is not planned\n" | halt_error(1)
          elif .check.rows_checked < $n * (if .work.rows_dispatched == null then 1 else .work.rows_global end)
          then "only \(.check.rows_checked) rows were checked in \($n) rounds\n" | halt_error(1)
          else "ok \(.check.rows_checked)" end' "$work/record.json" 2>&1
}

# soak BACKEND: one line; the worst status in $worst.
soak() {
    local name=$1 begin=$SECONDS rows=0 said=ok kind count fault
    while read -r kind count fault; do
        [ "$count" -gt 0 ] || continue
        part "$name" "$kind" "$count" "$fault"
        if [ "$code" -eq 2 ] && grep -q 'component chain needs a dispatch' <<<"$verdict"; then
            continue # there is no exchange that could run ahead
        fi
        if [ "$code" -ne 0 ]; then
            said="FAILED ($kind, $fault, seed $seed, exit $code): $verdict"
            worst=$((code > worst ? code : worst))
            break
        fi
        case $verdict in
        ok*) rows=$((rows + ${verdict#ok })) ;;
        *) said="$said; $kind $verdict" ;;
        esac
    done <<END
region $(((rounds + 1) / 2)) stall:1:router:2:/
region $((rounds / 2)) stall:1:expert_mlp:2:/
chain $(((rounds + 7) / 8)) stall:1:dispatch:2:/
END
    printf '%-20s %7d rounds  %9d rows checked  %4d s  %s\n' "$name" "$rounds" "$rows" $((SECONDS - begin)) "$said"
}

worst=0
for name in "$@"; do
    soak "$name"
done
exit "$worst"
