/* The baseline that any user would write: pack rows by destination, MPI_Alltoall the counts,
 * MPI_Alltoallv the rows, and the same way back. One copy for each (row, expert). */
#include <mpi.h>
#include <string.h>

#include "bench/engines/engine.h"
#include "bench/plan/cell_rows.h"
#include "harness/base/arith.h"
#include "harness/base/memory.h"

typedef struct header {
    int32_t row, expert;
} header_t;

typedef struct mpi_engine {
    k3_engine_env_t env;
    uint32_t        ranks, local, rank;
    uint64_t        record, result; /* bytes */
    uint64_t        encoded_bytes;  /* values and scales */
    uint64_t        encoded_stride;
    uint64_t        send_cap, recv_cap;
    MPI_Datatype    record_type, result_type;
    int            *send_experts, *recv_experts; /* [R][local] rows for / from each */
    int            *send_count, *send_at, *recv_count, *recv_at; /* [R] */
    uint64_t       *taken; /* [R] place of the next row of each rank in the receive buffer */
    uint64_t       *fill;  /* [E] next place of an expert's rows in the send buffer */
    /* Memory of the compute; MPI takes the addresses of the last four. */
    uint8_t         *encoded;            /* [rows][values + scales] */
    uint8_t         *send, *recv;        /* records */
    uint8_t         *results, *returned; /* results in the order of recv / of send */
    header_t        *header;             /* [rows][K], as sent */
    uint8_t        **header_at;
    uint32_t        *place;            /* [rows][K] position in the send buffer */
    uint64_t        *begin;            /* [local + 1] */
    const void     **values, **scales; /* [recv] grouped by expert */
    uint16_t       **out;
    uint16_t const **parts; /* [K], on a device [rows][K] */
} mpi_engine_t;

static void mpi_destroy(void *engine)
{
    mpi_engine_t *e = engine;

    void *owned[] = {e->send_experts, e->recv_experts, e->send_count, e->send_at,
                     e->recv_count,   e->recv_at,      e->taken,      e->fill,
                     e->place,        e->begin,        e->values,     e->scales,
                     e->out,          e->parts,        e->header_at,  e->header};
    void *rows[] = {e->encoded, e->send, e->recv, e->results, e->returned};

    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
        k3_free(owned[i]);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_compute_free(e->env.compute, rows[i]);
    }
    if (e->record_type != MPI_DATATYPE_NULL) {
        MPI_Type_free(&e->record_type);
    }
    if (e->result_type != MPI_DATATYPE_NULL) {
        MPI_Type_free(&e->result_type);
    }
    k3_free(e);
}

static bool is_on_device(const mpi_engine_t *e)
{
    return e->env.compute->device != NULL;
}

/* Where MPI does not reach the device, what it takes lies in the host, which the device reaches. */
static k3_status_t alloc_taken(mpi_engine_t *e, const char *what, uint64_t count, uint64_t size,
                               uint8_t **memory, k3_error_t *err)
{
    k3_device_t *device = e->env.compute->device;
    void        *at;

    if (device == NULL || device->mpi_reaches) {
        return k3_compute_alloc(e->env.compute, what, count, size, true, memory, err);
    }
    if (k3_device_alloc_host(device, what, k3_mul(count, size), &at, err) == K3_OK) {
        *memory = at;
    }
    return err->status;
}

/* On a device rows begin at multiples of 16 bytes. */
static k3_status_t alloc_rows(mpi_engine_t *e, uint64_t rows, k3_error_t *err)
{
    e->encoded_stride = is_on_device(e) ? k3_round_up(e->encoded_bytes, 16) : e->encoded_bytes;
    if (k3_compute_alloc(e->env.compute, "encoded rows", rows, e->encoded_stride, false,
                         &e->encoded, err) != K3_OK ||
        alloc_taken(e, "send buffer", e->send_cap, e->record, &e->send, err) != K3_OK ||
        alloc_taken(e, "receive buffer", e->recv_cap, e->record, &e->recv, err) != K3_OK ||
        alloc_taken(e, "results", e->recv_cap, e->result, &e->results, err) != K3_OK ||
        alloc_taken(e, "returned results", e->send_cap, e->result, &e->returned, err) != K3_OK) {
        return err->status;
    }
    return K3_OK;
}

static k3_status_t alloc_buffers(mpi_engine_t *e, k3_error_t *err)
{
    uint32_t topk = e->env.cell->model.topk;
    uint64_t rows, first, experts = (uint64_t)e->ranks * e->local;

    k3_cell_dispatched(e->env.cell, e->rank, &first, &rows);
    e->send_cap = rows * topk;
    e->recv_cap = k3_rows_arriving(e->env.cell, e->rank);
    if (e->send_cap > INT32_MAX || e->recv_cap > INT32_MAX) {
        return k3_fail(err, K3_ERR_UNSUPPORTED,
                       "mpi: %llu rows to send and %llu to receive; MPI_Alltoallv counts to %d",
                       (unsigned long long)e->send_cap, (unsigned long long)e->recv_cap, INT32_MAX);
    }
    if (k3_alloc("rows for each expert", experts, sizeof(int), &e->send_experts, err) != K3_OK ||
        k3_alloc("rows from each rank", experts, sizeof(int), &e->recv_experts, err) != K3_OK ||
        k3_alloc("counts", e->ranks, sizeof(int), &e->send_count, err) != K3_OK ||
        k3_alloc("counts", e->ranks, sizeof(int), &e->send_at, err) != K3_OK ||
        k3_alloc("counts", e->ranks, sizeof(int), &e->recv_count, err) != K3_OK ||
        k3_alloc("counts", e->ranks, sizeof(int), &e->recv_at, err) != K3_OK ||
        k3_alloc("places", e->ranks, sizeof(uint64_t), &e->taken, err) != K3_OK ||
        k3_alloc("places", experts, sizeof(uint64_t), &e->fill, err) != K3_OK ||
        k3_alloc("headers", e->send_cap, sizeof(header_t), &e->header, err) != K3_OK ||
        k3_alloc("places of headers", e->send_cap, sizeof(void *), &e->header_at, err) != K3_OK ||
        k3_alloc("places of the selections", e->send_cap, sizeof(uint32_t), &e->place, err) !=
            K3_OK ||
        k3_alloc("expert ranges", (uint64_t)e->local + 1, sizeof(uint64_t), &e->begin, err) !=
            K3_OK ||
        k3_alloc("row pointers", e->recv_cap, sizeof(void *), &e->values, err) != K3_OK ||
        k3_alloc("row pointers", e->recv_cap, sizeof(void *), &e->scales, err) != K3_OK ||
        k3_alloc("row pointers", e->recv_cap, sizeof(void *), &e->out, err) != K3_OK ||
        k3_alloc("parts", is_on_device(e) ? e->send_cap : topk, sizeof(void *), &e->parts, err) !=
            K3_OK) {
        return err->status;
    }
    return alloc_rows(e, rows, err);
}

static k3_status_t mpi_create(const k3_engine_env_t *env, void **engine_p, k3_error_t *err)
{
    const k3_cell_t *cell = env->cell;
    uint32_t         width = cell->model.latent, topk = cell->model.topk;
    mpi_engine_t    *e;

    if (k3_alloc("mpi engine", 1, sizeof(*e), &e, err) != K3_OK) {
        return err->status;
    }
    e->env = *env;
    e->ranks = cell->layout.tp;
    e->rank = (uint32_t)env->world->rank;
    e->local = k3_layout_local_experts(&cell->layout, &cell->model);
    e->record = k3_profile_dispatch_record(cell->profile, cell->dispatch_format, width, topk);
    e->result = k3_profile_combine_record(cell->profile, cell->combine_format, width, topk);
    e->encoded_bytes = k3_format_row_bytes(cell->dispatch_format, width);
    MPI_Type_contiguous((int)e->record, MPI_BYTE, &e->record_type);
    MPI_Type_commit(&e->record_type);
    MPI_Type_contiguous((int)e->result, MPI_BYTE, &e->result_type);
    MPI_Type_commit(&e->result_type);
    if (alloc_buffers(e, err) != K3_OK) {
        mpi_destroy(e);
        return err->status;
    }
    *engine_p = e;
    return K3_OK;
}

/* --- dispatch -------------------------------------------------------------------------------- */

static void encode_rows(mpi_engine_t *e, const k3_rows_t *rows)
{
    uint32_t               width = e->env.cell->model.latent;
    k3_format_t            format = e->env.cell->dispatch_format;
    const k3_encode_rows_t to = {.format = format,
                                 .rows = rows->count,
                                 .width = width,
                                 .in = rows->latent,
                                 .records = e->encoded,
                                 .stride = e->encoded_stride,
                                 .scales_at = k3_format_value_bytes(format, width)};

    e->env.compute->ops->encode(e->env.compute, &to);
}

static void count_rows(mpi_engine_t *e, const k3_rows_t *rows)
{
    uint32_t experts = e->ranks * e->local;
    int      at = 0;

    memset(e->send_experts, 0, experts * sizeof(int));
    for (uint64_t i = 0; i < rows->count * e->env.cell->model.topk; i++) {
        if (rows->ids[i] >= 0) {
            e->send_experts[rows->ids[i]]++;
        }
    }
    for (uint32_t r = 0; r < e->ranks; r++) {
        e->send_at[r] = at;
        for (uint32_t x = 0; x < e->local; x++) {
            e->fill[r * e->local + x] = (uint64_t)at;
            at += e->send_experts[r * e->local + x];
        }
        e->send_count[r] = at - e->send_at[r];
    }
}

static k3_status_t exchange_counts(mpi_engine_t *e, k3_error_t *err)
{
    uint64_t at = 0;

    MPI_Alltoall(e->send_experts, (int)e->local, MPI_INT, e->recv_experts, (int)e->local, MPI_INT,
                 e->env.world->comm);
    for (uint32_t r = 0; r < e->ranks; r++) {
        e->recv_at[r] = (int)at;
        for (uint32_t x = 0; x < e->local; x++) {
            at += (uint64_t)e->recv_experts[r * e->local + x];
        }
        e->recv_count[r] = (int)at - e->recv_at[r];
    }
    if (at > e->recv_cap) {
        return k3_fail(err, K3_ERR_CHECK, "%llu rows announced, %llu planned",
                       (unsigned long long)at, (unsigned long long)e->recv_cap);
    }
    return K3_OK;
}

static k3_status_t pack(mpi_engine_t *e, const k3_rows_t *rows, k3_error_t *err)
{
    k3_compute_t *c = e->env.compute;
    uint32_t      topk = e->env.cell->model.topk;
    uint64_t      n = 0;

    for (uint64_t i = 0; i < rows->count * topk; i++) {
        uint8_t *record;

        if (rows->ids[i] < 0) {
            continue;
        }
        e->place[i] = (uint32_t)e->fill[rows->ids[i]]++;
        record = e->send + e->place[i] * e->record;
        e->header[n] = (header_t){(int32_t)(i / topk), rows->ids[i]};
        e->header_at[n++] = record;
        c->ops->copy(c, record + sizeof(header_t), e->encoded + i / topk * e->encoded_stride,
                     e->encoded_bytes);
    }
    c->ops->place(c, e->header_at, e->header, n, sizeof(header_t));
    return c->ops->finish(c, err);
}

/* The rows of a source are sorted by expert; the pointers gather them over sources. */
static void index_rows(mpi_engine_t *e)
{
    size_t values = k3_format_value_bytes(e->env.cell->dispatch_format, e->env.cell->model.latent);
    uint64_t n = 0;

    for (uint32_t r = 0; r < e->ranks; r++) {
        e->taken[r] = (uint64_t)e->recv_at[r];
    }
    for (uint32_t x = 0; x < e->local; x++) {
        e->begin[x] = n;
        for (uint32_t r = 0; r < e->ranks; r++) {
            for (int i = e->recv_experts[r * e->local + x]; i > 0; i--, n++) {
                uint64_t at = e->taken[r]++;

                e->values[n] = e->recv + at * e->record + sizeof(header_t);
                e->scales[n] = (const uint8_t *)e->values[n] + values;
                e->out[n] = (uint16_t *)(void *)(e->results + at * e->result);
            }
        }
    }
    e->begin[e->local] = n;
}

static k3_status_t mpi_dispatch(void *engine, const k3_rows_t *rows, k3_error_t *err)
{
    mpi_engine_t *e = engine;
    k3_spans_t   *spans = e->env.spans;

    k3_span_begin(spans, K3_PHASE_QUANTIZE);
    encode_rows(e, rows);
    k3_span_end(spans, K3_PHASE_QUANTIZE);

    k3_span_begin(spans, K3_PHASE_NOTIFY);
    count_rows(e, rows);
    exchange_counts(e, err);
    k3_span_end(spans, K3_PHASE_NOTIFY);
    if (err->status != K3_OK) {
        return err->status;
    }

    k3_span_begin(spans, K3_PHASE_DISPATCH_SEND);
    pack(e, rows, err);
    k3_span_end(spans, K3_PHASE_DISPATCH_SEND);
    if (err->status != K3_OK) {
        return err->status;
    }

    k3_span_begin(spans, K3_PHASE_DISPATCH_WAIT);
    MPI_Alltoallv(k3_compute_reach(e->env.compute, e->send), e->send_count, e->send_at,
                  e->record_type, k3_compute_reach(e->env.compute, e->recv), e->recv_count,
                  e->recv_at, e->record_type, e->env.world->comm);
    index_rows(e);
    k3_span_end(spans, K3_PHASE_DISPATCH_WAIT);
    return K3_OK;
}

static void mpi_expert(void *engine, uint32_t local_expert, k3_expert_rows_t *work)
{
    mpi_engine_t *e = engine;
    uint64_t      at = e->begin[local_expert];

    *work = (k3_expert_rows_t){e->begin[local_expert + 1] - at, e->env.cell->dispatch_format,
                               e->values + at, e->scales + at, e->out + at};
}

/* --- combine --------------------------------------------------------------------------------- */

static void reduce(mpi_engine_t *e, const k3_rows_t *rows, uint16_t *combined)
{
    uint32_t topk = e->env.cell->model.topk, width = e->env.cell->model.latent;
    uint64_t at_once = is_on_device(e) ? rows->count : 1;

    for (uint64_t first = 0; first < rows->count; first += at_once) {
        for (uint64_t i = 0; i < at_once * topk; i++) {
            uint64_t       at = first * topk + i;
            const uint8_t *result = e->returned + e->place[at] * e->result;

            e->parts[i] = rows->ids[at] < 0 ? NULL : (const uint16_t *)(const void *)result;
        }
        e->env.compute->ops->combine(e->env.compute, e->parts, rows->weights + first * topk,
                                     at_once, topk, width, combined + first * width);
    }
}

static k3_status_t mpi_combine(void *engine, const k3_rows_t *rows, uint16_t *combined,
                               k3_error_t *err)
{
    mpi_engine_t *e = engine;
    k3_compute_t *c = e->env.compute;
    k3_spans_t   *spans = e->env.spans;

    k3_span_begin(spans, K3_PHASE_COMBINE_WAIT);
    MPI_Alltoallv(k3_compute_reach(c, e->results), e->recv_count, e->recv_at, e->result_type,
                  k3_compute_reach(c, e->returned), e->send_count, e->send_at, e->result_type,
                  e->env.world->comm);
    k3_span_end(spans, K3_PHASE_COMBINE_WAIT);

    k3_span_begin(spans, K3_PHASE_COMBINE_REDUCE);
    reduce(e, rows, combined);
    k3_span_end(spans, K3_PHASE_COMBINE_REDUCE);
    return c->ops->finish(c, err);
}

/* MPI hides its queue pairs. */
static k3_qps_t *mpi_qps(void *engine)
{
    (void)engine;
    return NULL;
}

const k3_engine_ops_t k3_engine_mpi = {
    .version = K3_ENGINE_VERSION,
    .name = "mpi",
    .create = mpi_create,
    .destroy = mpi_destroy,
    .dispatch = mpi_dispatch,
    .expert = mpi_expert,
    .combine = mpi_combine,
    .qps = mpi_qps,
    .refuses_device = k3_engine_refuses_nothing,
};
