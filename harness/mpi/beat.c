#include "harness/mpi/beat.h"

#include "harness/mpi/clock.h"

enum { CHAINS = 14, STEPS = 1 << 14 };

/* As many chains of dependent multiplications and additions as there are registers keep the pipes busy, as products
 * of matrices do. The compiler must not merge steps: whatever built the program, it is the same work. */
double k3_beat(void)
{
    double   x[CHAINS];
    uint64_t begin = k3_clock_now();

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
    return k3_clock_us(k3_clock_now() - begin);
}
