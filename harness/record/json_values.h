/* Values of JSON documents.
 *
 * Numbers: a double that is not finite has no JSON form and becomes null; doubles are rounded to at
 * most K3_JSON_DIGITS significant digits so that the same input gives the same bytes. */
#ifndef K3_RECORD_JSON_VALUES_H
#define K3_RECORD_JSON_VALUES_H

#include <jansson.h>
#include <stddef.h>

enum { K3_JSON_DIGITS = 9 };

json_t *k3_json_number(double value);     /* null when not finite */
json_t *k3_json_string(const char *text); /* null for NULL; bytes that are not UTF-8 become '?' */
json_t *k3_json_list_of_strings(const char *const *texts, size_t count);

#endif
