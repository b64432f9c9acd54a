/* The arithmetic of a rank on rows: by the kernels of its processor, done when a call returns, or on its
 * device, where a call starts what is done by the next k3_compute_finish. Engines and region call this one
 * table and do not know which.
 *
 * What lies where: rows, results, logits, combine weights and expert weights are memory of the compute
 * (k3_compute_alloc) and not to be touched by the host when that is a device; ids, tables of pointers and
 * signals are the host's. */
#ifndef K3_ENGINES_COMPUTE_H
#define K3_ENGINES_COMPUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/plan/cell.h"
#include "harness/device/device.h"
#include "kernels/gpu/blas.h"
#include "kernels/kernels.h"

typedef struct k3_compute k3_compute_t;

/* Rows of `width` bf16 values without gaps to records of a format. */
typedef struct k3_encode_rows {
    k3_format_t     format;
    uint64_t        rows;
    uint32_t        width;
    const uint16_t *in;
    uint8_t        *records;
    uint64_t        stride;    /* of the records */
    uint64_t        header_at; /* 16 bytes: the row's number, then zeros */
    bool            numbered;  /* whether records have that header */
    uint32_t        number;    /* of the first row */
    uint64_t        values_at, scales_at;
} k3_encode_rows_t;

/* A dense layer y = x W^T, W [n][k]. */
typedef struct k3_layer {
    k3_dense_t     *host; /* of the processor */
    const uint16_t *w;    /* of a device */
    uint32_t        n, k;
} k3_layer_t;

/* What one local expert has to do. The arrays live until the next call of expert. */
typedef struct k3_expert_rows {
    size_t             count;
    k3_format_t        format;
    const void *const *values;
    const void *const *scales;  /* NULL for bf16 */
    uint16_t *const   *out;     /* where the [L] bf16 result of each row goes */
    const float       *weights; /* of each row, for the activation; NULL: they belong elsewhere */
} k3_expert_rows_t;

/* The experts of a rank, or their stand-ins y = bf16(x * factor * weight). */
typedef struct k3_expert_model {
    k3_expert_shape_t  shape;
    const k3_recipe_t *recipe;
    bool               stand_in;
    const float       *factors; /* [local experts], the host's */
    /* Of a local expert, for the processor; of all of them for a device. */
    void (*weights)(const void *arg, uint32_t local, k3_expert_weights_t *weights);
    const void    *arg;
    const uint8_t *block; /* layouts of k3_expert_layout, `pitch` bytes apart */
    uint64_t       pitch;
} k3_expert_model_t;

typedef struct k3_route_rows {
    uint64_t       rows;
    uint32_t       experts, k;
    const float   *logits, *bias;
    const int32_t *wanted;  /* [rows][k], the host's: these ids replace those of the gate */
    int32_t       *ids;     /* likewise */
    float         *weights; /* raw scores of the ids over their sum */
} k3_route_rows_t;

typedef struct k3_compute_ops {
    void (*encode)(k3_compute_t *c, const k3_encode_rows_t *rows);
    /* out[i] = bf16(sum over j of weights[i][j] * parts[i][j]); NULL parts are left out. */
    void (*combine)(k3_compute_t *c, const uint16_t *const *parts, const float *weights,
                    uint64_t rows, uint32_t k, uint32_t width, uint16_t *out);
    /* The same, each row to where it is asked for; weights are the host's, NULL: all 1. */
    void (*combine_to)(k3_compute_t *c, const uint16_t *const *parts, const float *weights,
                       uint64_t rows, uint32_t k, uint32_t width, uint16_t *const *out);
    /* n rows of `width` values to results, each a row's values with its scales behind them, and from there
     * (rounded once). `rows` lie one behind the other, results anywhere. */
    void (*encode_to)(k3_compute_t *c, k3_format_t format, const uint16_t *rows, uint64_t n,
                      uint32_t width, uint8_t *const *results);
    void (*decode_from)(k3_compute_t *c, k3_format_t format, const uint8_t *const *results,
                        uint64_t n, uint32_t width, uint16_t *rows);
    /* n rows as LogFMT-10 messages; bytes[i], which the host reads, is what each became. `messages` begin at
     * multiples of 16 bytes. */
    void (*log_encode)(k3_compute_t *c, const uint16_t *const *rows, uint64_t n, uint32_t width,
                       uint8_t *const *messages, uint32_t *bytes);
    /* The combine of such messages; the processor decodes those of a row into `room`, [k][width] of the host. */
    void (*log_combine)(k3_compute_t *c, const uint8_t *const *messages, const float *weights,
                        uint64_t rows, uint32_t k, uint32_t width, uint16_t *room, uint16_t *out);
    void (*zero)(k3_compute_t *c, void *to, uint64_t bytes);
    /* Within the memory of the compute. Those of a device are started together by copies_done. */
    void (*copy)(k3_compute_t *c, void *to, const void *from, uint64_t bytes);
    void (*copies_done)(k3_compute_t *c);
    /* n parts of `bytes` each, one behind the other in the host, to their places; and from there, in the host
     * when it returns. */
    void (*place)(k3_compute_t *c, uint8_t *const *to, const void *parts, uint64_t n,
                  uint64_t bytes);
    void (*fetch)(k3_compute_t *c, void *parts, const uint8_t *const *from, uint64_t n,
                  uint64_t bytes);

    void (*dense)(k3_compute_t *c, const k3_layer_t *layer, const uint16_t *x, uint64_t m,
                  float *y_f32, uint16_t *y_bf16);
    void (*route)(k3_compute_t *c, const k3_route_rows_t *rows);
    void (*norm)(k3_compute_t *c, const uint16_t *x, const uint16_t *gain, uint64_t rows,
                 uint32_t width, uint16_t *out);
    void (*activate)(k3_compute_t *c, k3_activation_t activation, const uint16_t *gate,
                     const uint16_t *up, uint64_t n, uint16_t *out);
    void (*add)(k3_compute_t *c, const uint16_t *a, const uint16_t *b, uint64_t n, uint16_t *out);
    /* out = bf16(sum of the parts of n values each), which lie equally far apart; out may be one of them. */
    void (*sum)(k3_compute_t *c, const uint16_t *const *parts, uint32_t count, uint64_t n,
                uint16_t *out);
    /* Rows of one local expert; those of a device are started together by experts_done. */
    void (*expert)(k3_compute_t *c, uint32_t local, const k3_expert_rows_t *work);
    void (*experts_done)(k3_compute_t *c);

    /* From fork to leave: may run beside what is started from leave to join. */
    void (*fork)(k3_compute_t *c);
    void (*leave)(k3_compute_t *c);
    void (*join)(k3_compute_t *c);
    /* All that was started is done. */
    k3_status_t (*finish)(k3_compute_t *c, k3_error_t *err);
} k3_compute_ops_t;

#define K3_NORM_EPS 1e-5f

struct k3_compute {
    const k3_compute_ops_t *ops;
    const k3_kernels_t     *kernels;
    k3_expert_model_t       experts;
    void                   *work;   /* of the processor's experts */
    k3_device_t            *device; /* NULL: the processor */
    struct k3_on_device    *on;     /* what a device needs */
};

/* What a device does with a cell, besides the device: tables in both memories. */
typedef struct k3_compute_config {
    const k3_cell_t     *cell;
    uint32_t             rank;
    const k3_kernels_t  *kernels;
    k3_device_t         *device; /* NULL: the processor; the others are not looked at then */
    const k3_gpu_t      *gpu;
    k3_blas_t           *blas; /* NULL: dense layers by plain kernels */
    const k3_blas_ops_t *blas_ops;
} k3_compute_config_t;

k3_status_t k3_compute_create(const k3_compute_config_t *config, k3_compute_t *compute,
                              k3_error_t *err);
void        k3_compute_destroy(k3_compute_t *compute);

/* Zeroed memory for rows; `transported`: UCX or MPI reads or writes it. */
k3_status_t k3_compute_alloc(k3_compute_t *c, const char *what, uint64_t count, uint64_t size,
                             bool transported, void *pointer_p, k3_error_t *err);
void        k3_compute_free(k3_compute_t *c, void *memory);

/* Where a transport finds an address of that memory. */
static inline void *k3_compute_reach(const k3_compute_t *c, const void *at)
{
    intptr_t shift = c->device != NULL ? k3_device_reach(c->device, at) : 0;

    return (void *)((uintptr_t)at + (uintptr_t)shift);
}

/* Between memory of the compute and the host, in order with what was started, complete when they return;
 * for set-up, inputs and checks. */
void k3_compute_bring(k3_compute_t *c, void *host, const void *from, uint64_t bytes);
void k3_compute_send(k3_compute_t *c, void *to, const void *host, uint64_t bytes);

extern const k3_compute_ops_t k3_compute_cpu, k3_compute_device;

/* compute_tables.c */
k3_status_t k3_on_device_create(const k3_compute_config_t *config, k3_compute_t *compute,
                                k3_error_t *err);
void        k3_on_device_destroy(k3_compute_t *compute);

#endif
