#include "harness/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

k3_status_t k3_file_open(const char *path, int *fd_p, k3_error_t *err)
{
    struct stat info;
    int         fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    *fd_p = -1;
    if (fd < 0 || fstat(fd, &info) != 0) {
        k3_fail(err, K3_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        k3_fail(err, K3_ERR_IO, "%s: not a regular file", path);
    } else {
        *fd_p = fd;
        return K3_OK;
    }
    if (fd >= 0) {
        close(fd);
    }
    return K3_ERR_IO;
}

k3_status_t k3_file_map(const char *path, k3_file_map_t *map, k3_error_t *err)
{
    struct stat info;
    void       *data = NULL;
    int         fd;

    *map = (k3_file_map_t){0};
    if (k3_file_open(path, &fd, err) != K3_OK) {
        return err->status;
    }
    if (fstat(fd, &info) == 0 && info.st_size > 0) {
        data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    }
    if (data == MAP_FAILED) {
        k3_fail(err, K3_ERR_IO, "%s: cannot map: %s", path, strerror(errno));
    } else if (data != NULL) {
        *map = (k3_file_map_t){data, (uint64_t)info.st_size};
    }
    close(fd);
    return err->status;
}

void k3_file_unmap(k3_file_map_t *map)
{
    if (map->data != NULL) {
        munmap((void *)(uintptr_t)map->data, (size_t)map->size);
    }
    *map = (k3_file_map_t){0};
}

const char *k3_printable(const char *text, char *line, size_t size)
{
    size_t length = strlen(text), kept = length < size ? length : size - 1;

    for (size_t i = 0; i < kept; i++) {
        line[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
    line[kept] = '\0';
    if (kept < length && size > 4) {
        memcpy(line + size - 4, "...", 4);
    }
    return line;
}
