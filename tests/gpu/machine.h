/* What the tests of GPU kernels share: a launcher on the emulator, and memory that it knows. */
#ifndef K3_TESTS_GPU_MACHINE_H
#define K3_TESTS_GPU_MACHINE_H

#include <stddef.h>
#include <stdint.h>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
}
#include <math.h>

#include <memory>
#include <vector>

#include "kernels/gpu/launch.h"

struct emulated {
    template <typename A>
    std::string start(unsigned x, unsigned y, void (*kernel)(A), const A &arguments)
    {
        return k3_emulator::launch({x, y, k3_threads}, kernel, arguments);
    }
};

/* Device memory of a test: zeroed, at a multiple of 16, known to the emulator until it goes. */
template <typename T> class device
{
  public:
    explicit device(size_t n, bool writable = false) : n_(n), bytes_(n * sizeof(T) + 16)
    {
        uintptr_t begin = ((uintptr_t)bytes_.data() + 15) / 16 * 16;

        at_ = reinterpret_cast<T *>(begin);
        k3_emulator::add_memory(at_, n * sizeof(T), writable);
    }
    ~device()
    {
        k3_emulator::remove_memory(at_);
    }
    device(const device &) = delete;
    device &operator=(const device &) = delete;
    T      *data()
    {
        return at_;
    }
    T &operator[](size_t i)
    {
        return at_[i];
    }
    size_t size() const
    {
        return n_;
    }
    uint64_t bytes() const
    {
        return n_ * sizeof(T);
    }

  private:
    size_t            n_;
    std::vector<char> bytes_;
    T                *at_;
};

/* The kernel ends without a fault, whatever the order of its threads, with the same bytes. */
template <typename A, typename T> void run_in_orders(const A &arguments, device<T> &out)
{
    std::vector<char> first;
    emulated          machine;

    for (unsigned order : {0u, 1u, 7u}) {
        std::string fault;

        memset(static_cast<void *>(out.data()), 0, out.bytes());
        k3_emulator::set_order(order);
        fault = k3_start(machine, arguments);
        if (!fault.empty()) {
            print_error("%s\n", fault.c_str());
        }
        assert_true(fault.empty());
        if (first.empty()) {
            first.assign((char *)out.data(), (char *)out.data() + out.bytes());
        }
        assert_memory_equal(first.data(), out.data(), out.bytes());
    }
}

/* Keyed values: the same on every machine. */
static inline uint32_t random_bits(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) ^ (uint32_t)(*state >> 11);
}

static inline float random_float(uint64_t *state)
{
    return (float)(int32_t)random_bits(state) / 2147483648.0f;
}

/* Sum of four: near a normal distribution of deviation 1. */
static inline uint16_t random_bf16(uint64_t *state)
{
    float sum = 0;

    for (int i = 0; i < 4; i++) {
        sum += random_float(state);
    }
    return k3_f32_to_bf16(sum * 0.87f);
}

static inline void fill_bf16(uint16_t *to, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = random_bf16(&seed);
    }
}

#endif
