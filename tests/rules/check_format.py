#!/usr/bin/env python3
"""Every C file has the format of .clang-format.

check_format.py ROOT [CLANG_FORMAT]

Exit codes: 0 right, 1 violations, 77 no clang-format. Another release of clang-format than 14
(Debian 12) may judge otherwise and is skipped too.
"""

import concurrent.futures
import os
import re
import subprocess
import sys

RELEASE = "14"
FOLDERS = ("bench", "harness", "kernels", "tests")


def files(root):
    for folder in FOLDERS:
        for where, _, names in os.walk(os.path.join(root, folder)):
            yield from (os.path.join(where, n) for n in names if n.endswith((".c", ".h", ".cpp", ".cu")))


def differing(program, paths):
    """Those of the paths that clang-format would write otherwise; one process looks at all of them."""
    seen = subprocess.run([program, "--style=file", "--dry-run", *paths], stderr=subprocess.PIPE, text=True, check=True)
    return set(re.findall(r"^(.+?):\d+:\d+: (?:warning|error): ", seen.stderr, re.MULTILINE))


def main():
    root, program = sys.argv[1], (sys.argv[2:] or [""])[0]
    if not program or program.endswith("NOTFOUND"):
        print("skipped: clang-format is not installed")
        return 77
    version = re.search(r"version (\d+)", subprocess.check_output([program, "--version"], text=True))
    if version is None or version.group(1) != RELEASE:
        print("skipped: clang-format %s is not release %s" % (version and version.group(1), RELEASE))
        return 77
    paths, wrong = sorted(files(root)), set()
    if not paths:
        print("%s: no C sources below %s" % (root, ", ".join(FOLDERS)))
        return 1
    workers = os.cpu_count() or 1
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for found in pool.map(lambda first: differing(program, paths[first::workers]), range(workers)):
            wrong |= found
    wrong = sorted(os.path.relpath(path, root) for path in wrong)
    if wrong:
        print("these differ from .clang-format; clang-format -i FILE... mends them:")
        print("\n".join("  " + path for path in wrong))
    print("format: %d files, %d violations" % (len(paths), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
