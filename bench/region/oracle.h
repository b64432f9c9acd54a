/* The independent answer. Shares with the measured code only the definition of the inputs
 * (cell/inputs.h) and the numbers of the recipe; codecs and arithmetic are its own, scalar, f64
 * (f32 where a recipe sums in f32), and it models every rounding point of recipe and profile.
 *
 * A row is checked stage by stage, each stage from the measured values of the one before, so that a
 * fault is named where it arises and harmless differences of summation order do not pile up:
 *
 *   x         exact: bf16 of the f32 sum of the partials in rank order
 *   logits    f64 dot products
 *   weights   sigmoid, raw over sum + 1e-20, for the ids in force
 *   latent    bf16 of f64 dot products (== x where the model has no latent step)
 *   combined  latent row in the dispatch format -> experts with the recipe's roundings -> combine
 * rule output    RMS norm, up projection, shared expert added once
 *
 * Errors are |got - want| / max(|want|, rms of the wanted row) for every element, and for a row as
 * a whole rms(got - want) / rms(want). A row is wrong when an element or the whole is above its
 * tolerance: one element may be off by a flipped rounding, a forgotten rounding shows in all of
 * them. A code that flips in the tail of the middle's values may leave a row up to 1.3 times the
 * limits of combined: one row and one in a thousand count as right then. A value that is no number counts as the largest error, K3_ORACLE_ERROR_MAX. */
#ifndef K3_REGION_ORACLE_H
#define K3_REGION_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/plan/cell.h"

typedef struct k3_oracle k3_oracle_t;

typedef enum k3_stage {
    K3_STAGE_X,
    K3_STAGE_LOGITS,
    K3_STAGE_WEIGHTS,
    K3_STAGE_LATENT,
    K3_STAGE_COMBINED,
    K3_STAGE_OUTPUT,
    K3_STAGE_COUNT
} k3_stage_t;
extern const char *const k3_stage_names[];

#define K3_ORACLE_ERROR_MAX 1e9

/* Tolerance of a stage for this cell (model, recipe, formats), for an element and for a row as a
 * whole, with the derivation in oracle_tolerance.c. The component says whether the experts are
 * stand-ins.
 */
double k3_oracle_tolerance(const k3_cell_t *cell, k3_stage_t stage);
double k3_oracle_row_tolerance(const k3_cell_t *cell, k3_stage_t stage);

/* `stand_in`: the experts are y = bf16(x * k3_stand_in_factor(e)) instead of the MLP, where x is
 * the row as the dispatch format leaves it. The cell must outlive the oracle. Up to 64 MiB of
 * wanted combined rows are kept for the process, so that a second cell with the same recipe, format
 * and latent rows need not compute them again; k3_oracle_cache_clear forgets them. One thread only.
 */
k3_status_t k3_oracle_create(const k3_cell_t *cell, bool stand_in, k3_oracle_t **oracle_p,
                             k3_error_t *err);
void        k3_oracle_destroy(k3_oracle_t *oracle);
void        k3_oracle_cache_clear(void);

/* The measured values of one row; NULL members are not looked at. */
typedef struct k3_measured_row {
    uint64_t        row;      /* global */
    uint64_t        payload;  /* of the iteration */
    const uint16_t *x;        /* [H] */
    const float    *logits;   /* [E] */
    const int32_t  *ids;      /* [K] in force */
    const int32_t  *served;   /* [K] as ids, -1 where the result never came; NULL: ids */
    const float    *weights;  /* [K] */
    const uint16_t *latent;   /* [L] */
    const uint16_t *combined; /* [L] before the norm */
    const uint16_t *output;   /* [H] */
} k3_measured_row_t;

typedef struct k3_check {
    uint64_t   rows_checked;
    double     max_error[K3_STAGE_COUNT];     /* of an element */
    double     max_row_error[K3_STAGE_COUNT]; /* of a row as a whole */
    double     max_rel_err;                   /* of an element of combined and output */
    uint64_t   rows_wrong;
    uint64_t   rows_near; /* a little above the limits of combined: rare ones count as right */
    bool       wrong;
    uint64_t   first_row; /* the first wrong one: row, iteration, stage, element, values */
    uint64_t   first_payload;
    k3_stage_t first_stage;
    uint32_t   first_element;
    double     first_want, first_got;
    char diagnosis[160]; /* "combined latent rows are 8.00 x the right value: reduced twice (...)",
                            or "" */
} k3_check_t;

/* Looks at all elements of the given stages; adds to `check`. Never fails on wrong values: that is
 * the content of `check`. */
void k3_oracle_check(k3_oracle_t *oracle, const k3_measured_row_t *row, k3_check_t *check);

/* The same for n rows together: weights are generated once for all of them, so this is much cheaper
 * than n calls, and rows that were exchanged are told apart from rows that are wrong. */
void k3_oracle_check_rows(k3_oracle_t *oracle, const k3_measured_row_t *rows, size_t n,
                          k3_check_t *check);

/* Adds `other` (of another rank or iteration) to `check`; the first wrong row is that of the lower
 * payload, then the lower row. */
void k3_check_merge(k3_check_t *check, const k3_check_t *other);

#endif
