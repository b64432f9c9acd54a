/* Experts by their weights and arithmetic. */
#include "bench/plan/predict_internal.h"

static double gemm_tflops(const k3_predict_model_t *m)
{
    const k3_recipe_t *r = &m->cell->runner->recipe;
    double             bf16 = m->f[K3_FIG_BF16_TFLOPS];
    bool               narrow = r->input != K3_FORMAT_BF16 && r->middle != K3_FORMAT_BF16;
    double             fp8 = m->f[K3_FIG_FP8_TFLOPS] > 0 ? m->f[K3_FIG_FP8_TFLOPS] : bf16;

    if (narrow && r->input == K3_FORMAT_MXFP4 && m->f[K3_FIG_FP4_TFLOPS] > 0) {
        return m->f[K3_FIG_FP4_TFLOPS];
    }
    return narrow ? fp8 : bf16;
}

void k3_predict_experts(const k3_predict_model_t *m, uint32_t i, double term[K3_TERM_COUNT])
{
    const k3_model_t *model = &m->cell->model;
    uint32_t          begin, end;
    double            part, rows = m->loads->expert_rows[i], bytes, flops;

    k3_layout_expert_slice(&m->cell->layout, model, k3_predict_rank(m, i), &begin, &end);
    part = model->intermediate > 0 ? (double)(end - begin) / model->intermediate : 0;
    bytes = m->loads->experts_hit[i] * (double)k3_model_expert_bytes(model) * part;
    flops = rows * 6.0 * model->latent * model->intermediate * part;
    if (m->shares_cores) {
        term[K3_TERM_WEIGHTS] = k3_at_rate(bytes, m->f[K3_FIG_WEIGHTS_GBPS]) * m->crowd;
        term[K3_TERM_GEMM] = k3_at_rate(flops, m->f[K3_FIG_GEMM_GFLOPS]) * m->crowd;
        return;
    }
    term[K3_TERM_FIXED] = m->f[K3_FIG_EXPERT_US];
    term[K3_TERM_WEIGHTS] =
        k3_at_rate(bytes, m->f[K3_FIG_MEMORY_GBPS] * m->f[K3_FIG_WEIGHTS_SHARE]);
    term[K3_TERM_GEMM] = k3_at_rate(flops, gemm_tflops(m) * 1e3 * m->f[K3_FIG_GEMM_SHARE]);
    term[K3_TERM_MEMORY] = k3_at_rate(rows * (4.0 * model->latent + 6.0 * (end - begin)),
                                      m->f[K3_FIG_MEMORY_GBPS] * m->f[K3_FIG_MEMORY_SHARE]);
}
