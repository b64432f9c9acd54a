#include "harness/mpi/beat.h"

#include "harness/mpi/clock.h"

enum { CHAINS = 14, STEPS = 1 << 12, LINE = 64, STREAM_BYTES = 2 << 20 };

static uint64_t stream[STREAM_BYTES / sizeof(uint64_t)];

/* As many chains of dependent multiplications and additions as there are registers keep the pipes busy, as products
 * of matrices do. The compiler must not merge steps: whatever built the program, it is the same work. */
static void multiply(void)
{
    double x[CHAINS];

    for (int c = 0; c < CHAINS; c++) {
        x[c] = 1.0 + 0.1 * c;
    }
    for (int i = 0; i < STEPS; i++) {
        for (int c = 0; c < CHAINS; c++) {
            x[c] = x[c] * 0.999 + 0.001;
        }
#if defined(__x86_64__)
        __asm__ volatile(""
                         : "+x"(x[0]), "+x"(x[1]), "+x"(x[2]), "+x"(x[3]), "+x"(x[4]), "+x"(x[5]),
                           "+x"(x[6]), "+x"(x[7]), "+x"(x[8]), "+x"(x[9]), "+x"(x[10]), "+x"(x[11]),
                           "+x"(x[12]), "+x"(x[13]));
#else
        __asm__ volatile("" : : "r"(x) : "memory");
#endif
    }
}

/* More than the caches of a core hold, so that each line comes from the cache that cores (and, on a shared
 * machine, strangers) share, or from memory. Pages that were never written would all be the same one. */
static void read_lines(void)
{
    const size_t step = LINE / sizeof(stream[0]), words = sizeof(stream) / sizeof(stream[0]);
    uint64_t     sum = 0;

    for (size_t i = 0; stream[0] == 0 && i < words; i++) {
        stream[words - 1 - i] = 1;
    }
    for (size_t i = 0; i < words; i += step) {
        sum += stream[i];
    }
    __asm__ volatile("" : : "r"(sum));
}

double k3_beat(void)
{
    uint64_t begin = k3_clock_now();

    multiply();
    read_lines();
    return k3_clock_us(k3_clock_now() - begin);
}
