#!/usr/bin/env bash
# The job of a night: finds the platform from the hardware, runs its sweep, holds the launches against the baseline
# and the history, leaves a summary, a report and metrics. Asks nothing.
#
#   scripts/nightly.sh [--platform NAME|FILE.ini] [--dir DIR] [--keep N] [--program K3BENCH] [--dry-run] [-- OPTIONS of sweep]
#
#   --platform  h200, b300, mi355x, cpu (results/platforms/NAME.ini) or a file; default: what the hardware says
#   --dir       where nights and history lie; default results/local/nightly
#   --keep      nights whose folders stay (30); their records stay in the history ten times as long
#   --program   default build/release/k3bench
#   --dry-run   say which platform it is and what would run
#
# DIR/nights/NIGHT/  summary.md, report.html, metrics.prom, gate-npN.md, and the folder of the sweep
# DIR/history/       the records of all nights and the baseline (gate --history)
# DIR/latest         the last night that came to an end
#
# The first night makes itself the baseline; after that only a person does (gate --promote --why TEXT).
# The exit code is that of the gate: 0 nothing worse, 1 worse, or a launch or a cell failed, 2 usage, 3 environment.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

platform='' dry_run=no dir=$ROOT/results/local/nightly keep=30 program=$ROOT/build/release/k3bench
least_free_mb=${LEAST_FREE_MB:-512}

usage() {
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
}

need_value() { # OPTION COUNT
    [ "$2" -ge 2 ] || die 2 "$1 needs a value"
}

while [ $# -gt 0 ]; do
    case $1 in
    --platform | --dir | --keep | --program)
        need_value "$1" $#
        declare "${1#--}=$2"
        shift 2
        ;;
    --dry-run)
        dry_run=yes
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    --)
        shift
        break
        ;;
    *) die 2 "\"$1\" is unknown; see --help" ;;
    esac
done
case $keep in
'' | *[!0-9]* | 0*) die 2 "--keep $keep is no number of nights" ;;
esac

# --- the platform ---

# The accelerators of this machine, as their drivers name them, else by their PCI ids.
accelerators() {
    local pci=${PCI_DEVICES:-/sys/bus/pci/devices} device id
    {
        if has_tool nvidia-smi; then nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | grep -v '^No devices' || true; fi
        if has_tool rocm-smi; then rocm-smi --showproductname 2>/dev/null | grep -i 'card series' || true; fi
        for device in "$pci"/*; do
            if [ ! -r "$device/vendor" ] || [ ! -r "$device/device" ]; then continue; fi
            id=$(<"$device/vendor"):$(<"$device/device")
            case $id in
            0x10de:0x2335 | 0x10de:0x233b) echo H200 ;;
            0x10de:0x3182) echo B300 ;;
            0x1002:0x75a3) echo MI355X ;;
            0x10de:* | 0x1002:*)
                # Display controllers and accelerators only, not their audio functions and bridges.
                case $(cat "$device/class" 2>/dev/null) in 0x0302* | 0x0380* | 0x1200*) echo "GPU $id" ;; esac
                ;;
            esac
        done
    } | sort -u
}

find_platform() {
    local names
    names=$(accelerators)
    case $names in
    *H200*) echo h200 ;;
    *B300*) echo b300 ;;
    *MI355X*) echo mi355x ;;
    '') echo cpu ;;
    *) die 3 "no platform file for ${names//$'\n'/, }: name one with --platform (cpu, or a file of your own)" ;;
    esac
}

[ -n "$platform" ] || platform=$(find_platform)
case $platform in
*.ini) ini=$platform ;;
*) ini=$ROOT/results/platforms/$platform.ini ;;
esac
[ -r "$ini" ] || die 2 "$ini: no such platform file; there are: $(cd "$ROOT/results/platforms" && echo *.ini)"
[ -x "$program" ] || die 3 "$program is not there: scripts/run.sh builds it"

if [ $dry_run = yes ]; then
    say "platform $platform"
    exec "$program" sweep "$ini" --dry-run --out "$dir/nights/none" "$@"
fi

# --- the folder: one at a time, and room for a night ---

mkdir -p "$dir/nights" "$dir/history" || die 3 "$dir cannot be made"
dir=$(cd "$dir" && pwd)
exec 8>"$dir/lock"
flock -n 8 || die 3 "another nightly job is at work in $dir"
free_mb=$(df -Pm "$dir" | awk 'NR == 2 { print $4 }')
[ "$free_mb" -ge "$least_free_mb" ] ||
    die 3 "$dir has $free_mb MB free, a night needs $least_free_mb: nothing was started, the history is as it was"

# Named by the second in which it begins; one second more where another night began in it.
night=$(date -u +%Y%m%dT%H%M%SZ)
if [ -e "$dir/nights/$night" ]; then
    sleep 1
    night=$(date -u +%Y%m%dT%H%M%SZ)
fi
here=$dir/nights/$night
mkdir "$here" 2>/dev/null || die 3 "$here cannot be made"
sweep=$here/sweep
say "night $night on platform $platform in $here"

# Whatever ends the job early says so, where a person looks in the morning.
stage="the sweep"
trap 'code=$?; [ "$code" -le 1 ] || say "$stage failed (exit $code); the history and the last nights are as they were"' EXIT

# --- the sweep ---

allow_mpirun
code=0
"$program" sweep "$ini" --out "$sweep" "$@" 8>&- | tee "$here/sweep.txt" || code=$?
[ "$code" -le 1 ] || exit "$code"
mapfile -t ranks < <(find "$sweep/records" -name '*.json' | sed 's/.*\.np\([0-9]*\)\..*/\1/' | sort -nu)
[ "${#ranks[@]}" -gt 0 ] || die 3 "no launch left a record, see $sweep/logs"

# --- the gate: launches of one size at a time, so that the cells of the others do not cost them power ---

records_of() { # RANKS
    find "$sweep/records" -name "*.np$1.*.json" | sort
}

gate() { # RANKS: leaves its texts; the exit code is the gate's
    local records
    mapfile -t records < <(records_of "$1")
    "$program" gate --history "$dir/history" "${records[@]}" -o "$here/gate-np$1.md" 8>&-
}

stage="the gate"
first=no
if [ ! -e "$dir/history/baseline.json" ]; then
    first=yes
    say "there is no baseline: this night becomes it"
    for n in "${ranks[@]}"; do
        mapfile -t records < <(records_of "$n")
        "$program" gate --history "$dir/history" --promote --why "first night, $night" "${records[@]}" 8>&- || code=$?
        [ "$code" -le 1 ] || { rm -f "$dir/history/baseline.json"; exit "$code"; }
    done
fi
for n in "${ranks[@]}"; do
    verdict=0
    gate "$n" || verdict=$?
    [ "$verdict" -le "$code" ] || code=$verdict
done
lost=() # no gate looks at a number of ranks that no launch of this night had
while read -r n; do
    [[ " ${ranks[*]} " == *" $n "* ]] || lost+=("$n")
done < <(find "$dir/latest/sweep/records" -name '*.json' 2>/dev/null | sed 's/.*\.np\([0-9]*\)\..*/\1/' | sort -nu)
if [ "${#lost[@]}" -gt 0 ]; then
    say "FAILED: the last night had launches of ${lost[*]} ranks, this one has none"
    [ "$code" -ge 1 ] || code=1
fi
[ "$code" -le 1 ] || exit "$code"

# --- what a person and a dashboard read ---

stage="the report"
mapfile -t records < <(find "$sweep/records" -name '*.json' | sort)
"$program" report "${records[@]}" -o "$here/report.html" 8>&-
if "$program" report --help | grep -q '\.prom'; then
    "$program" report "${records[@]}" -o "$here/metrics.prom" 8>&-
fi
stage="the summary"
{
    echo "# k3bench, night $night: $([ "$code" -eq 0 ] && echo passed || echo FAILED)"
    echo
    echo "platform $platform, host $(hostname), $("$program" --version | head -n 1)$([ $first = no ] || echo '; the baseline was made of this night')"
    echo
    echo '## Launches'
    echo
    sed 's/^/    /' "$here/sweep.txt"
    for n in "${lost[@]}"; do
        echo
        echo "FAILED: the last night had launches of $n ranks, this one has none."
    done
    for n in "${ranks[@]}"; do
        echo
        echo "## Gate, $n ranks"
        echo
        cat "$here/gate-np$n.md"
    done
} >"$here/summary.md.new"
mv "$here/summary.md.new" "$here/summary.md"

# --- the history: whole files only, by a new name each ---

stage="adding to the history"
for record in "${records[@]}"; do
    name=$night.$(basename "$record")
    ln "$record" "$dir/history/$name" 2>/dev/null && continue
    if ! cp "$record" "$dir/history/.$name.new" || ! mv "$dir/history/.$name.new" "$dir/history/$name"; then
        rm -f "$dir/history/.$name.new"
        die 3 "$dir/history cannot be written"
    fi
done
ln -sfn "nights/$night" "$dir/latest.new" && mv -T "$dir/latest.new" "$dir/latest"

# --- what is too old, by the names that this script gave ---

stage="removing old nights"
old_names() { # FOLDER COUNT: all but the newest COUNT nights
    find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | sed -n 's/^\([0-9]\{8\}T[0-9]\{6\}Z\).*/\1/p' | sort -u | head -n "-$2"
}
while read -r old; do rm -rf "$dir/nights/$old"; done < <(old_names "$dir/nights" "$keep")
while read -r old; do rm -f "$dir/history/$old".*.json; done < <(old_names "$dir/history" $((10 * keep)))

say "night $night: $([ "$code" -eq 0 ] && echo passed || echo FAILED); summary: $here/summary.md"
exit "$code"
