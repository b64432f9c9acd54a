#include "harness/base/inifile.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_BYTES = 1 << 20, VALUE_MAX = 4096 };

typedef struct reading {
    const char *path;
    const char *next; /* rest of the text */
    const char *end;
    int         line; /* number of the line that inih holds */
    char        section[K3_INI_SECTION_MAX];
    char       *list; /* [VALUE_MAX] a value that ends with a comma, so far; empty: there is none */
    int         list_line; /* where it begins */
    k3_ini_take_t take;
    void         *user;
    k3_error_t    fault; /* the first one; nothing is read after it */
} reading_t;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool check_line(reading_t *reading, const char *start, size_t length, size_t limit)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)start[i];

        if ((c < 0x20 && !is_blank((char)c)) || c == 0x7f) {
            k3_fail(&reading->fault, K3_ERR_USAGE,
                    "%s:%d: byte 0x%02x in column %zu; an options file is plain text",
                    reading->path, reading->line, c, i + 1);
            return false;
        }
    }
    if (length > limit) {
        k3_fail(
            &reading->fault, K3_ERR_USAGE,
            "%s:%d: line of %zu bytes; the limit is %zu (a list that ends with a comma goes on in "
            "the next line)",
            reading->path, reading->line, length, limit);
        return false;
    }
    return true;
}

static bool hand_over(reading_t *reading, int line, const char *key, const char *value)
{
    k3_ini_entry_t entry = {.path = reading->path,
                            .line = line,
                            .section = reading->section,
                            .key = key,
                            .value = value};

    return reading->take(reading->user, &entry, &reading->fault) == K3_OK;
}

/* A list at whose comma the text or its section ends. */
static bool is_open(reading_t *reading)
{
    if (reading->list[0] == '\0') {
        return false;
    }
    k3_fail(&reading->fault, K3_ERR_USAGE, "%s:%d: the list ends with a comma, nothing follows it",
            reading->path, reading->list_line);
    return true;
}

/* inih cuts long names of sections without a word and says nothing of a section without keys, so heads are
 * read here. All lines before this one have been handed over. */
static bool take_head(reading_t *reading, const char *start, size_t length)
{
    const char *end = memchr(start, ']', length), *first = start + 1, *stop = end, *rest;

    if (is_open(reading)) {
        return false;
    }
    if (end == NULL) {
        return true; /* inih names the line */
    }
    for (rest = end + 1; rest < start + length && is_blank(*rest);) {
        rest++;
    }
    while (first < stop && is_blank(*first)) {
        first++;
    }
    while (stop > first && is_blank(stop[-1])) {
        stop--;
    }
    if (first == stop || stop - first >= K3_INI_SECTION_MAX ||
        (rest < start + length && *rest != ';' && *rest != '#')) {
        k3_fail(&reading->fault, K3_ERR_USAGE,
                "%s:%d: '%.*s' is no head of a section: [NAME], at most %d bytes", reading->path,
                reading->line, length < 60 ? (int)length : 60, start, K3_INI_SECTION_MAX - 1);
        return false;
    }
    memcpy(reading->section, first, (size_t)(stop - first));
    reading->section[stop - first] = '\0';
    return hand_over(reading, reading->line, NULL, NULL);
}

/* Whether a line looks like an option and not like more of a list: a name in small letters, then '=', or ':' and a
 * blank. Keys of a model are large letters, modes of a backend follow their ':' at once. */
static bool looks_like_option(const char *start, const char *stop)
{
    const char *at = start;

    while (at < stop && ((*at >= 'a' && *at <= 'z') || *at == '-' || *at == '_' ||
                         (at > start && *at >= '0' && *at <= '9'))) {
        at++;
    }
    if (at == start || (at < stop && *at == ':' && (at + 1 == stop || is_blank(at[1])))) {
        return at > start;
    }
    while (at < stop && is_blank(*at)) {
        at++;
    }
    return at < stop && *at == '=';
}

/* The end of what a line says in front of a comment. inih looks for none where a value goes on. */
static const char *stop_at_comment(const char *start, const char *stop)
{
    for (const char *at = start + 1; at < stop; at++) {
        if (*at == ';' && is_blank(at[-1])) {
            stop = at;
        }
    }
    while (start < stop && is_blank(stop[-1])) {
        stop--;
    }
    return stop;
}

/* fgets for inih. It cuts a line that does not fit its buffer and takes the rest for a new one, so
 * long lines stop here; it takes an indented line for more of the value above, so blanks in front
 * go, and one comes where the value above is a list that goes on. */
static char *next_line(char *buffer, int room, void *stream)
{
    reading_t *reading = stream;

    if (reading->fault.status != K3_OK || reading->next == reading->end) {
        return NULL;
    }

    const char *start = reading->next;
    const char *newline = memchr(start, '\n', (size_t)(reading->end - start));
    const char *stop = newline == NULL ? reading->end : newline;

    reading->line++;
    reading->next = newline == NULL ? reading->end : newline + 1;
    while (start < stop && is_blank(*start)) {
        start++;
    }
    while (start < stop && is_blank(stop[-1])) {
        stop--;
    }

    size_t indent = reading->list[0] != '\0';

    if (indent && looks_like_option(start, stop)) {
        k3_fail(
            &reading->fault, K3_ERR_USAGE,
            "%s:%d: the list of line %d ends with a comma, but this line is an option of its own",
            reading->path, reading->line, reading->list_line);
        return NULL;
    }

    if (!check_line(reading, start, (size_t)(stop - start), (size_t)room - 2 - indent)) {
        return NULL;
    }

    size_t length = (size_t)((indent ? stop_at_comment(start, stop) : stop) - start);

    buffer[0] = ' ';
    memcpy(buffer + indent, start, length);
    memcpy(buffer + indent + length, "\n", 2);
    if (length > 0 && start[0] == '[') {
        return take_head(reading, start, length) ? buffer : NULL;
    }
    return buffer;
}

static int handle_entry(void *user, const char *section, const char *key, const char *value)
{
    reading_t *reading = user;
    size_t     had = strlen(reading->list), more = strlen(value);
    bool       goes_on = more > 0 && value[more - 1] == ',', handed;

    (void)section;
    if (had == 0 && !goes_on) {
        return hand_over(reading, reading->line, key, value);
    }
    if (had + more >= VALUE_MAX) {
        k3_fail(&reading->fault, K3_ERR_USAGE, "%s:%d: a value of %zu bytes; the limit is %d",
                reading->path, reading->line, had + more, VALUE_MAX - 1);
        return 0;
    }
    reading->list_line = had == 0 ? reading->line : reading->list_line;
    memcpy(reading->list + had, value, more + 1);
    if (goes_on) {
        return 1;
    }
    handed = hand_over(reading, reading->list_line, key, reading->list);
    reading->list[0] = '\0';
    return handed;
}

static k3_status_t read_text(const char *path, char *text, size_t room, size_t *length,
                             k3_error_t *err)
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        return k3_fail(err, K3_ERR_IO, "options file '%.200s': %s", path, strerror(errno));
    }
    *length = fread(text, 1, room, file);

    k3_status_t status = K3_OK;

    if (ferror(file) != 0) {
        status = k3_fail(err, K3_ERR_IO, "options file '%.200s': %s", path, strerror(errno));
    } else if (*length == room) {
        status = k3_fail(err, K3_ERR_IO, "options file '%.200s': more than %d bytes", path,
                         FILE_MAX_BYTES);
    }
    (void)fclose(file);
    return status;
}

static k3_status_t parse_text(reading_t *reading, k3_error_t *err)
{
    int rc = ini_parse_stream(next_line, reading, handle_entry, reading);

    /* inih gives the first line in error and reads on; ours may be a later one, or one it never
     * saw. */
    if (reading->fault.status == K3_OK && rc == 0) {
        (void)is_open(reading);
    }
    if (rc > 0 && (reading->fault.status == K3_OK || rc < reading->line)) {
        return k3_fail(err, K3_ERR_USAGE, "%s:%d: neither 'key = value' nor '[section]'",
                       reading->path, rc);
    }
    if (reading->fault.status != K3_OK) {
        return k3_fail(err, reading->fault.status, "%s", reading->fault.text);
    }
    if (rc < 0) {
        return k3_fail(err, K3_ERR_IO, "options file '%.200s': inih gave %d", reading->path, rc);
    }
    return K3_OK;
}

k3_status_t k3_ini_read(const char *path, k3_ini_take_t take, void *user, k3_error_t *err)
{
    size_t length = 0;
    char  *text = malloc(FILE_MAX_BYTES + 1 + VALUE_MAX), *list;

    if (text == NULL) {
        return k3_fail(err, K3_ERR_ENV, "options file '%.200s': no memory to read it", path);
    }

    k3_status_t status = read_text(path, text, FILE_MAX_BYTES + 1, &length, err);

    if (status == K3_OK) {
        list = text + FILE_MAX_BYTES + 1;
        list[0] = '\0';
        reading_t reading = {.path = path,
                             .list = list,
                             .next = text,
                             .end = text + length,
                             .take = take,
                             .user = user,
                             .fault = K3_ERROR_INIT};

        status = parse_text(&reading, err);
    }
    free(text);
    return status;
}
