/* Texts of a fixed size that grow piece by piece, and how a text ends. */
#ifndef K3_BASE_TEXT_H
#define K3_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Appends to a text of `size` bytes, of which `used` are taken (the final 0 not counted); what does not fit
 * is cut. Returns how many are taken then: always below size, whatever was formatted. */
__attribute__((format(printf, 4, 5))) size_t k3_append(char *text, size_t size, size_t used,
                                                       const char *format, ...);

/* A longer text that ends with `ending`. */
bool k3_ends_with(const char *text, const char *ending);

#endif
