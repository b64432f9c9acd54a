#include "bench/report/plain.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const double largest = 1e15, smallest = 1e-9;

static void cut_zeros(char *text)
{
    size_t end = strlen(text);

    while (end > 0 && text[end - 1] == '0') {
        end--;
    }
    text[end > 0 && text[end - 1] == '.' ? end - 1 : end] = '\0';
}

static const char *print(double value, int digits, bool sign, char text[K3_PLAIN])
{
    double size = fabs(value);
    int    decimals;

    if (!isfinite(value) || size >= largest || (size < smallest && size > 0.0)) {
        snprintf(text, K3_PLAIN, sign ? "%+.*g" : "%.*g", digits, value);
        return text;
    }
    decimals = size > 0.0 ? digits - 1 - (int)floor(log10(size)) : 0;
    decimals = decimals > 0 ? decimals : 0;
    snprintf(text, K3_PLAIN, sign ? "%+.*f" : "%.*f", decimals, value);
    if (decimals > 0) {
        cut_zeros(text);
    }
    return text;
}

const char *k3_plain(double value, int digits, char text[K3_PLAIN])
{
    return print(value, digits, false, text);
}

const char *k3_plain_signed(double value, int digits, char text[K3_PLAIN])
{
    return print(value, digits, true, text);
}
