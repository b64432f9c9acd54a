#!/usr/bin/env python3
"""Every known fault of others has a test that carries its id in its name, or a reason why there is none.

check_cases.py ROOT         exit 1 and one line per violation
check_cases.py --self-test  a missing, an unknown and a needless id must each be named

An id is a letter and two digits; it stands in the name of a script (tests/cli/U03_U05_record.sh) or of a test's
function (test_N01_corrupt). A test of a new fault takes the next number of its kind.
"""

import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True

import rule  # noqa: E402

# The kinds, and how many cases each has.
KINDS = {
    "L": ("layout", 12), "P": ("protocol", 25), "N": ("numeric", 17), "Q": ("queue pairs", 17), "F": ("fault", 13),
    "O": ("options", 14), "U": ("output", 15), "S": ("statistics", 19), "E": ("environment", 9), "C": ("scale", 7),
}

# What has no test, and why.
WITHOUT = {
    "P09": "three dispatch results alive on two buffers: a dispatch is not split, its result ends with its combine",
    "Q03": "locked and exclusive posting by several threads: one thread of a rank posts",
    "Q05": "a sequence number of 4 bits that wraps: immediates are counted by adds of 32 bits",
    "Q09": "queue pairs made in another order: they are made by peer and index, there is no other order",
    "Q14": "traffic class and service level read back: UCX takes them from UCX_IB_*; needs an RDMA adapter",
    "Q15": "another class beside a second load on the link: needs an RDMA adapter",
    "F12": "memory of a kind that the adapter cannot register: needs a GPU and an adapter; nothing is tried twice, "
           "the message names --staged",
    "F13": "other errors at that point: needs a GPU and an adapter; nothing is tried twice",
    "O07": "the warps that a raised top-k needs: they are those of a GPU kernel that is not repeated here",
    "O11": "blocks of a GPU kernel that post over RDMA: there is no such option",
}

ID = "(?:^|_)([%s]\\d\\d)" % "".join(KINDS)  # other letters, as B00, are no cases
SCRIPT_ID = re.compile(ID + r"(?=_|\.)")
FUNCTION = re.compile(r"\btest_(\w+)\(")
FUNCTION_ID = re.compile(ID + "(?=_|$)")


def known_ids():
    return {"%s%02d" % (kind, i + 1) for kind, (_, count) in KINDS.items() for i in range(count)}


def ids_of_tests(root):
    found = set()
    for folder, _, names in os.walk(os.path.join(root, "tests")):
        for name in names:
            found |= set(SCRIPT_ID.findall(name))
            if name.endswith((".c", ".h", ".cpp")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    for function in FUNCTION.findall(file.read()):
                        found |= set(FUNCTION_ID.findall(function))
    return found


def check(root):
    """Messages, one per violation."""
    known, tested = known_ids(), ids_of_tests(root)
    return (["%s: no test carries it in its name, and no reason stands here" % i for i in sorted(known - tested - set(WITHOUT))]
            + ["%s: a test carries it, but there is no such case" % i for i in sorted(tested - known)]
            + ["%s: has a test, so it needs no reason" % i for i in sorted(tested & set(WITHOUT))])


def self_test():
    left = sorted(known_ids() - set(WITHOUT))
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "tests"))
        path = os.path.join(root, "tests", "test_all.c")

        def faults_of(ids):
            with open(path, "w", encoding="utf-8") as file:
                file.write("".join("void test_%s_x(void);\n" % i for i in ids))
            return check(root)

        wrong = [text for text in faults_of(left)]
        wrong += [i for i, faults in ((left[0], faults_of(left[1:])), ("L99", faults_of(left + ["L99"])),
                                      ("P09", faults_of(left + ["P09"]))) if [f[:3] for f in faults] != [i]]
    print("self-test: %d failures" % len(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(rule.run(__doc__, check, self_test,
                      lambda root: "cases: %d, %d without a test" % (len(known_ids()), len(WITHOUT))))
