#!/usr/bin/env bash
# A dump is a run that others can recompute: NumPy agrees with it, and finds every change.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

for python in python3 /usr/bin/python3; do
    "$python" -c 'import numpy' 2>/dev/null && break
    python=
done
[ -n "$python" ] || { echo "skipped: no python3 with numpy"; exit 77; }

verify() { run_it "$python" "$source_dir/scripts/verify_dump.py" "$1"; }

dumped() { # NAME ARGUMENTS: a run of tiny, and NumPy's word for it
    local name=$1
    shift
    launch 4 run --model "${model:-tiny}" --tokens 8 --seed 7 --check ends --iters 1 --dump "$name" --out "$name.json" "$@"
    expect_rc 0
    verify "$name"
    expect_rc 0
    expect_text out '^verified'
}

# Rules of the combine and formats; --long has all of them.
dumped origin --nodes-as 2 --backend mooncake
dumped ranks --backend mori:intra --dispatch-dtype mxfp8 --combine-dtype fp8
dumped cut --backend none
# Fewer columns than a scale stands for.
model=tiny:I=64 dumped short --nodes-as 2 --backend deepep:ll
[ -z "${K3BENCH_TEST_LONG:-}" ] || {
    dumped nodes --nodes-as 2 --backend mori:v1
    dumped slots --backend megamoe
    dumped fp4 --backend mori:intra --dispatch-dtype mxfp4
    dumped normal --nodes-as 2 --backend deepep:normal
    dumped hybrid --nodes-as 2 --backend deepep_v2:hybrid
    dumped int8 --backend ascend_fuseep
    dumped groups --backend pplx --dp 2
    dumped mpi --backend mpi --tokens-skew ragged
    dumped fallback --nodes-as 2 --backend mooncake --path fallback
    dumped sharded --nodes-as 2 --backend mooncake --dp 2 --shared sharded
}

# The router's own choice, recomputed.
"$python" -c 'import numpy; numpy.random.seed(3); numpy.save("rows.npy", numpy.random.randn(32, 512).astype("f4"))'
dumped gate --nodes-as 2 --backend deepep:ll --hidden rows.npy
check "the rows dumped are the rows given" "$python" -c '
import numpy
given = numpy.load("rows.npy").view("u4")
assert ((given + 0x7fff + (given >> 16 & 1)) >> 16 == numpy.load("gate/hidden.npy")).all()'

# Files and README agree, and the folder is complete.
for file in gate/*.npy; do
    expect_text gate/README.md "^\| $(basename "$file") \|"
done
expect_text gate/README.md 'verify_dump.py' 'low nibble first' 'e4m3'
expect_no_file gate.partial # nor a temporary one

# One changed value is found, in whatever file.
change() { # FILE 'PYTHON' EXPRESSION: changes the array a
    rm -rf changed && cp -r gate changed
    "$python" - "changed/$1.npy" "$2" <<'PYTHON'
import sys
import numpy
a = numpy.load(sys.argv[1])
exec(sys.argv[2])
numpy.save(sys.argv[1], a)
PYTHON
    verify changed
    expect_rc 1
    expect_text out "^wrong: .*$3"
}
change hidden 'a[5, 17] ^= 0x80' 'logits: row 5'
change logits 'a[9, 3] += 0.01' 'logits: row 9, element 3'
change weights 'a[31, 2] *= 1.001' 'weights: row 31'
change ids 'a[4, 1] = (set(range(64)) - set(a[4])).pop()' 'ids: row 4'
change latent 'a[7, 200] ^= 0x8000' 'latent: row 7, element 200'
change arrived_values 'a[12, 3] ^= 1' 'arrived: rank'
change arrived_scales 'a[0, 0] ^= 1' 'arrived: rank'
change combined 'a[2, 9] ^= 0x8000' 'combined: row 2, element 9'
change output 'a[30, 511] ^= 0x100' 'output: row 30, element 511'
change latent_norm 'a[100] ^= 0x40' 'output'
change shared_down 'a[:, 7] ^= 0x8000' 'output'
change w2_scale 'a[numpy.load("gate/ids.npy")[0, 0], :, 0] += 1' 'combined'
rm -rf changed && cp -r gate changed && rm changed/latent.npy
verify changed
expect_rc 2
expect_text err 'latent.npy'
verify nowhere
expect_rc 2

# What cannot be dumped is refused before the run, and no folder is left.
mkdir taken
dump() { launch 1 run --model tiny --tokens 4 --backend mooncake --iters 1 "$@"; }
dump --dump taken
expect_refused 2 'taken exists'
dump --dump nowhere/here
expect_refused 3 'nowhere/here'
dump --dump ''
expect_refused 2 'empty'
dump --dump two --tokens 4,8
expect_refused 2 '2 cells'
dump --dump off --check off
expect_refused 2 'check off'
dump --dump pair --component pair
expect_refused 2 'whole region'
dump --dump large --backend none --tokens 200000
expect_refused 2 '200000 rows' '1073741824'
for name in two off pair large; do check_not "$name is no folder" test -e "$name"; done
# A corrupted run writes what it had, and NumPy sees it too.
launch_failing 4 run --model tiny --tokens 8 --nodes-as 2 --backend mooncake --iters 1 --fault corrupt:2:1 --dump wrong --out wrong.json
expect_rc 1
verify wrong
expect_rc 1
expect_text out '^wrong: combined: row 1[78],'
