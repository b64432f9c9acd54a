#!/usr/bin/env bash
# Sweeps: order, crash, hang, rejected records, kill -9 and resume, changed files, hosts, a full disk.
# A launcher of the test's own stands in for mpirun, so that a launch takes milliseconds and fails at will; the last
# part is real. E07, F08, O05, P24, U03.
# Alone: time limits of launches.
. "$(dirname "$0")/lib.sh"

# fake.py NP NAMES PROGRAM run OPTIONS...: leaves a real record with the options that were asked for. What it does else
# stands in the file `behave`: lines "EXPRESSION ACTION", matched against the record's name.
python3 -c 'import sys; print("#!" + sys.executable + " -SE")' >fake.py
cat >>fake.py <<'PYTHON'
import fcntl, json, os, re, resource, signal, sys, time

np, names, words = sys.argv[1], sys.argv[2], sys.argv[3:]
home = os.path.dirname(os.path.abspath(__file__))
value = dict(w[2:].split("=", 1) for w in words[2:])
out, name = value["out"], os.path.basename(value["out"])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY) if os.getuid() == 0 else resource.getrlimit(resource.RLIMIT_FSIZE))

def note(file, text):
    with open(os.path.join(home, file), "a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.write(text + "\n")

def record():
    d = json.load(open(os.path.join(home, "base.json")))
    for o in d["run"]["options"]:
        o["value"] = value.get(o["name"], o["value"])
    d["run"]["launch"]["ranks"] = int(np)
    return d

def write(d):
    d["run"]["id"] = os.urandom(8).hex()
    with open(out + ".tmp", "w") as f:
        json.dump(d, f)
    os.rename(out + ".tmp", out)

action = ""
if os.path.exists(os.path.join(home, "behave")):
    for line in open(os.path.join(home, "behave")):
        expression, what = line.split()
        action = what if re.search(expression, name) else action
note("calls", f"{name} rotate={value['rotate']} names={names}")
if action == "crash":
    os.kill(os.getpid(), signal.SIGKILL)
if action in ("hang", "deaf"):
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # as mpirun does with ranks
    if child == 0 or action == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("hung", str(os.getpid()))
    time.sleep(600)
if action == "none":
    sys.exit(0)
if action == "usage":
    print("k3bench: error: iters: 'x' is no number", file=sys.stderr)
    sys.exit(2)
if action.startswith("sleep"):
    time.sleep(float(action[5:]))
d = record()
if action == "watchdog":
    write(d)
    print("k3bench: error: rank 3 has not moved for 60 s", file=sys.stderr)
    sys.exit(4)
if action == "cell":
    d["cells"][0].update(status="failed", reason="check: row 3")
if action == "options":
    [o for o in d["run"]["options"] if o["name"] == "tokens"][0]["value"] = "5"
if action == "ranks":
    d["run"]["launch"]["ranks"] = 1
if action == "build":
    d["run"]["git_sha"] = "0000000"
if action == "transport":
    d["cells"][0]["qps"]["transport"] = "self, tcp/eth9"
if action == "lost":
    d["cells"].pop()
write(d)
if action == "torn":
    open(out, "w").write(json.dumps(d)[:1000])
note("finished", name.rsplit(".a", 1)[0])
sys.exit(1 if action == "cell" else 0)
PYTHON
chmod +x fake.py

launch 2 run --backend mooncake,none --tp 2 --tokens 4 --iters 2 --out whole.json
expect_rc 0
# As little of it as is read.
jq -c 'del(.cells[].phases[].samples?, .cells[].qps?.rows?, .cells[].waits?)' whole.json >base.json

cat >head.ini <<INI
launcher = $work/fake.py {np} {names}
backend = mooncake,none
tokens = 4
iters = 2
launches = 3
INI
{ cat head.ini; printf '[a]\ntp = 2\n[b]\ntp = 2\nseed = 2\n'; } >two.ini
files_in() { find "$1" -type f | wc -l; }
forget() { rm -rf calls finished hung behave "$@"; }
states() { jq -r 'select(.event == "end") | .launch + " " + .state' "$1/journal.jsonl" | sort; }

# --- order, progress, and nothing twice ---

single sweep two.ini --dry-run
expect_rc 0
expect_text out '6 launches of 2 variants, 0 done; 4 cells' 'a tiny tp2 +2 +2 +3 .*\(a guess\)' 'fake.py 2 localhost .*--seed=2' \
    'time: .* 6 launches, 1 at a time; a guess' 'compare RECORD.*: 3 launches reach p = 0.25 by signed ranks, better and worse are out of reach: 1 comparison of a needs 6 \(one alone: 6\); same: out of reach below 6' \
    'compare A.* -- B.*: 3 launches a side reach p = 0.1 by Mann-Whitney, .* 2 cells of a need 5 \(one alone: 4; all 4 in one gate: 5\); same: out of reach below 4'
expect_no_file two calls
single sweep two.ini
expect_rc 0
expect_text out '^\[1/6\] ok +a tiny tp2, round 1, 2 cells, [0-9.]+ s; [0-9]+ s to go' '6 launches: 6 done, 0 failed, 0 rejected, 0 to go'
check "rounds begin with another variant" [ "$(sed 's/\.np.*\.r0*/ /; s/\..*//' calls | tr '\n' ' ')" = "a 1 b 1 b 2 a 2 a 3 b 3 " ]
check "cells are turned" [ "$(sed 's/.*rotate=\([0-9]*\).*/\1/' calls | tr '\n' ' ')" = "0 0 1 1 0 0 " ]
check "a record for each launch" [ "$(files_in two/records)" = 6 ]
check "nothing is left running" [ "$(files_in two/running) $(files_in two/aside)" = "0 0" ]
mv calls before
single compare two/records/a.*
expect_rc 0
single sweep two.ini
expect_rc 0
expect_text out '6 launches of 2 variants, 6 done' 'from 6 launches that are done'
expect_no_file calls
expect_text two/journal.jsonl '"carried":"mapped, self"'

# A record that is gone, one that is no record any more and one of another round: their launches are made again.
a=(two/records/a.*)
b=(two/records/b.*)
rm "${a[0]}"
echo '{}' >"${a[1]}"
cp "${b[0]}" "${b[1]}"
single sweep two.ini
expect_rc 0
expect_text out '6 launches: 6 done, 0 failed, 0 rejected, 0 to go'
expect_text err 'a\..*r001 is made again' 'a\..*r002 is made again' 'b\..*r002 is made again.*rotate'
check "three launches" [ "$(wc -l <calls)" = 3 ]
check "a record for each launch" [ "$(files_in two/records) $(files_in two/aside)" = "6 2" ]
single compare two/records/a.*
expect_rc 0

# --- what is shipped can decide what it asks ---

printf 'n1 slots=8\n' >eight
for name in layouts transports; do
    single sweep "$source_dir/results/sweeps/$name.ini" --dry-run --hostfile eight --out shipped
    expect_rc 0
    expect_text out '^verdicts, backends .* signed ranks, better and worse can be told for' '^verdicts, two .* better and worse can be told for'
done

# The section that lacks most is named, not the one with most comparisons.
printf 'tp = 2\n[many]\nbackend = mooncake,deepep:ll,nixl,uccl\nlaunches = 12\n[few]\nbackend = mooncake,deepep:ll\nlaunches = 3\n' >lacks.ini
single sweep lacks.ini --dry-run
expect_rc 0
expect_text out '^verdicts, backends .* out of reach: 1 comparison of few needs 6 '

# --- what costs one launch ---

forget two
cat >behave <<'BEHAVE'
^a.*r001 crash
^b.*r001 hang
^b.*r002 watchdog
^a.*r002 none
BEHAVE
# One that does not hear SIGTERM is ended 10 s later.
[ -z "${K3BENCH_TEST_LONG:-}" ] || sed -i 's/hang/deaf/' behave
single sweep two.ini --launch-limit 2
expect_rc 1
expect_text out 'FAILED +a tiny tp2, round 1.*signal 9' 'FAILED +b .*round 1.*did not end within its limit' \
    'FAILED +b .*round 2.*exit 4, error: rank 3 has not moved' 'FAILED +a .*round 2.*exit 0, no record; see logs/a' \
    '6 launches: 2 done, 4 failed, 0 rejected, 0 to go'
is_alive() { # for longer than it takes to die
    local _
    for _ in $(seq 40); do
        [ -e "/proc/$1" ] && ! grep -q '^State:.*[ZX]' "/proc/$1/status" 2>/dev/null || return 1
        sleep 0.05
    done
}
while read -r pid; do check_not "a hung process is gone" is_alive "$pid"; done <hung
check "the part lies aside" [ "$(find two/aside -name 'b.*r002.a1.json' | wc -l)" = 1 ]
check "two records" [ "$(files_in two/records)" = 2 ]
forget
single sweep two.ini
expect_rc 1
expect_no_file calls
single sweep two.ini --retry
expect_rc 0
check "only these again" [ "$(wc -l <calls)" = 4 ]
expect_text out '6 launches: 6 done'

# A failed cell is a result; its launch is done.
forget two
echo '^a.*r002 cell' >behave
single sweep two.ini
expect_rc 1
expect_text out 'WRONG +a .*round 2' '6 done \(1 with a failed cell\)'

# --- read back ---

forget two
cat >behave <<'BEHAVE'
^a.*r002 options
^a.*r003 ranks
^b.*r001 build
^b.*r003 transport
BEHAVE
single sweep two.ini
expect_rc 1
expect_text out 'REJECTED a .*round 2.*option tokens: asked for 4, the record has 5' 'REJECTED a .*round 3.*asked for 2 ranks, the record has 1' \
    'REJECTED b .*round 1.*it ran build .* 0000000, this is' 'REJECTED b .*round 3.*carried by self, tcp/eth9, in the launches before by mapped, self' \
    '2 done, 0 failed, 4 rejected'
check "they lie aside" [ "$(files_in two/aside)" = 4 ]
forget two
printf '^a.*r001 lost\n^b.*r001 torn\n' >behave
single sweep two.ini
expect_rc 1
expect_text out 'REJECTED a .*asked for 2 cells, the record has 1' 'FAILED +b .*a1.json:1:'
forget two
single sweep two.ini --carried-by tcp/eth0 --launches 1
expect_rc 0
printf '. transport\n' >behave
single sweep two.ini --carried-by rc_mlx5 --launches 1 --out other
expect_rc 1
expect_text out 'REJECTED .*carried by tcp/eth9; allowed: rc_mlx5'
forget other
printf '. transport\n' >behave
single sweep two.ini --carried-by rc_mlx5,tcp --launches 1 --out other
expect_rc 0

# --- kill -9 at any moment: nothing finished is lost, nothing is repeated ---

forget two other
printf '. sleep0.03\n' >behave
RANDOM=11
kills=${K3BENCH_TEST_LONG:+60}
tries=0
# In a session of its own the sweep cannot take the test along.
while [ "$tries" -lt "${kills:-8}" ]; do
    tries=$((tries + 1))
    "$k3bench" sweep two.ini --launches 8 >>killed 2>&1 &
    pid=$!
    sleep "0.$(printf %03d $((RANDOM % 300)))"
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
done
single sweep two.ini --launches 8
expect_rc 0
expect_text out '16 launches: 16 done'
check "a record for each" [ "$(files_in two/records)" = 16 ]
check "none finished twice: $(sort finished | uniq -d)" [ -z "$(sort finished | uniq -d)" ]
check "each is noted as done once" [ "$(states two | grep -c ' done$')" = 16 ]
is_json() { jq -e . "$1" >/dev/null; }
check "strict lines" is_json two/journal.jsonl

# A torn last line, and one that somebody edited.
forget
sed -i '$d' two/journal.jsonl
printf '{"event":"end","launch":"a' >>two/journal.jsonl
sed -i '0,/"state":"done"/s//"state":"DONE"/' two/journal.jsonl
single sweep two.ini --launches 8
expect_rc 0
expect_text err '1 of [0-9]+ lines are none of a journal'
expect_text out '2 launches had finished before without being noted' '16 launches: 16 done'
expect_no_file calls

# --- signals, the lock, the budget ---

forget two
printf '. sleep2\n' >behave
"$k3bench" sweep two.ini >first 2>first.err &
pid=$!
for _ in $(seq 100); do [ ! -s calls ] || break; sleep 0.05; done
single sweep two.ini
expect_refused 3 "another sweep is at work there \(process $pid\)"
kill -TERM "$pid"
wait "$pid"
rc=$?
expect_rc 3
expect_text first.err 'ended by signal 15 .*; the same command goes on'
expect_text first '6 launches: 0 done, 0 failed, 0 rejected, 6 to go'
forget
printf '. sleep0.4\n' >behave
single sweep two.ini --budget 0.3
expect_rc 0
expect_text out '1 done, 0 failed, 0 rejected, 5 to go \(the budget is used up'

# --- a file that changed ---

forget two
single sweep two.ini
sed 's/^seed = 2/seed = 3/; s/^launches = 3/launches = 4/' two.ini >changed.ini
forget
single sweep changed.ini --out two
expect_rc 0
expect_text out '3 records are no longer asked for: they lie in two/aside' '8 launches: 8 done'
check "what stayed was kept" [ "$(grep -c '^a\.' calls) $(grep -c '^b\.' calls)" = "1 4" ]
check "records of this file only" [ "$(files_in two/records)" = 8 ]
check "the others are kept aside" [ "$(files_in two/aside)" = 3 ]

# --- hosts ---

forget two
printf 'n1 slots=2\nn2 slots=2\nn3 slots=2\n' >hosts
{ cat head.ini; printf '[a]\ntp = 2\n[b]\ntp = 4\n[c]\ntp = 8\n'; } >three.ini
printf '. sleep0.2\n' >behave
single sweep three.ini --hostfile hosts --jobs 2 --launches 1
expect_rc 0
expect_text out 'c tiny tp8, mooncake,none \(1 cell\): 8 ranks: there are 6 slots on 3 hosts' '2 launches: 2 done'
check "on hosts of their own" [ "$(sed 's/.*names=//' calls | head -2 | sort | tr ',\n' '  ')" = "n1 n2 n3 " ]
single sweep three.ini --jobs 64 --dry-run
expect_text out "ranks: there are [0-9]+ slots on [0-9]+ cores, and with --jobs above 1 each rank needs one of its own"

# --- what is refused ---

refuse() { # EXPRESSION LINE...
    local expression=$1
    shift
    printf '%s\n' "$@" >bad.ini
    single sweep bad.ini --out bad
    expect_refused 2 "$expression"
    expect_no_file bad
}
refuse "backend=moncake: no cell can have it: .*mooncake" 'tp = 2' 'backend = moncake,none'
refuse "bad.ini:2: unknown key 'tokns'; the nearest known one is 'tokens'" 'tp = 2' 'tokns = 2'
refuse "timeout: 'nan' is not a decimal number" 'tp = 2' 'backend = none' 'timeout = nan'
refuse "iters: '0' is out of range" 'tp = 2' 'backend = none' 'iters = 0'
refuse "tp is missing" 'backend = none'
refuse "max-seconds 1 has no effect: --iters 2" 'tp = 2' 'backend = none' 'iters = 2' 'max-seconds = 1'
refuse "dump: all launches of a sweep" 'tp = 2' 'backend = none' 'dump = here'
refuse "fault rank: '7' is out of range" 'tp = 2' 'backend = none' 'fault = stall:7:region:1'
refuse 'machine: "nope" is unknown' 'tp = 2' 'backend = none' 'machine = nope'
refuse "launcher: \{ranks\} is none of" 'tp = 2' 'backend = none' 'launcher = mpirun {ranks}'
refuse "no cell can be done; the first reason: .*30 experts do not divide" 'tp = 4' 'model = tiny:E=30' 'backend = mooncake'
single sweep
expect_refused 2 'FILE is missing'
single sweep two.ini three.ini
expect_refused 2 'one FILE is wanted, not 2'
single sweep missing.ini
expect_refused 3 'missing.ini'
for lacking in weights=/nowhere hidden=/nowhere.npy; do
    printf 'tp = 2\nbackend = none\n%s\n' "$lacking" >bad.ini
    single sweep bad.ini --out bad
    expect_refused 3 '/nowhere.*No such file'
    expect_no_file bad
done
forget none
printf 'tp = 2\nbackend = none\nlauncher = ./no-such-launcher\n' >none.ini
single sweep none.ini
expect_refused 3 './no-such-launcher cannot be started .*No such file'
check "not noted as failed" [ "$(states none)" = "" ]

# --- a full disk ---

forget two
(ulimit -S -f 1 && exec "$k3bench" sweep two.ini >out 2>err)
rc=$?
if [ "$(id -u)" = 0 ]; then
    expect_refused 3 'the journal cannot be written: File too large; the same command goes on later'
    check "whole lines only" is_json two/journal.jsonl
    single sweep two.ini
    expect_rc 0
    check "none finished twice" [ -z "$(sort finished | uniq -d)" ]
fi
forget disk
mkdir disk
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=17m none disk 2>/dev/null; then
    trap 'status=$?; cd /; umount "$work/disk"; (exit "$status"); end_of_script' EXIT
    single sweep two.ini --out disk/two --launches 1
    expect_rc 0
    dd if=/dev/zero of=disk/filler bs=1M count=2 2>/dev/null
    forget
    single sweep two.ini --out disk/two
    expect_refused 3 'bytes are free, a launch may need 16777216; the same command goes on when there is room'
    expect_no_file calls
    rm disk/filler
    single sweep two.ini --out disk/two
    expect_rc 0
    expect_text out '6 launches: 6 done'
fi

# --- with mpirun ---

printf 'model = tiny\ntp = 2\nbackend = mooncake,deepep:ll,null\ntokens = 4\niters = 2\nlaunches = 2\ncheck = every\n' >real.ini
single sweep real.ini
expect_rc 0
expect_text out '2 launches: 2 done'
for record in real/records/*; do expect_good "$record" 3; done
cat real/logs/* >logs.txt
expect_text logs.txt '^record: real/running/all.np2'
