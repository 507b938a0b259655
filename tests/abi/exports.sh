#!/bin/bash
# What a built library exports, needs and runs.
# usage: exports.sh SOURCE_DIR LIBRARY plain|traced [TOOL_PREFIX]
set -euo pipefail
source=$1 library=$2 kind=$3 prefix=${4:-}
failed=0
fail() { echo "FAIL: $*"; failed=1; }

rows() { sed -nE "s/^($1)\(([A-Za-z0-9_]+).*/\2/p" "$source/spec/$2"; }
expected=$({
    if [ "$kind" = traced ]; then rows 'HOOK|PASS|CALL' driver.def; else rows HOOK driver.def; fi
    rows HOOK nvml.def
    printf 'dlsym\ndlvsym\n'
} | sort)
exported=$("${prefix}nm" -D --defined-only "$library" | awk '{print $NF}' | sort)
diff <(echo "$expected") <(echo "$exported") || fail "exported symbols (>) are not those of the table (<)"

undefined=$("${prefix}nm" -D --undefined-only "$library" | awk '{print $NF}')
echo "$undefined" | grep -E '^(cu|nvml)[A-Z]' && fail "needs symbols of the driver"

versions=$("${prefix}objdump" -T "$library" | grep -oE 'GLIBC_[0-9A-Z.]+' | sort -uV)
echo "$versions" | grep -q PRIVATE && fail "needs GLIBC_PRIVATE"
newest=$(printf '%s\nGLIBC_2.17\n' "$versions" | sort -V | tail -n 1)
[ "$newest" = GLIBC_2.17 ] || fail "needs $newest: $("${prefix}nm" -D "$library" | grep -F "$newest" | tr '\n' ' ')"

needed=$("${prefix}readelf" -dW "$library" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' | sort)
echo "$needed" | grep -qx libc.so.6 || fail "does not need libc.so.6"
echo "$needed" | grep -vxE 'libc\.so\.6|ld-linux-.*' && fail "needs more than libc"

# On older systems these are not in libc: a reference to one makes every program fail that has not loaded libpthread.
elsewhere='pthread_(create|join|detach|kill|sigmask|once|key_create|getspecific|setspecific|rwlock_.*|mutex(attr)?_.*robust.*'
elsewhere+='|mutex_consistent|mutex_timedlock|mutex_trylock|timedjoin_np|tryjoin_np|attr_setstacksize|barrier_.*|setname_np)'
elsewhere+='|sem_.*|dlopen|dlclose|dlerror|dladdr1?|dlinfo|shm_.*|timer_.*|clock_nanosleep'
echo "$undefined" | sed 's/@.*//' | grep -xE "$elsewhere" && fail "needs functions of libpthread, libdl or librt"

# frame_dummy and __do_global_dtors_aux of the compiler's own start files, which do nothing here, and the one constructor
# that there is a reason for: src/hook/work/join.c.
sections=$("${prefix}readelf" -SW "$library" | tr -d '[]')
entries() {
    local size
    size=$(echo "$sections" | awk -v name="$1" '{for (i = 1; i <= NF; i++) if ($i == name) print $(i + 4)}')
    echo $((16#${size:-0} / 8))
}
[ "$(entries .init_array)" = 2 ] || fail ".init_array has $(entries .init_array) entries, not 2: a constructor"
[ "$(entries .fini_array)" -le 1 ] || fail ".fini_array has $(entries .fini_array) entries: a destructor"
echo "$sections" | grep -qE ' \.(ctors|dtors|preinit_array) ' && fail "old-style constructors"

dynamic=$("${prefix}readelf" -dW "$library")
echo "$dynamic" | grep -q BIND_NOW || fail "not linked with -z now"
echo "$dynamic" | grep -q TEXTREL && fail "has text relocations"
echo "$dynamic" | grep -qE 'RPATH|RUNPATH' && fail "has a search path"
"${prefix}readelf" -lW "$library" | grep -qE '^ *TLS ' && fail "has thread-local storage"
"${prefix}readelf" -VW "$library" | grep -q 'Version definition' && fail "defines symbol versions"
"${prefix}readelf" -lW "$library" | grep GNU_STACK | grep -q E && fail "wants an executable stack"
[ $failed = 0 ] && echo "$(echo "$exported" | wc -l) symbols exported, newest version needed $(echo "$versions" | tail -n 1)"
exit $failed
