#!/usr/bin/env bash
# Two profiles with one engine give one result; every wire format is verified. P18, P22, N13, N17.
. "$(dirname "$0")/lib.sh"

# Same seed: equal errors, so equal combined rows; unequal for another seed.
launch 8 run "${base[@]}" --backend "$slabs" --dispatch-dtype bf16,fp8,mxfp8,mxfp4 --iters 2 --out formats.json
expect_rc 0
expect_good formats.json 8
expect formats.json '[.cells[].choices.dispatch_dtype] | unique == ["bf16", "fp8", "mxfp4", "mxfp8"]'
launch 8 run "${base[@]}" --backend "mpi,null" --component pair --dispatch-dtype bf16,fp8,mxfp8,mxfp4 --iters 2 --out other.json
expect_rc 0
expect_good other.json 8
for format in bf16 fp8 mxfp8 mxfp4; do
    expect formats.json '[.cells[] | select(.choices.dispatch_dtype == $f) | .work.routing_hash] | length == 2 and .[0] == .[1]' --arg f "$format"
    # Rows: values, and one f32 for 128 or one byte for 32.
    expect formats.json '{bf16: 512, fp8: 264, mxfp8: 264, mxfp4: 136}[$f] as $b | .cells[] | select(.choices.dispatch_dtype == $f)
        | .traffic.dispatch | .bytes_payload == .messages * $b' --arg f "$format"
done
# Inside what their roundings allow. Rows of a few bits go to runners of few bits, whose f32 sums are
# often exact: only the others must differ from the oracle's at all.
expect formats.json '.cells[] | .check.stages.combined | .max_error <= .tolerance'
expect formats.json '.cells[] | select(.choices.dispatch_dtype | . == "bf16" or . == "fp8") | .check.stages.combined.max_error > 0'
expect formats.json '.cells[] | {bf16: "deep_gemm", fp8: "deep_gemm", mxfp8: "aiter:a8w4", mxfp4: "aiter:a4w4"}[.choices.dispatch_dtype] as $r
    | .choices.recipe | .runner == $r and .rows_converted == false'

# The same iterations (warm-up may differ, so the first iteration alone): equal results.
for seed in 7 8; do
    launch 8 run "${base[@]}" --backend "$slabs" --seed "$seed" --iters 1 --check every --dispatch-dtype fp8 --out "seed$seed.json"
    expect_rc 0
    expect_good "seed$seed.json" 2
done
check_not "another seed gives other rows" \
    [ "$(value seed7.json '.cells[0].work.routing_hash')" = "$(value seed8.json '.cells[0].work.routing_hash')" ]

# Widths in powers of two, and some that are none: 64 B to 16 KiB.
models=
for latent in 32 64 96 128 512 1024 2048 4096 8192; do
    models="$models${models:+,}tiny:E=16,K=2,H=64,I=32,S=32,L=$latent"
done
launch 4 run --model "$models" --backend "$slabs" --dispatch-dtype bf16 --tokens 2 --iters 2 --out widths.json
expect_rc 0
expect_good widths.json 18
expect widths.json '.cells[] | .model.latent as $l | lanes | select(.phase == "dispatch") | .bytes_payload == .messages * 2 * $l'

# A width without whole scale groups, or that upstream has not: refused with the rule.
single plan --backend deepep:ll --model tiny:L=2880 --dispatch-dtype fp8
expect_refused 2 deepep:ll 2880 'multiple of (the )?128' 'fp8'
single plan --backend deepep:ll --model tiny:L=2880 --dispatch-dtype bf16 --generation stock
expect_refused 2 deepep:ll 2880 '2560, 3072'
single plan --backend deepep:ll --model tiny:L=2688 --dispatch-dtype fp8 --generation stock
expect_refused 2 deepep:ll 2688 '2560, 3072'
single plan --backend deepep:ll --model tiny:L=2880 --dispatch-dtype bf16 --json wide.json
expect_rc 0
expect wide.json '.cells[0] | .status == "planned" and .traffic.dispatch.bytes_payload == .traffic.dispatch.messages * 5760'
single plan --backend mooncake --model tiny:L=16
expect_refused 2 'L 16' 'multiple of 32'

# A format that a backend does not have.
launch 8 run "${base[@]}" --backend none,mooncake --dispatch-dtype fp8 --iters 2 --out partly.json
expect_rc 0
expect partly.json 'of("none") | .status == "unsupported" and (.reason | test("fp8") and test("bf16"))'
expect partly.json 'of("mooncake") | good'
single plan --backend mooncake --dispatch-dtype int8
expect_refused 2 mooncake int8
