#include "harness/base/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/base/arith.h"
#include "harness/base/log.h"

#define SMALL_ALIGN ((uint64_t)64)
#define HUGE_ALIGN  ((uint64_t)2 << 20)
#define HUGE_FROM   ((uint64_t)4 << 20)

#define LIVE_MAGIC UINT64_C(0x6b3362656e63686d)
#define DEAD_MAGIC UINT64_C(0xdeadb10cdeadb10c)

/* Sits in the 64 bytes before every block that k3_alloc hands out. */
typedef struct block {
    uint64_t magic;
    uint64_t bytes;  /* as asked for */
    uint64_t mapped; /* length of the mapping at `base`; 0: `base` comes from malloc */
    void    *base;
} block_t;

_Static_assert(sizeof(block_t) <= 64, "the block header must fit in front of an aligned block");

static _Atomic uint64_t live_bytes;
static _Atomic uint64_t call_count;
static atomic_bool      touched;

static block_t *block_of(void *pointer)
{
    return (block_t *)(void *)((char *)pointer - SMALL_ALIGN);
}

static void *start_block(void *base, uint64_t offset, uint64_t bytes, uint64_t mapped)
{
    char    *pointer = (char *)base + offset;
    block_t *block = block_of(pointer);

    block->magic = LIVE_MAGIC;
    block->bytes = bytes;
    block->mapped = mapped;
    block->base = base;
    return pointer;
}

static void *allocate_small(uint64_t bytes)
{
    void *base = NULL;
    int   rc = posix_memalign(&base, SMALL_ALIGN, SMALL_ALIGN + bytes);

    if (rc != 0) {
        errno = rc;
        return NULL;
    }
    memset(base, 0, SMALL_ALIGN + bytes);
    return start_block(base, SMALL_ALIGN, bytes, 0);
}

/* An anonymous mapping is zero without being touched, so pages that a cell never uses cost nothing.
 * One alignment unit in front leaves room for the header and for rounding the block up. */
static void *allocate_huge(uint64_t bytes)
{
    uint64_t mapped = k3_add(k3_round_up(bytes, HUGE_ALIGN), 2 * HUGE_ALIGN);

    if (mapped > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }

    void *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED) {
        return NULL;
    }

    uint64_t address = (uint64_t)(uintptr_t)base;
    uint64_t offset = k3_round_up(address + SMALL_ALIGN, HUGE_ALIGN) - address;
    void    *pointer = start_block(base, offset, bytes, mapped);

    k3_memory_huge(pointer, k3_round_up(bytes, HUGE_ALIGN));
    if (atomic_load(&touched)) {
        memset(pointer, 0, bytes);
    }
    return pointer;
}

void k3_memory_huge(void *memory, uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uint64_t)(uintptr_t)memory;
    uint64_t skipped = k3_round_up(at, page) - at;

    if (bytes > skipped) {
        (void)madvise((char *)memory + skipped, bytes - skipped, MADV_HUGEPAGE);
    }
}

void k3_alloc_touched(bool on)
{
    atomic_store(&touched, on);
}

k3_status_t k3_alloc(const char *what, uint64_t count, uint64_t size, void *pointer_p,
                     k3_error_t *err)
{
    uint64_t bytes = k3_mul(count, size);
    void    *pointer = NULL;

    atomic_fetch_add(&call_count, 1);
    memcpy(pointer_p, &pointer, sizeof(pointer));
    if (bytes == K3_TOO_BIG) {
        return k3_fail(err, K3_ERR_ENV, "%s: %" PRIu64 " x %" PRIu64 " bytes do not fit in 64 bits",
                       what, count, size);
    }
    pointer = bytes < HUGE_FROM ? allocate_small(bytes) : allocate_huge(bytes);
    if (pointer == NULL) {
        return k3_fail(err, K3_ERR_ENV, "%s: cannot allocate %" PRIu64 " bytes: %s", what, bytes,
                       strerror(errno));
    }
    atomic_fetch_add(&live_bytes, bytes);
    memcpy(pointer_p, &pointer, sizeof(pointer));
    return K3_OK;
}

void k3_free(void *pointer)
{
    if (pointer == NULL) {
        return;
    }

    block_t *block = block_of(pointer);

    if (block->magic != LIVE_MAGIC) {
        k3_log_error("k3_free: %p is no live block of k3_alloc", pointer);
        abort();
    }
    atomic_fetch_sub(&live_bytes, block->bytes);
    block->magic = DEAD_MAGIC;
    if (block->mapped != 0) {
        (void)munmap(block->base, block->mapped);
    } else {
        free(block->base);
    }
}

uint64_t k3_alloc_bytes(void)
{
    return atomic_load(&live_bytes);
}

uint64_t k3_alloc_calls(void)
{
    return atomic_load(&call_count);
}
