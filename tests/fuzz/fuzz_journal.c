/* Any bytes as the journal of a sweep: whole lines are taken or counted as strange, and what stays known of a
 * launch is always in range. */
#define _GNU_SOURCE

#include <math.h>
#include <string.h>

#include "bench/sweep/journal.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_seeds[] = {
    "{\"event\":\"begin\",\"launch\":\"a.np8.0123456789ab.r001\",\"attempt\":1,\"at\":\"x\"}\n",
    "{\"event\":\"end\",\"launch\":\"a\",\"attempt\":2,\"state\":\"done\",\"seconds\":4.5,\"how\":"
    "\"exit "
    "0\",\"reason\":null,\"carried\":\"self\",\"record\":\"r\",\"wrong\":false}\n",
    "{\"event\":\"end\",\"launch\":\"a\",\"attempt\":1,\"state\":\"failed\"}\n{\"event\":\"en",
    "\n\n{}\n[1]\nnull\n",
    "{\"event\":\"begin\",\"launch\":\"\\u0000\",\"attempt\":1e99}\n",
    "",
    NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    k3_journal_t journal = {.fd = -1, .launches = json_object()};
    size_t       done = k3_journal_read(&journal, (const char *)data, size), lines = 0;
    const char  *id;
    json_t      *launch;

    FUZZ_CHECK(done <= size && (done == 0 || data[done - 1] == '\n'));
    FUZZ_CHECK(memchr(data + done, '\n', size - done) == NULL);
    for (size_t i = 0; i < done; i++) {
        lines += data[i] == '\n';
    }
    FUZZ_CHECK(journal.lines == lines && journal.strange <= lines);
    json_object_foreach(journal.launches, id, launch)
    {
        k3_launch_past_t past;

        k3_journal_past(&journal, id, &past);
        FUZZ_CHECK(past.state >= K3_LAUNCH_NONE && past.state <= K3_LAUNCH_ASIDE);
        FUZZ_CHECK(past.attempts <= 1000000);
        FUZZ_CHECK(isnan(past.seconds) || isfinite(past.seconds));
    }
    k3_journal_close(&journal);
    return 0;
}
