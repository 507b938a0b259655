#!/usr/bin/env bash
# Programs that are built with sanitizers start under `vgpu run`, work, and keep the quota; also where the runtime is
# preloaded, and for threads that the library makes.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
cat >"$TEST_WORK/p.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
typedef int fn();
int main(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context;
    unsigned long long address;
    if (!lib || ((fn *)dlsym(lib, "cuInit"))(0) || ((fn *)dlsym(lib, "cuDevicePrimaryCtxRetain"))(&context, 0) ||
        ((fn *)dlsym(lib, "cuCtxSetCurrent"))(context))
        return 3;
    if (((fn *)dlsym(lib, "cuMemAlloc_v2"))(&address, 10UL << 20))
        return 4;
    if (((fn *)dlsym(lib, "cuMemAlloc_v2"))(&address, 1UL << 30) != 2)
        return 5;
    puts("done");
    return 0;
}
C
ran=
for kind in address thread undefined; do
    gcc -w -g -fsanitize=$kind -o "$TEST_WORK/$kind" "$TEST_WORK/p.c" -ldl 2>/dev/null && "$TEST_WORK/$kind" >/dev/null 2>&1
    [ $? -eq 5 ] || continue # bare there is no quota; anything else: no such sanitizer on this machine
    ran=1
    for option in "" detect_leaks=0; do
        out=$(ASAN_OPTIONS=$option LSAN_OPTIONS=detect_leaks=0 "$vgpu" run --mem 1G -- "$TEST_WORK/$kind" 2>"$TEST_WORK/err") ||
            { cat "$TEST_WORK/err"; die "$kind: status $?"; }
        [ "$out" = "done" ] || die "$kind: it says '$out'"
    done
done
[ -n "$ran" ] || skip "no gcc with sanitizers that work here"
runtime=$(gcc -print-file-name=libasan.so)
[ ! -x "$TEST_WORK/address" ] || [ "$runtime" = libasan.so ] ||
    [ "$(ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$runtime "$vgpu" run --mem 1G -- "$TEST_WORK/address" 2>/dev/null)" = "done" ] ||
    die "with the runtime preloaded it does not get to its end"
