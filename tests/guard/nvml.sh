#!/usr/bin/env bash
# Which NVML the supervisor loads, and that strict mode does not go without, beside the fake driver of run.sh.
# shellcheck source=tests/guard/common.sh
. "$(dirname "$0")/common.sh"

strict() { "$vgpu" run --guard=strict --stats --mem 1G -- "${rmtest[@]}" hold 1M 3 >strict.out 2>&1; }

# By its path.
strict || fail "with NVML: $?"
grep -q 'audits [1-9]' strict.out || fail "nothing was compared"

# None, and one that is none: strict refuses, and the program has not run.
for VGPU_NVML in /nowhere/libnvidia-ml.so.1 "$TEST_BUILD/tests/guard/other/libnvidia-ml.so.1"; do
    export VGPU_NVML
    strict
    [ $? = 125 ] || fail "without NVML: $?"
    grep -q 'strict mode.*VGPU_NVML' strict.out || fail "no word of it"
    [ "$(wc -l <strict.out)" = 1 ] || fail "more than a word of it"
    ! grep -q holding strict.out || fail "it has run"
    "$vgpu" run --guard --mem 1G -- "${rmtest[@]}" hold 1M 0 >on.out 2>&1 || fail "default mode: $?"
    grep -q 'NVML cannot be used' on.out || fail "no word of it"
done
VGPU_NVML=lib.so "$vgpu" run --guard --mem 1G -- true 2>relative.out
[ $? = 125 ] || fail "a relative path"
grep -q 'VGPU_NVML.*absolute' relative.out || fail "no word of it"

# The program need not wait until it has started, but its first call for memory does.
export VGPU_NVML=$TEST_BUILD/tests/guard/nvml/libnvidia-ml.so.1 FAKENVML_WAIT=$PWD/go FAKENVML_MARK=$PWD/started
# shellcheck disable=SC2016 # for the shell that is the program
runs_meanwhile() {
    rm -f go started
    env -u LD_LIBRARY_PATH "$vgpu" run --guard=strict --mem 1G -- sh -c '
        test ! -e started || exit 3
        (sleep 0.3; printf "$0" >written; mv written go) &
        "$@" || exit
        test -e started || exit 4' "$1" "${rmtest[@]}" hold 1M 0 >meanwhile.out 2>&1
}
runs_meanwhile '' || fail "beside a program: $?"
grep -q holding meanwhile.out || fail "it has got no memory"
# It fails: what runs already ends without having got anything.
runs_meanwhile fail
[ $? = 125 ] || fail "strict, and NVML does not start"
grep -q 'NVML cannot be used.*strict mode' meanwhile.out || fail "no word of it"
! grep -q holding meanwhile.out || fail "it has got memory"
# What it loads by name must not be the program's: that waits, where the loader would look in anybody's folders.
mkdir lib
for folders in "$PWD/lib" "$PWD/missing/lib" /usr/lib: .; do
    rm -f go started
    (sleep 0.3; touch go) &
    LD_LIBRARY_PATH=$folders "$vgpu" run --guard --mem 1G -- test -e "$FAKENVML_MARK" || fail "LD_LIBRARY_PATH=$folders"
done
unset FAKENVML_WAIT FAKENVML_MARK

# LD_LIBRARY_PATH is not asked: neither before the program runs, nor once it has put a library there.
export LD_LIBRARY_PATH=$PWD/lib OTHER_NVML_MARK=$PWD/loaded
unset VGPU_NVML
for when in before later; do
    [ $when = later ] || cp "$TEST_BUILD/tests/guard/other/libnvidia-ml.so.1" lib
    "$vgpu" run --guard --mem 1G -- sh -c 'cp "$0" lib; exec "$@"' "$TEST_BUILD/tests/guard/other/libnvidia-ml.so.1" \
        "${rmtest[@]}" hold 1M 3 >$when.out 2>&1 || fail "$when: $?"
    [ ! -e loaded ] || fail "loaded $when"
    rm lib/*
done
