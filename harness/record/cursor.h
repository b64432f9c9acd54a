/* Reading a JSON text from front to back, without making objects of it. A record of many cells is mostly lanes,
 * samples and statistics; who wants a few members of each cell of ten thousand records steps over the rest.
 *
 * What is taken is read as strictly as by k3_document_read; of what is skipped only strings and brackets are looked
 * at. After a fault `wrong` is set, and every further step does nothing. */
#ifndef K3_RECORD_CURSOR_H
#define K3_RECORD_CURSOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/base/status.h"

typedef struct k3_cursor {
    const char *at, *end; /* *end is 0 */
    bool        first;    /* nothing was taken yet of the object or list that was entered last */
    bool        wrong;
} k3_cursor_t;

/* A part of the text: a value as it is written, strings with their quotes. NULL: there is none. */
typedef struct k3_view {
    const char *at;
    size_t      length;
} k3_view_t;

/* text[length] must be 0. */
k3_cursor_t k3_cursor(const char *text, size_t length);
k3_cursor_t k3_cursor_in(k3_view_t          view,
                         const k3_cursor_t *whole); /* for a value that was viewed */

/* Into an object '{' or a list '['; false, and nothing is taken, when the next value is no such thing. */
bool k3_cursor_enter(k3_cursor_t *c, char bracket);

/* On to the next member whose name is one of `names` (at most 32, NULL at the end); the caller takes its value. Others
 * are skipped; a name that came before (*seen, 0 at first) is a fault. Its number; -1 behind the end of the
 * object. */
int k3_cursor_member(k3_cursor_t *c, const char *const *names, uint32_t *seen);

/* On to the next element of a list, which the caller takes; false behind its end. */
bool k3_cursor_element(k3_cursor_t *c);

void k3_cursor_skip(k3_cursor_t *c);      /* a value */
void k3_cursor_leave(k3_cursor_t *c);     /* the rest of the object or list that was entered last */
k3_view_t k3_cursor_view(k3_cursor_t *c); /* a value, skipped */
bool      k3_cursor_done(k3_cursor_t *c); /* the whole text was read, and nothing was wrong */

/* The viewed value as an object; NULL when it is no JSON, or there is none. */
json_t *k3_view_json(k3_view_t view);
bool    k3_view_is(k3_view_t view, const char *word); /* a literal, or a string without escapes */
bool    k3_view_number(k3_view_t view, double *value);

/* A file as one text; the caller unmaps it (k3_text_close). K3_ERR_IO names path and cause. */
typedef struct k3_text {
    char  *at; /* at[length] is 0 */
    size_t length;
} k3_text_t;

k3_status_t k3_text_open(const char *path, k3_text_t *text, k3_error_t *err);
void        k3_text_close(k3_text_t *text);

#endif
