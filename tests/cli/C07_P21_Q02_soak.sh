#!/usr/bin/env bash
# scripts/soak.sh: rounds with a rank that is late now and then, every row checked, one line for each backend. C07, P21, Q02.
# Alone: many rounds.
. "$(dirname "$0")/lib.sh"

soak() {
    run_it env BIN="$k3bench" RANKS=4 TOKENS=1 "$source_dir/scripts/soak.sh" "$@"
}

if [ -n "${K3BENCH_TEST_LONG:-}" ]; then
    limit=1200
    soak 200
    expect_rc 0
    for launch in $(seq 8); do
        launch 8 run --model "tiny:E=16,K=4,H=128,L=128,I=32,S=32" --backend deepep:normal --tokens 8192 --check every --iters 2 --seed "$launch" --out "stale$launch.json"
        expect_rc 0
        expect_good "stale$launch.json" 1
    done
    check "a line for each backend" test "$(grep -c ' 200 rounds ' out)" = "$("$k3bench" list backends --json | jq '[.backends[] | select(.state == "available")] | length')"
else
    soak 52 deepep:normal
    expect_rc 0
    # 26 and 26 rounds of 4 rows and one of warm-up each; of 7 chains the last pair, and one of warm-up.
    expect_text out '^deepep:normal +52 rounds +248 rows checked .* ok$'
fi

# A launch that fails is told with its exit status, and the others are still run.
soak 2 nobody null none
expect_rc 2
expect_text out '^none .* ok$'
expect_text out '^nobody .*FAILED \(region, stall:1:router:2:/1, seed 1, exit 2\): k3bench: .*nobody' '^null .* ok$'

soak none
expect_rc 2
expect_text err 'none'
