#include "harness/doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const k3_level_names[] = {"ok", "warn", "bad", NULL};

static k3_finding_t spare;

static k3_finding_t *next_line(k3_findings_t *findings)
{
    if (findings->count == findings->capacity) {
        size_t        capacity = findings->capacity == 0 ? 64 : 2 * findings->capacity;
        k3_finding_t *items = realloc(findings->items, capacity * sizeof(*items));

        if (items == NULL) {
            findings->out_of_memory = true;
            return &spare;
        }
        findings->items = items;
        findings->capacity = capacity;
    }
    return &findings->items[findings->count++];
}

k3_finding_t *k3_find(k3_findings_t *findings, const char *topic, const char *name,
                      const char *format, ...)
{
    k3_finding_t *line = next_line(findings);
    va_list       args;

    memset(line, 0, sizeof(*line));
    (void)snprintf(line->topic, sizeof(line->topic), "%s", topic);
    (void)snprintf(line->name, sizeof(line->name), "%s", name);
    va_start(args, format);
    (void)vsnprintf(line->value, sizeof(line->value), format, args);
    va_end(args);
    return line;
}

void k3_advise(k3_finding_t *finding, k3_level_t level, const char *format, ...)
{
    va_list args;

    if (level <= finding->level) {
        return;
    }
    finding->level = level;
    va_start(args, format);
    (void)vsnprintf(finding->advice, sizeof(finding->advice), format, args);
    va_end(args);
}

k3_level_t k3_findings_worst(const k3_findings_t *findings)
{
    k3_level_t worst = findings->out_of_memory ? K3_LEVEL_BAD : K3_LEVEL_OK;

    for (size_t i = 0; i < findings->count; i++) {
        worst = findings->items[i].level > worst ? findings->items[i].level : worst;
    }
    return worst;
}

void k3_findings_free(k3_findings_t *findings)
{
    free(findings->items);
    *findings = (k3_findings_t){0};
}
