#!/usr/bin/env bash
# Makes the pictures of the README from the records in results/examples: the page that `report` writes for them,
# and each picture of it as a file of its own. With --measure it makes the records first.
#   scripts/gallery.sh K3BENCH [--measure]
set -euo pipefail
k3bench=$(realpath --relative-to="$(dirname "$0")/.." "${1:?usage: scripts/gallery.sh K3BENCH [--measure]}")
cd "$(dirname "$0")/.."
out=results/examples
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

measure() { # NAME OPTIONS...
    local name=$1
    shift
    rm -f "$out/$name.json"
    mpirun -q --oversubscribe -np 8 "$k3bench" run --iters 40 --max-tokens 128 --seed 1 "$@" --out "$out/$name.json"
}

if [ "${2:-}" = --measure ]; then
    measure backends --model kimi-k3-mini --dp 2 --backend mooncake,deepep:ll,pplx,mpi,none --qps 4 --max-tokens 16
    measure rows --model tiny --component pair --backend mooncake,deepep:ll,nixl,mpi --tokens 1,4,16,64 --qps 2 --accounting off
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for record in backends rows; do
    "$k3bench" report "$out/$record.json" -o "$folder/$record.html"
done
python3 - "$folder" "$out" <<'PYTHON'
import re
import sys

folder, out = sys.argv[1:]
# Picture: record, kind, how many of them are before it.
wanted = {"phases": ("backends", "phases", 0), "samples": ("backends", "samples", 0), "timeline": ("backends", "timeline", 0),
          "waits": ("backends", "waits", 0), "rows": ("rows", "rows", 0)}
for name, (record, kind, number) in wanted.items():
    with open("%s/%s.html" % (folder, record), encoding="utf-8") as file:
        page = file.read()
    style = re.search(r"<style>\n(.*?)</style>", page, re.S)[1]
    # Rules of the drawing, and the colours, which a dark page changes.
    style = "\n".join(line for line in style.split("\n") if re.match(r":root|@media \(prefers|  --c|\.[skdbhc]|svg|\.bar", line))
    pictures = re.findall(r'<figure data-kind="%s">.*?(<svg .*?</svg>)' % kind, page, re.S)
    svg = pictures[number].replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(" role=img", ' role="img"')
    svg = re.sub(r' data-tip="[^"]*"', "", svg)
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
    paper = '<style>%s</style><rect width="%s" height="%s" fill="var(--paper)" />' % (style, size[1], size[2])
    with open("%s/%s.svg" % (out, name), "w", encoding="utf-8") as file:
        file.write(svg.replace(">", ">\n" + paper, 1) + "\n")
PYTHON
ls -l "$out"
