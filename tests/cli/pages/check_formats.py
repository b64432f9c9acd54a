#!/usr/bin/env python3
"""Holds what `k3bench report` writes against the rules of each format and against the records.

check_formats.py trace FILE RECORD...     Chrome trace events; counts and times load back
check_formats.py metrics FILE RECORD...   OpenMetrics, and what a node exporter's textfile collector takes
check_formats.py csv FILE RECORD...       RFC 4180; a row for each cell and phase
check_formats.py lanes FILE RECORD...     RFC 4180; a row for each lane
check_formats.py markdown FILE RECORD...  tables of equal columns; fits a comment
check_formats.py merged FILE RECORD...    the records as they were
"""

import csv
import json
import math
import re
import sys

FAULTS = []


def expect(what, holds, seen=None):
    if not holds:
        FAULTS.append("%s%s" % (what, "" if seen is None else ": %.300s" % (seen,)))


def near(a, b):
    return a == b or (a is not None and b is not None and abs(a - b) <= 1e-8 * abs(b))


def cells_of(records):
    return [(record, cell) for record in records for cell in record["cells"]]


def lanes_of(cell):
    table = cell["qps"] or {"columns": [], "rows": []}
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


def name_of(cell):
    return cell["backend"] + (":" + cell["mode"] if cell["mode"] else "")


# --- trace ---

EVENT = {"M": {"name", "args"}, "X": {"name", "cat", "ts", "dur", "args"}, "s": {"name", "cat", "id", "ts"},
         "f": {"name", "cat", "id", "ts", "bp"}}


def check_event(event):
    wanted = EVENT.get(event.get("ph"), None)
    expect("an event of a known kind", wanted is not None, event)
    if wanted is None:
        return
    expect("members of an event", set(event) == wanted | {"ph", "pid", "tid"}, event)
    expect("whole numbers of process and track", all(type(event[m]) is int and event[m] >= 0 for m in ("pid", "tid")), event)
    expect("times are not negative", event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0, event)


def check_trace(text, records):
    document = json.loads(text)
    events = document["traceEvents"]
    cells = [cell for _, cell in cells_of(records) if cell["phases"]]
    with_one = [cell for cell in cells if cell.get("timeline")]
    for event in events:
        check_event(event)
    slices = [event for event in events if event["ph"] == "X"]
    phases = [event for event in slices if event["cat"] == "phase"]
    rows = [row for cell in with_one for row in cell["timeline"]["rows"]]
    expect("a slice for each phase of each rank", len(phases) == len(rows), (len(phases), len(rows)))
    for event, row in zip(phases, rows):
        expect("begin and length of a phase", event["name"] == row[1] and near(event["ts"], row[2]) and
               abs(event["dur"] - (row[3] - row[2])) < 1e-4 + 1e-7 * row[3] and near(event["args"]["own_us"], row[4]), (event, row))
    kept = sum(len({row[0] for row in cell["timeline"]["rows"]}) for cell in with_one)
    named = [event for event in events if event["name"] == "process_name"]
    expect("a process for each rank that is kept", len(named) == kept == len({e["pid"] for e in named}), len(named))
    lanes = [lane for cell in with_one for lane in lanes_of(cell)]
    drawn = [event for event in slices if event["cat"] == "lane"]
    out = document["otherData"]["lanes_left_out"]
    expect("a slice for each lane", len(drawn) + out == len(lanes), (len(drawn), out, len(lanes)))
    if out == 0:
        expect("bytes of the lanes", sum(e["args"]["bytes_wire"] for e in drawn) == sum(l["bytes_wire"] for l in lanes))
    begins = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    expect("arrows have two ends", set(begins) == set(ends) and len(begins) == document["otherData"]["arrows"] > 0)
    tracks = {}
    for event in slices:
        tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for event in list(begins.values()) + list(ends.values()):
        inside = any(b - 1e-3 <= event["ts"] <= e + 1e-3 for b, e in tracks[event["pid"], event["tid"]])
        expect("an arrow ends in a slice", inside, event)
    expect("cells without a timeline are named", len(document["otherData"]["cells_without_timeline"]) == len(cells) - len(with_one))


# --- metrics ---

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(r"(%s)\{((?:%s)(?:,%s)*)\} (-?[0-9.]+(?:e[+-]?[0-9]+)?)" % (NAME, LABEL, LABEL))


def read_metrics(text):
    """{name: {labels: value}}; the grammar of OpenMetrics for gauges."""
    expect("it ends with # EOF and a line end", text.endswith("\n# EOF\n") and text.count("# EOF\n") == 1)
    families, name, met = {}, None, set()
    for line in text.split("\n")[:-2]:
        head = re.fullmatch(r"# (TYPE|UNIT|HELP) (%s) (.*)" % NAME, line)
        if head:
            if head[1] == "TYPE":
                name, met = head[2], {"TYPE"}
                expect("a family stands once", name not in families, line)
                expect("gauges alone, which every reader knows", head[3] == "gauge", line)
                families[name] = {}
            else:
                expect("heads of one family stand together, each once", head[2] == name and head[1] not in met and not families[name], line)
                met.add(head[1])
            expect("the unit ends the name", head[1] != "UNIT" or name.endswith("_" + head[3]), line)
            continue
        sample = SAMPLE.fullmatch(line)
        expect("a sample of the grammar, without a timestamp", sample is not None, line)
        if sample:
            labels = tuple(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', sample[2]))
            expect("samples stand below their family", sample[1] == name, line)
            expect("a label stands once", len({k for k, _ in labels}) == len(labels), line)
            expect("a sample stands once", labels not in families[name], line)
            families[name][labels] = float(sample[3])
    expect("every family has a help", "HELP" in met)
    return families


def check_metrics(text, records):
    families = read_metrics(text)
    wanted = sum(len(cell["phases"] or []) for _, cell in cells_of(records))
    medians = families["k3bench_phase_median_seconds"]
    expect("a median for each phase", len(medians) == wanted, (len(medians), wanted))
    expect("a state for each cell", len(families["k3bench_cell_ok"]) == len(cells_of(records)))
    order = sorted(records, key=lambda record: record["run"]["started_utc"])
    for record, cell in cells_of(records):
        for phase in cell["phases"] or []:
            found = [value for labels, value in medians.items()
                     if dict(labels).items() >= {"cell": cell["key"], "phase": phase["name"],
                                                 "launch": str(order.index(record) + 1)}.items()]
            expect("the median in seconds", len(found) == 1 and near(found[0], phase["median"] * 1e-6), (found, phase["median"]))
        for rate in cell["rates"] or []:
            if rate["GBps"] is not None:
                expect("the rate in bytes a second",
                       any(near(value, rate["GBps"] * 1e9) for value in families["k3bench_rate_bytes_per_second"].values()))


# --- tables ---

def read_csv(text):
    with open(text, newline="", encoding="utf-8") as file:
        raw = file.read()
    expect("lines end with CR LF", raw.count("\r\n") > 0 and raw.endswith("\r\n"))
    rows = list(csv.reader(raw.splitlines(keepends=True), strict=True))
    expect("rows of one length", len({len(row) for row in rows}) == 1)
    expect("a column stands once", len(set(rows[0])) == len(rows[0]))
    expect("nothing that a spreadsheet computes", not [f for row in rows for f in row if re.match(r"[=+@\t\r]|-[^0-9]", f)])
    return [dict(zip(rows[0], row)) for row in rows[1:]]


def number(text):
    return None if text == "" else float(text)


def check_csv(path, records):
    rows, at = read_csv(path), 0
    for record, cell in cells_of(records):
        for phase in cell["phases"] or [None]:
            row, at = rows[at], at + 1
            expect("the cell of a row", row["run_id"] == record["run"]["id"] and row["key"] == (cell["key"] or "") and
                   row["backend"] == cell["backend"] and row["status"] == cell["status"], row)
            ci = phase and phase["ci95"] or [None, None]
            for column, value in ((("median_us", phase["median"]), ("p99_us", phase["p99"]), ("n", phase["n"]), ("ci_low_us", ci[0]),
                                   ("ci_high_us", ci[1])) if phase else (("median_us", None), ("n", None))):
                expect("%s of %s" % (column, row["phase"]), near(number(row[column]), value), (row[column], value))
    expect("a row for each cell and phase", at == len(rows), (at, len(rows)))


def check_lanes(path, records):
    rows = read_csv(path)
    lanes = [lane for _, cell in cells_of(records) for lane in lanes_of(cell)]
    expect("a row for each lane", len(rows) == len(lanes), (len(rows), len(lanes)))
    for row, lane in zip(rows, lanes):
        expect("numbers of a lane", all(near(number(row[c]), lane[c]) for c in ("src", "dst", "qp", "messages", "bytes_wire", "busy_us", "p99_us")), row)


def plain(value):
    """Four digits, or all in front of the point."""
    places = 3 - math.floor(math.log10(abs(value))) if value else 0
    text = "%.*f" % (max(places, 0), value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def check_markdown(text, records):
    expect("it fits a comment", len(text) <= 65536, len(text))
    heads, columns, inside = 0, 0, False
    for line in text.split("\n"):
        if line.startswith("|"):
            bars = len(re.findall(r"(?<!\\)\|", line.replace("\\\\", "")))
            heads, columns = (heads, columns) if inside else (heads + 1, bars)
            expect("rows have the columns of their head", bars == columns and line.endswith("|"), line)
        inside = line.startswith("|")
    expect("a table for each record at least", heads >= len(records), heads)
    expect("folds are closed", text.count("<details>") == text.count("</details>"))
    if "left out" not in text:
        for _, cell in cells_of(records):
            for phase in cell["phases"] or []:
                expect("the median of %s" % phase["name"], "| %s |" % plain(phase["median"]) in text)


def check_merged(text, records):
    document = json.loads(text)
    expect("the records as they were", document == (records[0] if len(records) == 1 else
                                                   {"schema": "k3bench.merged/1", "records": records}))


def main():
    what, path = sys.argv[1:3]
    records = []
    for record in sys.argv[3:]:
        with open(record, encoding="utf-8") as file:
            records.append(json.load(file))
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    {"trace": check_trace, "metrics": check_metrics, "csv": lambda t, r: check_csv(path, r), "lanes": lambda t, r: check_lanes(path, r),
     "markdown": check_markdown, "merged": check_merged}[what](text, records)
    for fault in FAULTS[:20]:
        print("%s: %s" % (path, fault))
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
