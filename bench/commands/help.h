/* The program's own documents, all made from the table of commands and the option table. */
#ifndef K3_COMMANDS_HELP_H
#define K3_COMMANDS_HELP_H

#include <stdio.h>

/* A manual page, roff of man(7). */
void k3_help_man(FILE *out);

/* Completion scripts. */
void k3_help_bash(FILE *out);
void k3_help_zsh(FILE *out);

#endif
