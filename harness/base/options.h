/* Options from one table: the command line, an ini file (--options FILE) and K3BENCH_NAME in the
 * environment are three ways to the same entry, and help text, validation of names and the echo in
 * the record come from the table too.
 *
 * Precedence, highest first: command line, environment, file, default. */
#ifndef K3_BASE_OPTIONS_H
#define K3_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "harness/base/status.h"

typedef struct k3_option_def {
    const char *name;     /* without dashes: "max-tokens" (environment: K3BENCH_MAX_TOKENS) */
    const char *metavar;  /* NULL: a switch, "off" or "on" */
    const char *fallback; /* default as text; NULL: unset */
    const char
            *help; /* '\n' counts as a blank; completion shows what stands in front of the first */
    unsigned commands; /* bit mask of the commands that take it */
} k3_option_def_t;

typedef struct k3_option_table {
    const k3_option_def_t *defs;
    size_t                 count;
    unsigned               command; /* the one bit of the command being parsed */
    bool                   groups;  /* "--" parts two groups of positional words; options go on */
    const char            *file;    /* the ini file to read; NULL: the one that --options names */
    /* Of the ini file, the section whose keys count, with those before the first head, over which they
     * go. NULL: heads mean nothing. */
    const char *section;
    /* Help: options that no other command takes come first, and this line before the others. NULL: the
     * order of the table. */
    const char *own_first;
} k3_option_table_t;

typedef enum k3_origin {
    K3_ORIGIN_DEFAULT,
    K3_ORIGIN_FILE,
    K3_ORIGIN_ENVIRONMENT,
    K3_ORIGIN_COMMAND_LINE
} k3_origin_t;

typedef struct k3_options k3_options_t;

/* Parses `argv` (without program and command). Words that are no options are positional. `--name V`,
 * `--name=V`, switches as `--name` or `--name=on|off`; "--" ends the options; "-o V" is "--output V"
 * where the table has an entry "output". An option given twice on the command line: the last one
 * counts. Unknown names, in any of the three sources (environment names with the prefix K3BENCH_
 * included), are refused with the nearest known one. An entry of the table that the command does not
 * take is refused on the command line, and ignored in file and environment. On success
 * the caller frees *options_p with k3_options_free. */
k3_status_t k3_options_parse(const k3_option_table_t *table, int argc, char **argv,
                             k3_options_t **options_p, k3_error_t *err);
void        k3_options_free(k3_options_t *options);

/* The value as text, NULL when unset. `name` must be in the table (else the program aborts). */
const char *k3_options_get(const k3_options_t *options, const char *name);
bool        k3_options_on(const k3_options_t *options, const char *name); /* the value is "on" */
k3_origin_t k3_options_origin(const k3_options_t *options, const char *name);
const char *
k3_origin_name(k3_origin_t origin); /* "default", "file", "environment", "command line" */

size_t      k3_options_positional_count(const k3_options_t *options);
const char *k3_options_positional(const k3_options_t *options, size_t i);
/* Words of the first group; all of them when there was no "--". *parted: there was one. */
size_t k3_options_first_group(const k3_options_t *options, bool *parted);

/* Prints the options of the table's command, wrapped to 100 columns. */
void k3_options_help(const k3_option_table_t *table, FILE *out);

/* A paragraph whose first line already stands in column `indent`, where the others begin; breaks at blanks
 * so that no line passes `width`, a longer word stays whole. */
void k3_put_wrapped(const char *text, size_t indent, size_t width, FILE *out);

/* --- values ---------------------------------------------------------------------------------- */

/* A whole number with an optional suffix k, M, G (powers of ten) or Ki, Mi, Gi; nothing else may
 * follow. The message names the option, the text and the bounds. */
k3_status_t k3_parse_u64(const char *option, const char *text, uint64_t min, uint64_t max,
                         uint64_t *value, k3_error_t *err);

/* A finite decimal number. */
k3_status_t k3_parse_double(const char *option, const char *text, double min, double max,
                            double *value, k3_error_t *err);

/* One of `names` (NULL-terminated); *index is its position. Refused with the nearest known one. */
k3_status_t k3_parse_name(const char *option, const char *text, const char *const *names,
                          size_t *index, k3_error_t *err);

/* "on" or "off". */
k3_status_t k3_parse_switch(const char *option, const char *text, bool *on, k3_error_t *err);

/* The entry of `names` (NULL-terminated) with the smallest edit distance to `text`; NULL when nothing
 * is near (distance above half the length of the word). */
const char *k3_nearest(const char *text, const char *const *names);

/* Splits at `separator`; empty items are kept. Free with k3_list_free. */
typedef struct k3_list {
    char **items;
    size_t count;
} k3_list_t;

void k3_list_split(const char *text, char separator, k3_list_t *list);
void k3_list_add(k3_list_t *list, const char *item); /* a copy of it */
void k3_list_free(k3_list_t *list);

#endif
