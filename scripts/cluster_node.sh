#!/usr/bin/env bash
# The first process of a node of a virtual cluster (scripts/cluster.sh), in namespaces of its own: sets the
# node up, then stays and collects what others leave behind. Usage: cluster_node.sh STATE NUMBER
set -euo pipefail

state=$1 number=$2

hostname "node$number"
mount --bind "$state/hosts" /etc/hosts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm

# /sys shows the network of the namespace that it was mounted in; what lies below it stays.
mkdir -p "$state/cgroup"
mount --rbind /sys/fs/cgroup "$state/cgroup"
mount -t sysfs sysfs /sys
mount --move "$state/cgroup" /sys/fs/cgroup

# Temporary files of its own, at the same path on each node.
mkdir -p "$state/tmp/node" "$state/tmp/node$number"
mount --bind "$state/tmp/node$number" "$state/tmp/node"

# A link that was idle for a moment keeps its window: the next iteration starts at full rate.
echo 0 >/proc/sys/net/ipv4/tcp_slow_start_after_idle

: >"$state/node$number.ready"
while :; do
    sleep infinity &
    wait
done
