# What the command tests share. Each script is called with K3BENCH_BINARY SOURCE_DIR and begins with
#   . "$(dirname "$0")/lib.sh"
# It runs in a folder of its own, which is removed at the end; the exit status is 1 when a check
# failed, 77 when the script cannot be run here. The names of the scripts begin with the cases of
# shared/cases/cases.md that they hold the program against.
# shellcheck shell=bash
set -u

[ $# -ge 2 ] || { echo "usage: $0 K3BENCH_BINARY SOURCE_DIR" >&2; exit 2; }
k3bench=$(realpath "$1")
source_dir=$(realpath "$2")
export PATH=$PATH:/usr/sbin:/sbin # as scripts/lib.sh: tools that a plain user's PATH lacks

for tool in jq mpirun python3; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool here"; exit 77; }
done

# MPI makes collectives only, and starts in a third of the time without a second UCX of its own. Tests of the launcher and
# of what is seen of its settings take MPI as it is found.
case $0 in
*/E0[1-9]_* | */U03_* | *slurm*) ;;
*) export OMPI_MCA_pml=ob1 ;;
esac
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LC_ALL=C
long=${K3BENCH_TEST_LONG:-}
while read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(K3BENCH_|UCX_)')

K3BENCH_TEST_LONG=$long # for the script alone: the program takes K3BENCH_* for options

# Wider matrices of the same checks run with scripts/test.sh --long only.
long_tests() { [ -n "$K3BENCH_TEST_LONG" ]; }
long_only() {
    long_tests || { echo "skipped: runs with scripts/test.sh --long"; exit 77; }
}

# A runaway process ends itself; the address sanitizer needs terabytes of addresses.
grep -q __asan_init "$k3bench" && sanitized=1 || sanitized=0
[ "$sanitized" = 1 ] || ulimit -Sv 20000000
ulimit -c 0

work=$(mktemp -d "${TMPDIR:-/tmp}/k3bench-cli.XXXXXX")
cd "$work" || exit 2
checks=0
failures=0
rc=0
limit=240 # seconds for one launch

end_of_script() {
    local status=$?
    cd / && rm -rf "$work"
    if [ "$status" = 0 ]; then
        echo "$checks checks, $failures failures"
        [ "$failures" = 0 ] && [ "$checks" -gt 0 ] || status=1
    fi
    exit "$status"
}
trap end_of_script EXIT

# --- running ----------------------------------------------------------------------------------------

backends=mooncake,deepep:ll,none,mpi,null # with an engine
slabs=mooncake,deepep:ll                  # with queue pairs
# BASE of cases.md.
base=(--nodes-as 2 --model "tiny:E=32,K=4,H=512,L=256,I=128" --tokens 16 --max-tokens 32
    --dispatch-dtype bf16 --seed 7 --check every)

# What is run leaves its exit status in $rc, its output in the files out and err.
run_it() {
    last="$*"
    timeout -k 5 "$limit" "$@" </dev/null >out 2>err
    rc=$?
}

single() { run_it "$k3bench" "$@"; } # without a launcher

launch() { # RANKS ARGUMENTS
    local n=$1
    shift
    run_it mpirun --oversubscribe -n "$n" "$k3bench" "$@"
}

# The same where all ranks end alike with an error, and none has anything to do or to say any more when the first of them
# has ended: else mpirun waits for a second or two before it kills the others.
launch_failing() { OMPI_MCA_odls_base_sigkill_timeout=0 launch "$@"; }

# --- checking ---------------------------------------------------------------------------------------

where() { # the line of the script that called
    local i=1
    while [ "${BASH_SOURCE[$i]}" = "${BASH_SOURCE[0]}" ]; do i=$((i + 1)); done
    echo "${BASH_SOURCE[$i]##*/}:${BASH_LINENO[$((i - 1))]}"
}

fail() {
    failures=$((failures + 1))
    echo "FAILED $(where): $*"
    echo "  command: ${last:-none}"
    [ ! -s err ] || head -c 2000 err | head -n 12 | sed 's/^/  stderr: /'
}

check() { # WHAT COMMAND...
    local what=$1
    shift
    checks=$((checks + 1))
    "$@" || fail "$what"
}

check_not() { # WHAT COMMAND...
    local what=$1
    shift
    checks=$((checks + 1))
    if "$@"; then fail "$what"; fi
}

expect_rc() {
    checks=$((checks + 1))
    [ "$rc" = "$1" ] || fail "exit status $rc, expected $1"
}

# All expressions must match: out, err or any file.
expect_text() { # FILE EXPRESSION...
    local file=$1 expression
    shift
    for expression in "$@"; do
        checks=$((checks + 1))
        grep -Eq -e "$expression" "$file" || fail "$file has no match for: $expression"
    done
}

expect_no_text() { # FILE EXPRESSION...
    local file=$1 expression
    shift
    for expression in "$@"; do
        checks=$((checks + 1))
        if grep -Eq -e "$expression" "$file"; then fail "$file must not match: $expression"; fi
    done
}

# The program said one thing on stderr; mpirun's own words are not counted.
expect_one_line() {
    local lines
    lines=$(grep -c '^k3bench:' err)
    checks=$((checks + 1))
    [ "$lines" = 1 ] || fail "$lines lines of k3bench on stderr, expected 1"
    checks=$((checks + 1))
    if grep -Ev '^k3bench:| UCX ' err | grep -Eiq 'abort\(|abnormal|signal|segm|sanitizer|assert'; then
        fail "a crash on stderr"
    fi
}

expect_refused() { # STATUS EXPRESSION... in the one line on stderr
    local status=$1
    shift
    expect_rc "$status"
    expect_one_line
    grep '^k3bench:' err >line
    expect_text line "$@"
}

expect_no_file() {
    local file
    for file in "$@"; do
        checks=$((checks + 1))
        [ ! -e "$file" ] || fail "$file exists"
    done
    # Neither a half-written one.
    checks=$((checks + 1))
    [ -z "$(find . -name '.k3bench-*' -print -quit)" ] || fail "a temporary file was left"
}

# For the filters below.
prelude='
def name: .backend + (if .mode != "" then ":" + .mode else "" end);
def of(b): .cells[] | select(name == b);
def phase(p): .phases[] | select(.name == p);
def table: .columns as $c | .rows[] | [$c, .] | transpose | map({(.[0]): .[1]}) | add;
def lanes: .qps | table;
def waits: .waits | table;
def rates(n; b): .rates[] | select(.name == n and .basis == b);
def near(a; b; tolerance): ((a - b) | fabs) <= tolerance * (b | fabs);
def good: .status == "ok" and .check.state == "ok" and .reason == null;
'

# The filter must give at least one value, and nothing but true.
expect() { # FILE FILTER [jq options]
    local file=$1 filter=$2
    shift 2
    checks=$((checks + 1))
    jq -e "$@" "$prelude [ $filter ] | length > 0 and all(. == true)" "$file" >/dev/null 2>jq.err ||
        fail "$file does not hold: $filter $(head -c 300 jq.err) -- is: $(jq -c "$@" "$prelude [ $filter ][:12]" "$file" 2>&1 | head -c 300)"
}

value() { # FILE FILTER [jq options]: for the shell
    local file=$1 filter=$2
    shift 2
    jq -r "$@" "$prelude $filter" "$file"
}

# All cells of a record are right, and there are so many.
expect_good() { # FILE COUNT
    expect "$1" '.cells | length == $n' --argjson n "$2"
    expect "$1" '.cells[] | if good then true else [name, .status, .reason, .check.state] end'
    expect "$1" '[.cells[].qps | select(. != null) | .matches_plan] | all'
}

# --- traces -----------------------------------------------------------------------------------------

# trace FILE 'PYTHON EXPRESSION' [TYPE]: a list of rows of ids (numpy's .npy, version 1.0).
trace() {
    python3 - "$1" "$2" "${3:-<i4}" <<'PYTHON'
import random, struct, sys
random.seed(5)
rows = eval(sys.argv[2])
code = {"<i4": "i", "<i8": "q", "<f4": "f", "|u1": "B"}[sys.argv[3]]
head = "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }" % (sys.argv[3], len(rows), len(rows[0]))
head += " " * (-(len(head) + 11) % 64) + "\n"
with open(sys.argv[1], "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    for row in rows:
        f.write(struct.pack("<%d%s" % (len(row), code), *row))
PYTHON
}
