/* k3bench help: commands, questions of method, the manual page, completion for shells. */
#include "bench/commands/help.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench/commands/plan_rules.h"
#include "harness/base/log.h"
#include "harness/base/options.h"

/* BENCHMARKS.md as it was when the program was built: the method has one text, and this is it. */
extern const char k3_method_text[];

/* What is asked for, and the heading that answers. */
static const struct topic {
    const char *name, *heading, *what;
} topics[] = {
    {"timed", "What is timed", "what lies inside an iteration and what outside"},
    {"iterations", "Iterations", "warm-up, number of iterations, when they end"},
    {"sync", "Starts and spans", "how iterations begin, and times on the global clock"},
    {"phases", "Phases", "every phase and total, and where each begins and ends"},
    {"overlap", "Overlap", "what a fused backend hides"},
    {"reduction", "Statistics", "over ranks, over iterations, intervals"},
    {"counting", "Counting", "messages, signals, doorbells, bytes"},
    {"basis", "Rates", "which bytes a rate counts"},
    {"qps", "Queue pairs", "accounts of the lanes"},
    {"waits", "Waits", "who waits for whom"},
    {"patterns", "Patterns", "who holds a cell back"},
    {"imbalance", "Imbalance", "max over mean of experts, ranks, queue pairs"},
    {"check", "Check", "the oracle and its tolerances"},
    {"faults", "Faults", "dead and late ranks"},
    {"signals", "Order of signals", "what orders a signal behind its data"},
    {"memory", "Memory", "buffers and weights"},
    {"components", "Components", "parts of the region on their own"},
    {"clock", "The clock", "what times are read from"},
    {"verdicts", "Comparing", "better, worse, same, inconclusive"},
    {"gate", "History and gate", "baselines, change points, balance"},
    {"columns", "Columns of plan", "what stands in the tables of plan"},
    {"prediction", "Prediction", "how times of a machine are predicted, and how far off they are"},
};

enum { TOPICS = sizeof(topics) / sizeof(topics[0]) };

/* Words that people look for. */
static const struct alias {
    const char *word, *topic;
} aliases[] = {
    {"predictions", "prediction"}, {"predict", "prediction"},
    {"limit", "prediction"},       {"limits", "prediction"},
    {"latency", "prediction"},     {"machine", "prediction"},
    {"bound", "prediction"},       {"error", "prediction"},
    {"column", "columns"},         {"table", "columns"},
    {"tables", "columns"},         {"left", "columns"},
    {"exchange", "columns"},       {"ratio", "columns"},
    {"buffers", "memory"},         {"weights", "memory"},
    {"median", "reduction"},       {"interval", "reduction"},
    {"percentiles", "reduction"},  {"statistics", "reduction"},
    {"messages", "counting"},      {"bytes", "counting"},
    {"doorbells", "counting"},     {"rates", "basis"},
    {"bandwidth", "basis"},        {"lanes", "qps"},
    {"queue-pairs", "qps"},        {"component", "components"},
    {"comparing", "verdicts"},     {"inconclusive", "verdicts"},
    {"history", "gate"},           {"baseline", "gate"},
    {"warm-up", "iterations"},
};

enum { ALIASES = sizeof(aliases) / sizeof(aliases[0]) };

static void print_whatif(const k3_command_t *const *commands, FILE *out)
{
    (void)commands;
    k3_help_whatif(out);
}

static const struct made {
    const char *name;
    void (*print)(const k3_command_t *const *commands, FILE *out);
    const char *what;
} made[] = {
    {"what-if", print_whatif, "the rules that plan --what-if turns, a line each"},
    {"man", k3_help_man, "the manual page (roff): k3bench help man | man -l -"},
    {"bash", k3_help_bash, "completion: source <(k3bench help bash)"},
    {"zsh", k3_help_zsh, "completion: k3bench help zsh > a folder of $fpath, as _k3bench"},
};

enum { MADE = sizeof(made) / sizeof(made[0]) };

static void print_list(const k3_command_t *const *commands, FILE *out)
{
    fprintf(out, "usage: k3bench help COMMAND|TOPIC|what-if|man|bash|zsh\n\ncommands\n");
    for (int i = 0; commands[i] != NULL; i++) {
        fprintf(out, "  %-11s %s\n", commands[i]->name, commands[i]->what);
    }
    fprintf(out, "\ntopics\n");
    for (int i = 0; i < TOPICS; i++) {
        fprintf(out, "  %-11s %s\n", topics[i].name, topics[i].what);
    }
    fprintf(out, "\nmade from the same tables\n");
    for (int i = 0; i < MADE; i++) {
        fprintf(out, "  %-11s %s\n", made[i].name, made[i].what);
    }
}

enum { LINE = 100 };

/* Characters of "- " or "1. " in front of an item of a list, or of "| " in front of a row of a table. */
static size_t mark_of(const char *line)
{
    if (strncmp(line, "- ", 2) == 0 || strncmp(line, "| ", 2) == 0) {
        return 2;
    }
    return line[0] >= '0' && line[0] <= '9' && strncmp(line + 1, ". ", 2) == 0 ? 3 : 0;
}

static bool is_kept(const char *line) /* a command, the head of a table */
{
    return strncmp(line, "    ", 4) == 0 || strncmp(line, "|-", 2) == 0;
}

static bool continues(const char *line)
{
    return line[0] != '\0' && line[0] != '\n' && mark_of(line) == 0 && !is_kept(line);
}

/* The characters of a paragraph, of an item or of a row, without the last newline. */
static size_t paragraph_length(const char *at)
{
    size_t length = strcspn(at, "\n");

    while (at[0] != '|' && !is_kept(at) && length > 0 && at[length] == '\n' &&
           continues(at + length + 1)) {
        length += 1 + strcspn(at + length + 1, "\n");
    }
    return length;
}

/* Items and rows hang behind their mark. */
static void print_paragraph(const char *at, size_t length, FILE *out)
{
    size_t mark = length > 0 ? mark_of(at) : 0;
    char  *text = is_kept(at) ? NULL : strndup(at + mark, length - mark);

    if (text == NULL) {
        fprintf(out, "%.*s\n", (int)length, at);
        return;
    }
    fprintf(out, "%.*s", (int)mark, at);
    k3_put_wrapped(text, mark, LINE, out);
    free(text);
}

/* A section of the method, from its heading to the next one, be it a part of this one: parts are long tables of
 * evidence. */
static void print_section(const char *heading, FILE *out)
{
    char        line[80];
    const char *at, *end;

    snprintf(line, sizeof(line), "\n## %s\n", heading);
    at = strstr(k3_method_text, line);
    if (at == NULL) {
        return;
    }
    at += strlen("\n## ");
    fprintf(out, "%s\n", heading);
    at += strlen(heading) + 1;
    end = strstr(at, "\n##");
    end = end != NULL ? end : at + strlen(at);
    while (at < end) {
        size_t length = paragraph_length(at);

        print_paragraph(at, length, out);
        at += length + (at[length] == '\n');
    }
}

static int unknown(const k3_command_t *const *commands, const char *name)
{
    const char *names[TOPICS + ALIASES + MADE + 17], *near;
    int         n = 0;

    for (int i = 0; i < TOPICS; i++) {
        names[n++] = topics[i].name;
    }
    for (int i = 0; i < ALIASES; i++) {
        names[n++] = aliases[i].word;
    }
    for (int i = 0; i < MADE; i++) {
        names[n++] = made[i].name;
    }
    for (int i = 0; commands[i] != NULL && i < 16; i++) {
        names[n++] = commands[i]->name;
    }
    names[n] = NULL;
    near = k3_nearest(name, names);
    k3_log_error("help: nothing is known of \"%s\"%s%s%s", name,
                 near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                 near != NULL ? "?" : " (see k3bench help)");
    return k3_exit_code(K3_ERR_USAGE);
}

/* False: no topic has this name. */
static bool print_topic(const char *name)
{
    for (int i = 0; i < TOPICS; i++) {
        if (strcmp(topics[i].name, name) == 0) {
            print_section(topics[i].heading, stdout);
            return true;
        }
    }
    return false;
}

static bool print_alias(const char *word)
{
    for (int i = 0; i < ALIASES; i++) {
        if (strcmp(aliases[i].word, word) == 0) {
            return print_topic(aliases[i].topic);
        }
    }
    return false;
}

static int print_help_on(const k3_command_t *const *commands, const char *name)
{
    char  program[] = "k3bench", command[32], flag[] = "--help";
    char *argv[] = {program, command, flag, NULL};

    if (print_topic(name)) {
        return 0;
    }
    for (int i = 0; i < MADE; i++) {
        if (strcmp(made[i].name, name) == 0) {
            made[i].print(commands, stdout);
            return 0;
        }
    }
    for (int i = 0; commands[i] != NULL; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            snprintf(command, sizeof(command), "%s", name);
            return commands[i]->run(1, argv + 2); /* as from the command line */
        }
    }
    return print_alias(name) ? 0 : unknown(commands, name);
}

int k3_help(const k3_command_t *const *commands, int argc, char **argv)
{
    if (argc == 0 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        print_list(commands, stdout);
        return 0;
    }
    if (argc > 1) {
        k3_log_error("help: one word, not \"%s\" too", argv[1]);
        return k3_exit_code(K3_ERR_USAGE);
    }
    return print_help_on(commands, argv[0]);
}
