/* What a fuzz target gives to the driver. */
#ifndef K3_TESTS_FUZZ_H
#define K3_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Inputs to start from, NULL-terminated. */
extern const char *const fuzz_seeds[];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* assert() is off in release builds; a fuzz target must still stop. */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
