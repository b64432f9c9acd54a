#include "harness/record/how.h"

#include <stdint.h>
#include <string.h>

const char *k3_how_differs(const json_t *a, const json_t *b, const char *except)
{
    const char *field;
    json_t     *value;

    json_object_foreach((json_t *)(uintptr_t)a, field, value)
    {
        const json_t *other = json_object_get(b, field);

        if (json_is_string(value) && json_is_string(other) && !json_equal(value, other) &&
            (except == NULL || strcmp(field, except) != 0)) {
            return field;
        }
    }
    return NULL;
}
