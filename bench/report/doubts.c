#include "bench/report/doubts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/plain.h"
#include "harness/base/sysfiles.h"

__attribute__((format(printf, 2, 3))) static void add(k3_doubts_t *d, const char *format, ...)
{
    va_list args;

    if (d->count == K3_DOUBTS_MAX) {
        return;
    }
    va_start(args, format);
    vsnprintf(d->text[d->count++], K3_DOUBT_TEXT, format, args);
    va_end(args);
}

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static const json_t *headline_of(const json_t *cell)
{
    const json_t *phases = json_object_get(cell, "phases");

    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *phase = json_array_get(phases, i);
        const char   *name = json_string_value(json_object_get(phase, "name"));

        if (name != NULL && strcmp(name, k3_cell_headline(cell)) == 0) {
            return phase;
        }
    }
    return NULL;
}

static void doubt_trend(const json_t *cell, k3_doubts_t *d)
{
    const json_t *trend = json_object_get(cell, "trend");

    if (json_is_false(json_object_get(trend, "stationary"))) {
        add(d, "not stationary: %+.1f %% from begin to end (p %.2g)", number_of(trend, "slope_pct"),
            number_of(trend, "p"));
    }
}

static void doubt_starts(const json_t *cell, const json_t *headline, k3_doubts_t *d)
{
    const json_t *sync = json_object_get(cell, "sync"), *late = json_object_get(sync, "late");

    if (json_is_integer(late) && json_integer_value(late) > 0) {
        char us[K3_PLAIN];

        add(d, "late starts: %lld of %lld, by %s us at most", (long long)json_integer_value(late),
            (long long)json_integer_value(json_object_get(headline, "n")),
            k3_plain(number_of(sync, "late_max_us"), 3, us));
    }
}

static void doubt_span(const json_t *headline, k3_doubts_t *d)
{
    const char *why = json_string_value(json_object_get(headline, "span_reason"));

    if (why != NULL) {
        add(d, "no span: %s", why);
    }
}

/* An interval that is wider to either side says nothing of the accounts, only of the machine. */
static const double known_pct = 10.0;

static void doubt_instrument(const json_t *cell, k3_doubts_t *d)
{
    const json_t *instrument = json_object_get(cell, "instrument");
    const json_t *range = json_object_get(instrument, "ci95_pct");

    double low = json_number_value(json_array_get(range, 0));
    double high = json_number_value(json_array_get(range, 1));
    char   cost[K3_PLAIN], from[K3_PLAIN], to[K3_PLAIN];

    if (json_is_array(range) && high - low <= 2 * known_pct) {
        add(d, "accounts cost %s %% [%s, %s]",
            k3_plain_signed(number_of(instrument, "difference_pct"), 3, cost),
            k3_plain_signed(low, 3, from), k3_plain_signed(high, 3, to));
    }
}

void k3_doubts(const json_t *cell, k3_doubts_t *d)
{
    const json_t *headline = headline_of(cell);

    d->count = 0;
    doubt_trend(cell, d);
    doubt_starts(cell, headline, d);
    doubt_span(headline, d);
    doubt_instrument(cell, d);
}

bool k3_busy_doubt(const json_t *document, char *text, size_t size)
{
    const json_t *fingerprint = json_object_get(document, "fingerprint");
    double        load = number_of(json_object_get(fingerprint, "volatile"), "load_at_start");
    double        cores = number_of(json_object_get(fingerprint, "volatile"), "cores_online");

    if (cores <= 0 || load <= K3_SYS_BUSY_SHARE * cores) {
        return false;
    }
    snprintf(text, size,
             "busy machine: load %.2f on %.0f cores when the launch began: other programs, or a "
             "launch just before",
             load, cores);
    return true;
}
