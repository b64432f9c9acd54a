/* k3bench help: commands, questions of method, the manual page, completion for shells. */
#include "bench/commands/help.h"

#include <string.h>

#include "bench/commands/plan_rules.h"
#include "harness/base/log.h"

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
};

enum { TOPICS = sizeof(topics) / sizeof(topics[0]) };

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

/* A section of the method, from its heading to the next one of its level. */
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
    end = strstr(at, "\n## ");
    fwrite(at, 1, end != NULL ? (size_t)(end - at) : strlen(at), out);
    fputc('\n', out);
}

static int unknown(const k3_command_t *const *commands, const char *name)
{
    const char *names[TOPICS + MADE + 17], *near;
    int         n = 0;

    for (int i = 0; i < TOPICS; i++) {
        names[n++] = topics[i].name;
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

static int print_help_on(const k3_command_t *const *commands, const char *name)
{
    char  program[] = "k3bench", command[32], flag[] = "--help";
    char *argv[] = {program, command, flag, NULL};

    for (int i = 0; i < TOPICS; i++) {
        if (strcmp(topics[i].name, name) == 0) {
            print_section(topics[i].heading, stdout);
            return 0;
        }
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
    return unknown(commands, name);
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
