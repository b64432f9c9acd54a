/* A small file tree in a folder of its own, in place of /sys and /proc. */
#ifndef K3_TESTS_DOCTOR_TREE_H
#define K3_TESTS_DOCTOR_TREE_H

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char tree[64];

static inline int tree_begin(void **state)
{
    (void)state;
    (void)snprintf(tree, sizeof(tree), "/tmp/k3bench-tree.XXXXXX");
    return mkdtemp(tree) == NULL;
}

static inline int tree_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline int tree_end(void **state)
{
    (void)state;
    return nftw(tree, tree_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* A file of the tree with its folders. */
static inline void put(const char *path, const char *text)
{
    char  full[512];
    FILE *file;

    (void)snprintf(full, sizeof(full), "%s%s", tree, path);
    for (char *c = full + strlen(tree) + 1; *c != '\0'; c++) {
        if (*c == '/') {
            *c = '\0';
            assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
            *c = '/';
        }
    }
    file = fopen(full, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

#endif
