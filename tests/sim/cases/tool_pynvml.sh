#!/usr/bin/env bash
# python3-pynvml in an instance shows the instance: its quota, what it holds, its processes. Outside, the whole card.
# shellcheck source-path=SCRIPTDIR source=tools.sh
source "$(dirname "$0")/tools.sh"
need_module pynvml python3-pynvml contrib
hold_memory
look='
import sys, pynvml as n
n.nvmlInit()
card = n.nvmlDeviceGetHandleByIndex(0)
memory = n.nvmlDeviceGetMemoryInfo(card)
print(memory.total >> 20, memory.used >> 20, memory.free >> 20,
      *sorted(f"{p.pid}:{p.usedGpuMemory >> 20}" for p in n.nvmlDeviceGetComputeRunningProcesses(card)))
sensors = [n.nvmlDeviceGetTemperature(card, n.NVML_TEMPERATURE_GPU), n.nvmlDeviceGetPowerUsage(card),
           n.nvmlDeviceGetClockInfo(card, n.NVML_CLOCK_SM), n.nvmlDeviceGetCurrPcieLinkWidth(card)]
assert all(sensors), sensors
try:
    n.nvmlDeviceGetFanSpeed(card)
    sys.exit("a fan")
except n.NVMLError_NotSupported:
    pass
'
inside=$(in_shown "$python" -c "$look") || die "pynvml fails in the instance"
[ "$inside" = "1024 768 256 $shown_pid:768" ] || die "inside: $inside"
outside=$("$python" -c "$look") || die "pynvml fails outside"
both=$(printf '%s\n' "$shown_pid:768" "$neighbour_pid:2560" | LC_ALL=C sort | xargs)
[ "$outside" = "8192 3328 4864 $both" ] || die "outside: $outside"
