#include <stdlib.h>
#include <string.h>

#include "harness/base/options.h"

enum { WIDTH = 100, HELP_COLUMN = 30 };

static void put_spaces(FILE *out, size_t count)
{
    (void)fprintf(out, "%*s", (int)count, "");
}

/* Breaks at blanks so that no line passes WIDTH; a single longer word stays whole. Starts in column
 * HELP_COLUMN and comes back there after each break. */
static void put_wrapped(FILE *out, const char *text)
{
    size_t column = HELP_COLUMN;

    while (*text != '\0') {
        size_t blanks = strspn(text, " ");
        size_t word = strcspn(text + blanks, " \n");
        bool   fits = column + blanks + word <= WIDTH || column == HELP_COLUMN;

        if (!fits) {
            (void)fputc('\n', out);
            put_spaces(out, HELP_COLUMN);
            column = HELP_COLUMN;
            blanks = 0;
            text += strspn(text, " ");
        }
        (void)fprintf(out, "%.*s", (int)(blanks + word), text);
        column += blanks + word;
        text += blanks + word;
        if (*text == '\n') {
            (void)fputc('\n', out);
            put_spaces(out, HELP_COLUMN);
            column = HELP_COLUMN;
            text++;
        }
    }
    (void)fputc('\n', out);
}

static char *help_with_default(const k3_option_def_t *def)
{
    const char *fallback = def->fallback != NULL ? def->fallback : "";
    size_t      bytes = strlen(def->help) + strlen(fallback) + sizeof(" (default: )");
    char       *text = malloc(bytes);

    if (text != NULL && def->fallback != NULL) {
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
    put_wrapped(out, help != NULL ? help : def->help);
    free(help);
}

void k3_options_help(const k3_option_table_t *table, FILE *out)
{
    for (size_t i = 0; i < table->count; i++) {
        if ((table->defs[i].commands & table->command) != 0) {
            put_option(&table->defs[i], out);
        }
    }
}
