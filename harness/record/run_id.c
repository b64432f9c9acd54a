#include "harness/record/run_id.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "harness/base/keyed.h"

void k3_run_id(char text[17])
{
    uint64_t bits = 0;

    if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits)) {
        struct timespec now = {0};

        (void)clock_gettime(CLOCK_REALTIME, &now);
        bits = k3_key(k3_key((uint64_t)now.tv_sec, (uint64_t)now.tv_nsec), (uint64_t)getpid());
    }
    (void)snprintf(text, 17, "%016llx", (unsigned long long)bits);
}
