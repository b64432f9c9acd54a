#!/usr/bin/env bash
# Every format of a report holds the numbers of its records, obeys the rules of the format, and is the same
# twice; the page works in a browser. U02, U04, U11. Pages need chromium, and are left out without it.
. "$(dirname "$0")/lib.sh"
pages=$source_dir/tests/cli/pages
formats=(html md csv prom trace.json json)
export PYTHONDONTWRITEBYTECODE=1

checked() { # WHAT SCRIPT ARGUMENTS...
    local what=$1
    shift
    checks=$((checks + 1))
    last="$*"
    # A browser reserves more addresses than the other programs may.
    (ulimit -Sv unlimited && python3 "$pages/$1" "${@:2}") >out 2>err || fail "$what: $(head -c 1500 out)"
}

write_all() { # NAME RECORD...
    local name=$1 ending
    shift
    for ending in "${formats[@]}"; do
        single report "$@" -o "$name.$ending"
        expect_rc 0
    done
    single report "$@" --lanes -o "$name.lanes.csv"
    expect_rc 0
}

# Cells with queue pairs, with a timeline, without a dispatch, refused; another launch of another world.
launch 4 run --model tiny:E=16,K=4 --backend "$slabs,mpi,pplx,none" --nodes-as 2 --tokens 8,16 --iters 8 --out a.json
expect_rc 0
launch 2 run --model tiny:E=16,K=4 --backend mooncake,null --component region,dispatch --iters 7 --out b.json
expect_rc 0
expect a.json '.cells[] | select(.phases != null) | .timeline | .ranks_kept == 4 and .clock_error_us > 0'

write_all all a.json b.json
checked "the trace" check_formats.py trace all.trace.json a.json b.json
checked "the metrics" check_formats.py metrics all.prom a.json b.json
checked "CSV" check_formats.py csv all.csv a.json b.json
checked "CSV of lanes" check_formats.py lanes all.lanes.csv a.json b.json
checked "Markdown" check_formats.py markdown all.md a.json b.json
checked "the merged document" check_formats.py merged all.json a.json b.json

# The same records, the same bytes; a merged document is read for its records.
write_all again all.json
for ending in "${formats[@]}" lanes.csv; do
    check "the same records, the same bytes: $ending" cmp -s "all.$ending" "again.$ending"
done
single report all.json a.json
expect_refused 2 'a.json' 'already given'
printf '{"schema": "k3bench.merged/1", "records": []}' >none.json
single report none.json
expect_refused 3 'none.json' 'no records'

# What is printed.
single report a.json --format csv
expect_rc 0
mv out printed
single report a.json -o one.csv
check "--format csv" cmp -s printed one.csv
single report a.json --format json
cp out printed.json
checked "--format json" check_formats.py merged printed.json a.json
launch 2 run --model tiny --backend mooncake --iters 2 --format json
expect_rc 0
expect out '.cells[0] | good'
launch 2 run --model tiny --backend mooncake --iters 2 --format csv --out live.json
expect_rc 0
mv out live.csv
checked "a run that prints CSV" check_formats.py csv live.csv live.json
launch_failing 2 run --model tiny --backend mooncake --iters 2 --format json --out -
expect_refused 2 'standard output'
single report a.json --format html
expect_refused 2 'format' 'html'
single report a.json --lanes
expect_refused 2 'lanes has no effect' 'format csv'
single report a.json --format json -o x.csv
expect_refused 2 'format json has no effect' 'x.csv'
single report a.json -- -o x.html
expect_refused 2 'one side'

# A progress line where somebody watches, and silence else; the first iteration of a cell shows one.
launch 2 run --model tiny --backend mooncake,null --iters 3
expect_no_text err 'cell 1/2'
if command -v script >/dev/null; then
    watched() { # OPTIONS...
        script -qec "mpirun --oversubscribe -n 2 $k3bench run --model tiny --backend mooncake,null --iters 3 $*" typescript </dev/null >/dev/null
    }
    watched --progress auto
    expect_text typescript 'cell 1/2 [a-z]+: (warm-up|iteration) [0-9]+' 'cell 2/2 '
    watched --progress off
    expect_no_text typescript 'cell 1/2'
fi

# Strangers: nothing runs, nothing breaks a format.
check "a hostile record" python3 "$pages/records.py" hostile a.json stranger.json
write_all hostile stranger.json
checked "CSV of a stranger" check_formats.py lanes hostile.lanes.csv stranger.json
check "a trace of a stranger" python3 -c 'import json; json.load(open("hostile.trace.json"))'
expect_no_text hostile.md '[^\\]<script>' '[^\\]`x`' 'http://'

# Pages: one record, several launches, a stranger, large worlds.
mkdir launches
python3 "$pages/records.py" launches a.json launches 6
single report launches/*.json -o several.html
expect_rc 0
single report launches/launch[0-2].json -- launches/launch[3-5].json -o sides.md
expect_refused 2 'on a page alone' 'compare BASE -- NEW'
expect_no_file sides.md
single report launches/launch[0-2].json -- launches/launch[3-5].json -o sides.html
expect_rc 0
expect_text sides.html 'New against base'
worlds=("64 kimi-k3 8 mori:asyncll,mooncake,deepep:ll,none")
[ -z "${K3BENCH_TEST_LONG:-}" ] || worlds+=("1000 tiny:E=1000,K=8 1 deepep:ll,mooncake")
for world in "${worlds[@]}"; do
    read -r ranks model dp names <<<"$world"
    check "a record of $ranks ranks" python3 "$pages/records.py" grown "$k3bench" a.json "big$ranks.json" --model "$model" --tp "$ranks" --dp "$dp" --backend "$names"
    single report "big$ranks.json" -o "big$ranks.html"
    expect_rc 0
    check "$ranks ranks: below 5 MB" [ "$(stat -c %s "big$ranks.html")" -lt 5000000 ]
    single report "big$ranks.json" -o "big$ranks.trace.json"
    checked "the trace of $ranks ranks" check_formats.py trace "big$ranks.trace.json" "big$ranks.json"
done
single report a.json -o one.html
expect_rc 0
if command -v chromium chromium-browser google-chrome >/dev/null; then
    checked "the page" check_page.py a.json one.html
    checked "the page of several launches" check_page.py --several 6 several.html
    checked "pages of strangers and large worlds" check_page.py --harmless hostile.html big*.html
    cat out
else
    echo "left out: pages in a browser, no chromium here"
fi
