#include "bench/report/plan_notes.h"

#include <string.h>

#include "bench/report/cellview.h"
#include "bench/report/fields.h"
#include "bench/report/table.h"
#include "harness/base/arith.h"

/* More are said by their number. */
enum { NAMED = 4 };

/* "deepep:ll kimi-k3 32/4/32 T16". */
static void put_cell(const json_t *cell, FILE *out)
{
    const json_t *layout = json_object_get(cell, "layout");
    char          backend[K3_CELL_BACKEND];

    fprintf(
        out, "%s %s %d/%d/%d T%lld", k3_cell_backend(cell, backend, sizeof(backend)),
        k3_get_text(json_object_get(cell, "model"), "name"),
        (int)json_integer_value(json_object_get(layout, "tp")),
        (int)json_integer_value(json_object_get(layout, "dp")),
        (int)json_integer_value(json_object_get(layout, "ep")),
        (long long)json_integer_value(json_object_get(json_object_get(cell, "tokens"), "asked")));
}

/* --- memory ------------------------------------------------------------------------------------ */

/* Null, as what is above 2^63 - 1 bytes is written, is more than anything has. */
static uint64_t bytes_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_integer(value) ? (uint64_t)json_integer_value(value) : K3_TOO_BIG;
}

static const char *bytes_text(uint64_t bytes, char *text, size_t size)
{
    if (bytes == K3_TOO_BIG) {
        snprintf(text, size, "more than 9 EB");
        return text;
    }
    return k3_table_bytes((double)bytes, text, size);
}

static uint64_t ranks_of_node(const json_t *cell)
{
    const json_t *layout = json_object_get(cell, "layout");
    uint64_t      tp = (uint64_t)json_integer_value(json_object_get(layout, "tp"));
    uint64_t      nodes = (uint64_t)json_integer_value(json_object_get(layout, "nodes"));

    return nodes > 0 ? (tp + nodes - 1) / nodes : tp;
}

/* Of a rank, in the memory of its host. */
static uint64_t host_bytes(const json_t *cell)
{
    const json_t *memory = json_object_get(cell, "memory");

    return bytes_of(memory, json_is_integer(json_object_get(memory, "host_bytes")) ? "host_bytes"
                                                                                   : "total_bytes");
}

static bool fits(const json_t *cell, const char *machine, uint64_t available)
{
    const json_t *memory = json_object_get(cell, "memory");

    if (machine != NULL) {
        return json_is_true(json_object_get(json_object_get(memory, "device"), "fits"));
    }
    return k3_mul(host_bytes(cell), ranks_of_node(cell)) <= available;
}

static void put_misfit(const json_t *cell, const char *machine, uint64_t available, FILE *out)
{
    const json_t *memory = json_object_get(cell, "memory");
    const json_t *device = json_object_get(memory, "device");
    char          need[32], has[32];

    fprintf(out, "note: ");
    put_cell(cell, out);
    if (machine != NULL) {
        uint64_t all = k3_add(bytes_of(device, "weights_bytes"), bytes_of(device, "buffers_bytes"));

        fprintf(out,
                " fits no device of %s: a rank needs %s of weights and buffers, a device has %s\n",
                machine, bytes_text(all, need, sizeof(need)),
                bytes_text(bytes_of(device, "device_bytes"), has, sizeof(has)));
    } else {
        uint64_t ranks = ranks_of_node(cell);

        fprintf(out, " does not fit this host: %llu rank%s of a node need%s %s, it has %s left\n",
                (unsigned long long)ranks, ranks == 1 ? "" : "s", ranks == 1 ? "s" : "",
                bytes_text(k3_mul(host_bytes(cell), ranks), need, sizeof(need)),
                bytes_text(available, has, sizeof(has)));
    }
}

static bool is_planned(const json_t *cell)
{
    return strcmp(k3_get_text(cell, "status"), "planned") == 0;
}

void k3_plan_note_memory(const json_t *cells, const char *machine, uint64_t available, FILE *out)
{
    size_t found = 0;

    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);

        if (is_planned(cell) && !fits(cell, machine, available) && found++ < NAMED) {
            put_misfit(cell, machine, available, out);
        }
    }
    if (found > NAMED) {
        fprintf(out, "note: %zu more do%s not fit either\n", found - NAMED,
                found - NAMED == 1 ? "es" : "");
    }
}

/* --- ties -------------------------------------------------------------------------------------- */

static const json_t *region_of(const json_t *cell)
{
    const json_t *phases = json_object_get(json_object_get(cell, "prediction"), "phases");

    for (size_t i = 0; i < json_array_size(phases); i++) {
        if (strcmp(k3_get_text(json_array_get(phases, i), "name"), "region") == 0) {
            return json_array_get(phases, i);
        }
    }
    return NULL;
}

static double number_of(const json_t *phase, const char *name)
{
    return json_number_value(json_object_get(phase, name));
}

/* What moves no rows is no rival, nor what fits no device of the machine. */
static bool competes(const json_t *cell)
{
    const json_t *device = json_object_get(json_object_get(cell, "memory"), "device");

    return region_of(cell) != NULL && k3_cell_moves_rows(cell) &&
           !json_is_false(json_object_get(device, "fits"));
}

static bool same_work(const json_t *a, const json_t *b)
{
    return k3_cell_same_group(a, b) &&
           strcmp(k3_get_text(json_object_get(a, "choices"), "routing"),
                  k3_get_text(json_object_get(b, "choices"), "routing")) == 0;
}

static bool first_of_its_work(const json_t *cells, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (competes(json_array_get(cells, i)) &&
            same_work(json_array_get(cells, i), json_array_get(cells, index))) {
            return false;
        }
    }
    return true;
}

static const json_t *fastest_of_work(const json_t *cells, const json_t *one)
{
    const json_t *fastest = one;

    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);

        if (competes(cell) && same_work(cell, one) &&
            number_of(region_of(cell), "us") < number_of(region_of(fastest), "us")) {
            fastest = cell;
        }
    }
    return fastest;
}

static bool is_rival(const json_t *cell, const json_t *fastest)
{
    return cell != fastest && competes(cell) && same_work(cell, fastest);
}

/* Another one of its work takes the same time, as it is printed. */
static bool has_equal(const json_t *cells, const json_t *fastest)
{
    double us = number_of(region_of(fastest), "us");

    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);

        if (is_rival(cell, fastest) && number_of(region_of(cell), "us") <= us + 0.05) {
            return true;
        }
    }
    return false;
}

static void put_ties(const json_t *cells, const json_t *fastest, FILE *out)
{
    double us = number_of(region_of(fastest), "us"), low = number_of(region_of(fastest), "low"),
           high = number_of(region_of(fastest), "high");
    size_t found = 0;

    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);

        if (!is_rival(cell, fastest) || number_of(region_of(cell), "us") > high) {
            continue;
        }
        if (found == 0) {
            fprintf(out, "note: ");
            put_cell(fastest, out);
            fprintf(out,
                    " has the shortest region%s; within the model's error of it (%+.0f to %+.0f "
                    "%%), so that no order is claimed: ",
                    has_equal(cells, fastest) ? ", and not alone" : "", 100 * (low / us - 1),
                    100 * (high / us - 1));
        }
        if (found < NAMED) {
            fputs(found > 0 ? ", " : "", out);
            put_cell(cell, out);
        }
        found++;
    }
    if (found > NAMED) {
        fprintf(out, " and %zu more", found - NAMED);
    }
    fputs(found > 0 ? "\n" : "", out);
}

void k3_plan_note_ties(const json_t *cells, FILE *out)
{
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);

        if (competes(cell) && first_of_its_work(cells, i)) {
            put_ties(cells, fastest_of_work(cells, cell), out);
        }
    }
}
