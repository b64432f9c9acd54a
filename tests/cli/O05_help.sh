#!/usr/bin/env bash
# The manual page, completion and answers on method come from the program's own tables (O05: one table).
. "$(dirname "$0")/lib.sh"

single help
expect_rc 0
expect_text out '^topics' '^  verdicts ' '^  man '
awk '/^topics/ { on = 1; next } /^$/ { on = 0 } on { print $1 }' out >topics
while read -r topic; do
    single help "$topic"
    expect_rc 0
    check "$topic has a text" [ "$(wc -l <out)" -gt 3 ]
    check "$topic is one section" [ "$(head -n 1 out)" != "" ]
    check "the text of $topic is that of the method" grep -Fq -- "$(sed -n 3p out | cut -c 1-50)" "$source_dir/BENCHMARKS.md"
    check "no line of $topic is too long but for commands" [ "$(grep -v '^    ' out | awk 'length > 100' | wc -l)" = 0 ]
done <topics
single help verdicts
tr -s ' \n' ' ' <out >flat
awk '/^## Comparing/ { on = 1 } /^## / && !/Comparing/ { on = 0 } on' "$source_dir/BENCHMARKS.md" | sed '1s/^## //' | tr -s ' \n' ' ' >method
check "wrapped, and no word is lost" cmp -s flat method

# Words that people look for lead to the topic; the answer to predictions is the model and not its tables of evidence.
for pair in limit:prediction latency:prediction predictions:prediction table:columns exchange:columns interval:reduction \
    bandwidth:basis; do
    single help "${pair#*:}"
    cp out topic
    single help "${pair%:*}"
    expect_rc 0
    check "help ${pair%:*} is help ${pair#*:}" cmp -s out topic
done
single help prediction
expect_text out 'latency \| hops' 'limit_us' 'within the model'
check "help prediction can be read" [ "$(wc -l <out)" -lt 60 ]
single help columns
for column in rows ratio messages signals wire buffers experts total tokens dense exchange region weights left; do
    expect_text out "^\\| ([a-z, ]*, )?$column"
done
single help run
expect_rc 0
mv out first
single run --help
check "help run is run --help" cmp -s first out
single help verdict
expect_refused 2 'verdict' 'did you mean verdicts'
single help a b
expect_refused 2 '"b"'

# The manual page: every command and option, and nothing that roff complains of.
single help man
expect_rc 0
mv out k3bench.1
for command in run plan compare gate report list help; do
    expect_text k3bench.1 "^\\.BI \"$command \""
done
single run --help
while read -r option; do
    check "the page has --$option" grep -Fq "\\-\\-${option//-/\\-} " k3bench.1
done < <(sed -n 's/^  --\([a-z0-9-]*\).*/\1/p' out)
if command -v man >/dev/null; then
    LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z k3bench.1 >/dev/null 2>err
    check "roff has no complaint: $(head -c 300 err)" [ ! -s err ]
fi

# Completion as bash asks for it.
single help bash
expect_rc 0
mv out completion
check "bash reads it" bash -n completion
reply() { # LINE: the replies when it is completed at its end
    bash -c '
        source ./completion
        COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
        read -ra COMP_WORDS <<<"$1"
        [[ $1 != *" " ]] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _k3bench
        echo "${COMPREPLY[*]}"' bash "$1"
}
completes() { # LINE REPLIES
    check "$1 is completed to $2, not $(reply "$1")" [ "$(reply "$1")" = "$2" ]
}
touch record.json
completes "k3bench re" "report"
completes "k3bench run --tok" "--tokens --tokens-skew"
completes "k3bench report --tok" ""
completes "k3bench run --check " "off ends every"
completes "k3bench run --check=ev" "every"
completes "k3bench run --backend moon" "mooncake moonep"
completes "k3bench run --backend mpi,moon" "mpi,mooncake mpi,moonep"
completes "k3bench run --backend mpi,deepep:l" "ll"
completes "k3bench run --model kimi" "kimi-k3-mini kimi-k3"
completes "k3bench report rec" "record.json"
completes "k3bench report -o rec" "record.json"
single help zsh
expect_rc 0
expect_text out '^#compdef k3bench'
if command -v zsh >/dev/null; then
    check "zsh reads it" zsh -n out
fi
