/* One table, three ways in: command line, environment, ini file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness/base/options.h"

enum { RUN = 1, PLAN = 2 };

static const k3_option_def_t defs[] = {
    {"options", "FILE", NULL, "options from an ini file", RUN | PLAN},
    {"tokens", "LIST", "8", "rows per rank", RUN | PLAN},
    {"max-tokens", "N", NULL, "the bound that all ranks agree on", RUN | PLAN},
    {"model", "NAME", "tiny", "model", RUN | PLAN},
    {"output", "FILE", NULL, "the record", RUN},
    {"progress", "WHEN", "auto", "progress line", RUN},
    {"check", NULL, NULL, "check results", RUN},
    {"p2p", NULL, "on", "copies between ranks of a node", RUN},
    {"json", "FILE", NULL, "plan as JSON", PLAN},
};

static const k3_option_table_t run_table = {defs, sizeof(defs) / sizeof(defs[0]), RUN};
static const k3_option_table_t plan_table = {defs, sizeof(defs) / sizeof(defs[0]), PLAN};

static char folder[64];
static char ini_path[128];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/k3-test-options-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(ini_path, sizeof(ini_path), "%s/run.ini", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(ini_path);
    return rmdir(folder);
}

static int clean_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(defs) / sizeof(defs[0]); i++) {
        char name[64] = "K3BENCH_";

        for (size_t j = 0; j <= strlen(defs[i].name); j++) {
            char c = defs[i].name[j];

            name[8 + j] = (char)(c == '-' ? '_' : (c >= 'a' && c <= 'z' ? c - 32 : c));
        }
        (void)unsetenv(name);
    }
    return 0;
}

static void write_ini(const void *bytes, size_t size)
{
    FILE *file = fopen(ini_path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_ini_text(const char *text)
{
    write_ini(text, strlen(text));
}

/* The words are separated by one blank. */
static k3_status_t parse(const k3_option_table_t *table, const char *line, k3_options_t **options,
                         k3_error_t *err)
{
    char *text = strdup(line), *rest = NULL, *argv[32];
    int   argc = 0;

    assert_non_null(text);
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < 32);
        argv[argc++] = word;
    }

    k3_status_t status = k3_options_parse(table, argc, argv, options, err);

    free(text);
    return status;
}

static k3_options_t *must_parse(const k3_option_table_t *table, const char *line)
{
    k3_options_t *options = NULL;
    k3_error_t    err = K3_ERROR_INIT;

    if (parse(table, line, &options, &err) != K3_OK) {
        fail_msg("'%s' refused: %s", line, err.text);
    }
    return options;
}

static void expect_refused(const k3_option_table_t *table, const char *line, k3_status_t status,
                           const char *text)
{
    k3_options_t *options = NULL;
    k3_error_t    err = K3_ERROR_INIT;

    assert_int_equal(parse(table, line, &options, &err), status);
    assert_null(options);
    assert_int_equal(err.status, status);
    if (strstr(err.text, text) == NULL) {
        fail_msg("'%s' gave '%s', not '%s'", line, err.text, text);
    }
}

static void check_value(const k3_options_t *options, const char *name, const char *value,
                        k3_origin_t origin)
{
    const char *got = k3_options_get(options, name);

    if (value == NULL) {
        assert_null(got);
    } else {
        assert_non_null(got);
        assert_string_equal(got, value);
    }
    assert_int_equal(k3_options_origin(options, name), origin);
}

/* Reads the ini file alone. */
static k3_options_t *must_read_ini(const char *text)
{
    char line[160];

    write_ini_text(text);
    (void)snprintf(line, sizeof(line), "--options %s", ini_path);
    return must_parse(&run_table, line);
}

static void expect_ini_refused(const void *bytes, size_t size, k3_status_t status, const char *text)
{
    char line[160];

    write_ini(bytes, size);
    (void)snprintf(line, sizeof(line), "--options %s", ini_path);
    expect_refused(&run_table, line, status, text);
}

static void expect_line_refused(const char *ini, const char *text)
{
    expect_ini_refused(ini, strlen(ini), K3_ERR_USAGE, text);
}

/* --- command line ---------------------------------------------------------------------------- */

static void test_defaults(void **state)
{
    k3_options_t *options = must_parse(&run_table, "");

    (void)state;
    check_value(options, "tokens", "8", K3_ORIGIN_DEFAULT);
    check_value(options, "max-tokens", NULL, K3_ORIGIN_DEFAULT);
    check_value(options, "check", "off", K3_ORIGIN_DEFAULT);
    check_value(options, "p2p", "on", K3_ORIGIN_DEFAULT);
    assert_int_equal(k3_options_positional_count(options), 0);
    assert_null(k3_options_positional(options, 0));
    k3_options_free(options);
    k3_options_free(NULL);
}

static void test_forms_of_an_option(void **state)
{
    k3_options_t *options =
        must_parse(&run_table, "a --tokens 1 --tokens=2,4 --model= b --check --p2p=off -o x -");

    (void)state;
    check_value(options, "tokens", "2,4", K3_ORIGIN_COMMAND_LINE);
    check_value(options, "model", "", K3_ORIGIN_COMMAND_LINE);
    check_value(options, "check", "on", K3_ORIGIN_COMMAND_LINE);
    check_value(options, "p2p", "off", K3_ORIGIN_COMMAND_LINE);
    check_value(options, "output", "x", K3_ORIGIN_COMMAND_LINE);
    assert_int_equal(k3_options_positional_count(options), 3);
    assert_string_equal(k3_options_positional(options, 0), "a");
    assert_string_equal(k3_options_positional(options, 1), "b");
    assert_string_equal(k3_options_positional(options, 2), "-");
    k3_options_free(options);
}

static void test_values_that_look_odd(void **state)
{
    k3_options_t *options = must_parse(&run_table, "--output - --model=a=b --tokens -1");

    (void)state;
    check_value(options, "output", "-", K3_ORIGIN_COMMAND_LINE);
    check_value(options, "model", "a=b", K3_ORIGIN_COMMAND_LINE);
    check_value(options, "tokens", "-1", K3_ORIGIN_COMMAND_LINE);
    k3_options_free(options);
}

static void test_two_dashes_end_the_options(void **state)
{
    k3_options_t *options = must_parse(&run_table, "a -- --tokens -- b");

    (void)state;
    assert_int_equal(k3_options_positional_count(options), 4);
    assert_string_equal(k3_options_positional(options, 1), "--tokens");
    assert_string_equal(k3_options_positional(options, 2), "--");
    check_value(options, "tokens", "8", K3_ORIGIN_DEFAULT);
    k3_options_free(options);
}

static void test_O05_unknown_option_names_the_nearest(void **state)
{
    (void)state;
    expect_refused(&run_table, "--tokns 8", K3_ERR_USAGE,
                   "unknown option '--tokns'; the nearest known one is '--tokens'");
    expect_refused(&run_table, "--tokns=8", K3_ERR_USAGE, "nearest known one is '--tokens'");
    expect_refused(&run_table, "--max_tokens 8", K3_ERR_USAGE, "'--max-tokens'");
    expect_refused(&run_table, "--zzzzzz", K3_ERR_USAGE, "unknown option '--zzzzzz'; --help");
    expect_refused(&run_table, "-tokens 8", K3_ERR_USAGE, "'--tokens'");
    expect_refused(&run_table, "-x", K3_ERR_USAGE, "unknown option '-x'");
    expect_refused(&run_table, "--=3", K3_ERR_USAGE, "unknown option '--=3'");
    expect_refused(&run_table, "--token", K3_ERR_USAGE, "'--tokens'"); /* no abbreviations */
}

static void test_options_of_other_commands_are_refused(void **state)
{
    (void)state;
    expect_refused(&run_table, "--json x", K3_ERR_USAGE, "option '--json' is not for this command");
    expect_refused(&plan_table, "-o x", K3_ERR_USAGE, "option '--output' is not for this command");
    expect_refused(&plan_table, "--progres x", K3_ERR_USAGE, "unknown option '--progres'; --help");
}

static void test_missing_and_wrong_values(void **state)
{
    (void)state;
    expect_refused(&run_table, "--tokens", K3_ERR_USAGE,
                   "option '--tokens' needs a value: --tokens LIST");
    expect_refused(&run_table, "--tokens --check", K3_ERR_USAGE, "needs a value");
    expect_refused(&run_table, "--check=yes", K3_ERR_USAGE,
                   "--check: 'yes' is no value of a switch: on or off");
}

static void test_very_long_words(void **state)
{
    static char   line[20000];
    k3_options_t *options = NULL;

    (void)state;
    memset(line, 'a', sizeof(line) - 1);
    memcpy(line, "--model=", 8);
    options = must_parse(&run_table, line);
    assert_int_equal(strlen(k3_options_get(options, "model")), sizeof(line) - 9);
    k3_options_free(options);
    memcpy(line, "--aaaaaa", 8);
    expect_refused(&run_table, line, K3_ERR_USAGE, "unknown option '--aaaa");
}

/* --- environment ----------------------------------------------------------------------------- */

static void test_environment(void **state)
{
    k3_options_t *options = NULL;

    (void)state;
    setenv("K3BENCH_MAX_TOKENS", "64", 1);
    setenv("K3BENCH_CHECK", "on", 1);
    setenv("K3BENCH_JSON", "not for this command", 1);
    setenv("K3BENCHMARK", "no prefix of ours", 1);
    options = must_parse(&run_table, "");
    check_value(options, "max-tokens", "64", K3_ORIGIN_ENVIRONMENT);
    check_value(options, "check", "on", K3_ORIGIN_ENVIRONMENT);
    check_value(options, "json", NULL, K3_ORIGIN_DEFAULT);
    k3_options_free(options);
    setenv("K3BENCH_CHECK", "1", 1);
    expect_refused(&run_table, "", K3_ERR_USAGE, "K3BENCH_CHECK: '1' is no value of a switch");
}

static void test_O05_unknown_variable_names_the_nearest(void **state)
{
    (void)state;
    setenv("K3BENCH_TOKNS", "8", 1);
    expect_refused(&run_table, "", K3_ERR_USAGE,
                   "unknown variable K3BENCH_TOKNS in the environment; the nearest known one is "
                   "K3BENCH_TOKENS");
    unsetenv("K3BENCH_TOKNS");
    setenv("K3BENCH_max_tokens", "8", 1);
    expect_refused(&run_table, "", K3_ERR_USAGE, "K3BENCH_MAX_TOKENS");
    unsetenv("K3BENCH_max_tokens");
    setenv("K3BENCH_", "8", 1);
    expect_refused(&run_table, "", K3_ERR_USAGE, "unknown variable K3BENCH_ in the environment");
    unsetenv("K3BENCH_");
}

/* --- file ------------------------------------------------------------------------------------ */

static void test_file(void **state)
{
    k3_options_t *options = must_read_ini("\xef\xbb\xbf; comment\n"
                                          "# another\n"
                                          "tokens = 1,2,4   ; behind the value\r\n"
                                          "\n"
                                          "[limits]\n"
                                          "  max_tokens=16\n"
                                          "model: kimi-k3:E=8,K=2\n"
                                          "json = for another command\n"
                                          "check = on");

    (void)state;
    check_value(options, "tokens", "1,2,4", K3_ORIGIN_FILE);
    check_value(options, "max-tokens", "16", K3_ORIGIN_FILE);
    check_value(options, "model", "kimi-k3:E=8,K=2", K3_ORIGIN_FILE);
    check_value(options, "json", NULL, K3_ORIGIN_DEFAULT);
    check_value(options, "check", "on", K3_ORIGIN_FILE);
    k3_options_free(options);
    k3_options_free(must_read_ini(""));
    k3_options_free(must_read_ini("max-tokens = 8\n"));
}

/* An indented line is a line, not more of the value above it. */
static void test_file_ignores_indentation(void **state)
{
    k3_options_t *options = must_read_ini("tokens = 1\n    model = tiny2\n\tcheck = on\n");

    (void)state;
    check_value(options, "tokens", "1", K3_ORIGIN_FILE);
    check_value(options, "model", "tiny2", K3_ORIGIN_FILE);
    check_value(options, "check", "on", K3_ORIGIN_FILE);
    k3_options_free(options);
}

static void test_O05_unknown_key_names_file_line_and_nearest(void **state)
{
    char text[256];

    (void)state;
    (void)snprintf(text, sizeof(text),
                   "%s:3: unknown key 'tokns'; the nearest known one is 'tokens'", ini_path);
    expect_line_refused("# first\n[cell]\ntokns = 8\n", text);
    expect_line_refused("zzzzzz = 8\n", ":1: unknown key 'zzzzzz'");
    expect_line_refused("= 8\n", ":1: unknown key ''");
    expect_line_refused("Tokens = 8\n",
                        ":1: unknown key 'Tokens'; the nearest known one is 'tokens'");
}

static void test_file_faults_name_the_first_line(void **state)
{
    (void)state;
    expect_line_refused("tokens = 1\nmodel\n", ":2: neither 'key = value' nor '[section]'");
    expect_line_refused("tokens\nmodl = 1\n", ":1: neither");
    expect_line_refused("modl = 1\ntokens\n", ":1: unknown key 'modl'");
    expect_line_refused("[cell\n", ":1: neither");
    expect_line_refused("tokens = 1\n[b]\ntokens = 2\n",
                        ":3: key 'tokens' already stands in line 1");
    expect_line_refused("max-tokens = 1\nmax_tokens = 1\n", ":2: key 'max-tokens' already stands");
    expect_line_refused("check = maybe\n", ":1: check: 'maybe' is no value of a switch");
    expect_line_refused("options = other.ini\n", ":1: an options file cannot name another one");
}

static void test_heads_of_sections(void **state)
{
    char long_head[80] = "[";

    (void)state;
    memset(long_head + 1, 'a', 48);
    strcpy(long_head + 49, "]\n");
    expect_line_refused("[ ]\n", ":1: '[ ]' is no head of a section");
    expect_line_refused("tokens = 1\n[a] tokens = 2\n", ":2: '[a] tokens = 2' is no head");
    expect_line_refused(long_head, "at most 47 bytes");
}

/* With a section asked for: its keys and those in front of all sections, over which they go. */
static void test_one_section_of_a_file(void **state)
{
    const char *text = "tokens = 1\nmodel = front\n[a]\ntokens = 2\n[b] ; empty\n[c]\ncheck = on\n";
    const char *const names[] = {"a", "b", "c", ""}, *const tokens[] = {"2", "1", "1", "1"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        k3_option_table_t table = run_table;
        k3_options_t     *options = NULL;
        k3_error_t        err = K3_ERROR_INIT;

        write_ini_text(text);
        table.file = ini_path;
        table.section = names[i];
        assert_int_equal(k3_options_parse(&table, 0, NULL, &options, &err), K3_OK);
        check_value(options, "tokens", tokens[i], K3_ORIGIN_FILE);
        check_value(options, "model", "front", K3_ORIGIN_FILE);
        check_value(options, "check", i == 2 ? "on" : "off",
                    i == 2 ? K3_ORIGIN_FILE : K3_ORIGIN_DEFAULT);
        k3_options_free(options);
    }
}

static void test_sections_have_known_keys_once(void **state)
{
    const char *const texts[] = {"[a]\ntokns = 8\n", "[b]\ntokens = 1\ntokens = 2\n",
                                 "tokens = 1\ntokens = 2\n[b]\n"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        k3_option_table_t table = run_table;
        k3_options_t     *options = NULL;
        k3_error_t        err = K3_ERROR_INIT;

        write_ini_text(texts[i]);
        table.file = ini_path;
        table.section = "b";
        assert_int_equal(k3_options_parse(&table, 0, NULL, &options, &err), K3_ERR_USAGE);
    }
}

static void test_file_with_long_lines(void **state)
{
    char          text[512] = "tokens = ";
    k3_options_t *options = NULL;

    (void)state;
    memset(text + 9, '1', 189);
    options = must_read_ini(text); /* 198 bytes: the longest line that inih takes whole */
    assert_int_equal(strlen(k3_options_get(options, "tokens")), 189);
    k3_options_free(options);
    memset(text + 9, '1', 190);
    expect_line_refused(text, ":1: line of 199 bytes; the limit is 198");
    memset(text + 9, '1', 500);
    expect_line_refused(text, ":1: line of 509 bytes; the limit is 198");
}

/* A value that ends with a comma goes on in the next line that is neither blank nor a comment. */
static void test_file_with_lists_over_lines(void **state)
{
    char          text[8192] = "tokens = 1,\n";
    k3_options_t *options;

    (void)state;
    options = must_read_ini("tokens = 1,\n  2, ; two\n\n; none\nk:3,\nK=2,\n7\n[x]\ncheck = on\n");
    check_value(options, "tokens", "1,2,k:3,K=2,7", K3_ORIGIN_FILE);
    check_value(options, "check", "on", K3_ORIGIN_FILE);
    k3_options_free(options);
    expect_line_refused("tokens = 1,\n2,\n", ":1: the list ends with a comma, nothing follows it");
    expect_line_refused("\ntokens = 1, ; two\n[cell]\nmodel = x\n",
                        ":2: the list ends with a comma, nothing follows it");
    expect_line_refused("tokens = 1,\n2 ; \x1b[31m\n", ":2: byte 0x1b in column 5");
    expect_line_refused("tokens = 1,\n\nmodel = k\n",
                        ":3: the list of line 1 ends with a comma, but this line is an option");
    expect_line_refused("tokens = 1,\nmax-tokens=2\n", ":2: the list of line 1 ends with a comma");
    expect_line_refused("tokens = 1,\n2,\nmodel: k\n", ":3: the list of line 1 ends with a comma");
    expect_line_refused("check = on,\n maybe\n", ":1: check: 'on,maybe' is no value of a switch");
    memset(text + 12, '1', 197);
    strcpy(text + 12 + 197, "\n");
    options = must_read_ini(text);
    assert_int_equal(strlen(k3_options_get(options, "tokens")), 199);
    k3_options_free(options);
    memset(text + 12, '1', 198);
    strcpy(text + 12 + 198, "\n");
    expect_line_refused(text, ":2: line of 198 bytes; the limit is 197");
    text[12] = '\0';
    for (int i = 0; i < 41; i++) {
        char line[102];

        memset(line, '2', 99);
        strcpy(line + 99, ",\n");
        strcat(text, line);
    }
    expect_line_refused(text, ":42: a value of 4102 bytes; the limit is 4095");
}

static void test_hostile_files(void **state)
{
    static char large[(1 << 20) + 1];
    char        line[160];

    (void)state;
    expect_ini_refused("tokens = 1\nmodel = \0x\n", 21, K3_ERR_USAGE, ":2: byte 0x00 in column 9");
    expect_line_refused("\x7f"
                        "ELF\x02\x01\x01\n",
                        ":1: byte 0x7f in column 1");
    expect_line_refused("\x1b[31m = 1\n", ":1: byte 0x1b in column 1");
    expect_line_refused("\xff\xfe = \x80\n", ":1: unknown key");
    memset(large, '\n', sizeof(large));
    expect_ini_refused(large, sizeof(large), K3_ERR_IO, "more than 1048576 bytes");
    write_ini(large, sizeof(large) - 1);
    (void)snprintf(line, sizeof(line), "--options %s", ini_path);
    k3_options_free(must_parse(&run_table, line));
}

static void test_unreadable_file(void **state)
{
    (void)state;
    expect_refused(&run_table, "--options /tmp/no/such/file.ini", K3_ERR_IO,
                   "options file '/tmp/no/such/file.ini': No such file");
    expect_refused(&run_table, "--options /tmp", K3_ERR_IO, "options file '/tmp': Is a directory");
    expect_refused(&run_table, "--options=", K3_ERR_IO, "options file ''");
}

/* --- all three ------------------------------------------------------------------------------- */

static void test_U05_precedence_and_origin(void **state)
{
    char          line[256];
    k3_options_t *options = NULL;

    (void)state;
    write_ini_text("tokens = 1\nmodel = file\nmax-tokens = 100\noutput = file\n");
    setenv("K3BENCH_TOKENS", "2", 1);
    setenv("K3BENCH_MODEL", "environment", 1);
    setenv("K3BENCH_PROGRESS", "off", 1);
    (void)snprintf(line, sizeof(line), "--tokens 3 --options %s --output line", ini_path);
    options = must_parse(&run_table, line);
    check_value(options, "tokens", "3", K3_ORIGIN_COMMAND_LINE);
    check_value(options, "model", "environment", K3_ORIGIN_ENVIRONMENT);
    check_value(options, "max-tokens", "100", K3_ORIGIN_FILE);
    check_value(options, "output", "line", K3_ORIGIN_COMMAND_LINE);
    check_value(options, "progress", "off", K3_ORIGIN_ENVIRONMENT);
    check_value(options, "p2p", "on", K3_ORIGIN_DEFAULT);
    k3_options_free(options);
}

static void test_U05_file_named_by_the_environment(void **state)
{
    k3_options_t *options = NULL;

    (void)state;
    write_ini_text("tokens = 1\n");
    setenv("K3BENCH_OPTIONS", ini_path, 1);
    options = must_parse(&run_table, "");
    check_value(options, "tokens", "1", K3_ORIGIN_FILE);
    k3_options_free(options);
    expect_refused(&run_table, "--options /no/such.ini", K3_ERR_IO, "/no/such.ini");
}

static void test_names_of_origins(void **state)
{
    (void)state;
    assert_string_equal(k3_origin_name(K3_ORIGIN_DEFAULT), "default");
    assert_string_equal(k3_origin_name(K3_ORIGIN_FILE), "file");
    assert_string_equal(k3_origin_name(K3_ORIGIN_ENVIRONMENT), "environment");
    assert_string_equal(k3_origin_name(K3_ORIGIN_COMMAND_LINE), "command line");
}

static void test_help(void **state)
{
    static const k3_option_def_t help_defs[] = {
        {"tokens", "LIST", "8", "rows per rank", 1},
        {"a-very-long-option-name", "VALUE", NULL,
         "first line\nsecond line with many words that go on and on until they do not fit within "
         "one hundred columns any more",
         1},
        {"check", NULL, "off", "switch", 1},
        {"other", NULL, NULL, "not shown", 2},
    };
    const k3_option_table_t table = {help_defs, 4, 1};
    char                   *text = NULL;
    size_t                  size = 0;
    FILE                   *out = open_memstream(&text, &size);

    (void)state;
    assert_non_null(out);
    k3_options_help(&table, out);
    fclose(out);
    assert_string_equal(
        text, "  --tokens LIST               rows per rank (default: 8)\n"
              "  --a-very-long-option-name VALUE\n"
              "                              first line second line with many words that go on and "
              "on until they do\n"
              "                              not fit within one hundred columns any more\n"
              "  --check                     switch\n");
    free(text);
}

/* Options that no other command takes come first where the command asks for it. */
static void test_help_own_first(void **state)
{
    static const k3_option_def_t help_defs[] = {
        {"shared", "N", NULL, "of both", 3},
        {"own", "N", NULL, "of the second alone", 2},
    };
    const k3_option_table_t table = {help_defs, 2, .command = 2, .own_first = "as the first:"};
    char                   *text = NULL;
    size_t                  size = 0;
    FILE                   *out = open_memstream(&text, &size);

    (void)state;
    assert_non_null(out);
    k3_options_help(&table, out);
    fclose(out);
    assert_string_equal(text, "  --own N                     of the second alone\n"
                              "\nas the first:\n"
                              "  --shared N                  of both\n");
    free(text);
}

#define OPTION_TEST(name)                                                                          \
    cmocka_unit_test_setup_teardown(name, clean_environment, clean_environment)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTION_TEST(test_defaults),
        OPTION_TEST(test_forms_of_an_option),
        OPTION_TEST(test_values_that_look_odd),
        OPTION_TEST(test_two_dashes_end_the_options),
        OPTION_TEST(test_O05_unknown_option_names_the_nearest),
        OPTION_TEST(test_options_of_other_commands_are_refused),
        OPTION_TEST(test_missing_and_wrong_values),
        OPTION_TEST(test_very_long_words),
        OPTION_TEST(test_environment),
        OPTION_TEST(test_O05_unknown_variable_names_the_nearest),
        OPTION_TEST(test_file),
        OPTION_TEST(test_file_ignores_indentation),
        OPTION_TEST(test_O05_unknown_key_names_file_line_and_nearest),
        OPTION_TEST(test_file_faults_name_the_first_line),
        OPTION_TEST(test_heads_of_sections),
        OPTION_TEST(test_one_section_of_a_file),
        OPTION_TEST(test_sections_have_known_keys_once),
        OPTION_TEST(test_file_with_long_lines),
        OPTION_TEST(test_file_with_lists_over_lines),
        OPTION_TEST(test_hostile_files),
        OPTION_TEST(test_unreadable_file),
        OPTION_TEST(test_U05_precedence_and_origin),
        OPTION_TEST(test_U05_file_named_by_the_environment),
        OPTION_TEST(test_names_of_origins),
        OPTION_TEST(test_help),
        OPTION_TEST(test_help_own_first),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
