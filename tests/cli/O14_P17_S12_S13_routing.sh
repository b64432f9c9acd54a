#!/usr/bin/env bash
# Real routing: traces of several steps on every kind of engine, and the gate's own choice on given rows.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# array FILE TYPE 'PYTHON EXPRESSION' SHAPE...: nested lists flattened.
array() {
    python3 - "$@" <<'PYTHON'
import random, struct, sys
random.seed(5)
path, kind, expression, *shape = sys.argv[1:]
values = eval(expression)
code = {"<i4": "i", "<i8": "q", "<f4": "f", "<u2": "H", "<f2": "e"}[kind]
shape = ", ".join(shape) + ("," if len(shape) == 1 else "")
head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (kind, shape)
head += " " * (-(len(head) + 11) % 64) + "\n"
with open(path, "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    f.write(struct.pack("<%d%s" % (len(values), code), *values))
PYTHON
}

cell=(--model tiny:E=32,I=128 --tokens 8 --seed 7 --check every)

# Step 0 uniform, step 1 to few experts, step 2 with rows that are not sent: each iteration has its own plan, and rows of
# the step before lie where this one writes none.
steps='[i for s in range(3) for r in range(64) for i in ((random.sample(range(32 if s != 1 else 9), 4))
    if s < 2 or r % 5 else [-1, 3, -1, 31])]'
array steps.npy '<i8' "$steps" 3 64 4
launch 8 run "${cell[@]}" --nodes-as 2 --backend mooncake,deepep_v2:direct,deepep_v2:hybrid,mpi,none --iters 7 \
    --routing trace:steps.npy --out steps.json
expect_rc 0
expect_good steps.json 5
expect steps.json '[.cells[].work.routing_hash] | unique | length == 1'
expect steps.json '.cells[].work.routing_steps == 3'
expect steps.json '.cells[] | select(.work.assignments != null) | .work.assignments == ((256 + 256 + 204 + 26) / 3 | round)'
launch 8 run "${cell[@]}" --dp 2 --backend pplx,megamoe,flashinfer --iters 4 --routing trace:steps.npy --out node.json
expect_rc 0
expect_good node.json 3
[ -z "${K3BENCH_TEST_LONG:-}" ] || {
    launch 8 run "${cell[@]}" --nodes-as 2 --backend deepep:ll,nixl,uccl,mori:asyncll,nccl_ep,pplx_garden,deepep:normal,mori:v1,mori:v1ll \
        --component region,pair,chain --iters 7 --routing trace:steps.npy --out rest.json
    expect_rc 0
    expect_good rest.json 27
    launch 8 run "${cell[@]}" --nodes-as 2 --backend mooncake,deepep_v2:direct --path fallback --iters 7 \
        --routing trace:steps.npy --out all.json
    expect_rc 0
    expect_good all.json 2
}
# Every step is timed, also where their number is that of the iterations from one without accounts to the next: in step s all
# rows go to expert s, so each of the four queue pairs to either rank carries some.
array each.npy '<i4' '[s for s in range(8) for r in range(16)]' 8 16 1
launch 2 run --model tiny:E=8,K=1 --tokens 8 --backend deepep:ll --iters 16 --routing trace:each.npy --out each.json
expect_rc 0
expect_good each.json 1
expect each.json '[.cells[] | lanes | select(.phase == "dispatch" and .messages == 1)] | length == 16'
# A plan holds the mean of the steps; a step of another file is another work.
single plan "${cell[@]:0:6}" --tp 8 --nodes-as 2 --backend mooncake --routing trace:steps.npy --json plan.json
expect_rc 0
expect plan.json '.cells[0].work | .routing_steps == 3 and .assignments == 247'
array first.npy '<i4' "($steps)[:256]" 64 4
single plan "${cell[@]:0:6}" --tp 8 --nodes-as 2 --backend mooncake --routing trace:first.npy --json first.json
expect first.json '.cells[0].work.routing_steps == 1 and .cells[0].work.routing_hash != $h' \
    --arg h "$(jq -r '.cells[0].work.routing_hash' plan.json)"
single plan "${cell[@]:0:6}" --backend mooncake --component control --routing trace:steps.npy
expect_refused 2 'control' '3 steps'
array short.npy '<i8' "($steps)[:252]" 63 4
single plan "${cell[@]:0:6}" --backend mooncake --routing trace:short.npy
expect_refused 2 'short.npy' '63 rows where 64 are needed'
array wrong.npy '<f4' '[0.0] * 256' 64 4
single plan "${cell[@]:0:6}" --backend mooncake --routing trace:wrong.npy
expect_refused 2 'wrong.npy' 'float32' 'int32 or int64'

# --- the gate's own choice on given rows -------------------------------------------------------------

array rows.npy '<f4' '[random.gauss(0, 1) for _ in range(70 * 512)]' 70 512
launch 8 run "${cell[@]}" --nodes-as 2 --dp 2 --backend mooncake,none --iters 2 --hidden rows.npy --out gate.json
expect_rc 0
expect_good gate.json 2
expect gate.json '.cells[] | .choices.routing == "gate" and .choices.hidden.source == "file"
    and .choices.hidden.file == "rows.npy" and .choices.hidden.rows == 70'
expect gate.json '[.cells[].work.routing_hash] | unique | length == 1'
expect gate.json '.cells[0] | .choices.hidden.digest as $d | .key | contains("/hidden#" + $d)'
expect gate.json '.cells[0].memory.hidden_bytes == 70 * 512 * 2'
check "the record is valid" python3 "$source_dir/tests/rules/check_schema.py" \
    "$source_dir/results/schema/k3bench.result.1.schema.json" gate.json steps.json

# The plan finds the same ids without a launch, whatever the number of ranks; the weights decide.
single plan "${cell[@]:0:6}" --tp 8 --backend mooncake --hidden rows.npy --json alone.json
expect alone.json '.cells[0].work.routing_hash == $h' --arg h "$(jq -r '.cells[0].work.routing_hash' gate.json)"
single plan "${cell[@]:0:4}" --seed 8 --tp 8 --backend mooncake --hidden rows.npy --json other.json
expect other.json '.cells[0].work.routing_hash != $h' --arg h "$(jq -r '.cells[0].work.routing_hash' gate.json)"
# Given rows with a prescribed routing, and the gate's routing for rows of the generator.
launch 4 run "${cell[@]}" --backend mooncake --iters 2 --hidden rows.npy --routing zipf:1.2 --out zipf.json
expect_rc 0
expect zipf.json '.cells[0] | good and .choices.routing == "zipf:1.2" and .choices.hidden.source == "file"'
[ -z "${K3BENCH_TEST_LONG:-}" ] || {
    launch 4 run "${cell[@]}" --backend mooncake --iters 2 --hidden rows.npy --component pair --routing gate --out pair.json
    expect_rc 0
    expect pair.json '.cells[0] | good'
}

# Types: half precision, and bf16 as it is.
array half.npy '<f2' '[random.gauss(0, 1) for _ in range(64 * 512)]' 64 512
array bits.npy '<u2' '[16256 + i % 128 for i in range(64 * 512)]' 64 512
for file in half bits; do
    single plan "${cell[@]:0:6}" --tp 8 --backend mooncake --hidden "$file.npy" --json "$file.json"
    expect_rc 0
done

# --- rows that cannot be -----------------------------------------------------------------------------

hidden() { single plan "${cell[@]:0:6}" --tp 8 --backend mooncake --hidden "$@"; }
array few.npy '<f4' '[0.5] * 63 * 512' 63 512
hidden few.npy
expect_refused 2 'few.npy' '63 rows where 64 are needed'
array narrow.npy '<f4' '[0.5] * 64 * 256' 64 256
hidden narrow.npy
expect_refused 2 'narrow.npy' 'rows of 256 values' 'H 512'
array flat.npy '<f4' '[0.5] * 512' 512
hidden flat.npy
expect_refused 2 'flat.npy' '1 dimensions'
array ids.npy '<i4' '[1] * 64 * 512' 64 512
hidden ids.npy
expect_refused 2 'ids.npy' 'float32, float16'
array nan.npy '<f4' '[0.5] * 700 + [float("nan")] + [0.5] * (64 * 512 - 701)' 64 512
hidden nan.npy
expect_refused 2 'nan.npy' 'row 1, column 188'
array huge.npy '<f4' '[0.5] * 700 + [3e38] + [0.5] * (64 * 512 - 701)' 64 512
hidden huge.npy
expect_refused 2 'huge.npy' 'row 1, column 188' '3e\+38 is not between -1e\+12 and 1e\+12'
head -c 1000 rows.npy >cut.npy
hidden cut.npy
expect_refused 2 'cut.npy' 'truncated'
hidden nowhere.npy
expect_refused 3 'nowhere.npy'
hidden rows.npy --component pair --routing uniform
expect_refused 2 'pair' 'hidden'
single plan "${cell[@]:0:6}" --backend mooncake --routing gate
expect_refused 2 'gate' '--hidden'
single plan "${cell[@]:0:6}" --backend mooncake --routing gate:1 --hidden rows.npy
expect_refused 2 'gate'
launch_failing 4 run "${cell[@]}" --backend mooncake --hidden few.npy --tokens 16 --out none.json
expect_refused 2 '63 rows where 64'
expect_no_file none.json
