#!/usr/bin/env bash
# Experts and ranks that do not divide are refused, those that do divide run, powers of two or not;
# sizes of the true shape in the plan. L06, L08, L10.
. "$(dirname "$0")/lib.sh"

# 288 experts over 64 ranks.
for backend in mooncake deepep:ll mpi null; do
    single plan --backend "$backend" --model deepseek-v3:E=288 --tp 64 --json plan.json
    expect_refused 2 288 64
    expect_no_file plan.json
done
single plan --backend mooncake,deepep:ll,none,mpi --model deepseek-v3:E=288 --tp 64 --json plan.json
expect_rc 0
expect plan.json 'of("mooncake", "deepep:ll", "mpi") | .status == "unsupported" and (.reason | test("288") and test("64"))'
expect plan.json 'of("none") | .status == "planned"'
rm -f plan.json
single plan --backend mooncake --model deepseek-v3:E=320 --tp 64 --generation k3 --json plan.json
expect_rc 0
expect plan.json '.cells[0].status == "planned"'

# The same in a run: refused on all ranks with one line; in a list the other cells run.
launch_failing 8 run --backend mooncake --model tiny:E=36 --tokens 2 --out alone.json
expect_refused 2 36 8
expect_no_file alone.json
launch 8 run --backend none,mooncake --model tiny:E=36 --tokens 2 --iters 2 --out list.json
expect_rc 0
expect list.json 'of("none") | good'
expect list.json 'of("mooncake") | .status == "unsupported" and (.reason | test("36") and test("8"))'
launch_failing 8 run --backend none --model tiny:E=36 --ep 8 --tokens 2 --out ep.json
expect_refused 2 36 8
launch_failing 8 run --backend mooncake --model tiny:E=64 --tp 64 --tokens 2
expect_refused 2 'tp 64' '8 ranks'

# 128 and 64 experts a rank.
for n in 7 14; do
    launch "$n" run --backend "$backends" --model kimi-k3:H=128,L=64,I=64 --dispatch-dtype bf16 --tokens 4 --iters 2 --check every --out "k$n.json"
    expect_rc 0
    expect_good "k$n.json" 5
    expect "k$n.json" '.cells[] | .model.experts == 896 and .model.topk == 16 and .work.rows_global == 4 * $n' --argjson n "$n"
    # Of many lanes a record keeps the slowest, and the sums of each rank.
    expect "k$n.json" 'of("mooncake", "deepep:ll")
        | if .qps.lanes_kept == .qps.lanes_total then [lanes | .signals] | add
          else .qps | [{columns: .rank_columns, rows: .rank_sums} | table | .signals] | add end
        | . == 2 * 896 * $n' --argjson n "$n"
    expect "k$n.json" 'of("deepep:ll") | .choices.qps_per_peer == 896 / $n' --argjson n "$n"
done

# One expert, and how many a rank holds.
single list models --json
expect out '.models[] | select(.name == "kimi-k3") | .expert_bytes == 17547264'
for ep in 8 16 32; do
    rm -f ep.json
    single plan --model kimi-k3 --backend mooncake --tp "$ep" --tokens 4 --json ep.json
    expect_rc 0
    expect ep.json '.cells[0] | .layout.ep == $ep and .memory.expert_weights_bytes == 896 / $ep * 17547264' --argjson ep "$ep"
done
