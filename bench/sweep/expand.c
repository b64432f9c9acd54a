/* The sections of a sweep's file and the products of their lists. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/sweep/variants_internal.h"
#include "harness/base/inifile.h"
#include "harness/base/memory.h"
#include "harness/mpi/world.h"

/* --- sections -------------------------------------------------------------------------------- */

static k3_status_t take_section(void *user, const k3_ini_entry_t *entry, k3_error_t *err)
{
    k3_list_t *sections = user;

    if (entry->key != NULL) {
        return K3_OK;
    }
    for (const char *c = entry->section; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_') {
            return k3_fail(
                err, K3_ERR_USAGE,
                "%.200s:%d: [%s]: names of sections are made of letters, digits, - and _",
                entry->path, entry->line, entry->section);
        }
    }
    for (size_t i = 0; i < sections->count; i++) {
        if (strcmp(sections->items[i], entry->section) == 0) {
            return k3_fail(err, K3_ERR_USAGE, "%.200s:%d: section [%s] stands there twice",
                           entry->path, entry->line, entry->section);
        }
    }
    k3_list_add(sections, entry->section);
    return K3_OK;
}

k3_status_t k3_sweep_sections(const char *file, k3_list_t *sections, k3_error_t *err)
{
    memset(sections, 0, sizeof(*sections));
    if (k3_ini_read(file, take_section, sections, err) != K3_OK) {
        k3_list_free(sections);
    } else if (sections->count == 0) {
        k3_list_add(sections, "");
    }
    return err->status;
}

/* A hole in a product of lists is lawful; a value that no cell of the section can have is a mistake. */
static k3_status_t check_marks(const expansion_t *x, k3_error_t *err)
{
    const char *key;
    json_t     *mark;

    json_object_foreach(x->marks, key, mark)
    {
        if (json_is_string(mark)) {
            return k3_fail(err, K3_ERR_USAGE, "%s%s%s%s: no cell can have it: %s",
                           x->section[0] != '\0' ? "[" : "", x->section,
                           x->section[0] != '\0' ? "] " : "", key, json_string_value(mark));
        }
    }
    return K3_OK;
}

/* As `run` refuses it on its command line; what stands before the sections may be for some of them. */
static k3_status_t check_idle(json_t *idle, k3_error_t *err)
{
    const char *name;
    json_t     *why;

    json_object_foreach(idle, name, why)
    {
        if (json_is_string(why)) {
            return k3_fail(err, K3_ERR_USAGE, "%s", json_string_value(why));
        }
    }
    return K3_OK;
}

/* --- products -------------------------------------------------------------------------------- */

/* Whether each value of the option has launches of its own. */
static bool is_apart(const expansion_t *x, const k3_list_t *split, size_t i)
{
    static const char *const always[] = {"model", "tp", "dp", "cp", "ep", NULL};
    const char              *name = k3_option_at(x, i)->name;

    for (int a = 0; always[a] != NULL; a++) {
        if (strcmp(always[a], name) == 0) {
            return true;
        }
    }
    for (size_t s = 0; s < split->count; s++) {
        if (strcmp(split->items[s], name) == 0) {
            return true;
        }
    }
    return !k3_requests_multiply(name);
}

static k3_status_t read_ranks(expansion_t *x, k3_error_t *err)
{
    const char *tp = k3_value_named(x, "tp");
    uint64_t    ranks = 0;

    if (tp == NULL) {
        return k3_fail(err, K3_ERR_USAGE, "%s%stp is missing: it says how many ranks a launch has",
                       x->section, x->section[0] != '\0' ? ": " : "");
    }
    if (k3_parse_u64("tp", tp, 1, 1u << 16, &ranks, err) == K3_OK) {
        x->ranks = (uint32_t)ranks;
    }
    return err->status;
}

static bool stands_before(const k3_list_t *items, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (strcmp(items->items[i], items->items[at]) == 0) {
            return true;
        }
    }
    return false;
}

/* Options from `i` on are still lists. */
static k3_status_t multiply(expansion_t *x, const k3_list_t *split, size_t i, k3_error_t *err)
{
    k3_list_t items;
    char     *whole;

    while (i < x->source->table.count &&
           (x->values[i] == NULL || !k3_option_is_of_run(x, i) || !is_apart(x, split, i))) {
        i++;
    }
    if (i == x->source->table.count) {
        return read_ranks(x, err) == K3_OK ? k3_variant_consider(x, err) : err->status;
    }
    whole = x->values[i];
    k3_values_of(x, i, &items);
    for (size_t v = 0; v < items.count && err->status == K3_OK; v++) {
        x->values[i] = items.items[v];
        if (items.items[v][0] == '\0' && items.count > 1) {
            k3_fail(err, K3_ERR_USAGE, "%s: an empty item in the list", k3_option_at(x, i)->name);
        } else if (stands_before(&items, v)) {
            k3_fail(err, K3_ERR_USAGE, "%s: '%.60s' stands twice in the list",
                    k3_option_at(x, i)->name, items.items[v]);
        } else {
            multiply(x, split, i + 1, err);
        }
    }
    x->values[i] = whole;
    k3_list_free(&items);
    return err->status;
}

static k3_status_t read_split(const char *text, k3_list_t *split, k3_error_t *err)
{
    memset(split, 0, sizeof(*split));
    if (strcmp(text, "none") != 0) {
        k3_list_split(text, ',', split);
    }
    for (size_t s = 0; s < split->count; s++) {
        if (!k3_requests_multiply(split->items[s])) {
            k3_fail(err, K3_ERR_USAGE, "split: '%.60s' is no option that `run` takes a list for",
                    split->items[s]);
        }
    }
    return err->status;
}

/* --- a section ------------------------------------------------------------------------------- */

static k3_status_t expand_values(expansion_t *x, const k3_options_t *options, k3_error_t *err)
{
    size_t    count = x->source->table.count;
    k3_list_t split = {0};

    if (k3_parse_u64("launches", k3_options_get(options, "launches"), 1, K3_LAUNCHES_A_VARIANT_MAX,
                     &x->launches, err) != K3_OK) {
        return err->status;
    }
    if (strcmp(k3_options_get(options, "rotate"), "0") != 0) {
        return k3_fail(err, K3_ERR_USAGE, "rotate: a sweep turns the order of the cells itself");
    }
    x->launcher = k3_options_get(options, "launcher");
    x->values = calloc(count + 1, sizeof(*x->values));
    x->marks = json_object();
    x->options = options;
    for (size_t i = 0; i < count && x->values != NULL; i++) {
        const char *value = k3_options_get(options, k3_option_at(x, i)->name);

        x->values[i] = value != NULL && k3_option_is_of_run(x, i) ? strdup(value) : NULL;
    }
    if (x->values != NULL && read_split(k3_options_get(options, "split"), &split, err) == K3_OK &&
        multiply(x, &split, 0, err) == K3_OK) {
        check_marks(x, err);
    }
    for (size_t i = 0; i < count && x->values != NULL; i++) {
        free(x->values[i]);
    }
    free(x->values);
    json_decref(x->marks);
    k3_list_free(&split);
    return err->status;
}

static k3_status_t expand_section(const k3_sweep_source_t *source, const k3_hosts_t *hosts,
                                  const char *section, uint64_t memory, json_t *idle,
                                  k3_variants_t *variants, k3_error_t *err)
{
    k3_option_table_t table = source->table;
    k3_options_t     *options = NULL;
    expansion_t       x = {.source = source,
                           .hosts = hosts,
                           .variants = variants,
                           .section = section,
                           .memory = memory,
                           .idle = idle};

    table.file = source->file;
    table.section = section;
    if (k3_options_parse(&table, source->argc, source->argv, &options, err) == K3_OK) {
        expand_values(&x, options, err);
        k3_options_free(options);
    }
    return err->status;
}

/* The same work twice would be told apart by nothing. */
static k3_status_t check_twice(const k3_variants_t *variants, k3_error_t *err)
{
    char a[K3_LAUNCH_ID_MAX], b[K3_LAUNCH_ID_MAX];

    for (size_t i = 1; i < variants->count; i++) {
        for (size_t j = i;
             j-- > 0 && strcmp(variants->items[j].section, variants->items[i].section) == 0;) {
            k3_launch_id(&variants->items[i], 1, a);
            k3_launch_id(&variants->items[j], 1, b);
            if (strcmp(a, b) == 0) {
                return k3_fail(err, K3_ERR_USAGE, "%s: a list names the same value twice", a);
            }
        }
    }
    return K3_OK;
}

k3_status_t k3_variants_create(const k3_sweep_source_t *source, const k3_hosts_t *hosts,
                               k3_variants_t *variants, k3_error_t *err)
{
    k3_list_t sections;
    uint64_t  memory = k3_node_memory_available(); /* once: all cells are held against the same */
    json_t   *idle;

    memset(variants, 0, sizeof(*variants));
    if (k3_sweep_sections(source->file, &sections, err) != K3_OK) {
        return err->status;
    }
    idle = json_object();
    for (size_t i = 0; i < sections.count && err->status == K3_OK; i++) {
        expand_section(source, hosts, sections.items[i], memory, idle, variants, err);
    }
    k3_list_free(&sections);
    if (err->status != K3_OK || check_idle(idle, err) != K3_OK ||
        check_twice(variants, err) != K3_OK) {
        k3_variants_free(variants);
    }
    json_decref(idle);
    return err->status;
}
