"""The command line that the rule checks share: check_NAME.py ROOT, or --self-test."""

import sys


def run(doc, check, self_test, summary):
    """The exit code: 2 usage, 1 violations (or a rule that misses a planted one), else 0.

    check(root) gives a message for each violation, self_test() an exit code, summary(root) what was looked at."""
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2:
        print(doc)
        return 2
    faults = check(sys.argv[1])
    for fault in faults:
        print(fault)
    print("%s, %d violations" % (summary(sys.argv[1]), len(faults)))
    return 1 if faults else 0
