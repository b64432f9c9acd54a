/* Writes what the synthetic generator makes as files of the layout of a released Kimi-K3 checkpoint.
 *
 *   write_checkpoint OUT MODEL SHARDS [odd] LAYER=SEED...
 *
 * SHARDS 0: OUT is one file; else OUT is a folder with so many shards and their index. `odd` lets the data
 * begin at an odd byte. The names are spelled here once more: a reader that looks for others finds
 * nothing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/cell/inputs.h"
#include "bench/cell/model.h"

enum { NAME = 224, SUFFIX = 128, TENSORS_MAX = 1 << 14 };

typedef struct tensor {
    char               name[NAME];
    const char        *type;
    unsigned           dims;
    uint64_t           rows, columns; /* elements */
    uint64_t           bytes;
    uint64_t           seed;
    int                dense; /* k3_tensor_t; -1: bias; -2: of an expert; -3: nothing of ours */
    uint32_t           expert;
    k3_expert_matrix_t matrix;
    int                scales;
    unsigned           shard;
} tensor_t;

static tensor_t  *tensors;
static size_t     count;
static k3_model_t model;

static void die(const char *what)
{
    fprintf(stderr, "write_checkpoint: %s: %s\n", what, strerror(errno));
    exit(1);
}

static tensor_t *add(uint32_t layer, const char *suffix, const char *type, uint64_t rows,
                     uint64_t columns, unsigned element)
{
    tensor_t *t = &tensors[count++];

    if (count > TENSORS_MAX) {
        die("too many tensors");
    }
    *t = (tensor_t){.type = type, .dims = rows == 0 ? 1 : 2, .rows = rows, .columns = columns};
    snprintf(t->name, NAME, "language_model.model.layers.%u.%s", layer, suffix);
    t->bytes = (rows == 0 ? 1 : rows) * columns * element;
    return t;
}

static void add_dense(uint32_t layer, uint64_t seed)
{
    const uint64_t h = model.hidden, l = model.latent, e = model.experts, s = model.shared;
    const struct {
        const char *suffix;
        int         dense;
        uint64_t    rows, columns;
    } list[] = {
        {"block_sparse_moe.shared_experts.down_proj.weight", K3_TENSOR_SHARED_DOWN, h, s},
        {"block_sparse_moe.shared_experts.up_proj.weight", K3_TENSOR_SHARED_UP, s, h},
        {"block_sparse_moe.shared_experts.gate_proj.weight", K3_TENSOR_SHARED_GATE, s, h},
        {"block_sparse_moe.routed_expert_norm.weight", K3_TENSOR_LATENT_NORM, 0, l},
        {"block_sparse_moe.routed_expert_down_proj.weight", K3_TENSOR_LATENT_DOWN, l, h},
        {"block_sparse_moe.routed_expert_up_proj.weight", K3_TENSOR_LATENT_UP, h, l},
        {"block_sparse_moe.gate.weight", K3_TENSOR_GATE, e, h},
    };
    tensor_t *t;

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        t = add(layer, list[i].suffix, "BF16", list[i].rows, list[i].columns, 2);
        t->dense = list[i].dense;
        t->seed = seed;
    }
    t = add(layer, "block_sparse_moe.gate.e_score_correction_bias", "F32", 0, e, 4);
    t->dense = -1;
    t->seed = seed;
    add(layer, "input_layernorm.weight", "BF16", 0, 3, 2)->dense = -3;
}

static void add_expert(uint32_t layer, uint64_t seed, uint32_t expert)
{
    static const struct {
        const char        *name;
        k3_expert_matrix_t matrix;
    } list[] = {{"w1", K3_MATRIX_W1}, {"w2", K3_MATRIX_W2}, {"w3", K3_MATRIX_W3}};

    for (size_t i = 0; i < 3; i++) {
        for (int scales = 0; scales < 2; scales++) {
            bool      down = list[i].matrix == K3_MATRIX_W2;
            uint64_t  rows = down ? model.latent : model.intermediate;
            uint64_t  columns = (down ? model.intermediate : model.latent) / (scales ? 32 : 2);
            char      suffix[SUFFIX];
            tensor_t *t;

            snprintf(suffix, SUFFIX, "block_sparse_moe.experts.%u.%s.weight_%s", expert,
                     list[i].name, scales ? "scale" : "packed");
            t = add(layer, suffix, "U8", rows, columns, 1);
            t->dense = -2;
            t->seed = seed;
            t->expert = expert;
            t->matrix = list[i].matrix;
            t->scales = scales;
        }
    }
}

/* --- values ---------------------------------------------------------------------------------- */

static void fill_expert(const tensor_t *t, uint8_t *out)
{
    uint32_t width = t->matrix == K3_MATRIX_W2 ? model.intermediate : model.latent;
    uint8_t *values = malloc(width / 2), *scales = malloc(width / 32);

    if (values == NULL || scales == NULL) {
        die("memory");
    }
    for (uint32_t r = 0; r < t->rows; r++) {
        k3_expert_row(&model, t->seed, t->expert, t->matrix, r, 0, width, values, scales);
        memcpy(out + r * t->columns, t->scales ? scales : values, t->columns);
    }
    free(values);
    free(scales);
}

static void fill(const tensor_t *t, uint8_t *out)
{
    if (t->dense == -3) {
        memset(out, 0, t->bytes);
    } else if (t->dense == -2) {
        fill_expert(t, out);
    } else if (t->dense == -1) {
        for (uint32_t e = 0; e < model.experts; e++) {
            float bias = k3_router_bias(t->seed, e);

            memcpy(out + e * sizeof(bias), &bias, sizeof(bias));
        }
    } else {
        uint64_t rows = t->rows == 0 ? 1 : t->rows;

        for (uint32_t r = 0; r < rows; r++) {
            k3_tensor_row(&model, t->seed, (k3_tensor_t)t->dense, r, 0, (uint32_t)t->columns,
                          (uint16_t *)(void *)out + r * t->columns);
        }
    }
}

/* --- files ----------------------------------------------------------------------------------- */

static void write_header(FILE *file, unsigned shard, bool odd)
{
    char    *text = malloc(TENSORS_MAX * 320);
    size_t   used = 0, first;
    uint64_t at = 0, length;

    if (text == NULL) {
        die("memory");
    }
    used += (size_t)sprintf(text, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < count; i++) {
        const tensor_t *t = &tensors[i];

        if (t->shard != shard) {
            continue;
        }
        used +=
            (size_t)sprintf(text + used, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, t->type);
        used += (size_t)(t->dims == 1
                             ? sprintf(text + used, "%" PRIu64, t->columns)
                             : sprintf(text + used, "%" PRIu64 ",%" PRIu64, t->rows, t->columns));
        used += (size_t)sprintf(text + used, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at,
                                at + t->bytes);
        at += t->bytes;
    }
    used += (size_t)sprintf(text + used, "}");
    for (first = used; used % 8 != (odd ? 7u : 0u) || used == first; used++) {
        text[used] = ' ';
    }
    length = used;
    if (fwrite(&length, 8, 1, file) != 1 || fwrite(text, 1, used, file) != used) {
        die("cannot write");
    }
    free(text);
}

static void write_shard(const char *path, unsigned shard, bool odd)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL) {
        die(path);
    }
    write_header(file, shard, odd);
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].shard == shard) {
            uint8_t *bytes = malloc(tensors[i].bytes);

            if (bytes == NULL) {
                die("memory");
            }
            fill(&tensors[i], bytes);
            if (fwrite(bytes, 1, tensors[i].bytes, file) != tensors[i].bytes) {
                die(path);
            }
            free(bytes);
        }
    }
    if (fclose(file) != 0) {
        die(path);
    }
}

static void write_index(const char *folder, unsigned shards)
{
    char  path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/model.safetensors.index.json", folder);
    file = fopen(path, "wb");
    if (file == NULL) {
        die(path);
    }
    fprintf(file, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "%s\n  \"%s\": \"model-%05u-of-%06u.safetensors\"", i > 0 ? "," : "",
                tensors[i].name, tensors[i].shard + 1, shards);
    }
    fprintf(file, "\n}}\n");
    if (fclose(file) != 0) {
        die(path);
    }
}

static void write_folder(const char *folder, unsigned shards, bool odd)
{
    char path[512];

    if (mkdir(folder, 0777) != 0) {
        die(folder);
    }
    for (size_t i = 0; i < count; i++) {
        tensors[i].shard = (unsigned)(i % shards);
    }
    for (unsigned s = 0; s < shards; s++) {
        snprintf(path, sizeof(path), "%s/model-%05u-of-%06u.safetensors", folder, s + 1, shards);
        write_shard(path, s, odd);
    }
    write_index(folder, shards);
}

int main(int argc, char **argv)
{
    k3_error_t err = K3_ERROR_INIT;
    bool       odd = argc > 4 && strcmp(argv[4], "odd") == 0;
    unsigned   shards = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;

    tensors = calloc(TENSORS_MAX, sizeof(*tensors));
    if (argc < 5 + odd || tensors == NULL || k3_model_parse(argv[2], &model, &err) != K3_OK) {
        fprintf(stderr, "usage: write_checkpoint OUT MODEL SHARDS [odd] LAYER=SEED... %s\n",
                err.text);
        return 2;
    }
    for (int i = 4 + odd; i < argc; i++) {
        char    *equals;
        uint32_t layer = (uint32_t)strtoul(argv[i], &equals, 10);
        uint64_t seed = strtoull(equals + (*equals == '='), NULL, 10);

        for (uint32_t e = model.experts; e > 0; e--) { /* not in the order of their numbers */
            add_expert(layer, seed, e - 1);
        }
        add_dense(layer, seed);
    }
    if (shards == 0) {
        write_shard(argv[1], 0, odd);
    } else {
        write_folder(argv[1], shards, odd);
    }
    free(tensors);
    return 0;
}
