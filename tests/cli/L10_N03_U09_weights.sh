#!/usr/bin/env bash
# Weights of a checkpoint: the same bits as the same numbers made by the generator, what the record says of
# them, and files that are not what they should be.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

write_checkpoint=$(dirname "$k3bench")/tests/write_checkpoint
[ -x "$write_checkpoint" ] || { echo "skipped: no $write_checkpoint"; exit 77; }

mkdir private
"$write_checkpoint" private/one.safetensors tiny 0 3=7 || exit 1
"$write_checkpoint" shards tiny 5 11=7 2=9 || exit 1
"$write_checkpoint" odd.safetensors tiny 0 odd 3=7 || exit 1
"$write_checkpoint" mini kimi-k3-mini 2 1=7 || exit 1

# --- N03: bit for bit what the generator gives -------------------------------------------------------

# The rows are given, so that every iteration is the same, however long the warm-up was.
python3 - <<'PYTHON'
import random, struct
random.seed(3)
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (32, 512), }"
head += " " * (-(len(head) + 11) % 64) + "\n"
with open("rows.npy", "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    f.write(struct.pack("<16384f", *(random.gauss(0, 1) for _ in range(16384))))
PYTHON
same=(--nodes-as 2 --model tiny --seed 7 --tokens 8 --hidden rows.npy --check every --iters 1)

launch 4 run "${same[@]}" --backend deepep:ll --dump base --out base.json
expect_rc 0
for weights in private/one.safetensors:3 shards:11 odd.safetensors; do
    name=$(basename "$weights") && name=${name%%[.:]*} # one, shards, odd
    launch 4 run "${same[@]}" --backend deepep:ll --weights "$weights" --dump "dump_$name" --out "$name.json"
    expect_rc 0
    expect "$name.json" '.cells[] | good and .qps.matches_plan'
    for array in base/*.npy; do
        check "$array is the same with --weights $weights" cmp "$array" "dump_$name/$(basename "$array")"
    done
done

# Slices of experts and of the shared expert are copied out of the file: none cuts both over all ranks.
launch 4 run --model tiny --seed 7 --tokens 4 --backend none,mpi --weights private/one.safetensors --check every \
    --iters 2 --out slices.json
expect_rc 0
expect slices.json '.cells[] | good'
[ -z "${K3BENCH_TEST_LONG:-}" ] || {
    launch 8 run --model kimi-k3-mini --seed 7 --tokens 2 --nodes-as 2 --backend mori:v1,none --weights mini \
        --check every --iters 2 --out mini.json
    expect_rc 0
    expect mini.json '.cells[] | good'
}

# --- L10, U09: what the record says ------------------------------------------------------------------

expect one.json '.cells[0].choices.weights | .source == "checkpoint" and .layer == 3
    and .files == [{name: "one.safetensors", bytes: $n}]' --argjson n "$(stat -c %s private/one.safetensors)"
expect shards.json '.cells[0].choices.weights | .layer == 11 and (.files | length) == 5'
expect base.json '.cells[0].choices.weights == {source: "synthetic"} and (.cells[0].key | test("weights") | not)'
expect one.json '.cells[0] | .choices.weights.digest as $d | .key | contains("/weights#" + $d)'
check "where the file lies is not said in the cells" \
    jq -e '.cells | tostring | contains("private") | not' one.json
# All experts and dense tensors are read in place, but for the bias; nothing is counted twice.
expect one.json '.cells[0].memory | .mapped_bytes == .expert_weights_bytes + .shared_expert_bytes
    + .dense_weights_bytes - 64 * 4 and .expert_weights_bytes == 16 * 104448
    and .allocated_bytes < .total_bytes - .mapped_bytes + 2000000'
# At odd bytes only the experts can stay where they are.
expect odd.json '.cells[0].memory | .mapped_bytes == .expert_weights_bytes'
expect slices.json '.cells[0].memory | .mapped_bytes < .dense_weights_bytes + .shared_expert_bytes'
check "the records are valid" python3 "$source_dir/tests/rules/check_schema.py" \
    "$source_dir/results/schema/k3bench.result.1.schema.json" base.json one.json slices.json

# Without a layer the lowest one; the plan tells the same weights by the same key.
single plan --model tiny --backend mooncake --weights shards --json layer.json
expect_rc 0
expect layer.json '.cells[0].choices.weights.layer == 2'
single plan --model tiny --seed 7 --tp 4 --nodes-as 2 --tokens 8 --backend deepep:ll --hidden rows.npy \
    --weights private/one.safetensors --json plan.json
expect_rc 0
expect plan.json '.cells[0].key == $key' --arg key "$(jq -r '.cells[0].key' one.json)"

# Other weights are other work: one bit is enough.
python3 - <<'PYTHON'
data = bytearray(open("private/one.safetensors", "rb").read())
data[-70000] ^= 1
open("bit.safetensors", "wb").write(data)
PYTHON
single plan --model tiny --backend mooncake --weights bit.safetensors --json bit.json
single plan --model tiny --backend mooncake --weights private/one.safetensors --json whole.json
check_not "a changed bit changes the key" test "$(jq -r '.cells[0].key' bit.json)" = "$(jq -r '.cells[0].key' whole.json)"

# --- files that are not what they should be ----------------------------------------------------------

# edit OUT 'PYTHON': changes the header h or the data d of the whole file; sizes and offsets stay unless changed.
edit() {
    python3 - "$1" "$2" <<'PYTHON'
import json, struct, sys
raw = open("private/one.safetensors", "rb").read()
n, = struct.unpack("<Q", raw[:8])
h, d = json.loads(raw[8:8 + n]), raw[8 + n:]
p = "language_model.model.layers.3.block_sparse_moe."
gate, w1 = p + "gate.weight", p + "experts.5.w1.weight_packed"
text = None
exec(sys.argv[2])
text = text or json.dumps(h)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text.encode() + d)
PYTHON
}
refused() { # STATUS WEIGHTS EXPRESSION...: by plan, in one line
    local status=$1 weights=$2
    shift 2
    single plan --model tiny --backend mooncake --weights "$weights"
    expect_refused "$status" "$@"
}

edit bad 'h[gate]["shape"] = [512, 64]'
refused 2 bad 'gate.weight' 'BF16 \[512, 64\]' 'needs BF16 \[64, 512\]'
edit bad 'h[gate]["dtype"] = "F16"'
refused 2 bad 'gate.weight' 'F16 \[64, 512\]' 'needs BF16'
edit bad 'h["other"] = h.pop(w1)'
refused 2 bad 'experts.5.w1.weight_packed' 'missing' 'U8 \[256, 128\]'
edit bad 'h[w1]["data_offsets"] = h[gate]["data_offsets"]'
refused 2 bad 'experts.5.w1.weight_packed' '65536 bytes' '32768'
edit bad 'h[w1]["data_offsets"] = h[p + "experts.6.w1.weight_packed"]["data_offsets"]'
refused 2 bad 'experts.[56].w1.weight_packed' 'overlap'
edit bad 'h[w1]["data_offsets"] = [-1, 32767]'
refused 2 bad 'experts.5.w1.weight_packed' 'data_offsets'
edit bad 'h[w1]["data_offsets"] = [2**62, 2**62 + 32768]'
refused 2 bad 'experts.5.w1.weight_packed' '4611686018427420672' 'bytes of data'
edit bad 'h[w1]["data_offsets"] = [2**64, 2**64 + 32768]'
refused 2 bad 'not valid JSON'
edit bad 'h[w1]["shape"] = [2**63 - 1, 2**63 - 1]'
refused 2 bad 'experts.5.w1.weight_packed' 'needs more than'
edit bad 'h[w1]["shape"] = [256, 64.5]'
refused 2 bad 'experts.5.w1.weight_packed' 'whole numbers'
edit bad 'h[w1]["dtype"] = "U9\n"'
refused 2 bad 'experts.5.w1.weight_packed' 'U9\?'
edit bad 'text = json.dumps(h).replace(json.dumps(gate) + ":", json.dumps(w1) + ":")'
refused 2 bad 'duplicate'
edit bad 'text = "[]"'
refused 2 bad 'not an object'
edit bad 'd += b"x"'
refused 2 bad 'the last tensor ends'
head -c 4000000 private/one.safetensors >cut.bin
refused 2 cut.bin 'tensor language' 'the file holds [0-9]+ bytes' 'cut'
head -c 1000 private/one.safetensors >cut.bin
refused 2 cut.bin 'header of' '992 follow'
head -c 5 private/one.safetensors >cut.bin
refused 2 cut.bin '5 bytes'
printf '\377\377\377\377\377\377\377\377{}' >cut.bin
refused 2 cut.bin '18446744073709551615 bytes' '100000000'
refused 3 nowhere.safetensors 'nowhere.safetensors' 'No such file'
refused 3 /dev/null 'not a regular file'
refused 2 private/one.safetensors:4 'layers.4.block_sparse_moe'
refused 2 private/one.safetensors:x '"x" behind the colon'
refused 3 private 'neither model.safetensors.index.json nor model.safetensors'
refused 2 mini 'BF16 \[112, 1024\]' 'model tiny needs BF16 \[64, 512\]'

index=shards/model.safetensors.index.json
cp "$index" index.json
shard() { # 'PYTHON' that changes the weight_map m
    python3 - "$1" <<'PYTHON'
import json, sys
index = json.load(open("index.json"))
m = index["weight_map"]
gate = "language_model.model.layers.2.block_sparse_moe.gate.weight"
exec(sys.argv[1])
json.dump(index, open("shards/model.safetensors.index.json", "w"))
PYTHON
}
for name in ../private/one.safetensors /etc/passwd .. . '' .hidden; do
    shard "m[gate] = '$name'"
    refused 2 shards 'gate.weight' 'a shard is the name of a file in the same folder'
done
shard 'm[gate] = 5'
refused 2 shards 'gate.weight' 'no text'
shard 'm[gate] = "model-00009-of-000005.safetensors"'
refused 3 shards 'model-00009' 'No such file'
shard 'm[gate] = "model-0000%d-of-000005.safetensors" % (1 + int(m[gate][10]) % 5)'
refused 2 shards 'gate.weight' 'is not in model-0000'
shard 'del index["weight_map"]'
refused 2 shards 'weight_map'
printf '{"weight_map": {' >"$index"
refused 2 shards 'not valid JSON'
cp index.json "$index"
mkdir keep && mv shards/model-00002-of-000005.safetensors keep/
mkdir shards/model-00002-of-000005.safetensors # unreadable, also for root
refused 3 shards 'model-00002' 'not a regular file'

# All ranks end with one line; models of another layout and options without effect are named.
launch_failing 4 run --model tiny --backend mooncake --tokens 4 --weights shards --out none.json
expect_refused 3 'model-00002'
expect_no_file none.json
single plan --model deepseek-v3 --backend mooncake --weights private/one.safetensors
expect_refused 2 'deepseek-v3' 'only Kimi-K3 checkpoints are read'
single plan --model tiny --backend mooncake --component pair --weights private/one.safetensors
expect_refused 2 'pair' 'no effect'
single plan --model tiny --backend mooncake --weights ''
expect_refused 2 'empty'

# What a model needs is said in text and for programs.
single list models
expect_rc 0
expect_text out 'experts.M.w2.weight_packed +U8 \[256, 128\] +U8 \[512, 192\] +U8 \[3584, 1536\]'
single list models --json
cp out models.json
expect models.json '.models[] | select(.name == "kimi-k3").checkpoint | (.tensors | length) == 14
    and any(.tensors[]; .name == "gate.e_score_correction_bias" and .type == "F32" and .shape == [896])'
expect models.json '.models[] | select(.name | startswith("deepseek")) | .checkpoint == null'
