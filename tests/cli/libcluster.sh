# For tests that cross nodes: a virtual cluster of their own, which ends with the script. Sourced after lib.sh.
# shellcheck shell=bash disable=SC2154 # variables of lib.sh
unset OMPI_MCA_pml # between nodes as it is found
cluster=$source_dir/scripts/cluster.sh
export CLUSTER_STATE=$work/cluster

# start_cluster N [RATE]; the script is skipped where no cluster can be made.
start_cluster() {
    local rc=0
    "$cluster" up "$1" ${2:+--rate "$2"} --owner $$ 2>up.err || rc=$?
    if [ "$rc" = 3 ]; then
        echo "skipped: $(cat up.err)"
        exit 77
    fi
    [ "$rc" = 0 ] || { cat up.err; exit 1; }
}

stop_cluster() { "$cluster" down; }

# on_nodes NODES RANKS_PER_NODE ARGUMENTS: k3bench under mpirun
on_nodes() {
    local nodes=$1 each=$2 hosts i
    shift 2
    hosts=node0:$each
    for ((i = 1; i < nodes; i++)); do hosts+=",node$i:$each"; done
    run_it "$cluster" run -- mpirun -q --host "$hosts" --map-by "ppr:$each:node" "$k3bench" "$@"
}
