#!/usr/bin/env bash
# The library in a process does not change what the process is: no thread, no descriptor, no file before CUDA is used.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
plain=$(bash -c 'ls /proc/self/task | wc -l; ls /proc/self/fd | wc -l')
with=$(with_instance bash -c 'ls /proc/self/task | wc -l; ls /proc/self/fd | wc -l')
[ "$plain" = "$with" ] || die "threads and descriptors: '$plain' became '$with'"
[ "$("$TEST_INSTANCE_TOOL" show "$TEST_INSTANCE" | grep -c '^proc')" -eq 0 ] || die "a shell attached to the instance"
