#include "harness/record/json_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *k3_json_number(double value)
{
    char text[32];

    if (!isfinite(value)) {
        return json_null();
    }
    (void)snprintf(text, sizeof(text), "%.*g", K3_JSON_DIGITS, value);

    double rounded = strtod(text, NULL);

    return json_real(rounded == 0 ? 0.0 : rounded); /* no "-0.0" */
}

/* Length of the well-formed UTF-8 sequence at `s`, 0 if there is none (Unicode 15, table 3-7). */
static size_t utf8_length(const unsigned char *s)
{
    size_t        length = 0;
    unsigned char low = 0x80, high = 0xbf; /* bounds of the second byte */

    if (s[0] < 0x80) {
        return 1;
    }
    if (s[0] >= 0xc2 && s[0] <= 0xdf) {
        length = 2;
    } else if (s[0] >= 0xe0 && s[0] <= 0xef) {
        length = 3;
        low = s[0] == 0xe0 ? 0xa0 : low;
        high = s[0] == 0xed ? 0x9f : high;
    } else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
        length = 4;
        low = s[0] == 0xf0 ? 0x90 : low;
        high = s[0] == 0xf4 ? 0x8f : high;
    } else {
        return 0;
    }
    if (s[1] < low || s[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if (s[i] < 0x80 || s[i] > 0xbf) {
            return 0;
        }
    }
    return length;
}

json_t *k3_json_string(const char *text)
{
    if (text == NULL) {
        return json_null();
    }

    char *copy = strdup(text);

    if (copy == NULL) {
        return NULL;
    }
    for (unsigned char *c = (unsigned char *)copy; *c != '\0';) {
        size_t length = utf8_length(c);

        if (length == 0) {
            *c = '?';
            length = 1;
        }
        c += length;
    }

    json_t *string = json_string(copy);

    free(copy);
    return string;
}

json_t *k3_json_list_of_strings(const char *const *texts, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(list, k3_json_string(texts[i]));
    }
    return list;
}
