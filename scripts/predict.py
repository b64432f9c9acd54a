#!/usr/bin/env python3
"""Holds the predictions of `k3bench plan` against results/published/numbers.csv.

predict.py K3BENCH          the table, by the constants in the program, and the error of each series by constants
                            that were fitted to all others (one step from the constants in the program)
predict.py K3BENCH --fit    fits the constants first, and prints them

Time is compared, in us; a rate is turned into a time with the bytes of its basis. A series is one backend:mode on
one machine, phase and source. Standard library only.
"""

import collections
import concurrent.futures
import csv
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONSTANTS = {  # name: starting value; the program's own are read by a plan without them
    "launch_us": 8.0, "scaleup_latency_us": 2.0, "network_latency_us": 10.0, "message_us": 0.02, "signal_us": 0.02,
    "store_message_us": 0.004, "scaleup_share": 0.7, "nic_share": 0.9, "memory_share": 0.5, "weights_share": 0.6,
    "gemm_share": 0.5, "expert_us": 20.0, "feed_gbps": 45.0, "unpack_gps": 16.0,
}
NAMES = list(CONSTANTS)
STEP = 1.1

MACHINES = [("H800", "h800"), ("H200", "h200"), ("H100", "h100"), ("Hopper", "h100"), ("H20", "h20"),
            ("GB200", "gb200"), ("GB300", "gb300"), ("B200", "b200"), ("Blackwell", "b200"), ("B300", "b300"),
            ("MI300X", "mi300x"), ("MI355X", "mi355x")]
PROFILES = {("deepep", "low_latency"): "deepep:ll", ("deepep", "normal"): "deepep:normal",
            ("deepep_v2", "direct"): "deepep_v2:direct", ("deepep_v2", "v2_default"): "deepep_v2:hybrid",
            ("uccl_ep", "low_latency"): "uccl", ("uccl_ep", "normal"): "deepep:normal",
            ("mori", "intranode"): "mori:intra", ("mori", "internode_v1"): "mori:v1",
            ("mori", "internode_v1ll"): "mori:v1ll", ("pplx", "nvlink"): "pplx", ("pplx", "ibgda"): "pplx",
            ("trtllm_nvlink", "one_sided"): "flashinfer", ("trtllm_nvlink", "two_sided"): "flashinfer",
            ("megamoe", "fp8xfp4"): "megamoe", ("megamoe", "fp8xfp8"): "megamoe", ("megamoe", "w4a8"): "megamoe"}


def machine_of(row):
    return next((name for text, name in MACHINES if text in row["hardware"]), None)


def top4_trace(path, ranks, tokens, experts, topk):
    """Rows whose experts lie in at most 4 of 8 equal groups, as DeepEP's test draws them."""
    import random
    rng = random.Random(1)
    group = experts // 8
    with open(path, "wb") as f:
        head = "{'descr': '<i4', 'fortran_order': False, 'shape': (%d, %d), }" % (ranks * tokens, topk)
        head += " " * (-(len(head) + 11) % 64) + "\n"
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        for _ in range(ranks * tokens):
            groups = rng.sample(range(8), 4)
            picked = rng.sample(range(4 * group), topk)
            f.write(struct.pack("<%di" % topk, *[groups[p // group] * group + p % group for p in picked]))


def model_of(row):
    h, e, k = row["hidden"], row["experts"] or "256", row["topk"] or "8"
    inter = row["intermediate"]
    if h == "3584":
        return "kimi-k3"
    if row["mode"] == "fp8xfp4":
        return "deepseek-v4-flash"
    text = "deepseek-v3:E=%s,K=%s,H=%s,L=%s" % (e, k, h, h)
    return text + (",I=" + inter if inter else "")


def arguments_of(row, work):
    """(options of plan, phase) or (None, reason)."""
    machine = machine_of(row)
    if machine is None:
        return None, "no machine file"
    if row["phase"] in ("allreduce", "reducescatter", "allgather", "alltoall"):
        return None, "collective of a library: no dispatch plan"
    if not row["tokens_per_rank"] or not row["hidden"]:
        return None, "shape not stated"
    ranks, tokens = int(row["ranks"]), int(row["tokens_per_rank"])
    phase = row["phase"]
    args = ["--machine", machine, "--model", model_of(row), "--generation", "k3", "--tp", str(ranks),
            "--tokens", str(tokens)]
    if phase == "expert_mlp":
        if row["mode"].startswith("bf16"):
            return None, "bf16 weights: no model has them"
        ep = row["mode"].split("_ep")[-1]
        runner = "marlin" if "w4a16" in row["mode"] else "flashinfer_mxfp4"
        return args + ["--backend", "none", "--ep", ep, "--runner", runner, "--tokens-skew", "all-but-one-empty",
                       "--counting", "expected", "--component", "experts"], phase
    profile = PROFILES.get((row["backend"], row["mode"]))
    if profile is None:
        return None, "no profile"
    if row["backend"] == "uccl_ep" and row["mode"] == "normal":
        pass  # the same calls and plan as deepep:normal, carried by CPU proxies
    args += ["--backend", profile, "--component", "region" if phase == "region" else "pair"]
    if profile == "pplx":
        args += ["--dp", str(ranks)]
    types = {"fp8": "fp8", "bf16": "bf16", "mxfp8": "mxfp8"}
    if row["dispatch_dtype"] in types and profile not in ("megamoe", "flashinfer"):
        args += ["--dispatch-dtype", types[row["dispatch_dtype"]]]
    if "top4" in row["tags"] and ranks > 8:
        path = os.path.join(work, "top4-%d-%d.npy" % (ranks, tokens))
        if not os.path.exists(path):
            top4_trace(path, ranks, tokens, int(row["experts"] or 256), int(row["topk"]))
        args += ["--routing", "trace:" + path]
    else:
        args += ["--counting", "expected" if profile != "deepep:normal" else "auto"]
    return args, "moe" if phase == "region" else phase


def bytes_of(row, cell):
    """What the published rate counts, of one rank."""
    h, k, tokens = int(row["hidden"]), int(row["topk"]), int(row["tokens_per_rank"])
    fp8 = h + h // 32
    one = 2 * h if row["phase"] == "combine" or row["dispatch_dtype"] == "bf16" else fp8
    distinct = cell["work"]["distinct"]
    basis = row["byte_basis"]
    if basis == "assignment":
        return tokens * k * one
    if basis == "assignment+header":
        return tokens * k * (fp8 + 16)
    if basis == "received_rows":
        return tokens * distinct["ranks"] * one
    if basis == "node_dedup_own_incl":
        return tokens * distinct["nodes"] * one
    return None


class Points:
    def __init__(self, bin_, rows, work):
        self.bin, self.work, self.points, self.left_out = bin_, work, [], []
        for row in rows:
            args, phase = arguments_of(row, work)
            if args is None:
                self.left_out.append((row, phase))
            else:
                self.points.append({"row": row, "args": args, "phase": phase})

    def machine_file(self, name, values):
        path = os.path.join(self.work, name + ".ini")
        with open(os.path.join(ROOT, "results", "machines", name + ".ini")) as source, open(path, "w") as out:
            out.write("".join(line for line in source if line.split(" ")[0] not in values))
            for constant, value in values.items():
                out.write("%s = %.9g | decided: fit\n" % (constant, value))
        return path

    def plan(self, point, values, jacobian):
        args = list(point["args"])
        if values:
            args[1] = os.path.join(self.work, args[1] + ".ini")
        if jacobian:
            args += ["--what-if", ",".join("%s=%.9g" % (n, values[n] * STEP) for n in NAMES)]
        done = subprocess.run([self.bin, "plan", "--json", "-"] + args, capture_output=True, text=True)
        if done.returncode != 0:
            return done.stderr.strip().split("error: ")[-1]
        return json.loads(done.stdout)["cells"][0]

    def evaluate(self, values, jacobian=False):
        """Fills in predicted us (and its logarithmic derivatives)."""
        if values:
            for name in {m for _, m in MACHINES}:
                self.machine_file(name, values)
        unique = {tuple(p["args"]): p for p in self.points}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            planned = dict(zip(unique, pool.map(lambda p: self.plan(p, values, jacobian), unique.values())))
        cells = [planned[tuple(p["args"])] for p in self.points]
        kept = []
        for point, cell in zip(self.points, cells):
            if isinstance(cell, str):
                self.left_out.append((point["row"], cell))
                continue
            phase = next((p for p in cell["prediction"]["phases"] if p["name"] == point["phase"]), None)
            measured = measured_us(point["row"], cell)
            if phase is None or not measured:
                self.left_out.append((point["row"], "rate of a basis that is not stated" if phase else "no prediction"))
                continue
            point.update(us=phase["us"], bound=phase["bound_by"], measured=measured)
            if jacobian:
                point["slope"] = []
                for rule in cell["what_if"][:len(NAMES)]:
                    after = next(p["after"] for p in rule["phases"] if p["name"] == point["phase"])
                    point["slope"].append(math.log(after / phase["us"]) / math.log(STEP))
            kept.append(point)
        self.points = kept


def measured_us(row, cell):
    if row["time_us"]:
        return float(row["time_us"])
    counted = bytes_of(row, cell)
    return counted / float(row["bandwidth_GBps"]) * 1e-3 if counted and row["bandwidth_GBps"] else None


UNEXPLAINED = [  # not fitted to: the model has no term for what is suspected; in the table all the same
    (lambda r: "EFA" in r["hardware"], "EFA: unordered transport, messages posted and ordered by software"),
    (lambda r: r["backend"] == "uccl_ep", "CPU proxies post the messages of the GPU"),
    (lambda r: r["backend"] == "trtllm_nvlink", "the planned format is bf16; fp8 or nvfp4 was measured"),
]


def reason_of(row):
    return next((why for holds, why in UNEXPLAINED if holds(row)), None)


def series_of(row):
    return "%s:%s %s %s, %s" % (row["backend"], row["mode"], row["hardware"].split(",")[0].split(" + ")[0].split(" (")[0],
                                row["phase"], row["source"].split(" ")[0].split("/")[-1])


def solve(a, b):
    n = len(b)
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(a[r][i]))
        a[i], a[pivot], b[i], b[pivot] = a[pivot], a[i], b[pivot], b[i]
        for r in range(i + 1, n):
            f = a[r][i] / a[i][i]
            for c in range(i, n):
                a[r][c] -= f * a[i][c]
            b[r] -= f * b[i]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (b[i] - sum(a[i][c] * x[c] for c in range(i + 1, n))) / a[i][i]
    return x


def step(points, damping):
    """One damped Gauss-Newton step of the logarithms, each series with the same weight, large errors with less."""
    points = [p for p in points if reason_of(p["row"]) is None]
    sizes = collections.Counter(series_of(p["row"]) for p in points)
    n = len(NAMES)
    a = [[0.0] * n for _ in range(n)]
    b = [0.0] * n
    for p in points:
        r = math.log(p["measured"] / p["us"])
        w = 1 / math.sqrt(sizes[series_of(p["row"])]) / max(abs(r), 0.1)
        for i in range(n):
            b[i] += w * p["slope"][i] * r
            for j in range(n):
                a[i][j] += w * p["slope"][i] * p["slope"][j]
    for i in range(n):
        a[i][i] += damping
    return [max(-0.7, min(0.7, d)) for d in solve(a, b)]


def moved(values, steps):
    new = {}
    for name, d in zip(NAMES, steps):
        new[name] = values[name] * math.exp(d)
        if name.endswith("_share"):
            new[name] = min(new[name], 1.0)
    return new


def fit(points, values, rounds=3):
    for i in range(rounds):
        points.evaluate(values, jacobian=True)
        sys.stderr.write("round %d: %s\n" % (i, summary([p["us"] / p["measured"] for p in points.points])))
        values = moved(values, step(points.points, 1.0))
        sys.stderr.write("  " + ", ".join("%s %.4g" % item for item in values.items()) + "\n")
    return values


def summary(ratios):
    errors = sorted(abs(r - 1) for r in ratios)
    inside = sum(e <= 0.35 for e in errors) / len(errors)
    return "%d points, median absolute error %.0f %%, %.0f %% within 35 %%, 80 %% within %.0f %%" % (
        len(errors), 100 * errors[len(errors) // 2], 100 * inside, 100 * errors[int(0.8 * len(errors))])


def leave_one_out(points):
    """The ratio of each point by a step of the constants that its series took no part in."""
    groups = collections.defaultdict(list)
    for p in points:
        groups[series_of(p["row"])].append(p)
    for name, own in groups.items():
        steps = step([p for p in points if series_of(p["row"]) != name], 1.0)
        for p in own:
            p["left"] = p["us"] * math.exp(sum(s * d for s, d in zip(p["slope"], steps))) / p["measured"]
    return groups


def table(groups):
    print("| series | points | tokens | predicted us | measured us | predicted / measured | left out | bound by |")
    print("|---|---|---|---|---|---|---|---|")
    for name in sorted(groups):
        own = sorted(groups[name], key=lambda p: (int(p["row"]["ranks"]), int(p["row"]["tokens_per_rank"])))
        for p in (own if len(own) <= 2 else [own[0], own[len(own) // 2], own[-1]]):
            print("| %s, %s ranks | %d | %s | %.0f | %.0f | %.2f | %.2f | %s |" % (
                name, p["row"]["ranks"], len(own), p["row"]["tokens_per_rank"], p["us"], p["measured"],
                p["us"] / p["measured"], p["left"], p["bound"]))


def main():
    bin_ = sys.argv[1]
    with open(os.path.join(ROOT, "results", "published", "numbers.csv")) as f:
        rows = [r for r in csv.DictReader(f) if r["quality"] == "ok"]
    with tempfile.TemporaryDirectory() as work:
        points = Points(bin_, rows, work)
        values = program_constants(bin_)
        if "--fit" in sys.argv:
            values = fit(points, values)
            for name in NAMES:
                print("%-20s %.4g" % (name, values[name]))
        points.evaluate(values, jacobian=True)
        groups = leave_one_out(points.points)
        table(groups)
        print("\nby the constants of the program: " + summary([p["us"] / p["measured"] for p in points.points]))
        print("each series left out: " + summary([p["left"] for p in points.points]))
        fitted = [p for p in points.points if reason_of(p["row"]) is None]
        print("of those that are fitted, by the constants of the program: "
              + summary([p["us"] / p["measured"] for p in fitted]))
        print("of those that are fitted, each series left out: " + summary([p["left"] for p in fitted]))
        print("\nsuspected reasons:")
        for holds, why in UNEXPLAINED:
            own = [p["us"] / p["measured"] for p in points.points if holds(p["row"])]
            print("- %d points: %s; predicted / measured %.2f to %.2f" % (len(own), why, min(own), max(own)))
        reasons = collections.Counter("%s: %s" % (series_of(r), why[:100]) for r, why in points.left_out)
        print("\nnot predicted:")
        for why, count in sorted(reasons.items()):
            print("- %d points of %s" % (count, why))


def program_constants(bin_):
    done = subprocess.run([bin_, "plan", "--machine", "h200", "--json", "-"], capture_output=True, text=True, check=True)
    constants = json.loads(done.stdout)["cells"][0]["prediction"]["constants"]
    return {n: constants[n] for n in NAMES}


if __name__ == "__main__":
    main()
