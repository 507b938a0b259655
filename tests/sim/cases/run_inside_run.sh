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

# Less than the instance has is kept apart: a percentage is of the instance's, and a program that drops out has the instance's.
while read -r inner want; do
    # shellcheck disable=SC2086
    "${outer[@]}" "$vgpu" run ${inner//_/ } -- "$TEST_SIMTEST" cap $((want << 20)) >/dev/null 2>"$TEST_WORK/err" || die "inner $inner: $(cat "$TEST_WORK/err")"
    grep -q "joins it, and its limits hold as well as these" "$TEST_WORK/err" || die "inner $inner says nothing"
done <<<$'--mem_512M 512\n--mem_50% 512\n--mem_0:768M 768\n--cores_30 1024\n--host-mem_1G 1024\n--weight_100 1024\n--copy-bw_1G_--mem_768M 768'
"${outer[@]}" "$vgpu" run --mem 512M env -u VGPU_GROUP "$TEST_SIMTEST" cap $gib >/dev/null || die "without the variable"
"${outer[@]}" "$vgpu" run --mem 512M "$vgpu" run --mem 8G "$TEST_SIMTEST" cap $((gib / 2)) >/dev/null || die "joined three deep"
"${outer[@]}" "$vgpu" run --mem 512M "$vgpu" run --mem 300M true 2>"$TEST_WORK/err"
[ $? -eq 125 ] && grep -q -- "--mem is lower than that of the run this is inside of, .* limits go two deep" "$TEST_WORK/err" || die "three deep: $(cat "$TEST_WORK/err")"

# Two of 2 GiB in 3 GiB: each finds at most 2 GiB, and both together have at most 3.
# shellcheck disable=SC2016
"$vgpu" run --name three --mem 3G -- bash -c '
    SIMGPU_GROUP=a "$0" run --mem 2G -- "$1" one_of_two $2 a b & first=$!
    SIMGPU_GROUP=b "$0" run --mem 2G -- "$1" one_of_two $2 b a && wait $first' \
    "$vgpu" "$TEST_SIMTEST" $((2 * gib)) >/dev/null 2>"$TEST_WORK/err" || die "two in three: $(cat "$TEST_WORK/err")"
for group in a b; do
    peak=$("$TEST_SIMCTL" ledger | sed -n "s/^group $group .*peak=\\([0-9]*\\).*/\\1/p")
    [ "$peak" -gt $((gib / 2)) ] && [ "$peak" -le $((2 * gib)) ] || die "run $group held $peak bytes of 2 GiB"
done
peak=$("$TEST_SIMCTL" ledger | sed -n 's/^device 0 .* peak=\([0-9]*\).*/\1/p')
[ "$peak" -gt $((2 * gib + gib / 2)) ] && [ "$peak" -le $((3 * gib)) ] || die "two in three held $peak bytes"
"$vgpu" run --copy-bw 10G -- "$vgpu" run --copy-bw 1G -- "$TEST_SIMTEST" copy_rate_inside $gib >/dev/null || die "copies inside"
"${outer[@]}" "$vgpu" run --guard -- true 2>"$TEST_WORK/err" && die "a guard inside"

# Who is inside of what is gone is inside of nothing.
VGPU_INSTANCE=$TEST_WORK/run/instances/gone "$vgpu" run --mem 1G -- "$TEST_SIMTEST" cap $gib >/dev/null 2>"$TEST_WORK/err" || die "inside of what is gone"
grep -q "gone, which is gone" "$TEST_WORK/err" || die "not told: $(cat "$TEST_WORK/err")"
exit 0
