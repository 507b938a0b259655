/*
 * What a fuzzer has: libFuzzer's function, and how to make inputs for it where there is no
 * libFuzzer (fuzz_main.c).
 */
#ifndef VGPU_TESTS_FUZZ_H
#define VGPU_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#define FUZZ_INPUT_MAX 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How many inputs a test has. */
extern const uint64_t fuzz_iterations;

/* Makes input `i`; input[0..size) is the one before. Returns its size, FUZZ_INPUT_MAX at most. */
size_t fuzz_make(uint64_t i, uint8_t *input, size_t size, uint64_t (*random)(void));

#endif
