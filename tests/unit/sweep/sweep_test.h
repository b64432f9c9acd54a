/* What the tests of bench/sweep share: a folder of their own, files in it, the variants of a text. */
#ifndef K3_TEST_SWEEP_H
#define K3_TEST_SWEEP_H

#include <limits.h>
#include <unistd.h>

#include "bench/commands/command.h"
#include "bench/sweep/variants.h"
#include "tests/unit/plan/plan_test.h"

static char folder[64];

static inline int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/k3bench-unit-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static inline int remove_folder(void **state)
{
    char command[128];

    (void)state;
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static inline const char *write_text(const char *name, const char *text)
{
    static char path[128];
    FILE       *file;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline k3_status_t try_variants(const char *ini, const k3_hosts_t *hosts,
                                       k3_variants_t *variants, k3_error_t *err)
{
    k3_sweep_source_t source = {.table = k3_command_table(&k3_command_sweep),
                                .run = K3_COMMAND_RUN,
                                .file = write_text("sweep.ini", ini),
                                .build = "1 abc"};

    return k3_variants_create(&source, hosts, variants, err);
}

static inline k3_variants_t variants_of(const char *ini)
{
    k3_hosts_t    hosts;
    k3_variants_t variants;
    k3_error_t    err = K3_ERROR_INIT;

    assert_int_equal(k3_hosts_find(NULL, 1, &hosts, &err), K3_OK);
    if (try_variants(ini, &hosts, &variants, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    k3_hosts_free(&hosts);
    return variants;
}

static inline bool has_word(const k3_variant_t *variant, const char *word)
{
    for (size_t i = 0; i < variant->words.count; i++) {
        if (strcmp(variant->words.items[i], word) == 0) {
            return true;
        }
    }
    return false;
}

#endif
