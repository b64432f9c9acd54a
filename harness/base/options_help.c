#include <stdlib.h>
#include <string.h>

#include "harness/base/options.h"

enum { WIDTH = 100, HELP_COLUMN = 30 };

static void put_spaces(FILE *out, size_t count)
{
    (void)fprintf(out, "%*s", (int)count, "");
}

void k3_put_wrapped(const char *text, size_t indent, size_t width, FILE *out)
{
    size_t column = indent;

    text += strspn(text, " \n");
    while (*text != '\0') {
        size_t word = strcspn(text, " \n");

        if (column > indent && column + 1 + word > width) {
            (void)fputc('\n', out);
            put_spaces(out, indent);
            column = indent;
        }
        column += (size_t)fprintf(out, "%s%.*s", column > indent ? " " : "", (int)word, text);
        text += word;
        text += strspn(text, " \n");
    }
    (void)fputc('\n', out);
}

static char *help_with_default(const k3_option_def_t *def)
{
    const char *fallback = def->fallback != NULL ? def->fallback : "";
    size_t      bytes = strlen(def->help) + strlen(fallback) + sizeof(" (default: )");
    char       *text = malloc(bytes);

    /* A switch is off until it is given, which needs no words. */
    if (text != NULL && def->fallback != NULL && def->metavar != NULL) {
        (void)snprintf(text, bytes, "%s (default: %s)", def->help, fallback);
    } else if (text != NULL) {
        (void)snprintf(text, bytes, "%s", def->help);
    }
    return text;
}

static void put_option(const k3_option_def_t *def, FILE *out)
{
    char  *help = help_with_default(def);
    size_t column = strlen("  --") + strlen(def->name);

    (void)fprintf(out, "  --%s", def->name);
    if (def->metavar != NULL) {
        (void)fprintf(out, " %s", def->metavar);
        column += 1 + strlen(def->metavar);
    }
    if (column + 2 > HELP_COLUMN) {
        (void)fputc('\n', out);
        column = 0;
    }
    put_spaces(out, HELP_COLUMN - column);
    k3_put_wrapped(help != NULL ? help : def->help, HELP_COLUMN, WIDTH, out);
    free(help);
}

void k3_options_help(const k3_option_table_t *table, FILE *out)
{
    for (size_t i = 0; i < table->count && table->own_first != NULL; i++) {
        if (table->defs[i].commands == table->command) {
            put_option(&table->defs[i], out);
        }
    }
    if (table->own_first != NULL) {
        (void)fprintf(out, "\n%s\n", table->own_first);
    }
    for (size_t i = 0; i < table->count; i++) {
        if ((table->defs[i].commands & table->command) != 0 &&
            (table->own_first == NULL || table->defs[i].commands != table->command)) {
            put_option(&table->defs[i], out);
        }
    }
}
