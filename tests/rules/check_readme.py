#!/usr/bin/env python3
"""The tables of README.md that repeat the registry are what `k3bench list --json` says.

check_readme.py README K3BENCH           exit 1 and the right table where one differs
check_readme.py README K3BENCH --write   puts the right tables in

A table stands between the lines <!-- TOPIC: begin --> and <!-- TOPIC: end -->.
"""

import json
import os
import re
import subprocess
import sys


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def queue_pairs(row):
    count, param = row["qps"]["count"], row["qps"]["param"]
    return {"zero": "none", "per_local_expert": "E/R", "share": "%d/R" % param}.get(count, str(param))


def formats(row):
    default = row["rows"]["dispatch_auto"]
    others = [f for f in row["rows"]["dispatch_formats"].split(",") if f != default]
    return ", ".join([default] + others)


def backends(data):
    rows = [["`%s`" % b["name"], b["state"], b["engine"], b["rows"]["copy"].replace("_", " "),
             queue_pairs(b), formats(b), b["notes"]] for b in data["backends"]]
    rows.sort(key=lambda row: row[1] != "available")
    return table(["backend", "state", "engine", "copies", "QPs per peer", "dispatch formats", "notes"], rows)


def paths(data):
    return table(["rule", "what"], [["`%s`" % p["name"], p["what"]] for p in data["paths"]])


def models(data):
    rows = [["`%s`" % m["name"]] + [m[k] for k in ("hidden", "latent", "experts", "topk", "intermediate",
                                                   "shared")] for m in data["models"]]
    return table(["model", "H", "L", "E", "K", "I", "S"], rows)


def runners(data):
    rows = [["`%s`" % r["name"], r["recipe"]["name"], ", ".join(r["rows"]), ", ".join(r["weights"]),
             ", ".join(r["layouts"]) or "its own kernel",
             r["recipe"]["input"], "bf16" if r["recipe"]["round_gate_up"] else "f32",
             r["recipe"]["middle"]] for r in data["runners"]]
    return table(["runner", "recipe", "rows as is", "weights", "dispatch layouts", "input", "gate, up", "middle"], rows)


TOPICS = {"backends": backends, "runners": runners, "paths": paths, "models": models}


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    wrong = 0
    # The program takes K3BENCH_NAME for options, and refuses what is none (K3BENCH_TEST_LONG of the tests).
    environment = {name: value for name, value in os.environ.items() if not name.startswith("K3BENCH_")}
    for topic, make in TOPICS.items():
        output = subprocess.check_output([sys.argv[2], "list", topic, "--json"], env=environment)
        right = make(json.loads(output))
        place = re.compile(r"(<!-- %s: begin -->\n)(.*?)(<!-- %s: end -->)" % (topic, topic), re.DOTALL)
        match = place.search(text)
        if match is None:
            print("%s: no table of %s" % (sys.argv[1], topic))
            wrong += 1
        elif match.group(2) != right:
            print("%s: the table of %s should be\n%s" % (sys.argv[1], topic, right))
            text = place.sub(lambda m: m.group(1) + right + m.group(3), text)
            wrong += 1
    if wrong and sys.argv[3:] == ["--write"]:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    print("readme: %d tables, %d violations" % (len(TOPICS), wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
