/* Which libraries the program was compiled against and which it runs with. */
#ifndef K3_COMMANDS_VERSION_H
#define K3_COMMANDS_VERSION_H

#include <jansson.h>
#include <stdio.h>

void k3_version_print(FILE *out);
json_t *
k3_version_build(void); /* {"compiler", "type", "mpi", "ucx", "hwloc", "cuda", "hip"} as compiled */
json_t *k3_version_loaded(void); /* the same libraries as loaded; null: not in this program */

extern const char k3_version_text[], k3_version_git[];

#endif
