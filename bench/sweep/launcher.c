#define _GNU_SOURCE /* open_memstream */

#include "bench/sweep/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- what is filled in ----------------------------------------------------------------------- */

typedef enum host_form { NAMES, NAMES_AND_SLOTS, LINES, COUNT } host_form_t;

static void put_hosts(const k3_hosts_t *hosts, int job, host_form_t form, FILE *out)
{
    size_t count = 0;

    for (size_t i = 0; i < hosts->count; i++) {
        const k3_host_t *host = &hosts->items[i];
        /* Cores of one host are one host. */
        bool again = hosts->kind == K3_HOSTS_CORES && count > 0;

        if (host->user != job || again) {
            continue;
        }
        if (form == LINES) {
            (void)fprintf(out, "%s slots=%u\n", host->name, host->slots);
        } else if (form != COUNT) {
            (void)fprintf(out, "%s%s", count > 0 ? "," : "", host->name);
        }
        if (form == NAMES_AND_SLOTS) {
            (void)fprintf(out, ":%u", host->slots);
        }
        count++;
    }
    if (form == COUNT) {
        (void)fprintf(out, "%zu", count);
    }
}

char *k3_launcher_hostfile(const k3_hosts_t *hosts, int job)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *out = open_memstream(&text, &size);

    if (out != NULL) {
        put_hosts(hosts, job, LINES, out);
        (void)fclose(out);
    }
    return text;
}

/* The value of {name}, name[length]; false: there is none. */
static bool put_value(const k3_launcher_t *l, const char *name, size_t length, FILE *out)
{
    static const char *const names[] = {"np", "nodes", "hosts", "names", "hostfile"};
    size_t                   which = 0;

    while (which < 5 &&
           (strlen(names[which]) != length || memcmp(names[which], name, length) != 0)) {
        which++;
    }
    switch (which) {
    case 0:
        (void)fprintf(out, "%u", l->ranks);
        return true;
    case 1:
        put_hosts(l->hosts, l->job, COUNT, out);
        return true;
    case 2:
        put_hosts(l->hosts, l->job, NAMES_AND_SLOTS, out);
        return true;
    case 3:
        put_hosts(l->hosts, l->job, NAMES, out);
        return true;
    case 4:
        (void)fputs(l->hostfile, out);
        return true;
    default:
        return false;
    }
}

/* --- words ----------------------------------------------------------------------------------- */

static k3_status_t fill_word(const k3_launcher_t *l, const char *word, FILE *out, k3_error_t *err)
{
    while (*word != '\0') {
        const char *end = *word == '{' ? strchr(word, '}') : NULL;

        if (end == NULL) {
            (void)fputc(*word++, out);
        } else if (put_value(l, word + 1, (size_t)(end - word) - 1, out)) {
            word = end + 1;
        } else {
            return k3_fail(err, K3_ERR_USAGE,
                           "launcher: %.*s is none of {np}, {nodes}, {hosts}, {names}, {hostfile}",
                           (int)(end - word) + 1, word);
        }
    }
    return K3_OK;
}

static const char *usual(const k3_launcher_t *l)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    switch (l->hosts->kind) {
    case K3_HOSTS_SLURM:
        return "srun --mpi=pmix --exact -n {np} -N {nodes} -w {names}";
    case K3_HOSTS_FILE:
        return "mpirun -q -np {np} --hostfile {hostfile}";
    case K3_HOSTS_CORES: /* mpirun itself would bind every job to the first cores */
        return "mpirun -q -np {np} --bind-to none";
    case K3_HOSTS_HERE:
        break;
    }
    return (long)l->ranks > cores ? "mpirun -q --oversubscribe -np {np}" : "mpirun -q -np {np}";
}

k3_status_t k3_launcher_words(const k3_launcher_t *l, k3_list_t *words, k3_error_t *err)
{
    char *copy = strdup(l->text != NULL ? l->text : usual(l)), *rest = NULL;

    memset(words, 0, sizeof(*words));
    for (char *word = copy != NULL ? strtok_r(copy, " \t", &rest) : NULL;
         word != NULL && err->status == K3_OK; word = strtok_r(NULL, " \t", &rest)) {
        char  *text = NULL;
        size_t size = 0;
        FILE  *out = open_memstream(&text, &size);

        if (out == NULL) {
            k3_fail(err, K3_ERR_ENV, "launcher: no memory");
            break;
        }
        fill_word(l, word, out, err);
        (void)fclose(out);
        k3_list_add(words, text);
        free(text);
    }
    free(copy);
    if (err->status == K3_OK && words->count == 0) {
        k3_fail(err, K3_ERR_USAGE, "launcher: it has no words");
    }
    if (err->status != K3_OK) {
        k3_list_free(words);
    }
    return err->status;
}
