/* Counted allocation: zeroed, aligned to 64 bytes (2 MiB and advised huge for large blocks), with a
 * running total and the number of calls, so that a test can prove that a timed span allocates nothing
 * and that a cell took what the plan said. Thread-safe counters. */
#ifndef K3_BASE_MEMORY_H
#define K3_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/base/status.h"

/* count * size bytes; K3_ERR_ENV naming `what` and the bytes when it overflows or fails. A size of 0
 * gives a valid pointer to nothing. */
k3_status_t k3_alloc(const char *what, uint64_t count, uint64_t size, void *pointer_p,
                     k3_error_t *err);
void        k3_free(void *pointer); /* NULL is fine */

/* While it is on, large blocks have all their pages from the start. Else the kernel brings each in, and clears it, at
 * the first store to it. */
void k3_alloc_touched(bool on);

/* A hint that [memory, memory + bytes) should lie in huge pages where the kernel has some for it. */
void k3_memory_huge(void *memory, uint64_t bytes);

uint64_t k3_alloc_bytes(void); /* now allocated */
uint64_t k3_alloc_calls(void); /* k3_alloc calls since the start */

#endif
