#include "harness/base/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/inifile.h"
#include "harness/base/log.h"

#define ENVIRONMENT_PREFIX "K3BENCH_"

/* The table's entry that names the ini file. */
#define FILE_OPTION "options"

enum { NAME_BYTES = 64, NOT_FOUND = -1 };

extern char **environ;

typedef struct slot {
    char       *value; /* NULL: unset */
    k3_origin_t origin;
    int         line;       /* in the ini file, 0: does not stand there */
    bool        in_section; /* that line */
} slot_t;

struct k3_options {
    k3_option_table_t table;
    slot_t           *slots; /* one per entry of the table */
    char            **positional;
    size_t            positional_count;
    bool              parted;
    size_t            first_group;
};

static void *checked(void *pointer)
{
    if (pointer == NULL) {
        k3_log_error("out of memory while reading the options");
        abort();
    }
    return pointer;
}

static bool takes(const k3_option_table_t *table, size_t i)
{
    return (table->defs[i].commands & table->command) != 0;
}

/* `length` bytes of `name`, which may end with '='; NOT_FOUND if the table has no such entry. */
static int find_option(const k3_option_table_t *table, const char *name, size_t length)
{
    for (size_t i = 0; i < table->count; i++) {
        const char *known = table->defs[i].name;

        if (strlen(known) == length && memcmp(known, name, length) == 0) {
            return (int)i;
        }
    }
    return NOT_FOUND;
}

static size_t must_find(const k3_options_t *options, const char *name)
{
    int i = find_option(&options->table, name, strlen(name));

    if (i == NOT_FOUND) {
        k3_log_error("option '%s' is not in the table of options", name);
        abort();
    }
    return (size_t)i;
}

static const char *nearest_option(const k3_option_table_t *table, const char *name,
                                  bool only_of_command)
{
    const char **names = checked(calloc(table->count + 1, sizeof(*names)));
    size_t       count = 0;

    for (size_t i = 0; i < table->count; i++) {
        if (!only_of_command || takes(table, i)) {
            names[count++] = table->defs[i].name;
        }
    }

    const char *near = k3_nearest(name, names);

    free(names);
    return near;
}

/* Copies at most `room` - 1 bytes with every byte through `map`. */
static void map_name(char *out, size_t room, const char *name, size_t length, char (*map)(char))
{
    size_t used = 0;

    while (used < length && used + 1 < room) {
        out[used] = map(name[used]);
        used++;
    }
    out[used] = '\0';
}

/* "max_tokens" and "MAX_TOKENS" both mean "max-tokens"; only the environment is in capitals. */
static char dash_for_underscore(char c)
{
    return c == '_' ? '-' : c;
}

static char from_environment(char c)
{
    return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

static char to_environment(char c)
{
    return c == '-' ? '_' : (char)toupper((unsigned char)c);
}

static char same(char c)
{
    return c;
}

/* --- storing --------------------------------------------------------------------------------- */

/* Sources come in any order: a value yields to one of the same or a higher origin. `where` names
 * the source in messages. */
static k3_status_t store(k3_options_t *options, size_t i, const char *value, k3_origin_t origin,
                         const char *where, k3_error_t *err)
{
    const k3_option_def_t *def = &options->table.defs[i];
    slot_t                *slot = &options->slots[i];

    if (def->metavar == NULL && strcmp(value, "on") != 0 && strcmp(value, "off") != 0) {
        return k3_fail(err, K3_ERR_USAGE, "%s: '%.80s' is no value of a switch: on or off", where,
                       value);
    }
    if (origin >= slot->origin) {
        char *copy = checked(strdup(value));

        free(slot->value);
        slot->value = copy;
        slot->origin = origin;
    }
    return K3_OK;
}

static void store_defaults(k3_options_t *options)
{
    for (size_t i = 0; i < options->table.count; i++) {
        const k3_option_def_t *def = &options->table.defs[i];
        const char            *fallback = def->fallback;

        if (fallback == NULL && def->metavar == NULL) {
            fallback = "off";
        }
        options->slots[i].value = fallback == NULL ? NULL : checked(strdup(fallback));
    }
}

/* --- the command line ------------------------------------------------------------------------ */

typedef struct words {
    int    argc;
    char **argv;
    int    next;
} words_t;

static k3_status_t refuse_word(const k3_option_table_t *table, const char *name, const char *text,
                               bool known, k3_error_t *err)
{
    const char *near = nearest_option(table, name, true);

    if (known) {
        return k3_fail(err, K3_ERR_USAGE, "option '--%s' is not for this command", name);
    }
    if (near != NULL) {
        return k3_fail(err, K3_ERR_USAGE, "unknown option '%.80s'; the nearest known one is '--%s'",
                       text, near);
    }
    return k3_fail(err, K3_ERR_USAGE, "unknown option '%.80s'; --help shows the known ones", text);
}

/* The value of the entry: after '=', or the next word; a switch takes no word. NULL: there is none.
 */
static const char *take_value(const k3_option_def_t *def, const char *equals, words_t *words)
{
    if (equals != NULL) {
        return equals + 1;
    }
    if (def->metavar == NULL) {
        return "on";
    }
    /* What looks like an option is a forgotten value, not a value; "--name=--x" can say otherwise.
     */
    if (words->next == words->argc || strncmp(words->argv[words->next], "--", 2) == 0) {
        return NULL;
    }
    return words->argv[words->next++];
}

/* What follows the dashes; NULL for a short option that does not exist. */
static const char *body_of(const char *word)
{
    if (strcmp(word, "-o") == 0) {
        return "output";
    }
    return word[1] == '-' ? word + 2 : NULL;
}

static k3_status_t take_option(k3_options_t *options, const char *word, words_t *words,
                               k3_error_t *err)
{
    const k3_option_table_t *table = &options->table;
    const char              *body = body_of(word);
    const char              *start = body != NULL ? body : word + 1;
    const char              *equals = strchr(start, '=');
    size_t                   length = equals == NULL ? strlen(start) : (size_t)(equals - start);
    char                     name[NAME_BYTES], where[NAME_BYTES + 2];
    int                      i = body != NULL ? find_option(table, start, length) : NOT_FOUND;

    map_name(name, sizeof(name), start, length, same);
    if (i == NOT_FOUND || !takes(table, (size_t)i)) {
        return refuse_word(table, name, word, i != NOT_FOUND, err);
    }

    const k3_option_def_t *def = &table->defs[i];
    const char            *value = take_value(def, equals, words);

    if (value == NULL) {
        return k3_fail(err, K3_ERR_USAGE, "option '--%s' needs a value: --%s %s", def->name,
                       def->name, def->metavar);
    }
    (void)snprintf(where, sizeof(where), "--%s", name);
    return store(options, (size_t)i, value, K3_ORIGIN_COMMAND_LINE, where, err);
}

static void add_positional(k3_options_t *options, const char *word)
{
    options->positional[options->positional_count++] = checked(strdup(word));
}

static k3_status_t read_command_line(k3_options_t *options, int argc, char **argv, k3_error_t *err)
{
    words_t words = {.argc = argc, .argv = argv};
    bool    all_options = true;

    options->positional = checked(calloc((size_t)argc + 1, sizeof(*options->positional)));
    while (words.next < argc) {
        const char *word = argv[words.next++];

        if (options->table.groups && !options->parted && strcmp(word, "--") == 0) {
            options->parted = true;
            options->first_group = options->positional_count;
        } else if (all_options && strcmp(word, "--") == 0) {
            all_options = false;
        } else if (all_options && word[0] == '-' && word[1] != '\0') {
            k3_status_t status = take_option(options, word, &words, err);

            if (status != K3_OK) {
                return status;
            }
        } else {
            add_positional(options, word);
        }
    }
    return K3_OK;
}

/* --- the environment ------------------------------------------------------------------------- */

static k3_status_t refuse_variable(const k3_option_table_t *table, const char *variable,
                                   size_t length, k3_error_t *err)
{
    size_t      prefix = strlen(ENVIRONMENT_PREFIX);
    char        name[NAME_BYTES], near_variable[NAME_BYTES];
    int         shown = length < 80 ? (int)length : 80;
    const char *near = NULL;

    map_name(name, sizeof(name), variable + prefix, length - prefix, from_environment);
    near = nearest_option(table, name, false);
    if (near == NULL) {
        return k3_fail(err, K3_ERR_USAGE, "unknown variable %.*s in the environment", shown,
                       variable);
    }
    map_name(near_variable, sizeof(near_variable), near, strlen(near), to_environment);
    return k3_fail(err, K3_ERR_USAGE,
                   "unknown variable %.*s in the environment; the nearest known one is %s%s", shown,
                   variable, ENVIRONMENT_PREFIX, near_variable);
}

/* NOT_FOUND unless the variable is spelt in capitals throughout. */
static int find_variable(const k3_option_table_t *table, const char *name, size_t length)
{
    for (size_t i = 0; i < table->count; i++) {
        const char *known = table->defs[i].name;
        size_t      same_bytes = 0;

        if (strlen(known) != length) {
            continue;
        }
        while (same_bytes < length && to_environment(known[same_bytes]) == name[same_bytes]) {
            same_bytes++;
        }
        if (same_bytes == length) {
            return (int)i;
        }
    }
    return NOT_FOUND;
}

static k3_status_t read_variable(k3_options_t *options, const char *variable, k3_error_t *err)
{
    size_t      prefix = strlen(ENVIRONMENT_PREFIX);
    const char *equals = strchr(variable, '=');

    if (equals == NULL || strncmp(variable, ENVIRONMENT_PREFIX, prefix) != 0) {
        return K3_OK;
    }

    size_t length = (size_t)(equals - variable);
    int    i = find_variable(&options->table, variable + prefix, length - prefix);
    char   where[NAME_BYTES];

    if (i == NOT_FOUND) {
        return refuse_variable(&options->table, variable, length, err);
    }
    if (!takes(&options->table, (size_t)i)) {
        return K3_OK;
    }
    map_name(where, sizeof(where), variable, length, same);
    return store(options, (size_t)i, equals + 1, K3_ORIGIN_ENVIRONMENT, where, err);
}

static k3_status_t read_environment(k3_options_t *options, k3_error_t *err)
{
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        k3_status_t status = read_variable(options, *variable, err);

        if (status != K3_OK) {
            return status;
        }
    }
    return K3_OK;
}

/* --- the file -------------------------------------------------------------------------------- */

static k3_status_t refuse_key(const k3_option_table_t *table, const k3_ini_entry_t *entry,
                              const char *name, k3_error_t *err)
{
    const char *near = nearest_option(table, name, false);

    if (near == NULL) {
        return k3_fail(err, K3_ERR_USAGE, "%.200s:%d: unknown key '%.80s'", entry->path,
                       entry->line, entry->key);
    }
    return k3_fail(err, K3_ERR_USAGE,
                   "%.200s:%d: unknown key '%.80s'; the nearest known one is '%s'", entry->path,
                   entry->line, entry->key, near);
}

/* A key may stand once before the first head, and once more in the section that is read. */
static k3_status_t note_line(k3_options_t *options, size_t i, const k3_ini_entry_t *entry,
                             k3_error_t *err)
{
    slot_t *slot = &options->slots[i];
    bool    in_section = options->table.section != NULL && entry->section[0] != '\0';

    if (slot->line != 0 && slot->in_section == in_section) {
        return k3_fail(err, K3_ERR_USAGE, "%.200s:%d: key '%s' already stands in line %d",
                       entry->path, entry->line, options->table.defs[i].name, slot->line);
    }
    slot->line = entry->line;
    slot->in_section = in_section;
    return K3_OK;
}

static bool counts(const k3_option_table_t *table, const char *section)
{
    return table->section == NULL || section[0] == '\0' || strcmp(section, table->section) == 0;
}

static k3_status_t read_entry(void *user, const k3_ini_entry_t *entry, k3_error_t *err)
{
    k3_options_t *options = user;
    size_t        length = entry->key != NULL ? strlen(entry->key) : 0;
    char          name[NAME_BYTES], where[256];

    if (entry->key == NULL) {
        return K3_OK;
    }
    map_name(name, sizeof(name), entry->key, length, dash_for_underscore);

    int i = length < sizeof(name) ? find_option(&options->table, name, length) : NOT_FOUND;

    if (i == NOT_FOUND) {
        return refuse_key(&options->table, entry, name, err);
    }
    if (strcmp(name, FILE_OPTION) == 0) {
        return k3_fail(err, K3_ERR_USAGE, "%.200s:%d: an options file cannot name another one",
                       entry->path, entry->line);
    }
    if (!counts(&options->table, entry->section) ||
        note_line(options, (size_t)i, entry, err) != K3_OK || !takes(&options->table, (size_t)i)) {
        return err->status;
    }
    (void)snprintf(where, sizeof(where), "%.160s:%d: %s", entry->path, entry->line, name);
    return store(options, (size_t)i, entry->value, K3_ORIGIN_FILE, where, err);
}

static k3_status_t read_file(k3_options_t *options, k3_error_t *err)
{
    int         i = find_option(&options->table, FILE_OPTION, strlen(FILE_OPTION));
    const char *path = options->table.file;

    if (path == NULL && i != NOT_FOUND && takes(&options->table, (size_t)i)) {
        path = options->slots[i].value;
    }
    return path != NULL ? k3_ini_read(path, read_entry, options, err) : K3_OK;
}

/* --- the object ------------------------------------------------------------------------------ */

k3_status_t k3_options_parse(const k3_option_table_t *table, int argc, char **argv,
                             k3_options_t **options_p, k3_error_t *err)
{
    k3_options_t *options = checked(calloc(1, sizeof(*options)));
    k3_status_t   status;

    options->table = *table;
    options->slots = checked(calloc(table->count + 1, sizeof(*options->slots)));
    *options_p = NULL;
    store_defaults(options);
    status = read_command_line(options, argc, argv, err);
    if (status == K3_OK) {
        status = read_environment(options, err);
    }
    if (status == K3_OK) {
        status = read_file(options, err);
    }
    if (status != K3_OK) {
        k3_options_free(options);
        return status;
    }
    *options_p = options;
    return K3_OK;
}

void k3_options_free(k3_options_t *options)
{
    if (options == NULL) {
        return;
    }
    for (size_t i = 0; i < options->table.count; i++) {
        free(options->slots[i].value);
    }
    for (size_t i = 0; i < options->positional_count; i++) {
        free(options->positional[i]);
    }
    free(options->slots);
    free(options->positional);
    free(options);
}

const char *k3_options_get(const k3_options_t *options, const char *name)
{
    return options->slots[must_find(options, name)].value;
}

bool k3_options_on(const k3_options_t *options, const char *name)
{
    const char *value = k3_options_get(options, name);

    return value != NULL && strcmp(value, "on") == 0;
}

k3_origin_t k3_options_origin(const k3_options_t *options, const char *name)
{
    return options->slots[must_find(options, name)].origin;
}

const char *k3_origin_name(k3_origin_t origin)
{
    switch (origin) {
    case K3_ORIGIN_DEFAULT:
        return "default";
    case K3_ORIGIN_FILE:
        return "file";
    case K3_ORIGIN_ENVIRONMENT:
        return "environment";
    case K3_ORIGIN_COMMAND_LINE:
        return "command line";
    }
    return "unknown";
}

size_t k3_options_positional_count(const k3_options_t *options)
{
    return options->positional_count;
}

size_t k3_options_first_group(const k3_options_t *options, bool *parted)
{
    *parted = options->parted;
    return options->parted ? options->first_group : options->positional_count;
}

const char *k3_options_positional(const k3_options_t *options, size_t i)
{
    return i < options->positional_count ? options->positional[i] : NULL;
}
