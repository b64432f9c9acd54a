/* A file without a file system: fuzz input that must be read by path. */
#ifndef K3_TESTS_MEMORY_FILE_H
#define K3_TESTS_MEMORY_FILE_H

#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

/* Path of a file that holds `data`; the same one, rewritten, in every call. */
static inline const char *memory_file(const uint8_t *data, size_t size)
{
    static int  fd = -1;
    static char path[64];

    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        FUZZ_CHECK(fd >= 0);
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    FUZZ_CHECK(ftruncate(fd, 0) == 0);
    FUZZ_CHECK(pwrite(fd, data, size, 0) == (ssize_t)size);
    return path;
}

#endif
