#!/usr/bin/env bash
# A program that is linked against musl starts and works with the library in it, alone or called by a script, and
# `vgpu run` says that it is not bound and what would bind it.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
command -v musl-gcc >/dev/null || skip "no musl-gcc (musl-tools)"
cat >"$TEST_WORK/p.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    int status = 1;
    void *handle = dlopen(NULL, RTLD_NOW);
    if (!dlsym(RTLD_DEFAULT, "malloc") || !handle || !dlsym(handle, "puts") || dlsym(handle, "no_such_symbol"))
        return 3;
    if (fork() == 0)
        _exit(dlsym(RTLD_DEFAULT, "free") ? 0 : 4);
    wait(&status);
    puts("musl runs");
    return status;
}
C
musl-gcc -o "$TEST_WORK/p" "$TEST_WORK/p.c" || die "musl-gcc fails"
for library in libvgpu.so libvgpu-trace.so; do
    out=$(LD_PRELOAD=$TEST_BUILD/$library "$TEST_WORK/p" 2>&1) || die "preloaded $library: status $?: $out"
    [ "$out" = "musl runs" ] || die "preloaded $library: it says '$out'"
done
out=$("$vgpu" run --mem 1G -- "$TEST_WORK/p" 2>"$TEST_WORK/err") || die "vgpu run: status $?"
[ "$out" = "musl runs" ] || die "vgpu run: it says '$out'"
grep -q "musl.*does not bind it.*--guard" "$TEST_WORK/err" || { cat "$TEST_WORK/err"; die "no warning"; }
[ "$("$vgpu" run --mem 1G -- sh -c "$TEST_WORK/p; echo rc \$?" 2>"$TEST_WORK/err")" = $'musl runs\nrc 0' ] || die "in a script: $(cat "$TEST_WORK/err")"
