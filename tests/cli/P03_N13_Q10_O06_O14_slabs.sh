#!/usr/bin/env bash
# The slab family: every profile, path, format, signal and copy on small cells. P03, N13, Q10, O06, O14.
. "$(dirname "$0")/lib.sh"

all=mooncake,deepep:ll,nixl,uccl,pplx
cell=(--model "tiny:E=32,K=4,I=128" --dp 2 --seed 7 --check every --iters 2)

# Right, and measured == plan, by stores and through queue pairs; one group of several ranks and ranks alone.
launch 8 run "${cell[@]}" --backend "$all" --nodes-as 2 --out nodes.json
expect_rc 0
expect_good nodes.json 5
launch 4 run "${cell[@]}" --dp 4 --backend "$all" --nodes-as 4 --p2p off --tokens 4 --component pair --out lanes.json
expect_rc 0
expect_good lanes.json 5
UCX_TLS=tcp,self launch 4 run "${cell[@]}" --backend "$all" --p2p off --tokens 4 --component pair --out tcp.json
expect_rc 0
expect_good tcp.json 5
expect tcp.json '.cells[].qps.transport | test("tcp")'

# What tells them apart on the wire: 32 experts, 8 ranks of 16 rows, 4 selections.
expect nodes.json 'of("mooncake", "deepep:ll", "uccl") | .traffic.dispatch | .messages == 512 and .signals == 256 and .bytes_wire == 512 * 280 + 256 * 4'
expect nodes.json 'of("nixl") | .traffic.dispatch | .signals == 256 and .bytes_wire == 512 * 280 + 256 * 8'
expect nodes.json 'of("pplx") | .traffic | .notify.signals == 2 * 32 and .notify.messages == 0 and .dispatch.signals == 512
    and .combine.messages == 4 * 512 and .combine.signals == 4 * 512 + 64 and .dispatch.bytes_wire == 512 * (528 + 8)'
expect nodes.json 'of("uccl") | .choices.signal == "write" and .choices.signal_waits == false and .traffic.dispatch.doorbells == null'
expect nodes.json '[of("nixl", "uccl") | lanes | select(.phase == "dispatch") | .qp] | unique == [0, 1, 2, 3]'
expect nodes.json '[of("pplx") | lanes | .qp] | unique == [0]'

# No rows, few rows, one hot rank, selections that are not sent.
trace holes.npy '[[random.choice([-1, 4 * k + random.randrange(4)]) for k in range(4)] for _ in range(128)]'
routings=trace:holes.npy
long_tests && routings=trace:holes.npy,hot-rank:1:0.8
launch 8 run "${cell[@]}" --backend "$all" --component pair --routing "$routings" --out holes.json
expect_rc 0
expect_good holes.json "$((5 * $(tr ',' '\n' <<<"$routings" | wc -l)))"
skews="all-but-one-empty"
long_tests && skews="all-but-one-empty ragged"
for skew in $skews; do
    launch 8 run "${cell[@]}" --backend "$all" --component pair --tokens-skew "$skew" --max-tokens 16 --out "$skew.json"
    expect_rc 0
    expect_good "$skew.json" 5
done

# Signals as writes wait for the messages before them; zero copy; results as LogFMT-10, which take what they need.
launch 4 run "${cell[@]}" --backend mooncake,deepep:ll,nixl --p2p off --component pair --signal write --out write.json
expect_rc 0
expect_good write.json 3
expect write.json '.cells[].choices | .signal == "write" and .signal_waits'
expect write.json '.cells[].key | test("nop2p.write/")'
launch 4 run "${cell[@]}" --backend deepep:ll,nixl,uccl --p2p off --component pair --zero-copy on,off --out copy.json
expect_rc 0
expect_good copy.json 6
launch 8 run "${cell[@]}" --backend deepep:ll --nodes-as 2 --combine-dtype logfmt10 --out logfmt.json
expect_rc 0
expect_good logfmt.json 1
expect logfmt.json '.cells[0] | ([lanes | select(.phase == "combine") | .bytes_payload] | add) as $sent
    | .traffic.combine.bytes_payload == 512 * 520 and $sent >= 512 * 328 and $sent < 512 * 520'

# The check finds a wrong row in all of them.
launch_failing 4 run "${cell[@]}" --backend nixl,uccl,pplx --component pair --fault corrupt:3:3 --out wrong.json
expect_rc 1
expect wrong.json '.cells | length == 3 and all(.status == "failed" and .check.state == "wrong")'

# What cannot be.
single plan --backend mooncake --zero-copy on
expect_refused 2 mooncake zero-copy
single plan --backend deepep:ll --zero-copy on --combine-dtype logfmt10
expect_refused 2 deepep:ll zero-copy logfmt10
single plan --backend pplx --dp 2 --signal write
expect_refused 2 pplx 'signal write'
single plan --backend pplx
expect_refused 2 pplx '2 groups'
single plan --backend nixl --combine-dtype logfmt10
expect_refused 2 nixl logfmt10
single plan --backend uccl --tokens 1 --max-tokens 8192
expect_refused 2 uccl 8192 8191
single plan --backend mooncake --signal rdma
expect_refused 2 rdma
