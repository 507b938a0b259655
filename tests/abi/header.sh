#!/bin/sh
# The table and our own declarations against a real cuda.h.
# usage: header.sh SOURCE_DIR WORK_DIR CC [INCLUDE_DIR]
# Skipped (77) where no cuda.h is installed.
set -eu
source=$1 work=$2 cc=$3
for include in "${4:-}" "${CUDA_HOME:-/usr/local/cuda}/include" /usr/include; do
    [ -n "$include" ] && [ -f "$include/cuda.h" ] && break
    include=
done
if [ -z "$include" ]; then
    echo "skip: no cuda.h (in CUDA_HOME, /usr/local/cuda, /usr/include)"
    exit 77
fi
echo "comparing with $include/cuda.h"
mkdir -p "$work"
flags="-std=gnu17 -Wall -Wextra -Werror -I$source -I$source/src -I$source/spec -I$work -I$include"

# 1. every entry point that the header declares has a row
echo '#include <cuda.h>' | "$cc" -E -P -x c -D__CUDA_API_VERSION_INTERNAL -I"$include" - |
    grep -oE '\bcu[A-Z][A-Za-z0-9_]*[[:space:]]*\(' | tr -d ' (' | sort -u >"$work/declared"
sed -nE 's/^(HOOK|PASS|CALL)\(([A-Za-z0-9_]+).*/\2/p' "$source/spec/driver.def" | sort >"$work/rows"
[ -z "$(uniq -d "$work/rows")" ] || { echo "rows twice:"; uniq -d "$work/rows"; exit 1; }
missing=$(comm -23 "$work/declared" "$work/rows")
[ -z "$missing" ] || { echo "in cuda.h, but not in spec/driver.def:"; echo "$missing"; exit 1; }
[ "$(wc -l <"$work/declared")" -gt 400 ] || { echo "only $(wc -l <"$work/declared") entry points found"; exit 1; }

# 2. types, sizes, offsets and values
awk -f "$source/tests/abi/facts.awk" "$source"/abi/cuda*.h >"$work/facts.inc"
[ "$(grep -c FIELD "$work/facts.inc")" -gt 50 ] || { echo "facts.awk found too little"; exit 1; }
$cc $flags "$source/tests/abi/facts.c" -o "$work/facts_ours"
$cc $flags -DVGPU_ABI_USE_CUDA_H "$source/tests/abi/facts.c" -o "$work/facts_real"
"$work/facts_ours" >"$work/ours"
"$work/facts_real" >"$work/real"
diff "$work/ours" "$work/real" || { echo "abi/cuda*.h (<) differ from cuda.h (>)"; exit 1; }

# 3. prototypes
$cc $flags -c "$source/tests/abi/signatures.c" -o "$work/signatures.o"
echo "$(wc -l <"$work/declared") entry points, $(wc -l <"$work/ours") facts agree"
