#!/usr/bin/env python3
"""No circle between files: of two files that use what the other defines, neither can be read first.

check_circles.py ROOT BUILD [NM]  exit 1 and the files and symbols of each circle; 77 without nm
check_circles.py --self-test      circles planted in the symbols of a few objects must be named

A file uses another when its object has an undefined symbol that the other's object defines, so what headers hold
(types, inline functions) ties nothing, and neither does a call by a pointer that was handed down. The objects are
those of the build folder's compile_commands.json, without the tests'.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

import source  # noqa: E402

# Circles that are known: each stands here until it is broken, none is added.
ALLOWED = [
    {"kernels/cpu/amx_gemm.c", "kernels/cpu/avx512_bf16_gemm.c", "kernels/cpu/bf16.c"},
    {"bench/engines/rails_rings.c", "bench/engines/rails_rings_combine.c"},
]


def objects(root, build):
    """{source below the rooms: its object}; of a source that the build has twice, one."""
    found = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    for entry in commands:
        words = shlex.split(entry["command"])
        made = os.path.join(entry["directory"], words[words.index("-o") + 1])
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
        path = path.replace(os.sep, "/")
        ours = not os.path.relpath(made, build).startswith("tests" + os.sep)
        if ours and path.split("/")[0] in source.ROOMS:
            found.setdefault(path, made)
    return found


def symbols(text):
    """(defined, undefined) of what nm -P -g prints: NAME TYPE [VALUE SIZE] a line."""
    defined, undefined = set(), set()
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and len(words[1]) == 1:
            (undefined if words[1] in "Uvw" else defined).add(words[0])
    return defined, undefined


def uses_of(tables):
    """{file: {file it uses: the symbols}} from {file: (defined, undefined)}."""
    home = {}
    for path in sorted(tables):
        for name in tables[path][0]:
            home.setdefault(name, path)
    graph = {path: {} for path in tables}
    for path, (_, undefined) in tables.items():
        for name in sorted(undefined):
            other = home.get(name, path)
            if other != path:
                graph[path].setdefault(other, []).append(name)
    return graph


def reached(graph, start):
    """What `start` uses, by however many files between; itself only in a circle."""
    seen, stack = set(), list(graph[start])
    while stack:
        path = stack.pop()
        if path not in seen:
            seen.add(path)
            stack.extend(graph[path])
    return seen


def circles(graph):
    """Sets of files that use each other, by the first name of each."""
    reach = {path: reached(graph, path) for path in graph}
    found, known = [], set()
    for path in sorted(graph):
        if path in reach[path] and path not in known:
            circle = {other for other in reach[path] if path in reach[other]}
            known |= circle
            found.append(circle)
    return found


def describe(graph, circle):
    lines = ["these files use each other: " + " ".join(sorted(circle))]
    for path in sorted(circle):
        for other in sorted(circle & set(graph[path])):
            lines.append("    %s uses %s for %s" % (path, other, ", ".join(graph[path][other])))
    return "\n".join(lines)


def check(tables, allowed, sources):
    """Messages, one per violation."""
    graph = uses_of(tables)
    found = circles(graph)
    faults = [describe(graph, circle) for circle in found if circle not in allowed]
    for circle in allowed:
        # Files for instructions that the processor lacks are empty.
        empty = any(path in sources and not tables.get(path, (None,))[0] for path in circle)
        if circle not in found and not empty:
            faults.append("no circle any more, take it off the list: " + " ".join(sorted(circle)))
    return faults


def check_build(root, build, nm):
    """(number of objects, messages)"""
    tables = {}
    made = objects(root, build)
    missing = sorted(path for path in made if not os.path.isfile(made[path]))
    if missing or not made:
        return len(made), ["%s: %d objects are not built%s: the whole build comes first" % (
            build, len(missing), " (%s)" % missing[0] if missing else "")]
    for path, name in made.items():
        out = subprocess.run([nm, "-P", "-g", name], check=True, capture_output=True, text=True)
        tables[path] = symbols(out.stdout)
    return len(made), check(tables, ALLOWED, source.files(root))


# --- self-test ---

# What nm says of five files; top uses all, "far" and "low" use nothing of ours.
GOOD = {
    "top.c": "main T 0 10\nk3_one U\nk3_two U\nk3_far U\nk3_table U\n",
    "one.c": "k3_one T 0 10\nk3_two U\nmemcpy U\n",
    "two.c": "k3_two T 0 10\nk3_low U\nk3_own D 0 8\n",
    "low.c": "k3_low T 0 10\nk3_table D 0 8\nmemcpy U\n",
    "far.c": "k3_far T 0 10\n",
}

# What is added to a file, the sets that are allowed, and a part of each message; no message: none may come.
CASES = [
    ("far.c", "", [], []),
    ("two.c", "k3_two U\n", [], []),
    ("two.c", "k3_one U\n", [], ["other: one.c two.c\n    one.c uses two.c for k3_two\n"
                                "    two.c uses one.c for k3_one"]),
    ("low.c", "k3_one U\n", [], ["other: low.c one.c two.c\n"]),
    ("low.c", "k3_own U\n", [], ["low.c uses two.c for k3_own"]),
    ("low.c", "main U\n", [], ["other: low.c one.c top.c two.c\n"]),
    ("two.c", "k3_one U\n", [{"one.c", "two.c"}], []),
    ("low.c", "k3_one U\n", [{"one.c", "two.c"}], ["other: low.c one.c two.c", "no circle any more"]),
    ("far.c", "", [{"one.c", "two.c"}], ["off the list: one.c two.c"]),
    ("far.c", "", [{"one.c", "gone.c"}], ["off the list: gone.c one.c"]),
    ("far.c", "", [{"one.c", "empty.c"}], []),
]


def self_test():
    failures = 0
    for path, more, allowed, wanted in CASES:
        texts = dict(GOOD, **{path: GOOD[path] + more, "empty.c": ""})
        tables = {name: symbols(text) for name, text in texts.items()}
        faults = check(tables, allowed, list(texts))
        if len(faults) != len(wanted) or any(w not in f for w, f in zip(wanted, faults)):
            print("self-test: %s with %r, allowed %s: wanted %s, not %s" % (
                path, more, allowed, wanted, faults))
            failures += 1
    print("self-test: %d cases, %d failures" % (len(CASES), failures))
    return 1 if failures else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) not in (3, 4):
        print(__doc__)
        return 2
    nm = shutil.which(sys.argv[3] if len(sys.argv) == 4 else "nm")
    if nm is None:
        print("circles: skipped: there is no nm (binutils) to read the objects with")
        return 77
    count, faults = check_build(sys.argv[1], sys.argv[2], nm)
    for fault in faults:
        print(fault)
    print("circles: %d objects, %d violations, %d circles still allowed" % (
        count, len(faults), len(ALLOWED)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
