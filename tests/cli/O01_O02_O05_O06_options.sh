#!/usr/bin/env bash
# Values and names: one meaning each, or refused with the text, the limit and the nearest name.
# O01, O02, O05, O06, O14, L07.
. "$(dirname "$0")/lib.sh"

refused() { # OPTION VALUE EXPRESSION...: by plan
    local option=$1 text=$2
    shift 2
    single plan "$option" "$text" --json no.json
    expect_refused 2 "$@"
}

# Sizes.
for pair in 2M:2000000 2Mi:2097152 2k:2000 2Ki:2048 1G:1000000000 1Gi:1073741824 7:7; do
    rm -f size.json
    single plan --backend none --seed "${pair%:*}" --json size.json
    expect_rc 0
    expect size.json '.cells[0].choices.seed == $n' --argjson n "${pair#*:}"
done
for text in 2m 2MiB 2MB 2Mx 2K '2 M' M -1 1.5 0x10 99999999999999999999 ''; do
    single plan --backend none --seed "$text" --json no.json
    expect_refused 2 seed "'$text'"
done
refused --tokens 2Mx tokens "'2Mx'"
refused --tokens 8,,16 tokens 'empty'
refused --tokens 20M tokens "'20M'" '16777216'
refused --tp 0 tp "'0'"

# Ladders and limits that give no sample.
for pair in iters:0 max-seconds:0 ci-target:0 timeout:0 max-tokens:0 max-seconds:-1 max-seconds:nan iters:9999999999; do
    launch_failing 2 run --model tiny:E=8 --backend none --tokens 2 "--${pair%:*}" "${pair#*:}" --out no.json
    expect_refused 2 "${pair%:*}" "'${pair#*:}'"
done
expect_no_file no.json

# Unknown names, with the nearest one.
single run --tokns 8
expect_refused 2 "'--tokns'" "'--tokens'"
printf 'tokns = 8\n' >bad.ini
single run --options bad.ini
expect_refused 2 'bad.ini:1' "'tokns'" "'tokens'"
K3BENCH_TOKNS=8 single run --backend none
expect_refused 2 K3BENCH_TOKNS K3BENCH_TOKENS
single reprot
expect_refused 2 reprot report
single plan7
expect_refused 2 plan7 plan
single swim
expect_refused 2 swim
single
expect_rc 2
expect_text err '^usage: '
refused --backend moncake moncake mooncake
refused --backend deepep deepep 'deepep:(ll|normal)'
refused --backend deepep:lll deepep:lll deepep:ll
refused --backend none,moncake moncake mooncake
refused --model kimi_k3 kimi_k3 kimi-k3
refused --model tiny:Q=3 "'Q'"
refused --model tiny:K "\"K\""
refused --model tiny:K=65 'K=65' 64
refused --model tiny:E=0 "'0'"
refused --routing unifrm unifrm uniform
refused --routing zipf 'zipf:A'
refused --routing khot:5:1.5 "'1.5'" '0 to 1'
refused --path fastt fastt fast
refused --path-rule registri registri registry
refused --runner marlinn marlinn marlin
refused --dispatch-dtype fp16 fp16
refused --fabric rocee rocee roce
refused --component regoin regoin region
refused --p2p maybe maybe 'on'
refused --generation k4 k4 k3
single plan --backend none --dp 3 --json no.json
expect_refused 2 'tp 8' 'dp' 3
single plan --backend none --dp 2,3 --json two.json
expect_rc 0
expect two.json '.cells | length == 2 and .[0].status == "planned" and .[1].status == "unsupported" and (.[1].reason | test("tp 8") and test("3"))'
refused --nodes-as 9 9 8
refused --max-tokens 4 16 4 'rank 0'
single plan --tokens
expect_refused 2 tokens 'needs a value'
single plan --tokens --dp 2
expect_refused 2 tokens 'needs a value'
single plan extra --json no.json
expect_refused 2 extra
launch_failing 2 run tokens=8 --out no.json
expect_refused 2 tokens=8
expect_no_file no.json

# What would change nothing is refused by who starts the launch, by the launch, and by the plan.
launch_failing 2 run --backend none,mpi --p2p off --out no.json
expect_refused 2 'p2p off has no effect on any of the cells: none: it has no queue pairs'
single run --backend mooncake --iters 2 --max-seconds 1 --out no.json
expect_refused 2 'max-seconds 1 has no effect: --iters 2'
single run --backend mooncake --staged on --out no.json
expect_refused 2 'staged on has no effect .* --device is cpu'
single plan --backend deepep:ll --fabric roce --json no.json
expect_refused 2 'fabric roce has no effect on the cell: deepep:ll'
printf 'tp = 2\nbackend = none\np2p = off\n' >idle.ini
single sweep idle.ini --out no.json
expect_refused 2 'p2p off has no effect on the cell: none'
expect_no_file no.json

# Limits of upstream: stock refuses top-16 and width 3584, k3 runs them.
for backend in deepep:ll mooncake; do
    single plan --model kimi-k3 --generation stock --backend "$backend"
    expect_refused 2 "$backend" 'top-k 16' 'limit 11'
    single plan --model kimi-k3:K=8 --generation stock --backend "$backend"
    expect_refused 2 "$backend" 'width 3584' 'widths 2048, 2560, 3072, 4096'
done
launch 4 run --model kimi-k3:E=64,H=64,I=32,S=32 --generation stock --backend "$slabs,none" --tokens 2 --iters 2 --out stock.json
expect_rc 0
expect stock.json 'of("mooncake", "deepep:ll") | .status == "unsupported" and (.reason | test("top-k 16") and test("limit 11") and test("stock"))'
expect stock.json 'of("none") | good'
expect_text out '^unsupported: mooncake .*limit 11'
launch 4 run --model kimi-k3:E=64,H=64,I=32,S=32 --generation k3 --backend "$slabs" --tokens 2 --iters 2 --out k3.json
expect_rc 0
expect_good k3.json 2
expect k3.json '.cells[] | .generation == "k3" and .model.topk == 16 and .model.latent == 3584'

# What cannot be built: a row with a reason, alone a refusal.
launch 4 run --model "tiny:E=16,K=2" --backend moonep,none --dp 2 --tokens 2 --iters 2 --out planned.json
expect_rc 0
expect planned.json '[.cells[] | select(name != "none")] | length == 1'
expect planned.json '.cells[] | select(name != "none") | .status == "unsupported" and (.reason | test("not public"))'
expect planned.json 'of("none") | good'
single plan --backend moonep --dp 2
expect_refused 2 moonep 'not public'
single plan --backend deepep:normal --generation stock --tp 12 --nodes-as 3 --model "tiny:E=24,H=2048,L=2048"
expect_refused 2 deepep:normal '4 ranks a node' 8
# Low latency knows no such rule.
single plan --backend deepep:ll --generation stock --tp 12 --nodes-as 3 --model "tiny:E=24,H=2048,L=2048" --json twelve.json
expect_rc 0
expect twelve.json '.cells[0] | .status == "planned" and .layout.nodes == 3'

# A trace of the wrong type.
trace float.npy '[[0.0, 1.0, 2.0, 3.0]] * 128' '<f4'
trace bytes.npy '[[0, 1, 2, 3]] * 128' '|u1'
refused --routing trace:float.npy float.npy float32 'int32 or int64'
refused --routing trace:bytes.npy bytes.npy uint8
# No backend could read a file that is not there.
for backend in none mooncake,none; do
    single plan --backend "$backend" --routing trace:absent.npy --json no.json
    expect_refused 3 absent.npy 'No such file'
done
trace wide.npy '[[0, 1, 2, 3, 4]] * 128'
refused --routing trace:wide.npy '5 ids' 'top-k is 4'
head -c 60 wide.npy >cut.npy
refused --routing trace:cut.npy cut.npy
printf 'no array' >text.npy
refused --routing trace:text.npy text.npy
