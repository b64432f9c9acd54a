#include "harness/base/terminal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_launcher(long pid)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun", "prun", "hydra"};
    char                     path[64], name[32] = "";
    FILE                    *file;

    snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
    file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    if (fgets(name, sizeof(name), file) == NULL) {
        name[0] = '\0';
    }
    fclose(file);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_terminal(long pid)
{
    char    path[64], target[64];
    ssize_t length;

    snprintf(path, sizeof(path), "/proc/%ld/fd/2", pid);
    length = readlink(path, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    return strncmp(target, "/dev/pts/", 9) == 0 || strncmp(target, "/dev/tty", 8) == 0;
}

/* A launcher gives each rank pipes and passes on what it reads: then its own standard error counts. */
bool k3_terminal_watched(void)
{
    struct stat st;
    long        parent = (long)getppid();

    return isatty(STDERR_FILENO) ||
           (fstat(STDERR_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) &&
            is_launcher(parent) && has_terminal(parent));
}
