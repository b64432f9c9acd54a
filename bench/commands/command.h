/* The commands of k3bench: one file each. */
#ifndef K3_COMMANDS_COMMAND_H
#define K3_COMMANDS_COMMAND_H

#include "harness/base/options.h"
#include "harness/base/status.h"

typedef enum k3_command_id {
    K3_COMMAND_RUN = 1u << 0,
    K3_COMMAND_PLAN = 1u << 1,
    K3_COMMAND_REPORT = 1u << 2,
    K3_COMMAND_LIST = 1u << 3,
    K3_COMMAND_COMPARE = 1u << 4,
    K3_COMMAND_GATE = 1u << 6,
    K3_COMMAND_DOCTOR = 1u << 7,
    K3_COMMAND_SWEEP = 1u << 8,
    K3_COMMAND_HELP = 1u << 10
} k3_command_id_t;

typedef struct k3_command {
    k3_command_id_t id;
    const char     *name;
    const char     *usage;  /* what follows the name */
    const char     *what;   /* one line */
    bool            files;  /* takes words that are no options */
    bool            groups; /* ... in two groups, parted by "--" */
    const char *
        own_first; /* help: its own options first, then this line and those of others; NULL: in order */
    /* argv without program and command; returns the exit code. */
    int (*run)(int argc, char **argv);
} k3_command_t;

extern const k3_command_t k3_command_run, k3_command_plan, k3_command_sweep, k3_command_compare,
    k3_command_gate, k3_command_report, k3_command_doctor, k3_command_list;

/* The one option table. */
extern const k3_option_def_t k3_option_defs[];
extern const size_t          k3_option_count;

/* The table as a command sees it. */
k3_option_table_t k3_command_table(const k3_command_t *command);

/* Parses for a command. *help is true when --help was asked for and printed; there is nothing to
 * free then. */
k3_status_t k3_command_options(const k3_command_t *command, int argc, char **argv,
                               k3_options_t **options_p, int *help, k3_error_t *err);

/* Prints the fault, if there is one, and returns the exit code. */
int k3_command_end(const k3_error_t *err);

#endif
