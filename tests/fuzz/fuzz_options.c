/* Any bytes as an ini file, and once more as a command line. */
#define _GNU_SOURCE

#include <string.h>

#include "harness/base/options.h"
#include "tests/fuzz/memory_file.h"

enum { MAX_WORDS = 64 };

const char *const fuzz_seeds[] = {
    "tokens = 8\nmax-tokens = 16\n",
    "[cell]\nmax_tokens=2Ki ; comment\n# more\ncheck = on\n",
    "model: kimi-k3:E=8,K=2\n  backend = mooncake,deepep:ll\n",
    "tokns = 8\n",
    "--tokens\n8\n--model=tiny\n--check\n--\nA\n-o\n",
    "\xef\xbb\xbftokens = 8\r\n",
    "[\n=\n:\n]\n;\n",
    "options = /etc/passwd\n",
    "",
    NULL,
};

static const k3_option_def_t defs[] = {
    {"options", "FILE", NULL, "file", 1},      {"tokens", "LIST", "8", "rows", 1},
    {"max-tokens", "N", NULL, "bound", 1},     {"model", "NAME", "tiny", "model", 1},
    {"backend", "LIST", "none", "backend", 1}, {"check", NULL, NULL, "check", 1},
    {"json", "FILE", NULL, "other", 2},
};

static const size_t def_count = sizeof(defs) / sizeof(defs[0]);

static void check_options(const k3_option_table_t *table, int argc, char **argv)
{
    k3_options_t *options = NULL;
    k3_error_t    err = K3_ERROR_INIT;
    k3_status_t   status = k3_options_parse(table, argc, argv, &options, &err);

    FUZZ_CHECK((status == K3_OK) == (options != NULL));
    if (status != K3_OK) {
        FUZZ_CHECK(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
        return;
    }
    for (size_t i = 0; i < table->count; i++) {
        const char *value = k3_options_get(options, table->defs[i].name);

        FUZZ_CHECK(value != NULL || table->defs[i].fallback == NULL);
        FUZZ_CHECK(table->defs[i].metavar != NULL || strcmp(value, "on") == 0 ||
                   strcmp(value, "off") == 0);
    }
    k3_options_free(options);
}

static void check_file(const uint8_t *data, size_t size)
{
    const k3_option_table_t table = {defs, def_count, 1};
    char                    name[] = "--options", path[64];
    char                   *argv[] = {name, path};

    (void)snprintf(path, sizeof(path), "%s", memory_file(data, size));
    check_options(&table, 2, argv);
}

/* The lines are the words. The table is without "options", so that no file is opened. */
static void check_words(const uint8_t *data, size_t size)
{
    const k3_option_table_t table = {defs + 1, def_count - 1, 1};
    char                   *text = strndup((const char *)data, size);
    char                   *argv[MAX_WORDS], *rest = NULL;
    int                     argc = 0;

    FUZZ_CHECK(text != NULL);
    for (char *word = strtok_r(text, "\n", &rest); word != NULL && argc < MAX_WORDS;
         word = strtok_r(NULL, "\n", &rest)) {
        argv[argc++] = word;
    }
    check_options(&table, argc, argv);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_file(data, size);
    check_words(data, size);
    return 0;
}
