/* Small files of the kernel: one line, one field, one number; control groups and what they limit.
 *
 * Every reader takes the root of the file system ("" for this machine's own), so that a captured
 * tree of another machine reads in the same way. What cannot be read is false, never a guess. */
#ifndef K3_BASE_SYSFILES_H
#define K3_BASE_SYSFILES_H

#include <stdbool.h>
#include <stdint.h>

enum { K3_SYS_LINE = 512, K3_SYS_PATH = 1024, K3_SYS_NAMES_MAX = 512, K3_SYS_NAME = 128 };

/* The first line, without the newline. */
bool k3_sys_line(const char *root, const char *path, char text[K3_SYS_LINE]);

/* The text after `head` in the first line that starts with it, without blanks in front. */
bool k3_sys_field(const char *root, const char *path, const char *head, char text[K3_SYS_LINE]);

/* The word in brackets of "always [madvise] never"; the whole line where there are none. */
bool k3_sys_chosen(const char *root, const char *path, char text[K3_SYS_LINE]);

/* A whole number at the beginning of the first line. */
bool k3_sys_number(const char *root, const char *path, int64_t *value);

/* Programs that ran or waited for a core, mean of the last minute. Above this share of the cores others compute. */
#define K3_SYS_BUSY_SHARE 0.25
bool k3_sys_load(const char *root, double *load);
/* Cores of the host that are online, whatever this process may use: what the load is held against. */
long k3_sys_cores(void);

bool k3_sys_exists(const char *root, const char *path);

/* Names in a folder, sorted, without those that begin with a dot; at most K3_SYS_NAMES_MAX. */
typedef struct k3_sys_names {
    unsigned count;
    char     name[K3_SYS_NAMES_MAX][K3_SYS_NAME];
} k3_sys_names_t;
void k3_sys_list(const char *root, const char *folder, k3_sys_names_t *names);

/* How many numbers a list such as "0-3,8" holds; 0 when it is none. */
unsigned k3_sys_count_ids(const char *list);

/* --- control groups --------------------------------------------------------------------------- */

/* Visits the folders (below `root`) of the group of this process for `controller` ("cpu", "memory")
 * and of every group above it, since each of them binds. In a container the group's own folder is
 * often shown as the hierarchy's root; folders that are not there are passed over. */
typedef void (*k3_sys_group_visit_t)(const char *root, const char *folder, bool version2,
                                     void *arg);
void k3_sys_groups(const char *root, const char *controller, k3_sys_group_visit_t visit, void *arg);

/* The smallest of the limits; false: none. */
bool k3_sys_cpu_quota(const char *root, double *cpus);
bool k3_sys_memory_limit(const char *root, uint64_t *bytes);

/* Periods in which the group was held back so far, and all of them. */
bool k3_sys_throttled(const char *root, uint64_t *held_back, uint64_t *periods);

/* --- what the machine is set to ---------------------------------------------------------------- */

/* Whether the clock may rise above the nominal one. */
bool k3_sys_turbo(const char *root, bool *on);

#endif
