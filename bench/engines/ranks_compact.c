/* A compact range: all rows that arrive lie one behind the other, whatever rank they are from. One add that
 * fetches reserves the place of all rows that go to a peer; it carries no row and is not booked.
 *
 * On a device the adds come through queue pairs, and the own rank's, by the processor, would not be atomic to
 * them: own rows lie in front, and the peers' begin behind as many as there can be of those. */
#include "bench/engines/ranks_engine.h"

static uint64_t peers_at(const ranks_engine_t *e)
{
    return k3_ranks_on_device(e) ? e->g.m : 0;
}

k3_status_t k3_ranks_reserve(ranks_engine_t *e, k3_error_t *err)
{
    const k3_ranks_t *g = &e->g;
    uint64_t          front = peers_at(e), rows = g->ranks * g->m;

    for (uint32_t step = 0; step < g->ranks; step++) {
        uint32_t peer = (e->rank + step) % g->ranks;

        if (front > 0 && peer == e->rank) {
            e->base[peer] = 0;
        } else {
            k3_qps_fetch_add64(e->qps, (int)peer, 0, g->reserve, e->next[peer], &e->base[peer]);
        }
    }
    if (k3_qps_land(e->qps, err) != K3_OK) {
        return err->status;
    }
    for (uint32_t peer = 0; peer < g->ranks; peer++) {
        e->base[peer] += peer == e->rank ? 0 : front;
        if (e->base[peer] > rows - e->next[peer]) {
            return k3_fail(err, K3_ERR_CHECK, "rank %u: place %llu is outside its %llu rows", peer,
                           (unsigned long long)e->base[peer], (unsigned long long)rows);
        }
    }
    return K3_OK;
}

uint64_t k3_ranks_compact_rows(const ranks_engine_t *e)
{
    uint64_t total = 0;

    for (uint32_t s = 0; s < e->g.ranks; s++) {
        total += e->counts[s];
    }
    return total;
}

uint64_t k3_ranks_compact_place(const ranks_engine_t *e, uint64_t i)
{
    uint64_t front = peers_at(e), own = front > 0 ? e->counts[e->rank] : 0;

    return i < own ? i : i - own + front;
}
