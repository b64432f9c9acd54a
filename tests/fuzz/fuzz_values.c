/* Any text as a value of each kind. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "harness/base/options.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_seeds[] = {
    "2M",
    "2Mi",
    "18446744073709551615",
    "16Gi",
    "1e-3",
    "-0.5",
    "1.7976931348623157e308",
    "mooncake",
    "uniform",
    "1,2,,3",
    "0x10",
    "inf",
    " 2",
    "",
    NULL,
};

static const char *const names[] = {"uniform", "zipf", "khot", "mooncake", "none", NULL};

static void check_numbers(const char *text)
{
    uint64_t   whole = 0;
    double     real = 0;
    k3_error_t err = K3_ERROR_INIT;

    if (k3_parse_u64("tokens", text, 2, 1 << 20, &whole, &err) == K3_OK) {
        FUZZ_CHECK(whole >= 2 && whole <= 1 << 20 && text[0] >= '0' && text[0] <= '9');
    } else {
        FUZZ_CHECK(err.status == K3_ERR_USAGE && strstr(err.text, "tokens") != NULL);
    }
    k3_error_clear(&err);
    if (k3_parse_double("ratio", text, -1, 1e6, &real, &err) == K3_OK) {
        FUZZ_CHECK(isfinite(real) && real >= -1 && real <= 1e6);
    } else {
        FUZZ_CHECK(err.status == K3_ERR_USAGE && strstr(err.text, "ratio") != NULL);
    }
}

static void check_names(const char *text)
{
    size_t      index = 0;
    k3_error_t  err = K3_ERROR_INIT;
    const char *near = k3_nearest(text, names);
    bool        known = false;

    for (size_t i = 0; names[i] != NULL; i++) {
        known |= near == names[i];
    }
    FUZZ_CHECK(near == NULL || known);
    if (k3_parse_name("routing", text, names, &index, &err) == K3_OK) {
        FUZZ_CHECK(near == names[index] && strcmp(text, names[index]) == 0);
    }
}

static void check_list(const char *text)
{
    k3_list_t list;
    size_t    bytes = 0;

    k3_list_split(text, ',', &list);
    for (size_t i = 0; i < list.count; i++) {
        FUZZ_CHECK(strchr(list.items[i], ',') == NULL);
        bytes += strlen(list.items[i]) + 1;
    }
    FUZZ_CHECK(list.count > 0 && bytes == strlen(text) + 1);
    k3_list_free(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);

    FUZZ_CHECK(text != NULL);
    check_numbers(text);
    check_names(text);
    check_list(text);
    free(text);
    return 0;
}
