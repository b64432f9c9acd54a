#include "bench/plan/predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/plan/cell_rows.h"
#include "bench/plan/predict_internal.h"
#include "harness/base/text.h"

const char *const k3_term_names[] = {"fixed cost",
                                     "latency",
                                     "issue of messages",
                                     "one queue pair",
                                     "scale-up link",
                                     "NIC wire",
                                     "memory",
                                     "expert weights",
                                     "dense weights",
                                     "GEMM",
                                     "unpacking of weights",
                                     NULL};

const char *const k3_predicted_names[] = {"dispatch", "expert_mlp", "combine", "dense", "exchange",
                                          "pair",     "moe",        "region",  NULL};

/* The model's constants, for what no datasheet states: fitted by scripts/bench-predict.sh --fit, but for
 * doorbells, queue pairs and store signals, which no published series tells apart (decided). The latency of a
 * network hop is what kernels see: from the last post to the flag of the slowest peer. */
static const struct {
    k3_figure_t figure;
    double      value;
} constants[] = {
    {K3_FIG_LAUNCH_US, 15.8},
    {K3_FIG_SCALEUP_LATENCY_US, 1.75},
    {K3_FIG_NETWORK_LATENCY_US, 42.1},
    {K3_FIG_MESSAGE_US, 0.02},
    {K3_FIG_SIGNAL_US, 0.0235},
    {K3_FIG_DOORBELL_US, 0.01},
    {K3_FIG_QP_MESSAGE_US, 0.1},
    {K3_FIG_STORE_MESSAGE_US, 0.00376},
    {K3_FIG_STORE_SIGNAL_US, 0.004},
    {K3_FIG_SCALEUP_SHARE, 0.624},
    {K3_FIG_NIC_SHARE, 0.849},
    {K3_FIG_MEMORY_SHARE, 0.278},
    {K3_FIG_WEIGHTS_SHARE, 0.522},
    {K3_FIG_GEMM_SHARE, 0.79},
    {K3_FIG_EXPERT_US, 26},
    {K3_FIG_FEED_GBPS, 40},
    {K3_FIG_UNPACK_GPS, 17},
};

/* Within this share of the prediction, up and down, lie four of five points of series left out of the fit. */
static const double range = 0.28;

double k3_predict_figure(const k3_machine_file_t *machine, k3_figure_t figure)
{
    if (machine->figure[figure].known) {
        return machine->figure[figure].value;
    }
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (constants[i].figure == figure) {
            return constants[i].value;
        }
    }
    return 0.0;
}

typedef k3_predict_model_t model_t;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* --- one rank ----------------------------------------------------------------------------------- */

typedef k3_predict_sides_t sides_t;

/* The scale-up link: in a mesh the busiest pair has one of the links only. */
static double scaleup_us(const model_t *m, const sides_t *s, double share)
{
    double rate = m->f[K3_FIG_SCALEUP_GBPS] * share, links = m->f[K3_FIG_SCALEUP_LINKS];
    double us = k3_at_rate(larger(s->out.wire[K3_CLASS_STORE], s->in.wire[K3_CLASS_STORE]), rate);

    return links > 0 ? larger(us, k3_at_rate(s->out.pair_wire, rate / links)) : us;
}

static double all_payload(const k3_load_t *l)
{
    double bytes = 0;

    for (int c = 0; c < K3_CLASS_COUNT; c++) {
        bytes += l->payload[c];
    }
    return bytes;
}

static double row_bytes(const model_t *m, uint32_t rank)
{
    uint64_t first, count;

    k3_cell_dispatched(m->cell, rank, &first, &count);
    return (double)count * 2.0 * m->cell->model.latent;
}

/* Rows are read and encoded, written where they are sent from and where they arrive; results are read where
 * the experts left them, written where they arrive, read again for the sums. */
static double memory_bytes(const model_t *m, bool combine, uint32_t i, const sides_t *s)
{
    double own = row_bytes(m, k3_predict_rank(m, i));

    return combine ? all_payload(&s->out) + 2 * all_payload(&s->in) + own
                   : own + all_payload(&s->out) + all_payload(&s->in);
}

static double issue_us(const model_t *m, const sides_t *s)
{
    const k3_load_t *o = &s->out;
    double           stores = o->messages[K3_CLASS_STORE] + o->messages[K3_CLASS_SELF];
    double           store_signals = o->signals[K3_CLASS_STORE] + o->signals[K3_CLASS_SELF];

    return (o->messages[K3_CLASS_NODE] + o->messages[K3_CLASS_NETWORK]) * m->f[K3_FIG_MESSAGE_US] +
           (o->signals[K3_CLASS_NODE] + o->signals[K3_CLASS_NETWORK]) * m->f[K3_FIG_SIGNAL_US] +
           o->doorbells * m->f[K3_FIG_DOORBELL_US] + stores * m->f[K3_FIG_STORE_MESSAGE_US] +
           store_signals * m->f[K3_FIG_STORE_SIGNAL_US];
}

/* --- on a GPU: at the same time ---------------------------------------------------------------- */

static void gpu_phase(const model_t *m, bool combine, uint32_t i, double term[K3_TERM_COUNT])
{
    sides_t s = k3_predict_sides(m, combine, i);

    term[K3_TERM_FIXED] = m->f[K3_FIG_LAUNCH_US];
    term[K3_TERM_LATENCY] = k3_predict_latency(m, combine, &s);
    term[K3_TERM_ISSUE] = issue_us(m, &s);
    term[K3_TERM_QP] = s.out.lane_posts * m->f[K3_FIG_QP_MESSAGE_US];
    term[K3_TERM_SCALEUP] = scaleup_us(m, &s, m->f[K3_FIG_SCALEUP_SHARE]);
    term[K3_TERM_NIC] = k3_at_rate(larger(k3_predict_nic_wire(&s.out), k3_predict_nic_wire(&s.in)),
                                   m->f[K3_FIG_NIC_GBPS] * m->f[K3_FIG_NIC_SHARE]);
    term[K3_TERM_MEMORY] = k3_at_rate(memory_bytes(m, combine, i, &s),
                                      m->f[K3_FIG_MEMORY_GBPS] * m->f[K3_FIG_MEMORY_SHARE]);
}

static double overlapped(const double term[K3_TERM_COUNT])
{
    double most = 0;

    for (int t = K3_TERM_ISSUE; t < K3_TERM_GEMM; t++) {
        most = larger(most, term[t]);
    }
    /* The same instructions' turn. */
    most = larger(most, term[K3_TERM_GEMM] + term[K3_TERM_UNPACK]);
    return term[K3_TERM_FIXED] + term[K3_TERM_LATENCY] + most;
}

static double added(const double term[K3_TERM_COUNT])
{
    double sum = 0;

    for (int t = 0; t < K3_TERM_COUNT; t++) {
        sum += term[t];
    }
    return sum;
}

/* --- experts ----------------------------------------------------------------------------------- */

/* Experts of a core stream their weights while they multiply. */
static double cpu_experts(const double term[K3_TERM_COUNT])
{
    return larger(term[K3_TERM_WEIGHTS] + term[K3_TERM_DENSE], term[K3_TERM_GEMM]);
}

/* --- phases ------------------------------------------------------------------------------------ */

static k3_term_t largest_of(const double term[K3_TERM_COUNT])
{
    int most = 0;

    for (int t = 1; t < K3_TERM_COUNT; t++) {
        most = term[t] > term[most] ? t : most;
    }
    return (k3_term_t)most;
}

static void raise_limit(k3_prediction_phase_t *p, k3_term_t term, double us)
{
    if (us > p->limit_us) {
        p->limit_us = us;
        p->limit_by = term;
    }
}

/* What no implementation can beat: links, memory and arithmetic at their full rates; on shared cores, where
 * caches serve what is small, only stores at their fastest and the wire. */
static void set_limit(const model_t *m, k3_predicted_phase_t phase, k3_prediction_phase_t *p)
{
    double gemm =
        phase == K3_PREDICT_DENSE ? k3_predict_dense_share(m) : k3_predict_expert_share(m);

    if (m->shares_cores) {
        raise_limit(p, K3_TERM_SCALEUP, k3_predict_cpu_least(m, phase));
        raise_limit(p, K3_TERM_NIC, p->term[K3_TERM_NIC]);
        return;
    }
    raise_limit(p, K3_TERM_SCALEUP, p->term[K3_TERM_SCALEUP] * m->f[K3_FIG_SCALEUP_SHARE]);
    raise_limit(p, K3_TERM_NIC, p->term[K3_TERM_NIC] * m->f[K3_FIG_NIC_SHARE]);
    raise_limit(p, K3_TERM_WEIGHTS, p->term[K3_TERM_WEIGHTS] * m->f[K3_FIG_WEIGHTS_SHARE]);
    raise_limit(p, K3_TERM_DENSE, p->term[K3_TERM_DENSE] * m->f[K3_FIG_WEIGHTS_SHARE]);
    raise_limit(p, K3_TERM_GEMM, p->term[K3_TERM_GEMM] * gemm);
}

typedef void (*phase_fn_t)(const model_t *m, uint32_t i, double term[K3_TERM_COUNT]);

static void dispatch_terms(const model_t *m, uint32_t i, double term[K3_TERM_COUNT])
{
    (m->shares_cores ? k3_predict_cpu_phase : gpu_phase)(m, false, i, term);
}

static void combine_terms(const model_t *m, uint32_t i, double term[K3_TERM_COUNT])
{
    (m->shares_cores ? k3_predict_cpu_phase : gpu_phase)(m, true, i, term);
}

/* Fused: all of it at once, started once. */
static void fused_terms(const model_t *m, uint32_t i, double term[K3_TERM_COUNT])
{
    double part[3][K3_TERM_COUNT] = {{0}};

    dispatch_terms(m, i, part[0]);
    combine_terms(m, i, part[1]);
    k3_predict_experts(m, i, part[2]);
    for (int t = 0; t < K3_TERM_COUNT; t++) {
        term[t] = part[0][t] + part[1][t] + part[2][t];
    }
    term[K3_TERM_FIXED] = larger(part[0][K3_TERM_FIXED], part[2][K3_TERM_FIXED]);
}

static void predict_phase(const model_t *m, k3_predicted_phase_t phase, phase_fn_t terms,
                          double (*together)(const double *))
{
    k3_prediction_phase_t *p = &m->out->phase[phase];
    double                 sum = 0;

    for (uint32_t i = 0; i < m->loads->count; i++) {
        double term[K3_TERM_COUNT] = {0}, us;

        terms(m, i, term);
        us = together(term);
        sum += us;
        if (!p->known || us > p->us) {
            p->known = true;
            p->us = us;
            memcpy(p->term, term, sizeof(term));
        }
    }
    /* Ranks that are drawn stand for all: their mean is the expectation. On shared cores the work of all
     * ranks of a node counts, not one rank's. */
    if ((m->loads->expected || m->crowd > 1) && p->known) {
        double mean = sum / m->loads->count;

        for (int t = 0; t < K3_TERM_COUNT && p->us > 0; t++) {
            p->term[t] *= mean / p->us;
        }
        p->us = mean;
    }
    p->bound = largest_of(p->term);
    set_limit(m, phase, p);
}

static void set_range(k3_prediction_phase_t *p)
{
    p->low = p->us / (1 + range);
    p->high = p->us * (1 + range);
}

/* Phases that follow each other, added to what the total already holds; its largest term is the largest of
 * all, its limit's reason that of the part with the largest limit; with a part whose limit nobody knows it has
 * none. */
static void add_phases(k3_prediction_t *out, k3_predicted_phase_t total, unsigned parts)
{
    k3_prediction_phase_t *p = &out->phase[total];
    double                 most = 0;
    bool                   limited = true;

    p->known = true;
    for (int i = 0; i < K3_PREDICT_REGION; i++) {
        const k3_prediction_phase_t *part = &out->phase[i];

        if ((parts >> i & 1) == 0) {
            continue;
        }
        p->known = p->known && part->known;
        p->us += part->us;
        p->limit_us += part->limit_us;
        limited = limited && (part->limit_us > 0 || part->us <= 0);
        if (part->limit_us > most) {
            most = part->limit_us;
            p->limit_by = part->limit_by;
        }
        for (int t = 0; t < K3_TERM_COUNT; t++) {
            p->term[t] += part->term[t];
        }
    }
    p->bound = largest_of(p->term);
    p->limit_us = limited ? p->limit_us : 0;
}

static void note_missing(const model_t *m)
{
    static const k3_figure_t needed[] = {K3_FIG_SCALEUP_GBPS, K3_FIG_NIC_GBPS};
    double                   wire[2] = {0};
    size_t                   used = 0;

    for (uint32_t i = 0; i < m->loads->count; i++) {
        sides_t s = k3_predict_sides(m, false, i);

        wire[0] += s.out.wire[K3_CLASS_STORE];
        wire[1] += m->shares_cores ? s.out.wire[K3_CLASS_NETWORK] : k3_predict_nic_wire(&s.out);
    }
    for (int i = 0; i < 2; i++) {
        if (wire[i] > 0 && m->f[needed[i]] <= 0 && used < sizeof(m->out->missing)) {
            used = k3_append(m->out->missing, sizeof(m->out->missing), used, "%s%s",
                             used > 0 ? ", " : "", k3_figure_name(needed[i]));
        }
    }
}

static void predict_region(model_t *m)
{
    const k3_profile_t *p = m->cell->profile;
    bool                whole = m->cell->component == K3_COMPONENT_REGION;
    unsigned            pair = 1u << K3_PREDICT_DISPATCH | 1u << K3_PREDICT_COMBINE;
    unsigned            around = whole ? 1u << K3_PREDICT_DENSE | 1u << K3_PREDICT_EXCHANGE : 0;
    unsigned            experts = 1u << K3_PREDICT_EXPERTS;
    double (*together)(const double *) = m->shares_cores ? k3_predict_cpu_together : overlapped;

    predict_phase(m, K3_PREDICT_EXPERTS, k3_predict_experts,
                  m->shares_cores ? cpu_experts : overlapped);
    if (whole) {
        predict_phase(m, K3_PREDICT_DENSE, k3_predict_dense,
                      m->shares_cores ? cpu_experts : overlapped);
        predict_phase(m, K3_PREDICT_EXCHANGE, k3_predict_exchange, added);
    }
    if (p->engine == K3_ENGINE_FUSED) {
        predict_phase(m, K3_PREDICT_MOE, fused_terms, together);
    } else if (p->copy != K3_COPY_NONE && p->copy != K3_COPY_REPLICATE) {
        predict_phase(m, K3_PREDICT_DISPATCH, dispatch_terms, together);
        predict_phase(m, K3_PREDICT_COMBINE, combine_terms, together);
        add_phases(m->out, K3_PREDICT_PAIR, pair);
        add_phases(m->out, K3_PREDICT_MOE, pair | experts);
    } else {
        add_phases(m->out, K3_PREDICT_MOE, experts);
    }
    if (whole) {
        add_phases(m->out, K3_PREDICT_REGION, 1u << K3_PREDICT_MOE | around);
    }
}

void k3_predict_open(const k3_cell_t *cell, const k3_loads_t *loads,
                     const k3_machine_file_t *machine, k3_prediction_t *out, model_t *m)
{
    *m = (model_t){.cell = cell, .loads = loads, .out = out};
    for (int i = 0; i < K3_FIG_COUNT; i++) {
        m->f[i] = k3_predict_figure(machine, (k3_figure_t)i);
    }
    m->shares_cores = m->f[K3_FIG_CORES_PER_NODE] > 0;
    m->crowd = m->shares_cores ? larger(1.0, cell->node_most / m->f[K3_FIG_CORES_PER_NODE]) : 1.0;
}

void k3_predict(const k3_cell_t *cell, const k3_loads_t *loads, const k3_machine_file_t *machine,
                k3_prediction_t *out)
{
    model_t m;

    memset(out, 0, sizeof(*out));
    k3_predict_open(cell, loads, machine, out, &m);
    note_missing(&m);
    if (out->missing[0] != '\0') {
        return;
    }
    predict_region(&m);
    for (int i = 0; i < K3_PREDICT_COUNT; i++) {
        set_range(&out->phase[i]);
    }
}
