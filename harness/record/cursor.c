#include "harness/record/cursor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/base/file.h"

enum { TEXT_MOST = 1 << 30, NUMBER_MOST = 64 };

/* --- text ------------------------------------------------------------------------------------ */

/* The text ends with a 0, at which all loops stop. */
static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static const char *past_blanks(const char *at)
{
    while (is_blank(*at)) {
        at++;
    }
    return at;
}

/* From a quote to behind the closing one; NULL when there is none. */
static const char *past_string(const char *at, const char *end)
{
    for (;;) {
        const char *quote = memchr(at + 1, '"', (size_t)(end - at - 1));
        const char *back = quote;

        if (quote == NULL) {
            return NULL;
        }
        while (back - 1 > at && back[-1] == '\\') {
            back--;
        }
        if ((quote - back) % 2 == 0) {
            return quote + 1;
        }
        at = quote;
    }
}

static uint64_t zero_bytes(uint64_t x)
{
    return (x - UINT64_C(0x0101010101010101)) & ~x & UINT64_C(0x8080808080808080);
}

/* Eight bytes without a quote or a bracket: all brackets become 0x7f when the bits 0x26 are set, and so do
 * a few letters, which are then looked at one by one. */
static bool is_plain(const char *at)
{
    uint64_t x;

    memcpy(&x, at, sizeof(x));
    return (zero_bytes(x ^ UINT64_C(0x2222222222222222)) |
            zero_bytes((x | UINT64_C(0x2626262626262626)) ^ UINT64_C(0x7f7f7f7f7f7f7f7f))) == 0;
}

/* To behind the bracket that closes `depth` open ones; NULL when there is none. */
static const char *past_brackets(const char *at, const char *end, int64_t depth)
{
    static const signed char steps[256] = {['{'] = 1, ['['] = 1, ['}'] = -1, [']'] = -1, ['"'] = 2};

    for (; at < end; at++) {
        signed char step;

        while (end - at > 8 && is_plain(at)) {
            at += 8;
        }
        step = steps[(unsigned char)*at];
        if (step == 2) {
            at = past_string(at, end);
            if (at == NULL) {
                return NULL;
            }
            at--;
            continue;
        }
        depth += step;
        if (step < 0 && depth == 0) {
            return at + 1;
        }
    }
    return NULL;
}

static const char *past_scalar(const char *at, const char *end)
{
    const char *begin = at;

    while (at < end && *at != ',' && *at != '}' && *at != ']' && !is_blank(*at)) {
        at++;
    }
    return at > begin ? at : NULL;
}

static const char *past_value(const char *at, const char *end)
{
    if (*at == '{' || *at == '[') {
        return past_brackets(at + 1, end, 1);
    }
    return *at == '"' ? past_string(at, end) : past_scalar(at, end);
}

/* --- steps ----------------------------------------------------------------------------------- */

k3_cursor_t k3_cursor(const char *text, size_t length)
{
    return (k3_cursor_t){.at = past_blanks(text), .end = text + length};
}

k3_cursor_t k3_cursor_in(k3_view_t view, const k3_cursor_t *whole)
{
    return (k3_cursor_t){.at = view.at != NULL ? view.at : whole->end,
                         .end = whole->end,
                         .wrong = whole->wrong || view.at == NULL};
}

/* False for good: what stands here is no JSON. */
static bool refuse(k3_cursor_t *c)
{
    c->wrong = true;
    c->at = c->end;
    return false;
}

/* On behind a value; NULL: it has no end. */
static void step(k3_cursor_t *c, const char *behind)
{
    if (behind == NULL || c->wrong) {
        refuse(c);
    } else {
        c->at = past_blanks(behind);
    }
}

bool k3_cursor_enter(k3_cursor_t *c, char bracket)
{
    if (c->wrong || *c->at != bracket) {
        return false;
    }
    c->at = past_blanks(c->at + 1);
    c->first = true;
    return true;
}

/* Past the comma to the next member or element; false behind the closing bracket. */
static bool next(k3_cursor_t *c, char closing)
{
    bool first = c->first;

    c->first = false;
    if (c->wrong) {
        return false;
    }
    if (*c->at == closing) {
        c->at = past_blanks(c->at + 1);
        return false;
    }
    if (!first) {
        if (*c->at != ',') {
            return refuse(c);
        }
        c->at = past_blanks(c->at + 1);
    }
    return true;
}

/* A name with an escape in it is none of ours, nor one with a 0 byte. */
static int number_of(const char *const *names, const char *name, size_t length)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            return i;
        }
    }
    return -1;
}

int k3_cursor_member(k3_cursor_t *c, const char *const *names, uint32_t *seen)
{
    while (next(c, '}')) {
        const char *name = c->at, *behind = *name == '"' ? past_string(name, c->end) : NULL;
        int         number;

        step(c, behind);
        if (c->wrong || *c->at != ':') {
            refuse(c);
            return -1;
        }
        c->at = past_blanks(c->at + 1);
        number = number_of(names, name + 1, (size_t)(behind - name) - 2);
        if (number < 0) {
            k3_cursor_skip(c);
            continue;
        }
        if ((*seen & UINT32_C(1) << number) != 0) {
            refuse(c);
            return -1;
        }
        *seen |= UINT32_C(1) << number;
        return number;
    }
    return -1;
}

bool k3_cursor_element(k3_cursor_t *c)
{
    return next(c, ']');
}

void k3_cursor_skip(k3_cursor_t *c)
{
    step(c, past_value(c->at, c->end));
}

void k3_cursor_leave(k3_cursor_t *c)
{
    step(c, past_brackets(c->at, c->end, 1));
    c->first = false;
}

k3_view_t k3_cursor_view(k3_cursor_t *c)
{
    const char *from = c->at, *behind = past_value(from, c->end);

    step(c, behind);
    return c->wrong ? (k3_view_t){0} : (k3_view_t){from, (size_t)(behind - from)};
}

bool k3_cursor_done(k3_cursor_t *c)
{
    return !c->wrong && c->at == c->end;
}

/* --- values ---------------------------------------------------------------------------------- */

bool k3_view_is(k3_view_t view, const char *word)
{
    size_t length = strlen(word);

    if (view.at == NULL) {
        return false;
    }
    if (*view.at == '"') {
        return view.length == length + 2 && memcmp(view.at + 1, word, length) == 0;
    }
    return view.length == length && memcmp(view.at, word, length) == 0;
}

/* Of what strtod takes JSON knows no leading "+", "." or "0", no hexadecimal numbers, no names. */
static bool is_number(const char *at, size_t length)
{
    size_t sign = length > 0 && at[0] == '-', digits = strspn(at + sign, "0123456789");

    return length < NUMBER_MOST && digits > 0 && (digits == 1 || at[sign] != '0') &&
           strspn(at + sign, "0123456789.eE+-") == length - sign && at[length - 1] != '.' &&
           strstr(at, ".e") != at + sign + digits && strstr(at, ".E") != at + sign + digits;
}

bool k3_view_number(k3_view_t view, double *value)
{
    char  copy[NUMBER_MOST];
    char *behind;

    if (view.at == NULL || view.length >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, view.at, view.length);
    copy[view.length] = '\0';
    if (!is_number(copy, view.length)) {
        return false;
    }
    *value = strtod(copy, &behind);
    return *behind == '\0' && isfinite(*value);
}

static bool has_escapes(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\' || (unsigned char)text[i] < 0x20) {
            return true;
        }
    }
    return false;
}

json_t *k3_view_json(k3_view_t view)
{
    double number;

    if (view.at == NULL) {
        return NULL;
    }
    if (*view.at == '"' && !has_escapes(view.at + 1, view.length - 2)) {
        return json_stringn(view.at + 1, view.length - 2);
    }
    if (k3_view_number(view, &number)) {
        return json_real(number);
    }
    return json_loadb(view.at, view.length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
}

/* --- files ----------------------------------------------------------------------------------- */

static bool read_all(int fd, char *text, size_t size)
{
    size_t done = 0;

    while (done < size) {
        ssize_t count = read(fd, text + done, size - done);

        if (count <= 0 && !(count < 0 && errno == EINTR)) {
            return false;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}

k3_status_t k3_text_open(const char *path, k3_text_t *text, k3_error_t *err)
{
    struct stat facts;
    int         fd;

    *text = (k3_text_t){0};
    if (k3_file_open(path, &fd, err) != K3_OK) {
        return err->status;
    }
    if (fstat(fd, &facts) != 0 || facts.st_size > TEXT_MOST) {
        k3_fail(err, K3_ERR_IO, "%.300s: it is larger than 1 GiB", path);
    } else {
        text->length = (size_t)facts.st_size;
        /* Pages of its own: a large block that comes and goes makes the allocator tidy up each time. */
        text->at = mmap(NULL, text->length + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
        if (text->at == MAP_FAILED) {
            text->at = NULL;
            k3_fail(err, K3_ERR_ENV, "%.300s: memory for its %zu bytes is short", path,
                    text->length);
        } else if (!read_all(fd, text->at, text->length)) {
            k3_fail(err, K3_ERR_IO, "%.300s: it cannot be read, or became shorter", path);
            k3_text_close(text);
        }
    }
    (void)close(fd);
    return err->status;
}

void k3_text_close(k3_text_t *text)
{
    if (text->at != NULL) {
        (void)munmap(text->at, text->length + 1);
    }
    *text = (k3_text_t){0};
}
