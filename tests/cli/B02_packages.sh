#!/usr/bin/env bash
# setup.sh and the probes that it calls, as a plain user has them: tc and the daemons of Slurm lie in folders that are
# on nobody's PATH but root's.
. "$(dirname "$0")/lib.sh"

mkdir bin
printf '#!/bin/sh\necho 1000\n' >bin/id # no root: nothing is installed
chmod +x bin/id
plain=(env "PATH=$work/bin:/usr/bin:/bin")

# A copy with a list of its own.
mkdir -p tree/scripts
cp "$source_dir/scripts/setup.sh" "$source_dir/scripts/lib.sh" tree/scripts/
tool=$(find -L /usr/sbin /sbin -maxdepth 1 -type f -perm -u+x -printf '%f\n' 2>/dev/null |
    while read -r name; do [ -e "/usr/bin/$name" ] || [ -e "/bin/$name" ] || { echo "$name"; break; }; done)
[ -n "$tool" ] || { echo "skipped: every tool is in /usr/bin here"; exit 77; }
printf 'here test has_tool %s\nalso optional has_tool %s\n' "$tool" "$tool" >tree/scripts/packages
run_it "${plain[@]}" tree/scripts/setup.sh test
expect_rc 0
expect_text err 'all there$'

# Nobody is refused for what is only wanted.
printf 'nice wanted has_tool no-such-tool\n' >>tree/scripts/packages
run_it "${plain[@]}" tree/scripts/setup.sh test
expect_rc 0
expect_text err 'all there; optional and not there: nice$'

# What is fetched lies in the build, whole or not at all, and nobody is refused for it; a plain user fetches nothing.
mkdir root-bin
printf '#!/bin/sh\necho 0\n' >root-bin/id
printf '#!/bin/sh\nexit 100\n' >root-bin/apt-get
cat >root-bin/python3 <<'FAKE'
#!/bin/bash
[ "$1" != -c ] || exec test "$2" = "import pip" # has pip, and no module else
echo "$*" >>"${0%/*}/../pip.txt"
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/tool" && echo "$3" >"$2/tool/file"
exec test ! -e "${0%/*}/../no-network"
FAKE
cp root-bin/python3 bin/
chmod +x root-bin/*
as_root=(env "PATH=$work/root-bin:/usr/bin:/bin")
printf 'tool==1.2 fetched has_fetched tool-1.2\n' >>tree/scripts/packages
run_it "${plain[@]}" tree/scripts/setup.sh test
expect_rc 0
expect_text err 'all there; optional and not there: nice tool==1.2$'
check "a plain user fetches nothing" [ ! -e pip.txt ]
touch no-network
run_it "${as_root[@]}" tree/scripts/setup.sh test
expect_rc 0
expect_text err 'not to be had: tool==1.2$'
check "half of a package is not kept" [ -z "$(ls tree/build/tools)" ]
rm no-network pip.txt
run_it "${as_root[@]}" tree/scripts/setup.sh test
expect_rc 0
expect_text err 'all there; optional and not there: nice$'
check "it lies in the build" [ "$(cat tree/build/tools/tool-1.2/tool/file)" = tool==1.2 ]
run_it "${as_root[@]}" tree/scripts/setup.sh test
run_it "${as_root[@]}" tree/scripts/setup.sh build
check "it is fetched once" [ "$(wc -l <pip.txt)" = 1 ]

# What is nowhere is named, with the line that installs it.
printf 'absent test has_tool no-such-tool\n' >>tree/scripts/packages
run_it "${plain[@]}" tree/scripts/setup.sh test
expect_rc 3
expect_text err 'install --no-install-recommends absent$'
run_it "${plain[@]}" tree/scripts/setup.sh build
expect_rc 0
expect_text err 'what building needs is there; scripts/test.sh may want more'

# The probes of the real list, each of which is a function here.
run_it "${plain[@]}" bash -c '. "$1/scripts/lib.sh"; while read -r package _ probe _; do
    case $package in "" | "#"*) continue ;; esac
    declare -F "$probe" >/dev/null || echo "$probe is unknown"
done <"$1/scripts/packages"' bash "$source_dir"
check "every probe of the list is known: $(cat out)" [ ! -s out ]
