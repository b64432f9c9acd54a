/* Numbers for people: digits that matter, no exponent where none is needed. */
#include "report_test.h"

#include <math.h>

#include "bench/report/plain.h"

static void digits(void **state)
{
    static const struct {
        double      value;
        int         digits;
        const char *text;
    } rows[] = {{26084.4412, 4, "26084"}, {0.0200375801, 4, "0.02004"},
                {4020.4, 3, "4020"},      {-19.3, 3, "-19.3"},
                {-2360.0, 3, "-2360"},    {0.0, 4, "0"},
                {9.9996, 4, "10"},        {100.0, 3, "100"},
                {1.5e18, 3, "1.5e+18"},   {2.5e-12, 3, "2.5e-12"},
                {1e-9, 3, "0.000000001"}};
    char text[K3_PLAIN];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_string_equal(k3_plain(rows[i].value, rows[i].digits, text), rows[i].text);
    }
    assert_string_equal(k3_plain_signed(1.26, 3, text), "+1.26");
    assert_string_equal(k3_plain_signed(-0.148, 3, text), "-0.148");
    assert_string_equal(k3_plain(NAN, 3, text), "nan");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(digits)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
