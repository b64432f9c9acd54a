#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job on 8 ranks of this machine: prints the
# table, writes the record and a Markdown report below results/local/.
#
#   scripts/run.sh [OPTIONS of `k3bench run`]     given options replace those of the main job
#   RANKS=N scripts/run.sh ...                    N ranks instead of 8
#   JOBS=N  scripts/run.sh ...                    N processes for the build
#
# The exit code is that of k3bench: 0 right, 1 a cell failed, 2 usage, 3 environment, 4 watchdog.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

main_job=(--model kimi-k3-mini --backend "mooncake,deepep:ll,none,mpi,null" --tp 8 --dp 2 --tokens 16)
ranks=${RANKS:-8}
program=$ROOT/build/release/k3bench

usage() {
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
}

# Whether the user says where the record goes: on the command line, in the environment, or maybe in
# a file of options.
names_record() {
    local word
    for word in "$@"; do
        case $word in --out | --out=* | --options | --options=*) return 0 ;; esac
    done
    [ -n "${K3BENCH_OUT:-}${K3BENCH_OPTIONS:-}" ]
}

case ${1:-} in
-h | --help)
    usage
    [ ! -x "$program" ] || "$program" run --help
    exit 0
    ;;
esac
case $ranks in
'' | *[!0-9]* | 0) die 2 "RANKS=$ranks is not a number of ranks" ;;
esac

"$ROOT/scripts/setup.sh" build
(
    lock_build "$ROOT/build/release"
    build_preset release --target k3bench
) || die 3 "the build failed"

if [ $# -gt 0 ]; then
    options=("$@")
else
    options=("${main_job[@]}")
fi
if ! names_record "$@"; then
    mkdir -p "$ROOT/results/local"
    options+=(--out "$ROOT/results/local/$(date -u +%Y%m%dT%H%M%SZ)-$$.json")
fi

# Ranks see a terminal on stdout whatever mpirun's own stdout is.
if [ ! -t 1 ]; then
    export NO_COLOR=1
fi
allow_mpirun
table=$(mktemp)
trap 'rm -f "$table"' EXIT
say "running on $ranks ranks: k3bench run ${options[*]}"
code=0
mpirun -q --oversubscribe -np "$ranks" "$program" run "${options[@]}" </dev/null | tee "$table" || code=$?

record=$(sed -n 's/^record: \(.*[^\r]\)\r\{0,1\}$/\1/p' "$table" | tail -n 1)
if [ -n "$record" ]; then
    report=${record%.json}.md
    "$program" report "$record" -o "$report" && echo "report: $report"
fi
exit "$code"
