#define _GNU_SOURCE /* sched_getaffinity */

#include "bench/sweep/hosts.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/base/memory.h"
#include "harness/base/options.h"

enum { FILE_MAX_BYTES = 1 << 20, SLOTS_MAX = 65536 };

static k3_status_t add(k3_hosts_t *hosts, const char *name, size_t length, uint32_t slots,
                       k3_error_t *err)
{
    k3_host_t *host;

    if (length == 0 || length >= K3_HOST_NAME_MAX || hosts->count == K3_HOSTS_MAX) {
        return k3_fail(err, K3_ERR_USAGE,
                       "hosts: a name of %zu bytes after %zu hosts; limits %d and %d", length,
                       hosts->count, K3_HOST_NAME_MAX - 1, K3_HOSTS_MAX);
    }
    for (size_t i = 0; i < length; i++) {
        if (!isalnum((unsigned char)name[i]) && strchr("-._", name[i]) == NULL) {
            return k3_fail(err, K3_ERR_USAGE, "hosts: '%.*s' is no name of a host", (int)length,
                           name);
        }
    }
    host = &hosts->items[hosts->count++];
    memcpy(host->name, name, length);
    host->name[length] = '\0';
    host->slots = slots;
    host->cpu = host->user = -1;
    return K3_OK;
}

static k3_status_t make_room(k3_hosts_t *hosts, size_t count, k3_error_t *err)
{
    hosts->count = 0;
    return k3_alloc("hosts", count + 1, sizeof(*hosts->items), &hosts->items, err);
}

static size_t lines_of(const char *text)
{
    size_t lines = 1;

    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

/* --- a hostfile ------------------------------------------------------------------------------ */

static k3_status_t parse_line(const char *path, size_t line, char *text, k3_hosts_t *hosts,
                              k3_error_t *err)
{
    char       *rest = NULL, *name, *word;
    const char *slots;
    uint64_t    count = 0;

    text[strcspn(text, "#\r")] = '\0';
    name = strtok_r(text, " \t", &rest);
    if (name == NULL) {
        return K3_OK;
    }
    slots = strchr(name, ':') != NULL ? strchr(name, ':') + 1 : NULL;
    while ((word = strtok_r(NULL, " \t", &rest)) != NULL) {
        slots = strncmp(word, "slots=", 6) == 0 ? word + 6 : slots;
    }
    if (slots == NULL) {
        return k3_fail(err, K3_ERR_USAGE,
                       "%.200s:%zu: host %.80s has no slots=N: launches take hosts by their slots",
                       path, line, name);
    }
    if (k3_parse_u64("slots", slots, 1, SLOTS_MAX, &count, err) != K3_OK) {
        return err->status;
    }
    return add(hosts, name, strcspn(name, ":"), (uint32_t)count, err);
}

static k3_status_t check_twice(const k3_hosts_t *hosts, k3_error_t *err)
{
    for (size_t i = 1; i < hosts->count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(hosts->items[i].name, hosts->items[j].name) == 0) {
                return k3_fail(err, K3_ERR_USAGE, "hosts: %s is named twice", hosts->items[i].name);
            }
        }
    }
    return K3_OK;
}

k3_status_t k3_hosts_parse(const char *path, const char *text, k3_hosts_t *hosts, k3_error_t *err)
{
    size_t number = 0;
    char  *copy = strdup(text), *next = copy, *line;

    if (copy == NULL || make_room(hosts, lines_of(text), err) != K3_OK) {
        free(copy);
        return k3_fail(err, K3_ERR_ENV, "hosts: no memory");
    }
    hosts->kind = K3_HOSTS_FILE;
    while (err->status == K3_OK && (line = strsep(&next, "\n")) != NULL) {
        parse_line(path, ++number, line, hosts, err);
    }
    free(copy);
    if (err->status == K3_OK && hosts->count == 0) {
        k3_fail(err, K3_ERR_USAGE, "%.200s: no host in it", path);
    }
    return err->status == K3_OK ? check_twice(hosts, err) : err->status;
}

static k3_status_t read_hostfile(const char *path, k3_hosts_t *hosts, k3_error_t *err)
{
    FILE  *file = fopen(path, "re");
    char  *text = calloc(1, FILE_MAX_BYTES + 1);
    size_t length = file != NULL && text != NULL ? fread(text, 1, FILE_MAX_BYTES, file) : 0;

    if (file == NULL || text == NULL || ferror(file) != 0) {
        k3_fail(err, K3_ERR_IO, "hostfile %.200s: %s", path, strerror(errno));
    } else if (length == FILE_MAX_BYTES) {
        k3_fail(err, K3_ERR_IO, "hostfile %.200s: %d bytes and more", path, FILE_MAX_BYTES);
    } else {
        k3_hosts_parse(path, text, hosts, err);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    free(text);
    return err->status;
}

/* --- a Slurm allocation ---------------------------------------------------------------------- */

/* The next count of "8(x2),4"; *left tells how often it holds still. */
static k3_status_t next_tasks(const char **text, uint32_t *tasks, uint32_t *left, k3_error_t *err)
{
    unsigned count = 0, times = 1;
    int      used = 0;

    if (*left > 0) {
        (*left)--;
        return K3_OK;
    }
    if (!isdigit((unsigned char)**text) || sscanf(*text, "%6u%n", &count, &used) != 1 ||
        count == 0) {
        return k3_fail(err, K3_ERR_ENV, "SLURM_TASKS_PER_NODE: \"%.60s\" is not like 8(x2),4",
                       *text);
    }
    *text += used;
    used = 0;
    if (**text == '(' &&
        (sscanf(*text, "(x%6u)%n", &times, &used) != 1 || used == 0 || times == 0)) {
        return k3_fail(err, K3_ERR_ENV, "SLURM_TASKS_PER_NODE: \"%.60s\" is not like (x2)", *text);
    }
    *text += used;
    *text += **text == ',';
    *tasks = count;
    *left = times - 1;
    return K3_OK;
}

k3_status_t k3_hosts_parse_slurm(const char *names, const char *tasks, k3_hosts_t *hosts,
                                 k3_error_t *err)
{
    uint32_t slots = 0, left = 0;

    if (make_room(hosts, lines_of(names), err) != K3_OK) {
        return err->status;
    }
    hosts->kind = K3_HOSTS_SLURM;
    while (*names != '\0' && err->status == K3_OK) {
        size_t length = strcspn(names, "\n");

        if (length > 0 && next_tasks(&tasks, &slots, &left, err) == K3_OK) {
            add(hosts, names, length, slots, err);
        }
        names += length + (names[length] == '\n');
    }
    return err->status == K3_OK ? check_twice(hosts, err) : err->status;
}

static k3_status_t ask_slurm(k3_hosts_t *hosts, k3_error_t *err)
{
    const char *tasks = getenv("SLURM_TASKS_PER_NODE");
    char       *names = calloc(1, FILE_MAX_BYTES + 1);
    FILE       *pipe = popen("exec scontrol show hostnames", "re");
    size_t      length = pipe != NULL && names != NULL ? fread(names, 1, FILE_MAX_BYTES, pipe) : 0;

    if (pipe == NULL || pclose(pipe) != 0 || length == 0) {
        k3_fail(err, K3_ERR_ENV,
                "Slurm allocation %.60s: `scontrol show hostnames` names no hosts; --hostfile can",
                getenv("SLURM_JOB_ID"));
    } else {
        k3_hosts_parse_slurm(names, tasks != NULL ? tasks : "1", hosts, err);
    }
    free(names);
    return err->status;
}

/* --- this host ------------------------------------------------------------------------------- */

static k3_status_t find_cores(k3_hosts_t *hosts, k3_error_t *err)
{
    cpu_set_t set;
    char      name[K3_HOST_NAME_MAX] = "localhost";

    (void)gethostname(name, sizeof(name) - 1);
    if (sched_getaffinity(0, sizeof(set), &set) != 0 ||
        make_room(hosts, CPU_SETSIZE, err) != K3_OK) {
        return k3_fail(err, K3_ERR_ENV, "the cores of this host: %s", strerror(errno));
    }
    hosts->kind = K3_HOSTS_CORES;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            hosts->items[hosts->count] = (k3_host_t){.slots = 1, .cpu = cpu, .user = -1};
            memcpy(hosts->items[hosts->count++].name, name, sizeof(name));
        }
    }
    return K3_OK;
}

static k3_status_t find_this(k3_hosts_t *hosts, k3_error_t *err)
{
    if (make_room(hosts, 1, err) != K3_OK) {
        return err->status;
    }
    hosts->kind = K3_HOSTS_HERE;
    hosts->count = 1;
    hosts->items[0] = (k3_host_t){.name = "localhost", .slots = SLOTS_MAX, .cpu = -1, .user = -1};
    return K3_OK;
}

/* --- which ----------------------------------------------------------------------------------- */

k3_status_t k3_hosts_find(const char *hostfile, uint64_t jobs, k3_hosts_t *hosts, k3_error_t *err)
{
    memset(hosts, 0, sizeof(*hosts));
    if (hostfile != NULL) {
        read_hostfile(hostfile, hosts, err);
    } else if (getenv("SLURM_JOB_ID") != NULL) {
        ask_slurm(hosts, err);
    } else if (jobs > 1) {
        find_cores(hosts, err);
    } else {
        find_this(hosts, err);
    }
    if (err->status != K3_OK) {
        k3_hosts_free(hosts);
    }
    return err->status;
}

void k3_hosts_free(k3_hosts_t *hosts)
{
    k3_free(hosts->items);
    memset(hosts, 0, sizeof(*hosts));
}

uint32_t k3_hosts_ranks_per_node(const k3_hosts_t *hosts, uint32_t ranks)
{
    bool here = hosts->kind == K3_HOSTS_HERE || hosts->kind == K3_HOSTS_CORES;

    return here ? ranks : hosts->items[0].slots;
}

k3_status_t k3_hosts_check(const k3_hosts_t *hosts, uint32_t ranks, k3_error_t *err)
{
    uint64_t slots = 0;

    for (size_t i = 0; i < hosts->count; i++) {
        slots += hosts->items[i].slots;
    }
    if (ranks <= slots) {
        return K3_OK;
    }
    return k3_fail(err, K3_ERR_UNSUPPORTED, "%u ranks: there are %llu slots on %zu %s", ranks,
                   (unsigned long long)slots, hosts->count,
                   hosts->kind == K3_HOSTS_CORES
                       ? "cores, and with --jobs above 1 each rank needs one of its own"
                       : "hosts");
}

bool k3_hosts_take(k3_hosts_t *hosts, int job, uint32_t ranks)
{
    uint64_t slots = 0;

    for (size_t i = 0; i < hosts->count && slots < ranks; i++) {
        slots += hosts->items[i].user < 0 ? hosts->items[i].slots : 0;
    }
    if (slots < ranks) {
        return false;
    }
    slots = 0;
    for (size_t i = 0; i < hosts->count && slots < ranks; i++) {
        if (hosts->items[i].user < 0) {
            hosts->items[i].user = job;
            slots += hosts->items[i].slots;
        }
    }
    return true;
}

void k3_hosts_release(k3_hosts_t *hosts, int job)
{
    for (size_t i = 0; i < hosts->count; i++) {
        if (hosts->items[i].user == job) {
            hosts->items[i].user = -1;
        }
    }
}
