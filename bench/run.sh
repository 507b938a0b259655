#!/usr/bin/env bash
# What the library adds to a program, measured in pairs over a driver whose calls do nothing. One table; exit status 1
# where a bar is missed. Needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
work=$(mktemp -d /tmp/vgpu-bench.XXXXXX)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

# Instance for the measurements: a quota that nothing here reaches, so that every call is counted but none refused.
measure() {
    env -u VGPU_INSTANCE -u VGPU_TRACE LD_LIBRARY_PATH="$build/bench" LD_PRELOAD="$build/libvgpu.so" \
        VGPU_RUNTIME_DIR="$work" CUDA_DEVICE_MEMORY_LIMIT=900g CUDA_DEVICE_MEMORY_SHARED_CACHE="$work/bench.cache" \
        "$build/bench/calls"
}

# The same program in instances of `vgpu run`: `in_instance NAME OPTION... -- WORD...` adds NAME_ to what it prints.
in_instance() {
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    env -u VGPU_INSTANCE -u VGPU_TRACE LD_LIBRARY_PATH="$build/bench" VGPU_RUNTIME_DIR="$work" VGPU_ARENA_DIR="$work" \
        "$build/vgpu" run "${options[@]}" -- "$build/bench/calls" "$@" | sed "s/^/${name}_/"
}

measure >"$work/calls"
in_instance alone --mem 900G -- work >>"$work/calls"
# A pause before each block, so that the cap is not reached: the cheapest of launches is charged 500 ns.
in_instance capped --mem 900G --cores 99 -- work 2500 >>"$work/calls"
touch "$work/neighbour"
in_instance neighbour --mem 1G -- neighbour "$work/neighbour" >/dev/null &
sleep 0.3
in_instance contended --mem 900G -- work >>"$work/calls"
rm "$work/neighbour"
wait
"$build/bench/start" "$build/libvgpu.so" >"$work/start"

# CPU time of one `vgpu ps`, in ms, by ten in a row.
ps_cpu() {
    local TIMEFORMAT='%3U %3S'
    { time for _ in {1..10}; do
        VGPU_RUNTIME_DIR=$work VGPU_ARENA_DIR=$work "$build/vgpu" ps >"$work/shown"
    done; } 2>&1 | awk '{ printf "%.1f", 100 * ($1 + $2) }'
}

for i in {1..64}; do
    VGPU_RUNTIME_DIR=$work VGPU_ARENA_DIR=$work "$build/vgpu" run --name "bench$i" --mem 1G -- sleep infinity &
done
until VGPU_RUNTIME_DIR=$work "$build/vgpu" ps | grep -c '^bench.* running' | grep -qx 64; do sleep 0.1; done
ps_64=$(ps_cpu)
for _ in {1..5000}; do sleep infinity & done
ps_64_5000=$(ps_cpu)
mapfile -t running < <(jobs -p)
kill "${running[@]}"
wait

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
row "cuLaunchKernel, alone: most" "$(value alone_launch_p50)" ns 30
row "cuLaunchKernel, alone: mean" "$(value alone_launch_mean)" ns 60
row "cuGraphLaunch, alone: most" "$(value alone_graph_p50)" ns 30
row "cuGraphLaunch, alone: mean" "$(value alone_graph_mean)" ns 60
row "cuMemsetD8Async, alone: mean" "$(value alone_memset_mean)" ns 50
row "cuMemcpyDtoDAsync, alone: mean" "$(value alone_copy_within_mean)" ns 50
row "cuMemcpyHtoDAsync, alone: mean" "$(value alone_copy_mean)" ns 50
row "cuLaunchKernel, a cap that is not reached: mean" "$(value capped_launch_mean)" ns 150
row "cuGraphLaunch, a cap that is not reached: mean" "$(value capped_graph_mean)" ns 150
row "cuLaunchKernel, HAMi's cache file: mean" "$(value launch)" ns 50
row "cuGraphLaunch, HAMi's cache file: mean" "$(value graph_launch)" ns 50
row "cuMemcpyHtoDAsync, HAMi's cache file: mean" "$(value copy)" ns 50
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
row "vgpu ps, 64 instances, CPU time" "$ps_64" ms 20
row "vgpu ps, 64 instances, 5 000 more processes, CPU time" "$ps_64_5000" ms 20
echo
echo "beside another instance, nobody waiting: cuLaunchKernel $(value contended_launch_mean) ns," \
    "cuGraphLaunch $(value contended_graph_mean) ns, cuMemsetD8Async $(value contended_memset_mean) ns more"
echo "cuMemFree in all: $(value free_10) ns among 10, $(value free_100000) ns among 100 000; of one that lies anywhere in" \
    "memory: $(value free_any_10) and $(value free_any_100000) ns (cache misses; on an H200 the driver's own takes 29 000 ns)"
echo "/bin/true: $(awk -v a="$(value true_cpu_added)" -v b="$(value true_cpu)" 'BEGIN { printf "%.0f", 100 * a / b }') % more CPU time" \
    "(load average $(cut -d' ' -f1 /proc/loadavg) on $(nproc) processors: both times grow with it)"
echo "/bin/true by the clock: $(value true_wall) ms, and $(value true_wall_added) ms more with the library"
exit "$missed"
