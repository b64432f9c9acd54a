#!/usr/bin/env bash
# Memory that one rank alone cannot have, in the middle of a list of cells: all ranks agree on that cell's end, the others
# run, and none is left waiting. F07.
. "$(dirname "$0")/lib.sh"
[ "$sanitized" = 0 ] || { echo "skipped: the address sanitizer needs all addresses"; exit 77; }

# The second cell takes 270 MB for its buffers, and rank 3 has 300 MB beside what MPI and UCX map.
run_it mpirun --oversubscribe -n 4 sh -c '[ "$OMPI_COMM_WORLD_RANK" != 3 ] || ulimit -v 600000; exec "$@"' sh "$k3bench" \
    run --model "tiny:E=16,K=4,H=2048,L=2048" --tokens 4,1024,2 --backend mooncake --iters 2 --check off --timeout 20 --out f7.json
expect_rc 1
expect f7.json '[.cells[].status] == ["ok", "failed", "ok"]'
expect f7.json '.cells[1].reason | startswith("rank 3: ")'

# Too few file descriptors for UCX on one rank: nobody waits for it in a barrier that it does not know of.
run_it mpirun --oversubscribe -n 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" != 1 ] || ulimit -n 31; exec "$@"' sh "$k3bench" \
    run --model tiny --tokens 2 --backend mooncake,none --iters 2 --timeout 20 --out few.json
expect_rc 1
expect few.json '[.cells[].status] == ["failed", "ok"] and (.cells[0].reason | startswith("rank 1: "))'
