/* Drawing a row's experts without replacement, exactly and without rejection.
 *
 * Experts stand in places; a draw works on places and a table gives the expert. What a row has
 * taken is a short sorted list: a random number below what is left is moved past every taken
 * interval that lies before it, so no draw is ever repeated, however few experts hold the weight.
 * All of it is integer arithmetic. */
#ifndef K3_CELL_ROUTING_DRAW_H
#define K3_CELL_ROUTING_DRAW_H

#include <stdint.h>

#include "harness/base/status.h"

typedef struct k3_draw {
    uint32_t  experts;
    uint32_t *expert; /* [experts] expert of a place; NULL: the place itself */
    uint64_t *edge;   /* [experts + 1] place p owns [edge[p], edge[p + 1]); NULL: all equal */
    uint32_t *guide;  /* place that holds value b << shift, for each b and one more */
    unsigned  shift;
    uint32_t  hot; /* classes: places [0, hot) are hot */
    double    hot_share;
} k3_draw_t;

/* The first three zero `draw` and set it up; k3_draw_destroy frees, also after a failure.
 * A shuffle puts the experts into places by `key`. */
k3_status_t k3_draw_shuffle(k3_draw_t *draw, uint32_t experts, uint64_t key, k3_error_t *err);

/* Places start at expert `first` and wrap around. */
k3_status_t k3_draw_rotate(k3_draw_t *draw, uint32_t experts, uint32_t first, k3_error_t *err);

void k3_draw_plain(k3_draw_t *draw, uint32_t experts);

/* Weights of the places, finite and not negative, at least one above 0. Each place keeps at least
 * 2^-60 of the total, so that any number of distinct experts can be drawn. */
k3_status_t k3_draw_weigh(k3_draw_t *draw, const double *weights, k3_error_t *err);
void        k3_draw_destroy(k3_draw_t *draw);

/* `topk` distinct experts, topk <= K3_TOPK_MAX and <= experts, a pure function of `key`. */
void k3_draw_equal(const k3_draw_t *draw, uint64_t key, uint32_t topk, int32_t *ids);
void k3_draw_weighted(const k3_draw_t *draw, uint64_t key, uint32_t topk, int32_t *ids);
void k3_draw_classes(const k3_draw_t *draw, uint64_t key, uint32_t topk, int32_t *ids);

#endif
