#!/usr/bin/env bash
# Predictions of `plan --machine` against published measurements: every series, predicted, measured, ratio,
# and the error of each series by constants that were fitted without it.
# Usage: scripts/bench-predict.sh K3BENCH_BINARY [--fit]   (the build target bench-predict calls it)
set -euo pipefail

bin=$(readlink -f "${1:?usage: bench-predict.sh K3BENCH_BINARY [--fit]}")
shift
exec python3 "$(dirname "$(readlink -f "$0")")/predict.py" "$bin" "$@"
