/* Findings of hosts brought together, and shown. */
#include <string.h>

#include "bench/commands/doctor.h"
#include "harness/record/json_values.h"

/* --- hosts ------------------------------------------------------------------------------------- */

static const k3_finding_t *find_line(const k3_findings_t *list, const k3_finding_t *like)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].topic, like->topic) == 0 &&
            strcmp(list->items[i].name, like->name) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

static void append(char *text, size_t size, const char *host, const char *value)
{
    size_t used = strlen(text);

    snprintf(text + used, size - used, "%s%s: %s", used > 0 ? "; " : "", host, value);
}

/* One line for all hosts. Each different value stands once, with the first host that has it and how many
 * more do. */
static void merge_line(const k3_findings_t *of, const char *const *hosts, unsigned count,
                       const k3_finding_t *line, k3_findings_t *merged)
{
    const k3_finding_t *worst = line;
    char                values[2 * K3_FINDING_TEXT] = "";
    unsigned            kinds = 0;
    k3_finding_t       *out;

    for (unsigned h = 0; h < count; h++) {
        const k3_finding_t *own = find_line(&of[h], line);
        const char         *value = own == NULL ? "absent" : own->value;
        unsigned            same = 0, before = 0;
        char                label[K3_HOST_MAX + 24];

        for (unsigned other = 0; other < count; other++) {
            const k3_finding_t *its = find_line(&of[other], line);
            bool                equal = strcmp(its == NULL ? "absent" : its->value, value) == 0;

            same += equal;
            before += equal && other < h;
        }
        worst = own != NULL && own->level > worst->level ? own : worst;
        if (before == 0) {
            kinds++;
            snprintf(label, sizeof(label), same > 1 ? "%s and %u more" : "%s", hosts[h], same - 1);
            append(values, sizeof(values), label, value);
        }
    }
    out = k3_find(merged, line->topic, line->name, "%.319s",
                  kinds > 1 && !line->varies ? values : worst->value);
    out->varies = line->varies;
    k3_advise(out, worst->level, "%s", worst->advice);
    if (kinds > 1 && !line->varies) {
        k3_advise(out, K3_LEVEL_WARN, "hosts differ: make them alike, or leave the odd one out");
    }
}

void k3_doctor_merge(const k3_findings_t *of, const char *const *hosts, unsigned count,
                     k3_findings_t *merged)
{
    for (unsigned h = 0; h < count; h++) {
        for (size_t i = 0; i < of[h].count; i++) {
            if (find_line(merged, &of[h].items[i]) == NULL) {
                merge_line(of, hosts, count, &of[h].items[i], merged);
            }
        }
    }
}

/* --- text -------------------------------------------------------------------------------------- */

enum { COLUMNS = 120, INDENT = 34 };

/* Wraps at blanks; lines after the first are indented. */
static void print_wrapped(FILE *out, const char *text)
{
    size_t room = COLUMNS - INDENT;

    while (strlen(text) > room) {
        size_t cut = room;

        while (cut > 0 && text[cut] != ' ') {
            cut--;
        }
        cut = cut == 0 ? room : cut;
        fprintf(out, "%.*s\n%*s", (int)cut, text, INDENT, "");
        text += cut + (text[cut] == ' ');
    }
    fprintf(out, "%s\n", text);
}

void k3_doctor_print(const k3_findings_t *findings, FILE *out)
{
    unsigned counts[3] = {0, 0, 0};

    for (size_t i = 0; i < findings->count; i++) {
        const k3_finding_t *f = &findings->items[i];

        counts[f->level]++;
        fprintf(out, "%-4s  %-11s %-15s ", k3_level_names[f->level], f->topic, f->name);
        if (strlen(f->name) > 15) {
            fprintf(out, "\n%*s", INDENT, "");
        }
        print_wrapped(out, f->value);
        if (f->advice[0] != '\0') {
            char text[K3_FINDING_TEXT + 4];

            snprintf(text, sizeof(text), "-> %s", f->advice);
            fprintf(out, "%*s", INDENT, "");
            print_wrapped(out, text);
        }
    }
    fprintf(out, "%u ok, %u warn, %u bad\n", counts[K3_LEVEL_OK], counts[K3_LEVEL_WARN],
            counts[K3_LEVEL_BAD]);
}

/* --- JSON -------------------------------------------------------------------------------------- */

static json_t *pair_json(const k3_pair_result_t *r, const char *class)
{
    if (!r->measured) {
        return json_pack("{s:s, s:b}", "class", class, "measured", 0);
    }
    return json_pack(
        "{s:s, s:b, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:I, s:I, s:I}", "class",
        class, "measured", 1, "src", r->src, "dst", r->dst, "transport",
        k3_json_string(r->transport), "latency_us", k3_json_number(r->latency_us), "bulk_GBps",
        k3_json_number(r->bulk_GBps), "row_GBps", k3_json_number(r->row_GBps), "cold_GBps",
        k3_json_number(r->cold_GBps), "message_us", k3_json_number(r->message_us), "signal_us",
        k3_json_number(r->signal_us), "doorbell_us", k3_json_number(r->doorbell_us), "order",
        k3_signal_order_name(r->order), "order_rounds", (json_int_t)r->order_rounds,
        "overtaken_bare", (json_int_t)r->overtaken_bare, "overtaken_used",
        (json_int_t)r->overtaken_used);
}

json_t *k3_doctor_json(const k3_findings_t *findings, const k3_world_t *world,
                       const k3_pair_report_t *pairs)
{
    json_t *rows = json_array(), *measured = json_array();

    for (size_t i = 0; i < findings->count; i++) {
        const k3_finding_t *f = &findings->items[i];

        json_array_append_new(
            rows, json_pack("{s:s, s:o, s:s, s:o, s:o}", "topic", f->topic, "name",
                            k3_json_string(f->name), "level", k3_level_names[f->level], "value",
                            k3_json_string(f->value), "advice",
                            f->advice[0] != '\0' ? k3_json_string(f->advice) : json_null()));
    }
    for (int class = 0; class < K3_PAIR_CLASSES && pairs != NULL; class ++) {
        json_array_append_new(measured,
                              pair_json(&pairs->result[class], k3_pair_class_names[class]));
    }
    return json_pack("{s:s, s:i, s:i, s:s, s:o, s:o, s:o}", "schema", "k3bench.doctor/1", "ranks",
                     world != NULL ? world->size : 0, "hosts", world != NULL ? world->nodes : 1,
                     "worst", k3_level_names[k3_findings_worst(findings)], "findings", rows,
                     "pairs", measured, "barrier_us",
                     pairs != NULL ? k3_json_number(pairs->barrier_us) : json_null());
}
