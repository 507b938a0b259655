#!/usr/bin/env bash
# A `vgpu run` inside an instance gives no more than that has: alone, twice, deeper, and from another runtime directory.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
gib=$((1 << 30))
outer=("$vgpu" run --name outer --mem 1G --host-mem 2G --cores 50 --weight 200 --copy-bw 10G --)

for inner in "" "--mem 8G" "--mem 1G --cores 80" "--mem 100%" "--name inner --mem 2G" "--weight 300 --priority 9 --copy-bw 20G" "--host-mem 64G --cores 100"; do
    # shellcheck disable=SC2086
    "${outer[@]}" "$vgpu" run $inner -- "$TEST_SIMTEST" cap $gib >/dev/null 2>"$TEST_WORK/err" || die "inner $inner: $(cat "$TEST_WORK/err")"
    grep -q "this is inside instance outer: the command joins it, and its limits hold" "$TEST_WORK/err" || die "inner $inner says nothing"
done
"${outer[@]}" "$vgpu" run --mem 8G "$vgpu" run --mem 4G "$TEST_SIMTEST" cap $gib >/dev/null || die "three deep"
"${outer[@]}" env VGPU_RUNTIME_DIR="$TEST_WORK/elsewhere" "$vgpu" run --mem 8G "$TEST_SIMTEST" cap $gib >/dev/null || die "another runtime directory"
[ ! -e "$TEST_WORK/elsewhere/instances" ] || die "an instance of its own was made"

# Two inside hold no more than one: the second finds what the first has left.
# shellcheck disable=SC2016
"${outer[@]}" bash -c '
    "$0" run --name a --mem 8G -- "$1" cap $2 & "$0" run --name b --mem 8G -- "$1" cap $2 & wait' "$vgpu" "$TEST_SIMTEST" $gib >/dev/null 2>&1
peak=$("$TEST_SIMCTL" ledger | sed -n 's/^device 0 .* peak=\([0-9]*\).*/\1/p')
[ "$peak" -gt $((gib / 2)) ] && [ "$peak" -le $gib ] || die "two inside held $peak bytes of $gib"

# What would be less cannot be kept apart, and is not left out silently.
for inner in "--mem 512M" "--mem 50%" "--cores 30" "--host-mem 1G" "--weight 100" "--copy-bw 1G"; do
    # shellcheck disable=SC2086
    "${outer[@]}" "$vgpu" run $inner -- true 2>"$TEST_WORK/err"
    [ $? -eq 125 ] && grep -qF -- "${inner%% *} is lower than that of instance outer" "$TEST_WORK/err" || die "inner $inner: $(cat "$TEST_WORK/err")"
done
"${outer[@]}" "$vgpu" run --guard -- true 2>"$TEST_WORK/err" && die "a guard inside"

# Who is inside of what is gone is inside of nothing.
VGPU_INSTANCE=$TEST_WORK/run/instances/gone "$vgpu" run --mem 1G -- "$TEST_SIMTEST" cap $gib >/dev/null 2>"$TEST_WORK/err" || die "inside of what is gone"
grep -q "gone, which is gone" "$TEST_WORK/err" || die "not told: $(cat "$TEST_WORK/err")"
exit 0
