#!/usr/bin/env bash
# scripts/device-check.sh on the emulated device, at small shapes. Called with EMULATED_BINARY SOURCE_DIR
# PLAIN_BINARY DEVICE_CHECK.
emulated=$(realpath "$1") device_check=$(realpath "$4")
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"

run_it bash "$source_dir/scripts/device-check.sh" emulated "$emulated" "$device_check"
expect_rc 0
expect_text out '^device-check: all right$' '^0 of the kernels are wrong$' '^gate, up w4a8 .* ok$' '^encode int8 .* ok$'
check "one table for each number of ranks" [ "$(grep -c '^deepep:ll .* ok$' out)" = 2 ]
check_not "no kernel is wrong" grep -q WRONG out

run_it bash "$source_dir/scripts/device-check.sh" nothing
expect_rc 2

# A wrong region is noticed: there is no such device.
K3_EMULATED_DEVICES=0 run_it bash "$source_dir/scripts/device-check.sh" emulated "$emulated" "$device_check"
check "no device, no success" [ "$rc" != 0 ]
