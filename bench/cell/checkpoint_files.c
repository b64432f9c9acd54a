#include "bench/cell/checkpoint_files.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/base/memory.h"

static const char index_name[] = "model.safetensors.index.json",
                  single_name[] = "model.safetensors";

/* An index of Kimi-K3 has some 500,000 entries of 120 bytes. */
enum { INDEX_MAX = 256 << 20, NUMBER_END = 1 << 20, NO_LAYER = UINT32_MAX };

const char *k3_checkpoint_number(const char *text, uint32_t *number)
{
    uint32_t value = 0;

    if (*text < '0' || *text > '9' || (*text == '0' && text[1] >= '0' && text[1] <= '9')) {
        return NULL;
    }
    for (; *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (uint32_t)(*text - '0');
        if (value >= NUMBER_END) {
            return NULL;
        }
    }
    *number = value;
    return text;
}

/* The layer of a tensor of an MoE block, *suffix: what it is; false: another tensor. */
static bool split_name(const char *name, uint32_t *layer, const char **suffix)
{
    static const char head[] = K3_CHECKPOINT_LAYERS, block[] = "." K3_CHECKPOINT_BLOCK;
    const char       *rest;

    if (strncmp(name, head, sizeof(head) - 1) != 0) {
        return false;
    }
    rest = k3_checkpoint_number(name + sizeof(head) - 1, layer);
    if (rest == NULL || strncmp(rest, block, sizeof(block) - 1) != 0) {
        return false;
    }
    *suffix = rest + sizeof(block) - 1;
    return true;
}

/* Whether the name is one of the layer in force. */
static bool is_ours(const k3_checkpoint_files_t *f, const char *name)
{
    const char *suffix;
    uint32_t    layer;

    return split_name(name, &layer, &suffix) && layer == f->layer;
}

/* Where no layer was asked for: the lowest one with a gate. */
static void offer_layer(const char *name, uint32_t *lowest)
{
    const char *suffix;
    uint32_t    layer;

    if (split_name(name, &layer, &suffix) && strcmp(suffix, "gate.weight") == 0 &&
        layer < *lowest) {
        *lowest = layer;
    }
}

static k3_status_t refuse_layer(const k3_checkpoint_files_t *f, k3_error_t *err)
{
    if (f->layer == NO_LAYER) {
        return k3_fail(err, K3_ERR_USAGE,
                       "weights %s: no tensor " K3_CHECKPOINT_LAYERS "N." K3_CHECKPOINT_BLOCK
                       "gate.weight in it, so no layer of Kimi-K3",
                       f->path);
    }
    return k3_fail(err, K3_ERR_USAGE,
                   "weights %s: no tensor " K3_CHECKPOINT_LAYERS "%u." K3_CHECKPOINT_BLOCK
                   "... in it",
                   f->path, f->layer);
}

/* --- shards ---------------------------------------------------------------------------------- */

static k3_status_t copy_text(const char *text, size_t length, char **copy_p, k3_error_t *err)
{
    if (k3_alloc("name of a file", length + 1, 1, copy_p, err) == K3_OK) {
        memcpy(*copy_p, text, length);
    }
    return err->status;
}

static k3_status_t open_shard(k3_checkpoint_files_t *f, const char *path, const char *name,
                              k3_error_t *err)
{
    k3_checkpoint_shard_t *shard = &f->shard[f->shard_count++];

    if (copy_text(name, strlen(name), &shard->name, err) != K3_OK) {
        return err->status;
    }
    return k3_safetensors_open(path, &shard->file, err);
}

static k3_status_t open_single(k3_checkpoint_files_t *f, const char *path, k3_error_t *err)
{
    const char             *slash = strrchr(path, '/');
    const k3_safetensors_t *file;
    bool                    asked = f->layer != NO_LAYER;

    if (k3_alloc("shards", 1, sizeof(*f->shard), &f->shard, err) != K3_OK ||
        open_shard(f, path, slash != NULL ? slash + 1 : path, err) != K3_OK) {
        return err->status;
    }
    file = &f->shard[0].file;
    for (size_t i = 0; !asked && i < file->count; i++) {
        offer_layer(file->tensors[i].name, &f->layer);
    }
    if (k3_alloc("tensors of a layer", file->count, sizeof(*f->tensor), &f->tensor, err) != K3_OK) {
        return err->status;
    }
    for (size_t i = 0; i < file->count; i++) {
        if (is_ours(f, file->tensors[i].name)) {
            f->tensor[f->count++] = &file->tensors[i];
        }
    }
    return f->count > 0 ? K3_OK : refuse_layer(f, err);
}

/* --- an index -------------------------------------------------------------------------------- */

/* A shard is a file of the same folder: its name leads nowhere else. */
static k3_status_t check_shard_name(const k3_checkpoint_files_t *f, const char *tensor,
                                    const char *shard, k3_error_t *err)
{
    char name[K3_SAFETENSORS_NAME], line[NAME_MAX + 1];

    if (shard != NULL && shard[0] != '\0' && shard[0] != '.' && strchr(shard, '/') == NULL &&
        strlen(shard) <= NAME_MAX) {
        return K3_OK;
    }
    return k3_fail(
        err, K3_ERR_USAGE,
        "weights %s: %s puts tensor %s into %s%s%s (a shard is the name of a file in the "
        "same folder)",
        f->path, index_name, k3_printable(tensor, name, sizeof(name)), shard != NULL ? "\"" : "",
        shard != NULL ? k3_printable(shard, line, sizeof(line)) : "no text",
        shard != NULL ? "\"" : "");
}

static k3_checkpoint_shard_t *find_shard(const k3_checkpoint_files_t *f, const char *name)
{
    /* Tensors of a layer lie beside each other: the last one is the likely one. */
    for (size_t i = f->shard_count; i > 0; i--) {
        if (strcmp(f->shard[i - 1].name, name) == 0) {
            return &f->shard[i - 1];
        }
    }
    return NULL;
}

static k3_status_t take_entry(k3_checkpoint_files_t *f, const char *tensor, const char *shard,
                              k3_error_t *err)
{
    k3_checkpoint_shard_t *from;
    char                   path[PATH_MAX], name[K3_SAFETENSORS_NAME];

    if (check_shard_name(f, tensor, shard, err) != K3_OK) {
        return err->status;
    }
    from = find_shard(f, shard);
    if (from == NULL) {
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", f->path, shard) >= sizeof(path)) {
            return k3_fail(err, K3_ERR_IO, "weights %.200s...: the path is too long", f->path);
        }
        if (open_shard(f, path, shard, err) != K3_OK) {
            return err->status;
        }
        from = &f->shard[f->shard_count - 1];
    }
    f->tensor[f->count] = k3_safetensors_find(&from->file, tensor);
    if (f->tensor[f->count++] == NULL) {
        return k3_fail(err, K3_ERR_USAGE, "weights %s: tensor %s is not in %s, where %s puts it",
                       f->path, k3_printable(tensor, name, sizeof(name)), shard, index_name);
    }
    return K3_OK;
}

/* There are no more shards than entries. */
static k3_status_t take_entries(k3_checkpoint_files_t *f, json_t *entries, k3_error_t *err)
{
    const char *tensor;
    json_t     *shard;
    size_t      ours = 0;

    json_object_foreach(entries, tensor, shard)
    {
        ours += is_ours(f, tensor);
    }
    if (ours == 0) {
        return refuse_layer(f, err);
    }
    if (k3_alloc("shards", ours, sizeof(*f->shard), &f->shard, err) != K3_OK ||
        k3_alloc("tensors of a layer", ours, sizeof(*f->tensor), &f->tensor, err) != K3_OK) {
        return err->status;
    }
    json_object_foreach(entries, tensor, shard)
    {
        if (is_ours(f, tensor) && take_entry(f, tensor, json_string_value(shard), err) != K3_OK) {
            return err->status;
        }
    }
    return K3_OK;
}

static k3_status_t load_index(const char *path, json_t **index_p, k3_error_t *err)
{
    k3_file_map_t map;
    json_error_t  fault;
    char          line[JSON_ERROR_TEXT_LENGTH];

    *index_p = NULL;
    if (k3_file_map(path, &map, err) != K3_OK) {
        return err->status;
    }
    if (map.size > INDEX_MAX) {
        k3_fail(err, K3_ERR_USAGE, "%s: %" PRIu64 " bytes (an index has at most %d)", path,
                map.size, INDEX_MAX);
    } else {
        *index_p = json_loadb(map.data != NULL ? (const char *)map.data : "", (size_t)map.size,
                              JSON_REJECT_DUPLICATES, &fault);
        if (*index_p == NULL) {
            k3_fail(err, K3_ERR_USAGE, "%s: not valid JSON: %s (line %d, column %d)", path,
                    k3_printable(fault.text, line, sizeof(line)), fault.line, fault.column);
        }
    }
    k3_file_unmap(&map);
    return err->status;
}

static k3_status_t open_index(k3_checkpoint_files_t *f, const char *path, k3_error_t *err)
{
    json_t     *index, *entries, *shard;
    const char *tensor;

    if (load_index(path, &index, err) != K3_OK) {
        return err->status;
    }
    entries = json_object_get(index, "weight_map");
    if (!json_is_object(entries)) {
        k3_fail(err, K3_ERR_USAGE, "%s: no object weight_map (tensor -> shard) in it", path);
    } else {
        if (f->layer == NO_LAYER) {
            json_object_foreach(entries, tensor, shard)
            {
                offer_layer(tensor, &f->layer);
            }
        }
        take_entries(f, entries, err);
    }
    json_decref(index);
    return err->status;
}

/* --- life ------------------------------------------------------------------------------------ */

/* "PATH" or "PATH:LAYER"; a colon in the name of a folder above is none of ours. */
static k3_status_t split_text(const char *text, k3_checkpoint_files_t *f, k3_error_t *err)
{
    const char *colon = strrchr(text, ':'), *end = NULL;

    f->layer = NO_LAYER;
    if (colon != NULL && strchr(colon, '/') != NULL) {
        colon = NULL;
    }
    if (colon != NULL) {
        end = k3_checkpoint_number(colon + 1, &f->layer);
        if (end == NULL || *end != '\0') {
            return k3_fail(
                err, K3_ERR_USAGE,
                "weights: \"%.200s\": \"%.40s\" behind the colon is no layer (FILE or DIR, "
                "then :LAYER)",
                text, colon + 1);
        }
    }
    return copy_text(text, colon != NULL ? (size_t)(colon - text) : strlen(text), &f->path, err);
}

static k3_status_t open_folder(k3_checkpoint_files_t *f, k3_error_t *err)
{
    char        path[PATH_MAX];
    struct stat info;

    if (strlen(f->path) + sizeof(index_name) >= sizeof(path)) {
        return k3_fail(err, K3_ERR_IO, "weights %.200s...: the path is too long", f->path);
    }
    snprintf(path, sizeof(path), "%s/%s", f->path, index_name);
    if (stat(path, &info) == 0) {
        return open_index(f, path, err);
    }
    snprintf(path, sizeof(path), "%s/%s", f->path, single_name);
    if (stat(path, &info) == 0) {
        return open_single(f, path, err);
    }
    return k3_fail(err, K3_ERR_IO, "weights %s: the folder has neither %s nor %s", f->path,
                   index_name, single_name);
}

k3_status_t k3_checkpoint_files_open(const char *text, k3_checkpoint_files_t *f, k3_error_t *err)
{
    struct stat info;

    memset(f, 0, sizeof(*f));
    if (split_text(text, f, err) != K3_OK) {
        return err->status;
    }
    if (stat(f->path, &info) != 0) {
        return k3_fail(err, K3_ERR_IO, "weights %s: cannot open: %s", f->path, strerror(errno));
    }
    return S_ISDIR(info.st_mode) ? open_folder(f, err) : open_single(f, f->path, err);
}

void k3_checkpoint_files_close(k3_checkpoint_files_t *f)
{
    for (size_t i = 0; i < f->shard_count; i++) {
        k3_safetensors_close(&f->shard[i].file);
        k3_free(f->shard[i].name);
    }
    k3_free(f->tensor);
    k3_free(f->shard);
    k3_free(f->path);
    memset(f, 0, sizeof(*f));
}
