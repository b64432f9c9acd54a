#include <ctype.h>

#include "tests/unit/plan/plan_test.h"

#include "bench/commands/command.h"

static const unsigned commands[] = {K3_COMMAND_RUN, K3_COMMAND_PLAN, K3_COMMAND_REPORT,
                                    K3_COMMAND_LIST};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void test_names_are_unique(void **state)
{
    (void)state;
    assert_true(k3_option_count > 0);
    for (size_t i = 0; i < k3_option_count; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(k3_option_defs[i].name, k3_option_defs[j].name);
        }
    }
}

/* Lower case words joined by '-': the environment's name follows from it. */
static void test_names_are_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < k3_option_count; i++) {
        const char *name = k3_option_defs[i].name;

        assert_true(name[0] != '-' && name[0] != '\0');
        for (; *name != '\0'; name++) {
            assert_true(islower((unsigned char)*name) || isdigit((unsigned char)*name) ||
                        *name == '-');
        }
    }
}

static void test_every_option_has_help_and_a_command(void **state)
{
    (void)state;
    for (size_t i = 0; i < k3_option_count; i++) {
        const k3_option_def_t *def = &k3_option_defs[i];

        assert_non_null(def->help);
        assert_true(strlen(def->help) > 0);
        assert_true(def->commands != 0);
        /* A switch is off until it is given. */
        assert_true(def->metavar != NULL ||
                    (def->fallback != NULL && strcmp(def->fallback, "off") == 0));
    }
}

/* Options of the contract, section 3, that every cell has. */
static void test_cell_options_of_the_contract(void **state)
{
    static const char *const names[] = {
        "model",    "backend",        "generation",    "tp",      "dp",     "cp",   "ep",
        "tokens",   "max-tokens",     "tokens-skew",   "routing", "seed",   "path", "path-rule",
        "runner",   "dispatch-dtype", "combine-dtype", "qps",     "fabric", "p2p",  "nodes-as",
        "component"};

    (void)state;
    for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        size_t i = 0;

        while (i < k3_option_count && strcmp(k3_option_defs[i].name, names[n]) != 0) {
            i++;
        }
        if (i == k3_option_count) {
            fail_msg("no option %s", names[n]);
        }
        assert_int_equal(k3_option_defs[i].commands & (K3_COMMAND_RUN | K3_COMMAND_PLAN),
                         K3_COMMAND_RUN | K3_COMMAND_PLAN);
    }
}

static void test_defaults_parse(void **state)
{
    (void)state;
    for (unsigned c = 0; c < COMMANDS; c++) {
        k3_option_table_t table = {k3_option_defs, k3_option_count, commands[c]};
        k3_error_t        err = K3_ERROR_INIT;
        k3_options_t     *options = NULL;

        if (k3_options_parse(&table, 0, NULL, &options, &err) != K3_OK) {
            fail_msg("%s", err.text);
        }
        for (size_t i = 0; i < k3_option_count; i++) {
            const char *value = k3_options_get(options, k3_option_defs[i].name);

            if (k3_option_defs[i].fallback == NULL) {
                assert_null(value);
            } else {
                assert_string_equal(value, k3_option_defs[i].fallback);
            }
        }
        k3_options_free(options);
    }
}

/* No line of any help is wider than 100 columns, and every option of the command is in it. */
static void test_help_fits(void **state)
{
    (void)state;
    for (unsigned c = 0; c < COMMANDS; c++) {
        k3_option_table_t table = {k3_option_defs, k3_option_count, commands[c]};
        char             *text = NULL;
        size_t            size = 0;
        FILE             *out = open_memstream(&text, &size);

        k3_options_help(&table, out);
        fclose(out);
        for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
            size_t length = strcspn(line, "\n");

            if (length > 100) {
                fail_msg("%zu columns: %.*s", length, (int)length, line);
            }
            assert_true(length == 0 || line[length - 1] != ' ');
        }
        for (size_t i = 0; i < k3_option_count; i++) {
            char word[64];
            bool there;

            snprintf(word, sizeof(word), "  --%s%s", k3_option_defs[i].name,
                     k3_option_defs[i].metavar != NULL ? " " : "");
            there = strstr(text, word) != NULL;
            assert_int_equal(there, (k3_option_defs[i].commands & commands[c]) != 0);
        }
        free(text);
    }
}

/* O05: the nearest name, in a message that names what was typed. */
static void test_O05_nearest_name(void **state)
{
    k3_option_table_t table = {k3_option_defs, k3_option_count, K3_COMMAND_PLAN};
    k3_error_t        err = K3_ERROR_INIT;
    k3_options_t     *options = NULL;
    char              word[] = "--tokns", value[] = "8";
    char             *argv[] = {word, value};

    (void)state;
    assert_int_equal(k3_options_parse(&table, 2, argv, &options, &err), K3_ERR_USAGE);
    assert_says(&err, "tokns", "tokens", NULL);
}

static void test_commands(void **state)
{
    static const k3_command_t *const all[] = {&k3_command_run, &k3_command_plan, &k3_command_report,
                                              &k3_command_list};
    unsigned                         seen = 0;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(seen & all[i]->id, 0);
        seen |= all[i]->id;
        assert_true(strlen(all[i]->what) > 0 && strlen(all[i]->what) <= 100);
        assert_non_null(all[i]->run);
        assert_non_null(all[i]->usage);
    }
}

static void test_exit_code_of_an_error(void **state)
{
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_command_end(&err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_names_are_words),
        cmocka_unit_test(test_every_option_has_help_and_a_command),
        cmocka_unit_test(test_cell_options_of_the_contract),
        cmocka_unit_test(test_defaults_parse),
        cmocka_unit_test(test_help_fits),
        cmocka_unit_test(test_O05_nearest_name),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_exit_code_of_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
