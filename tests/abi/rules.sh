#!/bin/bash
# Rules about the sources that no compiler checks.
# usage: rules.sh SOURCE_DIR
set -euo pipefail
cd "$1"
failed=0
fail() { echo "FAIL: $*"; failed=1; }

# The table has the symbols that HAMi-core handles.
missing=$(comm -13 <(sed -nE 's/^(HOOK|PASS|CALL)\(([A-Za-z0-9_]+).*/\2/p' spec/driver.def | sort) <(sort tests/abi/api.txt))
[ -z "$missing" ] || fail "symbols of api.txt that spec/driver.def lacks:"$'\n'"$missing"
[ "$(wc -l <tests/abi/api.txt)" = 198 ] || fail "api.txt has lost rows"

# Twins are treated alike: the same handler, or both never wrapped.
differing=$(sed -nE 's/^HOOK\(([A-Za-z0-9_]+), (.*)\)$/\1 \2/p; s/^(PASS|CALL)\(([A-Za-z0-9_]+).*/\2 PASS/p' spec/driver.def | awk '
    { row[$1] = $2 }
    END { for (twin in row) if (twin ~ /_pt[ds][sz]$/ && row[twin] != row[substr(twin, 1, length(twin) - 5)]) print twin }')
[ -z "$differing" ] || fail "not as the row without its suffix: $differing"

# base <- region <- {account, sched} <- {hook, guard} <- cli; account and sched do not include each other; nothing includes the simulator; CUDA and NVML types (abi/) stay in src/hook.
allowed() {
    case $1 in
        base) echo 'base' ;;
        region) echo 'base|region' ;;
        account) echo 'base|region|account' ;;
        sched) echo 'base|region|gpu|sched' ;;
        gpu) echo 'base|region|gpu' ;;
        hook) echo 'base|region|account|sched|gpu|hook|abi' ;;
        nvidia) echo 'base|region|gpu|nvidia' ;;
        cli) echo 'base|region|account|sched|guard|gpu|cli' ;;
        *) echo "base|region|account|sched|$1" ;;
    esac
}
for folder in src/*/; do
    part=$(basename "$folder")
    bad=$(grep -rnE '^ *# *include +"[a-z_]+/' "$folder" | grep -vE "include +\"($(allowed "$part"))/" || true)
    [ -z "$bad" ] || fail "wrong direction:"$'\n'"$bad"
    if [ "$part" != hook ]; then
        bad=$(grep -rnwE 'CU(result|device|deviceptr|context|stream)|nvml(Return|Device)_t' "$folder" | grep -v '"' || true)
        [ -z "$bad" ] || fail "CUDA or NVML types outside src/hook:"$'\n'"$bad"
    fi
done
# Within the guard: the layers that know no GPU do not include the one that does, nor each other.
for layer in notify track sched; do
    bad=$(grep -rnE '^ *# *include +"guard/' src/guard/$layer | grep -vE "include +\"guard/($layer/|notify/bus.h)" || true)
    [ -z "$bad" ] || fail "src/guard/$layer includes another layer:"$'\n'"$bad"
done
# Rooms of src/hook: loader <- work <- memory <- nvml. The files above the rooms may include any of them.
below=''
for room in loader work memory nvml; do
    below+="${below:+|}$room"
    bad=$(grep -rnE '^ *# *include +"hook/' src/hook/$room | grep -vE "include +\"hook/($below)/" || true)
    [ -z "$bad" ] || fail "src/hook/$room includes a room above it:"$'\n'"$bad"
done
bad=$(grep -rnE '^ *# *include +[<"](cuda|nvml)\.h[>"]' src || true)
[ -z "$bad" ] || fail "NVIDIA's headers:"$'\n'"$bad"

# The vendor seam: the folders that know CUDA, NVML and NVIDIA's ioctls, and nobody else, load a vendor's library, name its
# entry points for that, or include another such folder.
seam='^src/(hook|nvidia|guard/nvidia)/'
bad=$(grep -rnE '\b(dlopen|dlsym|dlvsym) *\(|"(cu|nvml)[A-Z][A-Za-z0-9_]*"' src --include='*.[ch]' | grep -vE "$seam" || true)
[ -z "$bad" ] || fail "reaches a vendor's library past the seam:"$'\n'"$bad"
bad=$(grep -rnE '^ *# *include +"(hook|nvidia)/' src | grep -vE "$seam" || true)
[ -z "$bad" ] || fail "includes a vendor's folder:"$'\n'"$bad"
bad=$(grep -rnE '^ *# *include .*sim[/_]' src || true)
[ -z "$bad" ] || fail "src includes the simulator:"$'\n'"$bad"

# One file knows the layout of HAMi's cache file.
bad=$(grep -rlE '19920718|200895[23]|recent_kernel|utilization_switch' src)
[ "$bad" = src/account/hami.c ] || fail "account/hami.c alone should know HAMi's file, not:"$'\n'"$bad"

# Every environment variable has its row in spec/config.def, which only base/setting.c reads.
bad=$(grep -rnE '\b(secure_)?getenv *\(|extern char \*\*environ' src | grep -v '^src/base/setting\.[ch]:' |
    grep -vE '^[^:]+:[0-9]+: *(/?\*|//)' || true)
[ -z "$bad" ] || fail "reads the environment past base/setting.h:"$'\n'"$bad"

# Code in somebody else's process.
bad=$(grep -rnwE '(exit|_exit|abort|assert|setenv|putenv|umask|signal|sigaction|printf|puts|stdout) *\(' src/base src/region \
    src/account src/sched src/hook | grep -vE '^[^:]+:[0-9]+: *(/?\*|//)' | grep -v '_Static_assert' || true)
[ -z "$bad" ] || fail "not in a preloaded library:"$'\n'"$bad"
bad=$(grep -rnE '\bopen(at)?\([^;]*\);' src/base src/region src/account src/sched src/hook --include='*.c' | grep -v O_CLOEXEC |
    grep -E '\bopen(at)?\("?[a-z_"]' | grep -v 'O_PATH' || true)
[ -z "$bad" ] || fail "open without O_CLOEXEC:"$'\n'"$bad"

while read -r lines file; do
    [ "$file" = total ] || [ "$lines" -le 600 ] || fail "$file has $lines lines"
done < <(find abi src sim tests bench -name '*.[chS]' -exec wc -l {} +)
bad=$(find abi src sim tests bench -name '*.[ch]' -print0 | LC_ALL=C.UTF-8 xargs -0 grep -nE '^.{101,}' || true)
[ -z "$bad" ] || fail "over 100 columns:"$'\n'"$bad"
tests/abi/prose.sh . || failed=1
[ $failed = 0 ] && echo "the rules are kept"
exit $failed
