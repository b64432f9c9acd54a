/* The parts of the region that no backend decides: dense layers by their weights and arithmetic, collectives
 * by their bytes over the slowest link of their group. */
#include "bench/plan/cell_rows.h"
#include "bench/plan/predict_internal.h"
#include "bench/plan/shared.h"

double k3_predict_dense_share(const k3_predict_model_t *m)
{
    double peak = m->f[K3_FIG_BF16_TFLOPS];

    return peak > 0 ? k3_predict_gemm_gflops(m, peak, 16) / (peak * 1e3) : 0;
}

void k3_predict_dense(const k3_predict_model_t *m, uint32_t i, double term[K3_TERM_COUNT])
{
    const k3_cell_t  *cell = m->cell;
    const k3_model_t *model = &cell->model;
    uint32_t          rank = k3_predict_rank(m, i), begin, end;
    double            h = model->hidden, rows = (double)k3_front_rows(cell, rank);
    double            bytes = (double)k3_model_dense_bytes(model);
    double            flops =
        2.0 * rows * h * (model->experts + (model->latent_step ? 2.0 * model->latent : 0));

    k3_shared_slice(cell, rank, &begin, &end);
    bytes += 6.0 * h * (end - begin);
    flops += 6.0 * (double)k3_shared_rows(cell, rank) * h * (end - begin);
    if (m->shares_cores) {
        term[K3_TERM_DENSE] = k3_at_rate(bytes, m->f[K3_FIG_COPY_GBPS]) * m->crowd;
        term[K3_TERM_GEMM] = k3_at_rate(flops, m->f[K3_FIG_GEMM_GFLOPS]) * m->crowd;
        return;
    }
    term[K3_TERM_FIXED] = m->f[K3_FIG_EXPERT_US];
    term[K3_TERM_DENSE] = k3_at_rate(bytes, m->f[K3_FIG_MEMORY_GBPS] * m->f[K3_FIG_WEIGHTS_SHARE]);
    term[K3_TERM_GEMM] = k3_at_rate(flops, k3_predict_gemm_gflops(m, m->f[K3_FIG_BF16_TFLOPS], 16));
}

/* `times` the bytes cross a group of `ranks` neighbours: 1 for a reduce-scatter or an all-gather, 2 for an
 * all-reduce. */
static void add_collective(const k3_predict_model_t *m, uint32_t rank, uint32_t ranks, double bytes,
                           double times, double term[K3_TERM_COUNT])
{
    const k3_cell_t *cell = m->cell;
    uint32_t         first = rank - rank % ranks;
    bool             far = cell->node_of[first] != cell->node_of[first + ranks - 1];
    double           moved = times * bytes * (ranks - 1) / ranks;

    if (ranks <= 1) {
        return;
    }
    term[K3_TERM_FIXED] += m->f[K3_FIG_LAUNCH_US];
    term[K3_TERM_LATENCY] +=
        times * m->f[far ? K3_FIG_NETWORK_LATENCY_US : K3_FIG_SCALEUP_LATENCY_US] * m->crowd;
    if (m->shares_cores) {
        term[K3_TERM_MEMORY] += k3_at_rate(moved, m->f[K3_FIG_COPY_GBPS]) * m->crowd;
    } else if (far) {
        term[K3_TERM_NIC] += k3_at_rate(moved, m->f[K3_FIG_NIC_GBPS] * m->f[K3_FIG_NIC_SHARE]);
    } else {
        term[K3_TERM_SCALEUP] +=
            k3_at_rate(moved, m->f[K3_FIG_SCALEUP_GBPS] * m->f[K3_FIG_SCALEUP_SHARE]);
    }
}

void k3_predict_exchange(const k3_predict_model_t *m, uint32_t i, double term[K3_TERM_COUNT])
{
    const k3_cell_t *cell = m->cell;
    uint32_t         rank = k3_predict_rank(m, i), tp = cell->layout.tp;
    double           h = 2.0 * cell->model.hidden, l = 2.0 * cell->model.latent;
    double           group = (double)k3_group_slots(cell, rank) * h;
    double           all = (double)cell->layout.rows_global;

    if (cell->path.fast) {
        add_collective(m, rank, cell->layout.attn_tp, group, 1, term); /* reduce-scatter */
        add_collective(m, rank, cell->layout.attn_tp, group, 1, term); /* all-gather */
        return;
    }
    add_collective(m, rank, cell->layout.attn_tp, group, 2, term);
    if (cell->layout.groups > 1) {
        add_collective(m, rank, tp, all * h, 1, term); /* rows of the other groups */
    }
    add_collective(m, rank, tp, all * (cell->profile->combine_complete ? h : h + l), 2, term);
}
