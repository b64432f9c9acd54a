/* A deterministic SIMT machine on one CPU thread, for kernels written against kernels/gpu/dialect.h.
 *
 * Threads of a block are fibers that run until a barrier or a warp operation; blocks run one after
 * the other. The machine reports accesses outside of what is registered, two accesses of different
 * threads to the same bytes with at least one store and no barrier between them, threads that wait
 * for others that have ended, and counts what the kernels' headers promise: bytes, accesses by
 * width, ways of a shared-memory bank conflict. K3_EMULATED_WARP is 32 or 64. */
#ifndef K3_TESTS_GPU_EMULATOR_H
#define K3_TESTS_GPU_EMULATOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <string>

#ifndef K3_EMULATED_WARP
#define K3_EMULATED_WARP 32
#endif

constexpr unsigned k3_warp = K3_EMULATED_WARP;

namespace k3_emulator
{

/* --- what a test sees ------------------------------------------------------------------------- */

struct counts {
    uint64_t read_bytes, written_bytes; /* global memory; what lanes load together counts once */
    uint64_t reads, writes, wide;       /* accesses; of them of 16 bytes */
    unsigned bank_ways;                 /* the largest number of words of one bank in one access */
    uint64_t products;                  /* matrix operations of a warp */
};

/* Memory that kernels may read, or also write. Addresses are those of the host; with a shift, the bytes
 * lie that far behind the addresses that kernels use. */
void add_memory(const void *at, size_t bytes, bool writable, intptr_t shift = 0);
void remove_memory(const void *at);

/* Off: accesses are still held against the memory, races are not looked for and nothing is counted. For
 * kernels that a test of their own has proved, much faster. */
void watch_races(bool on);

/* Threads of a block run in another order for each seed; results may not depend on it. */
void set_order(unsigned seed);

struct grid {
    unsigned x, y, threads;
};

/* Runs a kernel to its end. Returns the first fault in words, empty when there is none. */
std::string run(grid shape, void (*entry)(const void *), const void *argument);
counts      last_counts();

template <typename A> struct call {
    void (*kernel)(A);
    A argument;

    static void enter(const void *self)
    {
        const call *c = static_cast<const call *>(self);

        c->kernel(c->argument);
    }
};

template <typename A> std::string launch(grid shape, void (*kernel)(A), const A &argument)
{
    call<A> c = {kernel, argument};

    return run(shape, call<A>::enter, &c);
}

/* --- what the dialect calls ------------------------------------------------------------------- */

unsigned thread();
unsigned block(unsigned axis);
void     barrier();
/* All lanes of the warp hand in `mine` and get all lanes' in return. */
const void *const *exchange(const void *mine);
void              *shared(const char *name, size_t bytes);
/* Where the bytes of that address lie. */
void *access(const void *at, size_t bytes, bool store);
void  count_product();

} // namespace k3_emulator

#define K3_DEVICE static inline
#define K3_KERNEL static void
#define K3_SHARED(type, name, count)                                                               \
    type *name = static_cast<type *>(k3_emulator::shared(#name, sizeof(type) * (count)))

K3_DEVICE unsigned k3_thread()
{
    return k3_emulator::thread();
}
K3_DEVICE unsigned k3_block(unsigned axis)
{
    return k3_emulator::block(axis);
}
K3_DEVICE void k3_barrier()
{
    k3_emulator::barrier();
}

template <typename T> K3_DEVICE T k3_load(const T *at)
{
    T value;

    memcpy(&value, k3_emulator::access(at, sizeof(T), false), sizeof(T));
    return value;
}

template <typename T> K3_DEVICE void k3_store(T *at, T value)
{
    memcpy(k3_emulator::access(at, sizeof(T), true), &value, sizeof(T));
}

template <typename T> K3_DEVICE T k3_shuffle(T value, unsigned from)
{
    const void *const *all = k3_emulator::exchange(&value);
    T                  other;

    memcpy(&other, all[from % k3_warp], sizeof other);
    k3_emulator::exchange(nullptr); /* nobody's value goes before all have read */
    return other;
}

template <typename T> K3_DEVICE T k3_shuffle_xor(T value, unsigned mask)
{
    return k3_shuffle(value, k3_thread() % k3_warp ^ mask);
}

K3_DEVICE float k3_as_float(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

K3_DEVICE uint32_t k3_as_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

K3_DEVICE uint64_t k3_as_bits64(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

K3_DEVICE float k3_sqrt(float value)
{
    return __builtin_sqrtf(value);
}

K3_DEVICE double k3_log2(double value)
{
    return __builtin_log2(value);
}

K3_DEVICE double k3_exp2(double value)
{
    return __builtin_exp2(value);
}

#endif
