/* Why the tolerances are what they are.
 *
 * Measured code and oracle round at the same points and sum in another order. An f32 sum differs by
 * a few 1e-7 of the row's rms (1e-6 for long rows), and that shows only where it tips a rounding:
 * one in some thousand bf16 values flips to its neighbour, 2^-8 to 2^-7 of the value away. So
 * errors are rare and of known size, and an element may be off by a few flips:
 *
 *   weights   f32 exp and division: some 1e-6
 *   logits    the f32 sum itself: 2^-24 times the root of up to 7168 terms is 5e-6, at four sigma 2e-5
 *   latent    one bf16 flip: 2^-7
 *   combined  the flip of the sum, 2^-7; the flip of an expert's output, 2^-7 times the expert's share of
 *             the row (weights of about 1/K give terms of about 1/sqrt(K) of the row's rms; half as much
 *             again for unequal weights); where ranks round their own sums, once more, and where the
 *             sums of cp groups are rounded on the way, once more again; and a flip of one
 *             value of the middle. That value, a product, is up to 4 times the rms (and rarely more), moves by one step of the middle's
 *             format and meets a weight of up to 3.1 times the rms, one of I products.
 *             Where the middle has scales that are no powers of two (fp8: for 128 values, int8: for all) a
 *             flip of the largest value of a group, 2^-7.5 of it, moves the scale and with it the codes of
 *             the values within that distance of a boundary: root(2^-7.5 times the step) of the group.
 *   output    flips of the routed part, the shared part and their sum, each value up to two to three
 *             times the row's rms: 4 * 2^-7
 *
 * As a whole a row is much closer, since flips are rare: 0.2 % and one flip of the middle; of the output 0.3 %, or six flips
 * of values of 2.5 times the rms where the row is so narrow that these weigh more (below 256 values; seen in 130,000 rows of
 * 128: 0.35 %). Where the shared experts are narrow (below 205), one value of their middle, 5.5 times the rms, is much of a
 * row, and nothing may stand beside it (`null`: seen 0.34 % at 64, 0.51 % at 32). A rounding
 * that is missing or added is in every element: 2.6 % for e4m3 of the input or middle, 1.6 % for one bf16
 * rounding of gate and up in front of an e4m3 middle (it tips 3 % of the codes).
 *
 * Rows that arrive in a 4-bit format lie on a coarse lattice, and so do the weights: exact ties of gate and
 * up are common, and the last bits of an f32 sum decide them. In front of an e4m3 middle its flips count
 * twice then (seen on tiny, 46,000 rows: 2.6 % of a row at most; the limit for one flip is 2.0 %). */
#include <math.h>

#include "bench/plan/cell_rows.h"
#include "bench/region/oracle_internal.h"

static const double ulp = 0x1p-7; /* largest step between bf16 values, relative */

/* The step to a neighbouring code relative to the value, typical. */
static double typical_step(k3_format_t format)
{
    switch (format) {
    case K3_FORMAT_FP8:
    case K3_FORMAT_MXFP8:
        return 0.09;
    case K3_FORMAT_MXFP4:
        return 0.35;
    case K3_FORMAT_INT8:
    case K3_FORMAT_LOGFMT10: /* 9 octaves over 510 codes */
        return 0.03;         /* a 32nd of the rms: the largest value is about four times it */
    default:
        return 0x1p-8;
    }
}

/* What a flip of the largest value of a group does to the middle as a whole. */
static double scale_flip(const k3_cell_t *cell)
{
    k3_format_t middle = cell->runner->recipe.middle;
    double      group = middle == K3_FORMAT_FP8 ? 128.0 : (double)cell->model.intermediate;

    if (middle != K3_FORMAT_FP8 && middle != K3_FORMAT_INT8) {
        return 0.0;
    }
    return sqrt(0x1p-7 * 0.7 * typical_step(middle) *
                fmin(1.0, group / (double)cell->model.intermediate));
}

/* Nothing but the sum can differ, and that by a fused multiply-add. */
static void stand_in_limits(k3_oracle_limits_t *limits)
{
    limits->element[K3_STAGE_COMBINED] = 1.01 * ulp;
    limits->row[K3_STAGE_COMBINED] = 1e-3;
}

static double sum_roundings(k3_oracle_rule_t rule)
{
    return rule == K3_RULE_NODES ? 3.0 : rule == K3_RULE_RANKS ? 2.0 : 1.0;
}

static void combined_limits(const k3_cell_t *cell, k3_oracle_limits_t *limits)
{
    double share = fmin(1.0, 1.5 / sqrt((double)cell->model.topk));
    double narrow = 1.0 + 16.0 / (double)cell->model.latent; /* few elements, uncertain rms */
    double one_value = 4.0 * narrow / sqrt((double)cell->model.intermediate);
    double middle = typical_step(cell->runner->recipe.middle) * one_value * share;
    double scale = scale_flip(cell) * share;
    bool   e4m3 = cell->runner->recipe.middle == K3_FORMAT_FP8 ||
                cell->runner->recipe.middle == K3_FORMAT_MXFP8;
    double flips = cell->dispatch_format == K3_FORMAT_MXFP4 && e4m3 ? 2.0 : 1.0;
    double roundings = sum_roundings(k3_oracle_combine_rule(cell));

    limits->element[K3_STAGE_COMBINED] =
        0.002 + ulp * (1.0 + roundings * share) + 3.1 * fmax(flips * middle, scale);
    limits->row[K3_STAGE_COMBINED] = 0.002 + fmax(flips * middle, scale);
    if (k3_splits_context(cell) && k3_oracle_combine_rule(cell) == K3_RULE_RANKS) {
        limits->element[K3_STAGE_COMBINED] += ulp * share;
    }
    if (cell->combine_format != K3_FORMAT_BF16) { /* a flip may move a group's scale */
        limits->element[K3_STAGE_COMBINED] += 3.0 * share * typical_step(cell->combine_format);
        limits->row[K3_STAGE_COMBINED] += 0.1 * share * typical_step(cell->combine_format);
    }
}

static double output_row_limit(const k3_model_t *model)
{
    double narrow = model->shared > 0 ? 5.5 * 0x1p-8 / sqrt((double)model->shared) : 0.0;

    return fmax(fmax(3e-3, 1.5e-3 + narrow), 2.5 * ulp * sqrt(6.0 / (double)model->hidden));
}

void k3_oracle_limits(const k3_cell_t *cell, bool stand_in, k3_oracle_limits_t *limits)
{
    *limits = (k3_oracle_limits_t){
        .element = {[K3_STAGE_LOGITS] = 1e-4,
                    [K3_STAGE_WEIGHTS] = 1e-5,
                    [K3_STAGE_LATENT] = cell->model.latent_step ? 1.01 * ulp : 0.0,
                    [K3_STAGE_OUTPUT] = 4.0 * ulp},
        .row = {[K3_STAGE_LOGITS] = 3e-5,
                [K3_STAGE_WEIGHTS] = 1e-5,
                [K3_STAGE_LATENT] = cell->model.latent_step ? 2e-3 : 0.0,
                [K3_STAGE_OUTPUT] = output_row_limit(&cell->model)},
    };
    if (stand_in) {
        stand_in_limits(limits);
    } else {
        combined_limits(cell, limits);
    }
}

static bool has_stand_in(const k3_cell_t *cell)
{
    return cell->component == K3_COMPONENT_PAIR || cell->component == K3_COMPONENT_DISPATCH ||
           cell->component == K3_COMPONENT_COMBINE || cell->component == K3_COMPONENT_CONTROL ||
           cell->component == K3_COMPONENT_CHAIN;
}

double k3_oracle_tolerance(const k3_cell_t *cell, k3_stage_t stage)
{
    k3_oracle_limits_t limits;

    k3_oracle_limits(cell, has_stand_in(cell), &limits);
    return limits.element[stage];
}

double k3_oracle_row_tolerance(const k3_cell_t *cell, k3_stage_t stage)
{
    k3_oracle_limits_t limits;

    k3_oracle_limits(cell, has_stand_in(cell), &limits);
    return limits.row[stage];
}
