#define _GNU_SOURCE /* renameat2 */

#include "bench/sweep/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A record of a large launch has some MB. */
#define LEAST_FREE ((uint64_t)16 << 20)

static const char *const part_names[K3_PARTS] = {"records", "running", "aside", "logs"};
static const char *const endings[K3_PARTS] = {"json", "json", "json", "txt"};

static k3_status_t fail_io(const char *path, k3_error_t *err)
{
    return k3_fail(err, K3_ERR_IO, "%.300s: %s", path, strerror(errno));
}

static k3_status_t make_folder(const char *path, k3_error_t *err)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST ? K3_OK : fail_io(path, err);
}

/* The lock ends with this program, however it ends. */
static k3_status_t take_lock(k3_folder_t *folder, k3_error_t *err)
{
    char path[PATH_MAX], holder[32] = "";

    (void)snprintf(path, sizeof(path), "%s/lock", folder->path);
    folder->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (folder->lock < 0) {
        return fail_io(path, err);
    }
    if (flock(folder->lock, LOCK_EX | LOCK_NB) != 0) {
        if (pread(folder->lock, holder, sizeof(holder) - 1, 0) < 0) {
            holder[0] = '\0';
        }
        holder[strspn(holder, "0123456789")] = '\0';
        return k3_fail(err, K3_ERR_ENV, "%.300s: another sweep is at work there (process %s)",
                       folder->path, holder);
    }
    (void)snprintf(holder, sizeof(holder), "%d\n", (int)getpid());
    if (ftruncate(folder->lock, 0) != 0 ||
        pwrite(folder->lock, holder, strlen(holder), 0) != (ssize_t)strlen(holder)) {
        return fail_io(path, err);
    }
    return K3_OK;
}

/* Not every file system can sync a folder. */
static void sync_folder_of(const char *path)
{
    char  folder[PATH_MAX];
    char *slash;
    int   fd;

    (void)snprintf(folder, sizeof(folder), "%s", path);
    slash = strrchr(folder, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
}

k3_status_t k3_folder_open(const char *path, bool look, k3_folder_t *folder, k3_error_t *err)
{
    char name[PATH_MAX];

    memset(folder, 0, sizeof(*folder));
    folder->lock = folder->journal.fd = -1;
    if (strlen(path) >= sizeof(folder->path)) {
        return k3_fail(err, K3_ERR_USAGE, "out: the path is longer than %zu characters",
                       sizeof(folder->path) - 1);
    }
    (void)snprintf(folder->path, sizeof(folder->path), "%s", path);
    if (!look && make_folder(path, err) == K3_OK && take_lock(folder, err) == K3_OK) {
        for (int p = 0; p < K3_PARTS && err->status == K3_OK; p++) {
            (void)snprintf(name, sizeof(name), "%s/%s", path, part_names[p]);
            make_folder(name, err);
        }
    }
    (void)snprintf(name, sizeof(name), "%s/journal.jsonl", path);
    if (err->status == K3_OK) {
        k3_journal_open(name, !look, &folder->journal, err);
    }
    if (err->status == K3_OK && !look) {
        sync_folder_of(name);
    }
    if (err->status != K3_OK) {
        k3_folder_close(folder);
    }
    return err->status;
}

void k3_folder_close(k3_folder_t *folder)
{
    k3_journal_close(&folder->journal);
    if (folder->lock >= 0) {
        (void)close(folder->lock);
    }
    folder->lock = -1;
}

void k3_folder_file(const k3_folder_t *folder, k3_folder_part_t part, const char *id,
                    uint64_t attempt, char path[PATH_MAX])
{
    char number[32] = "";

    if (attempt > 0) {
        (void)snprintf(number, sizeof(number), ".a%llu", (unsigned long long)attempt);
    }
    (void)snprintf(path, PATH_MAX, "%s/%s/%s%s.%s", folder->path, part_names[part], id, number,
                   endings[part]);
}

k3_status_t k3_folder_move(const char *from, const char *to, k3_error_t *err)
{
    struct stat facts;

    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0) {
        /* Network file systems do not know the flag; the lock keeps other sweeps away. */
        bool unknown = errno == EINVAL || errno == ENOSYS;

        if (!unknown || lstat(to, &facts) == 0 || rename(from, to) != 0) {
            return k3_fail(err, K3_ERR_IO, "%.300s to %.300s: %s", from, to,
                           unknown ? "there is such a file" : strerror(errno));
        }
    }
    sync_folder_of(to);
    return K3_OK;
}

k3_status_t k3_folder_check_space(const k3_folder_t *folder, k3_error_t *err)
{
    struct statvfs facts;
    uint64_t       available;

    if (statvfs(folder->path, &facts) != 0) {
        return fail_io(folder->path, err);
    }
    available = (uint64_t)facts.f_bavail * facts.f_frsize;
    if (available < LEAST_FREE) {
        return k3_fail(err, K3_ERR_IO,
                       "%.300s: %llu bytes are free, a launch may need %llu; the same command goes "
                       "on when there is room",
                       folder->path, (unsigned long long)available, (unsigned long long)LEAST_FREE);
    }
    return K3_OK;
}
