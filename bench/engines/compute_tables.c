#include "bench/engines/compute_tables.h"

#include <string.h>

#include "bench/plan/cell_rows.h"
#include "bench/plan/device.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

k3_status_t k3_tables_finish(k3_compute_t *c, k3_error_t *err)
{
    c->on->turn++;
    return k3_device_finish(c->device, K3_STREAM_MAIN, err);
}

void *k3_table_open(k3_compute_t *c, k3_table_t *table)
{
    k3_error_t kept = K3_ERROR_INIT; /* the device keeps it */

    if (table->sent_in == c->on->turn) {
        k3_tables_finish(c, &kept);
    }
    return table->host;
}

const void *k3_table_sent(k3_compute_t *c, k3_table_t *table, uint64_t n)
{
    table->sent_in = c->on->turn;
    k3_device_copy(c->device, c->on->stream, table->device, table->host, n * table->entry);
    return table->device;
}

const void *k3_table_send(k3_compute_t *c, k3_table_t *table, const void *from, uint64_t n)
{
    memcpy(k3_table_open(c, table), from, n * table->entry);
    return k3_table_sent(c, table, n);
}

/* --- set-up ------------------------------------------------------------------------------------ */

static k3_status_t make_table(k3_compute_t *c, const char *what, uint64_t count, size_t entry,
                              k3_table_t *table, k3_error_t *err)
{
    uint64_t bytes = k3_mul(count, entry);

    *table = (k3_table_t){.count = count, .entry = entry};
    if (k3_device_alloc_host(c->device, what, bytes, &table->host, err) == K3_OK) {
        k3_device_alloc(c->device, what, bytes, false, &table->device, err);
    }
    return err->status;
}

/* A table of the addresses of rows that stay where they are. */
static k3_status_t make_pointers(k3_compute_t *c, const char *what, const uint8_t *rows,
                                 uint64_t count, uint64_t stride, k3_table_t *table,
                                 k3_error_t *err)
{
    const uint8_t **at;

    if (make_table(c, what, count, sizeof(void *), table, err) == K3_OK) {
        at = table->host;
        for (uint64_t i = 0; i < count; i++) {
            at[i] = rows + i * stride;
        }
        k3_table_sent(c, table, count);
        k3_device_finish(c->device, K3_STREAM_MAIN, err);
    }
    return err->status;
}

static k3_status_t make_plain(k3_compute_t *c, const char *what, uint64_t rows, uint64_t width,
                              uint16_t **memory, k3_table_t *pointers, k3_error_t *err)
{
    void *at;

    if (k3_device_alloc(c->device, what, k3_mul(rows, 2 * width), false, &at, err) == K3_OK) {
        *memory = at;
        make_pointers(c, what, at, rows, 2 * width, pointers, err);
    }
    return err->status;
}

void k3_coded_layout(k3_format_t format, uint64_t width, uint64_t *scales_at, uint64_t *stride)
{
    *scales_at = k3_round_up(k3_format_value_bytes(format, width), 16);
    *stride = *scales_at + k3_round_up(k3_format_scale_bytes(format, width), 16);
}

static k3_status_t make_coded(k3_compute_t *c, const char *what, k3_format_t format, uint64_t rows,
                              uint64_t width, k3_coded_rows_t *coded, k3_error_t *err)
{
    void *at;

    k3_coded_layout(format, width, &coded->scales_at, &coded->stride);
    if (k3_device_alloc(c->device, what, k3_mul(rows, coded->stride), false, &at, err) == K3_OK) {
        coded->bytes = at;
        make_pointers(c, what, at, rows, coded->stride, &coded->values, err);
        make_pointers(c, what, coded->bytes + coded->scales_at, rows, coded->stride, &coded->scales,
                      err);
    }
    return err->status;
}

/* A cell without experts gives them no rows. */
static k3_status_t make_experts(k3_compute_t *c, const k3_cell_t *cell, uint32_t rank,
                                k3_error_t *err)
{
    k3_on_device_t    *on = c->on;
    const k3_recipe_t *recipe = &cell->runner->recipe;
    uint64_t           rows = k3_rows_arriving(cell, rank), width = cell->model.latent;
    uint64_t           local = k3_layout_local_experts(&cell->layout, &cell->model);
    uint32_t           begin, end;

    k3_layout_expert_slice(&cell->layout, &cell->model, rank, &begin, &end);
    if (make_table(c, "rows of the experts", rows, sizeof(void *), &on->values, err) != K3_OK ||
        make_table(c, "scales of the experts", rows, sizeof(void *), &on->scales, err) != K3_OK ||
        make_table(c, "results of the experts", rows, sizeof(void *), &on->out, err) != K3_OK ||
        make_table(c, "weights of rows", rows, sizeof(float), &on->row_weights, err) != K3_OK ||
        make_table(c, "factors of rows", rows, sizeof(float), &on->row_factors, err) != K3_OK ||
        make_table(c, "tasks of the experts", local + rows / K3_GPU_TASK_ROWS,
                   sizeof(k3_gpu_expert_task_t), &on->tasks, err) != K3_OK ||
        !k3_needs_experts(cell)) {
        return err->status;
    }
    if (recipe->input != cell->dispatch_format) {
        make_plain(c, "decoded rows", rows, width, &on->plain, &on->plain_rows, err);
        if (recipe->input != K3_FORMAT_BF16) {
            make_coded(c, "rows in front of the gate", recipe->input, rows, width, &on->input, err);
        }
    }
    make_plain(c, "activated rows", rows, end - begin, &on->activated, &on->activated_rows, err);
    return recipe->middle == K3_FORMAT_BF16
               ? err->status
               : make_coded(c, "rows between the products", recipe->middle, rows, end - begin,
                            &on->middle, err);
}

/* Rows in front of records that kernels cannot write, and out of them. */
static k3_status_t make_drafts(k3_compute_t *c, const k3_cell_t *cell, uint32_t rank,
                               k3_error_t *err)
{
    uint64_t scales_at, stride, width = cell->model.latent;
    void    *at;

    if (k3_rows_aligned(cell)) {
        return K3_OK;
    }
    k3_coded_layout(cell->dispatch_format, width, &scales_at, &stride);
    if (k3_device_alloc(c->device, "rows in front of their records",
                        k3_mul(k3_front_rows(cell, rank), K3_DRAFT_HEADER + stride), false, &at,
                        err) == K3_OK) {
        c->on->drafts = at;
        make_coded(c, "rows out of their records", cell->dispatch_format,
                   k3_rows_arriving(cell, rank), width, &c->on->gathered, err);
    }
    return err->status;
}

/* Messages are made where they leave from. */
static k3_status_t make_results(k3_compute_t *c, const k3_cell_t *cell, uint32_t rank,
                                k3_error_t *err)
{
    uint64_t row = k3_round_up(k3_format_row_bytes(cell->combine_format, cell->model.latent), 16);
    uint64_t n = k3_results_at_once(cell, rank);
    bool     messages = cell->combine_format == K3_FORMAT_LOGFMT10;
    void    *at;

    if (cell->combine_format == K3_FORMAT_BF16) {
        return K3_OK;
    }
    if (messages) {
        make_table(c, "bytes of results", n, sizeof(uint32_t), &c->on->result_bytes, err);
    } else if (k3_device_alloc(c->device, "results as they leave", k3_mul(n, row), false, &at,
                               err) == K3_OK) {
        c->on->results = at;
    }
    if (err->status == K3_OK) {
        make_table(c, "results", n, sizeof(void *), &c->on->result_values, err);
    }
    return err->status == K3_OK
               ? make_table(c, "scales of results", n, sizeof(void *), &c->on->result_scales, err)
               : err->status;
}

k3_status_t k3_on_device_create(const k3_compute_config_t *config, k3_compute_t *c, k3_error_t *err)
{
    const k3_cell_t *cell = config->cell;
    uint64_t         front = k3_front_rows(cell, config->rank);
    uint64_t         selections = k3_mul(front, cell->model.topk);
    uint64_t         arriving = k3_rows_arriving(cell, config->rank);
    uint64_t         copies = selections > arriving ? selections : arriving, parts;

    copies = copies > 0 ? copies : 1;
    parts = copies > cell->model.topk ? copies : cell->model.topk;
    if (k3_alloc("arithmetic on the device", 1, sizeof(*c->on), &c->on, err) != K3_OK) {
        return err->status;
    }
    c->on->gpu = config->gpu;
    c->on->blas = config->blas;
    c->on->blas_ops = config->blas_ops;
    c->on->turn = 1;
    if (make_table(c, "parts of the combine", parts, sizeof(void *), &c->on->parts, err) != K3_OK ||
        make_table(c, "weights of parts", parts, sizeof(float), &c->on->part_weights, err) !=
            K3_OK ||
        make_table(c, "sums of parts", parts, sizeof(void *), &c->on->part_rows, err) != K3_OK ||
        make_table(c, "copies", copies, sizeof(k3_gpu_copy_task_t), &c->on->copies, err) != K3_OK ||
        make_table(c, "metadata of rows", k3_mul(copies, k3_meta_bytes(cell)), 1, &c->on->small,
                   err) != K3_OK ||
        make_table(c, "ids of the gate", selections, sizeof(int32_t), &c->on->ids, err) != K3_OK ||
        make_table(c, "ids asked for", selections, sizeof(int32_t), &c->on->wanted, err) != K3_OK) {
        return err->status;
    }
    if (make_results(c, cell, config->rank, err) != K3_OK ||
        make_experts(c, cell, config->rank, err) != K3_OK) {
        return err->status;
    }
    return make_drafts(c, cell, config->rank, err);
}

static void drop_table(k3_compute_t *c, k3_table_t *table)
{
    k3_device_free(c->device, table->device);
    k3_device_free(c->device, table->host);
}

void k3_on_device_destroy(k3_compute_t *c)
{
    k3_on_device_t *on = c->on;
    k3_table_t     *tables[] = {
            &on->parts,           &on->part_weights,  &on->part_rows,      &on->copies,
            &on->small,           &on->ids,           &on->wanted,         &on->values,
            &on->scales,          &on->out,           &on->row_weights,    &on->row_factors,
            &on->tasks,           &on->plain_rows,    &on->activated_rows, &on->input.values,
            &on->input.scales,    &on->middle.values, &on->middle.scales,  &on->gathered.values,
            &on->gathered.scales, &on->result_values, &on->result_scales,  &on->result_bytes};

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        drop_table(c, tables[i]);
    }
    k3_device_free(c->device, on->plain);
    k3_device_free(c->device, on->activated);
    k3_device_free(c->device, on->input.bytes);
    k3_device_free(c->device, on->middle.bytes);
    k3_device_free(c->device, on->gathered.bytes);
    k3_device_free(c->device, on->drafts);
    k3_device_free(c->device, on->results);
    k3_free(on);
    c->on = NULL;
}
