#!/usr/bin/env bash
# What the library adds to a program, measured in pairs over a driver whose calls do nothing. One table; exit status 1
# where a bar is missed. Needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
work=$(mktemp -d /tmp/vgpu-bench.XXXXXX)
trap 'rm -rf "$work"' EXIT

# Instance for the measurements: a quota that nothing here reaches, so that every call is counted but none refused.
measure() {
    env -u VGPU_INSTANCE -u VGPU_TRACE LD_LIBRARY_PATH="$build/bench" LD_PRELOAD="$build/libvgpu.so" \
        VGPU_RUNTIME_DIR="$work" CUDA_DEVICE_MEMORY_LIMIT=900g CUDA_DEVICE_MEMORY_SHARED_CACHE="$work/bench.cache" \
        "$build/bench/calls"
}

measure >"$work/calls"
"$build/bench/start" "$build/libvgpu.so" >"$work/start"

value() { awk -v name="$1" '$1 == name { print $2 }' "$work/calls" "$work/start"; }

if [ "$(value hooked)" != 1 ]; then
    echo "bench: the library hooked nothing; there is nothing to measure" >&2
    exit 2
fi

missed=0
row() { # what, value, unit, bar
    local verdict=ok
    if ! awk -v value="$2" -v bar="$4" 'BEGIN { exit !(value <= bar) }'; then
        verdict="over the bar"
        missed=1
    fi
    printf '%-52s %10s %-6s %10s   %s\n' "$1" "$2" "$3" "<= $4" "$verdict"
}

printf '%-52s %10s %-6s %10s\n' "added to the driver's own time" measured "" bar
row "cuLaunchKernel" "$(value launch)" ns 50
row "cuGraphLaunch" "$(value graph_launch)" ns 50
if [ "$(value pass)" = same ]; then
    row "a call that is not hooked (same address)" 0 ns 0
else
    row "a call that is not hooked: got an address of ours" 1 ns 0
fi
row "cuMemAlloc + cuMemFree, 4 MiB" "$(value alloc_free)" ns 600
row "cuMemAlloc + cuMemFree, 4 KiB" "$(value small_alloc_free)" ns 600
row "cuMemAllocAsync + cuMemFreeAsync, 1 MiB" "$(value async_pair)" ns 150
row "cuMemFree: 100 000 others alive, against 10" \
    "$(awk -v many="$(value free_100000)" -v few="$(value free_10)" 'BEGIN { printf "%.2f", many / few }')" ratio 1.25
row "/bin/true, CPU time ($(value true_cpu) ms without)" "$(value true_cpu_added)" ms 0.3
echo
echo "cuMemFree in all: $(value free_10) ns among 10, $(value free_100000) ns among 100 000; of one that lies anywhere in" \
    "memory: $(value free_any_10) and $(value free_any_100000) ns (cache misses; on an H200 the driver's own takes 29 000 ns)"
echo "/bin/true: $(awk -v a="$(value true_cpu_added)" -v b="$(value true_cpu)" 'BEGIN { printf "%.0f", 100 * a / b }') % more CPU time" \
    "(load average $(cut -d' ' -f1 /proc/loadavg) on $(nproc) processors: both times grow with it)"
echo "/bin/true by the clock: $(value true_wall) ms, and $(value true_wall_added) ms more with the library"
exit "$missed"
