#!/usr/bin/env python3
"""Holds the lines of JSON that test_scipy.c writes against scipy, to 1e-12. Exit 77: no scipy here."""
import itertools
import json
import math
import os
import sys

try:
    import numpy as np
    from scipy import stats
except ImportError:
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    print("skipped: no scipy here")
    sys.exit(77)

bad = compared = 0


def near(what, got, want):
    global bad, compared
    compared += 1
    if not (got == want or abs(got - want) <= 1e-12 * max(abs(want), 1e-300)):
        print(f"{what}: {got!r}, scipy has {want!r}")
        bad += 1


def ways_of_sums(ranks, taken=None):
    """How many choices of the ranks (of `taken` of them, or of any number) have each sum; whole numbers."""
    table = {(0, 0): 1}
    for rank in ranks:
        for (k, s), count in list(table.items()):
            if taken is None or k < taken:
                key = (k + 1 if taken is not None else 0, s + rank)
                table[key] = table.get(key, 0) + count
    sums = {}
    for (k, s), count in table.items():
        if taken is None or k == taken:
            sums[s] = sums.get(s, 0) + count
    return sums


def two_sided(sums, at):
    total = sum(sums.values())
    below = sum(c for s, c in sums.items() if s <= at)
    above = sum(c for s, c in sums.items() if s >= at)
    return min(1.0, 2 * min(below, above) / total)


def rank_of_bound(sums, least, most):
    """The largest k with P(sum < least + k) <= 2.5 %."""
    total, below, k = sum(sums.values()), 0, 0
    for s in range(least, most):
        below += sums.get(s, 0)
        if 40 * below > total:
            break
        k = s - least + 1
    return k


def rank_sum_p(a, b):
    both = np.concatenate([a, b])
    if len(both) > 60:
        return stats.mannwhitneyu(b, a, alternative="two-sided", method="asymptotic").pvalue
    if len(set(both)) == len(both):
        return stats.mannwhitneyu(b, a, alternative="two-sided", method="exact").pvalue
    twice = [int(r) for r in np.rint(2 * stats.rankdata(both))]
    return two_sided(ways_of_sums(twice, len(b)), sum(twice[len(a):]))


def signed_rank_p(d):
    d = d[d != 0]
    if len(d) == 0:
        return 1.0
    if len(d) > 60:
        return stats.wilcoxon(d, mode="approx", correction=True).pvalue
    if len(set(abs(d))) == len(d):
        return stats.wilcoxon(d, mode="exact").pvalue
    twice = [int(r) for r in np.rint(2 * stats.rankdata(abs(d)))]
    return two_sided(ways_of_sums(twice), sum(t for t, x in zip(twice, d) if x > 0))


def check_shift(what, got_shift, got_range, values, k):
    values = np.sort(values)
    near(what, got_shift, np.median(values))
    if k == 0:
        near(what + " has no interval", float(got_range is not None), 0.0)
    else:
        near(what + " low", got_range[0], values[k - 1])
        near(what + " high", got_range[1], values[len(values) - k])


def check_pair(x):
    a, b = np.array(x["a"]), np.array(x["b"])
    na, nb = len(a), len(b)
    name = f"{na} and {nb} values"
    near(f"U, {name}", x["u"], float(sum((b[:, None] > a).sum(axis=0)) + 0.5 * (b[:, None] == a).sum()))
    near(f"p, {name}", x["p"], rank_sum_p(a, b))
    if na + nb <= 60:
        k = rank_of_bound(ways_of_sums(range(1, na + nb + 1), nb), nb * (nb + 1) // 2, nb * (nb + 1) // 2 + na * nb)
    else:
        k = math.floor(na * nb / 2 - stats.norm.isf(0.025) * math.sqrt(na * nb * (na + nb + 1) / 12))
    check_shift(f"shift, {name}", x["shift"], x["range"], (b[:, None] - a).ravel(), k)
    if na == nb:
        d = b - a
        near(f"p of pairs, {name}", x["paired_p"], signed_rank_p(d))
        if na <= 60:
            k = rank_of_bound(ways_of_sums(range(1, na + 1)), 0, na * (na + 1) // 2)
        else:
            k = math.floor(na * (na + 1) / 4 - stats.norm.isf(0.025) * math.sqrt(na * (na + 1) * (2 * na + 1) / 24))
        means = [(x + y) / 2 for x, y in itertools.combinations_with_replacement(d, 2)]
        check_shift(f"shift of pairs, {name}", x["paired_shift"], x["paired_range"], means, k)


def check_family(x):
    p, least = np.array(x["p"]), 0.0
    for step, i in enumerate(np.argsort(p, kind="stable")):
        least = max(least, min(1.0, p[i] * (len(p) - step)))
        near(f"Holm, family of {len(p)}", x["holm"][i], least)


def energy(first, second):
    """2 m k / (m + k) times the energy distance of two samples, with means over pairs of different values."""
    m, k = len(first), len(second)
    within = [abs(s[:, None] - s).sum() / (len(s) * (len(s) - 1)) for s in (first, second)]
    return m * k / (m + k) * (2 * abs(first[:, None] - second).mean() - sum(within))


def check_series(x):
    v = np.array(x["values"])
    n = len(v)
    near(f"median of {n}", x["median"], np.median(v))
    near(f"mean of {n}", x["mean"], v.mean())
    near(f"deviation of {n}", x["deviation"], v.std(ddof=1) if n > 1 else 0.0)
    k = max((k for k in range(1, n // 2 + 1) if 1 - 2 * stats.binom.cdf(k - 1, n, 0.5) >= 0.95), default=0)
    near(f"interval of {n}", float(x["ci"] is not None), float(k > 0))
    if k > 0:
        near(f"interval of {n}", x["ci"][0], np.sort(v)[k - 1])
        near(f"interval of {n}", x["ci"][1], np.sort(v)[n - k])
    if 8 <= n <= 64:
        near(f"slope of {n}", x["slope"], stats.theilslopes(v).slope * (n - 1) / np.median(v))
        s = sum(np.sign(v[j] - v[i]) for i in range(n) for j in range(i + 1, n))
        ties = sum(t * (t - 1) * (2 * t + 5) for t in np.unique(v, return_counts=True)[1])
        variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
        want = 2 * stats.norm.sf((abs(s) - 1) / math.sqrt(variance)) if s != 0 else 1.0
        near(f"Mann-Kendall of {n}", x["trend_p"], min(want, 1.0))
    splits = {(t, e): energy(v[:t], v[t:e]) for e in range(6, n + 1) for t in range(3, e - 2)}
    best = max(splits.values(), default=0.0)
    near(f"change of {n}", x["change_q"], max(best, 0.0))
    if best > 0:
        at = {t for (t, e), q in splits.items() if q >= best * (1 - 1e-9)}
        near(f"place of the change of {n}", float(x["change_at"] in at), 1.0)
    if n == 100:
        near("the Nile's change of 1899", x["first_change"], 28.0)


checks = {"pair": check_pair, "family": check_family, "series": check_series}
with open(sys.argv[1]) as lines:
    for line in lines:
        entry = json.loads(line.replace(": nan", ": NaN"))
        checks[entry["kind"]](entry)
print(f"{compared} values, {bad} differ")
sys.exit(bad > 0 or compared < 500)
