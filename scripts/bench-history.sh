#!/usr/bin/env bash
# How long compare and gate take on a long history: makes records that look like those of `run`, measures,
# prints a table, removes all of it. Times are of this machine as it is; never a test.
#
#   RECORDS=10000 CELLS=50 LANES=4 INDENT=0 scripts/bench-history.sh K3BENCH_BINARY
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: $0 K3BENCH_BINARY" >&2; exit 2; }
k3bench=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/k3bench-history.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

python3 - "${RECORDS:-10000}" "${CELLS:-50}" "${LANES:-4}" "${INDENT:-0}" <<'PYTHON'
import json, os, random, sys

records, cells, lanes = map(int, sys.argv[1:4])
columns = ["phase", "src", "dst", "qp", "lane", "messages", "signals", "doorbells", "bytes_payload", "bytes_wire",
           "first_post_us", "last_done_us", "busy_us", "p50_us", "p99_us", "max_us"]
phases = ["dispatch_send", "dispatch_wait", "expert_mlp", "combine_wait", "dispatch", "combine", "region"]
random.seed(1)

def cell(i):
    """A cell as text with @ where a time stands."""
    def phase(name):
        p = {"name": name, "unit": "us", "reduction": "max over ranks", "n": 10, "median": "@", "ci95": ["@", "@"], "p95": "@", "p99": "@",
             "p99_is_max": True, "min": "@", "max": "@", "mean": "@", "deviation": 0.5, "slowest_rank": 3}
        if name in ("dispatch", "combine", "region"):
            p["samples"] = ["@"] * 6
        return p
    rows = [["dispatch" if l % 2 else "combine", l % 8, (l + 1) % 8, l, "qp", 14, 4, 5, 50176, 51200, 0.5, "@", "@", 1.25, 3.5, 9.75] for l in range(lanes)]
    key = f"backend{i % 10}:ll/k3/kimi-k3-mini/tp8.dp2.cp1.ep8.n1/t{2 ** (i // 10)}.m32.equal/uniform.s1/registry.fast/deep_gemm.fp8.bf16/q14.ib.p2p/region"
    return json.dumps({
        "key": key, "backend": f"backend{i % 10}", "mode": "ll", "generation": "k3", "model": {"name": "kimi-k3-mini", "hidden": 1024, "latent": 512},
        "component": "region", "layout": {"tp": 8, "dp": 2, "cp": 1, "ep": 8, "nodes": 1}, "path": {"rule": "registry", "fast": True, "moves_rows": i % 10 != 0},
        "tokens": {"asked": 16, "min": 16, "max": 16, "total": 128, "bound": 32}, "status": "ok", "reason": None,
        "work": {"rows_global": 128, "rows_dispatched": 128, "routing_hash": "0123456789abcdef", "imbalance": {"expert": 1.5, "rank": 1.1, "qp": None}},
        "check": {"state": "ok", "rows_checked": 128, "max_rel_err": 0.001}, "phases": [phase(p) for p in phases],
        "rates": [{"name": "dispatch", "basis": b, "bytes": 1000, "GBps": 0.5} for b in ("assignment", "deduplicated", "wire")],
        "qps": {"matches_plan": True, "transport": "self, mapped", "columns": columns, "lanes_total": lanes, "lanes_kept": lanes, "rows": rows},
        "waits": {"columns": ["phase", "dst", "src", "sum_us", "max_us", "count"], "rows": [["dispatch", d, 0, 5.5, 1.5, 10] for d in range(4)]},
        "memory": {"buffers_bytes": 10 ** 6, "expert_weights_bytes": 10 ** 7, "shared_expert_bytes": 10 ** 5}}, indent=int(sys.argv[4]) or None)

texts = [cell(i).split('"@"') for i in range(cells)]
os.mkdir("past")
for r in range(records):
    body = ",".join(f"{100 * (1 + i) * random.uniform(0.98, 1.02):.7g}".join(t) for i, t in enumerate(texts))
    stamp = f"{2000 + r // 10080:04d}-{1 + r // 840 % 12:02d}-{1 + r // 30 % 28:02d}T{r % 30 // 2:02d}:{30 * (r % 2):02d}:00Z"
    with open(f"past/{r:06d}.json", "w") as f:
        f.write('{"schema": "k3bench.result/1", "run": {"id": "%016x", "started_utc": "%s", "git_sha": "%07x"}, '
                '"fingerprint": {"key": "0000000000000001", "stable": {"cores": 8}}, "cells": [%s]}' % (r, stamp, r // 50, body))
PYTHON
echo "$(find past -name '*.json' | wc -l) records, $(du -sm past | cut -f1) MB"

# measure NAME COMMAND...: seconds, processor time and peak memory; a verdict (exit 1) is a result.
measure() {
    local name=$1
    shift
    python3 - "$name" "$@" <<'PYTHON'
import resource, subprocess, sys, time

begin = time.monotonic()
code = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL).returncode
seconds = time.monotonic() - begin
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{sys.argv[1]:44} {seconds:7.2f} s {used.ru_utime + used.ru_stime:7.2f} s of processors {used.ru_maxrss / 1024:6.0f} MB", flush=True)
sys.exit(code if code > 1 else 0)
PYTHON
}

all=(past/*.json)
half=$((${#all[@]} / 2))
measure "gate --rebuild" "$k3bench" gate --history past --rebuild
"$k3bench" gate --history past --promote --why bench "${all[@]:0:8}" >/dev/null
measure "gate, 8 new records" "$k3bench" gate --history past "${all[@]: -8}"
touch "${all[0]}"
measure "gate, 8 new records, one file to index" "$k3bench" gate --history past "${all[@]: -8}"
measure "compare, one half against the other" "$k3bench" compare "${all[@]:0:half}" -- "${all[@]:half}"
