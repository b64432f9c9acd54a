#!/usr/bin/env bash
# Comparisons: verdicts, what is refused, agreement with scipy, the same bytes twice.
# S05, S06, S07, S17, U04, U08, U11.
. "$(dirname "$0")/lib.sh"

# records PREFIX SCRIPT: SCRIPT yields (launch name, {cell key: time, or a status}) for the records to make.
cat >make.py <<'PYTHON'
import json, sys

def cell(key, value, hash="0123456789abcdef"):
    name = key.split("/")[0].split(":")
    c = {"key": key, "backend": name[0], "mode": name[1] if len(name) > 1 else "", "model": {"name": "tiny"}, "path": {"moves_rows": name[0] != "null"},
         "layout": {"tp": 2, "dp": 1, "cp": 1, "nodes": 1}, "tokens": {"asked": 4, "min": 4, "max": 4, "total": 8},
         "component": "region", "status": "ok", "reason": None, "work": {"routing_hash": hash}, "check": {"state": "ok"}, "phases": None}
    if isinstance(value, str):
        c["status"], _, c["reason"] = value.partition(" ")
        c["reason"] = c["reason"] or "because"
    else:
        c["phases"] = [{"name": "region", "median": value, "ci95": None, "n": 1}]
    return c

def record(path, run, cells, machine="0000000000000001", cores=2, hash="0123456789abcdef", crowded=False):
    json.dump({"schema": "k3bench.result/1", "topology": {"ranks": [], "oversubscribed": crowded}, "run": {"id": run}, "fingerprint": {"key": machine, "stable": {"cpu_model": "x", "cores": cores}},
               "cells": [cell(k, v, hash) for k, v in cells.items()]}, open(path, "w"))

exec(open(sys.argv[1]).read())
PYTHON
cat >sets.py <<'PYTHON'
for i in range(8):
    base = {"a/x": 100 + i, "b/x": 50.0 + i / 10, "c/x": 7.0, "d/x": 40 + i, "e/x": 10 + i % 3, "z/x": 0.0}
    new = {"a/x": 120 + i, "b/x": 40.0 + i / 10, "c/x": 7.0, "e/x": "failed check: wrong", "f/x": 3.0, "z/x": 0.3}
    record(f"base{i}.json", f"{i:016x}", base)
    record(f"new{i}.json", f"{i + 100:016x}", new)
for i in range(4):
    record(f"crowded{i}.json", f"{i + 500:016x}", {"a/x": 100 + i, "b/x": 50.0}, crowded=True)
record("other.json", f"{999:016x}", {"a/x": 100.0}, machine="0000000000000002", cores=4)
record("routed.json", f"{998:016x}", {"a/x": 100.0}, hash="fedcba9876543210")
record("unsupported.json", f"{997:016x}", {"a/x": "unsupported too wide"})
PYTHON
python3 make.py sets.py

single compare base*.json -- new*.json
expect_rc 1
expect_text out 'lower is better' '^worse +103\.5 +123\.5 +\+19\.3' '^better ' '^same '  '^missing ' '^broken ' '^added '
expect_no_text out '[Nn]a[Nn]' 'inf'
single compare base*.json -- new*.json -o first.json
expect_rc 1
single compare base*.json -- new*.json -o second.json
check "the same records, the same bytes" cmp -s first.json second.json
verdict='.cells[] | select(.key == $k) | .verdict'
for want in a/x=worse b/x=better c/x=same d/x=missing e/x=broken f/x=added z/x=worse; do
    check "${want%=*} is ${want#*=}" [ "$(jq -r --arg k "${want%=*}" "$verdict" first.json)" = "${want#*=}" ]
done
expect first.json '.schema == "k3bench.comparison/2" and .family == 4 and (.verdicts | .worse == 2 and .better == 1 and .same == 1)'
expect first.json '.cells[] | select(.key == "z/x") | .shift_pct == null and (.shift_pct_reason | length) > 0 and .shift_us == 0.3'
expect first.json '.cells[] | select(.key == "d/x") | .new.median_us == null and .new.launches == 0 and (.reason | length) > 0'
single compare base*.json -- new*.json -o table.md
check "Markdown has a row for each cell" [ "$(grep -c '^| \(worse\|better\|same\|missing\|broken\|added\) |' table.md)" = 7 ]
expect_no_text table.md '\| 0\.0 \| 0\.0 \|'

# A set against itself is not given twice; faster is no failure.
single compare base0.json base1.json -- base1.json
expect_refused 2 'base1.json' 'already given'
single compare base[0-3].json -- base[4-7].json
expect_rc 0
expect_no_text out 'oversubscribed'
single compare crowded[01].json -- crowded[23].json
expect_rc 0
expect_text out '^oversubscribed: launches had more ranks than cores'
single compare crowded[01].json -- crowded[23].json -o crowded.md
expect_text crowded.md '^oversubscribed: '
single compare base[01].json -- crowded[23].json -o crowded.json
expect crowded.json '.oversubscribed and (.cells[] | select(.key == "a/x") | .reason | test("oversubscribed"))'
single compare base0.json -- new0.json --floor 500
expect_rc 1
expect_text out '^broken' 'launches a side would decide'
single compare base0.json -- other.json
expect_rc 1
expect_text out '^incomparable' 'cores: 2 and 4'
single compare base0.json -- routed.json -o routed.out.json
expect routed.out.json '.cells[] | select(.key == "a/x") | .verdict == "incomparable" and (.reason | test("routing"))'
single compare base0.json -- unsupported.json -o none.json
expect none.json '.cells[] | select(.key == "a/x") | .verdict == "missing" and (.reason | test("too wide"))'

# Backend against backend within one set.
single compare base*.json -o backends.json
expect_rc 0
expect backends.json '.compares == "backends" and ([.cells[].base_key] | unique == ["a/x"]) and (.cells | length) == 5'
expect backends.json '.cells[] | select(.key == "b/x") | .verdict == "better"'
single compare base*.json --baseline mooncake
expect_refused 2 'mooncake' 'nothing to compare'

# Cells of the same launches are pairs: the launches' own speeds leave their differences. Measured again in a launch is
# no further launch. How a cell was measured must agree.
cat >how.py <<'PYTHON'
def change(path, what):
    d = json.load(open(path)); what(d); json.dump(d, open(path, "w"))
for i in range(8):
    speed = 1 + i * i / 10
    record(f"pair{i}.json", f"{i + 200:016x}", {"a/x": 100 * speed, "b/x": 104.5 * speed})
    record(f"again{i}.json", f"{i + 300:016x}", {"a/x": 100 * speed})
    change(f"again{i}.json", lambda d: d["cells"].extend([dict(d["cells"][0], phases=[{"name": "region", "median": t}]) for t in (1.0, 1e6)]))
    for name, key, value in (("round", "sync", {"method": "round"}), ("barrier", "sync", {"method": "barrier"}), ("tcp", "qps", {"transport": "tcp/eth0"}),
                             ("shm", "qps", {"transport": "posix/memory"}), ("chain", "component", "chain"), ("fast", "host", {"scaled_us": 90.0}),
                             ("slow", "host", {"scaled_us": 99.0}), ("healthy", "faults", {"injected": None}), ("hurt", "faults", {"injected": "stall:1:region:5"}), ("checked", None, "every"), ("unchecked", None, "off")):
        path = f"{name}{i}.json"
        record(path, f"{hash((name, i)) % 2**64:016x}", {"c/x": 100 * speed})
        def how(d):
            if key is not None:
                d["cells"][0][key] = value
            else:
                d["run"]["options"] = [{"name": "ci-target", "value": "2", "origin": "default"}, {"name": "check", "value": value, "origin": "default"}]
            if name == "chain":
                d["cells"][0]["phases"][0]["name"] = "chain"
        change(path, how)
PYTHON
python3 make.py how.py
single compare pair*.json -o paired.json
expect_rc 0
expect paired.json '.cells == [.cells[0]] and (.cells[0] | .test == "signed ranks" and .verdict == "worse" and .p == 2 / 256)'
single compare pair[0-3].json -- pair[4-7].json -o sides.json
expect sides.json '.cells[] | .test == "Mann-Whitney"'
# Backends on other weights did other work.
cat >weights.py <<'PYTHON'
for i in range(8):
    record(f"weights{i}.json", f"{i + 900:016x}", {"a/x": 100 + i, "b/x": 90 + i})
    d = json.load(open(f"weights{i}.json"))
    for c, digest in zip(d["cells"], "12"):
        c["choices"] = {"weights": {"digest": digest * 16}, "hidden": None}
    json.dump(d, open(f"weights{i}.json", "w"))
PYTHON
python3 make.py weights.py
single compare weights?.json
expect_refused 2 'nothing to compare' 'BASE... -- NEW...'
single compare again?.json -- pair?.json -o again.json
expect again.json '.cells[] | select(.key == "a/x") | .base.launches == 8 and .p == 1 and .base.median_us == .new.median_us'
for pair in round:barrier:sync.method tcp:shm:qps.transport healthy:hurt:faults.injected checked:unchecked:check; do
    IFS=: read -r one other field <<<"$pair"
    single compare "$one"*.json -- "$other"*.json -o "how.$one.json"
    expect_rc 0
    expect "how.$one.json" '.cells[] | .verdict == "incomparable" and (.reason | contains($f))' --arg f "$field"
done
single compare round[0-3].json barrier[0-3].json -- round[4-7].json -o mixed.json
expect mixed.json '.cells[] | .verdict == "incomparable" and (.reason | test("of one side differ in sync.method"))'
single compare chain[0-3].json -- chain[4-7].json -o chains.json
expect chains.json '.cells[] | .verdict == "worse" and .base.median_us > 0'
single compare slow*.json -- fast*.json --scaled on -o scaled.json
expect scaled.json '.scaled and (.cells[] | .verdict == "better" and .base.median_us == 99 and .new.median_us == 90)'
single compare slow*.json -- round*.json --scaled on -o unscaled.json
expect unscaled.json '.cells[] | .verdict == "missing" and (.reason | test("speed"))'
single compare slow0.json -- fast0.json --scaled on --phase dispatch
expect_refused 2 'dispatch' 'headlines'

# --- what can be compared with what ---

# The number of ranks is a matter of the cell: launches of 2 and of 4 ranks in one set, on one side or both. What moves no
# rows is no rival of backends; between sets it is judged beside the others.
cat >parts.py <<'PYTHON'
def change(path, what):
    d = json.load(open(path)); what(d); json.dump(d, open(path, "w"))
def key(backend, tp=2, p2p="p2p", formats="fp8.bf16", component="region", tail="", tokens=4, path="fast"):
    return f"{backend}/k3/tiny/tp{tp}.dp1.cp1.ep{tp}.n1/t{tokens}.m{tokens}.equal/uniform.s1/registry.{path}/deep_gemm.{formats}/q32.ib.{p2p}/{component}{tail}"
def launch(path, run, cells, ranks=2, tls=None, transport=None):
    record(path, f"{run:016x}", cells, machine=f"{ranks:016x}")
    def finish(d):
        d["fingerprint"]["stable"]["ranks"] = ranks
        if tls is not None:
            d["run"]["environment"] = {"UCX_TLS": tls}
        for c in d["cells"]:
            part = c["key"].split("/")
            c.update(component=part[9], layout={"tp": ranks, "dp": 1, "cp": 1, "nodes": 1})
            if c["phases"]:
                c["phases"][0]["name"] = {"control": "dispatch"}.get(part[9], part[9])
            c["qps"] = {"transport": transport or ("mapped" if ".p2p" in part[8] else "posix")}
    change(path, finish)
for i in range(8):
    two, four = {key("a"): 100 + i, key("b"): 90 + i, key("null"): 9 + i / 8}, {key("a", 4): 50 + i, key("b", 4): 55 + i, key("null", 4): 5}
    launch(f"two{i}.json", 0x10000 + i, two)
    launch(f"four{i}.json", 0x20000 + i, four, 4)
    launch(f"twin{i}.json", 0x30000 + i, {k: v * 1.2 for k, v in two.items()})
    launch(f"quad{i}.json", 0x40000 + i, {k: v * 1.2 for k, v in four.items()}, 4)
    launch(f"on{i}.json", 0x50000 + i, {key("a"): 100 + i, key("b"): 90 + i})
    launch(f"off{i}.json", 0x60000 + i, {key("a", p2p="nop2p"): 130 + i, key("b", p2p="nop2p.add"): 95 + i})
    launch(f"bf16{i}.json", 0x70000 + i, {key("a", formats="bf16.bf16", tail="/shared-overlap"): 130 + i, key("b"): 95 + i})
    launch(f"pair{i}.json", 0x80000 + i, {key("a", component="pair"): 80 + i})
    launch(f"more{i}.json", 0x90000 + i, {key("a", tokens=8): 80 + i, key("c"): 1})
    launch(f"sm{i}.json", 0xa0000 + i, {key("a"): 100 + i}, tls="sm,self", transport="posix")
    launch(f"odd{i}.json", 0xf0000 + i, {key("a", tail="/shared-overlap"): 140 + i}, transport="tcp")
    launch(f"net{i}.json", 0xb0000 + i, {key("a"): 140 + i}, tls="tcp,self", transport="tcp")
PYTHON
python3 make.py parts.py
single compare two?.json four?.json -o sizes.json
expect_rc 0
expect sizes.json '(.cells | length) == 2 and [.cells[].verdict] == ["better", "worse"] and .family == 2 and (.not_judged | length) == 2'
single compare two?.json four?.json
expect_text out '^not judged, because no row is moved: null \(2 cells\)'
single compare two?.json four?.json -- twin?.json quad?.json -o sizes2.json
expect_rc 1
expect sizes2.json '.verdicts.worse == 6 and .family == 4 and [.cells[] | select(.moves | not) | .family] == [2, 2]'
single compare two?.json four?.json -- twin?.json quad?.json
expect_text out '^2 cells move no rows .* family of their own'
single compare two?.json --baseline null -o over.json
expect over.json '[.cells[] | .base_label] == ["null", "null"] and .family == 2'
# A cell that two kinds of machine held is not.
single compare two0.json base0.json four0.json -- twin0.json quad0.json -o alone.json
expect alone.json '.verdicts.incomparable == 0'
sed 's/"cores": 2/"cores": 4/; s/0000000000000002/0000000000000009/; s/0000000000010001/0000000000010099/' two1.json >other1.json
single compare two0.json other1.json four0.json -- twin0.json quad0.json -o odd.json
expect odd.json '[.cells[] | select(.verdict == "incomparable") | .key | contains("tp2")] == [true, true, true]'
expect odd.json '.cells[] | select(.verdict == "incomparable") | .reason | test("cores: 2 and 4")'

# Sets that differ in an option of the key belong together; what differs is said. Transports follow from it, or were asked for.
single compare on?.json -- off?.json -o option.json
expect_rc 1
expect option.json '(.cells | length) == 2 and .verdicts.worse == 2 and .differs == ""'
expect option.json '[.cells[].differs] == ["p2p on -> off", "p2p on -> off, signal auto -> add"]'
single compare on?.json -- off?.json
expect_text out '^ +p2p on -> off, signal auto -> add$'
single compare on?.json -- off?.json -o option.md
expect_text option.md '\| p2p on -> off \|$'
single compare two?.json -- bf16?.json -o dtype.json
expect dtype.json '[.cells[] | [.verdict, .differs]] == [["worse", "dispatch-dtype fp8 -> bf16, shared auto -> overlap"], ["worse", ""], ["missing", ""]]'
single compare pair?.json -- on?.json
expect_rc 1
expect_text out '^worse ' 'missing|added'
single compare on?.json -- pair?.json -o component.json
expect component.json '.cells[0] | .verdict == "better" and .differs == "component region -> pair"'
single compare sm?.json -- net?.json -o told.json
expect told.json '.differs == "UCX_TLS=sm,self -> UCX_TLS=tcp,self" and (.cells[] | .verdict == "worse")'
# An option that carries nothing does not excuse another transport.
single compare on?.json -- odd?.json -o carried.json
expect carried.json '.cells[0] | .verdict == "incomparable" and (.reason | test("qps.transport is mapped and tcp"))'
# Other work does not pair, nor do other backends: nothing is compared, which is no result.
single compare on?.json -- more?.json
expect_refused 2 'no cell of the base is in the new set' 'a/k3/tiny/'
# Two cells of one backend in one set have names of their own.
single compare on?.json off?.json -o names.json
expect names.json '[.cells[].label] == ["b (p2p on, signal auto)", "a (p2p off)", "b (p2p off, signal add)"] and ([.cells[].base_label] | unique == ["a (p2p on)"])'
single compare on?.json off?.json
expect_text out 'a \(p2p off\) over a \(p2p on\)$'
single compare on?.json off?.json -o names.md
expect_text names.md '\| a \(p2p off\) over a \(p2p on\) \|'
single report on?.json off?.json -o names.html
expect_text names.html '>a \(p2p off\): worse<'

# --- shift and columns ---

# No time falls by more than all of it; columns and shift that disagree are explained; p alone stands beside p after Holm.
cat >ratios.py <<'PYTHON'
base, new = (400, 300, 350, 1e4, 2, 3), (0.9, 0.8, 0.7, 9e3, 1.9, 2.8)
for i in range(6):
    record(f"fall{i}.json", f"{0xc0000 + i:016x}", {"a/x": base[i], "b/x": new[i]})
    up = (100, 100, 100, 10, 1, 2000)[i]
    record(f"sign{i}.json", f"{0xd0000 + i:016x}", {"a/x": up, "b/x": up * (1.05 if up == 100 else 0.3), "c/x": up * 1.5})
    record(f"holm{i}.json", f"{0xe0000 + i:016x}", {"a/x": 100 + i, "b/x": 110 + 2 * i, "c/x": 120 - i})
PYTHON
python3 make.py ratios.py
single compare fall?.json -o fall.json
expect fall.json '.cells[0] | .verdict == "better" and .shift_pct > -100 and .ci95_pct[0] > -100 and .ci95_pct[1] < 0 and .ci95_us == null'
single compare sign?.json -o sign.json
expect sign.json '.cells[0] | .new.median_us > .base.median_us and .shift_pct < 0 and (.note | test("^the medians say slower by 5.0 %, the shift faster by .* within each launch"))'
expect sign.json '.cells[1].note == null'
single compare sign?.json
expect_text out '^ +the medians say slower by 5'
single compare holm?.json -o holm.json
expect holm.json '.cells[] | .verdict == "inconclusive" and .p == 0.03125 and .p_family == 0.0625 and (.reason | test("^p is 0.031 alone, 0.062 after Holm over 2 cells; about [0-9]+ launches"))'

# Refusals.
single compare
expect_refused 2 'no record'
single compare base0.json --
expect_refused 2 'one side'
single compare base0.json -- new0.json --baseline mooncake
expect_refused 2 'baseline' 'first set'
single compare base0.json -- new0.json --floor -1
expect_refused 2 'floor' '-1'
single compare base0.json -- new0.json --phase regionn
expect_refused 2 'regionn' 'region'
single compare base0.json -- new0.json -o x.txt
expect_refused 2 'x.txt' '\.json'
single compare base0.json -- nowhere.json
expect_refused 3 'nowhere.json'

# Agreement with scipy on sets of many shapes.
for python in python3 /usr/bin/python3 none; do
    "$python" -c 'import scipy' 2>/dev/null && break
done
if [ "$python" != none ]; then
    cat >shapes.py <<'PYTHON'
import random
random.seed(11)
for n, m, digits in ((4, 4, 9), (8, 8, 9), (5, 7, 9), (12, 9, 9), (20, 20, 1), (8, 8, 0), (40, 35, 9), (50, 50, 0), (3, 3, 9)):
    for side, count, factor in (("a", n, 1.0), ("b", m, 1.1)):
        for i in range(count):
            record(f"s{n}.{m}.{digits}.{side}.{i}.json", f"{random.getrandbits(64):016x}",
                   {f"{k}/x": round(factor * random.lognormvariate(2, 0.3), digits) for k in "pqr"})
PYTHON
    python3 make.py shapes.py
    for shape in 4.4.9 8.8.9 5.7.9 12.9.9 20.20.1 8.8.0 40.35.9 50.50.0 3.3.9; do
        single compare s$shape.a.*.json -- s$shape.b.*.json -o "shape.$shape.json"
    done
    cat >agree.py <<'PYTHON'
import glob, itertools, json, sys
import numpy as np
from scipy import stats
bad = 0
for path in sorted(glob.glob("shape.*.json")):
    shape = path[6:-5]
    doc = json.load(open(path))
    got = {c["key"]: c for c in doc["cells"]}
    sides = {s: [{c["key"]: c["phases"][0]["median"] for c in json.load(open(f))["cells"]} for f in glob.glob(f"s{shape}.{s}.*.json")] for s in "ab"}
    ps = {}
    for key in got:
        a, b = (np.array([l[key] for l in sides[s]]) for s in "ab")
        n = len(a) + len(b)
        ties = len(set(a) | set(b)) < n
        if n > 60:
            p = stats.mannwhitneyu(b, a, method="asymptotic").pvalue
        elif not ties:
            p = stats.mannwhitneyu(b, a, method="exact").pvalue
        else:
            p = None  # scipy's exact method knows no ties
        a, b = np.log(a), np.log(b)
        d = np.sort((b[:, None] - a[None, :]).ravel())
        want = {"shift_pct": 100 * np.expm1(np.median(d))}
        if p is not None:
            want["p"] = p
        ps[key] = got[key]["p"]
        for name, value in want.items():
            if not np.isclose(got[key][name], value, rtol=1e-8, atol=1e-12):  # records hold nine digits
                print(path, key, name, got[key][name], value)
                bad += 1
        if n <= 60 and not ties and got[key]["ci95_pct"]:
            low, high = (np.log1p(x / 100) for x in got[key]["ci95_pct"])
            # The interval's ends are differences, as far from both ends of the list.
            i, j = np.argmin(abs(d - low)), np.argmin(abs(d - high))
            if i != len(d) - 1 - j:
                print(path, key, "interval is not symmetric in ranks", i, j)
                bad += 1
            # A shift at either end is not rejected, one just outside is.
            inside = stats.mannwhitneyu(b - (low + high) / 2, a, method="exact").pvalue
            outside = stats.mannwhitneyu(b - (low - abs(low) * 1e-6 - 1e-6), a, method="exact").pvalue
            if inside < 0.05 or outside > 0.05:
                print(path, key, "interval", inside, outside)
                bad += 1
    order = sorted(ps, key=lambda k: ps[k])
    least = 0
    for i, key in enumerate(order):
        least = max(least, min(1, ps[key] * (len(order) - i)))
        if not np.isclose(got[key]["p_family"], least, rtol=1e-8):
            print(path, key, "Holm", got[key]["p_family"], least)
            bad += 1
sys.exit(bad > 0)
PYTHON
    check "the statistics agree with scipy" "$python" agree.py
fi
