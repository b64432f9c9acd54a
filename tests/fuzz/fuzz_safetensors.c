/* The safetensors reader on hostile files. An input is read twice: as a whole file, and as the header (up to
 * the first line end) and the data of a file with the right length in front, so that text seeds reach the
 * checks of tensors. What is accepted is then opened as a checkpoint. */
#define _GNU_SOURCE

#include <string.h>

#include "bench/cell/checkpoint.h"
#include "tests/fuzz/memory_file.h"

#define LAYER "language_model.model.layers.3.block_sparse_moe."

const char *const fuzz_seeds[] = {
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[2,4],\"data_offsets\":[0,8]}}\n01234567",
    "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_"
    "offsets\":[4,8]},"
    "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}\n01234567",
    "{\"" LAYER "gate.weight\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[0,4]},"
    "\"" LAYER
    "experts.0.w1.weight_packed\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}"
    "\n01234567",
    "{\"" LAYER "experts.99999999999.w1.weight_scale\":{\"dtype\":\"U8\",\"shape\":[0],"
    "\"data_offsets\":[0,0]},\"" LAYER "experts.1048575.w2.weight_scale\":{\"dtype\":\"F4\","
    "\"shape\":[3],\"data_offsets\":[0,2]}}\n01",
    "{\"a\":{\"dtype\":\"F64\",\"shape\":[9223372036854775807,2],\"data_offsets\":[-1,"
    "18446744073709551616]}}\n",
    "\x10\0\0\0\0\0\0\0{\"a\":{}}",
    NULL,
};

static void check_error(const k3_error_t *err)
{
    FUZZ_CHECK(err->status != K3_OK && err->text[0] != '\0' && strchr(err->text, '\n') == NULL);
}

/* Every byte of an accepted tensor can be read, and its name finds it. */
static void check_tensors(const k3_safetensors_t *file)
{
    static volatile uint8_t last;

    for (size_t i = 0; i < file->count; i++) {
        const k3_safetensor_t *t = &file->tensors[i];

        for (uint64_t at = 0; at < t->end - t->begin; at++) {
            last = t->data[at];
        }
        FUZZ_CHECK(k3_safetensors_find(file, t->name) == t);
    }
    (void)last;
}

static void open_checkpoint(const uint8_t *bytes, size_t size)
{
    k3_error_t       err = K3_ERROR_INIT;
    k3_checkpoint_t *c = NULL;

    if (k3_checkpoint_open(memory_file(bytes, size), &c, &err) == K3_OK) {
        k3_checkpoint_identify(c, k3_checkpoint_digest_dense(c),
                               k3_checkpoint_digest_experts(c, 0, k3_checkpoint_experts(c)));
        if (k3_checkpoint_match(c, k3_model_at(0), &err) != K3_OK) {
            check_error(&err);
        }
        k3_checkpoint_close(c);
    } else {
        check_error(&err);
    }
}

static void read_file(const uint8_t *bytes, size_t size)
{
    k3_error_t       err = K3_ERROR_INIT;
    k3_safetensors_t file;

    if (k3_safetensors_parse("fuzz", bytes, size, &file, &err) == K3_OK) {
        check_tensors(&file);
        k3_safetensors_close(&file);
        open_checkpoint(bytes, size);
    } else {
        check_error(&err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line_end = size == 0 ? NULL : memchr(data, '\n', size);
    uint64_t       header = line_end == NULL ? size : (size_t)(line_end - data) + 1;
    uint8_t       *bytes = malloc(size + 8);

    FUZZ_CHECK(bytes != NULL);
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    read_file(bytes, size);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(header >> (8 * i));
    }
    if (size > 0) {
        memcpy(bytes + 8, data, size);
    }
    read_file(bytes, size + 8);
    free(bytes);
    return 0;
}
