# vgpu run --guard, doctor and ps, as far as they go without a driver. What needs one is tested with a stand-in for it.
load common.bash

# driver VERSION: a folder that says so in place of the driver's device nodes.
driver()
{
    mkdir -p driver
    printf 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (builder)\n' "$1" >driver/version
    export VGPU_GUARD_DEV=$PWD/driver
}

# Skips where the kernel, or who we are in it, does not let the guard work.
guard_works()
{
    driver 580.126.20
    export VGPU_NVML=$VGPU_BUILD/sim/libnvidia-ml.so.1
    run --separate-stderr "$vgpu" run --guard true
    [ "$status" = 0 ] || skip "the guard does not work here: $stderr"
}

@test "--guard takes its mode in the same word only, and knows two" {
    local mode
    for mode in '' on Strict permissiv strict,permissive; do
        expect 125 "$vgpu" run --guard="$mode" true
        says "--guard=$mode" "--guard=strict" "--guard=permissive"
    done
    driver 580.126.20
    expect 127 "$vgpu" run --guard strict true
    says "strict" "not found" "did you mean --guard=strict?"
    expect 127 "$vgpu" run --guard=strict permissive
    [[ $stderr != *"did you mean"* ]]
    expect 125 "$vgpu" run --gaurd true
    says "did you mean --guard?"
    expect 125 "$vgpu" run --guard
    says "no command"
}

@test "what does not go together with --guard is refused by name, and nothing is left" {
    driver 580.126.20
    expect 125 "$vgpu" run --preload true
    says "--preload" "with --guard"
    expect 125 "$vgpu" run --preload=yes --guard true
    says "--preload takes no value"
    expect 125 "$vgpu" run --guard --sim true
    says "--guard and --sim" simulated
    expect 125 "$vgpu" run --sim --guard=permissive true
    says "--guard and --sim"
    local mode
    for mode in --guard --guard=strict --guard=permissive; do
        expect 125 "$vgpu" run $mode --copy-bw 5G true
        says "--copy-bw" "--preload"
        expect 125 "$vgpu" run $mode --host-mem 1G true
        says "--host-mem" "--preload"
        expect 125 "$vgpu" run $mode --trace calls true
        says "--trace" "--preload"
    done
    [ ! -e calls ]
    [ ! -e "$VGPU_RUNTIME_DIR/instances" ] || no_instances
}

@test "an unknown driver: --guard is refused with what to do, --guard=permissive preloads" {
    local version
    for version in 999.12.34 470.256.02; do
        driver $version
        expect 125 "$vgpu" run --guard --mem 1G sh -c 'echo ran'
        is ""
        says "--guard cannot work here" "$version" "--guard=permissive" doctor
        expect 125 "$vgpu" run --guard=strict --preload sh -c 'echo ran'
        is ""
        expect 0 "$vgpu" run --guard=permissive --mem 1G sh -c 'echo $LD_PRELOAD'
        is "$VGPU_BUILD/libvgpu.so"
        says "warning: the guard cannot work here" "$version" "preloaded library"
        expect 3 "$vgpu" run --guard=permissive --preload --host-mem 1G --copy-bw 5G sh -c 'exit 3'
        says "preloaded library"
    done
    no_instances
}

@test "no driver, and a version that cannot be read" {
    if [ ! -e /proc/driver/nvidia/version ]; then
        mkdir empty
        VGPU_GUARD_DEV=$PWD/empty expect 125 "$vgpu" run --guard true
        says "--guard cannot work here" driver
        expect 125 "$vgpu" run --guard true
    fi
    driver "of some kind"
    expect 125 "$vgpu" run --guard true
    says "--guard cannot work here"
    printf '\0\1\2' >driver/version
    expect 125 "$vgpu" run --guard true
    no_instances
}

@test "a permissive run that falls back is like any other: it warns about what is not bound, and ps says preload" {
    driver 999.1
    expect 0 "$vgpu" run --guard=permissive --mem 1G "$VGPU_BUILD/tests/cli/static_program" hello
    is hello
    says "statically linked" "does not bind it"
    mkfifo hold
    "$vgpu" run --guard=permissive --name lab sh -c 'read line <hold' 2>/dev/null 3>&- &
    wait_for test -f "$VGPU_RUNTIME_DIR/instances/lab/users"
    expect 0 "$vgpu" ps --json
    [ "$(json '.instances[0].tier')" = preload ]
    expect 0 "$vgpu" ps
    [[ $output == INSTANCE*TIER*PROCESS* && $(grep ^lab <<<"$output") == *" preload "* ]]
    expect 0 "$vgpu" run --name lab true
    echo >hold
    wait
    no_instances
}

@test "doctor: a group of checks, none of which fails" {
    export LD_LIBRARY_PATH=$VGPU_BUILD/sim name
    driver 999.12.34
    expect 0 "$vgpu" doctor --json
    for name in kernel seccomp "driver branch" ptrace NVML uvm_disable_hmm; do
        [ "$(json "[.checks[] | select(.name == \"guard $name\")] | length")" = 1 ] || fail "no check of $name"
    done
    [ "$(json '[.checks[] | select((.name | startswith("guard ")) and .status == "fail")] | length')" = 0 ]
    [ "$(json '.checks[] | select(.name == "guard driver branch") | .status')" = warn ]
    [[ $(json '.checks[] | select(.name == "guard driver branch") | .detail') == *999.12.34* ]]
    [[ $(json '.checks[] | select(.name == "guard driver branch") | .advice') == *"vgpu run"* ]]
    driver 580.126.20
    expect 0 "$vgpu" doctor --json
    [ "$(json '.checks[] | select(.name == "guard driver branch") | .status')" = ok ]
    [[ $(json '.checks[] | select(.name == "guard driver branch") | .detail') == *580* ]]
    VGPU_NVML=$VGPU_BUILD/sim/libnvidia-ml.so.1 expect 0 "$vgpu" doctor --json
    [ "$(json '.checks[] | select(.name == "guard NVML") | .status')" = ok ] || fail "$output"
    VGPU_NVML=/nowhere/nvml expect 0 "$vgpu" doctor --json
    [ "$(json '.checks[] | select(.name == "guard NVML") | .status')" = warn ] || fail "$output"
    [[ $(json '.checks[] | select(.name == "guard NVML") | .detail') == "/nowhere/nvml cannot be read: --guard=strict"*VGPU_NVML ]]
}

@test "under the guard nothing is preloaded, and the instance is in the environment" {
    guard_works
    expect 0 "$vgpu" run --guard --name one --mem 1G --cores 50 --weight 200 --policy fair \
        sh -c 'echo "${LD_PRELOAD-none}"; echo $VGPU_INSTANCE; test -f $VGPU_INSTANCE/region && echo region'
    is none$'\n'"$VGPU_RUNTIME_DIR/instances/one"$'\n'region
    [ -z "$stderr" ] || fail "$stderr"
    LD_PRELOAD="$VGPU_BUILD/libvgpu.so" expect 0 "$vgpu" run --guard sh -c 'echo "${LD_PRELOAD-none}"'
    is none
    LD_PRELOAD="libm.so.6 $VGPU_BUILD/libvgpu.so" expect 0 "$vgpu" run --guard sh -c 'echo $LD_PRELOAD'
    is libm.so.6
    VGPU_LIBRARY=/nowhere/lib.so expect 0 "$vgpu" run --guard true
    expect 0 "$vgpu" run --guard=strict --preload --host-mem 1G --copy-bw 5G sh -c 'echo $LD_PRELOAD'
    is "$VGPU_BUILD/libvgpu.so"
    VGPU_LIBRARY=/nowhere/lib.so expect 125 "$vgpu" run --guard --preload true
    says VGPU_LIBRARY=/nowhere/lib.so
    no_instances
}

@test "under the guard: the command's status, signals, output and descriptors are as without it" {
    guard_works
    local status
    for status in 0 1 125 126 127 255; do
        expect $status "$vgpu" run --guard sh -c "exit $status"
    done
    expect 143 "$vgpu" run --guard sh -c 'kill -TERM $$'
    expect 137 "$vgpu" run --guard=strict sh -c 'kill -KILL $$'
    says "was killed by signal 9"
    [[ $stderr != *"has ended instance"* ]]
    printf '#!/no/such/interpreter\n' >script
    chmod +x script
    expect 127 "$vgpu" run --guard ./script
    says "./script cannot be run: its interpreter"
    run --separate-stderr "$vgpu" run --guard sh -c 'cat; echo err >&2' <<<"in"
    [ "$output" = in ] && [ "$stderr" = err ]
    ls /proc/self/fd | wc -l >without
    expect 0 "$vgpu" run --guard sh -c 'ls /proc/self/fd | wc -l'
    is "$(cat without)"
    no_instances
}

@test "under the guard a static program needs no warning; a 32-bit one is refused" {
    guard_works
    expect 0 "$vgpu" run --guard --mem 1G "$VGPU_BUILD/tests/cli/static_program" hello
    is hello
    [ -z "$stderr" ] || fail "$stderr"
    expect 0 "$vgpu" run --guard --preload --mem 1G "$VGPU_BUILD/tests/cli/static_program" hello
    is hello
    says "static_program" "statically linked" "no caps and turns"
    printf '\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0' >elf32
    chmod +x elf32
    expect 126 "$vgpu" run --guard ./elf32
    says "./elf32" "32-bit"
    if [ "$(id -u)" = 0 ] && cp "$(command -v true)" setuid && chown nobody setuid && chmod u+s,a+x setuid; then
        expect 0 "$vgpu" run --guard ./setuid
        says "./setuid" setuid "without them"
    fi
    no_instances
}

@test "ps shows the tier; an instance has one, and one guard" {
    guard_works
    mkfifo hold
    "$vgpu" run --guard --name lab --mem 1G sh -c 'read line <hold' 3>&- &
    wait_for test -f "$VGPU_RUNTIME_DIR/instances/lab/users"
    expect 0 "$vgpu" ps --json
    [ "$(json '.instances[0].tier')" = guard ]
    expect 0 "$vgpu" ps
    [[ $(grep ^lab <<<"$output") == *" guard "* ]] || fail "$output"
    expect 125 "$vgpu" run --name lab true
    says lab "under the guard" "choose another --name"
    for mode in --guard --guard=strict; do
        expect 125 "$vgpu" run $mode --name lab --mem 1G true
        says lab "under the guard of another" "choose another --name"
    done
    echo >hold
    wait
    mkfifo again
    "$vgpu" run --name lab --mem 1G sh -c 'read line <again' 3>&- &
    wait_for test -f "$VGPU_RUNTIME_DIR/instances/lab/users"
    expect 125 "$vgpu" run --guard --name lab true
    says lab "without the guard" "leave out --guard"
    echo >again
    wait
    expect 0 "$vgpu" run --guard --name lab --mem 1G "$vgpu" run --name lab sh -c 'basename $VGPU_INSTANCE'
    is lab
    expect 125 "$vgpu" run --guard --name lab "$vgpu" run --name lab --policy rr true
    says lab --policy
    no_instances
}

@test "under the guard the devices of --gpu are in CUDA_VISIBLE_DEVICES, unless the library translates it" {
    guard_works
    export LD_LIBRARY_PATH=$VGPU_BUILD/sim SIMGPU_COUNT=3
    expect 0 "$vgpu" run --guard --gpu 2,0 sh -c 'echo $CUDA_VISIBLE_DEVICES'
    [[ $output =~ ^GPU-[0-9a-f-]{36},GPU-[0-9a-f-]{36}$ ]] || fail "$output"
    local list=$output
    expect 0 "$vgpu" run --guard --gpu "$list" sh -c 'echo $CUDA_VISIBLE_DEVICES'
    is "$list"
    expect 0 "$vgpu" run --guard --preload --gpu 2,0 sh -c 'echo "${CUDA_VISIBLE_DEVICES-none}"'
    is none
    CUDA_VISIBLE_DEVICES=1 expect 0 "$vgpu" run --guard --gpu 2,0 sh -c 'echo $CUDA_VISIBLE_DEVICES'
    is "${list#*,}"
    CUDA_VISIBLE_DEVICES=1,0 expect 0 "$vgpu" run --guard --gpu 2,0 sh -c 'echo $CUDA_VISIBLE_DEVICES'
    is "${list#*,},${list%,*}"
    CUDA_VISIBLE_DEVICES=2 expect 125 "$vgpu" run --guard --gpu 2,0 true
    says CUDA_VISIBLE_DEVICES=2 "leaves none of these devices"
    # Limits by number are bound to the devices that the program will number so.
    CUDA_VISIBLE_DEVICES=2,0 expect 0 "$vgpu" run --guard --mem 0:1G,1:2G --name two sh -c '"$0" ps --json' "$vgpu"
    [ "$(json '[.instances[] | select(.name == "two").devices[] | .uuid] | join(",")')" = "$list" ] || fail "$output"
    CUDA_VISIBLE_DEVICES=1 expect 0 "$vgpu" run --guard sh -c 'echo $CUDA_VISIBLE_DEVICES'
    is 1
    no_instances
}

# The number and size of an allocation, on a file that is no device.
allocate='
import fcntl, os, sys
null = open("/dev/null")
def call():
    try:
        fcntl.ioctl(null, 0xc030462b, bytearray(48))
        return 0
    except OSError as error:
        return os.strerror(error.errno)
print(call(), flush=True)
if len(sys.argv) > 1:
    open(sys.argv[1]).read()
    print(call(), flush=True)
'

@test "calls for memory are answered by vgpu, and by nobody when it was killed" {
    guard_works
    expect 0 "$vgpu" run --guard --stats python3 -c "$allocate"
    is "Inappropriate ioctl for device"
    says "guard: calls checked 1,"
    mkfifo hold
    "$vgpu" run --guard python3 -c "$allocate" hold >out 3>&- &
    wait_for grep -q . out
    kill -KILL $!
    wait_for sh -c "! kill -0 $!"
    echo >hold
    wait_for grep -q "Function not implemented" out
    wait_for sh -c "'$vgpu' ps | grep 'No instance'"
    no_instances
}

@test "signals are passed on under the guard" {
    guard_works
    "$vgpu" run --guard sh -c 'trap "exit 7" TERM; echo up; while :; do sleep 0.02; done' >out 3>&- &
    wait_for grep -q up out
    kill -TERM $!
    local result=0
    wait $! || result=$?
    [ $result = 7 ] || fail "status $result"
    no_instances
}

@test "ps under the guard: one line a process, the guard's figures, the library's in the JSON only" {
    mkdir -p "$VGPU_RUNTIME_DIR/instances/guarded"
    mkfifo hold
    "$VGPU_BUILD/tests/cli/guarded" "$VGPU_RUNTIME_DIR/instances/guarded" <hold >pids 3>&- &
    exec 9>hold
    wait_for grep -q . pids
    local child parent
    read -r child parent <pids
    wait_for sh -c "'$vgpu' ps --json | jq -e '.instances[0].devices[0].used_by_kind | .driver == 5368709120 and .data > 0'"
    expect 0 "$vgpu" ps --json
    [ "$(json '.instances[0] | [.tier, .running, .devices[0].used_bytes] | @csv')" = '"guard",2,6442450944' ] || fail "$output"
    [ "$(json '.instances[0].devices[0].used_by_kind | [.driver, .managed, .context, .data] | @csv')" = 5368709120,1073741824,536870912,1073741824 ]
    [ "$(json '.instances[0].processes | map([.pid, .held[0].used_bytes, .held[0].used_by_kind.data]) | sort_by(-.[2]) | @json')" = \
        "[[$child,3221225472,1073741824],[$parent,3221225472,0]]" ] || fail "$output"
    COLUMNS=200 expect 0 "$vgpu" ps
    [[ $(head -n 1 <<<"$output") =~ ^INSTANCE\ +USER\ +TIER\ +PROCESS\ +DEVICE\ +GPU\ +USED\ +PEAK\ +QUOTA\ +MANAGED\ +DRIVER\ +REFUSED$ ]] || fail "$output"
    [[ $(grep ^guarded <<<"$output") =~ \ guard\ +2\ running\ +0\ +GPU-00000000\ +6.0\ GiB\ +6.0\ GiB\ +8.0\ GiB\ +1.0\ GiB\ +5.0\ GiB\ +0$ ]] || fail "$output"
    [[ $(grep "$child child" <<<"$output") =~ \ 3.0\ GiB\ +1.0\ GiB\ +2.0\ GiB\ *$ ]] || fail "$output"
    [[ $(grep "$parent parent" <<<"$output") =~ \ 3.0\ GiB\ +3.0\ GiB\ *$ ]] || fail "$output"
    [ "$(wc -l <<<"$output")" = 4 ] || fail "$output"
    exec 9>&-
    wait
    expect 0 "$vgpu" ps
    no_instances
}

@test "a guard inside of a guard is refused; a plain run inside is not" {
    guard_works
    expect 125 "$vgpu" run --guard --name outer "$vgpu" run --guard --name inner true
    says "supervised here already"
    expect 0 "$vgpu" run --guard --name outer "$vgpu" run --name inner sh -c 'basename $VGPU_INSTANCE'
    is inner
    says "inside instance outer" "under the guard" "as well as"
    no_instances
}

@test "--stats adds the guard's figures" {
    guard_works
    expect 0 "$vgpu" run --guard --stats true
    says "guard: calls checked " ", memory refused 0," "switches of channels 0"
    expect 0 "$vgpu" run --stats true
    [[ $stderr != *"guard:"* ]]
}

@test "help, man page and completion of an option whose argument may be left out" {
    expect 0 "$vgpu" help run
    [[ $output == *"  --guard[=MODE]"* ]]
    grep -q '^\\fB\\-\\-guard\\fR\[=\\fIMODE\\fR\]$' "$VGPU_BUILD/generated/vgpu-run.1"
    grep -q -- "'--guard=-\[.*\]::MODE:(strict permissive)'" "$VGPU_BUILD/generated/_vgpu"
    grep -q -- "-l guard -f -a 'strict permissive'" "$VGPU_BUILD/generated/vgpu.fish"
    complete_words()
    {
        bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vgpu; echo "${COMPREPLY[@]}"' \
            "$VGPU_BUILD/generated/vgpu.bash" "$@"
    }
    [ "$(complete_words vgpu run --gua)" = --guard ]
    [ "$(complete_words vgpu run --guard =)" = "strict permissive" ]
    [ "$(complete_words vgpu run --guard = p)" = permissive ]
    [ "$(complete_words vgpu run --guard --pre)" = --preload ]
    [ "$(complete_words vgpu run --guard = strict --pre)" = --preload ]
    [[ $(complete_words vgpu run --guard ca) == *cat* ]]
    [ "$(complete_words vgpu run --policy = ad)" = adaptive ]
    [ "$(complete_words vgpu run --policy = fair --pre)" = --preload ]
}
