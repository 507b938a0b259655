/* A fuzzer as a program of its own, which always does the same: fuzz_NAME_run [ITERATIONS
 * [SEED]]. */
#include "fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

int main(int argc, char **argv)
{
    static uint8_t input[FUZZ_INPUT_MAX];
    uint64_t iterations = argc > 1 ? strtoull(argv[1], NULL, 0) : fuzz_iterations;
    size_t size = 0;

    state = (argc > 2 ? strtoull(argv[2], NULL, 0) : 1) * 0x9e3779b97f4a7c15ULL | 1;
    for (uint64_t i = 0; i < iterations; i++) {
        size = fuzz_make(i, input, size, next);
        LLVMFuzzerTestOneInput(input, size);
    }
    printf("%" PRIu64 " inputs\n", iterations);
    return 0;
}
