#include "bench/plan/buffers.h"

#include <stddef.h>

#include "bench/plan/cell_rows.h"
#include "bench/plan/counted.h"
#include "bench/plan/device.h"
#include "bench/plan/fused.h"
#include "bench/plan/in_place.h"
#include "bench/plan/rails.h"
#include "bench/plan/ranks.h"
#include "bench/plan/rings.h"
#include "bench/plan/shared.h"
#include "bench/plan/slab.h"
#include "harness/base/arith.h"
#include "kernels/kernels.h"

const char *const k3_buffer_names[] = {
    "partial", "exchange", "x",           "logits",     "ids",    "gates",
    "latent",  "combined", "normed",      "shared_mid", "shared", "packed",
    "routed",  "output",   "expert_work", "dense_work", NULL};

/* Rows that the exchange before a sum receives: all, or from each rank of the cp group those that
 * this rank keeps. */
static uint64_t reduced_rows(const k3_cell_t *cell, uint32_t rank)
{
    const k3_layout_t *l = &cell->layout;
    uint64_t           front = k3_front_rows(cell, rank);
    uint64_t           kept = 0;

    if (k3_splits_context(cell)) {
        kept = l->cp * k3_layout_cp_rows(l, k3_layout_cp_rank(l, rank));
    }
    return kept > front ? kept : front;
}

static void plan_rows(const k3_cell_t *cell, uint32_t rank, k3_memory_t *m)
{
    const k3_model_t *model = &cell->model;
    uint64_t          front = k3_front_rows(cell, rank), group = k3_group_slots(cell, rank);
    uint64_t          h = model->hidden, l = model->latent;
    uint64_t          reduced = cell->path.fast ? 0 : reduced_rows(cell, rank) * (l + h) * 2;
    uint32_t          begin, end;

    k3_shared_slice(cell, rank, &begin, &end);
    m->buffer[K3_BUF_PARTIAL] = group * h * 2;
    /* Reduce-scatter: attn_tp contributions to the own rows; the all-reduces of the fallback
     * receive as many bytes as one rank brings, in shares, and the all-gathers need none. */
    m->buffer[K3_BUF_EXCHANGE] =
        cell->path.fast ? front * h * 2 * cell->layout.attn_tp
                        : k3_add(reduced, cell->layout.tp * (l + h) * 2 + group * h * 2);
    m->buffer[K3_BUF_X] = front * h * 2;
    m->buffer[K3_BUF_LOGITS] = front * model->experts * 4;
    m->buffer[K3_BUF_IDS] = front * model->topk * 4;
    m->buffer[K3_BUF_GATES] = front * model->topk * 4;
    m->buffer[K3_BUF_LATENT] = model->latent_step ? front * l * 2 : 0;
    m->buffer[K3_BUF_COMBINED] = front * (cell->path.fast ? l : l + h) * 2;
    m->buffer[K3_BUF_NORMED] = model->latent_step ? front * l * 2 : 0;
    /* A sharded expert reads gathered rows where the partial attention output was, and leaves its
     * sums where the restored rows will be. */
    m->buffer[K3_BUF_SHARED_MID] = k3_shared_rows(cell, rank) * 3 * (uint64_t)(end - begin) * 2;
    m->buffer[K3_BUF_SHARED] = cell->path.fast ? front * h * 2 : 0;
    m->buffer[K3_BUF_PACKED] = k3_splits_context(cell) ? front * (l + h) * 2 : 0;
    m->buffer[K3_BUF_ROUTED] = model->latent_step || model->shared > 0 ? front * h * 2 : 0;
    m->buffer[K3_BUF_OUTPUT] = group * h * 2;
}

static k3_expert_shape_t slice_shape(const k3_cell_t *cell, uint32_t rank)
{
    uint32_t begin, end;

    k3_layout_expert_slice(&cell->layout, &cell->model, rank, &begin, &end);
    return (k3_expert_shape_t){cell->model.latent, end - begin, cell->model.weights,
                               cell->model.activation};
}

static void plan_weights(const k3_cell_t *cell, uint32_t rank, k3_memory_t *m)
{
    const k3_model_t *model = &cell->model;
    k3_expert_shape_t shape = slice_shape(cell, rank);
    uint64_t          front = k3_front_rows(cell, rank), shared = k3_shared_rows(cell, rank);
    uint64_t          h = model->hidden;
    uint32_t          begin, end;

    k3_shared_slice(cell, rank, &begin, &end);
    /* The stand-in needs one decoded row. */
    m->buffer[K3_BUF_EXPERT_WORK] = (uint64_t)model->latent * sizeof(float);
    if (k3_needs_experts(cell)) {
        m->buffer[K3_BUF_EXPERT_WORK] = k3_expert_work_bytes(&shape);
        m->expert_weights = k3_mul(k3_layout_local_experts(&cell->layout, model),
                                   k3_expert_layout(&shape, NULL, NULL));
        m->mapped_experts = k3_experts_in_place(cell) ? m->expert_weights : 0;
    }
    if (k3_needs_dense(cell)) {
        m->shared_expert = 3 * h * (end - begin) * 2;
        m->dense_weights = k3_model_dense_bytes(model);
        m->mapped_dense = k3_dense_in_place_bytes(cell, rank);
        m->buffer[K3_BUF_DENSE_WORK] = k3_dense_bytes(model->experts, h, front);
        if (model->latent_step) {
            m->buffer[K3_BUF_DENSE_WORK] +=
                k3_dense_bytes(model->latent, h, front) + k3_dense_bytes(h, model->latent, front);
        }
        if (end > begin) {
            m->buffer[K3_BUF_DENSE_WORK] +=
                2 * k3_dense_bytes(end - begin, h, shared) + k3_dense_bytes(h, end - begin, shared);
        }
    }
}

/* --- the engine ------------------------------------------------------------------------------ */

static void plan_mpi(const k3_cell_t *cell, uint32_t rank, k3_memory_t *m)
{
    const k3_profile_t *p = cell->profile;
    uint32_t            width = cell->model.latent, topk = cell->model.topk;
    uint64_t            rows = k3_front_rows(cell, rank) * topk + k3_rows_arriving(cell, rank);

    m->engine = rows * (k3_profile_dispatch_record(p, cell->dispatch_format, width, topk) +
                        k3_profile_combine_record(p, cell->combine_format, width, topk));
}

/* Results of the experts, their sums as sent, and where the block is needed again for the way back
 * the records that arrived. */
static void plan_rails(const k3_cell_t *cell, uint32_t rank, k3_memory_t *m)
{
    k3_rails_t rails;
    uint64_t   each;
    k3_rings_t rings;

    k3_rails_plan(cell, &rails);
    if (cell->profile->rings != NULL) {
        k3_rings_plan(cell, &rings);
        rails.buffer = rings.buffer;
        rails.bytes = rings.bytes;
        m->engine = k3_rings_memory(&rings, &rails, !cell->p2p);
    }
    each = (uint64_t)cell->model.latent * 2 + rails.result + (rails.copies_out ? rails.record : 0);
    m->block = rails.buffer;
    m->beside = rails.bytes == K3_TOO_BIG ? K3_TOO_BIG : rails.bytes - rails.buffer;
    m->engine = k3_add(m->engine, k3_mul(k3_rows_arriving(cell, rank), each));
    if (cell->on_device && cell->combine_format != K3_FORMAT_BF16) {
        m->engine = k3_add(m->engine, k3_mul(K3_CODED_SUMS * (1 + (uint64_t)cell->model.topk),
                                             2 * (uint64_t)cell->model.latent));
    }
}

/* Beside the block: rows before they leave where no lane needs them registered, the experts' results where
 * the rank adds them up, and the copies that free a buffer for the way back; on a device the results that are
 * read, or that leave, where there is no area for them. */
static void plan_ranks(const k3_cell_t *cell, uint32_t rank, k3_memory_t *m)
{
    const k3_profile_t *p = cell->profile;
    uint64_t            first, rows, arriving = k3_rows_arriving(cell, rank);
    k3_ranks_t          g;

    k3_ranks_plan(cell, &g);
    k3_cell_dispatched(cell, rank, &first, &rows);
    m->block = g.bytes;
    if (g.send == K3_NO_AREA) {
        m->engine += k3_mul(rows, g.record);
    }
    if (cell->on_device && g.back == K3_BACK_PULLED) { /* else one row's at a time */
        m->engine = k3_add(m->engine, k3_mul(k3_mul(rows, g.copies), g.result));
    }
    if (cell->on_device && g.back_send == K3_NO_AREA) {
        m->engine = k3_add(m->engine, k3_mul(arriving, g.result));
    }
    if (cell->on_device &&
        cell->combine_format != K3_FORMAT_BF16) { /* in front of it and behind it */
        uint64_t back = k3_mul(rows, g.copies);

        m->engine =
            k3_add(m->engine, k3_mul(back > arriving ? back : arriving, 2 * (uint64_t)g.width));
    }
    if (p->slots == K3_SLOTS_SPLIT) {
        m->engine = k3_add(m->engine, k3_mul(arriving, g.record));
    } else if (p->weights_at == K3_WEIGHTS_AT_EXPERT) {
        m->engine = k3_add(m->engine, k3_mul(arriving, 2 * (uint64_t)g.width));
    }
}

static void plan_slab(const k3_cell_t *cell, k3_memory_t *m)
{
    k3_slab_t    slab;
    k3_counted_t counted;

    if (k3_is_counted(cell->profile)) {
        k3_counted_plan(cell, &counted);
        m->block = counted.bytes;
        m->engine = counted.outputs;
    } else {
        k3_slab_plan(cell, &slab);
        m->block = slab.bytes;
        m->engine = k3_add(slab.results, slab.decoded);
    }
}

static void plan_engine(const k3_cell_t *cell, uint32_t rank, k3_memory_t *m)
{
    switch (cell->profile->engine) {
    case K3_ENGINE_SLAB:
        plan_slab(cell, m);
        break;
    case K3_ENGINE_FUSED:
        k3_fused_memory(cell, &m->block, &m->engine);
        break;
    case K3_ENGINE_RAILS:
        plan_rails(cell, rank, m);
        break;
    case K3_ENGINE_RANKS:
        plan_ranks(cell, rank, m);
        break;
    case K3_ENGINE_MPI:
        plan_mpi(cell, rank, m);
        break;
    case K3_ENGINE_GATHER:
        m->engine = k3_rows_arriving(cell, rank) * cell->model.latent * 2;
        break;
    default:
        break;
    }
}

/* --- on a device ------------------------------------------------------------------------------- */

/* What the arithmetic keeps for a cell: tables in both memories, and rows between its kernels. */
static void plan_arithmetic(const k3_cell_t *cell, uint32_t rank, uint64_t *tables, uint64_t *rows)
{
    enum { POINTER = 8, ID = 4, COPY = 24 };
    const k3_recipe_t *recipe = &cell->runner->recipe;
    uint64_t           front = k3_front_rows(cell, rank), arriving = k3_rows_arriving(cell, rank);
    uint64_t           picks = front * cell->model.topk, most = picks > arriving ? picks : arriving;
    uint64_t           width = cell->model.latent;
    uint32_t           begin, end;

    k3_layout_expert_slice(&cell->layout, &cell->model, rank, &begin, &end);
    *tables = most * (2 * POINTER + ID + COPY + k3_meta_bytes(cell)) + 2 * picks * ID +
              arriving * (3 * POINTER + 2 * ID);
    *rows = k3_rows_aligned(cell)
                ? 0
                : (front + arriving) * (k3_format_row_bytes(cell->dispatch_format, width) + 32);
    if (cell->combine_format != K3_FORMAT_BF16) {
        uint64_t results = k3_results_at_once(cell, rank);
        bool     messages = cell->combine_format == K3_FORMAT_LOGFMT10;

        *tables += results * (2 * POINTER + (messages ? sizeof(uint32_t) : 0));
        *rows += messages
                     ? 0
                     : results * k3_round_up(k3_format_row_bytes(cell->combine_format, width), 16);
    }
    if (k3_needs_experts(cell)) {
        *tables += 2 * arriving * POINTER;
        *rows += arriving * (2 * width + 2 * (uint64_t)(end - begin));
        *rows += arriving * (k3_format_row_bytes(recipe->input, width) +
                             k3_format_row_bytes(recipe->middle, end - begin));
    }
}

/* Rows, slots, results and weights there; here what is not rows, mirrors of what is written and read, and one
 * expert at a time on its way. */
static void place_on_device(const k3_cell_t *cell, uint32_t rank, k3_memory_t *m)
{
    k3_expert_shape_t shape = slice_shape(cell, rank);
    uint64_t          tables, rows, here = m->hidden, there;

    plan_arithmetic(cell, rank, &tables, &rows);
    there = k3_add(k3_add(m->block, m->beside), m->engine);
    there = k3_add(there, k3_add(tables, rows));
    there = k3_add(there, k3_add(m->expert_weights, m->shared_expert + m->dense_weights));
    for (int b = 0; b < K3_BUF_COUNT; b++) {
        if (k3_buffer_of_host((k3_buffer_t)b)) {
            here = k3_add(here, m->buffer[b]);
        } else if (b != K3_BUF_DENSE_WORK) {
            there = k3_add(there, m->buffer[b]);
            here = k3_add(here, k3_buffer_mirrored((k3_buffer_t)b) ? m->buffer[b] : 0);
        }
    }
    here = k3_add(here, k3_add(tables, m->shared_expert + m->dense_weights));
    here = k3_add(here, m->expert_weights > 0 ? k3_expert_layout(&shape, NULL, NULL) : 0);
    m->device = there;
    m->host = here;
    m->total = k3_add(here, there);
}

void k3_memory_plan(const k3_cell_t *cell, uint32_t rank, k3_memory_t *memory)
{
    *memory = (k3_memory_t){0};
    plan_rows(cell, rank, memory);
    plan_weights(cell, rank, memory);
    plan_engine(cell, rank, memory);
    memory->total = k3_add(k3_add(memory->block, memory->beside), memory->engine);
    for (int b = 0; b < K3_BUF_COUNT; b++) {
        memory->total = k3_add(memory->total, memory->buffer[b]);
    }
    memory->total = k3_add(memory->total, memory->expert_weights);
    memory->total = k3_add(memory->total, memory->shared_expert + memory->dense_weights);
    if (cell->hidden != NULL) {
        memory->hidden = k3_mul(k3_hidden_rows(cell->hidden), (uint64_t)cell->model.hidden * 2);
        memory->total = k3_add(memory->total, memory->hidden);
    }
    memory->host = memory->total;
    if (cell->on_device) {
        memory->buffer[K3_BUF_DENSE_WORK] = 0;
        place_on_device(cell, rank, memory);
    }
}

uint64_t k3_memory_of_node(const k3_cell_t *cell, const int *real_node_of, int node,
                           uint32_t *ranks)
{
    uint64_t whole = k3_model_dense_bytes(&cell->model) + k3_model_shared_bytes(&cell->model);
    uint64_t total = 0, mapped = 0;

    *ranks = 0;
    for (uint32_t r = 0; r < cell->layout.tp; r++) {
        if (real_node_of == NULL || real_node_of[r] == node) {
            k3_memory_t memory;

            k3_memory_plan(cell, r, &memory);
            mapped += memory.mapped_dense;
            total = k3_add(total, memory.host == K3_TOO_BIG ? K3_TOO_BIG
                                                            : memory.host - memory.mapped_dense);
            ++*ranks;
        }
    }
    return k3_add(total, mapped < whole ? mapped : whole);
}

/* --- the rank that needs most ------------------------------------------------------------------ */

/* What the memory of a rank grows with. */
typedef struct demand {
    uint64_t rows, group, arriving, slice;
} demand_t;

static bool within(const demand_t *a, const demand_t *b)
{
    return a->rows <= b->rows && a->group <= b->group && a->arriving <= b->arriving &&
           a->slice <= b->slice;
}

static demand_t demand_of(const k3_cell_t *cell, uint32_t rank, uint64_t group)
{
    uint32_t begin, end;

    k3_layout_expert_slice(&cell->layout, &cell->model, rank, &begin, &end);
    return (demand_t){k3_front_rows(cell, rank), group, k3_rows_arriving(cell, rank), end - begin};
}

/* A rank whose demand lies within that of one already planned cannot need more; only ranks that split the
 * context, whose shares of it differ, are all planned. */
void k3_memory_largest(const k3_cell_t *cell, k3_memory_t *memory)
{
    demand_t most = {0};
    uint64_t group = 0;

    for (uint32_t rank = 0; rank < cell->layout.tp; rank++) {
        demand_t    own;
        k3_memory_t one;

        if (rank % cell->layout.attn_tp == 0) {
            group = k3_group_slots(cell, rank);
        }
        own = demand_of(cell, rank, group);
        if (rank > 0 && !k3_splits_context(cell) && within(&own, &most)) {
            continue;
        }
        k3_memory_plan(cell, rank, &one);
        if (rank == 0 || one.total > memory->total) {
            *memory = one;
        }
        most = rank == 0 || within(&most, &own) ? own : most;
    }
}
