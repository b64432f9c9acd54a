#include "harness/record/brief.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/record/document.h"

enum { BUCKETS = 256, TEXT_MOST = 1 << 30 };

/* --- names ----------------------------------------------------------------------------------- */

typedef enum want { WANT_NOT, WANT_MEMBER, WANT_WHOLE, WANT_LIST } want_t;

typedef struct filter {
    const k3_wanted_t *wanted;
    const char        *first[BUCKETS]; /* the wanted name with this hash, if there is one */
    want_t             want[BUCKETS];  /* ... and how */
    bool               more[BUCKETS];  /* there are several */
} filter_t;

static unsigned bucket_of(const char *name, size_t length)
{
    return (unsigned)(length * 31 + (unsigned char)name[0] * 7 +
                      (unsigned char)name[length - 1] * 3) %
           BUCKETS;
}

static void add_names(filter_t *f, const char *const *names, want_t want)
{
    for (; *names != NULL; names++) {
        unsigned bucket = bucket_of(*names, strlen(*names));

        f->more[bucket] = f->first[bucket] != NULL;
        f->first[bucket] = *names;
        f->want[bucket] = want;
    }
}

static bool is_text(const char *known, const char *text, size_t length)
{
    return strncmp(known, text, length) == 0 && known[length] == '\0';
}

static bool is_in(const char *const *names, const char *name, size_t length)
{
    for (; *names != NULL; names++) {
        if (is_text(*names, name, length)) {
            return true;
        }
    }
    return false;
}

/* A name with an escape in it is none of ours. */
static want_t want_of(const filter_t *f, const char *name, size_t length)
{
    unsigned bucket = length > 0 ? bucket_of(name, length) : 0;

    if (length == 0 || f->first[bucket] == NULL) {
        return WANT_NOT;
    }
    if (!f->more[bucket]) {
        return is_text(f->first[bucket], name, length) ? f->want[bucket] : WANT_NOT;
    }
    if (is_in(f->wanted->lists, name, length)) {
        return WANT_LIST;
    }
    if (is_in(f->wanted->names, name, length)) {
        return WANT_MEMBER;
    }
    return is_in(f->wanted->whole, name, length) ? WANT_WHOLE : WANT_NOT;
}

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

/* From '{' or '[' to behind the bracket that closes it. */
static const char *past_brackets(const char *at, const char *end)
{
    static const signed char steps[256] = {['{'] = 1, ['['] = 1, ['}'] = -1, [']'] = -1, ['"'] = 2};
    int64_t                  depth = 0;

    for (; at < end; at++) {
        signed char step;

        while (end - at > 8 && is_plain(at)) {
            at += 8;
        }
        step = steps[(unsigned char)*at];
        if (step == 0) {
            continue;
        }
        if (step == 2) {
            at = past_string(at, end);
            if (at == NULL) {
                return NULL;
            }
            at--;
            continue;
        }
        depth += step;
        if (depth == 0) {
            return at + 1;
        }
    }
    return NULL;
}

static const char *past_value(const char *at, const char *end)
{
    if (*at == '{' || *at == '[') {
        return past_brackets(at, end);
    }
    if (*at == '"') {
        return past_string(at, end);
    }
    while (at < end && *at != ',' && *at != '}' && *at != ']' && !is_blank(*at)) {
        at++;
    }
    return at;
}

typedef struct copy {
    const char *at, *end;
    char       *start, *out;
} copy_t;

static bool take_text(copy_t *c, const char *to, const filter_t *f);

static void keep_to(copy_t *c, const char *to)
{
    memmove(c->out, c->at, (size_t)(to - c->at));
    c->out += to - c->at;
    c->at = to;
}

/* With the comma behind it, or the one before it. */
static void drop_to(copy_t *c, const char *to)
{
    c->at = past_blanks(to);
    if (*c->at == ',') {
        c->at++;
    } else if (c->out > c->start && c->out[-1] == ',') {
        c->out--;
    }
}

/* Does an object begin with "name" and another name than those of the items? */
static bool is_other_item(const char *at, const char *end, const k3_wanted_t *wanted)
{
    static const char name[] = "\"name\"";
    const char       *behind;

    at = past_blanks(at + 1);
    if (strncmp(at, name, sizeof(name) - 1) != 0) {
        return false;
    }
    at = past_blanks(at + sizeof(name) - 1);
    at = *at == ':' ? past_blanks(at + 1) : at;
    behind = *at == '"' ? past_string(at, end) : NULL;
    return behind != NULL && !is_in(wanted->items, at + 1, (size_t)(behind - at) - 2);
}

/* An object without objects in it ends at the first closing brace, unless that stands in a string: then the
 * quotes before it are odd in number, or one is escaped. Counting is faster than stepping from string to
 * string. */
static const char *past_object(const char *at, const char *end)
{
    const char *brace = memchr(at, '}', (size_t)(end - at));
    unsigned    quotes = 0, others = 0;

    for (const char *c = at + 1; brace != NULL && c < brace; c++) {
        quotes += *c == '"';
        others += (*c == '{') + (*c == '\\');
    }
    return brace != NULL && others == 0 && quotes % 2 == 0 ? brace + 1 : past_brackets(at, end);
}

/* A list of objects. What is no such list is left to the caller, who goes on behind what was taken. */
static bool take_list(copy_t *c, const filter_t *f)
{
    const char *behind;
    bool        good = true;

    if (*c->at != '[') {
        return true;
    }
    *c->out++ = *c->at++;
    c->at = past_blanks(c->at);
    while (good && *c->at == '{') {
        behind = past_object(c->at, c->end);
        if (behind == NULL) {
            return false;
        }
        if (is_other_item(c->at, c->end, f->wanted)) {
            drop_to(c, behind);
        } else {
            good = take_text(c, behind, f);
            c->at = past_blanks(c->at);
            if (*c->at == ',') {
                *c->out++ = *c->at++;
            }
        }
        c->at = past_blanks(c->at);
    }
    return good;
}

/* A string: the name of a member, or a value. */
static bool take_string(copy_t *c, const filter_t *f)
{
    const char *behind = past_string(c->at, c->end), *value;
    want_t      want;

    if (behind == NULL) {
        return false;
    }
    value = past_blanks(behind);
    if (*value != ':') {
        keep_to(c, behind);
        return true;
    }
    want = want_of(f, c->at + 1, (size_t)(behind - c->at) - 2);
    value = past_blanks(value + 1);
    if (want == WANT_MEMBER || want == WANT_LIST) {
        keep_to(c, value);
        return want == WANT_MEMBER || take_list(c, f);
    }
    value = past_value(value, c->end);
    if (value == NULL) {
        return false;
    }
    if (want == WANT_WHOLE) {
        keep_to(c, value);
    } else {
        drop_to(c, value);
    }
    return true;
}

static bool take_text(copy_t *c, const char *to, const filter_t *f)
{
    while (c->at < to) {
        if (*c->at == '"') {
            if (!take_string(c, f)) {
                return false;
            }
        } else if (is_blank(*c->at)) {
            c->at++;
        } else {
            *c->out++ = *c->at++;
        }
    }
    return true;
}

size_t k3_brief_text(char *text, size_t length, const k3_wanted_t *wanted)
{
    filter_t f = {.wanted = wanted};
    copy_t   c = {.at = text, .end = text + length, .start = text, .out = text};

    add_names(&f, wanted->names, WANT_MEMBER);
    add_names(&f, wanted->whole, WANT_WHOLE);
    add_names(&f, wanted->lists, WANT_LIST);
    text[length] = '\0';
    return take_text(&c, text + length, &f) ? (size_t)(c.out - text) : 0;
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

/* NULL when anything is unusual. */
static json_t *read_brief(int fd, const k3_wanted_t *wanted)
{
    struct stat facts;
    char       *text;
    size_t      size, length;
    json_t     *document = NULL;

    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size > TEXT_MOST) {
        return NULL;
    }
    size = (size_t)facts.st_size;
    /* Pages of its own: a large block that comes and goes makes the allocator tidy up each time. */
    text = mmap(NULL, size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (text == MAP_FAILED) {
        return NULL;
    }
    if (read_all(fd, text, size)) {
        length = k3_brief_text(text, size, wanted);
        document = length > 0 ? json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL) : NULL;
    }
    (void)munmap(text, size + 1);
    return document;
}

/* What fails here is read again in full: then the fault is described with line and column. */
k3_status_t k3_document_read_brief(const char *path, const k3_wanted_t *wanted, json_t **document_p,
                                   k3_error_t *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    *document_p = NULL;
    if (fd >= 0) {
        *document_p = read_brief(fd, wanted);
        (void)close(fd);
    }
    return *document_p != NULL ? K3_OK : k3_document_read(path, document_p, err);
}
