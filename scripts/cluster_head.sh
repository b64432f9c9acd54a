#!/usr/bin/env bash
# The head of a virtual cluster (scripts/cluster.sh): holds the bridge's namespaces, starts the nodes, and
# takes them with it when it ends. Usage: cluster_head.sh STATE NODES RATE OWNER
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

state=$1 nodes=$2 rate=$3 owner=$4
network=10.77.0 # never leaves the namespaces

exec 9>"$state/lock"
flock -n 9 || die 3 "another cluster is starting in $state"
echo "$$ $(start_time $$)" >"$state/head"
echo "$network.0/24" >"$state/network"

# The names of the nodes, for all of them and the head.
write_hosts() {
    local i
    printf '127.0.0.1 localhost\n%s.254 head\n' "$network" >"$state/hosts"
    : >"$state/hosts.mpi"
    for ((i = 0; i < nodes; i++)); do
        printf '%s.%s node%s\n' "$network" $((i + 1)) "$i" >>"$state/hosts"
        printf 'node%s slots=%s\n' "$i" "$(nproc)" >>"$state/hosts.mpi"
        echo "$network.$((i + 1))" >"$state/node$i.address"
    done
}

make_bridge() {
    hostname head
    mount --bind "$state/hosts" /etc/hosts
    ip link set lo up
    ip link add br0 mtu "$FRAME_PAYLOAD" type bridge
    ip addr add "$network.254/24" dev br0
    ip link set br0 up
}

# setpriv lets the node end with this process, however that ends; --kill-child takes the rest along.
start_node() { # NUMBER
    local unshare_pid child
    setpriv --pdeathsig KILL unshare --net --uts --ipc --mount --propagation private --pid --fork \
        --mount-proc --kill-child "$ROOT/scripts/cluster_node.sh" "$state" "$1" 9>&- &
    unshare_pid=$!
    while [ ! -f "$state/node$1.ready" ]; do
        kill -0 "$unshare_pid" 2>/dev/null || die 3 "node$1 did not start"
        sleep 0.01
    done
    child=$(<"/proc/$unshare_pid/task/$unshare_pid/children")
    echo "${child%% *}" >"$state/node$1.pid"
}

connect_node() { # NUMBER
    local pid
    pid=$(cat "$state/node$1.pid")
    ip link add "port$1" mtu "$FRAME_PAYLOAD" type veth peer name eth0 mtu "$FRAME_PAYLOAD" netns "$pid"
    ip link set "port$1" master br0 up
    nsenter --target "$pid" --net -- sh -c "ip link set lo up; ip addr add $network.$(($1 + 1))/24 dev eth0; ip link set eth0 up"
    echo none >"$state/node$1.rate"
    [ "$rate" = none ] || shape_link "$state" "$1" "$rate"
}

write_hosts
make_bridge
for ((i = 0; i < nodes; i++)); do
    start_node "$i"
    connect_node "$i"
done
: >"$state/ready"
# The lock lives on in what this process becomes, and the nodes remain its children.
if [ "$owner" = 0 ]; then
    exec sleep infinity
fi
exec tail --pid="$owner" -s 0.5 -f /dev/null
