#include "bench/cell/routing_draw.h"

#include <string.h>

#include "bench/cell/model.h"
#include "harness/base/keyed.h"
#include "harness/base/memory.h"

/* The sum of all weights is close to 2^WEIGHT_BITS. */
enum { WEIGHT_BITS = 60 };

/* What a row has taken already, in rising order. */
typedef struct k3_taken {
    uint32_t count;
    uint32_t place[K3_TOPK_MAX];
} k3_taken_t;

static void take(k3_taken_t *taken, uint32_t at, uint32_t place)
{
    memmove(&taken->place[at + 1], &taken->place[at],
            (taken->count - at) * sizeof(taken->place[0]));
    taken->place[at] = place;
    taken->count++;
}

/* --- set-up ---------------------------------------------------------------------------------- */

void k3_draw_plain(k3_draw_t *draw, uint32_t experts)
{
    memset(draw, 0, sizeof(*draw));
    draw->experts = experts;
}

k3_status_t k3_draw_rotate(k3_draw_t *draw, uint32_t experts, uint32_t first, k3_error_t *err)
{
    k3_draw_plain(draw, experts);

    k3_status_t status = k3_alloc("routing places", experts, sizeof(uint32_t), &draw->expert, err);

    if (status != K3_OK) {
        return status;
    }
    for (uint32_t p = 0; p < experts; p++) {
        draw->expert[p] = (uint32_t)(((uint64_t)first + p) % experts);
    }
    return K3_OK;
}

k3_status_t k3_draw_shuffle(k3_draw_t *draw, uint32_t experts, uint64_t key, k3_error_t *err)
{
    k3_status_t status = k3_draw_rotate(draw, experts, 0, err);

    if (status != K3_OK) {
        return status;
    }
    for (uint32_t p = experts; p > 1; p--) {
        uint32_t other = (uint32_t)k3_below(k3_key(key, p), p);
        uint32_t kept = draw->expert[p - 1];

        draw->expert[p - 1] = draw->expert[other];
        draw->expert[other] = kept;
    }
    return K3_OK;
}

static void fill_guide(k3_draw_t *draw, uint32_t buckets)
{
    uint32_t place = 0;

    for (uint32_t b = 0; b <= buckets; b++) {
        uint64_t value = (uint64_t)b << draw->shift;

        while (place + 1 < draw->experts && draw->edge[place + 1] <= value) {
            place++;
        }
        draw->guide[b] = place;
    }
}

/* A last-bit difference between two mathematical libraries moves an edge by about 2^8 of 2^60,
 * which no draw meets in practice; a table whose structure hangs on comparisons (alias method)
 * would not be as forgiving. */
static void fill_edges(k3_draw_t *draw, const double *weights)
{
    double sum = 0;

    for (uint32_t p = 0; p < draw->experts; p++) {
        sum += weights[p];
    }
    draw->edge[0] = 0;
    for (uint32_t p = 0; p < draw->experts; p++) {
        uint64_t part = (uint64_t)(weights[p] / sum * (double)(UINT64_C(1) << WEIGHT_BITS));

        draw->edge[p + 1] = draw->edge[p] + (part > 0 ? part : 1);
    }
}

k3_status_t k3_draw_weigh(k3_draw_t *draw, const double *weights, k3_error_t *err)
{
    uint32_t    buckets = 1;
    k3_status_t status;

    while (buckets < draw->experts) {
        buckets *= 2;
    }
    status = k3_alloc("routing weights", (uint64_t)draw->experts + 1, sizeof(uint64_t), &draw->edge,
                      err);
    if (status == K3_OK) {
        status =
            k3_alloc("routing guide", (uint64_t)buckets + 1, sizeof(uint32_t), &draw->guide, err);
    }
    if (status != K3_OK) {
        return status;
    }
    fill_edges(draw, weights);
    while ((draw->edge[draw->experts] - 1) >> draw->shift >= buckets) {
        draw->shift++;
    }
    fill_guide(draw, buckets);
    return K3_OK;
}

void k3_draw_destroy(k3_draw_t *draw)
{
    k3_free(draw->guide);
    k3_free(draw->edge);
    k3_free(draw->expert);
    memset(draw, 0, sizeof(*draw));
}

/* --- draws ----------------------------------------------------------------------------------- */

static int32_t expert_of(const k3_draw_t *draw, uint32_t place)
{
    return (int32_t)(draw->expert != NULL ? draw->expert[place] : place);
}

/* One of `size` places that is not taken, all equally likely. */
static uint32_t pick_equal(k3_taken_t *taken, uint32_t size, uint64_t random)
{
    uint32_t place = (uint32_t)k3_below(random, size - taken->count);
    uint32_t at = 0;

    while (at < taken->count && place >= taken->place[at]) {
        place++;
        at++;
    }
    take(taken, at, place);
    return place;
}

static uint32_t find_place(const k3_draw_t *draw, uint64_t value)
{
    uint64_t bucket = value >> draw->shift;
    uint32_t low = draw->guide[bucket], high = draw->guide[bucket + 1];

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (draw->edge[middle + 1] <= value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* One place that is not taken, in proportion to the weights; `left` is their sum. */
static uint32_t pick_weighted(const k3_draw_t *draw, k3_taken_t *taken, uint64_t *left,
                              uint64_t random)
{
    uint64_t value = k3_below(random, *left);
    uint32_t at = 0, place;

    while (at < taken->count && value >= draw->edge[taken->place[at]]) {
        value += draw->edge[taken->place[at] + 1] - draw->edge[taken->place[at]];
        at++;
    }
    place = find_place(draw, value);
    take(taken, at, place);
    *left -= draw->edge[place + 1] - draw->edge[place];
    return place;
}

void k3_draw_equal(const k3_draw_t *draw, uint64_t key, uint32_t topk, int32_t *ids)
{
    k3_taken_t taken;

    taken.count = 0;
    for (uint32_t k = 0; k < topk; k++) {
        ids[k] = expert_of(draw, pick_equal(&taken, draw->experts, k3_key(key, k)));
    }
}

void k3_draw_weighted(const k3_draw_t *draw, uint64_t key, uint32_t topk, int32_t *ids)
{
    uint64_t   left = draw->edge[draw->experts];
    k3_taken_t taken;

    taken.count = 0;
    for (uint32_t k = 0; k < topk; k++) {
        ids[k] = expert_of(draw, pick_weighted(draw, &taken, &left, k3_key(key, k)));
    }
}

void k3_draw_classes(const k3_draw_t *draw, uint64_t key, uint32_t topk, int32_t *ids)
{
    uint32_t   cold_size = draw->experts - draw->hot;
    k3_taken_t hot, cold;

    hot.count = cold.count = 0;
    for (uint32_t k = 0; k < topk; k++) {
        uint64_t random = k3_key(key, k);
        bool     is_hot = k3_unit(k3_mix(random)) < draw->hot_share;

        is_hot = is_hot ? hot.count < draw->hot : cold.count == cold_size;
        ids[k] = expert_of(draw, is_hot ? pick_equal(&hot, draw->hot, random)
                                        : draw->hot + pick_equal(&cold, cold_size, random));
    }
}
