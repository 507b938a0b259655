#!/bin/bash
# What a file of src or sim shares with others is used by another one; else it is static, or gone. Tests do not count.
# usage: unused.sh BUILD_DIR
set -euo pipefail
export LC_ALL=C
cd "$1"

# The program's start, the commands of spec/cli.def, what programs look up in the two drivers and in the library, and a
# function whose test needs states of a process that no test can make.
outside='main|command_[a-z]+|(cu|nvml)[A-Z][A-Za-z0-9_]*|dlv?sym|proc_stat_is_exiting'

objects=$(grep -oE ' -o (src|sim)/[^ ]+\.o' compile_commands.json | cut -c5-)
symbols=$(xargs nm -A -P -g <<<"$objects")
unused=$(awk '
    { sub(/:$/, "", $1) }
    $3 == "U" { used[$2] = 1; next }
    $3 ~ /^[TDBRVWC]$/ { file[$2] = $1 }
    END { for (name in file) if (!(name in used)) print file[name], name }' <<<"$symbols" | sort)
grep -q ' main$' <<<"$unused" || { echo "FAIL: nm shows no function main"; exit 1; }
unused=$(awk -v outside="^($outside)\$" '$2 !~ outside' <<<"$unused")
if [ -n "$unused" ]; then
    echo "FAIL: used in their own file only:"$'\n'"$unused"
    exit 1
fi
echo "all that is shared is used"
