/* What the program says of itself, all made from the table of commands and the option table. The table of
 * commands has a row for help too, so whoever has the table hands it down. */
#ifndef K3_COMMANDS_HELP_H
#define K3_COMMANDS_HELP_H

#include <stdio.h>

#include "bench/commands/command.h"

/* k3bench help WORD: argv without program and command; returns the exit code. `commands` ends with NULL. */
int k3_help(const k3_command_t *const *commands, int argc, char **argv);

/* A manual page, roff of man(7). */
void k3_help_man(const k3_command_t *const *commands, FILE *out);

/* Completion scripts. */
void k3_help_bash(const k3_command_t *const *commands, FILE *out);
void k3_help_zsh(const k3_command_t *const *commands, FILE *out);

#endif
