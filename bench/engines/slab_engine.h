/* The slab engine's private parts: slab.c (set-up), slab_wait.c (waiting, limits, masks), slab_rows.c
 * and slab_results.c (profiles with one signal for each expert: there and back), slab_counted.c (profiles that count arrivals) and
 * slab_control.c. */
#ifndef K3_ENGINES_SLAB_ENGINE_H
#define K3_ENGINES_SLAB_ENGINE_H

#include <string.h>

#include "bench/engines/blocks.h"
#include "bench/engines/engine.h"
#include "bench/plan/counted.h"
#include "bench/plan/slab.h"

typedef struct slab_engine slab_engine_t;

/* The two kinds of slab profiles. */
typedef struct slab_form {
    uint64_t (*plan)(slab_engine_t *engine);       /* fills the geometry; bytes of the block */
    uint64_t (*part_words)(slab_engine_t *engine); /* signals in a block of their own; its bytes */
    k3_status_t (*alloc)(slab_engine_t *engine, k3_error_t *err);
    void (*rerouted)(slab_engine_t *engine); /* NULL: keeps nothing of the ids */
    k3_status_t (*dispatch)(slab_engine_t *engine, const k3_rows_t *rows, k3_error_t *err);
    void (*expert)(slab_engine_t *engine, uint32_t local_expert, k3_expert_rows_t *work);
    k3_status_t (*combine)(slab_engine_t *engine, const k3_rows_t *rows, uint16_t *combined,
                           k3_error_t *err);
} slab_form_t;

extern const slab_form_t k3_slab_rows, k3_slab_counted;

/* Where the rows for an expert go; computed once. */
typedef struct slab_target {
    uint64_t offset; /* of this rank's records in either receive area; counted: in the block */
    int      peer;
    unsigned qp;
} slab_target_t;

struct slab_engine {
    k3_engine_env_t    env;
    const slab_form_t *form;
    k3_slab_t          slab;
    k3_counted_t       counted;
    k3_qps_t          *qps;
    uint8_t           *block; /* of rows: memory of the compute */
    uint8_t           *words; /* of signals, the host's: the same block where rows are too */
    unsigned           half;  /* of the next call */
    uint32_t           rank;
    slab_target_t     *target;  /* [E] */
    uint32_t          *next;    /* [E] slots used at each expert */
    uint32_t          *arrived; /* [local][R] or [local][G] rows of the present dispatch */
    uint8_t           *seen;    /* signals seen in the present wait */
    uint8_t           *results; /* experts' results outside the block; NULL: zero copy */
    const uint8_t    **parts;   /* [M][K] of the combine; [1][K] where the processor decodes them */
    const uint8_t    **records; /* [arriving] */
    int32_t           *origins; /* [arriving] the source's row of each */
    k3_signal_t       *counts;  /* [local] signals of a dispatch to one peer */
    k3_signal_kind_t   kind;    /* of all signals with a count or a flag */
    uint8_t          **placed;  /* counted: [own rows] where their numbers go */
    uint64_t           arriving; /* room of records and origins */
    uint8_t           *decoded;  /* results of one row; NULL: they come as bf16 */
    uint8_t          **messages; /* [arriving] of a device: where results are encoded to */
    uint32_t          *lengths;  /* [arriving] what they became */
    uint64_t           rows_cap; /* entries of the next three */
    const void       **values, **scales;
    uint16_t         **out;
    bool               all_mapped; /* no peer is reached through a queue pair */
    bool               soft;       /* some rank has lanes that need their peers' progress */
    struct slab_raw   *raw;        /* the control's posts; NULL: another component */
    uint64_t           missing;    /* signals not seen yet, for the watchdog */
    const char        *waiting_for;
    /* faults */
    k3_mask_t *masks;   /* [R] */
    uint32_t   masked;  /* how many of them are set */
    uint64_t   call;    /* number of the present dispatch and its combine */
    k3_error_t trapped; /* set: this rank takes no further part */
    /* counted */
    uint64_t  listed;     /* records of the present combine */
    uint64_t  group_rows; /* of the own group */
    uint64_t  own_first;  /* number of the first own row in it */
    uint32_t *base;       /* [E] rows of earlier ranks of the group for each expert */
    uint32_t *total;      /* [E] rows of the group for each expert */
    uint32_t *due;        /* [group rows] results that each row gets */
};

/* Dead by fault injection or trapped: posts nothing, waits for nothing, keeps to the harness's steps. */
static inline bool k3_slab_passive(const slab_engine_t *e)
{
    return e->env.spans->dead || e->trapped.status != K3_OK;
}

static inline bool k3_slab_is_masked(const slab_engine_t *e, uint32_t rank)
{
    return e->masked > 0 && e->masks[rank].call != 0;
}

/* Nothing goes to this rank any more. */
static inline bool k3_slab_skips(const slab_engine_t *e, uint32_t rank)
{
    return k3_slab_is_masked(e, rank) && e->env.cell->profile->mask_at_send;
}

/* Posts signals to one peer as the cell says, each behind its lane's messages. */
static inline void k3_slab_signals(slab_engine_t *e, int peer, const k3_signal_t *list,
                                   unsigned count, bool rings)
{
    k3_error_t later = K3_ERROR_INIT; /* the queue pairs keep it */

    if (!e->env.cell->signal_waits) {
        k3_qps_signals(e->qps, peer, e->kind, list, count, rings);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        k3_qps_flush_lane(e->qps, peer, list[i].qp, &later);
        k3_qps_signals(e->qps, peer, e->kind, &list[i], 1, rings);
    }
}

/* What stands in a count's signal for n rows. */
static inline uint64_t k3_slab_count_value(const slab_engine_t *e, uint32_t n)
{
    bool minus = e->env.cell->profile->dispatch_value == K3_VALUE_MINUS_COUNT;

    return minus ? (uint64_t)(-(int64_t)n - 1) : (uint64_t)n + 1;
}

static inline bool k3_rings(uint32_t every, uint32_t slot)
{
    return every != 0 && (slot + 1) % every == 0;
}

/* Polls the E words of the half in use until each is non-zero, and keeps the counts. Where a limit is
 * in force, sources that stay silent are masked, or this rank is trapped. */
k3_status_t k3_slab_wait(slab_engine_t *engine, const uint8_t *words, bool dispatch,
                         k3_error_t *err);

/* slab_rows.c. Where an own row's record stands in the area it is sent from. Puts to mapped peers end at once:
 * without a queue pair that still reads them the records of one block serve all blocks. */
static inline uint8_t *k3_slab_own_record(const slab_engine_t *e, uint8_t *send, uint64_t row)
{
    return send + (e->all_mapped ? row % K3_BLOCK_ROWS : row) * e->slab.record;
}
/* The rows [first, end), within a block, to their records. */
void k3_slab_quantize(slab_engine_t *engine, const k3_rows_t *rows, uint64_t first, uint64_t end,
                      uint8_t *send);

/* Where the experts write: beside the block, or with zero copy where the combine sends from. */
static inline uint8_t *k3_slab_output(const slab_engine_t *e, uint32_t local, uint32_t source,
                                      uint64_t *stride)
{
    const k3_slab_t *s = &e->slab;

    if (e->results != NULL) {
        *stride = s->output;
        return e->results + k3_slab_output_at(s, local, source, 0);
    }
    *stride = s->result_stride;
    return e->block + s->send[e->half] + k3_slab_staging_at(s, local, source, 0);
}

/* Rows that are combined together: the processor has room for the decoded results of one. */
static inline uint64_t k3_slab_rows_at_once(const slab_engine_t *e, uint64_t rows)
{
    return e->slab.decoded > 0 && e->env.compute->device == NULL ? 1 : rows;
}

/* slab_results.c. The results of all rows here, to the half of the block at their origins, then the signals; and the
 * weighted sums of what came for the own rows. */
void k3_slab_send_results(slab_engine_t *engine, unsigned half, k3_error_t *err);
void k3_slab_reduce(slab_engine_t *engine, const k3_rows_t *rows, unsigned half,
                    uint16_t *combined);

/* The control: the posts of a dispatch as a flat list, made at set-up. */
k3_status_t k3_slab_control_create(slab_engine_t *engine, k3_error_t *err);
void        k3_slab_control_destroy(slab_engine_t *engine);
k3_status_t k3_slab_control(void *engine, const k3_rows_t *rows, bool in_full, k3_error_t *err);

#endif
