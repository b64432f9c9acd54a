#include "bench/cell/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/arith.h"
#include "harness/base/memory.h"
#include "harness/base/text.h"

/* The format's own bound of a header. */
enum { HEADER_MAX = 100 * 1000 * 1000, PREFIX = 8 };

static const struct {
    const char *name;
    unsigned    bits;
} types[] = {
    {"BOOL", 8},    {"U8", 8},    {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F4", 4},    {"F6_E2M3", 6}, {"I16", 16},    {"U16", 16},
    {"F16", 16},    {"BF16", 16}, {"F6_E3M2", 6}, {"I32", 32},    {"U32", 32},
    {"F32", 32},    {"I64", 64},  {"U64", 64},    {"F64", 64},    {"C64", 64},
};

enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

/* --- one tensor ------------------------------------------------------------------------------ */

typedef struct reading {
    const char       *path;
    k3_safetensors_t *file;
    uint64_t          data_bytes;
    const uint8_t    *data;
    char              name[K3_SAFETENSORS_NAME]; /* of the tensor at work, for messages */
    k3_error_t       *err;
} reading_t;

static k3_status_t refuse(const reading_t *r, const char *what)
{
    return k3_fail(r->err, K3_ERR_USAGE, "%s: tensor %s: %s", r->path, r->name, what);
}

static k3_status_t read_type(reading_t *r, const json_t *entry, k3_safetensor_t *t, unsigned *bits)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    char        line[32];

    if (type == NULL) {
        return refuse(r, "dtype is not a text");
    }
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(type, types[i].name) == 0) {
            t->type = types[i].name;
            *bits = types[i].bits;
            return K3_OK;
        }
    }
    return k3_fail(r->err, K3_ERR_USAGE, "%s: tensor %s: dtype \"%s\" is no type of the format",
                   r->path, r->name, k3_printable(type, line, sizeof(line)));
}

static bool read_count(const json_t *value, uint64_t *count)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *count = (uint64_t)json_integer_value(value);
    return true;
}

static k3_status_t read_shape(reading_t *r, const json_t *entry, k3_safetensor_t *t)
{
    const json_t *shape = json_object_get(entry, "shape");

    if (!json_is_array(shape) || json_array_size(shape) > K3_SAFETENSORS_DIMS) {
        return refuse(r, json_is_array(shape) ? "shape has more than 8 dimensions"
                                              : "shape is not a list");
    }
    t->dims = (unsigned)json_array_size(shape);
    for (unsigned d = 0; d < t->dims; d++) {
        if (!read_count(json_array_get(shape, d), &t->shape[d])) {
            return refuse(r, "shape holds something else than whole numbers from 0");
        }
    }
    return K3_OK;
}

static k3_status_t read_offsets(reading_t *r, const json_t *entry, k3_safetensor_t *t)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");

    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !read_count(json_array_get(offsets, 0), &t->begin) ||
        !read_count(json_array_get(offsets, 1), &t->end)) {
        return refuse(r, "data_offsets are not two whole numbers from 0");
    }
    if (t->begin > t->end) {
        return k3_fail(r->err, K3_ERR_USAGE,
                       "%s: tensor %s: data_offsets begin at %" PRIu64
                       " and end before, at %" PRIu64,
                       r->path, r->name, t->begin, t->end);
    }
    if (t->end > r->data_bytes) {
        return k3_fail(r->err, K3_ERR_USAGE,
                       "%s: tensor %s: data_offsets end at %" PRIu64 ", the file holds %" PRIu64
                       " bytes of data (cut?)",
                       r->path, r->name, t->end, r->data_bytes);
    }
    return K3_OK;
}

static k3_status_t check_size(const reading_t *r, const k3_safetensor_t *t, unsigned bits)
{
    uint64_t need = bits;
    char     text[K3_SAFETENSORS_SHAPE];

    for (unsigned d = 0; d < t->dims; d++) {
        need = k3_mul(need, t->shape[d]);
    }
    need = need == K3_TOO_BIG ? need : need / 8 + (need % 8 != 0);
    if (need != t->end - t->begin) {
        return k3_fail(
            r->err, K3_ERR_USAGE,
            "%s: tensor %s: data_offsets hold %" PRIu64 " bytes, %s needs %s%" PRIu64, r->path,
            r->name, t->end - t->begin, k3_safetensors_shape(t->type, t->dims, t->shape, text),
            need == K3_TOO_BIG ? "more than " : "", need == K3_TOO_BIG ? need - 1 : need);
    }
    return K3_OK;
}

static k3_status_t read_tensor(reading_t *r, const json_t *entry, k3_safetensor_t *t)
{
    unsigned bits = 0;

    if (!json_is_object(entry)) {
        return refuse(r, "its entry is not an object");
    }
    if (read_type(r, entry, t, &bits) != K3_OK || read_shape(r, entry, t) != K3_OK ||
        read_offsets(r, entry, t) != K3_OK || check_size(r, t, bits) != K3_OK) {
        return r->err->status;
    }
    t->data = r->data + t->begin;
    return K3_OK;
}

/* --- all of them ----------------------------------------------------------------------------- */

static const char metadata[] = "__metadata__";

/* Names keep their place when the header's document is gone. */
static k3_status_t alloc_tensors(const reading_t *r, json_t *header)
{
    uint64_t    bytes = 0;
    const char *name;
    json_t     *entry;

    json_object_foreach(header, name, entry)
    {
        bytes += strlen(name) + 1;
    }
    if (k3_alloc("tensors of a file", json_object_size(header), sizeof(k3_safetensor_t),
                 &r->file->tensors, r->err) != K3_OK) {
        return r->err->status;
    }
    return k3_alloc("names of tensors", bytes, 1, &r->file->names, r->err);
}

static k3_status_t read_entries(reading_t *r, json_t *header)
{
    k3_safetensors_t *f = r->file;
    size_t            used = 0;
    const char       *name;
    json_t           *entry;

    if (alloc_tensors(r, header) != K3_OK) {
        return r->err->status;
    }
    json_object_foreach(header, name, entry)
    {
        k3_safetensor_t *t = &f->tensors[f->count];

        if (strcmp(name, metadata) == 0) {
            continue;
        }
        k3_printable(name, r->name, sizeof(r->name));
        if (read_tensor(r, entry, t) != K3_OK) {
            return r->err->status;
        }
        t->name = strcpy(f->names + used, name);
        used += strlen(name) + 1;
        f->count++;
    }
    return K3_OK;
}

static int by_place(const void *a, const void *b)
{
    const k3_safetensor_t *x = a, *y = b;

    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
    const k3_safetensor_t *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Each tensor begins where the one before it ends; the last one ends with the file. */
static k3_status_t check_places(reading_t *r)
{
    const k3_safetensors_t *f = r->file;
    uint64_t                at = 0;
    char                    other[K3_SAFETENSORS_NAME] = "";

    qsort(f->tensors, f->count, sizeof(*f->tensors), by_place);
    for (size_t i = 0; i < f->count; i++) {
        const k3_safetensor_t *t = &f->tensors[i];

        k3_printable(t->name, r->name, sizeof(r->name));
        if (t->begin != at) {
            return k3_fail(r->err, K3_ERR_USAGE,
                           "%s: tensor %s: begins at byte %" PRIu64
                           " of the data, %s ends at %" PRIu64
                           " (tensors lie one after the other, without %s)",
                           r->path, r->name, t->begin, i > 0 ? other : "what is before it", at,
                           t->begin < at ? "overlap" : "gap");
        }
        at = t->end;
        memcpy(other, r->name, sizeof(other));
    }
    if (at != r->data_bytes) {
        return k3_fail(r->err, K3_ERR_USAGE,
                       "%s: the last tensor ends at byte %" PRIu64
                       " of the data, the file holds %" PRIu64,
                       r->path, at, r->data_bytes);
    }
    qsort(f->tensors, f->count, sizeof(*f->tensors), by_name);
    return K3_OK;
}

/* --- the file -------------------------------------------------------------------------------- */

static k3_status_t load_header(reading_t *r, const char *text, uint64_t length, json_t **header_p)
{
    json_error_t fault;
    char         line[JSON_ERROR_TEXT_LENGTH];

    *header_p = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &fault);
    if (*header_p == NULL) {
        return k3_fail(r->err, K3_ERR_USAGE,
                       "%s: the safetensors header is not valid JSON: %s (line %d, column %d)",
                       r->path, k3_printable(fault.text, line, sizeof(line)), fault.line,
                       fault.column);
    }
    if (!json_is_object(*header_p)) {
        return k3_fail(r->err, K3_ERR_USAGE,
                       "%s: the safetensors header is not an object of tensors", r->path);
    }
    return K3_OK;
}

k3_status_t k3_safetensors_parse(const char *path, const uint8_t *data, uint64_t size,
                                 k3_safetensors_t *file, k3_error_t *err)
{
    reading_t r = {.path = path, .file = file, .err = err};
    uint64_t  length = 0;
    json_t   *header = NULL;

    memset(file, 0, sizeof(*file));
    if (size < PREFIX) {
        return k3_fail(err, K3_ERR_USAGE,
                       "%s: %" PRIu64
                       " bytes are no safetensors file (its header's length takes %d)",
                       path, size, PREFIX);
    }
    for (unsigned i = 0; i < PREFIX; i++) {
        length |= (uint64_t)data[i] << (8 * i);
    }
    if (length > HEADER_MAX || length > size - PREFIX) {
        return k3_fail(err, K3_ERR_USAGE,
                       "%s: no safetensors file: a header of %" PRIu64 " bytes (%" PRIu64
                       " follow in the file, at most %d are read)",
                       path, length, size - PREFIX, HEADER_MAX);
    }
    r.data = data + PREFIX + length;
    r.data_bytes = size - PREFIX - length;
    if (load_header(&r, (const char *)data + PREFIX, length, &header) == K3_OK &&
        read_entries(&r, header) == K3_OK) {
        check_places(&r);
    }
    json_decref(header);
    if (err->status != K3_OK) {
        k3_safetensors_close(file);
    }
    return err->status;
}

k3_status_t k3_safetensors_open(const char *path, k3_safetensors_t *file, k3_error_t *err)
{
    k3_file_map_t map;

    memset(file, 0, sizeof(*file));
    if (k3_file_map(path, &map, err) != K3_OK) {
        return err->status;
    }
    if (k3_safetensors_parse(path, map.data, map.size, file, err) != K3_OK) {
        k3_file_unmap(&map);
        return err->status;
    }
    file->map = map;
    return K3_OK;
}

void k3_safetensors_close(k3_safetensors_t *file)
{
    k3_free(file->names);
    k3_free(file->tensors);
    k3_file_unmap(&file->map);
    memset(file, 0, sizeof(*file));
}

const k3_safetensor_t *k3_safetensors_find(const k3_safetensors_t *file, const char *name)
{
    k3_safetensor_t wanted = {.name = name};

    if (file->count == 0) {
        return NULL;
    }
    return bsearch(&wanted, file->tensors, file->count, sizeof(wanted), by_name);
}

const char *k3_safetensors_shape(const char *type, unsigned dims, const uint64_t *shape, char *text)
{
    size_t used = k3_append(text, K3_SAFETENSORS_SHAPE, 0, "%s [", type);

    for (unsigned d = 0; d < dims; d++) {
        used =
            k3_append(text, K3_SAFETENSORS_SHAPE, used, "%s%" PRIu64, d > 0 ? ", " : "", shape[d]);
    }
    k3_append(text, K3_SAFETENSORS_SHAPE, used, "]");
    return text;
}
