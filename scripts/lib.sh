# Functions that the scripts share; sourced, never run. Messages go to stderr, so that stdout holds
# results only.
# shellcheck shell=bash

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

has_python() {
    local python
    for python in python3 /usr/bin/python3; do # another one may stand in front of the package's
        "$python" -c "import $1" 2>/dev/null && return 0
    done
    return 1
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
