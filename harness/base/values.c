#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/log.h"
#include "harness/base/options.h"

enum { NEAREST_MAX = 64 }; /* longer words have no near neighbour among names */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* 0: no such suffix. */
static uint64_t suffix_factor(const char *suffix)
{
    static const struct {
        const char *text;
        uint64_t    factor;
    } table[] = {
        {"", 1},
        {"k", UINT64_C(1000)},
        {"M", UINT64_C(1000000)},
        {"G", UINT64_C(1000000000)},
        {"Ki", UINT64_C(1) << 10},
        {"Mi", UINT64_C(1) << 20},
        {"Gi", UINT64_C(1) << 30},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(suffix, table[i].text) == 0) {
            return table[i].factor;
        }
    }
    return 0;
}

static k3_status_t out_of_range(const char *option, const char *text, uint64_t min, uint64_t max,
                                k3_error_t *err)
{
    if (max == UINT64_MAX) {
        return k3_fail(err, K3_ERR_USAGE,
                       "%s: '%.80s' is out of range: at least %" PRIu64 ", below 2^64", option,
                       text, min);
    }
    return k3_fail(err, K3_ERR_USAGE, "%s: '%.80s' is out of range: %" PRIu64 " to %" PRIu64,
                   option, text, min, max);
}

k3_status_t k3_parse_u64(const char *option, const char *text, uint64_t min, uint64_t max,
                         uint64_t *value, k3_error_t *err)
{
    const char *c = text;
    uint64_t    number = 0;
    bool        overflow = false;

    for (; is_digit(*c); c++) {
        overflow |= __builtin_mul_overflow(number, UINT64_C(10), &number);
        overflow |= __builtin_add_overflow(number, (uint64_t)(*c - '0'), &number);
    }

    uint64_t factor = suffix_factor(c);

    if (c == text || factor == 0) {
        return k3_fail(err, K3_ERR_USAGE,
                       "%s: '%.80s' is not a whole number: digits, then nothing or one of k, M, G "
                       "(powers of 1000), Ki, Mi, Gi (powers of 1024)",
                       option, text);
    }
    overflow |= __builtin_mul_overflow(number, factor, &number);
    if (overflow || number < min || number > max) {
        return out_of_range(option, text, min, max, err);
    }
    *value = number;
    return K3_OK;
}

static const char *skip_digits(const char *text, size_t *count)
{
    for (; is_digit(*text); text++) {
        (*count)++;
    }
    return text;
}

/* strtod alone would also take blanks in front, hexadecimal, "inf" and "nan". */
static bool is_decimal(const char *text)
{
    size_t digits = 0, exponent_digits = 0;

    text += *text == '-';
    text = skip_digits(text, &digits);
    if (*text == '.') {
        text = skip_digits(text + 1, &digits);
    }
    if (digits == 0) {
        return false;
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+';
        text = skip_digits(text, &exponent_digits);
        if (exponent_digits == 0) {
            return false;
        }
    }
    return *text == '\0';
}

k3_status_t k3_parse_double(const char *option, const char *text, double min, double max,
                            double *value, k3_error_t *err)
{
    if (!is_decimal(text)) {
        return k3_fail(err, K3_ERR_USAGE,
                       "%s: '%.80s' is not a decimal number such as 12, 0.5 or 1e-3", option, text);
    }

    double number = strtod(text, NULL);

    if (!isfinite(number) || number < min || number > max) {
        return k3_fail(err, K3_ERR_USAGE, "%s: '%.80s' is out of range: %g to %g", option, text,
                       min, max);
    }
    *value = number;
    return K3_OK;
}

/* As many of the names as fit into a message. */
static void join_names(const char *const *names, char *out, size_t room)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; names[i] != NULL; i++) {
        size_t length = strlen(names[i]);

        if (used + length + 8 > room) {
            memcpy(out + used, ", ...", 6);
            return;
        }
        if (i > 0) {
            memcpy(out + used, ", ", 2);
            used += 2;
        }
        memcpy(out + used, names[i], length + 1);
        used += length;
    }
}

k3_status_t k3_parse_name(const char *option, const char *text, const char *const *names,
                          size_t *index, k3_error_t *err)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], text) == 0) {
            *index = i;
            return K3_OK;
        }
    }

    const char *near = k3_nearest(text, names);
    char        known[400];

    if (near != NULL) {
        return k3_fail(err, K3_ERR_USAGE,
                       "%s: unknown value '%.80s'; the nearest known one is '%s'", option, text,
                       near);
    }
    join_names(names, known, sizeof(known));
    return k3_fail(err, K3_ERR_USAGE, "%s: unknown value '%.80s'; known: %s", option, text, known);
}

k3_status_t k3_parse_switch(const char *option, const char *text, bool *on, k3_error_t *err)
{
    static const char *const names[] = {"off", "on", NULL};
    size_t                   index = 0;

    if (k3_parse_name(option, text, names, &index, err) == K3_OK) {
        *on = index == 1;
    }
    return err->status;
}

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* Insertions, deletions and substitutions; `text` is at most NEAREST_MAX long. One row of the usual
 * table is kept: row[j] is the distance from the part of `name` seen so far to text[0..j). */
static size_t edit_distance(const char *text, size_t length, const char *name)
{
    size_t row[NEAREST_MAX + 1];

    for (size_t j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (size_t i = 0; name[i] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 1; j <= length; j++) {
            size_t substituted = diagonal + (name[i] != text[j - 1]);

            diagonal = row[j];
            row[j] = smallest(row[j] + 1, row[j - 1] + 1, substituted);
        }
    }
    return row[length];
}

const char *k3_nearest(const char *text, const char *const *names)
{
    size_t      length = strnlen(text, NEAREST_MAX + 1);
    size_t      best = length / 2 + 1;
    const char *near = NULL;

    if (length > NEAREST_MAX) {
        return NULL;
    }
    for (size_t i = 0; names[i] != NULL; i++) {
        size_t distance = edit_distance(text, length, names[i]);

        if (distance < best) {
            best = distance;
            near = names[i];
        }
    }
    return near;
}

static void *checked(void *pointer)
{
    if (pointer == NULL) {
        k3_log_error("out of memory while splitting a list");
        abort();
    }
    return pointer;
}

void k3_list_split(const char *text, char separator, k3_list_t *list)
{
    size_t count = 1;

    for (const char *c = text; *c != '\0'; c++) {
        count += *c == separator;
    }
    list->items = checked(calloc(count, sizeof(*list->items)));
    list->count = count;
    for (size_t i = 0; i < count; i++) {
        const char *end = strchr(text, separator);
        size_t      length = end == NULL || separator == '\0' ? strlen(text) : (size_t)(end - text);

        list->items[i] = checked(strndup(text, length));
        text += length + 1;
    }
}

void k3_list_add(k3_list_t *list, const char *item)
{
    list->items = checked(realloc(list->items, (list->count + 1) * sizeof(*list->items)));
    list->items[list->count++] = checked(strdup(item));
}

void k3_list_free(k3_list_t *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i]);
    }
    free(list->items);
    list->items = NULL;
    list->count = 0;
}
