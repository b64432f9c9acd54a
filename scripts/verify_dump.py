#!/usr/bin/env python3
"""Recomputes a dump of `k3bench run --dump DIR` with NumPy, and knows nothing of k3bench but the files.

verify_dump.py DIR    prints the largest error of each stage; exit 0: all right, 1: a stage is wrong,
                      2: the folder cannot be verified

Each stage starts from the dumped values of the one before it, so that a fault shows where it arises.
Errors: of an element |got - want| / max(|want|, rms of the wanted row), of a row rms(got - want) /
rms(want). Everything is computed in f64 and rounded where the README of the dump says so; what
remains are sums in another order, which may flip a rounding here and there.
"""

import json
import os
import sys

import numpy as np

# Largest error of an element and of a row. bf16 has 8 bits: a flipped rounding moves an element by 2^-7 at
# most; in combined a code of the middle format may flip too.
LIMITS = {"logits": (2e-5, 1e-5), "weights": (1e-5, 1e-5), "latent": (2 ** -7, 2 ** -9),
          "combined": (2e-2, 6e-3), "output": (2 ** -6, 2 ** -8)}


class Unverifiable(Exception):
    pass


# --- formats ------------------------------------------------------------------------------------------


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def bf16(x):
    """Nearest bf16 value, ties to even."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32).astype(np.float64)


def small_floats(exponent_bits, fraction_bits, bias):
    """Magnitudes of a small float by code."""
    values = []
    for code in range(1 << (exponent_bits + fraction_bits)):
        exponent, fraction = code >> fraction_bits, code & ((1 << fraction_bits) - 1)
        if exponent == 0:
            values.append(fraction * 2.0 ** (1 - bias - fraction_bits))
        else:
            values.append((1 + fraction / 2 ** fraction_bits) * 2.0 ** (exponent - bias))
    return np.array(values)


E4M3 = small_floats(4, 3, 7)[:127]  # the last code is no number
E2M1 = small_floats(2, 1, 1)


def nearest_code(x, table):
    """Code of the nearest magnitude, ties to the even code, saturating."""
    x = np.minimum(np.abs(x), table[-1])
    above = np.clip(np.searchsorted(table, x), 1, len(table) - 1)
    below = above - 1
    to_below, to_above = x - table[below], table[above] - x
    down = (to_below < to_above) | ((to_below == to_above) & (below % 2 == 0))
    return np.where(down, below, above)


def power_scales(amax, exponent):
    """E8M0 codes of 2^exponent, the smallest for zero."""
    return np.where(amax == 0, 0, np.clip(exponent + 127, 0, 254)).astype(np.int64)


def quantise(rows, kind):
    """Rows through a format: values, bytes of the values, bytes of the scales."""
    rows = np.asarray(rows, dtype=np.float64)
    n, width = rows.shape
    if kind == "bf16":
        bits = np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32) >> 16
        return rows, bits.astype("<u2").view(np.uint8).reshape(n, -1), np.zeros((n, 0), np.uint8)
    group = {"fp8": 128, "mxfp8": 32, "mxfp4": 32, "int8": width}.get(kind)
    if group is None:
        raise Unverifiable("the format %s is not known here" % kind)
    x = np.pad(rows, ((0, 0), (0, -width % group))).reshape(n, -1, group)  # the last group may be short
    amax = np.abs(x).max(axis=2)
    fraction, exponent = np.frexp(amax)
    if kind in ("fp8", "int8"):
        limit = np.float32(448 if kind == "fp8" else 127)
        low = np.maximum(amax, 1e-4) if kind == "fp8" else np.where(amax == 0, 127, amax)
        scale = low.astype(np.float32) / limit
        scale_bytes = np.ascontiguousarray(scale, dtype="<f4").view(np.uint8).reshape(n, -1)
    else:
        shift = np.where(fraction <= 0.875, 9, 8) if kind == "mxfp8" else 3
        codes = power_scales(amax, exponent - shift)
        scale = np.exp2(codes - 127.0).astype(np.float32)
        scale_bytes = codes.astype(np.uint8)
    quotient = (x.astype(np.float32) / scale[:, :, None]).astype(np.float64)
    negative = np.signbit(quotient)
    if kind == "int8":
        whole = np.clip(np.rint(quotient), -127, 127)
        values, codes = whole, whole.astype(np.int8).view(np.uint8)
    else:
        table = E2M1 if kind == "mxfp4" else E4M3
        codes = nearest_code(quotient, table)
        values = np.where(negative, -table[codes], table[codes])
        codes = codes + np.where(negative, 8 if kind == "mxfp4" else 128, 0)
    values = (values.astype(np.float32) * scale[:, :, None]).astype(np.float64).reshape(n, -1)[:, :width]
    codes = codes.reshape(n, -1)[:, :width].astype(np.uint8)
    if kind == "mxfp4":
        codes = codes[:, 0::2] | codes[:, 1::2] << 4
    return values, codes, scale_bytes


def unpack(packed, scales):
    """MXFP4: two E2M1 codes a byte, low nibble first; E8M0 for 32 columns."""
    signed = np.concatenate([E2M1, -E2M1])
    values = np.stack([signed[packed & 15], signed[packed >> 4]], axis=-1)
    values = values.reshape(packed.shape[0], -1)
    return values * np.repeat(np.exp2(scales.astype(np.float64) - 127), 32, axis=1)


# --- the dump -----------------------------------------------------------------------------------------


class Dump:
    def __init__(self, folder):
        self.folder = folder
        try:
            with open(os.path.join(folder, "dump.json"), encoding="utf-8") as file:
                self.about = json.load(file)
        except (OSError, ValueError) as fault:
            raise Unverifiable("%s: no dump: %s" % (folder, fault)) from None
        if self.about.get("schema") != "k3bench.dump/1":
            raise Unverifiable("schema %s is not k3bench.dump/1" % self.about.get("schema"))

    def raw(self, name):
        try:
            return np.load(os.path.join(self.folder, name + ".npy"), allow_pickle=False)
        except (OSError, ValueError) as fault:
            raise Unverifiable("%s.npy: %s" % (name, fault)) from None

    def bf16(self, name):
        return from_bf16(self.raw(name))


# --- the region ---------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def activate(kind, gate, up):
    if kind == "situ":
        return 4 * np.tanh(gate / 4) * sigmoid(gate) * 25 * np.tanh(up / 25)
    return gate * sigmoid(gate) * up


def expected_weights(logits, ids):
    score = np.where(ids >= 0, sigmoid(np.take_along_axis(logits, np.maximum(ids, 0), axis=1)), 0)
    return score / (score.sum(axis=1, keepdims=True) + 1e-20)


def check_gate(dump, logits, ids):
    """Where the router itself chose: the K largest of sigmoid + bias, ties to the lower id; scores that differ
    in the last bits of f32 may change places."""
    if dump.about["routing"] != "gate":
        return []
    score = sigmoid(logits) + dump.raw("bias").astype(np.float64)
    wrong = []
    for row, chosen in enumerate(ids):
        rest = np.delete(score[row], chosen)
        if score[row][chosen].min() < rest.max() - 1e-5:
            wrong.append("ids: row %d does not hold the experts of the highest scores" % row)
    return wrong


def check_arrived(dump, latent, ids):
    """Every rank got, for each expert it holds, exactly the bytes of the rows that chose it."""
    _, values, scales = quantise(latent, dump.about["dispatch_dtype"])
    sent = np.concatenate([values, scales], axis=1)
    got = dump.raw("arrived_values")
    if scales.shape[1] > 0:
        got = np.concatenate([got, dump.raw("arrived_scales")], axis=1)
    rank, expert = dump.raw("arrived_rank"), dump.raw("arrived_expert")
    row, k = np.nonzero(ids >= 0)
    chosen = ids[row, k]
    wrong = []
    for r, about in enumerate(dump.about["ranks"]):
        held = (chosen >= about["first_expert"]) & (chosen < about["first_expert"] + about["experts"])
        want = sorted((int(e), sent[i].tobytes()) for e, i in zip(chosen[held], row[held]))
        have = sorted((int(e), line.tobytes())
                      for e, line in zip(expert[rank == r], got[rank == r]))
        times = len(have) // len(want) if want else 1
        if have != sorted(want * times) or (want and times == 0):
            wrong.append("arrived: rank %d got other rows than chose its experts (%d of %d)" %
                         (r, len(have), len(want)))
    return wrong


class Experts:
    def __init__(self, dump):
        self.about = dump.about
        self.packed = [dump.raw(name) for name in ("w1", "w3", "w2")]
        self.scales = [dump.raw(name + "_scale") for name in ("w1", "w3", "w2")]
        self.known = {}

    def matrices(self, expert):
        if expert not in self.known:
            self.known[expert] = [unpack(p[expert], s[expert])
                                  for p, s in zip(self.packed, self.scales)]
        return self.known[expert]

    def run(self, expert, x, weights, begin, end):
        """The slice [begin, end) of the intermediate width."""
        recipe = self.about["recipe"]
        w1, w3, w2 = self.matrices(expert)
        gate, up = x @ w1[begin:end].T, x @ w3[begin:end].T
        if recipe["round_gate_up"]:
            gate, up = bf16(gate), bf16(up)
        middle = bf16(activate(self.about["activation"], gate, up) * weights[:, None])
        middle, _, _ = quantise(middle, recipe["middle"])
        return bf16(middle @ w2[:, begin:end].T)


def expert_inputs(about, latent):
    x, _, _ = quantise(latent, about["dispatch_dtype"])
    if about["dispatch_dtype"] != about["recipe"]["input"]:
        x, _, _ = quantise(bf16(x), about["recipe"]["input"])
    return x


def way_back(about, rows):
    if about["combine_dtype"] == "bf16":
        return rows
    return bf16(quantise(rows, about["combine_dtype"])[0])


def part_of_rank(dump, experts, about, x, ids, weights):
    """What the experts of one rank add to each row, in f32."""
    rule = dump.about["combine_rule"]
    total = np.zeros((len(ids), x.shape[1]), dtype=np.float32)
    results = {}
    for e in range(about["first_expert"], about["first_expert"] + about["experts"]):
        row, k = np.nonzero(ids == e)
        if len(row):
            inside = weights[row, k] if rule == "slots" else np.ones(len(row))
            y = experts.run(e, x[row], inside, *about["slice"])
            y = way_back(dump.about, y) if rule in ("origin", "slots") else y
            results.update({(i, j): line for i, j, line in zip(row, k, y)})
    for i, j in sorted(results):
        factor = np.float32(1 if rule == "slots" else weights[i, j])
        total[i] += (factor * results[i, j].astype(np.float32)).astype(np.float32)
    return total


def expected_combined(dump, latent, ids, weights):
    about = dump.about
    if about["combine_rule"] == "nothing":
        return np.zeros_like(latent)
    experts, x = Experts(dump), expert_inputs(about, latent)
    parts = [part_of_rank(dump, experts, r, x, ids, weights) for r in about["ranks"]]
    if about["combine_rule"] in ("origin", "slots"):
        return bf16(sum(p.astype(np.float64) for p in parts))
    parts = [way_back(about, bf16(p)) for p in parts]
    if about["combine_rule"] == "nodes":
        nodes = [r["node"] for r in about["ranks"]]
        parts = [way_back(about, bf16(sum(p for p, at in zip(parts, nodes) if at == node)))
                 for node in sorted(set(nodes))]
    return bf16(sum(parts))


def expected_output(dump, hidden, combined):
    about, routed = dump.about, combined
    if about["latent_step"]:
        rms = np.sqrt((combined ** 2).mean(axis=1, keepdims=True) + 1e-5)
        routed = bf16(bf16(combined / rms * dump.bf16("latent_norm")) @ dump.bf16("latent_up").T)
    if not about["shared_slices"]:
        return routed
    gate, up, down = (dump.bf16("shared_" + name) for name in ("gate", "up", "down"))
    middle = bf16(activate(about["activation"], bf16(hidden @ gate.T), bf16(hidden @ up.T)))
    shared = sum(bf16(middle[:, b:e] @ down[:, b:e].T) for b, e in about["shared_slices"])
    return bf16(routed + bf16(shared))


# --- judging ------------------------------------------------------------------------------------------


def judge(stage, got, want):
    if got.shape != want.shape:
        raise Unverifiable("%s has the shape %s, %s is needed" % (stage, got.shape, want.shape))
    if got.size == 0:
        return []
    rms = np.sqrt((want ** 2).mean(axis=1, keepdims=True))
    floor = np.maximum(rms, 1e-30)
    element = np.where(got == want, 0, np.abs(got - want) / np.maximum(np.abs(want), floor))
    element = np.nan_to_num(element, nan=np.inf)
    row = np.sqrt(np.where(got == want, 0, (got - want) ** 2).mean(axis=1)) / floor[:, 0]
    row = np.nan_to_num(row, nan=np.inf)
    limits = LIMITS[stage]
    wrong = element.max() > limits[0] or row.max() > limits[1]
    print("%-9s largest error: element %.3g (limit %.3g), row %.3g (limit %.3g)%s" %
          (stage, element.max(), limits[0], row.max(), limits[1], "  WRONG" if wrong else ""))
    at = np.unravel_index(element.argmax(), element.shape)
    return ["%s: row %d, element %d: %.6g, recomputed %.6g" % (stage, at[0], at[1], got[at], want[at])
            ] if wrong else []


def verify(folder):
    dump = Dump(folder)
    hidden, latent, combined = dump.bf16("hidden"), dump.bf16("latent"), dump.bf16("combined")
    logits, weights = (dump.raw(name).astype(np.float64) for name in ("logits", "weights"))
    ids = dump.raw("ids")
    print("%s\n%d rows, iteration %d" % (dump.about["key"], len(ids), dump.about["iteration"]))
    wrong = judge("logits", logits, hidden @ dump.bf16("gate").T)
    wrong += check_gate(dump, logits, ids)
    wrong += judge("weights", weights, expected_weights(logits, ids))
    wrong += judge("latent", latent, bf16(hidden @ dump.bf16("latent_down").T)
                   if dump.about["latent_step"] else hidden)
    if dump.about["combine_rule"] != "nothing":
        wrong += check_arrived(dump, latent, ids)
    wrong += judge("combined", combined, expected_combined(dump, latent, ids, weights))
    wrong += judge("output", dump.bf16("output"), expected_output(dump, hidden, combined))
    for line in wrong:
        print("wrong: " + line)
    print("verified" if not wrong else "%d faults" % len(wrong))
    return 1 if wrong else 0


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    try:
        return verify(sys.argv[1])
    except (Unverifiable, KeyError, IndexError, TypeError, ValueError) as fault:
        print("verify_dump.py: %s: %s" % (type(fault).__name__, fault), file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
