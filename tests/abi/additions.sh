#!/bin/bash
# What a newcomer adds by a row: an option, an option for a limit, a setting, a policy, a branch of the driver, a command and a
# driver symbol with a signature of its own, in a copy of the sources.
# Each must touch no more files than CONTRIBUTING says; parser, help, completion, man pages and docs/cli.md must know it.
# usage: additions.sh SOURCE_DIR WORK_DIR C_COMPILER LIBVGPU
set -euo pipefail
source=$1 work=$2 compiler=$3
export VGPU_LIBRARY=$4 VGPU_RUNTIME_DIR=$work/runtime COLUMNS=100
unset VGPU_INSTANCE
fail() { echo "FAIL: $*"; exit 1; }

rm -rf "$work"
mkdir -p "$work/copy"
for part in CMakeLists.txt cmake abi spec src sim demo man; do cp -r "$source/$part" "$work/copy/"; done
cd "$work/copy"

# insert FILE PATTERN: puts stdin before the first line that matches.
insert()
{
    local text
    text=$(cat)
    grep -qE "$2" "$1" || fail "$1 has no line like $2"
    TEXT=$text PATTERN=$2 awk '!done && $0 ~ ENVIRON["PATTERN"] { print ENVIRON["TEXT"]; done = 1 } { print }' "$1" >"$work/new"
    cp "$work/new" "$1"
}

# touched MOST WHAT: no more files than that have changed since the last call.
touched()
{
    local files
    files=$({ diff -rq "$work/before" . || true; } | wc -l)
    [ "$files" -gt 0 ] && [ "$files" -le "$1" ] || fail "$2 touches $files files, and not at most $1"
    echo "$2: $files files"
    mark
}
mark() { rm -rf "$work/before"; cp -r . "$work/before"; }
mark

# An option of a command's own: its row, and its use.
insert spec/cli.def '^OPTION\(run, sim,' <<<'OPTION(run, echoes, "echoes", NUMBER, "COUNT", "say so many words", .min = 3, .max = 77, .unit = "words", .initial = "5")'
insert src/cli/run_options.c '^    \*ret_options = options;' <<<'    if (options.echoes.text)
        message_note("%u echoes", (unsigned)options.echoes.value);'
touched 2 "an option"

# An option for a limit: two rows. (What keeps the limit is the third file.)
insert spec/limits.def '^#undef COMPUTE_LIMIT' <<<'COMPUTE_LIMIT(streams, uint64_t, 4096, 0, 0, vgpu_lower_limit, "streams")'
insert spec/cli.def '^OPTION\(run, sim,' <<<'OPTION(run, streams, "streams", NUMBER, "COUNT", "limit of streams", .min = 1, .max = 4096, .initial = "none")'
touched 2 "an option for a limit (without what keeps it)"

# A setting: its row, and its use.
insert spec/config.def '^SETTING\(GROUP,' <<<'SETTING(GREETING, "VGPU_GREETING", "number", "Number of greetings.", .initial = "4", .min = 2, .max = 9)'
insert src/cli/run_options.c '^    \*ret_options = options;' <<<'    if (setting_text(SETTING_GREETING))
        message_note("%u greetings", (unsigned)setting_number(SETTING_GREETING));'
sed -i '1a #include "base/setting.h"' src/cli/run_options.c
touched 2 "a setting"

# A policy: its row, and what it does, here the same as fair.
insert spec/policies.def '^CAP_POLICY\(HARD' <<<'TURN_POLICY(LOTTERY, "lottery", "by chance")'
insert src/sched/policy.c '^static const struct policy \*const policies' <<<"$(sed -n '/^static const struct policy policy_FAIR/,/^};/p' src/sched/policy.c |
    sed 's/policy_FAIR/policy_LOTTERY/')"
touched 2 "a policy"

# A branch of the driver, with a structure of another size: its row.
cat >>spec/branches.def <<'END'
BRANCH(.major = 999, .minor_from = 0, .fb_info_bytes = 1028, .schedule_bytes = 3,
       .uvm_free_bytes = 16, .dmabuf_bytes = 2616, .dmabuf_handles_at = 36)
END
touched 1 "a branch of the driver"

# A command: its row, and its function.
insert spec/cli.def '^COMMAND\(version,' <<<'COMMAND(greet, PAGE, "", "say hello")'
insert src/cli/main.c '^int command_version' <<<'int command_greet(char **argv)
{
    char **operands;
    int status;

    if (options_parse("greet", argv, NULL, &operands, &status))
        puts("hello");
    return command_finish_output();
}
'
touched 2 "a command"

# A driver symbol: its row, its handler, and a type that nothing else has.
insert spec/driver.def '^/\* device \*/' <<<'#define HANDLER_frobnicate CANCEL_DISABLE, (CUfrobs *)frobs, (size_t)count
HOOK(cuFrobnicate, frobnicate)
'
insert src/hook/memory/query.c '^HANDLER\(mem_get_info|^CUresult hook_mem_get_info' <<<'HANDLER(frobnicate)
{
    frobs->handled += count;
    return FORWARD(sym, frobnicate);
}
'
insert abi/cuda_device.h '^/\* Devices and contexts \*/' <<<'typedef struct CUfrobs_st {
    size_t handled;
} CUfrobs;
'
touched 3 "a driver symbol"

cmake -S . -B "$work/build" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DVGPU_TESTS=OFF -DCMAKE_BUILD_TYPE=Debug \
    >"$work/log" 2>&1 && cmake --build "$work/build" --target vgpu vgpu_docs vgpu_preload cuda_sim nvml_sim >>"$work/log" 2>&1 || {
    tail -40 "$work/log"
    fail "the copy does not build"
}

vgpu=$work/build/vgpu
docs=$work/build/generated
# says TEXT COMMAND...: the output of the command, whatever its status, has the text.
says()
{
    local text=$1 output
    shift
    output=$("$@" 2>&1) || true
    [[ $(tr -s '\n ' '  ' <<<"$output") == *"$text"* ]] || fail "$*: no \"$text\" in: $output"
}
run=("$vgpu" run --name additions)

says "say so many words; 3 to 77 words. Default: 5" "$vgpu" help run
says "5 echoes" "${run[@]}" --echoes 5 true
says 'run: --echoes "78": use a whole number of words from 3 to 77' "${run[@]}" --echoes 78 true
says "did you mean --echoes?" "${run[@]}" --ecoes 5 true

says "limit of streams; 1 to 4096. Default: none" "$vgpu" help run
says '"streams": 12' "${run[@]}" --streams 12 "$vgpu" ps --json
says "is running with --streams 12, but --streams 13 was given" "${run[@]}" --streams 12 env -u VGPU_INSTANCE "${run[@]}" --streams 13 true
says "the command joins it, and its limits hold as well" "${run[@]}" --streams 12 "$vgpu" run --streams 5 true

says "9 greetings" env VGPU_GREETING=10 "${run[@]}" true
says "4 greetings" env VGPU_GREETING=1 "${run[@]}" true

says "lottery: by chance" "$vgpu" help run
says '"turn_policy": "lottery"' "${run[@]}" --policy lottery "$vgpu" ps --json
says "adaptive or lottery" "${run[@]}" --policy none true

grep -qw cuFrobnicate <<<"$(nm -D --defined-only "$work/build/libvgpu.so")" || fail "libvgpu.so does not export cuFrobnicate"
"$compiler" -x c - -o "$work/frobnicate" -ldl <<'END'
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = dlsym(driver, "cuInit");
    int (*frobnicate)(size_t *, size_t) = dlsym(driver, "cuFrobnicate");
    size_t handled = 1;
    int ready = init(0), answer = frobnicate(&handled, 41);

    printf("%d %d %zu\n", ready, answer, handled);
    return 0;
}
END
says "0 801 42" env VGPU_LIBRARY="$work/build/libvgpu.so" "$vgpu" run --name frobnicate --sim --mem 1G -- "$work/frobnicate"

mkdir "$work/driver"
printf 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  998.1  Release Build  (builder)\n' >"$work/driver/version"
says "580, 595, 999)" env VGPU_GUARD_DEV="$work/driver" "$vgpu" doctor
sed -i 's/998\.1/999.1/' "$work/driver/version"
says "999.1 (open kernel modules)" env VGPU_GUARD_DEV="$work/driver" "$vgpu" doctor

says hello "$vgpu" greet
says "greet say hello" "$vgpu" help
says "Usage: vgpu greet" "$vgpu" greet --help

for word in echoes streams greet lottery; do
    for file in vgpu.bash _vgpu vgpu.fish cli.md; do
        grep -qw -- "$word" "$docs/$file" || fail "$file lacks $word"
    done
done
for word in echoes streams lottery; do
    grep -q -- "$word" "$docs/vgpu-run.1" || fail "vgpu-run.1 lacks $word"
done
grep -q "VGPU_GREETING.*2 to 9 | 4" "$docs/cli.md" || fail "cli.md lacks the setting"
grep -q "VGPU_GREETING" "$docs/libvgpu.7" || fail "libvgpu.7 lacks the setting"
[ -f "$docs/vgpu-greet.1" ] || fail "the command has no man page"
echo "what is added is known everywhere"
