#!/usr/bin/env bash
# Backends whose reductions are the same for a row agree bit for bit when they carry the same payload type; where
# their roundings differ, they may not. N03, N16, P19.
. "$(dirname "$0")/lib.sh"

# Rows 0, 2, .. have all their experts on one rank: whether the weights are applied at the origin or at the rank, the same
# products are added in the same order and rounded once, and a sum over one rank or node changes nothing. Rows 1, 3, .. have an expert
# on each rank: there a rank's share is rounded before it is added, or it is not.
trace rows.npy '[random.sample(range(4 * (r // 2 % 4), 4 * (r // 2 % 4) + 4), 4) if r % 2 == 0 else [4 * p + random.randrange(4) for p in random.sample(range(4), 4)] for r in range(32)]'

dump() { # NAME BACKEND [OPTIONS]
    launch 4 run --model "tiny:E=16,K=4" --tokens 8 --seed 7 --nodes-as 2 --backend "$2" --dispatch-dtype "$format" \
        --combine-dtype bf16 --routing trace:rows.npy --check every --iters 1 --dump "$1" --out "$1.json" "${@:3}"
    expect_rc 0
    expect_good "$1.json" 1
}

# Prints how many of the rows with experts on one rank, and of the others, differ between two dumps.
differ() {
    python3 - "$@" <<'PYTHON'
import ast, sys
def rows(name):
    data = open(name + "/combined.npy", "rb").read()
    end = 10 + int.from_bytes(data[8:10], "little")
    count = ast.literal_eval(data[10:end].decode())["shape"][0]
    size = (len(data) - end) // count
    return [data[end + i * size : end + (i + 1) * size] for i in range(count)]
a, b = (rows(name) for name in sys.argv[1:])
assert len(a) == len(b) == 32
print(*(sum(x != y for x, y in zip(a[i::2], b[i::2])) for i in range(2)))
PYTHON
}

# Rows that arrive in another order are the same rows: they take places in the order in which their sources ask for
# them, and first one and then another source is late.
for late in 0 3; do
    launch 4 run --model "tiny:E=16,K=4" --tokens 8 --seed 7 --backend mori:intra --routing trace:rows.npy --check every --iters 1 \
        --fault "stall:$late:dispatch_send:50" --dump "order$late" --out "order$late.json"
    expect_rc 0
    expect_good "order$late.json" 1
done
check "another order of arrival changes no bit" cmp -s order0/combined.npy order3/combined.npy
check "the order was another one" eval 'cmp -s order0/arrived_values.npy order3/arrived_values.npy; [ $? = 1 ]'

formats=fp8
long_tests && formats="fp8 bf16"
for format in $formats; do
    dump "ll-$format" deepep:ll
    dump "late-$format" deepep:ll --fault stall:1:dispatch_send:20
    check "a late sender changes no bit, $format" cmp -s "ll-$format/combined.npy" "late-$format/combined.npy"
    dump "direct-$format" deepep_v2:direct
    dump "hybrid-$format" deepep_v2:hybrid
    for mode in direct hybrid; do
        read -r together apart < <(differ "ll-$format" "$mode-$format")
        check "deepep_v2:$mode, $format: $together of 16 rows with one reduction differ" test "$together" = 0
        check "deepep_v2:$mode, $format: rows that are rounded twice are seen" test "$apart" -gt 0
    done
done
