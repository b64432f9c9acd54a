#!/usr/bin/env bash
# A Slurm of the test's own on this machine (munge, slurmctld, slurmd with a private folder and ports): `run` by
# srun --mpi=pmix, a sweep inside an allocation, and the sbatch template of the nightly job. E01, C07.
# Alone: a cluster of its own.
. "$(dirname "$0")/lib.sh"

packages="munge slurmctld slurmd slurm-client"
for tool in munged slurmctld slurmd srun scontrol salloc; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool here; apt-get install --no-install-recommends $packages"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: slurmd starts as root only"; exit 77; }
srun_kinds=$(SLURM_CONF=/dev/null srun --mpi=list 2>&1 || true)

# --- the daemons ---

daemons=()
stop_daemons() {
    local pid
    if [ "${#daemons[@]}" = 3 ]; then # jobs end before their daemons do
        squeue -h -o %i 2>/dev/null | xargs -r scancel 2>/dev/null
        for _ in $(seq 50); do [ -n "$(squeue -h 2>/dev/null)" ] || break; sleep 0.1; done
    fi
    for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null; done
    for pid in "${daemons[@]}"; do
        for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
        kill -9 "$pid" 2>/dev/null
    done
    wait 2>/dev/null
}
trap 'status=$?; stop_daemons; (exit $status); end_of_script' EXIT

# Two ports that are free now.
mapfile -t ports < <(python3 -c 'import socket
s = [socket.socket() for i in range(2)]
[x.bind(("127.0.0.1", 0)) for x in s]
[print(x.getsockname()[1]) for x in s]')
host=$(hostname -s)
chmod 755 "$work"
mkdir -p state spool munge
chmod 700 munge
dd if=/dev/urandom of=munge/key bs=1024 count=1 2>/dev/null
chmod 600 munge/key
cat >slurm.conf <<CONF
ClusterName=k3bench
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=pmix
ReturnToService=2
SchedulerParameters=sched_interval=1
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
# mpirun sees that ranks outnumber cores and makes them yield; srun does not know what this machine has.
export OMPI_MCA_mpi_yield_when_idle=1

give_up() {
    echo "skipped: $1 does not start here"
    tail -n 5 ./*.log 2>/dev/null
    exit 77
}
munged --foreground --force --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
    --log-file="$work/munge.log" --seed-file="$work/munge/seed" >munged.out 2>&1 &
daemons+=($!)
for _ in $(seq 50); do [ ! -S munge/socket ] || break; sleep 0.1; done
[ -S munge/socket ] || give_up munged
slurmctld -D -i >slurmctld.out 2>&1 &
daemons+=($!)
slurmd -D >slurmd.out 2>&1 &
daemons+=($!)
for _ in $(seq 150); do
    sinfo -h -o %t 2>/dev/null | grep -q '^idle$' && break
    sleep 0.1
done
sinfo -h -o %t 2>/dev/null | grep -q '^idle$' || give_up "a Slurm node"
case $(srun --mpi=list 2>&1)$srun_kinds in *pmix*) ;; *) give_up "srun --mpi=pmix" ;; esac

# --- run by srun ---

run_it srun --mpi=pmix -n 4 "$k3bench" run --model tiny --dp 2 --backend mooncake,deepep:ll,none --tokens 4 --iters 3 --check every --out srun.json
expect_rc 0
expect_good srun.json 3
expect srun.json '.run.launch | .launcher == "srun" and .ranks == 4'
run_it srun --mpi=pmix -n 2 "$k3bench" run --model tiny --backend none --tokens 4 --iters 3 --fault corrupt:0:0 --out wrong.json
expect_rc 1

# Without PMIx no world of four comes about: that is an error, not four times one rank.
run_it srun --mpi=none -n 4 "$k3bench" run --model tiny --backend none --out alone.json
check_not "several tasks without a world are refused" [ "$rc" = 0 ]
expect_no_file alone.json

# --- a sweep inside an allocation ---

printf 'model = tiny\nbackend = mooncake,null\ntokens = 4\niters = 2\nlaunches = 1\n[two]\ntp = 2\n[four]\ntp = 4\n[nine]\ntp = 9\n' >alloc.ini
run_it salloc -Q -n 8 "$k3bench" sweep alloc.ini
expect_rc 0
expect_text out 'nine tiny tp9, mooncake,null \(1 cell\): 9 ranks: there are 8 slots on 1 hosts' '2 launches: 2 done'
for record in alloc/records/*; do expect_good "$record" 2; done
expect alloc/records/four.np4.*.r001.json '.run.launch.launcher == "srun"'
run_it salloc -Q -n 8 "$k3bench" sweep alloc.ini --dry-run
expect_text out "srun --mpi=pmix --exact -n 4 -N 1 -w $host "
# Two steps of the allocation at a time need hosts of their own; there is one.
run_it salloc -Q -n 8 "$k3bench" sweep alloc.ini --jobs 2 --out twice
expect_rc 0

# An srun that hangs costs its launch; the step is cancelled with it.
printf '#!/bin/sh\nexec sleep 100\n' >hang.sh
chmod +x hang.sh
printf 'launcher = srun --mpi=none -n 1 ./hang.sh {np}\ntp = 2\nbackend = none\nlaunches = 1\n' >hang.ini
run_it salloc -Q -n 8 "$k3bench" sweep hang.ini --launch-limit 1
expect_rc 1
expect_text out 'did not end within its limit'
check "no step is left" [ -z "$(squeue -h -s -o %i | grep -v -e batch -e extern -e interactive)" ]
