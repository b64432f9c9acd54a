#!/usr/bin/env bash
# Installs what k3bench needs and is not there (scripts/packages). Asks nothing; does nothing when
# all is there. As another user than root it installs nothing: it names the line that does and ends
# with exit code 3.
#
#   scripts/setup.sh [build|test]      what to build and run, or also what the tests use (default)
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

purpose=${1:-test}
case $purpose in
build | test) ;;
*) die 2 "\"$purpose\" is none of build, test" ;;
esac

# Names of the packages of KIND that are missing, one a line.
missing_of() { # KIND
    local package kind probe argument
    while read -r package kind probe argument; do
        case $package in '' | '#'*) continue ;; esac
        if [ "$kind" = "$1" ] && ! "$probe" "$argument"; then
            echo "$package"
        fi
    done <"$ROOT/scripts/packages"
}

missing_now() {
    missing_of build
    if [ "$purpose" = test ]; then
        missing_of test
    fi
}

# Runs a command and shows its output only if it fails.
loud_on_failure() { # COMMAND...
    local output
    output=$("$@" 2>&1) && return 0
    printf '%s\n' "$output" | tail -n 60 >&2
    return 1
}

install_all() { # PACKAGES
    export DEBIAN_FRONTEND=noninteractive
    say "installing: $*"
    loud_on_failure apt-get update -qq || die 3 "apt-get update failed"
    loud_on_failure apt-get install -y -qq --no-install-recommends "$@" || die 3 "apt-get install failed"
}

# All at once where all can be had, else each that can.
try_to_install() { # PACKAGES
    export DEBIAN_FRONTEND=noninteractive
    local package
    apt-get update -qq >/dev/null 2>&1 || true
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && return
    for package in "$@"; do
        apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 || say "not to be had: $package"
    done
}

# A package of PyPI into a folder of the build, whole or not at all: the system's Python is not touched. The folder
# belongs to whom the tree belongs to, who is to build there.
fetch() { # NAME==VERSION
    local to=$ROOT/build/tools/${1/==/-} python
    python=$(python_with pip) || return 1
    mkdir -p "$to.$$"
    if timeout 120 "$python" -m pip install --quiet --no-deps --no-compile --no-cache-dir --only-binary :all: --retries 1 \
        --timeout 10 --target "$to.$$" "$1" >/dev/null 2>&1; then
        mv -T "$to.$$" "$to" 2>/dev/null || true # another script was first
    fi
    rm -rf "$to.$$"
    chown --reference="$ROOT" "$ROOT/build"
    chown -R --reference="$ROOT" "$ROOT/build/tools"
    [ -d "$to" ]
}

refuse() { # PACKAGES
    printf '%s: missing packages; install them with\n  apt-get install --no-install-recommends %s\n' \
        "$(basename "$0")" "$*" >&2
    exit 3
}

mapfile -t missing < <(missing_now)
if [ "${#missing[@]}" -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ] || ! has_tool apt-get; then
        refuse "${missing[@]}"
    fi
    install_all "${missing[@]}"
    mapfile -t missing < <(missing_now)
    if [ "${#missing[@]}" -gt 0 ]; then
        die 3 "still missing after the installation: ${missing[*]}"
    fi
fi
if [ "$purpose" = test ] && [ "$(id -u)" -eq 0 ] && has_tool apt-get; then
    mapfile -t wanted < <(missing_of wanted)
    if [ "${#wanted[@]}" -gt 0 ]; then
        say "installing what some tests use: ${wanted[*]}"
        try_to_install "${wanted[@]}"
    fi
    mapfile -t fetched < <(missing_of fetched)
    for package in "${fetched[@]}"; do
        say "fetching what some tests use into build/tools: $package"
        fetch "$package" || say "not to be had: $package"
    done
fi
mapfile -t optional < <(missing_of wanted && missing_of fetched && missing_of optional)
case $purpose in
build) there="what building needs is there; scripts/test.sh may want more" ;;
test) there="all there" ;;
esac
say "packages: $there${optional:+; optional and not there: ${optional[*]}}"
say "CUDA, HIP: this build is without them"
