#include "harness/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

static atomic_int log_rank = -1;

void k3_log_set_rank(int rank)
{
    atomic_store(&log_rank, rank);
}

static size_t put_prefix(char line[LINE_BYTES], const char *kind)
{
    int rank = atomic_load(&log_rank);
    int length = rank < 0 ? snprintf(line, LINE_BYTES, "k3bench: %s", kind)
                          : snprintf(line, LINE_BYTES, "k3bench: rank %d: %s", rank, kind);

    return length < 0 ? 0 : (size_t)length;
}

/* Pipes may take a part only; the rest must still come out, torn or not. */
static void write_all(const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t done = write(STDERR_FILENO, bytes, count);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return;
        }
        bytes += done;
        count -= (size_t)done;
    }
}

__attribute__((format(printf, 2, 0))) static void log_line(const char *kind, const char *format,
                                                           va_list args)
{
    char   line[LINE_BYTES];
    int    saved_errno = errno;
    size_t used = put_prefix(line, kind);
    size_t room = sizeof(line) - used - 1; /* one byte stays for the newline */
    int    length = vsnprintf(line + used, room, format, args);

    if (length < 0) {
        length = 0;
    }
    if ((size_t)length >= room) {
        length = (int)room - 1;
        memcpy(line + used + length - 3, "...", 3);
    }
    for (char *c = line + used; c < line + used + length; c++) {
        if (*c == '\n') {
            *c = ' ';
        }
    }
    used += (size_t)length;
    line[used] = '\n';
    write_all(line, used + 1);
    errno = saved_errno;
}

void k3_log_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_line("error: ", format, args);
    va_end(args);
}

void k3_log_warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_line("warning: ", format, args);
    va_end(args);
}

void k3_log_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_line("", format, args);
    va_end(args);
}
