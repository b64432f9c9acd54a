/* Dispatch and combine on a CPU: a core does one thing after another, and the ranks of a node share its
 * cores. What a row costs depends on how much memory a core touches until it comes round to the same again. */
#include <math.h>

#include "bench/plan/cell_rows.h"
#include "bench/plan/predict_internal.h"

typedef k3_predict_model_t model_t;

/* Where rows lie: MB that a core touches in turn, and KB from one to the next. */
typedef struct place {
    double mb, kb;
} place_t;

/* --- costs of rows ------------------------------------------------------------------------------ */

/* MB that a core touches in an iteration and the next: what arrives, in as many buffers as alternate, and what
 * the experts leave, of all ranks that share it. */
static double touched_mb(const model_t *m, uint32_t i)
{
    k3_predict_sides_t d = k3_predict_sides(m, false, i), c = k3_predict_sides(m, true, i);
    double             buffers = m->cell->profile->buffers > 1 ? m->cell->profile->buffers : 1;
    double             arrived = 0, results = 0;

    for (int class = 0; class < K3_CLASS_COUNT; class ++) {
        arrived += d.in.wire[class] + c.in.wire[class];
        results += c.out.payload[class];
    }
    return (buffers * arrived + results) * m->crowd * 1e-6;
}

/* KB from one row's place to the next: slots of (expert, source, row) are there for all experts, and a row is
 * for K of them. */
static double spread_kb(const model_t *m, const k3_load_t *l)
{
    const k3_profile_t *p = m->cell->profile;
    double              messages = 0, wire = 0;

    for (int class = 0; class < K3_CLASS_COUNT; class ++) {
        messages += l->messages[class];
        wire += l->wire[class];
    }
    if (p->slots != K3_SLOTS_PER_EXPERT || messages <= 0) {
        return 0;
    }
    return wire / messages * m->cell->model.experts / m->cell->model.topk / 1024;
}

/* How far `at` lies between the logarithms of two sizes, 0 to 1. */
static double between(double at, double least, double most)
{
    return fmin(fmax(log(fmax(at, 1e-6) / least) / log(most / least), 0), 1);
}

/* us of `rows` rows with `bytes` bytes, between the sizes of the calibration. */
static double work_us(const model_t *m, k3_row_work_t work, const place_t *at, double rows,
                      double bytes)
{
    double near = m->f[K3_FIG_WORK_US(work, 0)], far = m->f[K3_FIG_WORK_US(work, 1)];
    double row = near + between(at->kb, k3_work_kb[0], k3_work_kb[1]) * (far - near), less, more;
    int    size = 0;

    while (size < K3_WORK_SIZES - 2 && at->mb > k3_work_mb[size + 1]) {
        size++;
    }
    less = k3_at_rate(bytes, m->f[K3_FIG_WORK_GBPS(work, size)]);
    more = k3_at_rate(bytes, m->f[K3_FIG_WORK_GBPS(work, size + 1)]);
    return rows * row + less +
           between(at->mb, k3_work_mb[size], k3_work_mb[size + 1]) * (more - less);
}

static double own_rows(const model_t *m, uint32_t i)
{
    uint64_t first, count;

    k3_cell_dispatched(m->cell, k3_predict_rank(m, i), &first, &count);
    return (double)count;
}

/* --- a phase ------------------------------------------------------------------------------------ */

/* Rows leave from what was just encoded, results from where the experts left them; what no store takes is
 * copied beside the queue pair first. */
static double moved_us(const model_t *m, bool combine, const place_t *at,
                       const k3_predict_sides_t *s)
{
    k3_row_work_t far = combine ? K3_WORK_FORWARD : K3_WORK_STORE;
    k3_row_work_t own = combine ? K3_WORK_OWN_FORWARD : K3_WORK_OWN_STORE;
    double        us = 0;

    for (int class = 0; class < K3_CLASS_COUNT; class ++) {
        us += work_us(m, class == K3_CLASS_SELF ? own : far, at, s->out.messages[class],
                      s->out.wire[class]);
    }
    if (combine && !m->cell->zero_copy) {
        for (int class = K3_CLASS_NODE; class <= K3_CLASS_NETWORK; class ++) {
            us += work_us(m, K3_WORK_OWN_FORWARD, at, s->out.messages[class], s->out.wire[class]);
        }
    }
    return us;
}

/* Beside the bytes, and what each row costs wherever it goes. */
static double issue_us(const model_t *m, const k3_predict_sides_t *s)
{
    const k3_load_t *o = &s->out;
    double message = m->f[K3_FIG_NETWORK_MESSAGE_US], signal = m->f[K3_FIG_NETWORK_SIGNAL_US];

    message = message > 0 ? message : m->f[K3_FIG_MESSAGE_US];
    signal = signal > 0 ? signal : m->f[K3_FIG_SIGNAL_US];
    return o->messages[K3_CLASS_NODE] * m->f[K3_FIG_MESSAGE_US] +
           o->messages[K3_CLASS_NETWORK] * message +
           o->signals[K3_CLASS_NODE] * m->f[K3_FIG_SIGNAL_US] +
           o->signals[K3_CLASS_NETWORK] * signal + o->doorbells * m->f[K3_FIG_DOORBELL_US] +
           (o->signals[K3_CLASS_SELF] + o->signals[K3_CLASS_STORE]) * m->f[K3_FIG_STORE_SIGNAL_US];
}

static double kernel_us(const model_t *m, bool combine, const place_t *at, uint32_t i,
                        const k3_predict_sides_t *s)
{
    double rows = own_rows(m, i), us = 0;
    bool   copied = m->cell->dispatch_format == K3_FORMAT_BF16;

    if (!combine) {
        return work_us(m, copied ? K3_WORK_FORWARD : K3_WORK_ENCODE, at, rows,
                       rows * 2.0 * m->cell->model.latent);
    }
    for (int class = 0; class < K3_CLASS_COUNT; class ++) {
        us += work_us(m, class == K3_CLASS_SELF ? K3_WORK_OWN_REDUCE : K3_WORK_REDUCE, at,
                      s->in.messages[class], s->in.payload[class]);
    }
    return us;
}

/* Each rank of a core is let in once to begin and once to see the last signal; where software carries puts
 * the phase ends with a flush of each lane and a barrier. */
static double waits_us(const model_t *m, const k3_predict_sides_t *s)
{
    bool   far = s->out.wire[K3_CLASS_NETWORK] + s->in.wire[K3_CLASS_NETWORK] > 0;
    double us = 0;

    if (far) {
        us = m->f[K3_FIG_FINISH_US] +
             s->out.lanes[K3_CLASS_NETWORK] * m->f[K3_FIG_FINISH_LANE_US] * m->crowd;
    }
    if (m->crowd > 1) {
        us += 2 * m->crowd * m->f[K3_FIG_SWITCH_US];
    }
    return us;
}

void k3_predict_cpu_phase(const model_t *m, bool combine, uint32_t i, double term[K3_TERM_COUNT])
{
    k3_predict_sides_t s = k3_predict_sides(m, combine, i);
    place_t            at = {touched_mb(m, i), spread_kb(m, &s.out)};

    term[K3_TERM_FIXED] = m->f[K3_FIG_LAUNCH_US];
    term[K3_TERM_LATENCY] = k3_predict_latency(m, combine, &s) + waits_us(m, &s);
    term[K3_TERM_ISSUE] = issue_us(m, &s) * m->crowd;
    term[K3_TERM_SCALEUP] = moved_us(m, combine, &at, &s) * m->crowd;
    term[K3_TERM_MEMORY] = kernel_us(m, combine, &at, i, &s) * m->crowd;
    term[K3_TERM_NIC] = k3_at_rate(fmax(s.out.wire[K3_CLASS_NETWORK], s.in.wire[K3_CLASS_NETWORK]),
                                   m->f[K3_FIG_NIC_GBPS]) *
                        m->cell->node_most;
}

static double stored_bytes(const model_t *m, bool combine, uint32_t i)
{
    k3_predict_sides_t s = k3_predict_sides(m, combine, i);

    return s.out.wire[K3_CLASS_SELF] + s.out.wire[K3_CLASS_STORE];
}

/* At the fastest that a core can store at all; of the busiest rank, or where ranks share cores of all. */
double k3_predict_cpu_least(const model_t *m, k3_predicted_phase_t phase)
{
    double most = 0, sum = 0;

    for (uint32_t i = 0; i < m->loads->count; i++) {
        double bytes = 0;

        bytes +=
            phase == K3_PREDICT_DISPATCH || phase == K3_PREDICT_MOE ? stored_bytes(m, false, i) : 0;
        bytes +=
            phase == K3_PREDICT_COMBINE || phase == K3_PREDICT_MOE ? stored_bytes(m, true, i) : 0;
        most = fmax(most, bytes);
        sum += bytes;
    }
    return k3_at_rate(m->crowd > 1 ? sum / m->loads->count * m->crowd : most,
                      m->f[K3_FIG_STORE_PEAK_GBPS]);
}

double k3_predict_cpu_together(const double term[K3_TERM_COUNT])
{
    double cores = term[K3_TERM_ISSUE] + term[K3_TERM_SCALEUP] + term[K3_TERM_MEMORY] +
                   term[K3_TERM_WEIGHTS] + term[K3_TERM_GEMM];

    return term[K3_TERM_FIXED] + term[K3_TERM_LATENCY] + fmax(cores, term[K3_TERM_NIC]);
}
