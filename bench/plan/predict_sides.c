/* What a rank sends and gets in a phase, and how often it must wait for an answer. */
#include <math.h>

#include "bench/plan/predict_internal.h"

static void add_load(k3_load_t *to, const k3_load_t *from)
{
    for (int c = 0; c < K3_CLASS_COUNT; c++) {
        to->messages[c] += from->messages[c];
        to->signals[c] += from->signals[c];
        to->payload[c] += from->payload[c];
        to->wire[c] += from->wire[c];
        to->lanes[c] =
            fmax(to->lanes[c], from->lanes[c]); /* of notify and rows they are the same */
    }
    to->doorbells += from->doorbells;
    to->pair_wire += from->pair_wire;
    to->lane_posts = fmax(to->lane_posts, from->lane_posts);
}

k3_predict_sides_t k3_predict_sides(const k3_predict_model_t *m, bool combine, uint32_t i)
{
    k3_predict_sides_t s = {0};

    if (!combine) {
        add_load(&s.out, &m->loads->out[K3_TRAFFIC_NOTIFY][i]);
        add_load(&s.in, &m->loads->in[K3_TRAFFIC_NOTIFY][i]);
    }
    add_load(&s.out, &m->loads->out[combine ? K3_TRAFFIC_COMBINE : K3_TRAFFIC_DISPATCH][i]);
    add_load(&s.in, &m->loads->in[combine ? K3_TRAFFIC_COMBINE : K3_TRAFFIC_DISPATCH][i]);
    return s;
}

/* Signals that answer each other: data behind their counts, a second hop, barriers. */
double k3_predict_latency(const k3_predict_model_t *m, bool combine, const k3_predict_sides_t *s)
{
    const k3_profile_t *p = m->cell->profile;
    bool                network = k3_predict_nic_wire(&s->out) + k3_predict_nic_wire(&s->in) > 0;
    bool                stores = s->out.wire[K3_CLASS_STORE] + s->in.wire[K3_CLASS_STORE] > 0;
    double              near = m->f[K3_FIG_SCALEUP_LATENCY_US],
           far = network ? m->f[K3_FIG_NETWORK_LATENCY_US] : near;
    double hops = p->notify && !combine ? 2 : 1;
    bool   second = (p->copy == K3_COPY_PER_NODE || p->copy == K3_COPY_CHUNK) && network && stores;

    hops += p->completion == K3_DONE_BARRIER ? 2 : 0;
    hops += m->cell->signal_waits ? 2 : 0; /* there and back, before the signal leaves */
    return hops * far + (second ? near : 0);
}
