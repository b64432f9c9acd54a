#!/usr/bin/env bash
# Backends that overlap dispatch, experts and combine: owners that read, windows that are stored into.
# Messages to the byte, empty ranks and entries that are not sent, formats, faults, what they refuse.
# O08, P02, P03.
. "$(dirname "$0")/lib.sh"

fused=megamoe,flashinfer_megamoe,ascend_fuseep
model=(--model "tiny:E=32,K=4,I=128" --seed 7 --check every --iters 3)

components=region,experts
long_tests && components=region,pair,experts
launch 8 run "${model[@]}" --backend "$fused" --tokens 16,1 --component "$components" --out all.json
expect_rc 0
expect_good all.json $((6 * $(tr ',' '\n' <<<"$components" | wc -l)))
expect all.json '.cells[].memory.timed_allocations == 0'
expect all.json '.cells[].qps | .transport == "self, mapped" or .transport == "mapped, self"'
expect all.json '.cells[] | lanes | .qp == 0 and .doorbells == 0 and .lane == (if .src == .dst then "self" else "p2p" end)'
# What overlaps is said, and where it comes from.
expect all.json '.cells[] | .overlap | .span_us > 0 and .dispatch_us > 0 and .combine_us > 0 and (.basis | length) > 0'
expect all.json '.cells[] | select(.component == "region") | [.phases[].name] | contains(["dispatch", "expert_mlp", "combine", "region"])'

# One iteration: no medians between the parts and what they hid.
launch 2 run "${model[@]}" --iters 1 --backend "$fused" --tokens 32 --component experts --out one.json
expect_rc 0
expect one.json '.cells[].overlap | near(.hidden_us; .dispatch_us + .expert_us + .combine_us - .span_us; 0.01) or ((.hidden_us - (.dispatch_us + .expert_us + .combine_us - .span_us)) | fabs < 0.5)'

# Of all records that the schema is tried on, these alone have an overlap.
python3 "$source_dir/tests/rules/check_schema.py" "$source_dir/results/schema/k3bench.result.1.schema.json" --changes one.json >schema.txt
status=$?
check "the schema holds: $(head -c 500 schema.txt)" [ "$status" = 0 -o "$status" = 77 ]

# 16 rows x 8 ranks x 4. The pull: 4 bytes an index, 16 for each (source, expert), a barrier of 8 x 8
# words; 256 + 8 + 4 bytes a read, booked where the rows come from; results and two barriers back.
expect all.json 'of("megamoe", "flashinfer_megamoe") | select(.tokens.max == 16) | .traffic
    | .notify.messages == 512 + 8 * 32 and .notify.signals == 8 * 32 and .notify.bytes_wire == 4 * 512 + 16 * 8 * 32
    and .dispatch.messages == 512 and .dispatch.signals == 64 and .dispatch.bytes_payload == 512 * 264
    and .dispatch.bytes_wire == 512 * 268 + 64 * 4
    and .combine.messages == 512 and .combine.signals == 128 and .combine.bytes_wire == 512 * 512 + 128 * 4'
# The window: records of 256 + 4 bytes padded to 288, a status of 32 bytes for each (source, expert).
expect all.json 'of("ascend_fuseep") | select(.tokens.max == 16) | .traffic
    | (has("notify") | not) and .dispatch.messages == 512 and .dispatch.signals == 256
    and .dispatch.bytes_payload == 512 * 260 and .dispatch.bytes_wire == 512 * 288 + 256 * 32
    and .combine.signals == 256 and .combine.bytes_wire == 512 * 512 + 256 * 32'
expect all.json 'of("megamoe") | [.choices.recipe.runner, .choices.recipe.middle] == ["megamoe", "mxfp8"]'

# Entries that are not sent, a rank that gets no row, ranks without rows.
trace gaps.npy '(lambda rows: [[-1] * 4 if r == 77 else [-1 if (r, k) in [(5 * i + 1, i % 4) for i in range(10)] else e for k, e in enumerate(row)] for r, row in enumerate(rows)])([random.sample([e for e in range(32) if e // 4 != 3], 4) for _ in range(128)])'
launch 8 run "${model[@]}" --backend "$fused" --tokens 16 --routing "trace:gaps.npy" --component pair --out gaps.json
expect_rc 0
expect_good gaps.json 3
expect gaps.json '.cells[] | .work.assignments == 498 and .traffic.dispatch.messages == 498 and .traffic.combine.messages == 498'
expect gaps.json '.cells[] | [lanes | select(.phase == "dispatch" and .dst == 3 and .messages > 0)] | length == 0'
expect gaps.json '.cells[] | [lanes | select(.phase == "combine" and .src == 3) | .signals] | length == 8 and add > 0'
for skew in one-empty all-but-one-empty; do
    launch 4 run "${model[@]}" --backend "$fused" --tokens 16 --tokens-skew "$skew" --component pair --out "$skew.json"
    expect_rc 0
    expect_good "$skew.json" 3
done
# One rank gets nearly all: more than a block and than the ring of an owner holds.
launch 4 run "${model[@]}" --backend "$fused" --tokens 250 --routing hot-rank:1:0.9 --component pair --out hot.json
expect_rc 0
expect_good hot.json 3

# Formats, other numbers of ranks, groups, all rows on every rank.
launch 4 run "${model[@]}" --backend megamoe --dispatch-dtype mxfp8,mxfp4 --tokens 5 --dp 2 --out dp.json
expect_rc 0
expect_good dp.json 2
launch 2 run "${model[@]}" --backend flashinfer_megamoe --dispatch-dtype mxfp8,bf16 --combine-dtype bf16,mxfp8 --tokens 5 --out formats.json
expect_rc 0
expect_good formats.json 4
launch 4 run "${model[@]}" --backend ascend_fuseep --dispatch-dtype int8,bf16 --path fast,fallback --tokens 5 --out window.json
expect_rc 0
expect_good window.json 4

# A late rank changes nothing but times; an exchanged row is found.
launch 4 run "${model[@]}" --backend "$fused" --tokens 4 --component pair --fault stall:2:combine_send:30 --out late.json
expect_rc 0
expect_good late.json 3
expect late.json '.cells[] | phase("combine").median > 15000'
launch_failing 4 run "${model[@]}" --backend "$fused" --tokens 4 --component region,pair --fault corrupt:1:2 --out wrong.json
expect_rc 1
expect wrong.json '.cells[] | .check.state == "wrong" and .check.first_wrong.stage == "combined"'

# Mapped memory only, no parts alone, 256 rows at most in the window.
launch 4 run "${model[@]}" --backend "$fused" --tokens 4 --nodes-as 2 --out no.json
expect_rc 2
expect_text err 'none of the 3 cells can be done, each for a reason of its own'
expect no.json '[.cells[] | .status == "unsupported" and (.reason | test("limit 1 node, not 2"))] == [true, true, true]'
launch 4 run "${model[@]}" --backend "$fused" --tokens 4 --p2p off --component dispatch --out off.json
expect_rc 2
expect off.json '.cells[] | .status == "unsupported" and (.reason | test("p2p off"))'
launch 4 run "${model[@]}" --backend "$fused" --tokens 4 --component dispatch,combine --out parts.json
expect_rc 2
expect parts.json '.cells | length == 6'
expect parts.json '.cells[] | .status == "unsupported" and (.reason | test("overlap"))'
single plan --backend "$fused" --tp 4 --tokens 4 --nodes-as 2
expect_rc 2
expect_text err 'none of the 3 cells can be done'
expect_text out '^unsupported: .*limit 1 node, not 2'
# One among them that can: the others do not fail it.
launch 4 run "${model[@]}" --backend "$fused,null" --tokens 4 --nodes-as 2 --iters 1 --out some.json
expect_rc 0
single plan --model kimi-k3 --tp 8 --backend ascend_fuseep --tokens 257
expect_refused 2 'ascend_fuseep' '257' 'limit 256'
single plan --model kimi-k3 --tp 8 --backend ascend_fuseep --tokens 256 --json full.json
expect_rc 0
expect full.json '.cells[0].memory.block_bytes == 2 * (256 * 8 * 16 * 3584 * 2 + 2097152)'
