#!/usr/bin/env bash
# What a sweep costs besides its launches: seconds for each launch, and to go on with a long journal. A launcher that
# only copies a record stands in for mpirun. Usage: scripts/bench-sweep.sh K3BENCH_BINARY (the build target bench-sweep
# calls it). LAUNCHES (200) and ENTRIES (10000) scale it.
set -euo pipefail

bin=$(readlink -f "${1:?usage: bench-sweep.sh K3BENCH_BINARY}")
launches=${LAUNCHES:-200} entries=${ENTRIES:-10000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
cell=(--tp 8 --model kimi-k3-mini --backend "mooncake,deepep:ll,none" --tokens 16 --iters 30)

# A record of the size that a launch leaves.
mpirun -q --oversubscribe -np 8 "$bin" run "${cell[@]}" --out record.json >/dev/null
cat >copy.sh <<SH
#!/bin/sh
for word; do case \$word in --out=*) cp $work/record.json "\${word#--out=}" ;; esac; done
SH
chmod +x copy.sh
now() { date +%s.%N; }

begin=$(now)
for ((i = 0; i < launches; i++)); do ./copy.sh --out=copy.json; done
alone=$(awk -v a="$begin" -v b="$(now)" -v n="$launches" 'BEGIN { print (b - a) / n }')

# Copies are read back in full and then rejected: their --out is another one.
printf 'launcher = %s/copy.sh\n' "$work" >sweep.ini
begin=$(now)
"$bin" sweep sweep.ini "${cell[@]}" --launches "$launches" --progress off >out || [ $? = 1 ]
grep -q " $launches rejected" out
awk -v a="$begin" -v b="$(now)" -v n="$launches" -v alone="$alone" -v size="$(stat -c %s record.json)" 'BEGIN {
    printf "overhead of a launch    %6.1f ms  (%d launches with records of %.1f MB; %.1f ms with the launcher that copies)\n", 1000 * ((b - a) / n - alone), n, size / 1e6, 1000 * (b - a) / n }'

# A journal in which all is done: ten variants.
printf 'launcher = true\nbackend = none\ntp = 1\nseed = 1,2,3,4,5,6,7,8,9,10\n' >long.ini
rounds=$((entries / 10))
"$bin" sweep long.ini --launches 1 --progress off >out || [ $? = 1 ]
python3 - "$rounds" <<'PYTHON'
import json, sys

ids = {json.loads(line)["launch"].rsplit(".r", 1)[0] for line in open("long/journal.jsonl")}
with open("long/journal.jsonl", "w") as f:
    for r in range(1, int(sys.argv[1]) + 1):
        for i in sorted(ids):
            launch = f"{i}.r{r:03d}"
            f.write(json.dumps({"event": "begin", "launch": launch, "attempt": 1, "at": "2026-01-01T00:00:00Z"}) + "\n")
            f.write(json.dumps({"event": "end", "launch": launch, "attempt": 1, "at": "2026-01-01T00:00:00Z", "state": "done", "seconds": 4.25,
                                "how": "exit 0", "reason": None, "carried": "mapped, self", "record": f"long/records/{launch}.json", "wrong": False}) + "\n")
PYTHON
begin=$(now)
"$bin" sweep long.ini --launches "$rounds" --progress off >out
grep -q "$entries done, 0 failed, 0 rejected, 0 to go" out
awk -v a="$begin" -v b="$(now)" -v n="$entries" 'BEGIN { printf "going on after %6d launches that are done: %.2f s\n", n, b - a }'
