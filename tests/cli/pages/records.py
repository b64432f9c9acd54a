#!/usr/bin/env python3
"""Made-up records that are valid by the schema, from the plan of cells and a record of a small run.

records.py grown K3BENCH SMALL_RECORD OUT PLAN_OPTIONS...   a world of any size, measured by a formula
records.py hostile SMALL_RECORD OUT                         every text is markup, quotes, formulas, line ends
records.py launches SMALL_RECORD DIR COUNT                  more launches of the same cells
"""

import copy
import json
import os
import subprocess
import sys

KEPT, SLOWEST = 16384, 256
PARTS = ["attn_reduce_scatter", "router", "quantize", "dispatch_send", "dispatch_wait", "expert_mlp", "combine_send",
         "combine_wait", "combine_reduce", "all_gather"]
LANES = ["phase", "src", "dst", "qp", "lane", "messages", "signals", "doorbells", "bytes_payload", "bytes_wire",
         "first_post_us", "last_done_us", "busy_us", "p50_us", "p99_us", "max_us"]


def dump(document, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def noise(*numbers):
    """Between 0 and 1, the same everywhere."""
    mixed = 1
    for number in numbers:
        mixed = (mixed * 6364136223846793005 + number * 1442695040888963407 + 11) % 2 ** 64
        mixed ^= mixed >> 29
    return (mixed >> 11) / 2 ** 53


# --- a large world ---

def phase(name, middle, ranks, samples):
    values = sorted(middle * (1 + 0.1 * noise(i, len(name))) for i in range(samples))
    one = {"name": name, "unit": "us", "reduction": "max over ranks per iteration", "n": samples,
           "median": values[samples // 2], "ci95": [values[samples // 4], values[3 * samples // 4]], "p95": values[-2],
           "p99": values[-1], "p99_is_max": True, "min": values[0], "max": values[-1], "mean": sum(values) / samples,
           "deviation": middle * 0.03, "slowest_rank": ranks - 1}
    if name in ("dispatch", "combine", "region"):
        one.update(samples=values, span=None, span_reason="made up")
    return one


def lane(kind, src, dst, qp):
    late = 40 if (src, dst, qp) == (3, 5, 1) else 1
    busy = late * (1 + noise(src, dst, qp))
    return [kind, src, dst, qp, "self" if src == dst else "qp", 4, 1, 2, 14336, 14400, busy, 3 * busy + src, busy,
            busy / 4, busy / 2, busy]


def lanes_of(ranks, qps):
    total = 2 * ranks * ranks * qps
    keys = ((kind, src, dst, qp) for kind in ("dispatch", "combine") for src in range(ranks) for dst in range(ranks)
            for qp in range(qps))
    table = {"matches_plan": True, "mismatch": None, "transport": "self, made up",
             "signal_order": {"used": "fence", "rounds": 64, "overtaken_without": 0}, "columns": LANES,
             "lanes_total": total}
    if total <= KEPT:
        rows = [lane(*key) for key in keys]
    else:
        step = total // SLOWEST
        rows = [lane(*key) for i, key in enumerate(keys) if i % step == 0][:SLOWEST]
        table["rank_columns"] = ["phase", "src", "messages", "signals", "doorbells", "bytes_payload", "bytes_wire"]
        table["rank_sums"] = [[kind, src, 4 * ranks, ranks, 2 * ranks, 14336 * ranks, 14400 * ranks]
                              for kind in ("dispatch", "combine") for src in range(ranks)]
    return dict(table, lanes_kept=len(rows), rows=rows)


def waits_of(ranks):
    most = 40  # sources of a rank; the files of a test stay small
    return {"columns": ["phase", "dst", "src", "sum_us", "max_us", "count"],
            "rows": [[kind, dst, src, 100 * noise(dst, src), 9 * noise(dst, src), 10]
                     for kind in ("dispatch", "combine") for dst in range(ranks)
                     for src in range(0, ranks, max(1, ranks // most))]}


def timeline_of(ranks):
    step = (ranks + 63) // 64
    kept = sorted(set(range(0, ranks, step)) | {ranks - 1})
    rows = []
    for rank in kept:
        at = 0.0 if rank == 0 else noise(rank)
        for i, name in enumerate(PARTS):
            length = 10 + 10 * noise(rank, i)
            rows.append([rank, name, at, at + length, length])
            at += length
    return {"iteration": 7, "chosen": "made up", "headline_us": 200.0, "clock_error_us": 0.5, "ranks_total": ranks,
            "ranks_kept": len(kept), "columns": ["rank", "phase", "begin_us", "end_us", "own_us"], "rows": rows}


def measure(cell, like):
    """A planned cell becomes a measured one; what is not of its size is that of `like`."""
    ranks, qps = cell["layout"]["tp"], max(cell["choices"]["qps_per_peer"], 1)
    for name in ("check", "phases", "rates", "overlap", "qps", "waits"):
        cell.pop(name + "_reason", None)
    for name in ("warmup", "sync", "trend", "trend_reason", "idle", "instrument", "instrument_reason", "check", "setup",
                 "overlap", "overlap_reason", "rates"):
        if name in like:
            cell[name] = like[name]
    names = PARTS + ["dispatch", "combine", "region"]
    cell.update(status="ok", reason=None, qps=lanes_of(ranks, qps), waits=waits_of(ranks), timeline=timeline_of(ranks),
                phases=[phase(name, 20.0 + len(name), ranks, 40) for name in names])
    cell["memory"].update(allocated_bytes=1, timed_allocations=0)


def grown(program, small, out, options):
    document = load(small)
    plan = json.loads(subprocess.check_output([program, "plan", "--json", "-"] + options))
    like = next(cell for cell in document["cells"] if cell["qps"])
    for cell in plan["cells"]:
        if cell["status"] == "planned":
            measure(cell, like)
    ranks = max(cell["layout"]["tp"] for cell in plan["cells"])
    one = document["topology"]["ranks"][0]
    document["topology"]["ranks"] = [dict(one, rank=rank) for rank in range(ranks)]
    document["run"]["launch"]["ranks"] = ranks
    document.update(cells=plan["cells"], setup=[])
    dump(document, out)


# --- strangers ---

EVIL = ["<script>alert(1)</script>", "\"' onmouseover=\"alert(2)\" x='", "=HYPERLINK(\"http://x\")", "+1+1", "@SUM(1)", "-2",
        "a|b|c", "`x` **b** [l](http://x)", "two\nlines\r\nthree", "tab\there", "</pre></style></svg>", "\\\"\\n", "a,b;c",
        "\u202e\u00e9\U0001f600" * 40, "%s%n%d", "{{}}", "</details>|", "http://example.com", "# EOF", "x" * 3000]


def evil(value, names, count=[0]):
    """Every text but those that a reader checks."""
    if isinstance(value, dict):
        return {name: member if name in names else evil(member, names) for name, member in value.items()}
    if isinstance(value, list):
        return [evil(member, names) for member in value]
    if isinstance(value, str):
        count[0] += 1
        return EVIL[count[0] % len(EVIL)]
    return value


def hostile(small, out):
    checked = {"schema", "status", "state", "phase", "columns", "component", "id", "rows", "mode", "phases"}
    dump(evil(load(small), checked), out)


def launches(small, folder, count):
    document = load(small)
    for launch in range(count):
        changed = copy.deepcopy(document)
        changed["run"]["id"] = "%016x" % (launch + 1)
        changed["run"]["started_utc"] = "2026-01-%02dT12:00:00Z" % (count - launch)
        for i, cell in enumerate(changed["cells"]):
            for entry in cell["phases"] or []:
                factor = 1 + 0.02 * noise(launch, i)
                for name in ("median", "min", "max", "p95", "p99"):
                    entry[name] *= factor
                entry["ci95"] = entry["ci95"] and [end * factor for end in entry["ci95"]]
        dump(changed, os.path.join(folder, "launch%d.json" % launch))


def main():
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == "grown":
        grown(arguments[0], arguments[1], arguments[2], arguments[3:])
    elif what == "hostile":
        hostile(*arguments)
    else:
        launches(arguments[0], arguments[1], int(arguments[2]))


if __name__ == "__main__":
    main()
