#!/usr/bin/env bash
# Installs what is missing, builds with warnings as errors and with the sanitizers, and runs the
# tests. CTest's summary of the optimised build comes last; the exit code also covers the sanitizers.
#
#   scripts/test.sh             all tests on the optimised build; the unit and fuzz tests and the
#                               smallest MPI tests on the sanitized one
#   scripts/test.sh --long      all tests on both, command tests with their wider matrices
#   JOBS=N scripts/test.sh      N processes for the builds (tests: always 2)
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Tests that the sanitized build runs unless all are asked for.
sanitized='^(unit|fuzz)\.|^mpi\..*\.np[12]$'
target=test-programs # all that these are
case ${1:-} in
'') ;;
--long) sanitized=. target=all && export K3BENCH_TEST_LONG=1 ;;
-h | --help)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
*) die 2 "\"$1\" is unknown; the only option is --long" ;;
esac

# MPI tests and those command tests that watch times count for two processors each, so that none of them
# runs beside another test.
run_tests() { # PRESET [CTEST OPTIONS]
    local preset=$1
    shift
    ctest --test-dir "$ROOT/build/$preset" --output-on-failure --no-tests=error -j 2 "$@" 9>&-
}

"$ROOT/scripts/setup.sh" test
lock_build "$ROOT/build/tests"
build_preset ci || die 1 "the build with warnings as errors failed"
build_preset asan --target "$target" || die 1 "the build with sanitizers failed"
allow_mpirun

code=0
say "tests on the build with sanitizers"
run_tests asan -R "$sanitized" || code=1
[ "$code" -eq 0 ] || say "tests FAILED on the build with sanitizers, see above"
say "tests on the optimised build"
run_tests ci || code=1
exit "$code"
