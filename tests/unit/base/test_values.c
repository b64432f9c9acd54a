/* Values as text: sizes, numbers, names, lists; saturating arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "harness/base/arith.h"
#include "harness/base/options.h"

static uint64_t size_of(const char *text)
{
    uint64_t   value = 0;
    k3_error_t err = K3_ERROR_INIT;

    assert_int_equal(k3_parse_u64("tokens", text, 0, UINT64_MAX, &value, &err), K3_OK);
    return value;
}

static void test_O01_size_suffixes(void **state)
{
    (void)state;
    assert_int_equal(size_of("0"), 0);
    assert_int_equal(size_of("007"), 7);
    assert_int_equal(size_of("3k"), 3000);
    assert_int_equal(size_of("2M"), 2000000);
    assert_int_equal(size_of("2G"), 2000000000);
    assert_int_equal(size_of("3Ki"), 3072);
    assert_int_equal(size_of("2Mi"), 2097152);
    assert_int_equal(size_of("2Gi"), UINT64_C(2147483648));
    assert_int_equal(size_of("18446744073709551615"), UINT64_MAX);
}

static void test_O01_other_sizes_are_refused(void **state)
{
    static const char *const bad[] = {"2m",  "2MB", "2MiB", "2Mx", "",    "-1",  "1e3", " 2",
                                      "2 ",  "+2",  "0x10", "2K",  "2ki", "2g",  "k",   "2MM",
                                      "1.5", "2,3", "2\n",  "Ki",  "٢",   "2 M", "inf"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t   value = 77;
        k3_error_t err = K3_ERROR_INIT;
        char       quoted[32];

        assert_int_equal(k3_parse_u64("--tokens", bad[i], 0, UINT64_MAX, &value, &err),
                         K3_ERR_USAGE);
        assert_int_equal(value, 77);
        assert_non_null(strstr(err.text, "--tokens"));
        assert_non_null(strstr(err.text, "k, M, G"));
        assert_non_null(strstr(err.text, "Ki, Mi, Gi"));
        (void)snprintf(quoted, sizeof(quoted), "'%s'", bad[i]);
        assert_true(strstr(err.text, quoted) != NULL || strchr(bad[i], '\n') != NULL);
    }
}

static void test_O03_limits_are_named(void **state)
{
    uint64_t   value = 77;
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_parse_u64("qps", "1000000", 1, 64, &value, &err), K3_ERR_USAGE);
    assert_string_equal(err.text, "qps: '1000000' is out of range: 1 to 64");
    k3_error_clear(&err);
    assert_int_equal(k3_parse_u64("qps", "0", 1, 64, &value, &err), K3_ERR_USAGE);
    assert_string_equal(err.text, "qps: '0' is out of range: 1 to 64");
    k3_error_clear(&err);
    assert_int_equal(k3_parse_u64("qps", "1", 1, 64, &value, &err), K3_OK);
    assert_int_equal(value, 1);
    assert_int_equal(k3_parse_u64("qps", "64", 1, 64, &value, &err), K3_OK);
    assert_int_equal(value, 64);
}

static void test_overflow_is_out_of_range(void **state)
{
    static const char *const big[] = {"18446744073709551616", "99999999999999999999999",
                                      "18446744073709552k", "17179869184Gi",
                                      "36893488147419103233"};

    (void)state;
    for (size_t i = 0; i < sizeof(big) / sizeof(big[0]); i++) {
        uint64_t   value = 77;
        k3_error_t err = K3_ERROR_INIT;

        assert_int_equal(k3_parse_u64("seed", big[i], 0, UINT64_MAX, &value, &err), K3_ERR_USAGE);
        assert_non_null(strstr(err.text, "out of range"));
        assert_int_equal(value, 77);
    }
    assert_int_equal(size_of("17179869183Gi"), UINT64_C(17179869183) << 30);
}

static void test_decimal_numbers(void **state)
{
    static const char *const good[] = {"0", "12", "-0.5", ".5", "5.", "1e-3", "2.5E+2"};
    static const double      values[] = {0, 12, -0.5, 0.5, 5, 0.001, 250};
    static const char *const bad[] = {"",   " 1",  "1 ", "1x", "inf", "nan", "0x1p3",
                                      "1e", "1e+", ".",  "-",  "--1", "1,5", "1e5.5"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        double     value = 77;
        k3_error_t err = K3_ERROR_INIT;

        assert_int_equal(k3_parse_double("ci", good[i], -1, 1000, &value, &err), K3_OK);
        assert_true(value == values[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        double     value = 77;
        k3_error_t err = K3_ERROR_INIT;

        assert_int_equal(k3_parse_double("ci", bad[i], -1, 1000, &value, &err), K3_ERR_USAGE);
        assert_true(value == 77);
        assert_non_null(strstr(err.text, "ci: "));
    }
}

static void test_decimal_limits(void **state)
{
    static const char *const bad[] = {"1000.1", "-1.1", "1e400", "-1e400"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        double     value = 77;
        k3_error_t err = K3_ERROR_INIT;

        assert_int_equal(k3_parse_double("ci", bad[i], -1, 1000, &value, &err), K3_ERR_USAGE);
        assert_non_null(strstr(err.text, "out of range: -1 to 1000"));
    }
}

static void test_names(void **state)
{
    static const char *const names[] = {"mooncake", "deepep", "none", NULL};
    size_t                   index = 77;
    k3_error_t               err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_parse_name("--backend", "deepep", names, &index, &err), K3_OK);
    assert_int_equal(index, 1);
    assert_int_equal(k3_parse_name("--backend", "moncake", names, &index, &err), K3_ERR_USAGE);
    assert_string_equal(err.text,
                        "--backend: unknown value 'moncake'; the nearest known one is 'mooncake'");
    k3_error_clear(&err);
    assert_int_equal(k3_parse_name("--backend", "xyzzy", names, &index, &err), K3_ERR_USAGE);
    assert_string_equal(err.text,
                        "--backend: unknown value 'xyzzy'; known: mooncake, deepep, none");
    k3_error_clear(&err);
    assert_int_equal(k3_parse_name("--backend", "", names, &index, &err), K3_ERR_USAGE);
    assert_int_equal(k3_parse_name("--backend", "Deepep", names, &index, NULL), K3_ERR_USAGE);
    assert_int_equal(index, 1);
}

static void test_a_long_list_of_names_is_cut(void **state)
{
    const char *names[101];
    size_t      index = 0;
    k3_error_t  err = K3_ERROR_INIT;

    (void)state;
    for (int i = 0; i < 100; i++) {
        names[i] = "abcdefgh";
    }
    names[100] = NULL;
    assert_int_equal(k3_parse_name("x", "zzzz", names, &index, &err), K3_ERR_USAGE);
    assert_string_equal(err.text + strlen(err.text) - 13, "abcdefgh, ...");
}

static void test_nearest(void **state)
{
    static const char *const names[] = {"tokens", "tp", "seed", "max-tokens", NULL};
    char                     longer[200];

    (void)state;
    assert_string_equal(k3_nearest("tokns", names), "tokens");   /* one letter missing */
    assert_string_equal(k3_nearest("tookens", names), "tokens"); /* one too many */
    assert_string_equal(k3_nearest("tokems", names), "tokens");  /* one wrong */
    assert_string_equal(k3_nearest("max-token", names), "max-tokens");
    assert_string_equal(k3_nearest("tp", names), "tp");
    assert_string_equal(k3_nearest("sead", names), "seed");
    assert_null(k3_nearest("zzzz", names));
    assert_null(k3_nearest("", names));
    assert_null(k3_nearest("q", names)); /* distance 2 of a word of one letter */
    memset(longer, 't', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_null(k3_nearest(longer, names));
}

static void test_lists(void **state)
{
    k3_list_t list;

    (void)state;
    k3_list_split("8,16,,32,", ',', &list);
    assert_int_equal(list.count, 5);
    assert_string_equal(list.items[0], "8");
    assert_string_equal(list.items[1], "16");
    assert_string_equal(list.items[2], "");
    assert_string_equal(list.items[3], "32");
    assert_string_equal(list.items[4], "");
    k3_list_free(&list);
    assert_int_equal(list.count, 0);
    k3_list_split("", ',', &list);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0], "");
    k3_list_free(&list);
    k3_list_split("deepep:ll", ',', &list);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0], "deepep:ll");
    k3_list_free(&list);
}

static void test_arithmetic_saturates(void **state)
{
    (void)state;
    assert_int_equal(k3_mul(UINT64_C(1) << 32, UINT64_C(1) << 31), UINT64_C(1) << 63);
    assert_int_equal(k3_mul(UINT64_C(1) << 32, UINT64_C(1) << 32), K3_TOO_BIG);
    assert_int_equal(k3_add(UINT64_MAX - 1, 1), UINT64_MAX);
    assert_int_equal(k3_add(UINT64_MAX, 1), K3_TOO_BIG);
    assert_int_equal(k3_mul(K3_TOO_BIG, 2), K3_TOO_BIG);
    assert_int_equal(k3_round_up(0, 64), 0);
    assert_int_equal(k3_round_up(64, 64), 64);
    assert_int_equal(k3_round_up(65, 64), 128);
    assert_int_equal(k3_round_up(UINT64_MAX - 1, 64), K3_TOO_BIG);
    assert_int_equal(k3_ceil_div(0, 3), 0);
    assert_int_equal(k3_ceil_div(7, 3), 3);
    assert_int_equal(k3_ceil_div(UINT64_MAX, 1), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_O01_size_suffixes),
        cmocka_unit_test(test_O01_other_sizes_are_refused),
        cmocka_unit_test(test_O03_limits_are_named),
        cmocka_unit_test(test_overflow_is_out_of_range),
        cmocka_unit_test(test_decimal_numbers),
        cmocka_unit_test(test_decimal_limits),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_long_list_of_names_is_cut),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_arithmetic_saturates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
