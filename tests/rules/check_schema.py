#!/usr/bin/env python3
"""Holds documents against the JSON Schema of records, and against what a schema cannot say.

check_schema.py SCHEMA [--changes] [--plan K3BENCH] [FILE...]
    checks the files and, with --plan, the cells that `K3BENCH plan --json -` writes; with --changes every
    document is then changed in ways that the schema must refuse

Exit codes: 0 right, 1 violations, 77 nothing to check or no python3-jsonschema.
"""

import copy
import json
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)

SHOWN = 10

# Both paths, an unknown reduction, refused cells, several nodes.
PLANS = [
    ["--model", "kimi-k3,deepseek-v3", "--tp", "32", "--dp", "4"],
    ["--tp", "8", "--dp", "2", "--path", "fallback", "--tokens", "0,3", "--p2p", "off", "--nodes-as", "2"],
    ["--generation", "stock", "--tp", "8"],
]
BACKENDS = "mooncake,deepep:ll,deepep:normal,megamoe,ascend_fuseep,none,mpi,null"


def load(path):
    def refuse_twice(pairs):
        names = [name for name, _ in pairs]
        if len(names) != len(set(names)):
            raise ValueError("%s: a name stands twice in one object" % path)
        return dict(pairs)

    with open(path, encoding="utf-8") as file:
        return json.load(file, object_pairs_hook=refuse_twice)


def beyond_schema(document):
    """Sums and lengths that must agree."""
    for i, cell in enumerate(document["cells"]):
        where = "cells/%d" % i
        for phase in cell.get("phases") or []:
            name = "%s/phases/%s" % (where, phase["name"])
            if phase["n"] == 0:
                continue
            if len(phase.get("samples", [])) not in (0, phase["n"]):
                yield "%s: %d samples, n is %d" % (name, len(phase["samples"]), phase["n"])
            values = [phase["min"], phase["median"], phase["p95"], phase["p99"], phase["max"]]
            if values != sorted(values):
                yield "%s: min, median, p95, p99, max are not in order" % name
            if phase["ci95"] and not phase["ci95"][0] <= phase["median"] <= phase["ci95"][1]:
                yield "%s: the median is outside its interval" % name
            span = phase.get("span")
            # Each rank's own time lies inside, up to what the clocks may be off and their rates differ.
            clock = (cell["sync"]["clock"] or {}) if span else {}
            error = 2 * clock.get("error_us", 0)
            rounding = 1e-6 * (1 + clock.get("drift_ppm", 0))
            if span and phase["n"] != span["n"]:
                yield "%s/span: n is %d" % (name, span["n"])
            if span and span["median"] + error < phase["median"] * (1 - rounding):
                yield "%s/span: shorter than the time of a rank" % name
            if span and error > 0.1 * span["median"]:
                yield "%s/span: not withheld" % name
        sync, warmup = cell.get("sync"), cell.get("warmup")
        if sync and sync["late"] is not None and sync["late"] != len(sync["late_iterations"]):
            yield "%s/sync: late is %d" % (where, sync["late"])
        if warmup and warmup["n"] != len(warmup["samples"]):
            yield "%s/warmup: %d samples" % (where, len(warmup["samples"]))
        instrument = cell.get("instrument")
        if instrument and instrument["ci95_pct"]:
            low, high = instrument["ci95_pct"]
            if not low <= instrument["difference_pct"] <= high:
                yield "%s/instrument: the difference is outside its interval" % where
        timeline = cell.get("timeline")
        if timeline:
            rows = timeline["rows"]
            if len({row[0] for row in rows}) != timeline["ranks_kept"]:
                yield "%s/timeline: ranks_kept is %d" % (where, timeline["ranks_kept"])
            if min(row[2] for row in rows) != 0:
                yield "%s/timeline: it does not begin at 0" % where
            # own_us is by the processor's counter, begin and end by the model of the global clock.
            spare = 1 + timeline["clock_error_us"]
            if any(row[4] > (row[3] - row[2]) * 1.001 + spare for row in rows):
                yield "%s/timeline: more time inside a phase than from its begin to its end" % where
        qps = cell.get("qps")
        if qps and len(qps["rows"]) != qps["lanes_kept"]:
            yield "%s/qps: %d rows, lanes_kept is %d" % (where, len(qps["rows"]), qps["lanes_kept"])
        if qps and qps["lanes_kept"] < qps["lanes_total"] and "rank_sums" not in qps:
            yield "%s/qps: lanes were left out, but there are no sums" % where
        lanes = qps["rows"] if qps else []
        if len({tuple(row[:4]) for row in lanes}) != len(lanes):
            yield "%s/qps: a lane stands twice" % where
        if any(row[4] != "qp" and row[7] != 0 for row in lanes):
            yield "%s/qps: a plain store rings a doorbell" % where
    ranks = document.get("run", {}).get("launch", {}).get("ranks")
    if ranks is not None and len(document["topology"]["ranks"]) != ranks:
        yield "topology: %d ranks of %d" % (len(document["topology"]["ranks"]), ranks)


def changes(document):
    """(what, changed document): each must be refused."""

    def change(what, edit):
        changed = copy.deepcopy(document)
        edit(changed)
        return what, changed

    def first(changed, member):
        return next((c for c in changed["cells"] if c.get(member)), None)

    yield change("another schema", lambda d: d.update(schema="k3bench.result/0"))
    yield change("an unknown member", lambda d: d.update(extra=1))
    yield change("no cells", lambda d: d.pop("cells"))
    yield change("an unknown status", lambda d: d["cells"][0].update(status="fine"))
    yield change("a cell without a status", lambda d: d["cells"][0].pop("status"))
    yield change("an unknown member of a cell", lambda d: d["cells"][0].update(extra=1))
    yield change("unsupported without a reason",
                 lambda d: d["cells"][0].update(status="unsupported", reason=None))
    if first(document, "work"):
        yield change("a count as text", lambda d: first(d, "work")["work"].update(rows_global="1"))
        yield change("a negative count", lambda d: first(d, "work")["work"].update(rows_global=-1))
        yield change("no path", lambda d: first(d, "work").pop("path"))
    if first(document, "phases_reason"):
        yield change("null without its reason", lambda d: first(d, "phases_reason").pop("phases_reason"))
    if first(document, "phases"):
        yield change("an unknown phase", lambda d: first(d, "phases")["phases"][0].update(name="x"))
        yield change("a phase in ms", lambda d: first(d, "phases")["phases"][0].update(unit="ms"))
        yield change("a wrong cell without the first wrong row",
                     lambda d: first(d, "phases")["check"].update(state="wrong", first_wrong=None))
        yield change("no starts", lambda d: first(d, "phases").pop("sync"))
        yield change("a trend without its p", lambda d: first(d, "phases").update(trend={"stationary": True}))
        yield change("a span of a part", lambda d: first(d, "phases")["phases"][0].update(name="router", span=None))
        yield change("results of a planned cell", lambda d: first(d, "phases").update(status="planned"))
    if first(document, "overlap"):
        yield change("an overlap without its span", lambda d: first(d, "overlap")["overlap"].pop("span_us"))
        yield change("an overlap and a reason why none", lambda d: first(d, "overlap").update(overlap_reason="x"))
    if first(document, "timeline"):
        yield change("a timeline without its clock's error",
                     lambda d: first(d, "timeline")["timeline"].pop("clock_error_us"))
    if first(document, "qps"):
        yield change("a lane of 15 values", lambda d: first(d, "qps")["qps"]["rows"][0].pop())
        yield change("other columns", lambda d: first(d, "qps")["qps"]["columns"].reverse())
    if "run" in document:
        yield change("a run without topology", lambda d: d.pop("topology"))
        yield change("an unknown origin", lambda d: d["run"]["options"][0].update(origin="guess"))


CHANGED_MEMBERS = ("work", "phases_reason", "phases", "overlap", "timeline", "qps")


def small(document):
    """The document with the cells that `changes` looks for and few lanes, so that many copies are checked in no time."""
    cells = document["cells"]
    found = [next((c for c in cells if c.get(member)), None) for member in CHANGED_MEMBERS]
    kept = [c for i, c in enumerate(cells) if i == 0 or any(c is f for f in found)]
    document = copy.deepcopy(dict(document, cells=kept))
    for cell in document["cells"]:
        for table in ("qps", "waits"):
            if cell.get(table):
                del cell[table]["rows"][4:]
    return document


def inlined(schema):
    """The schema with each definition in the place of its name: looking names up takes a third of the time."""
    done = {}

    def walk(part):
        if isinstance(part, list):
            return [walk(item) for item in part]
        if not isinstance(part, dict):
            return part
        reference = part.get("$ref")
        rest = {key: walk(value) for key, value in part.items() if key not in ("$ref", "$defs")}
        if reference is None:
            return rest
        if reference not in done:
            done[reference] = walk(schema["$defs"][reference.removeprefix("#/$defs/")])
        return done[reference] if set(rest) <= {"description"} else dict(rest, allOf=rest.get("allOf", []) + [done[reference]])

    return walk(schema)


def check(name, document, validator, with_changes):
    """Messages."""
    found = ["%s: %s: %s" % (name, "/".join(map(str, e.absolute_path)) or "document", e.message[:300])
             for e in validator.iter_errors(document)]
    if found:
        return found
    found = ["%s: %s" % (name, text) for text in beyond_schema(document)]
    for what, changed in changes(small(document)) if with_changes else []:
        if validator.is_valid(changed):
            found.append("%s: the schema does not refuse: %s" % (name, what))
    return found


def plans(program):
    for options in PLANS:
        command = [program, "plan", "--backend", BACKENDS, "--json", "-"] + options
        yield " ".join(["plan"] + options), json.loads(subprocess.check_output(command))


def main():
    arguments = sys.argv[1:]
    if not arguments:
        print(__doc__)
        return 2
    validator_class = jsonschema.Draft202012Validator
    schema = load(arguments.pop(0))
    validator_class.check_schema(schema)
    validator = validator_class(inlined(schema))
    documents = []
    with_changes = bool(arguments) and arguments[0] == "--changes"
    if with_changes:
        del arguments[0]
    if arguments and arguments[0] == "--plan":
        documents += plans(arguments[1])
        del arguments[:2]
    documents += [(path, load(path)) for path in arguments]
    if not documents:
        print("skipped: no documents")
        return 77
    faults = [fault for name, document in documents for fault in check(name, document, validator, with_changes)]
    for fault in faults[:SHOWN]:
        print(fault)
    print("schema: %d documents, %d violations" % (len(documents), len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
