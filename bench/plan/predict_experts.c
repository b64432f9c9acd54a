/* Experts by their weights and arithmetic. */
#include "bench/plan/predict_internal.h"
#include <math.h>

enum {
    TILE_ROWS = 64, /* of an expert, for which its packed weights are turned once */
    DEFAULT_TILE = 128
};

double k3_predict_gemm_gflops(const k3_predict_model_t *m, double tflops, double bits)
{
    double tile = m->f[K3_FIG_GEMM_TILE] > 0 ? m->f[K3_FIG_GEMM_TILE] : DEFAULT_TILE;
    double fed = m->f[K3_FIG_SMS] * m->f[K3_FIG_FEED_GBPS] * tile * 8 / bits;
    double reached = tflops * 1e3 * m->f[K3_FIG_GEMM_SHARE];

    return fed > 0 && fed < reached ? fed : reached;
}

static double gemm_bits(const k3_predict_model_t *m)
{
    const k3_recipe_t *r = &m->cell->runner->recipe;
    bool               narrow = r->input != K3_FORMAT_BF16 && r->middle != K3_FORMAT_BF16;

    return !narrow ? 16 : r->input == K3_FORMAT_MXFP4 && m->f[K3_FIG_FP4_TFLOPS] > 0 ? 4 : 8;
}

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

double k3_predict_expert_share(const k3_predict_model_t *m)
{
    double peak = gemm_tflops(m);

    return peak > 0 ? k3_predict_gemm_gflops(m, peak, gemm_bits(m)) / (peak * 1e3) : 0;
}

/* Where the machine has no FP4 arithmetic, weights are turned by ordinary instructions, again for each tile of
 * an expert's rows. */
static double unpack_us(const k3_predict_model_t *m, uint32_t i, double part)
{
    const k3_model_t *model = &m->cell->model;
    double            hit = m->loads->experts_hit[i];
    double            weights = 3.0 * model->latent * model->intermediate * part;

    if (model->weights != K3_WEIGHT_MXFP4 || m->f[K3_FIG_FP4_TFLOPS] > 0 || hit <= 0) {
        return 0;
    }
    return k3_at_rate(hit * ceil(m->loads->expert_rows[i] / hit / TILE_ROWS) * weights,
                      m->f[K3_FIG_SMS] * m->f[K3_FIG_UNPACK_GPS]);
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
    term[K3_TERM_GEMM] = k3_at_rate(flops, k3_predict_gemm_gflops(m, gemm_tflops(m), gemm_bits(m)));
    term[K3_TERM_UNPACK] = unpack_us(m, i, part);
    term[K3_TERM_MEMORY] = k3_at_rate(rows * (4.0 * model->latent + 6.0 * (end - begin)),
                                      m->f[K3_FIG_MEMORY_GBPS] * m->f[K3_FIG_MEMORY_SHARE]);
}
