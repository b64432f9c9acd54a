#!/usr/bin/env bash
# The launcher and the world, the transport, the memory of the node: contradictions and lacks end the
# command with one line, exit 3, and no file. E01, E02, E05, O10.
. "$(dirname "$0")/lib.sh"

cell=(--model "tiny:E=16,K=4" --tokens 4 --iters 2)

# One rank where the launcher meant 8, in its variables.
for variable in OMPI_COMM_WORLD_SIZE PMI_SIZE; do
    run_it env "$variable=8" "$k3bench" run "${cell[@]}" --backend mooncake --out no.json
    expect_refused 3 "$variable" 8 'sees 1'
done
run_it env OMPI_COMM_WORLD_SIZE=8 "$k3bench" plan --json plan.json
expect_rc 0
expect plan.json '.cells | length == 4'
run_it env OMPI_COMM_WORLD_SIZE=1 "$k3bench" run "${cell[@]}" --backend mooncake --out one.json
expect_rc 0
expect_good one.json 1
run_it mpirun --oversubscribe -n 4 env OMPI_COMM_WORLD_SIZE=5 "$k3bench" run "${cell[@]}" --backend mooncake --out no.json
expect_refused 3 OMPI_COMM_WORLD_SIZE 5 'sees 4'
expect_no_file no.json

# Oversubscription is recorded.
launch 8 run "${cell[@]}" --backend none --out eight.json
expect_rc 0
if [ "$(nproc)" -lt 8 ]; then
    expect eight.json '.topology.oversubscribed == true'
    expect_text out oversubscribed
fi
expect one.json '.topology.oversubscribed == false'

# No usable transport; the next start is clean.
UCX_TLS=nonexistent launch_failing 4 run "${cell[@]}" --backend mooncake --out no.json
expect_refused 3 'UCX' 'UCX_TLS=nonexistent'
expect_no_file no.json
launch 4 run "${cell[@]}" --backend mooncake --out yes.json
expect_rc 0
expect_good yes.json 1

# A window of fixed size that is too small: both sizes, before anything is allocated; with k3 it is as large as it must be.
launch_failing 8 run --model "tiny:E=64,K=8,H=7168,L=7168,I=1024,S=512" --backend ascend_fuseep --generation stock --tokens 1 --max-tokens 256 --out no.json
expect_refused 2 'ascend_fuseep' '473956352 bytes' '209715200' 'HCCL_BUFFSIZE'
expect_no_file no.json
launch 2 run --model "tiny:E=16,K=8,H=7168,L=7168,I=1024,S=512" --backend ascend_fuseep --generation k3 --tokens 1 --max-tokens 256 --iters 1 --check ends --out window.json
expect_rc 0
expect window.json '.cells[0] | good and .memory.block_bytes == 121634816'

# More memory than the node has: refused with both numbers before anything is allocated, in seconds.
available=$(awk '/^MemTotal:/ {printf "%.0f", $2 * 1024}' /proc/meminfo)
for tokens in 128 512 1024 4096 16384; do
    rm -f size.json
    single plan --model kimi-k3 --backend deepep:ll --tp 8 --dp 2 --tokens "$tokens" --json size.json
    expect_rc 0
    [ "$(value size.json '.cells[0].memory.total_bytes * 8')" -lt "$available" ] || break
done
each=$(value size.json '.cells[0].memory.total_bytes')
if [ $((each * 8)) -gt "$available" ]; then
    big_shm() { find /dev/shm /dev/hugepages -size +1G -newer size.json 2>/dev/null | sort; }
    shm=$(big_shm)
    started=$SECONDS
    # A rank cannot take even a quarter of what it would need.
    limit_kib=$((each / 4 / 1024))
    [ "$sanitized" = 0 ] || limit_kib=unlimited
    run_it bash -c 'ulimit -v "$1"; shift; exec "$@"' limited "$limit_kib" mpirun --oversubscribe -n 8 "$k3bench" run --model kimi-k3 \
        --backend deepep:ll --tp 8 --dp 2 --tokens "$tokens" --out no.json
    in_words() { awk -v bytes="$1" 'BEGIN { printf bytes < 1e12 ? "%.2f GB" : "%.2f TB", bytes < 1e12 ? bytes / 1e9 : bytes / 1e12 }'; }
    expect_refused 3 'deepep:ll' 'needs [0-9.]+ [GT]B a rank' '[0-9.]+ [GT]B available'
    check "refused within seconds" [ $((SECONDS - started)) -le 30 ]
    check "the figure of the plan" grep -q "needs $(in_words "$each") a rank .*, $(in_words $((each * 8))) for the 8 ranks" err
    # shellcheck disable=SC2016 # of awk
    check "what it has is below what it needs" awk -v need=$((each * 8)) '
        match($0, /[0-9.]+ [GT]B available/) { split(substr($0, RSTART, RLENGTH), word, " ")
            has = word[1] * (word[2] == "TB" ? 1e12 : 1e9); found = has <= need * 1.01 }
        END { exit !found }' err
    check "/dev/shm as before" [ "$(big_shm)" = "$shm" ]
    expect_no_file no.json
    # In a list the other cells run.
    launch 4 run --model "kimi-k3,tiny:E=16,K=4" --backend deepep:ll --tokens "$tokens" --max-tokens "$tokens" --iters 2 --check ends --out some.json
    expect_rc 0
    expect some.json '.cells[0] | .status == "unsupported" and (.reason | test("needs [0-9.]+ [GT]B a rank"))'
    expect some.json '.cells[1] | good'
fi
