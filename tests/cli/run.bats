# vgpu run: status, environment, limits, names.
load common.bash

@test "the command's own status comes back" {
    for status in 0 1 2 77 124 125 126 127 128 255; do
        expect $status "$vgpu" run -- sh -c "exit $status"
    done
    no_instances
}

@test "128 + N for a command that a signal killed, and a note for a crash" {
    expect 143 "$vgpu" run sh -c 'kill -TERM $$'
    expect 130 "$vgpu" run sh -c 'kill -INT $$'
    expect 137 "$vgpu" run sh -c 'kill -KILL $$'
    says "was killed by signal 9"
    expect 139 "$vgpu" run sh -c 'kill -SEGV $$'
    says "signal 11"
    no_instances
}

@test "127 for what is not found, 126 for what cannot be executed, 125 for our own errors" {
    expect 127 "$vgpu" run no-such-program-here
    says no-such-program-here PATH
    expect 127 "$vgpu" run ./nowhere/program
    echo 'not a program' >plain
    expect 126 "$vgpu" run ./plain
    says ./plain
    expect 126 "$vgpu" run "$BATS_TEST_TMPDIR"
    printf '#!/no/such/interpreter\n' >script
    chmod +x script
    expect 127 "$vgpu" run ./script
    says "./script cannot be run: its interpreter /no/such/interpreter is not there"
    expect 125 "$vgpu" run
    says "no command"
    expect 125 "$vgpu" run --mem
    says "--mem needs a value"
    expect 125 "$vgpu" run --frobnicate true
    expect 125 "$vgpu" run --sim=yes true
    says "takes no value"
    no_instances
}

@test "a limit on the size of files (ulimit -f) is named, and kills nobody" {
    expect 125 bash -c "ulimit -f 100; exec '$vgpu' run true"
    says "cannot make the region" "ulimit -f"
    no_instances
    # The instance is there; what the library makes in the program's name is not worth the program.
    LD_LIBRARY_PATH=$VGPU_BUILD/sim "$VGPU_BUILD/demo/busy" bare 0.05 # the simulator has its file from now on
    expect 0 "$vgpu" run --sim --mem 1G --cores 50 -- bash -c "ulimit -f 100; exec '$VGPU_BUILD/demo/busy' limited 0.05"
    expect 1 env LD_PRELOAD="$VGPU_BUILD/libvgpu.so" CUDA_DEVICE_MEMORY_LIMIT=1g \
        CUDA_DEVICE_MEMORY_SHARED_CACHE="$PWD/cache" LD_LIBRARY_PATH="$VGPU_BUILD/sim" \
        bash -c "ulimit -f 100; exec '$VGPU_BUILD/demo/busy' limited 0.05"
    says "cannot attach" "ulimit -f"
}

@test "an unknown option names the nearest one" {
    expect 125 "$vgpu" run --meme 8G true
    says "--meme" "did you mean --mem?"
    expect 125 "$vgpu" run --hots-mem 8G true
    says "did you mean --host-mem?"
    expect 125 "$vgpu" run --zzzzzz true
    [[ $stderr != *"did you mean"* ]]
}

@test "sizes that are accepted" {
    local size
    for size in 8G 8GiB 8g 8192m 1073741824 40% 100% 1% 1024k 1T 8Gi 8GB 1.5G 0.5Gi 1M 1048576 0:8G,1:4G 15:1G 8G,1:4G 0:10%,1:2G; do
        expect 0 "$vgpu" run --mem "$size" true
    done
    expect 0 "$vgpu" run --mem=8G true
    expect 0 "$vgpu" run --host-mem 8G true
}

# refused OPTION VALUE PART...: one short line with the option, the value in quotes and each part.
refused()
{
    expect 125 "$vgpu" run "$1" "$2" true
    says "run: $1" "${@:3}"
    [ ${#stderr} -le 160 ] || fail "a long message: $stderr"
    [ "$(wc -l <<<"$stderr")" -eq 1 ] || fail "more than a line: $stderr"
}

@test "sizes that are refused: each says what is wrong with it" {
    local size option
    for size in +1 8X G '8 G' ' 8G' '8G ' 0x10M 010 08G 40%% abc 8Gjunk 0:8G:4 -x; do
        refused --mem "$size" "\"$size\": not a size"
    done
    refused --mem '' '"": the value is empty'
    for size in 0 0G 00 0.0G 0:0; do
        refused --mem "$size" $size
    done
    refused --mem 0G "cannot be zero"
    refused --mem -1 "cannot be negative"
    refused --mem 0:-8G "cannot be negative"
    refused --mem 1.3G "not a whole number of bytes"
    for size in 99999999999999999999 17179869184G; do
        refused --mem "$size" "more than 8 EiB"
    done
    for size in 101% 0% 1.5%; do
        refused --mem "$size" "from 1 to 100"
    done
    refused --mem 0:8G,0:4G "named twice"
    refused --mem 8G,4G "two values for every device"
    for size in 16:1G a:1G -1:1G; do
        refused --mem "$size" "a number from 0 to 15"
    done
    for size in 8G, ,8G 8G,,1:4G; do
        refused --mem "$size" "before or after a comma"
    done
    refused --mem 0:,1:4G "the value is empty"
    refused --host-mem 40% "takes no percentage"
    for option in --mem --host-mem --copy-bw; do
        refused $option 8 "less than 1 MiB" "did you mean 8G?"
        refused $option 1023K "less than 1 MiB"
        refused $option 0 "cannot be zero"
        refused $option -1 "cannot be negative"
        refused $option '' '"": the value is empty'
        refused $option 8X "not a size"
    done
    refused --mem 0:8,1:8G "less than 1 MiB"
    refused --cores '' "the value is empty"
    refused --cores 0 "from 1 to 100"
    refused --cores 0:30,0:40 "named twice"
    no_instances
}

@test "a message is one line, whatever it quotes" {
    refused --mem $'8G\n1' '"8G?1": not a size'
    refused --mem $'\033[31m8G' '"?[31m8G"'
    refused --name $'1\n2' '"1?2"'
    LD_PRELOAD=$VGPU_BUILD/libvgpu.so LD_LIBRARY_PATH=$VGPU_BUILD/sim CUDA_DEVICE_MEMORY_LIMIT=$'1\ng' \
        CUDA_DEVICE_MEMORY_SHARED_CACHE=$PWD/cache expect 0 "$VGPU_BUILD/tests/sim/simtest" init_code 304
    [ "$(wc -l <<<"$stderr")" -eq 1 ] || fail "more than a line: $stderr"
    says '"1?g"'
}

@test "a cache file that is a symbolic link is refused as one" {
    ln -s elsewhere cache
    LD_PRELOAD=$VGPU_BUILD/libvgpu.so LD_LIBRARY_PATH=$VGPU_BUILD/sim CUDA_DEVICE_MEMORY_LIMIT=1g \
        CUDA_DEVICE_MEMORY_SHARED_CACHE=$PWD/cache expect 0 "$VGPU_BUILD/tests/sim/simtest" init_code 304
    says "$PWD/cache: it is a symbolic link"
}

@test "-- is never a value, and an empty value is seen" {
    expect 125 "$vgpu" run --mem -- true
    says "--mem needs a value"
    expect 125 "$vgpu" run --name -- true
    says "--name needs a value"
    expect 127 "$vgpu" run ''
    says '"": not found'
    SIMGPU_COUNT=2 expect 125 "$vgpu" run --sim --gpu '' true
    says '--gpu "": the value is empty'
    SIMGPU_COUNT=2 expect 125 "$vgpu" run --sim --gpu 0, true
    says '--gpu "0,": nothing stands before or after a comma'
    SIMGPU_COUNT=2 expect 125 "$vgpu" run --sim --gpu auto,1 true
    says '--gpu "auto,1": auto stands alone'
    SIMGPU_COUNT=2 expect 0 "$vgpu" run --sim --gpu all --mem 0:1G,1:2G true
    SIMGPU_COUNT=2 expect 125 "$vgpu" run --sim --gpu all --mem 2:1G true
    says "--gpu all gives the program 2 devices"
}

@test "what other tools call an option names ours" {
    local pair
    for pair in memory:mem vram:mem cpu:cores cpus:cores sm:cores gpus:gpu devices:gpu nice:priority m:mem; do
        expect 125 "$vgpu" run --${pair%:*} 1 true
        says "did you mean --${pair#*:}?"
    done
}

@test "options end at the command: its flags are its own" {
    expect 0 "$vgpu" run --mem 1G echo --mem 8X --help -- -x
    is "--mem 8X --help -- -x"
    expect 0 "$vgpu" run -- echo -- --name
    is "-- --name"
    expect 3 "$vgpu" run sh -c 'exit $#' sh --a --b --c
}

@test "arguments arrive as they are" {
    expect 0 "$vgpu" run printf '[%s]' '' ' a  b ' $'new\nline' '*' "it's" 'ä'
    is "[][ a  b ]["$'new\nline'"][*][it's][ä]"
}

@test "stdin, stdout, stderr and the working directory are the caller's" {
    mkdir folder
    cd folder
    run --separate-stderr "$vgpu" run sh -c 'pwd; cat; echo err >&2' <<<"in"
    [ "$output" = "$BATS_TEST_TMPDIR/folder"$'\n'"in" ]
    [ "$stderr" = err ]
}

@test "no descriptor is left open for the command" {
    ls /proc/self/fd | wc -l >without
    expect 0 "$vgpu" run sh -c 'ls /proc/self/fd | wc -l'
    is "$(cat without)"
}

@test "environment: the instance, the library first, --env" {
    expect 0 "$vgpu" run --name one sh -c 'echo $VGPU_INSTANCE; test -f $VGPU_INSTANCE/region && echo region'
    is "$VGPU_RUNTIME_DIR/instances/one"$'\n'region
    expect 0 "$vgpu" run --env A=1 --env=B='x y=z' --env C= sh -c 'echo "$A|$B|$C${C+set}"'
    is "1|x y=z|set"
    expect 0 "$vgpu" run --env A=1 --env A=2 sh -c 'echo $A'
    is 2
    local bad
    for bad in A =1 '' 'A B=1'; do
        expect 125 "$vgpu" run --env "$bad" true
        says "NAME=VALUE"
    done
    expect 127 "$vgpu" run --env PATH=/nowhere true
}

@test "a run inside an instance joins it, whatever it asks beyond" {
    expect 0 "$vgpu" run --name lab --mem 2G --cores 50 "$vgpu" run --name other --mem 8G sh -c 'basename $VGPU_INSTANCE'
    is lab
    says "this is inside instance lab: the command joins it"
    expect 0 "$vgpu" run --name lab --mem 2G "$vgpu" run --name lab --mem 2G true
    [ -z "$stderr" ] || fail "$stderr"
    # Its environment does not say that it is in a group of the instance; one of its own limits does.
    expect 0 "$vgpu" run --name lab --mem 2G "$vgpu" run --mem 8G sh -c 'echo ${VGPU_GROUP-none}'
    is none
    expect 0 "$vgpu" run --name lab --mem 2G "$vgpu" run --mem 1G sh -c 'test -n "$VGPU_GROUP" && basename $VGPU_INSTANCE'
    is lab
    says "this is inside instance lab: the command joins it, and its limits hold as well as these"
    [ "$(wc -l <<<"$stderr")" = 1 ] || fail "$stderr"
    expect 0 "$vgpu" run --name lab "$vgpu" run --cores 30 "$vgpu" run --cores 50 true
    expect 125 "$vgpu" run --name lab "$vgpu" run --cores 30 "$vgpu" run --cores 20 true
    says "--cores is lower than that of the run this is inside of" "instance lab" "two deep"
    # A new instance has none.
    expect 0 env VGPU_GROUP=5 "$vgpu" run sh -c 'echo ${VGPU_GROUP-none}'
    is none
    no_instances
}

# quota [ENVIRONMENT...] -- OPTION...: of each device, in MiB, as `vgpu ps` of a run with these options shows it
quota()
{
    local environment=()
    while [ "$1" != -- ]; do
        environment+=("$1")
        shift
    done
    shift
    expect 0 env "${environment[@]}" "$vgpu" run "$@" -- "$vgpu" ps --json
    json '.instances[0] | [(.limits[] | "\(.device // "all"):\((.bytes // 0) / 1048576):\(.cap_percent // 0)")] | join(" ")'
}

@test "the limits of HAMi variables hold for a run as well as its own" {
    local memory=CUDA_DEVICE_MEMORY_LIMIT cores=CUDA_DEVICE_SM_LIMIT
    [ "$(quota $memory=1g -- --mem 8G)" = all:1024:0 ]
    [ "$(quota $memory=1g --)" = all:1024:0 ]
    [ "$(quota $memory=4g -- --mem 1G)" = all:1024:0 ]
    [ "$(quota $memory=4g -- --mem 25%)" = all:1024:0 ]
    [ "$(quota $memory=1g $cores=30 -- --cores 50)" = all:1024:30 ]
    [ "$(quota $cores=0x1e --)" = all:0:30 ]
    [ "$(quota $memory=0 -- --mem 2G)" = all:2048:0 ]
    expect 125 env $memory=1x "$vgpu" run true
    says "$memory \"1x\""
    expect 0 env $memory=1g "$vgpu" run --mem 8G true
    says "CUDA_DEVICE_MEMORY_LIMIT or variables like it are set here: their limits hold as well as these"
    no_instances
}

@test "the library is preloaded once, before what was there" {
    expect 0 "$vgpu" run sh -c 'echo $LD_PRELOAD'
    is "$VGPU_BUILD/libvgpu.so"
    expect 0 "$vgpu" run grep -c "$VGPU_BUILD/libvgpu.so" /proc/self/maps
    for list in "$VGPU_BUILD/libvgpu.so" "libm.so.6:$VGPU_BUILD/libvgpu.so" "$VGPU_BUILD/libvgpu.so libm.so.6" \
        "libm.so.6  $VGPU_BUILD/libvgpu-trace.so" "::libm.so.6:"; do
        LD_PRELOAD=$list expect 0 "$vgpu" run sh -c 'echo $LD_PRELOAD'
        case $list in
        *libm*) is "$VGPU_BUILD/libvgpu.so:libm.so.6" ;;
        *) is "$VGPU_BUILD/libvgpu.so" ;;
        esac
    done
    expect 0 "$vgpu" run --name outer "$vgpu" run --name outer sh -c 'echo $LD_PRELOAD'
    is "$VGPU_BUILD/libvgpu.so"
    # By --env, wherever that stands; also where both have one.
    expect 0 "$vgpu" run --env LD_PRELOAD=libm.so.6 --mem 1G sh -c 'echo $LD_PRELOAD'
    is "$VGPU_BUILD/libvgpu.so:libm.so.6"
    LD_PRELOAD=libdl.so.2 expect 0 "$vgpu" run --mem 1G --env "LD_PRELOAD=libm.so.6 $VGPU_BUILD/libvgpu.so" sh -c 'echo $LD_PRELOAD'
    is "$VGPU_BUILD/libvgpu.so:libm.so.6"
    expect 0 "$vgpu" run --env LD_PRELOAD= sh -c 'echo $LD_PRELOAD'
    is "$VGPU_BUILD/libvgpu.so"
}

@test "VGPU_LIBRARY; a path that the loader would cut is refused" {
    cp "$VGPU_BUILD/libvgpu.so" mine.so
    VGPU_LIBRARY=$PWD/mine.so expect 0 "$vgpu" run sh -c 'echo $LD_PRELOAD'
    is "$PWD/mine.so"
    VGPU_LIBRARY=mine.so expect 0 "$vgpu" run sh -c 'echo $LD_PRELOAD'
    is "$PWD/mine.so"
    VGPU_LIBRARY=/nowhere/lib.so expect 125 "$vgpu" run true
    says VGPU_LIBRARY=/nowhere/lib.so
    for name in 'a b.so' a:b.so; do
        cp mine.so "$name"
        VGPU_LIBRARY=$PWD/$name expect 125 "$vgpu" run true
        says "$name" "space or a colon"
    done
}

@test "a command copied away from its library says so" {
    mkdir bin
    cp "$vgpu" bin/vgpu
    expect 125 bin/vgpu run true
    says libvgpu.so VGPU_LIBRARY
}

@test "names: the default, good ones, bad ones" {
    expect 0 "$vgpu" run sh -c 'basename $VGPU_INSTANCE'
    [[ $output =~ ^sh-[0-9]+$ ]]
    local name
    for name in a A.b_c-9 0 "$(printf 'n%.0s' {1..63})"; do
        expect 0 "$vgpu" run --name "$name" true
    done
    for name in '' . .. .a -a a/b 'a b' ../x ä "$(printf 'n%.0s' {1..64})"; do
        expect 125 "$vgpu" run --name="$name" true
        says "--name" "\"$name\""
    done
    no_instances
}

@test "a name in use: joined with the same limits or none, refused with others" {
    mkfifo hold
    "$vgpu" run --name lab --mem 4G --host-mem 1G sh -c 'read line <hold' 3>&- &
    wait_for test -f "$VGPU_RUNTIME_DIR/instances/lab/region"
    expect 0 "$vgpu" run --name lab true
    expect 0 "$vgpu" run --name lab --mem 4096m true
    expect 0 "$vgpu" run --name lab --host-mem 1024M true
    expect 125 "$vgpu" run --name lab --mem 5G true
    says lab "4.0 GiB" "5.0 GiB" "--name"
    expect 125 "$vgpu" run --name lab --mem 50% true
    says "4.0 GiB" "50%"
    expect 125 "$vgpu" run --name lab --mem 4G,1:2G true
    says "1:4.0 GiB" "1:2.0 GiB"
    expect 125 "$vgpu" run --name lab --host-mem 2G true
    says "--host-mem" "1.0 GiB" "2.0 GiB"
    [ -d "$VGPU_RUNTIME_DIR/instances/lab" ]
    echo >hold
    wait
    no_instances
    expect 0 "$vgpu" run --name lab --mem 5G true
}

@test "an instance outlives its command while a child is there, then it goes" {
    mkfifo hold
    "$vgpu" run --name late sh -c '(read line <hold) & exit 0' 3>&-
    [ -d "$VGPU_RUNTIME_DIR/instances/late" ] || fail "gone too early"
    expect 0 "$vgpu" ps --json
    [ "$(json '.instances[0].name')" = late ]
    [ "$(json '.instances[0].running')" = 1 ]
    echo >hold
    wait_for sh -c "! '$vgpu' ps | grep late"
    no_instances
}

@test "an instance whose vgpu was killed is made anew by the next run" {
    "$vgpu" run --name dead --mem 1G sh -c 'echo $$ >pid; exec sleep 60' 3>&- &
    local supervisor=$!
    wait_for test -s pid
    kill -KILL $supervisor
    expect 125 "$vgpu" run --name dead --mem 2G true
    kill -KILL "$(cat pid)"
    wait_for "$vgpu" run --name dead --mem 2G true
    no_instances
}

@test "many runs at once under one name" {
    local i
    for ((i = 0; i < 12; i++)); do
        "$vgpu" run --name crowd --mem 1G sh -c 'test -f $VGPU_INSTANCE/region && echo ok' >>oks 3>&- &
    done
    wait
    [ "$(grep -c ok oks)" = 12 ]
    no_instances
}

@test "programs of every kind start: shells within shells, python, env -i, a script without #!" {
    expect 0 "$vgpu" run --name deep bash -c 'sh -c "bash -c \"basename \\\$VGPU_INSTANCE\""'
    is deep
    expect 0 "$vgpu" run python3 -c 'import os, sys; print(os.path.exists(os.environ["VGPU_INSTANCE"]), sys.argv[1:])' --flag -x
    is "True ['--flag', '-x']"
    expect 0 "$vgpu" run env -i /bin/sh -c 'echo ${VGPU_INSTANCE-none} ${LD_PRELOAD-none}'
    is "none none"
    echo 'echo plain $1' >script
    chmod +x script
    expect 0 "$vgpu" run ./script one
    is "plain one"
}

@test "a static program runs, with one line that it is not bound" {
    expect 0 "$vgpu" run --mem 1G "$VGPU_BUILD/tests/cli/static_program" hello
    is hello
    says "static_program" "statically linked" "does not bind it"
    [ "$(wc -l <<<"$stderr")" = 1 ]
    printf '#!%s\n' "$VGPU_BUILD/tests/cli/static_program" >script
    chmod +x script
    expect 0 "$vgpu" run ./script
    says "static_program" "statically linked"
    expect 0 "$vgpu" run true
    [ -z "$stderr" ] || fail "$stderr"
}

@test "runtime directory: made if need be; a bad one is named" {
    VGPU_RUNTIME_DIR=$PWD/a/b/c expect 0 "$vgpu" run true
    VGPU_RUNTIME_DIR=relative expect 125 "$vgpu" run true
    says "VGPU_RUNTIME_DIR=relative" absolute
    touch file
    VGPU_RUNTIME_DIR=$PWD/file expect 125 "$vgpu" run true
    says "$PWD/file" VGPU_RUNTIME_DIR
    VGPU_RUNTIME_DIR=/proc/vgpu expect 125 "$vgpu" run true
    says /proc/vgpu
}
