#!/bin/bash
# The dynamic loader's view of a built library: over a toy driver, without a GPU and without the simulator.
# usage: loader.sh SOURCE_DIR WORK_DIR LIBRARY TRACE_LIBRARY CC [EMULATOR [ARG...]]
set -euo pipefail
source=$1 work=$2 library=$(realpath "$3") trace=$(realpath "$4") cc=$5
shift 5
emulator=("$@")
mkdir -p "$work/toy" "$work/old" "$work/late" "$work/else where"
cd "$work"
export VGPU_ARENA_DIR=$PWD
failed=0
here=$source/tests/abi
flags=(-std=gnu17 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror "-I$source/spec")
driver=("${flags[@]}" -fPIC -shared "-Wl,-Bsymbolic" "-Wl,-soname,libcuda.so.1")

"$cc" "${driver[@]}" "$here/toydriver.c" -o toy/libcuda.so.1
"$cc" "${driver[@]}" -DTOY_OLD "$here/toydriver.c" -o old/libcuda.so.1
for name in interpose_a interpose_b shim; do
    "$cc" "${flags[@]}" -fPIC -shared "$here/$name.c" -o "lib$name.so"
done
"$cc" "${flags[@]}" "$here/loader_lookup.c" -o lookup -ldl
"$cc" "${flags[@]}" "$here/loader_late.c" -o late/program -ldl
"$cc" "${flags[@]}" -pthread "$here/loader_foreign.c" -o foreign -Wl,--no-as-needed ./libinterpose_a.so ./libinterpose_b.so -ldl
"$cc" "${flags[@]}" -pthread "$here/loader_linked.c" -o linked -Wl,--no-as-needed ./libshim.so toy/libcuda.so.1 -ldl

# run NAME [VARIABLE=VALUE...] COMMAND...: with the preloaded library of $preload and the driver of $folder
run() {
    local name=$1 set=(LD_LIBRARY_PATH="$folder:$work" LD_PRELOAD="$preload")
    shift
    while [[ $1 == *=* ]]; do
        set+=("$1")
        shift
    done
    if [ ${#emulator[@]} -gt 0 ]; then
        local given=()
        for one in "${set[@]}"; do given+=(-E "$one"); done
        set -- "${emulator[@]}" "${given[@]}" "$@"
        set=()
    fi
    if env -u VGPU_INSTANCE -u VGPU_TRACE "${set[@]}" timeout 60 "$@" >"$work/output" 2>&1; then
        echo "ok: $name"
    else
        echo "FAIL ($?): $name"
        cat "$work/output"
        failed=1
    fi
}

folder=$work/toy
none=VGPU_INSTANCE=/nonexistent
for preload in "$library" "$trace"; do
    kind=$(basename "$preload")
    for deep in "" deepbind; do
        run "$kind: lookups, switched off $deep" ./lookup off $deep
        run "$kind: lookups, traced $deep" VGPU_TRACE=/dev/null ./lookup traced $deep
    done
    run "$kind: other libraries' names, switched off" ./foreign
    run "$kind: other libraries' names, on" "$none" ./foreign
    run "$kind: a linked program, switched off" ./linked off
    run "$kind: a linked program, traced" "VGPU_TRACE=$work/trace" ./linked on
done
preload=$library
for deep in "" deepbind; do
    run "lookups, with an instance $deep" "$none" ./lookup on $deep
done
cp "$library" "else where/libvgpu-copy.so"
if [ ${#emulator[@]} -eq 0 ]; then
    ln -sf "else where" elsewhere
    preload=$work/elsewhere/libvgpu-copy.so run "installed elsewhere" "$none" ./lookup on
fi

# Sanitizers call dlsym, and so ours, before the functions that they intercept work.
for sanitizer in address thread; do
    [ ${#emulator[@]} -eq 0 ] || continue
    "$cc" "${flags[@]}" "-fsanitize=$sanitizer" "$here/loader_lookup.c" -o "lookup_$sanitizer" -ldl 2>output || continue
    preload=$library run "a program under -fsanitize=$sanitizer" ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 \
        VGPU_TRACE=/dev/null "./lookup_$sanitizer" traced
done

folder=$work/old
for preload in "$library" "$trace"; do
    run "$(basename "$preload"): an old driver" VGPU_TRACE=/dev/null ./linked old
done

folder=$work/nothing
preload=$library
rm -f late/libcuda.so.1
run "the driver appears later" "$none" late/program "$work/toy/libcuda.so.1" "$work/late"

if [ ${#emulator[@]} -eq 0 ]; then
    for command in "bash -c true" "/bin/true" "ls /" "python3 -c 0" "perl -e 0"; do
        command -v "${command%% *}" >/dev/null || continue
        run "$command" "$none" $command
        run "$command, with an empty environment" env -i "LD_PRELOAD=$library" $command
    done
    # Nothing that is no CUDA program opens the instance, says a word or leaves a file.
    run "silence" "$none" bash -c 'ls / >/dev/null'
    [ ! -s output ] || { echo "FAIL: a program without CUDA says something:"; cat output; failed=1; }
fi
grep -q '"symbol":"cuInit","calls":8' trace || { echo "FAIL: cuInit was not counted"; cat trace; failed=1; }
grep -q '"symbol":"cuMemAdvise","calls":1,' trace || { echo "FAIL: a PASS call was not counted"; cat trace; failed=1; }
exit $failed
