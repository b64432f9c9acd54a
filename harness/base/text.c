#include "harness/base/text.h"

#include <stdarg.h>
#include <stdio.h>

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
