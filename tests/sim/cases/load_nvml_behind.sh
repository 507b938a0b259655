#!/usr/bin/env bash
# A libnvidia-ml.so.1 that has no function itself, but needs a library that has them all: NVML shows the quota.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "no python3"
mkdir "$TEST_WORK/front"
LC_ALL=C sed 's/libnvidia-ml\.so\.1/libnvidia-xx.so.1/g' "$TEST_BUILD/sim/libnvidia-ml.so.1" >"$TEST_WORK/front/libnvidia-xx.so.1"
echo >"$TEST_WORK/empty.c"
gcc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -Wl,--no-as-needed -o "$TEST_WORK/front/libnvidia-ml.so.1" "$TEST_WORK/empty.c" \
    "$TEST_WORK/front/libnvidia-xx.so.1" || skip "no gcc"
cat >"$TEST_WORK/view.py" <<'P'
import ctypes
nvml, device, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
print(memory[0])
P
export LD_LIBRARY_PATH=$TEST_WORK/front:$LD_LIBRARY_PATH
[ "$(python3 "$TEST_WORK/view.py")" -gt $((1 << 30)) ] || die "the library in front does not work"
[ "$(with_instance python3 "$TEST_WORK/view.py")" = $((1 << 30)) ] || die "the view is not applied"
