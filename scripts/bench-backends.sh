#!/usr/bin/env bash
# All backends in one launch: what a dispatch takes above a bare loop that posts the same messages, above one
# that posts them in the protocol's order, and above one that makes the protocol's copies too (the floor, which the aim of 1.25 is
# about); then the order of the backends with intervals. Usage: scripts/bench-backends.sh K3BENCH_BINARY (the build target bench-backends
# calls it). RANKS (8), TOKENS (32) and ITERS (60) scale it.
set -euo pipefail

bin=$(readlink -f "${1:?usage: bench-backends.sh K3BENCH_BINARY}")
ranks=${RANKS:-8} tokens=${TOKENS:-32} iters=${ITERS:-60}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
cell=(--model "kimi-k3:E=64,I=64" --dp 2 --tokens "$tokens")
mapped=mooncake,deepep:ll,nixl,pplx,uccl,deepep_v2:direct,mori:asyncll,nccl_ep,pplx_garden
rails=deepep:normal,deepep_v2:hybrid,mori:v1,mori:v1ll

# launch NAME OPTIONS...: its record in $work/NAME.json
launch() {
    local name=$1
    shift
    mpirun --oversubscribe -np "$ranks" "$bin" run "${cell[@]}" --iters "$iters" --progress off --out "$work/$name.json" "$@" >"$work/$name.txt" 2>&1 || { cat "$work/$name.txt"; exit 1; }
}

# Two-hop backends on two virtual nodes, whose lanes run through UCX between the nodes.
launch control --component control --nodes-as 2 --backend "$mapped,$rails" --check off
echo "dispatch, $ranks ranks on 2 virtual nodes, $tokens rows a rank; over a loop of the same messages: bare, in the protocol's order, and with its copies (medians, minima in brackets)"
jq -r 'def hundredth: . * 100 | round / 100;
    .cells[] | (.backend + (if .mode == "" then "" else ":" + .mode end)) as $name
    | if .status == "ok" then ([.phases[] | {(.name): [.median, .min]}] | add) as $p
        | def over(c): if $p[c] == null then "-" else "\($p.dispatch[0] / $p[c][0] | hundredth) (\($p.dispatch[1] / $p[c][1] | hundredth))" end;
          "  \($name)\t\($p.dispatch[0] | round) us\t\(over("control"))\t\(over("control_ordered"))\t\(over("control_floor"))"
      else "  \($name)\t\(.status): \(.reason)" end' "$work/control.json" | column -t -s "$(printf '\t')"

launch pairs --component pair --nodes-as 2 --backend "$mapped,$rails,mpi"
echo "dispatch and combine back to back (pair), fastest first, us with the 95 % interval of the median"
jq -r '[.cells[] | select(.status == "ok") | {name: (.backend + (if .mode == "" then "" else ":" + .mode end)), p: (.phases[] | select(.name == "pair"))}]
    | sort_by(.p.median)[] | "  \(.name)\t\(.p.median | round)\t\(.p.ci95 | if . == null then "-" else "\(.[0] | round) .. \(.[1] | round)" end)"' \
    "$work/pairs.json" | column -t -s "$(printf '\t')"
