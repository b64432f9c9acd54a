#define _GNU_SOURCE /* renameat2 */
#include "bench/region/dump.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/plan/cell_rows.h"
#include "bench/region/dump_internal.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"
#include "harness/base/text.h"

/* --- what arrives at the experts ------------------------------------------------------------- */

k3_status_t k3_capture_open(const k3_region_t *region, k3_capture_t *c, k3_error_t *err)
{
    const k3_cell_t *cell = region->cell;

    *c = (k3_capture_t){
        .capacity = k3_rows_arriving(cell, (uint32_t)region->world->rank),
        .value_bytes = k3_format_value_bytes(cell->dispatch_format, cell->model.latent),
        .scale_bytes = k3_format_scale_bytes(cell->dispatch_format, cell->model.latent),
    };
    if (k3_alloc("experts of a dump", c->capacity, sizeof(int32_t), &c->expert, err) != K3_OK ||
        k3_alloc("rows of a dump", c->capacity, c->value_bytes, &c->values, err) != K3_OK ||
        k3_alloc("scales of a dump", c->capacity, c->scale_bytes, &c->scales, err) != K3_OK) {
        k3_capture_close(c);
    }
    return err->status;
}

void k3_capture_close(k3_capture_t *c)
{
    k3_free(c->scales);
    k3_free(c->values);
    k3_free(c->expert);
    *c = (k3_capture_t){0};
}

void k3_capture_rows(k3_capture_t *c, k3_compute_t *compute, uint32_t expert,
                     const k3_expert_rows_t *work)
{
    for (size_t i = 0; i < work->count && c->count < c->capacity; i++) {
        uint64_t at = c->count++;

        c->expert[at] = (int32_t)expert;
        k3_compute_bring(compute, c->values + at * c->value_bytes, work->values[i], c->value_bytes);
        if (work->scales != NULL) {
            k3_compute_bring(compute, c->scales + at * c->scale_bytes, work->scales[i],
                             c->scale_bytes);
        }
    }
}

/* --- before the run -------------------------------------------------------------------------- */

uint64_t k3_dump_row_bytes(const k3_cell_t *cell)
{
    const k3_model_t *m = &cell->model;
    uint64_t row = (uint64_t)m->hidden * 4 + (uint64_t)m->latent * 4 + (uint64_t)m->experts * 4 +
                   (uint64_t)m->topk * 8;
    uint64_t record = k3_format_row_bytes(cell->dispatch_format, m->latent) + 8;
    uint64_t arriving = 0;

    for (uint32_t r = 0; r < cell->layout.tp; r++) {
        arriving = k3_add(arriving, k3_rows_arriving(cell, r));
    }
    return k3_add(k3_mul(row, cell->layout.rows_global), k3_mul(record, arriving));
}

static k3_status_t check_path(const char *path, k3_error_t *err)
{
    struct stat info;

    if (path[0] == '\0') {
        return k3_fail(err, K3_ERR_USAGE, "dump: the text is empty");
    }
    if (lstat(path, &info) == 0) {
        return k3_fail(err, K3_ERR_USAGE, "dump: %s exists (a dump is a new folder)", path);
    }
    if (errno != ENOENT) {
        return k3_fail(err, K3_ERR_IO, "dump: %s: %s", path, strerror(errno));
    }
    return K3_OK;
}

k3_status_t k3_dump_check(const k3_cell_t *cell, const k3_world_t *world, const char *path,
                          k3_error_t *err)
{
    uint64_t bytes = k3_dump_row_bytes(cell);

    if (cell->component != K3_COMPONENT_REGION || cell->layout.cp > 1) {
        return k3_fail(err, K3_ERR_USAGE,
                       "dump: only the whole region without context parallelism is dumped "
                       "(--component region, --cp 1)");
    }
    if (bytes > K3_DUMP_BYTES_MAX) {
        return k3_fail(err, K3_ERR_USAGE,
                       "dump: %llu rows take %llu bytes, the limit is %llu (fewer --tokens)",
                       (unsigned long long)cell->layout.rows_global, (unsigned long long)bytes,
                       (unsigned long long)K3_DUMP_BYTES_MAX);
    }
    if (world->rank == 0) {
        check_path(path, err);
    }
    return k3_world_agree(world, err);
}

/* --- the folder, at rank 0 ------------------------------------------------------------------- */

/* A folder beside the one to be, so that a rename is enough. */
static k3_status_t make_folder(k3_dump_t *d, const char *path, k3_error_t *err)
{
    const char *slash = strrchr(path, '/');
    int         length = slash == NULL ? 0 : (int)(slash - path + 1);

    if ((size_t)snprintf(d->folder, sizeof(d->folder), "%.*s.k3bench-XXXXXX", length, path) >=
        sizeof(d->folder)) {
        return k3_fail(err, K3_ERR_IO, "dump: the path is too long");
    }
    if (mkdtemp(d->folder) == NULL) {
        k3_fail(err, K3_ERR_IO, "dump: cannot make a folder for %s: %s", path, strerror(errno));
        d->folder[0] = '\0';
    }
    return err->status;
}

static void remove_folder(const char *folder)
{
    DIR           *dir = opendir(folder);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        (void)unlinkat(dirfd(dir), entry->d_name, 0); /* "." and ".." cannot be */
    }
    if (dir != NULL) {
        closedir(dir);
    }
    (void)rmdir(folder);
}

static k3_status_t publish(const k3_dump_t *d, const char *path, k3_error_t *err)
{
    if (chmod(d->folder, 0755) != 0 ||
        renameat2(AT_FDCWD, d->folder, AT_FDCWD, path, RENAME_NOREPLACE) != 0) {
        return k3_fail(err, K3_ERR_IO, "dump: cannot name the folder %s: %s", path,
                       strerror(errno));
    }
    return K3_OK;
}

/* --- gathering ------------------------------------------------------------------------------- */

/* `bytes` of each rank in rank order, at rank 0 in *all_p; collective. */
static k3_status_t gather(const k3_dump_t *d, const void *own, uint64_t bytes, uint8_t **all_p,
                          uint64_t *total, k3_error_t *err)
{
    const k3_world_t *world = d->region->world;
    int              *counts = NULL, *at = NULL, mine = (int)bytes;

    *all_p = NULL;
    *total = 0;
    if (k3_alloc("counts", (uint64_t)world->size, sizeof(int), &counts, err) == K3_OK) {
        k3_alloc("counts", (uint64_t)world->size, sizeof(int), &at, err);
    }
    if (k3_world_agree(world, err) == K3_OK) {
        MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, world->comm);
        for (int r = 0; r < world->size; r++) {
            at[r] = (int)*total;
            *total += (uint64_t)counts[r];
        }
        if (d->writes) {
            k3_alloc("rows of a dump", *total, 1, all_p, err);
        }
        if (k3_world_agree(world, err) == K3_OK) {
            MPI_Gatherv(own, mine, MPI_BYTE, *all_p, counts, at, MPI_BYTE, 0, world->comm);
        }
    }
    k3_free(at);
    k3_free(counts);
    return err->status;
}

/* One array of `width` values for each row, in rank order; collective. */
static k3_status_t dump_rows(k3_dump_t *d, const char *name, k3_npy_type_t type, const void *own,
                             uint64_t rows, uint64_t width, size_t element, const char *what,
                             k3_error_t *err)
{
    uint64_t total, shape[2] = {0, width};
    uint8_t *all;

    if (gather(d, own, rows * width * element, &all, &total, err) == K3_OK && d->writes) {
        shape[0] = width > 0 ? total / (width * element) : 0;
        k3_dump_array(d, name, type, width == 1 ? 1 : 2, shape, all, what, err);
    }
    k3_free(all);
    return k3_world_agree(d->region->world, err);
}

/* The values of the rows that this rank owns lie one after the other. */
static k3_status_t dump_stages(k3_dump_t *d, const k3_verify_t *v, k3_error_t *err)
{
    const k3_model_t  *m = &d->region->cell->model;
    uint64_t           n = d->region->cell->layout.rows[d->region->world->rank];
    k3_measured_row_t  none = {0};
    k3_measured_row_t *row = n > 0 ? &v->rows[0] : &none;

    if (dump_rows(d, "hidden", K3_NPY_U16, row->x, n, m->hidden, 2,
                  "rows that enter the router: bf16 of the sum over the attention group",
                  err) != K3_OK ||
        dump_rows(d, "logits", K3_NPY_F32, row->logits, n, m->experts, 4,
                  "hidden @ gate.T, sums in f32", err) != K3_OK ||
        dump_rows(d, "ids", K3_NPY_I32, row->ids, n, m->topk, 4,
                  "experts of each row, -1: not sent; as the routing says", err) != K3_OK ||
        dump_rows(d, "weights", K3_NPY_F32, row->weights, n, m->topk, 4,
                  "s / (sum of the row's s + 1e-20) with s = sigmoid(logits[ids])", err) != K3_OK ||
        dump_rows(d, "latent", K3_NPY_U16, row->latent, n, m->latent, 2,
                  m->latent_step ? "bf16(hidden @ latent_down.T): what is dispatched"
                                 : "hidden: what is dispatched",
                  err) != K3_OK ||
        dump_rows(
            d, "combined", K3_NPY_U16, row->combined, n, m->latent, 2,
            "sum over k of weights[k] * expert ids[k] (latent), back at the row's rank, before the "
            "norm",
            err) != K3_OK ||
        dump_rows(d, "output", K3_NPY_U16, row->output, n, m->hidden, 2,
                  m->latent_step
                      ? "bf16(bf16(norm(combined) @ latent_up.T) + shared expert(hidden))"
                      : "bf16(combined + shared expert(hidden))",
                  err) != K3_OK) {
        return err->status;
    }
    return K3_OK;
}

static k3_status_t dump_arrived(k3_dump_t *d, const k3_capture_t *c, k3_error_t *err)
{
    char     what[160];
    int32_t *rank = NULL;

    k3_alloc("ranks of a dump", c->count, sizeof(*rank), &rank, err);
    if (k3_world_agree(d->region->world, err) != K3_OK) {
        k3_free(rank);
        return err->status;
    }
    for (uint64_t i = 0; i < c->count; i++) {
        rank[i] = d->region->world->rank;
    }
    snprintf(what, sizeof(what), "bytes of the row as it arrived: latent in the format %s",
             k3_format_names[d->region->cell->dispatch_format]);
    if (dump_rows(d, "arrived_rank", K3_NPY_I32, rank, c->count, 1, 4,
                  "for each (row, expert) pair: the rank that ran it", err) == K3_OK &&
        dump_rows(d, "arrived_expert", K3_NPY_I32, c->expert, c->count, 1, 4,
                  "its expert; pairs in the order in which they ran", err) == K3_OK &&
        dump_rows(d, "arrived_values", K3_NPY_U8, c->values, c->count, c->value_bytes, 1, what,
                  err) == K3_OK &&
        c->scale_bytes > 0) {
        dump_rows(d, "arrived_scales", K3_NPY_U8, c->scales, c->count, c->scale_bytes, 1,
                  "bytes of its scales: float32 (fp8, int8) or E8M0 (mxfp8, mxfp4)", err);
    }
    k3_free(rank);
    return err->status;
}

/* --- all of it ------------------------------------------------------------------------------- */

k3_status_t k3_dump_write(const k3_verify_t *v, const k3_capture_t *capture, uint64_t payload,
                          const char *path, k3_error_t *err)
{
    const k3_world_t *world = v->region->world;
    k3_dump_t        *d = NULL;

    k3_alloc("dump", 1, sizeof(*d), &d, err);
    if (k3_world_agree(world, err) != K3_OK) {
        k3_free(d);
        return err->status;
    }
    d->region = v->region;
    d->payload = payload;
    d->writes = world->rank == 0;
    if (d->writes) {
        make_folder(d, path, err);
    }
    if (k3_world_agree(world, err) == K3_OK && dump_stages(d, v, err) == K3_OK &&
        dump_arrived(d, capture, err) == K3_OK && d->writes && k3_dump_weights(d, err) == K3_OK &&
        k3_dump_text(d, err) == K3_OK) {
        publish(d, path, err);
    }
    if (d->writes && err->status != K3_OK && d->folder[0] != '\0') {
        remove_folder(d->folder);
    }
    k3_free(d);
    return k3_world_agree(world, err);
}
