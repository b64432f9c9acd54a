#include "harness/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

size_t k3_append(char *text, size_t size, size_t used, const char *format, ...)
{
    va_list args;
    int     wrote;

    if (used >= size) {
        return used;
    }
    va_start(args, format);
    wrote = vsnprintf(text + used, size - used, format, args);
    va_end(args);
    if (wrote < 0) {
        text[used] = '\0';
        return used;
    }
    return (size_t)wrote < size - used ? used + (size_t)wrote : size - 1;
}

bool k3_ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), tail = strlen(ending);

    return length > tail && strcmp(text + length - tail, ending) == 0;
}
