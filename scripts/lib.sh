# Functions that the scripts share; sourced, never run. Messages go to stderr, so that stdout holds
# results only.
# shellcheck shell=bash

# A plain user's PATH often lacks the folders where tc, ip and the daemons of Slurm lie. What is looked for is looked for
# and called in one PATH; the user's own folders come first.
export PATH=$PATH:/usr/sbin:/sbin

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() {
    printf '== %s\n' "$*" >&2
}

die() { # EXIT_CODE TEXT
    local code=$1
    shift
    printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2
    exit "$code"
}

# Processes that a build starts at the same time: as many as there are processors, at most JOBS.
build_jobs() {
    local processors
    processors=$(nproc 2>/dev/null || echo 2)
    echo "${JOBS:-$processors}"
}

# --- what is there (the third column of scripts/packages) ---

has_tool() {
    command -v "$1" >/dev/null 2>&1
}

has_compiler() {
    has_tool cc && has_tool make
}

has_cmake() { # LOWEST_VERSION
    local version
    has_tool cmake || return 1
    version=$(cmake --version | sed -n '1s/[^0-9]*//p')
    [ "$(printf '%s\n%s\n' "$1" "$version" | sort -V | head -n 1)" = "$1" ]
}

has_module() {
    has_tool pkg-config && pkg-config --exists "$1"
}

has_header() {
    has_tool cc && printf '#include <%s>\n' "$1" | cc -E -x c - -o /dev/null 2>/dev/null
}

# What runs programs for aarch64 is needed on other processors only.
has_aarch64() { # TOOL OR FILE
    [ "$(uname -m)" = aarch64 ] || has_tool "$1" || [ -e "$1" ]
}

# A Python that has a module; another one may stand in front of the package's.
python_with() { # MODULE
    local python
    for python in python3 /usr/bin/python3; do
        "$python" -c "import $1" 2>/dev/null && echo "$python" && return 0
    done
    return 1
}

has_python() {
    python_with "$1" >/dev/null
}

has_fetched() { # NAME-VERSION
    [ -d "$ROOT/build/tools/$1" ] || has_python "${1%-*}"
}

# --- building ---

# One build at a time in a folder: a second script waits for the first. The lock ends with the shell;
# programs that it starts are not handed the descriptor (9>&-).
lock_build() { # FOLDER
    mkdir -p "$1"
    exec 9>"$1/.lock"
    if ! flock -n 9; then
        say "another script is at work in $1; waiting for it"
        flock 9
    fi
}

# Configures and builds a preset of CMakePresets.json; quiet unless it fails. Further words go to
# the build.
build_preset() { # PRESET [BUILD OPTIONS]
    local preset=$1 log
    shift
    mkdir -p "$ROOT/build/$preset"
    log=$ROOT/build/$preset/build.log
    say "building $preset in build/$preset (log: build/$preset/build.log)"
    (
        cd "$ROOT"
        cmake --preset "$preset" && cmake --build --preset "$preset" -j "$(build_jobs)" "$@"
    ) >"$log" 2>&1 9>&- && return 0
    tail -n 60 "$log" >&2
    return 1
}

# mpirun as root and with more ranks than cores; the child's exit code comes through.
allow_mpirun() {
    if [ "$(id -u)" -eq 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
}

# --- virtual cluster (cluster.sh, cluster_head.sh) ---

# Jumbo frames: 8948 of 9014 bytes of a full one are TCP payload.
FRAME_PAYLOAD=9000

# When process PID began, in ticks since boot; a number that a later process of that PID cannot have.
start_time() { # PID
    local line
    { line=$(<"/proc/$1/stat"); } 2>/dev/null || return 0
    line=${line##*) }
    # shellcheck disable=SC2086 # words
    set -- $line
    echo "${20}"
}

bits_of() { # RATE such as 200mbit: bits per second
    [[ $1 =~ ^([0-9]{1,6})(k|m|g)bit$ ]] || die 2 "rate \"$1\" is none like 200mbit, 1gbit"
    case ${BASH_REMATCH[2]} in
    k) echo "${BASH_REMATCH[1]}000" ;;
    m) echo "${BASH_REMATCH[1]}000000" ;;
    g) echo "${BASH_REMATCH[1]}000000000" ;;
    esac
}

# Both directions of a node's link, each where it is sent. tc counts whole frames without preamble. The
# bucket holds a quarter of a millisecond, two frames at least, so that a pause between iterations saves up
# next to nothing; the queue is long enough that nothing is dropped.
shape_link() { # STATE NUMBER RATE
    local state=$1 number=$2 rate=$3 bits burst limit
    bits=$(bits_of "$rate")
    burst=$((bits / 8 / 4000))
    [ "$burst" -ge $((2 * (FRAME_PAYLOAD + 14))) ] || burst=$((2 * (FRAME_PAYLOAD + 14)))
    limit=$((bits / 8 / 10))
    [ "$limit" -ge 4194304 ] || limit=4194304
    nsenter --target "$(cut -d' ' -f1 "$state/head")" --net -- \
        tc qdisc replace dev "port$number" root tbf rate "$rate" burst "$burst" limit "$limit"
    nsenter --target "$(cat "$state/node$number.pid")" --net -- \
        tc qdisc replace dev eth0 root tbf rate "$rate" burst "$burst" limit "$limit"
    echo "$rate" >"$state/node$number.rate"
}
