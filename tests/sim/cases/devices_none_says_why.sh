#!/usr/bin/env bash
# A program that gets "no device" from cuInit for the instance's sake is told why, in one line; not where it is meant so.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

none() { # says no device, and stderr has one line with each of the texts; without texts, none
    "$vgpu" run --name none --mem 1G "${options[@]}" -- "$TEST_SIMTEST" init_code 100 2>"$TEST_WORK/err" || die "$CUDA_VISIBLE_DEVICES: not 100: $(cat "$TEST_WORK/err")"
    [ "$(wc -l <"$TEST_WORK/err")" -eq $(($# > 0)) ] || die "not one line: $(cat "$TEST_WORK/err")"
    for text; do
        grep -qF -- "$text" "$TEST_WORK/err" || die "\"$text\" is not in: $(cat "$TEST_WORK/err")"
    done
}

export CUDA_VISIBLE_DEVICES
options=()
CUDA_VISIBLE_DEVICES=30 none
options=("--gpu" "1,2")
CUDA_VISIBLE_DEVICES=2 none "CUDA_VISIBLE_DEVICES=2 names none of the instance's 2 devices"
CUDA_VISIBLE_DEVICES='' none
CUDA_VISIBLE_DEVICES=-1 none
unset CUDA_VISIBLE_DEVICES

# All sixteen vdevs are other devices'.
for ((i = 10; i < 26; i++)); do printf 'GPU-%08d-0000-0000-0000-000000000000,' $i; done >"$TEST_WORK/list"
rm -rf "$TEST_INSTANCE" && mkdir "$TEST_INSTANCE"
"$TEST_INSTANCE_TOOL" create "$TEST_INSTANCE" 0 0 "$(sed 's/,$//' "$TEST_WORK/list")" || die "cannot make the instance"
with_instance "$TEST_SIMTEST" init_code 100 2>"$TEST_WORK/err"
grep -q "shows none of the instance's devices (GPU-00000010-" "$TEST_WORK/err" || die "devices of another machine: $(cat "$TEST_WORK/err")"

# A region with a good beginning, and nonsense behind it: what is damaged, and which file to remove, whatever is selected.
for fill in '\245' '\377' '\001' A; do
    head -c 4000 /dev/zero | tr '\0' "$fill" | dd of="$TEST_INSTANCE/region" bs=1 seek=128 conv=notrunc status=none
    for visible in "" 0 7; do
        with_instance ${visible:+CUDA_VISIBLE_DEVICES=$visible} timeout 60 "$TEST_SIMTEST" init_code 304 2>"$TEST_WORK/err" || die "the damaged region: $(cat "$TEST_WORK/err")"
        [ "$(wc -l <"$TEST_WORK/err")" -eq 1 ] && grep -qF "$TEST_INSTANCE/region is damaged (its " "$TEST_WORK/err" || die "the damaged region: $(cat "$TEST_WORK/err")"
    done
done
exit 0
