# vgpu ps and doctor.
load common.bash

@test "doctor: names, states and advice; JSON agrees" {
    run --separate-stderr "$vgpu" doctor --json
    local checks=$output failed
    failed=$(json .fail)
    [ "$status" = $((failed > 0)) ]
    for name in driver NVML "C library" library preload "runtime directory" "arena directory" environment ld.so.preload "user namespaces"; do
        [ "$(json "[.checks[] | select(.name == \"$name\")] | length")" -ge 1 ] || fail "no check \"$name\""
    done
    [ "$(json '[.checks[] | select((.status != "ok") == (.advice == null))] | length')" = 0 ]
    [ "$(json '.checks[] | select(.name == "preload") | .status')" = ok ]
    [ "$(json '.checks | length')" = $(($(json '.ok + .warn + .fail'))) ]
    run --separate-stderr "$vgpu" doctor
    [ "$status" = $((failed > 0)) ]
    [ "$(grep -c '^fail ' <<<"$output")" = "$failed" ]
}

@test "doctor with the simulated driver finds nothing that fails" {
    LD_LIBRARY_PATH=$VGPU_BUILD/sim expect 0 "$vgpu" doctor
    [[ $(tr -s ' \n' ' ' <<<"$output") == *"cuInit works"* ]] # wherever the line is broken
}

@test "doctor finds a library that is not there or does not load" {
    VGPU_LIBRARY=/nowhere/libvgpu.so run --separate-stderr "$vgpu" doctor --json
    [ "$(json '.checks[] | select(.name == "library") | .status')" = fail ]
    echo 'no library' >broken.so
    VGPU_LIBRARY=$PWD/broken.so run --separate-stderr "$vgpu" doctor --json
    [ "$status" = 1 ]
    [ "$(json '.checks[] | select(.name == "preload") | .status')" = fail ]
}

@test "doctor finds a bad runtime directory and a bad environment" {
    VGPU_RUNTIME_DIR=/proc/no run --separate-stderr "$vgpu" doctor --json
    [ "$(json '.checks[] | select(.name == "runtime directory") | .status')" = fail ]
    VGPU_ARENA_DIR=/proc/no run --separate-stderr "$vgpu" doctor --json
    [ "$(json '.checks[] | select(.name == "arena directory") | .status')" = warn ]
    VGPU_ARENA_DIR=here run --separate-stderr "$vgpu" doctor --json
    [[ $output == *"VGPU_ARENA_DIR=here is not an absolute path"* ]]
    CUDA_DEVICE_MEMORY_LIMIT_3=1.3g run --separate-stderr "$vgpu" doctor --json
    [ "$(json '[.checks[] | select(.name == "environment" and .status == "fail")] | length')" = 1 ]
    [[ $output == *"CUDA_DEVICE_MEMORY_LIMIT_3='1.3g'"* ]]
    CUDA_DEVICE_SM_LIMIT=half run --separate-stderr "$vgpu" doctor --json
    [ "$(json '[.checks[] | select(.name == "environment" and .status == "fail")] | length')" = 1 ]
    [[ $output == *"CUDA_DEVICE_SM_LIMIT='half'"*percent* ]]
    CUDA_DEVICE_SM_LIMIT_1=0 run --separate-stderr "$vgpu" doctor --json
    [ "$(json '[.checks[] | select(.name == "environment" and .status == "fail")] | length')" = 0 ]
    [[ $output == *"CUDA_DEVICE_SM_LIMIT is set but LD_PRELOAD"* ]]
    CUDA_DEVICE_MEMORY_LIMIT=4g run --separate-stderr "$vgpu" doctor --json
    [ "$(json '[.checks[] | select(.name == "environment" and .status == "fail")] | length')" = 0 ]
}

@test "doctor examines a program: static, musl, 32-bit, setuid, scripts, none" {
    state() { run --separate-stderr "$vgpu" doctor --json "$1"; json '.checks[] | select(.name == "program") | .status + " " + .detail'; }
    [[ $(state sh) == "ok "* ]]
    [[ $(state "$VGPU_BUILD/tests/cli/static_program") == "fail "*"statically linked"* ]]
    [[ $(state "$VGPU_BUILD/tests/cli/musl_program") == "fail "*musl* ]]
    [[ $(state no-such-program) == "fail "*"not found"* ]]
    printf '#!/bin/sh\n' >script
    [[ $(state ./script) == "fail "*"cannot be executed"* ]]
    chmod +x script
    [[ $(state ./script) == "ok ./script is run by /bin/sh"* ]]
    printf '#!/usr/bin/env -S A=1 cat -u\n' >script
    [[ $(state ./script) == "ok ./script is run by "*/cat,* ]]
    printf '\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0' >elf32
    chmod +x elf32
    [[ $(state ./elf32) == "fail "*32-bit* ]]
    if [ "$(id -u)" = 0 ] && cp "$(command -v true)" setuid && chown nobody setuid && chmod u+s,a+x setuid; then
        [[ $(state ./setuid) == "fail "*setuid* ]]
    fi
}

@test "doctor says when LD_PRELOAD has another library before ours" {
    LD_PRELOAD="libm.so.6:$VGPU_BUILD/libvgpu.so" run "$vgpu" doctor --json
    [[ $output == *"libm.so.6 before the library"* ]] || fail "no word of the order: $output"
    LD_PRELOAD="$VGPU_BUILD/libvgpu.so:libm.so.6" run "$vgpu" doctor --json
    [[ $output != *"before the library"* ]] || fail "the order is right: $output"
}
