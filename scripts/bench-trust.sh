#!/usr/bin/env bash
# How far the verdicts and the named patterns can be trusted: a build against itself, planted delays, planted culprits.
#
#   scripts/bench-trust.sh K3BENCH_BINARY [FOLDER [PART...]]
#
# Parts, all of them by default: `launches` and `patterns` measure, `verdicts` judges the records in FOLDER. What is in FOLDER
# is kept and counted, so a long measurement can be made in pieces: each call adds what is missing until BUDGET seconds have
# passed, and says how much is left. Without FOLDER everything is made in one call in a folder that is removed.
# SETS (7) of LAUNCHES (16) a side, each of BACKENDS (deepep:ll,mooncake) and ITERS (60) iterations; PATTERNS (20) of each culprit.
# The machine should be left alone: a launch beside which other programs took more than FOREIGN (4) percent of the processors is
# made again, before anybody looks at its times.
set -euo pipefail

. "$(dirname "$0")/lib.sh"
usage='usage: bench-trust.sh K3BENCH_BINARY [FOLDER [launches|verdicts|patterns...]]'
bin=$(readlink -f "${1:?$usage}")
sets=${SETS:-7} launches=${LAUNCHES:-16} patterns=${PATTERNS:-20} budget=${BUDGET:-100000} foreign=${FOREIGN:-4}
if [ $# -ge 2 ]; then
    folder=$2
    mkdir -p "$folder"
    shift 2
else
    folder=$(mktemp -d "${TMPDIR:-/tmp}/k3bench-trust.XXXXXX")
    trap 'rm -rf "$folder"' EXIT
    shift
fi
cd "$folder"
[ $# -gt 0 ] || set -- launches verdicts patterns
allow_mpirun

# Hundredths of a second for which the processors were busy: for anybody, and for programs that this shell has seen end.
busy() {
    local user nice system irq softirq steal
    read -r _ user nice system _ _ irq softirq steal _ </proc/stat
    echo $((user + nice + system + irq + softirq + steal))
}

own() {
    local line
    line=$(<"/proc/$$/stat")
    # shellcheck disable=SC2086 # words
    set -- ${line##*) }
    echo $((${14} + ${15})) # cutime, cstime
}

# undisturbed COMMAND...: false when others took too much beside it; what fails ends the script.
undisturbed() {
    local busy_before own_before begin=$EPOCHREALTIME
    busy_before=$(busy) own_before=$(own)
    "$@" >/dev/null 2>err || { cat err >&2; exit 1; }
    awk -v others=$(($(busy) - busy_before - $(own) + own_before)) -v begin="$begin" -v end="$EPOCHREALTIME" \
        -v processors="$(nproc)" -v most="$foreign" 'BEGIN { exit !(others <= most * (end - begin) * processors) }'
}

# launch RANKS FILE OPTIONS...: nothing when FILE is there; false when the time is over.
launch() {
    local ranks=$1 file=$2
    shift 2
    while [ ! -e "$file" ]; do
        [ "$SECONDS" -lt "$budget" ] || return 1
        rm -f new.json
        if undisturbed mpirun --oversubscribe -np "$ranks" "$bin" run --check off --progress off --out new.json "$@"; then
            mv new.json "$file"
        else
            echo "$file" >>disturbed
        fi
    done
}

# --- launches: sides a (as it is), d5 and d2 (late by 5 and 2 % in every iteration), in turns --------------------------------

# Two backends at the same small work on 2 ranks: their regions take about as long, some 5 ms.
cells=(--model "kimi-k3-mini:E=16,K=4" --backend "${BACKENDS:-deepep:ll,mooncake}" --tokens 8 --iters "${ITERS:-60}" --sync barrier)

# Behind the combine, where both ranks have just met: what is planted there is not hidden in somebody's wait.
delay() { # PERCENT of the region (the longest of the cells, in the middle one of the probes), as a fault
    jq -rs --arg percent "$1" 'map([.cells[].phases[] | select(.name == "region") | .median] | max) | sort | .[2] * ($percent | tonumber) / 100 / 1000
        | "stall:0:latent_up:\(. * 10000 | round / 10000)"' probe.*.json
}

measure_launches() {
    local set i side turn sides=(a d5 d2) fault
    for i in 1 2 3 4 5; do launch 2 "probe.$i.json" "${cells[@]}" || return 0; done
    for ((set = 0; set < sets; set++)); do
        for ((i = 0; i < launches; i++)); do
            for ((turn = 0; turn < 3; turn++)); do
                side=${sides[(i + turn) % 3]} fault=none
                [ "$side" = a ] || fault=$(delay "${side#d}")
                launch 2 "$side.$set.$(printf %03d "$i").json" "${cells[@]}" --rotate "$i" --fault "$fault" || {
                    echo "launches: set $set of $sets, $i of $launches a side; call again"
                    return 0
                }
            done
        done
    done
    echo "launches: all $sets sets of $launches a side are there; planted: $(delay 5), $(delay 2)"
}

# --- verdicts ----------------------------------------------------------------------------------------------------------------

judge_launches() {
    python3 - "$bin" "$sets" "$launches" <<'PYTHON'
import functools, glob, json, os, random, statistics, subprocess, sys

bin, sets, launches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def compare(base, new, scaled="off"):
    """The cells of the comparison document."""
    run = subprocess.run([bin, "compare", *base, "--", *new, "--scaled", scaled, "-o", "-"], stdout=subprocess.PIPE)
    assert run.returncode in (0, 1), run.returncode
    return [c for c in json.loads(run.stdout)["cells"] if "p" in c]

@functools.cache
def unnamed(path):
    """A copy that does not name the planted delay: `compare` would hold it against the record."""
    os.makedirs("unnamed", exist_ok=True)
    document = json.load(open(path))
    for cell in document["cells"]:
        if cell.get("faults"):
            cell["faults"]["injected"] = None
    json.dump(document, open(f"unnamed/{path}", "w"))
    return f"unnamed/{path}"

def side(name, s):
    return [unnamed(path) for path in sorted(glob.glob(f"{name}.{s}.*.json"))]

def report(name, comparisons):
    cells = [c for cells in comparisons for c in cells]
    if not cells:
        assert not comparisons, f"{name}: none of {len(comparisons)} comparisons judged a cell"
        print(f"{name:44} nothing to compare yet")
        return
    count = {v: sum(c["verdict"] == v for c in cells) for v in ("worse", "better", "same", "inconclusive")}
    needed = [c["launches_needed"] for c in cells if c.get("launches_needed")]
    alone = sum(c["p"] <= 0.05 for c in cells)
    family = next((i for i, p in enumerate(sorted(c["p"] for c in cells)) if p * (len(cells) - i) > 0.05), len(cells))
    print(f"{name:44} {len(comparisons):4} comparisons, {len(cells):5} cells: " + ", ".join(f"{n} {v}" for v, n in count.items())
          + f"; p <= 0.05 alone in {alone} ({100 * alone / len(cells):.1f} %), by Holm over all these cells {family}"
          + f"; median shift {statistics.median(c['shift_pct'] for c in cells):+.2f} %"
          + (f"; launches needed {statistics.median(needed):.0f} (median)" if needed else ""))

def blocks_of(files, size):
    return [files[i:i + size] for i in range(0, len(files) - size + 1, size)]

# 8 launches a side of the same build (as it is, or with the same delay): neighbours in time, by turns on the two sides; each launch
# stands in one comparison. Then 200 drawn at random from those as they are: a launch may stand in several, never twice in one.
all_of = {name: [f for s in range(sets) for f in side(name, s)] for name in ("a", "d5", "d2")}
blocks = [b for files in all_of.values() for b in blocks_of(files, 16)]
random.seed(1)
draws = [random.sample(all_of["a"], 16) for _ in range(200)] if len(all_of["a"]) >= 16 else []

def as_asked(percent, scaled):
    """A user's way: 8 launches a side, then as many as the cells that are open ask for. Drawn at random from all that were measured, each
    launch once in a comparison; what asks for more than there are is given all."""
    pools = [all_of["a"], all_of[f"d{percent}"]]
    most = min(map(len, pools))
    if most < 8:
        return [], []
    result, sizes = [], []
    for _ in range(40):
        orders = [random.sample(pool, most) for pool in pools]
        cells, n = compare(orders[0][:8], orders[1][:8], scaled), 8
        asked = [c.get("launches_needed") or most for c in cells if c["verdict"] == "inconclusive"]
        if asked:
            n = min(most, max(asked))
            cells = compare(orders[0][:n], orders[1][:n], scaled)
        result.append(cells)
        sizes.append(n)
    return result, sizes

for scaled in ("off", "on"):
    how = ", scaled" if scaled == "on" else ""
    report(f"A/A, neighbours, 8 a side{how}", [compare(b[0::2], b[1::2], scaled) for b in blocks])
    report(f"A/A, drawn at random, 8 a side{how}", [compare(d[:8], d[8:], scaled) for d in draws])
    for percent in (5, 2):
        there = [s for s in range(sets) if len(side(f"d{percent}", s)) == launches]
        report(f"delay {percent} %, {launches} a side{how}", [compare(side("a", s), side(f"d{percent}", s), scaled) for s in there])
        comparisons, sizes = as_asked(percent, scaled)
        report(f"delay {percent} %, as many as asked for{how}", comparisons)
        if sizes:
            print(f"{'':44} launches a side: {statistics.median(sizes):.0f} (median), {max(sizes)} at most")
PYTHON
}

# --- patterns ----------------------------------------------------------------------------------------------------------------

# named NAME FILTER OPTIONS...: how often the pattern fits, 8 ranks on 2 virtual nodes.
named() {
    local name=$1 filter=$2 file i right=0 made=0
    shift 2
    for ((i = 1; i <= patterns; i++)); do
        file=pattern.${name// /-}.$(printf %03d "$i").json
        launch 8 "$file" --model tiny:E=32,K=4 --backend deepep:ll --tokens 16 --iters 30 --nodes-as 2 --seed "$i" "$@" || break
        made=$((made + 1))
        if jq -e ".cells[0].pattern | $filter" "$file" >/dev/null; then right=$((right + 1)); fi
    done
    printf 'pattern %-46s right in %d of %d\n' "$name" "$right" "$made"
}

measure_patterns() {
    named "nothing planted: none" '.name == "none"'
    named "rank 3 late by 30 ms" '.name == "late rank" and .rank == 3' --fault stall:3:dispatch_send:30
    named "lane 0 to 5 QP 2 slow" '.name == "slow lane" and .lane == [0, 5, 2]' --fault slow-qp:0:5:2:400
    named "node 1 slow" '.name == "slow node" and .node == 1' --fault slow-node:1:100
    named "nine tenths of the rows to rank 2" '.name == "skewed routing" and .rank == 2' --tokens 128 --routing hot-rank:2:0.9
}

for part in "$@"; do
    case $part in
        launches) measure_launches ;;
        verdicts) judge_launches ;;
        patterns) measure_patterns ;;
        *) die 2 "$usage" ;;
    esac
done
