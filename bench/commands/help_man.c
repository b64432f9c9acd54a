/* The manual page. */
#include <stdbool.h>

#include "bench/commands/help.h"
#include "bench/commands/version.h"

/* Text is no request of roff: neither at the begin of a line nor by a backslash. */
static void put_text(const char *text, FILE *out)
{
    bool begin = true;

    for (; *text != '\0'; text++) {
        if (begin && (*text == '.' || *text == '\'')) {
            fputs("\\&", out);
        }
        if (*text == '\\') {
            fputs("\\e", out);
        } else if (*text == '-') {
            fputs("\\-", out);
        } else {
            fputc(*text, out);
        }
        begin = *text == '\n';
    }
}

static void put_line(const char *text, FILE *out)
{
    put_text(text, out);
    fputc('\n', out);
}

static void put_commands(const k3_command_t *const *commands, FILE *out)
{
    fputs(".SH COMMANDS\n", out);
    for (int i = 0; commands[i] != NULL; i++) {
        fputs(".TP\n.BI \"", out);
        put_text(commands[i]->name, out);
        fputs(" \" \"", out);
        put_text(commands[i]->usage, out);
        fputs("\"\n", out);
        put_line(commands[i]->what, out);
    }
}

/* "Taken by: run, plan." */
static void put_takers(const k3_command_t *const *commands, unsigned takers, FILE *out)
{
    const char *between = "Taken by: ";

    for (int i = 0; commands[i] != NULL; i++) {
        if ((takers & commands[i]->id) != 0) {
            fprintf(out, "%s%s", between, commands[i]->name);
            between = ", ";
        }
    }
    fputs(".\n", out);
}

static void put_options(const k3_command_t *const *commands, FILE *out)
{
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < k3_option_count; i++) {
        const k3_option_def_t *def = &k3_option_defs[i];

        fputs(".TP\n.BI \"\\-\\-", out);
        put_text(def->name, out);
        fputs(" \" \"", out);
        put_text(def->metavar != NULL ? def->metavar : "", out);
        fputs("\"\n", out);
        put_line(def->help, out);
        if (def->metavar != NULL && def->fallback != NULL) {
            fputs("Default: ", out);
            put_text(def->fallback, out);
            fputs(".\n", out);
        }
        put_takers(commands, def->commands, out);
    }
}

void k3_help_man(const k3_command_t *const *commands, FILE *out)
{
    fprintf(out, ".TH K3BENCH 1 \"\" \"k3bench %s\" \"User Commands\"\n", k3_version_text);
    fputs(".SH NAME\nk3bench \\- measures expert\\-parallel all\\-to\\-all backends by queue pair\n"
          ".SH SYNOPSIS\n.B k3bench\n.I COMMAND\n.RI [ OPTIONS ]\n.br\n.B mpirun \\-np\n.I N\n.B "
          "k3bench run\n.RI [ OPTIONS ]\n"
          ".SH DESCRIPTION\n",
          out);
    put_line("k3bench measures the mixture-of-experts region of Kimi-K3 on MPI ranks, from the "
             "partial attention output to the restored rows, under a chosen all-to-all backend and "
             "parallel layout. Every run checks its results against an oracle and its messages "
             "against the plan, queue pair by queue pair.",
             out);
    put_commands(commands, out);
    put_options(commands, out);
    fputs(".SH ENVIRONMENT\n.TP\n.BI K3BENCH_ NAME\n", out);
    put_line("Each option, in capitals with underscores. The command line comes before the "
             "environment, the environment before a file of --options, that before the default.",
             out);
    fputs(".SH \"EXIT STATUS\"\n", out);
    put_line("0: all done and right. 1: a cell failed or its check, or a verdict is worse. 2: "
             "usage. 3: the environment or a file. 4: the watchdog ended the job.",
             out);
    fputs(".SH EXAMPLES\n.nf\n", out);
    put_line("mpirun --oversubscribe -np 8 k3bench run --model kimi-k3-mini --tp 8 --dp 2 --out "
             "a.json\nk3bench report a.json -o a.html\nk3bench help verdicts",
             out);
    fputs(".fi\n.SH \"SEE ALSO\"\n.BR mpirun (1),\n.BR ucx_info (1)\n", out);
}
