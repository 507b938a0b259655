#!/usr/bin/env bash
# Another library that stands in front of dlsym, preloaded as well: behind ours it still gets the calls that are not for
# us, and the quota holds.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "no python3"
cat >"$TEST_WORK/other.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
static int calls;
void *dlsym(void *handle, const char *name)
{
    static void *(*real)(void *, const char *);
    calls++;
    if (strcmp(name, "other_was_here") == 0)
        return &calls;
    if (!real && !(real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34")))
        real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real ? real(handle, name) : NULL;
}
C
gcc -w -shared -fPIC -o "$TEST_WORK/other.so" "$TEST_WORK/other.c" -ldl || skip "no gcc"
cat >"$TEST_WORK/look.py" <<'P'
import ctypes
own = ctypes.CDLL(None)
ctypes.c_int.in_dll(own, "other_was_here")
own.malloc
print("found")
P
[ "$(LD_PRELOAD=$TEST_WORK/other.so "$vgpu" run --mem 1G -- python3 "$TEST_WORK/look.py" 2>"$TEST_WORK/err")" = found ] ||
    { cat "$TEST_WORK/err"; die "the other library is passed by"; }
LD_PRELOAD=$TEST_WORK/other.so expect 0 "$vgpu" run --mem 1G -- python3 "$(dirname "$0")/quota.py" child

# In front of ours it gets all of them. The instance's user is told once; a library without a dlsym is no reason to.
front=$TEST_WORK/other.so
in_front() { "$vgpu" run --mem 1G -- sh -c "LD_PRELOAD=\$0:\$LD_PRELOAD; export LD_PRELOAD; /bin/true; exec /bin/true" "$1" 2>"$TEST_WORK/err"; }
in_front "$front"
[ "$(grep -c "$front has a dlsym of its own before libvgpu.so" "$TEST_WORK/err")" = 1 ] ||
    { cat "$TEST_WORK/err"; die "nobody says who is in front"; }
VGPU_LOG_LEVEL=1 in_front "$front"
[ ! -s "$TEST_WORK/err" ] || { cat "$TEST_WORK/err"; die "that is said at log level 1, too"; }
echo 'int other;' | gcc -shared -fPIC -x c -o "$TEST_WORK/harmless.so" -
in_front "$TEST_WORK/harmless.so"
[ ! -s "$TEST_WORK/err" ] || { cat "$TEST_WORK/err"; die "a harmless library is warned about"; }
