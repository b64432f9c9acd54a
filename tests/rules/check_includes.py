#!/usr/bin/env python3
"""Who may include whom: the floors of bench/, the rooms, MPI and UCX, no circles.

check_includes.py ROOT         exit 1 and one line per violation
check_includes.py --self-test  every rule must name a violation planted in a small tree
"""

import os
import sys
import tempfile

sys.dont_write_bytecode = True

import rule  # noqa: E402
import source  # noqa: E402

# A floor may include itself and any floor before it in this list.
FLOORS = ["cell", "profiles", "plan", "engines", "region", "report", "sweep", "commands"]

# Rooms inside harness/ and what each may use of harness/.
HARNESS = {
    "base": {"base"},
    "record": {"base", "record"},
    "device": {"base", "device"},
    "mpi": {"base", "device", "mpi"},
    "doctor": {"base", "doctor"},
}

# Folders that work without MPI: no include may lead there, however many headers lie between.
WITHOUT_MPI = ("bench/cell/", "bench/profiles/", "bench/plan/", "harness/base/",
               "harness/record/", "harness/device/", "harness/doctor/", "kernels/")

# Files that may include these system headers themselves.
MPI_FOLDERS = ("harness/mpi/", "bench/engines/", "bench/region/")
MPI_FILES = ("bench/commands/version.c",)
UCX_FOLDERS = ("harness/mpi/",)
GPU_FOLDERS = ("kernels/gpu/", "harness/device/gpu/")

# Shared headers of the engines; all others in that folder belong to the engine of their name.
ENGINE_HEADERS = ("engine", "blocks", "compute", "holders", "spans")


def is_mpi(header):
    return header == "mpi.h" or header.startswith("mpi/")


def is_ucx(header):
    return header.split("/")[0] in ("ucp", "ucs", "uct")


def is_gpu(header):
    return header.split("/")[0].startswith(("cuda", "cublas", "nv", "hip", "rocblas"))


def floor_of(path):
    """Index in FLOORS; the main file stands above them; None outside bench/."""
    parts = path.split("/")
    if parts[0] != "bench":
        return None
    if len(parts) == 2:
        return len(FLOORS)
    return FLOORS.index(parts[1]) if parts[1] in FLOORS else -1


def engine_of(path):
    """"slab" for bench/engines/slab.c and bench/engines/slab_wait.h."""
    return os.path.splitext(path.split("/")[-1])[0].split("_")[0]


def check_system(path, header):
    if is_mpi(header) and not path.startswith(MPI_FOLDERS) and path not in MPI_FILES:
        return "<%s> is known to harness/mpi, bench/engines and bench/region only" % header
    if is_ucx(header) and not path.startswith(UCX_FOLDERS):
        return "<%s> is known to harness/mpi only" % header
    if is_gpu(header) and not path.startswith(GPU_FOLDERS):
        return "<%s> is known to kernels/gpu and harness/device/gpu only" % header
    return None


def check_rooms(path, target):
    own, other = path.split("/")[0], target.split("/")[0]
    if other not in source.ROOMS:
        return "%s lies outside bench, harness and kernels" % target
    if own != "bench" and own != other:
        return "%s includes neither bench nor another room, but %s" % (own, target)
    if own == other == "harness":
        a, b = path.split("/")[1], target.split("/")[1]
        if b not in HARNESS.get(a, ()):
            return "harness/%s may include %s, not harness/%s" % (
                a, " and ".join("harness/" + x for x in sorted(HARNESS.get(a, ()))), b)
    return None


def check_floors(path, target):
    own, other = floor_of(path), floor_of(target)
    if own is None or other is None:
        return None
    if own == -1 or other == -1:
        return "%s is no known floor of bench" % (path if own == -1 else target)
    if other > own:
        return "floor %s looks up to %s" % (path.split("/")[1], target)
    return None


def check_engines(path, target):
    folder = "bench/engines/"
    if not (path.startswith(folder) and target.startswith(folder)):
        return None
    if engine_of(target) in ENGINE_HEADERS or engine_of(target) == engine_of(path):
        return None
    return "engine %s includes %s of another engine" % (engine_of(path), target)


def find_circle(graph):
    """A list of headers that include each other in a circle, or None."""
    state = {}
    for start in sorted(graph):
        stack = [(start, iter(graph[start]))] if start not in state else []
        state.setdefault(start, "open")
        while stack:
            node, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[node] = "done"
                stack.pop()
            elif following not in state:
                state[following] = "open"
                stack.append((following, iter(graph.get(following, ()))))
            elif state[following] == "open":
                nodes = [n for n, _ in stack]
                return nodes[nodes.index(following):] + [following]
    return None


def way_to_mpi(start, graph, with_mpi):
    """The shortest chain of headers from `start` to one that includes <mpi.h>, or None."""
    before, queue = {start: None}, [start]
    while queue:
        node = queue.pop(0)
        if node in with_mpi:
            chain = []
            while node is not None:
                chain.append(node)
                node = before[node]
            return chain[::-1]
        for following in graph.get(node, ()):
            if following not in before:
                before[following] = node
                queue.append(following)
    return None


def check(root):
    """Messages, one per violation."""
    faults, graph, with_mpi = [], {}, set()
    paths = source.files(root)
    if not paths:
        return ["%s: no C sources below bench, harness or kernels" % root]
    for path in paths:
        graph[path] = []
        for line, name, is_system in source.includes(source.read(root, path)):
            where = "%s:%d: " % (path, line)
            if is_system:
                with_mpi |= {path} if is_mpi(name) else set()
                found = [check_system(path, name)]
            elif not os.path.isfile(os.path.join(root, name)):
                found = ['"%s": no such file below the root; includes are written from there' % name]
            else:
                graph[path].append(name)
                found = [rule(path, name) for rule in (check_rooms, check_floors, check_engines)]
            faults += [where + text for text in found if text]
    for path in paths:
        chain = way_to_mpi(path, graph, with_mpi) if path.startswith(WITHOUT_MPI) else None
        if chain:
            faults.append("%s: works without MPI, but includes it by %s" % (
                path, " -> ".join(chain[1:] + ["<mpi.h>"])))
    circle = find_circle({p: t for p, t in graph.items() if p.endswith(".h")})
    if circle:
        faults.append("headers include each other in a circle: " + " -> ".join(circle))
    return faults


# --- self-test ---

GOOD = {
    "bench/k3bench.c": '#include "bench/commands/command.h"\n',
    "bench/commands/command.h": '#include "bench/report/table.h"\n#include "bench/region/region.h"\n',
    "bench/sweep/sweep.h": '#include "bench/report/table.h"\n',
    "bench/report/table.h": '#include "bench/region/region.h"\n',
    "bench/region/region.h": '#include "bench/engines/engine.h"\n#include <mpi.h>\n',
    "bench/engines/engine.h": '#include "bench/plan/plan.h"\n#include "harness/mpi/qp.h"\n',
    "bench/engines/slab.c": '#include "bench/engines/engine.h"\n#include "bench/engines/slab_own.h"\n',
    "bench/engines/slab_own.h": "",
    "bench/engines/other.h": "",
    "bench/plan/plan.h": '#include "bench/cell/cell.h"\n#include "harness/base/base.h"\n',
    "bench/profiles/profile.h": "",
    "bench/cell/cell.h": '#include "kernels/kernels.h"\n/* #include <mpi.h> */ // #include "x.h"\n',
    "harness/base/base.h": "",
    "harness/record/record.h": '#include "harness/base/base.h"\n',
    "harness/mpi/qp.h": '#include "harness/base/base.h"\n#include <ucp/api/ucp.h>\n#include <mpi.h>\n',
    "kernels/kernels.h": "#include <stdint.h>\n",
}

# One violation each: file, the line added to it, a part of the message.
BAD = [
    ("bench/cell/cell.h", '#include "bench/plan/plan.h"', "floor cell looks up"),
    ("bench/region/region.h", '#include "bench/report/table.h"', "floor region looks up"),
    ("bench/profiles/profile.h", '#include "bench/commands/command.h"', "floor profiles looks up"),
    ("bench/report/table.h", '#include "bench/sweep/sweep.h"', "floor report looks up"),
    ("bench/plan/plan.h", '#include "harness/mpi/qp.h"', "works without MPI"),
    ("bench/report/table.h", "#include <mpi.h>", "<mpi.h> is known to"),
    ("bench/engines/slab.c", "#include <ucp/api/ucp.h>", "is known to harness/mpi only"),
    ("bench/engines/slab.c", '#include "bench/engines/other.h"', "of another engine"),
    ("kernels/kernels.h", '#include "harness/base/base.h"', "kernels includes neither"),
    ("harness/base/base.h", '#include "bench/cell/cell.h"', "harness includes neither"),
    ("harness/base/base.h", '#include "harness/record/record.h"', "harness/base may include"),
    ("kernels/kernels.h", "#include <cuda_runtime.h>", "kernels/gpu and harness/device/gpu only"),
    ("bench/cell/cell.h", '#include "cell.h"', "no such file"),
    ("bench/engines/engine.h", '#include "bench/engines/slab_own.h"', "of another engine"),
    ("bench/cell/cell.h", '#  include "bench/cell/cell.h"', "circle"),
]


def write_tree(root, tree):
    for path, text in tree.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def self_test():
    failures = 0
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, GOOD)
        for fault in check(root):
            print("self-test: a tree without a violation: " + fault)
            failures += 1
    for path, line, wanted in BAD:
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, dict(GOOD, **{path: GOOD[path] + line + "\n"}))
            if not any(wanted in fault for fault in check(root)):
                print('self-test: %s with %s: no message with "%s"' % (path, line, wanted))
                failures += 1
    print("self-test: %d planted violations, %d failures" % (len(BAD), failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(rule.run(__doc__, check, self_test,
                      lambda root: "includes: %d files" % len(source.files(root))))
