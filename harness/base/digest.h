/* A 64-bit digest of many bytes, to tell contents apart: the same on every machine, not cryptographic. */
#ifndef K3_BASE_DIGEST_H
#define K3_BASE_DIGEST_H

#include <stdint.h>

/* Folds `bytes` bytes at `data`, at any alignment, into `key`. */
uint64_t k3_digest(uint64_t key, const void *data, uint64_t bytes);

#endif
