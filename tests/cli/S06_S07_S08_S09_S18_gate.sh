#!/usr/bin/env bash
# The gate: what fails it and what does not, the index of the history, changes, promotion, two at once.
# S06, S07, S08, S09, S18.
. "$(dirname "$0")/lib.sh"

# record PATH RUN DAY {cell key: time, or a status} ...
cat >make.py <<'PYTHON'
import json, os, random, sys

def lanes(busy, wire):
    rows = [[p, 0, 1 + i, 0, "p2p", 1, 1, 0, w, w, 0.0, b, b, b, b, b] for p in ("dispatch", "combine") for i, (b, w) in enumerate(zip(busy, wire))]
    return {"matches_plan": True, "columns": ["phase", "src", "dst", "qp", "lane", "messages", "signals", "doorbells", "bytes_payload", "bytes_wire",
            "first_post_us", "last_done_us", "busy_us", "p50_us", "p99_us", "max_us"], "lanes_total": len(rows), "lanes_kept": len(rows), "rows": rows}

def cell(key, value, busy=(10.0, 10.0, 10.0, 10.0), wire=(100, 100, 100, 100), hash="0123456789abcdef", loop=None):
    name, component = key.split("/")[0].split(":"), key.split("/")[-1]
    c = {"key": key, "backend": name[0], "mode": name[1] if len(name) > 1 else "", "model": {"name": "tiny"}, "path": {"moves_rows": name[0] != "null"},
         "layout": {"tp": 2, "dp": 1, "cp": 1, "nodes": 1}, "tokens": {"asked": 4, "min": 4, "max": 4, "total": 8}, "component": component,
         "status": "ok", "reason": None, "work": {"routing_hash": hash, "rows_dispatched": 8}, "check": {"state": "ok"}, "phases": None, "qps": None}
    if isinstance(value, str):
        c["status"], _, c["reason"] = value.partition(" ")
        c["reason"] = c["reason"] or "because"
    else:
        c["phases"] = [{"name": "dispatch" if component == "control" else component, "median": value, "ci95": None, "n": 1}]
        if loop is not None:
            c["phases"].append({"name": "control", "median": loop, "ci95": None, "n": 1})
        if busy is not None:
            c["qps"] = lanes([b * value / 100 for b in busy], wire)
    return c

def record(path, run, started, cells, git="aaa", machine="0000000000000001", cores=2):
    if isinstance(cells, dict):
        cells = [cell(k, *v) if isinstance(v, tuple) else cell(k, v) for k, v in cells.items()]
    json.dump({"schema": "k3bench.result/1", "run": {"id": run, "started_utc": started, "git_sha": git}, "cells": cells,
               "fingerprint": {"key": machine, "stable": {"cpu_model": "x", "cores": cores}}}, open(path, "w"))

def day(n, hour=1):
    return f"2026-{1 + n // 28:02d}-{1 + n % 28:02d}T{hour:02d}:00:00Z"

random.seed(3)
noise = lambda x: round(x * (1 + random.uniform(-0.01, 0.01)), 4)
exec(open(sys.argv[1]).read())
PYTHON
make_records() { cat >sets.py && python3 make.py sets.py; }
gate() { single gate --history past "$@"; }

mkdir past
make_records <<'PYTHON'
cells = {"a/region": 100, "b/region": 50, "c/region": 20, "d/region": 10, "null/region": 30}
for i in range(20):
    record(f"past/{i:02d}.json", f"{i:016x}", day(i), {k: noise(v) for k, v in cells.items()})
for i in range(8):
    record(f"same{i}.json", f"{100 + i:016x}", day(20, i), {k: noise(v) for k, v in cells.items()}, git="bbb")
    mixed = {"a/region": noise(130), "b/region": noise(35), "c/region": noise(20), "null/region": noise(30)}
    record(f"mixed{i}.json", f"{200 + i:016x}", day(20, i), mixed, git="bbb")
    record(f"slow{i}.json", f"{300 + i:016x}", day(20, i), {k: noise(v * 1.2) for k, v in cells.items()}, git="bbb")
    record(f"more{i}.json", f"{400 + i:016x}", day(20, i), {k: noise(v) for k, v in {**cells, "e/region": 5}.items()}, git="bbb")
record("wrong.json", f"{500:016x}", day(20), {**cells, "b/region": "failed check: row 3 differs"})
record("other.json", f"{501:016x}", day(20), cells, machine="0000000000000002", cores=4)
record("sick.json", f"{502:016x}", "yesterday", cells)
record("refused.json", f"{503:016x}", day(20), {**cells, "a/region": "unsupported too wide"})
PYTHON

# Without a baseline there is no verdict; a promotion needs a reason and nothing broken.
gate same?.json
expect_refused 2 'no baseline' '--promote --why'
expect_no_file past/baseline.json
gate --promote past/1?.json
expect_refused 2 'why'
gate --promote --why 'first' wrong.json
expect_refused 1 'b/region' 'row 3 differs'
expect_no_file past/baseline.json
gate --promote --why 'first state' --who tester past/1?.json
expect_rc 0
expect_text out '^added a/region' '^promoted: 10 launches, 5 cells .*number 1'
expect past/baseline.json '.schema == "k3bench.baseline/1" and (.promotions | length) == 1'
expect past/baseline.json '.promotions[0] | .who == "tester" and .why == "first state" and (.when | test("^20..-..-..T"))'

# The same again passes, twice with the same bytes, with the index as it is, made again, or damaged.
gate same?.json -o first.json
expect_rc 0
expect first.json '.schema == "k3bench.gate/2" and .passed and .failures == 0 and .history.launches == 20 and (.verdicts.same == 5)'
expect first.json '.control | .state == "same" and (.cells | length) == 1 and .cells[0].key == "null/region"'
rm past/index.sqlite && gate same?.json -o second.json
check "a missing index is made again" cmp -s first.json second.json
head -c 5000 /dev/urandom >past/index.sqlite && gate same?.json -o third.json
check "a damaged index is made again" cmp -s first.json third.json
gate same?.json --who me
expect_refused 2 'who: it belongs to --promote'
gate --promote --why x --window 50 same?.json
expect_refused 2 'window: it belongs to a verdict, and --promote gives none'
gate --rebuild --floor 2
expect_refused 2 'floor: it belongs to a verdict, and --rebuild gives none'
gate --rebuild
expect_rc 0
expect_text out '20 launches'
gate same?.json -o fourth.json
check "a rebuilt index says the same" cmp -s first.json fourth.json
gate same?.json
expect_rc 0
expect_text out '^gate: passed' 'lower is better' 'number 1, promoted .* by tester: first state' 'the machine is not what'
expect_no_text out '[Nn]a[Nn]' '[^o]inf'

# One cell lost, one slower, one faster: the faster one fails nothing.
gate mixed?.json -o mixed.json
expect_rc 1
expect mixed.json '[.findings[] | select(.severity == "fail") | [.kind, .key]] | sort == [["change", "a/region"], ["lost", "d/region"], ["worse", "a/region"]]'
expect mixed.json '[.findings[] | select(.severity == "warn") | [.kind, .key]] | sort == [["better", "b/region"], ["change", "b/region"]]'
expect mixed.json '.cells[] | select(.key == "a/region") | .history.changes | length == 1 and .[0].direction == "slower" and .[0].state == "new" and .[0].commits == "aaa..bbb"'
expect mixed.json '.cells[] | select(.key == "a/region") | .history.changes[0] | .first_after.run == "00000000000000c8" and .last_before.run == "0000000000000013"'
expect mixed.json '.control.state == "same"'
gate mixed?.json
expect_text out '^gate: FAILED' '^FAIL lost: d/region' '^FAIL worse: a/region' '^warn better: b/region' 'aaa\.\.bbb'
gate mixed?.json -o mixed.md
expect_text mixed.md '^\*\*gate: FAILED' '^\| fail \| lost \| d/region' '^\| worse '
gate mixed?.json --floor 40
expect_rc 1
expect_no_text out '^FAIL worse' '^FAIL change'

# A slower machine is told from a slower backend.
gate slow?.json -o slow.json
expect_rc 1
expect slow.json '.control.state == "slower" and (.control.text | test("machine itself is slower"))'
expect slow.json '[.findings[] | select(.kind == "worse")] | length == 5'

# What the baseline lacks is named; so are a broken cell and one that became unsupported.
gate more?.json -o more.json
expect_rc 1
expect more.json '[.findings[] | select(.severity == "fail")] | length == 1 and .[0].kind == "no baseline" and .[0].key == "e/region"'
gate wrong.json
expect_rc 1
expect_text out '^FAIL check: b/region' 'row 3 differs'
gate refused.json
expect_rc 1
expect_text out '^FAIL lost: a/region' 'too wide'
gate other.json -o other.out.json
expect_rc 1
expect other.out.json '.findings[0] | .kind == "no baseline" and (.text | test("cores: 2 and 4"))'
gate same0.json other.json
expect_refused 2 'other.json' 'one machine'

# Few launches: nothing is claimed, which is a warning.
gate same0.json
expect_rc 0
expect_text out '^warn inconclusive' 'launches a side would decide'

# What so many launches cannot show is said first and last; with enough of them nothing is.
expect_text out '^worse is out of reach for 5 of 5 cells: 10 launches in the baseline and 1 new reach p = 0\.18 .* 4 cells judged together need 5 a side'
check "the last line" [ "$(tail -n 1 out)" = "passed; 5 of 5 cells could not be judged" ]
gate same0.json -o few.json
expect few.json '.reach | .unreachable == 5 and .open == 5 and .judged == 5 and .launches_needed == 5'
gate same0.json -o few.md
expect_text few.md '^- worse is out of reach' '^passed; 5 of 5 cells could not be judged$'
gate same?.json
expect_no_text out 'out of reach' 'could not be judged'
# A machine that moves nothing is of another family: four backends, one null.
expect first.json '[.cells[] | select(.control) | .family] == [1] and [.cells[] | select(.control | not) | .family] == [4, 4, 4, 4]'
# The baseline held against itself.
gate past/1?.json
expect_rc 0
expect_text out '^warn same launches' '10 of the 10 new launches are the baseline'
gate same?.json
expect_no_text out 'same launches'

# Launches of other numbers of ranks take another part of one machine: all at once, each cell against its like.
mkdir ranks
make_records <<'PYTHON'
def launch(path, run, started, ranks, factor=1.0):
    record(path, f"{run:016x}", started, {f"{b}/tp{ranks}/region": noise(100 * ranks * factor) for b in "ab"}, machine=f"{ranks:016x}")
    d = json.load(open(path))
    d["fingerprint"]["stable"]["ranks"] = ranks
    json.dump(d, open(path, "w"))
for i in range(8):
    for ranks in (2, 4):
        launch(f"ranks/{ranks}.{i}.json", 0x5000 * ranks + i, day(i), ranks)
        launch(f"n{ranks}.{i}.json", 0x5100 * ranks + i, day(9, i), ranks, 1.2 if ranks == 4 else 1.0)
launch("n8.0.json", 0x99999, day(9), 8)
PYTHON
ranks() { single gate --history ranks "$@"; }
ranks --promote --why both ranks/*.json
expect_rc 0
expect_text out '8 launches, 2 cells .* number 1' '8 launches, 2 cells .* number 2'
ranks n2.?.json n4.?.json -o sizes.json
expect_rc 1
expect sizes.json '[.cells[] | [.key[0:5], .verdict]] == [["a/tp2", "same"], ["b/tp2", "same"], ["a/tp4", "worse"], ["b/tp4", "worse"]] and .verdicts.missing == 0'
expect sizes.json '(.machines | length) == 2 and [.baselines[].number] == [1, 2] and .history.launches == 16 and [.cells[].history.launches] == [16, 16, 16, 16]'
ranks n2.?.json n4.?.json n8.0.json -o three.json
expect three.json '[.findings[] | select(.kind == "no baseline") | .text | test("machines differ in ranks: 4 and 8")] == [true]'
ranks n2.?.json -o one.json
expect_rc 0

# A promotion accepts: the slower level is then the baseline, and the change no finding.
cp mixed?.json past/
gate --promote --why 'a pays for the new format' mixed?.json
expect_rc 0
expect_text out '^dropped d/region' 'number 2'
gate mixed?.json -o accepted.json
expect_rc 0
expect accepted.json '.cells[] | select(.key == "a/region") | .verdict == "same" and .history.changes[0].state == "accepted"'
expect accepted.json '.history.launches == 28 and .baselines[0].number == 2'
expect past/baseline.json '[.promotions[].why] == ["first state", "a pays for the new format"] and (.promotions[1].dropped == ["d/region"])'
single gate --history past --baseline-file nowhere/base.json mixed0.json
expect_refused 2 'nowhere/base.json' 'no baseline'

# Balance of the lanes: bytes follow from the plan, busy times from the launches; both against the baseline.
# The bound is a bare loop; a base far from it, or from the best time, is shown. A base of 0 has no percentage.
mkdir lanes
make_records <<'PYTHON'
def cells(busy, wire):
    return [cell("a/region", noise(100), busy, wire), cell("a/control", noise(50), loop=29.0), cell("z/region", 0.0, None)]
for i in range(8):
    record(f"lanes/{i}.json", f"{600 + i:016x}", day(i), cells([noise(10) for _ in range(4)], (100, 100, 100, 100)))
    record(f"busy{i}.json", f"{700 + i:016x}", day(9, i), cells([noise(10), noise(10), noise(10), noise(22)], (100, 100, 100, 100)))
    record(f"wire{i}.json", f"{800 + i:016x}", day(9, i), cells([noise(10) for _ in range(4)], (100, 100, 100, 200)))
    record(f"zero{i}.json", f"{900 + i:016x}", day(9, i), [cell("z/region", 0.3, None)])
record("lanes/old.json", f"{650:016x}", "2025-01-01T00:00:00Z", [cell("a/region", 58.0)])
PYTHON
lanes() { single gate --history lanes "$@"; }
lanes --promote --why lanes lanes/?.json
expect_rc 0
lanes busy?.json -o busy.json
expect_rc 1
expect busy.json '[.findings[] | select(.severity == "fail") | .kind] | unique == ["balance"]'
expect busy.json '.cells[0].balance["dispatch.busy_max_over_mean"] | .verdict == "worse" and .base < 1.05 and .new > 1.6'
expect busy.json '.cells[0].balance["dispatch.bytes_gini"] | .verdict == "same" and .base == 0'
lanes wire0.json -o wire.json
expect_rc 1
expect wire.json '[.findings[] | select(.kind == "balance") | .text] | length == 4 and all(test("bytes"))'
expect wire.json '.cells[0].balance["dispatch.bytes_max_over_mean"] | .base == 1 and .new == 1.6'
lanes wire0.json --balance-floor 70
expect_rc 1 # max/mean is within the floor, Gini rose from 0
expect_text out 'bytes of its lanes, Gini'
expect_no_text out 'bytes of its lanes, max/mean'
expect busy.json '.cells[] | select(.key == "a/control") | near(.base.share_of_bound_pct; 58; 0.02) and .control'
expect busy.json '.cells[0].base.share_of_bound_pct == null and near(.cells[0].base.share_of_best_pct; 58; 0.02)'
lanes wire0.json
expect_text out 'poor baseline of a/region: best time of the history: base at 5[789] %' 'bare loop: base at 5[789] %'
lanes zero?.json -o zero.json
expect_rc 1
expect zero.json '.cells[] | select(.key == "z/region") | .verdict == "worse" and .shift_pct == null'
expect_no_text zero.json '[Nn]a[Nn]' '[^o]inf'

# How a cell was measured must agree with the baseline, as in compare; launches that differ among themselves are not promoted.
mkdir how
make_records <<'PYTHON'
def measured(path, run, check, sync):
    record(path, run, day(int(run, 16) % 9), {"a/region": noise(100)})
    d = json.load(open(path))
    d["run"]["options"] = [{"name": "model", "value": "tiny", "origin": "default"}, {"name": "check", "value": check, "origin": "default"}]
    d["cells"][0]["sync"] = sync and {"method": sync}
    json.dump(d, open(path, "w"))
for i in range(8):
    measured(f"how/{i}.json", f"{0x1000 + i:016x}", "off", "round")
    for j, (name, check, sync) in enumerate((("as", "off", "round"), ("older", "off", None), ("checked", "every", "round"), ("barrier", "off", "barrier"))):
        measured(f"{name}{i}.json", f"{0x2000 + 256 * j + i:016x}", check, sync)
for i in range(6):
    measured(f"how/other{i}.json", f"{0x3000 + 9 * i:016x}", "every", "round")
PYTHON
single gate --history how --promote --why mixed how/?.json checked0.json
expect_refused 2 'a/region' 'differ in check: off and every'
single gate --history how --promote --why how how/?.json
expect_rc 0
for name in as older; do
    single gate --history how "$name"?.json -o "how.$name.json"
    expect "how.$name.json" '.cells[0].verdict == "same"'
    expect "how.$name.json" '.cells[0].history.launches == 16' # what was checked has a history of its own
done
for field in checked:check barrier:sync.method; do
    single gate --history how "${field%:*}"?.json -o "how.${field%:*}.json"
    expect_rc 1
    expect "how.${field%:*}.json" '[.findings[] | select(.kind == "incomparable") | .text] | length == 1 and (.[0] | contains($f))' --arg f "${field#*:} is"
done

# Files that are no records are named, and do not stop the rest; retries of a cell are one launch.
make_records <<'PYTHON'
record("past/twice.json", f"{3:016x}", day(3), {"a/region": 1.0})
record("retry.json", f"{950:016x}", day(20), [cell("a/region", 131.0), cell("a/region", 129.0), cell("a/region", 500.0)])
PYTHON
cp sick.json past/ && echo '{' >past/torn.json && rm past/03.json
gate mixed?.json -o files.json
expect_rc 0
expect files.json '[.history.not_records[].file] == ["sick.json", "torn.json"] and (.history.not_records[0].fault | test("started_utc"))'
expect files.json '.history.launches == 28'
cp past/twice.json past/zwice.json
gate mixed?.json -o copies.json
expect copies.json '[.history.not_records[].file] == ["sick.json", "torn.json", "zwice.json"]'
rm past/twice.json
gate mixed?.json -o copies2.json
expect copies2.json '[.history.not_records[].file] == ["sick.json", "torn.json"] and .history.launches == 28'
gate retry.json -o retry.out.json
expect retry.out.json '.cells[] | select(.key == "a/region") | .new.launches == 1 and .new.median_us == 131'

# Two at once take turns; who holds the history too long is named.
rm past/index.sqlite
for i in 1 2 3 4; do "$k3bench" gate --history past mixed?.json -o "par$i.json" & done
wait
for i in 1 2 3 4; do check "gate $i of 4 at once" cmp -s copies2.json "par$i.json"; done
exec 9>past/index.lock && flock 9
gate mixed?.json --timeout 0.2
expect_refused 3 'index.lock' 'another k3bench'
exec 9>&-

# Refusals.
single gate same0.json
expect_refused 2 'history'
single gate --history nowhere same0.json
expect_refused 3 'nowhere' 'mkdir it'
gate
expect_refused 2 'no record'
gate same0.json same0.json
expect_refused 2 'already given'
gate same0.json --why because
expect_refused 2 'why' 'promote'
gate sick.json
expect_refused 3 'sick.json' 'started_utc'
gate same0.json -o x.txt
expect_refused 2 'x.txt' '\.json'
gate same0.json --window 3
expect_refused 2 'window' '3'
echo '{"schema": "k3bench.baseline/1", "promotions": [{"who": 1}]}' >bad.json
gate same0.json --baseline-file bad.json
expect_refused 3 'bad.json' 'who'

# Agreement with an implementation by the definition (numpy) on series of many shapes.
for python in python3 /usr/bin/python3 none; do
    "$python" -c 'import numpy' 2>/dev/null && break
done
if [ "$python" != none ]; then
    mkdir shapes
    make_records <<'PYTHON'
steps = {"flat": [], "up": [(30, 10)], "down": [(41, -15)], "two": [(20, 12), (40, 20)], "bump": [(25, 25), (33, -25)], "late": [(57, 30)], "early": [(3, 20)],
         "small": [(30, 3)], "stairs": [(15, 15), (30, 15), (45, 15)]}
random.seed(17)
for i in range(60):
    record(f"shapes/{i:02d}.json", f"{i:016x}", day(i), {f"{k}/region": round(random.gauss(100, 1.5) + sum(s for at, s in v if i >= at), 4) for k, v in steps.items()})
PYTHON
    single gate --history shapes --promote --why shapes shapes/5?.json
    single gate --history shapes shapes/5?.json --floor 0 --sessions 1000 -o shapes.out.json
    cat >agree.py <<'PYTHON'
import glob, json, sys
import numpy as np
rng = np.random.default_rng(5)
LEAST = 3

def best(x):
    """Sums of distances between x[:t] and x[t:end] (b), within the first (w) and the second (v), for all t and end."""
    n = len(x)
    sums = np.zeros((n + 1, n + 1))
    sums[1:, 1:] = np.abs(x[:, None] - x[None, :]).cumsum(0).cumsum(1)
    t, end = (g.ravel() for g in np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij"))
    t, end = (g[(t >= LEAST) & (end - t >= LEAST)] for g in (t, end))
    b, w = sums[t, end] - sums[t, t], sums[t, t]
    v, m, k = sums[end, end] - 2 * sums[t, end] + sums[t, t], t, end - t
    q = m * k / (m + k) * (2 * b / (m * k) - w / (m * (m - 1)) - v / (k * (k - 1)))
    return (q.max(), int(t[q.argmax()])) if len(q) and q.max() > 0 else (0.0, 0)

def divide(x, low, found, high):
    if high - low < 2 * LEAST:
        return
    q, t = best(x[low:high])
    as_large = 1
    for r in range(199):  # enough to tell the clear cases; the others are not held against anything
        as_large += best(rng.permutation(x[low:high]))[0] >= q
    if as_large > 1:
        return
    divide(x, low, found, low + t)
    found.append((low + t, q))
    divide(x, low + t, found, high)

runs = [json.load(open(f)) for f in sorted(glob.glob("shapes/??.json"))]
bad = 0
for cell in json.load(open("shapes.out.json"))["cells"]:
    x = np.array([next(c["phases"][0]["median"] for c in r["cells"] if c["key"] == cell["key"]) for r in runs])
    want = []
    divide(x, 0, want, len(x))
    got = [(int(c["first_after"]["run"], 16), c["statistic"]) for c in cell["history"]["changes"]]
    near = all(any(a == at and np.isclose(q, s, rtol=1e-8) for a, s in want) for at, q in got)
    clear = [at for at, q in want if q > 15]
    if not near or not set(clear) <= {at for at, q in got}:
        print(cell["key"], got, want)
        bad += 1
sys.exit(bad > 0)
PYTHON
    check "the changes agree with their definition" "$python" agree.py
fi
