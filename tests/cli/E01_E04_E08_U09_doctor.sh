#!/usr/bin/env bash
# doctor alone and under mpirun: every subject, levels with advice, exit codes, JSON, the machine file
# of --calibrate, and launches that are refused.
# Alone: measures the machine.
. "$(dirname "$0")/lib.sh"

single doctor --json
expect_rc 0
expect out '.schema == "k3bench.doctor/1" and .ranks == 0'
expect out '[.findings[].topic] | unique | . == ["cpu","environment","gpu","memory","network","pair","software","ucx"]'
expect out '[.findings[] | (.advice != null) == (.level != "ok")] | all'
expect out '.findings[] | select(.topic == "pair") | .value | startswith("skipped")'

# An interface that does not exist is bad: exit 3, and the usable ones are named.
UCX_NET_DEVICES=eth77 single doctor
expect_rc 3
expect_text out 'bad +network +filter +UCX_NET_DEVICES=eth77' 'there is no such device or interface; usable'

single doctor --calibrate
expect_refused 2 'mpirun -np N .*at least two on each host'
single doctor --jason x
expect_refused 2 'json'
single doctor now
expect_refused 2 'takes options only'

# Ranks of another launcher's variables (E01).
OMPI_COMM_WORLD_SIZE=4 single doctor
expect_refused 3 'says 4'

MY_TOKEN=abcdef launch 2 doctor --calibrate --json d.json
expect_rc 0
expect d.json '.ranks == 2 and .hosts == 1'
expect d.json '.pairs[] | select(.class != "network") | .measured and .latency_us > 0 and .bulk_GBps > 0'
expect d.json '.pairs[] | select(.class == "network") | .measured == false'
expect d.json '.pairs[] | select(.measured) | .overtaken_used == 0 and .order_rounds > 0'
expect_no_text d.json abcdef
check "machine file" test -s results/local/machine.ini
expect_text results/local/machine.ini '^weights_gbps = [0-9.]+ \| measured: ' '^scaleup_gbps = ' '^message_us = ' '^calibration_load = [0-9.]+ '
expect_no_file results/local/machine.ini.tmp

# Again over the old file, and with ranks that outnumber the cores (E08).
launch 5 doctor --calibrate
expect_rc 0
expect_text out 'barrier +[0-9.]+ us over 5 ranks' 'machine file: results/local/machine.ini'

# A faulty option is one message for all ranks.
launch 2 doctor --calibrate=maybe
expect_rc 2
expect_one_line
