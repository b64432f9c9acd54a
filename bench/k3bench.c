/* main: the table of commands. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/commands/command.h"
#include "bench/commands/help.h"
#include "bench/commands/version.h"
#include "harness/base/log.h"

static int run_help(int argc, char **argv);

/* Its row stands here: it tells of all rows. */
static const k3_command_t help = {
    .id = K3_COMMAND_HELP,
    .name = "help",
    .usage = "[COMMAND|TOPIC|what-if|man|bash|zsh]",
    .what = "a command, a question of method, the manual page, completion for shells",
    .run = run_help,
};

static const k3_command_t *const commands[] = {&k3_command_run,
                                               &k3_command_plan,
                                               &k3_command_sweep,
                                               &k3_command_compare,
                                               &k3_command_gate,
                                               &k3_command_report,
                                               &k3_command_doctor,
                                               &k3_command_list,
                                               &help,
                                               NULL};

static int run_help(int argc, char **argv)
{
    return k3_help(commands, argc, argv);
}

static void usage(FILE *out)
{
    fprintf(out, "usage: k3bench COMMAND [OPTIONS]\n\n");
    for (int i = 0; commands[i] != NULL; i++) {
        fprintf(out, "  %-8s %s\n", commands[i]->name, commands[i]->what);
    }
    fprintf(out, "\nk3bench COMMAND --help lists the options; k3bench help the questions of "
                 "method; k3bench\n"
                 "--version the libraries.\n");
}

static int unknown(const char *name)
{
    const char *names[16] = {NULL};
    const char *near;

    for (int i = 0; commands[i] != NULL; i++) {
        names[i] = commands[i]->name;
    }
    near = k3_nearest(name, names);
    k3_log_error("unknown command \"%s\"%s%s%s", name, near != NULL ? "; did you mean " : "",
                 near != NULL ? near : "", near != NULL ? "?" : " (see k3bench --help)");
    return k3_exit_code(K3_ERR_USAGE);
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return k3_exit_code(K3_ERR_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        k3_version_print(stdout);
        return 0;
    }
    for (int i = 0; commands[i] != NULL; i++) {
        if (strcmp(argv[1], commands[i]->name) == 0) {
            return commands[i]->run(argc - 2, argv + 2);
        }
    }
    return unknown(argv[1]);
}

/* A library's file must not take the number of a stream that was closed. Written to, these fail as closed ones do. */
static void hold_streams(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) {
        (void)close(fd);
    }
}

/* What did not reach standard output is lost without a word otherwise. */
int main(int argc, char **argv)
{
    int code;

    hold_streams();
    signal(SIGXFSZ,
           SIG_IGN); /* a write beyond the file size limit fails with EFBIG and is reported */
    code = run_command(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && code == 0) {
        k3_log_error("standard output: writing failed");
        code = k3_exit_code(K3_ERR_IO);
    }
    return code;
}
