#!/usr/bin/env bash
# A cluster on one machine: nodes are network namespaces behind a bridge, each with its own host name,
# IPC, processes, /dev/shm and temporary folder. The machine's own network is not touched.
#
#   scripts/cluster.sh up N [--rate RATE] [--owner PID]   N nodes, node0 to node(N-1); links of RATE both
#                                                         ways (200mbit, 1gbit), else as fast as it goes;
#                                                         ends by itself when process PID has ended
#   scripts/cluster.sh run -- COMMAND...                  for mpirun: it finds the nodes, MPI and UCX are
#                                                         bound to their interface
#   scripts/cluster.sh on NODE COMMAND...                 on one node; Open MPI starts its daemons by it
#   scripts/cluster.sh shape NODE RATE                    another rate for one node's link
#   scripts/cluster.sh status | down
#
# CLUSTER_STATE names the folder of its state (default: /tmp/k3bench-cluster-UID), one cluster each.
# Needs root, iproute2 and namespaces; without them one line says so and the exit code is 3.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

NODES_MAX=64 START_SECONDS=30
state=${CLUSTER_STATE:-/tmp/k3bench-cluster-$(id -u)}

usage() {
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
}

# --- what is there ---

# The head holds this lock as long as it lives.
is_up() {
    [ -f "$state/head" ] && ! flock -n "$state/lock" true
}

# Whether process PID is still the one that was started at TIME (in ticks since boot).
is_same_process() { # PID TIME
    [ "$(start_time "$1")" = "$2" ]
}

need_cluster() {
    is_up || die 3 "no cluster in $state; start one with: $0 up N"
}

node_pid() { # NODE: name or number
    local number=${1#node}
    [ -f "$state/node$number.pid" ] || die 2 "there is no node \"$1\" in $state"
    cat "$state/node$number.pid"
}

check_machine() {
    local tool
    [ "$(id -u)" -eq 0 ] || die 3 "a virtual cluster needs root"
    for tool in ip tc unshare nsenter setpriv; do
        has_tool "$tool" || die 3 "no $tool here; install it with: apt-get install iproute2 util-linux"
    done
    unshare --net --uts --ipc --mount --pid --fork --mount-proc true 2>/dev/null ||
        die 3 "namespaces cannot be made here (container without the right to?)"
}

# --- up ---

parse_up() { # ARGUMENTS of up; sets nodes, rate, owner
    nodes=${1:-} rate=none owner=0
    if [[ ! $nodes =~ ^[0-9]{1,3}$ ]] || [ "$nodes" -lt 1 ] || [ "$nodes" -gt "$NODES_MAX" ]; then
        die 2 "up: \"$nodes\" nodes; allowed are 1 to $NODES_MAX"
    fi
    shift
    while [ $# -gt 0 ]; do
        [ $# -ge 2 ] || die 2 "up: \"$1\" needs a value"
        case $1 in
        --rate) rate=$2 ;;
        --owner) owner=$2 ;;
        *) die 2 "up: \"$1\" is none of --rate, --owner" ;;
        esac
        shift 2
    done
    [ "$rate" = none ] || bits_of "$rate" >/dev/null
    [[ $owner =~ ^[0-9]+$ ]] || die 2 "up: owner \"$owner\" is no process number"
    [ "$owner" = 0 ] || kill -0 "$owner" 2>/dev/null || die 2 "up: there is no process $owner"
}

make_state() {
    if [ -e "$state" ] && [ ! -f "$state/head" ] && [ -n "$(ls -A "$state" 2>/dev/null)" ]; then
        die 3 "$state holds something else than a cluster's state"
    fi
    mkdir -p "$state"
    chmod 700 "$state"
    [ -O "$state" ] || die 3 "$state belongs to another user"
}

up() {
    local until
    parse_up "$@"
    check_machine
    make_state
    ! is_up || die 3 "a cluster is up in $state already; end it with: $0 down"
    remove_state
    make_state
    : >"$state/head" # ours from here on
    trap 'down' EXIT
    # Nothing of the caller's may keep a pipe open; the log tells why a start failed.
    setsid unshare --net --uts --mount --propagation private \
        "$ROOT/scripts/cluster_head.sh" "$state" "$nodes" "$rate" "$owner" >"$state/log" 2>&1 </dev/null &
    until=$((SECONDS + START_SECONDS))
    while [ ! -f "$state/ready" ]; do
        kill -0 $! 2>/dev/null || die 3 "the cluster did not start: $(tail -n 1 "$state/log")"
        [ "$SECONDS" -lt "$until" ] || die 3 "the cluster did not start within $START_SECONDS s: $(tail -n 1 "$state/log")"
        sleep 0.05
    done
    trap - EXIT
    say "$nodes nodes, node0 to node$((nodes - 1)), links ${rate/none/without a limit}; state in $state"
}

# --- down ---

remove_state() {
    [ -f "$state/head" ] || return 0
    rm -rf -- "$state"
}

# The nodes are children of the head and end with it, and each node's processes with the node's first.
down() {
    local pid time file until
    if [ ! -f "$state/head" ]; then
        return 0
    fi
    if read -r pid time <"$state/head" && is_same_process "$pid" "$time"; then
        kill -KILL "$pid" 2>/dev/null || true
        until=$((SECONDS + START_SECONDS))
        for file in "$state"/node*.pid; do
            [ -f "$file" ] || continue
            while [ -d "/proc/$(cat "$file")" ] && [ "$SECONDS" -lt "$until" ]; do sleep 0.02; done
        done
        while is_up && [ "$SECONDS" -lt "$until" ]; do sleep 0.02; done
        ! is_up || die 1 "the cluster in $state does not end"
    fi
    remove_state
}

status() {
    local file node
    if ! is_up; then
        echo "no cluster in $state"
        return 1
    fi
    for file in "$state"/node*.pid; do
        node=$(basename "$file" .pid)
        printf '%s  %s  %s  first process %s\n' "$node" "$(cat "$state/$node.address")" \
            "$(sed 's/none/no limit/' "$state/$node.rate")" "$(cat "$file")"
    done
}

# --- use ---

shape() { # NODE RATE
    local number=${1#node}
    [ $# -eq 2 ] || die 2 "shape takes NODE RATE"
    need_cluster
    node_pid "$1" >/dev/null
    bits_of "$2" >/dev/null
    shape_link "$state" "$number" "$2"
}

on_node() { # NODE COMMAND...: the words make one line for the shell, as with rsh
    local pid folder=$PWD
    [ $# -ge 2 ] || die 2 "on takes NODE COMMAND..."
    need_cluster
    pid=$(node_pid "$1")
    shift
    export TMPDIR=$state/tmp/node
    # shellcheck disable=SC2016 # the node's shell expands it
    exec nsenter --target "$pid" --net --uts --ipc --mount --pid -- \
        sh -c 'cd "$1" 2>/dev/null; shift; eval "$*"' sh "$folder" "$@"
}

run() {
    local network
    [ "${1:-}" = -- ] || die 2 "run takes -- COMMAND..."
    shift
    [ $# -ge 1 ] || die 2 "run takes -- COMMAND..."
    need_cluster
    network=$(cat "$state/network")
    allow_mpirun
    export CLUSTER_STATE=$state PATH=$ROOT/scripts:$PATH
    export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="cluster.sh on" OMPI_MCA_orte_default_hostfile=$state/hosts.mpi
    export OMPI_MCA_oob_tcp_if_include=$network OMPI_MCA_btl_tcp_if_include=$network
    export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
    # The nodes share this machine's cores, so none is free for a rank that only waits.
    export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1
    export UCX_TLS=${UCX_TLS:-tcp,sysv,posix,self} UCX_NET_DEVICES=${UCX_NET_DEVICES:-eth0}
    # shellcheck disable=SC2093 # nothing follows
    exec nsenter --target "$(cut -d' ' -f1 "$state/head")" --net --uts --mount -- env -C "$PWD" "$@"
}

case ${1:-} in
up | down | status | shape | run)
    command=$1
    shift
    "$command" "$@"
    ;;
on)
    shift
    on_node "$@"
    ;;
-h | --help) usage ;;
*) die 2 "\"${1:-}\" is none of up, run, on, shape, status, down" ;;
esac
