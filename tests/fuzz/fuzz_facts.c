/* Any bytes as a record whose facts are read: refused with a reason, or facts of which each number is finite, and which a
 * side can take twice. */
#define _GNU_SOURCE

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "bench/report/facts.h"
#include "bench/report/sides.h"
#include "tests/fuzz/memory_file.h"

#define CELL                                                                                       \
    "{\"key\": \"k\", \"backend\": \"b\", \"mode\": \"m\", \"model\": {\"name\": \"t\"}, "         \
    "\"layout\": {\"tp\": 2}, \"component\": \"region\", \"status\": \"ok\", \"reason\": null, "   \
    "\"work\": {\"routing_hash\": \"h\"}, \"check\": {\"state\": \"ok\"}, \"phases\": "            \
    "[{\"name\": "                                                                                 \
    "\"region\", \"median\": 1.5}], \"sync\": {\"method\": \"round\"}, \"qps\": {\"transport\": "  \
    "\"t\", \"columns\": [\"phase\", \"lane\", \"busy_us\"], \"rows\": [[\"dispatch\", \"qp\", "   \
    "1]]}, \"host\": {\"scaled_us\": 2}}"
#define RECORD(cells)                                                                              \
    "{\"schema\": \"k3bench.result/1\", \"run\": {\"id\": \"1\", \"started_utc\": "                \
    "\"2026-01-31T12:00:00Z\", \"options\": [{\"name\": \"check\", \"value\": \"off\"}]}, "        \
    "\"fingerprint\": {\"key\": \"m\", \"stable\": {\"cores\": 2}}, \"topology\": "                \
    "{\"oversubscribed\": true}, \"cells\": [" cells "]}"

const char *const fuzz_seeds[] = {
    RECORD(CELL),
    RECORD(CELL ", " CELL),
    RECORD(""),
    RECORD("{\"key\": \"k\", \"backend\": \"b\", \"model\": {}, \"layout\": {}, \"status\": "
           "\"failed\", \"reason\": \"\\u001b[31m\", \"phases\": null}"),
    "{\"schema\": \"k3bench.result/1\", \"cells\": [",
    "",
    NULL,
};

static void check_numbers(const json_t *value)
{
    const char *key;
    json_t     *member;
    size_t      i;

    FUZZ_CHECK(!json_is_real(value) || isfinite(json_real_value(value)));
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        FUZZ_CHECK(member != NULL);
        check_numbers(member);
    }
    json_array_foreach(value, i, member)
    {
        check_numbers(member);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const k3_facts_wanted_t wanted = {.lanes = size % 2 == 0, .scaled = size % 3 == 0};
    k3_error_t              err = K3_ERROR_INIT;
    json_t                 *facts = NULL, *side;
    char                    text[320];

    if (k3_facts_read(memory_file(data, size), &wanted, &facts, &err) != K3_OK) {
        FUZZ_CHECK(facts == NULL && err.text[0] != '\0');
        return 0;
    }
    check_numbers(facts);
    side = json_object();
    k3_side_add(side, facts);
    k3_side_add(side, facts);
    check_numbers(side);

    json_t     *entry;
    const char *key;

    json_object_foreach(side, key, entry)
    {
        FUZZ_CHECK(json_array_size(json_object_get(entry, "us")) ==
                   json_array_size(json_object_get(entry, "runs")));
        (void)k3_sides_differ(entry, entry, false, text, sizeof(text));
    }
    json_decref(side);
    json_decref(facts);
    return 0;
}
