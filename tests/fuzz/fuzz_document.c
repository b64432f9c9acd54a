/* Any bytes as a JSON document: refused with a place, or read and then written and read again
 * alike. */
#define _GNU_SOURCE

#include <string.h>

#include "harness/record/document.h"
#include "tests/fuzz/memory_file.h"

const char *const fuzz_seeds[] = {
    "{\"schema\": \"k3bench.result/1\", \"cells\": [{\"key\": \"a\", \"n\": 3}]}",
    "[1, -2.5e3, true, null, \"\\u00e9\\ud83d\\ude00\", {}]",
    "{\"a\": 1, \"a\": 2}",
    "{\"a\": NaN}",
    "[[[[[[[[1]]]]]]]]",
    "{\"x\": 1e999, \"y\": 99999999999999999999}",
    "",
    NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t     *document = NULL;
    k3_error_t  err = K3_ERROR_INIT;
    k3_status_t status = k3_document_read(memory_file(data, size), &document, &err);

    FUZZ_CHECK((status == K3_OK) == (document != NULL));
    if (status != K3_OK) {
        FUZZ_CHECK(err.text[0] != '\0');
        return 0;
    }

    char   *text = json_dumps(document, 0);
    json_t *again = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

    FUZZ_CHECK(text != NULL && json_equal(document, again) == 1);
    json_decref(again);
    free(text);
    json_decref(document);
    return 0;
}
