/* Whether somebody watches what is written. */
#ifndef K3_BASE_TERMINAL_H
#define K3_BASE_TERMINAL_H

#include <stdbool.h>

/* Standard error ends on a terminal: its own, or that of the launcher which reads it. */
bool k3_terminal_watched(void);

#endif
