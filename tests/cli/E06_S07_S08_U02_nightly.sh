#!/usr/bin/env bash
# The nightly job on the cpu platform: the first night makes the baseline, the second is held against it; what it keeps,
# never two at once, a full disk, the platform found from the hardware, the templates. E06, S07, S08, U02.
# Alone: times of launches.
. "$(dirname "$0")/lib.sh"

nightly() { run_it "$source_dir/scripts/nightly.sh" --dir "$work/nights" --program "$k3bench" "$@"; }
inodes() { find nights/history -name '*.json' -printf '%i %s %f\n' | sort; }

# A night of one launch, so that the many of this test stay short; the platform's own file comes last.
printf 'model = tiny\nbackend = mooncake,null\ntokens = 4\niters = 3\nlaunches = 1\n[tp2]\ntp = 2\n' >short.ini

# --- two nights ---

nightly --platform "$work/short.ini"
expect_rc 0
expect_text err 'there is no baseline: this night becomes it' 'passed; summary: '
first=$(readlink nights/latest)
for file in summary.md report.html gate-np2.md sweep/journal.jsonl; do check "$file is there" [ -s "nights/latest/$file" ]; done
expect_text nights/latest/summary.md '^# k3bench, night .*: passed$' 'the baseline was made of this night' '1 launches: 1 done' '^## Gate, 2 ranks'
check "the history has the launch" [ "$(find nights/history -name '2*.json' | wc -l)" = 1 ]
expect nights/history/baseline.json '.promotions | length == 1'
nightly --platform "$work/short.ini"
expect_rc 0
check_not "another night" [ "$first" = "$(readlink nights/latest)" ]
expect_no_text nights/latest/summary.md 'the baseline was made'
expect nights/history/baseline.json '.promotions | length == 1'
check "the history has both launches" [ "$(find nights/history -name '2*.json' | wc -l)" = 2 ]

# --- a night that is worse: cells of the baseline are lost ---

sed 's/mooncake,null/null/' short.ini >lost.ini
inodes >before
: >nights/latest/sweep/records/plain.np4.0.r001.json # and a number of ranks with them
nightly --platform "$work/lost.ini"
expect_rc 1
expect_text err 'FAILED; summary: ' 'the last night had launches of 4 ranks, this one has none'
expect_text nights/latest/summary.md ': FAILED$' 'lost' 'launches of 4 ranks, this one has none'
if [ -n "${K3BENCH_TEST_LONG:-}" ]; then
    nightly --platform "$work/short.ini" -- --fault corrupt:0:0
    expect_rc 1
    expect_text nights/latest/summary.md 'WRONG'
fi

# --- what is kept: names that the script gave only ---

mkdir nights/nights/mine nights/nights/20000101T000000Z
touch nights/history/mine.txt nights/history/20000101T000000Z.old.np2.x.r001.json
nightly --platform "$work/short.ini" --keep 2
expect_rc 0
check "two nights and a stranger" [ "$(find nights/nights -mindepth 1 -maxdepth 1 | wc -l)" = 3 ]
check "the stranger stays" [ -d nights/nights/mine ]
check "history of more nights" [ "$(find nights/history -name '2*.json' | wc -l)" -ge 4 ]
check "no stranger's file is taken" [ -e nights/history/mine.txt ]

# --- never two at once ---

exec 7>nights/lock
flock 7
nightly --platform "$work/short.ini"
expect_rc 3
expect_text err 'another nightly job is at work'
exec 7>&-

# --- no room ---

inodes >before
count=$(find nights/nights -mindepth 1 -maxdepth 1 | wc -l)
LEAST_FREE_MB=99999999 nightly --platform "$work/short.ini"
expect_rc 3
expect_text err 'MB free, a night needs 99999999: nothing was started, the history is as it was'
check "no night was begun" [ "$(find nights/nights -mindepth 1 -maxdepth 1 | wc -l)" = "$count" ]
latest=$(readlink nights/latest)
mounted=
if [ "$(id -u)" = 0 ] && mkdir disk && mount -t tmpfs -o size=40m none disk 2>/dev/null; then
    trap 'status=$?; cd /; umount "$work/disk"; (exit "$status"); end_of_script' EXIT
    LEAST_FREE_MB=1 run_it "$source_dir/scripts/nightly.sh" --dir disk/n --program "$k3bench" --platform "$work/short.ini"
    expect_rc 0
    find disk/n/history -name '*.json' -printf '%s %f\n' | sort >before
    dd if=/dev/zero of=disk/filler bs=1M count=30 2>/dev/null
    LEAST_FREE_MB=1 run_it "$source_dir/scripts/nightly.sh" --dir disk/n --program "$k3bench" --platform "$work/short.ini"
    expect_rc 3
    expect_text err 'bytes are free, a launch may need' 'the sweep failed \(exit 3\); the history and the last nights are as they were'
    find disk/n/history -name '*.json' -printf '%s %f\n' | sort >after
    check "the history is as it was" cmp -s before after
    rm disk/filler
    mounted=1
fi
if [ -z "$mounted" ] || [ -n "${K3BENCH_TEST_LONG:-}" ]; then
    inodes >before
    # Files end at 32 kB: records do not fit, and mpirun itself hangs until the launch's limit.
    (ulimit -S -f 32 && nightly --platform "$work/short.ini" -- --launch-limit 5 && exit "$rc")
    rc=$?
    check "a failure, not a verdict: exit $rc" [ "$rc" = 3 ]
    expect_text err 'failed|error'
    inodes >after
    check "the history is as it was" cmp -s before after
    check "so is the last night" [ "$latest" = "$(readlink nights/latest)" ]
fi

# --- which platform ---

fake_pci() { # NAME VENDOR:DEVICE CLASS
    mkdir -p "pci/$1"
    echo "${2%:*}" >"pci/$1/vendor"
    echo "${2#*:}" >"pci/$1/device"
    echo "$3" >"pci/$1/class"
}
export PCI_DEVICES=$work/pci
platform_of() { # EXPRESSION: what a dry run says
    nightly --dry-run
    expect_rc 0
    expect_text err "platform $1"
}
mkdir bin pci
platform_of cpu
for case in 0x10de:0x2335=h200 0x10de:0x3182=b300 0x1002:0x75a3=mi355x; do
    rm -rf pci/*
    fake_pci 0000:01:00.0 "${case%=*}" 0x030200
    fake_pci 0000:02:00.0 0x8086:0x1234 0x020000
    platform_of "${case#*=}"
done
fake_pci 0000:01:00.0 0x10de:0x2330 0x030200
nightly --dry-run
expect_rc 3
expect_text err 'no platform file for GPU 0x10de:0x2330: name one with --platform'
printf '#!/bin/sh\necho "NVIDIA H200"\necho "NVIDIA H200"\n' >bin/nvidia-smi
chmod +x bin/nvidia-smi
PATH=$work/bin:$PATH platform_of h200
rm -rf pci/*
printf '#!/bin/sh\necho "No devices were found"\nexit 6\n' >bin/nvidia-smi
printf '#!/bin/sh\necho "===== ROCm ====="\necho "GPU[0] : Card Series: AMD Instinct MI355X"\n' >bin/rocm-smi
chmod +x bin/rocm-smi
PATH=$work/bin:$PATH platform_of mi355x
rm bin/rocm-smi
PATH=$work/bin:$PATH platform_of cpu
nightly --platform h100
expect_rc 2
expect_text err 'no such platform file; there are: b300.ini cpu.ini h200.ini mi355x.ini'
nightly --keep 0
expect_rc 2

# Every platform file is a plan, whose launches can decide what the gate asks of those of one size, or it says who does.
printf 'n%d slots=8\n' 1 2 3 4 >hosts
for file in "$source_dir"/results/platforms/*.ini; do
    single sweep "$file" --dry-run --out plan
    expect_rc 0
    expect_text out 'launches of [0-9]+ variants' '^verdicts, backends' '^verdicts, two sections'
    case $file in
    */cpu.ini) check "who decides" grep -q '^; .*change points' "$file" ;;
    *)
        single sweep "$file" --dry-run --out plan --hostfile hosts
        expect_text out '^verdicts, two sections .* better and worse can be told for'
        ;;
    esac
    expect_no_text out '^  [a-z0-9-]+ .* +0 +[0-9]+ +.*guess'
done

# --- templates ---

templates=$source_dir/scripts/templates
check "cron and sbatch call the script" [ "$(grep -l '/opt/k3bench/scripts/nightly.sh' "$templates"/* | wc -l)" -ge 3 ]
check "sbatch is a script" bash -n "$templates/nightly.sbatch"
if command -v systemd-analyze >/dev/null; then
    mkdir units
    sed "s#/opt/k3bench#$source_dir#; /^User=/d" "$templates/k3bench-nightly.service" >units/k3bench-nightly.service
    cp "$templates/k3bench-nightly.timer" units/
    systemd-analyze verify --man=no units/k3bench-nightly.timer units/k3bench-nightly.service >verified 2>&1
    expect_no_text verified 'k3bench-nightly.*(Unknown|Invalid|Failed to parse)'
fi

if [ -n "${K3BENCH_TEST_LONG:-}" ]; then
    unset PCI_DEVICES
    rm -rf nights
    nightly --platform cpu
    expect_rc 0
    expect_text nights/latest/summary.md '4 launches: 4 done'
fi
