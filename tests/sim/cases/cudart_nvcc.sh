#!/usr/bin/env bash
# A program that nvcc compiles, with the static and the shared runtime, as every sample and most programs are made.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || { echo "skipped: nvcc is not installed" && exit 77; }
nvcc -o "$TEST_WORK/program.o" -c "$(dirname "$0")/program.cu" || { echo "skipped: nvcc compiles nothing here" && exit 77; }
libraries=$(realpath "$(dirname "$(command -v nvcc)")/../lib64")
for runtime in static shared; do
    nvcc -cudart "$runtime" -o "$TEST_WORK/program" "$TEST_WORK/program.o" || die "nvcc links no program ($runtime)"
    LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$libraries "$vgpu" run --mem 1G --cores 30 -- "$TEST_WORK/program" $((1 << 30)) ||
        die "the program with the $runtime runtime fails"
done
