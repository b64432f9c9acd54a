/* The list of what the gate found. */
#include <stdarg.h>

#include "bench/report/gate_internal.h"
#include "harness/record/json_values.h"

void k3_gate_find(k3_gate_work_t *work, k3_severity_t severity, const char *kind, const char *key,
                  const char *format, ...)
{
    char    text[1024];
    va_list values;
    json_t *finding;

    va_start(values, format);
    (void)vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    finding = json_pack("{s:s, s:s, s:o, s:o}", "severity",
                        severity == K3_SEVERITY_FAIL ? "fail" : "warn", "kind", kind, "key",
                        k3_json_string(key), "text", k3_json_string(text));
    if (severity == K3_SEVERITY_FAIL) {
        json_array_insert_new(work->findings, work->failures++, finding);
    } else {
        json_array_append_new(work->findings, finding);
    }
}
