#!/bin/bash
# No two files of a part of src, or of sim, call each other, directly or by way of others.
# usage: cycles.sh BUILD_DIR
#
# An edge is a function that one object file calls and another one of the same part defines. Calls
# through pointers are no edges: a file that is given a function does not know whose it is.
# The simulator's folders are layers besides: each calls only itself and those before it.
set -euo pipefail
export LC_ALL=C
cd "$1"

failed=0
# Those that the build has now: a folder of it may hold objects of files that are gone.
objects=$(grep -oE ' -o (src|sim)/[^ ]+\.o' compile_commands.json | cut -c5-)
# Lines of two objects, without ".o": one that calls, and one that defines what it calls.
edges() {
    grep "^$1/" <<<"$objects" | xargs nm -A -P -g | awk '
        { sub(/:$/, "", $1); sub(/\.o$/, "", $1); target = $1; sub(/\.dir\/.*/, "", target) }
        $3 == "U" { needs[$1 " " target " " $2] = 1; next }
        $3 ~ /^[TWi]$/ { file[target " " $2] = $1 }
        END { for (need in needs) {
            split(need, of, " ")
            if (of[2] " " of[3] in file) print of[1], file[of[2] " " of[3]]
        } }' | sort -u
}
while read -r part; do
    calls=$(edges "$part") # a failure of nm ends the test
    if ! said=$(tsort <<<"$calls" 2>&1 >/dev/null); then
        loops=$(sed -nE 's/^tsort: .*\.dir\/([^:]*\.c)$/\1/p' <<<"$said" | sort -u | paste -sd ' ')
        echo "FAIL: these files of $part call each other: ${loops:-$said}"
        failed=1
    fi
done < <(sed -E 's,^(src/[^/]*|sim)/.*,\1,' <<<"$objects" | sort -u)
upward=$(edges sim | awk '
    BEGIN { count = split("device core memory stream module graph cuda nvml", order, " ")
            for (i = 1; i <= count; i++) rank[order[i]] = i }
    function folder(object) { sub(/.*\.dir\//, "", object); sub(/\/.*/, "", object); return object }
    folder($1) in rank && rank[folder($2)] > rank[folder($1)] { print $1 " -> " $2 }')
if [ -n "$upward" ]; then
    echo "FAIL: these files of sim call a layer above theirs:"$'\n'"$upward"
    failed=1
fi
[ $failed = 0 ] && echo "no cycles"
exit $failed
