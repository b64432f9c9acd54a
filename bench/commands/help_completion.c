/* Completion for shells. Values of options: the words of "a|b|c", names of backends and models, files. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cell/model.h"
#include "bench/commands/help.h"
#include "bench/profiles/profile.h"

static bool takes(const k3_option_def_t *def, const k3_command_t *command)
{
    return (def->commands & command->id) != 0;
}

static bool is_file(const k3_option_def_t *def)
{
    return def->metavar != NULL &&
           (strcmp(def->metavar, "FILE") == 0 || strcmp(def->metavar, "DIR") == 0);
}

/* The words that an option can have, each behind `before`; nothing when they cannot be listed. */
static void put_words(const k3_option_def_t *def, const char *before, FILE *out)
{
    if (strcmp(def->name, "backend") == 0 || strcmp(def->name, "baseline") == 0) {
        for (unsigned i = 0; i < k3_registry_count(); i++) {
            fprintf(out, "%s%s", before, k3_registry_at(i)->name);
        }
    } else if (strcmp(def->name, "model") == 0) {
        for (unsigned i = 0; i < k3_model_count(); i++) {
            fprintf(out, "%s%s", before, k3_model_at(i)->name);
        }
    } else if (def->metavar != NULL && strchr(def->metavar, '|') != NULL) {
        for (const char *at = def->metavar; *at != '\0' && *at != ',';) {
            size_t n = strcspn(at, "|,");

            fprintf(out, "%s%.*s", before, (int)n, at);
            at += n + (at[n] == '|');
        }
    }
}

/* --- bash ------------------------------------------------------------------------------------- */

static void put_bash_values(FILE *out)
{
    fputs("    case $prev in\n", out);
    for (size_t i = 0; i < k3_option_count; i++) {
        const k3_option_def_t *def = &k3_option_defs[i];

        if (def->metavar == NULL) {
            continue;
        }
        fprintf(out, "    --%s%s) ", def->name, strcmp(def->name, "output") == 0 ? " | -o" : "");
        if (is_file(def)) {
            fputs("_k3bench_files \"$cur\" ;;\n", out);
        } else {
            fputs("_k3bench_words \"$cur\"", out);
            put_words(def, " ", out);
            fputs(" ;;\n", out);
        }
    }
    fputs("    *) return 1 ;;\n    esac\n", out);
}

static void put_bash_options(const k3_command_t *const *commands, FILE *out)
{
    fputs("    case ${COMP_WORDS[1]} in\n", out);
    for (int c = 0; commands[c] != NULL; c++) {
        fprintf(out, "    %s) _k3bench_words \"$cur\"", commands[c]->name);
        for (size_t i = 0; i < k3_option_count; i++) {
            if (takes(&k3_option_defs[i], commands[c])) {
                fprintf(out, " --%s", k3_option_defs[i].name);
            }
        }
        fputs(" ;;\n", out);
    }
    fputs("    esac\n", out);
}

void k3_help_bash(const k3_command_t *const *commands, FILE *out)
{
    /* In a list only the last word is completed; ':' parts words of bash, which the prefix undoes. */
    fputs("# Completion of k3bench for bash, made by `k3bench help bash`.\n"
          "_k3bench_words() {\n"
          "    local cur=$1 front='' word\n"
          "    shift\n"
          "    [[ $cur != *,* ]] || front=${cur%,*},\n"
          "    COMPREPLY=()\n"
          "    for word; do\n"
          "        word=$front$word\n"
          "        [[ $word != \"$cur\"* ]] || COMPREPLY+=(\"${word#\"$colons\"}\")\n"
          "    done\n"
          "}\n"
          "_k3bench_files() {\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    mapfile -t COMPREPLY < <(compgen -f -- \"$1\")\n"
          "}\n"
          "_k3bench_value() {\n",
          out);
    put_bash_values(out);
    fputs("}\n_k3bench_option() {\n", out);
    put_bash_options(commands, out);
    fputs("}\n"
          "_k3bench() {\n"
          "    local line=${COMP_LINE:0:COMP_POINT} cur prev colons=''\n"
          "    cur=${line##* }\n"
          "    prev=${line% *}\n"
          "    prev=${prev##* }\n"
          "    [[ $cur != --*=* ]] || { prev=${cur%%=*}; colons=; cur=${cur#*=}; }\n"
          "    [[ $cur != *:* || $COMP_WORDBREAKS != *:* ]] || colons=${cur%:*}:\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        _k3bench_words \"$cur\"",
          out);
    for (int c = 0; commands[c] != NULL; c++) {
        fprintf(out, " %s", commands[c]->name);
    }
    fputs(" --help --version\n"
          "    elif ! _k3bench_value; then\n"
          "        if [[ $cur == -* ]]; then _k3bench_option; else _k3bench_files \"$cur\"; fi\n"
          "    fi\n"
          "}\n"
          "complete -F _k3bench k3bench\n",
          out);
}

/* --- zsh -------------------------------------------------------------------------------------- */

/* In single quotes; of a text of several lines the first. */
static void put_zsh_text(const char *text, FILE *out)
{
    for (; *text != '\0' && *text != '\n'; text++) {
        if (*text == '\'') {
            fputs("'\\''", out);
        } else {
            fputs(strchr("[]:\\", *text) != NULL ? "\\" : "", out);
            fputc(*text, out);
        }
    }
}

/* Lists are completed item by item. */
static void put_zsh_words(const k3_option_def_t *def, FILE *out)
{
    char  *words = NULL;
    size_t size;
    FILE  *memory = open_memstream(&words, &size);

    if (memory == NULL) {
        return;
    }
    put_words(def, " ", memory);
    fclose(memory);
    fputc(':', out);
    if (words[0] != '\0') {
        fputs("_sequence compadd -", out);
        put_zsh_text(words, out);
    }
    free(words);
}

static void put_zsh_option(const k3_option_def_t *def, FILE *out)
{
    fprintf(out, " \\\n        '--%s%s[", def->name, def->metavar != NULL ? "=" : "");
    put_zsh_text(def->help, out);
    fputc(']', out);
    if (is_file(def)) {
        fputs(":file:_files", out);
    } else if (def->metavar != NULL) {
        fputc(':', out);
        put_zsh_text(def->metavar, out);
        put_zsh_words(def, out);
    }
    fputc('\'', out);
}

void k3_help_zsh(const k3_command_t *const *commands, FILE *out)
{
    fputs("#compdef k3bench\n# Completion of k3bench for zsh, made by `k3bench help zsh`.\n"
          "_k3bench() {\n    local -a commands\n    commands=(\n",
          out);
    for (int c = 0; commands[c] != NULL; c++) {
        fprintf(out, "        '%s:", commands[c]->name);
        put_zsh_text(commands[c]->what, out);
        fputs("'\n", out);
    }
    fputs("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n        "
          "return\n    fi\n    case ${words[2]} in\n",
          out);
    for (int c = 0; commands[c] != NULL; c++) {
        fprintf(out, "    %s)\n        shift words\n        ((CURRENT--))\n        _arguments",
                commands[c]->name);
        for (size_t i = 0; i < k3_option_count; i++) {
            if (takes(&k3_option_defs[i], commands[c])) {
                put_zsh_option(&k3_option_defs[i], out);
            }
        }
        fputs(" \\\n        '*:file:_files' ;;\n", out);
    }
    fputs("    esac\n}\n_k3bench \"$@\"\n", out);
}
