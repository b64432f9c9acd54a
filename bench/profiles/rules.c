#include "bench/profiles/rules.h"

#include <string.h>

static const struct {
    const char *name, *what;
} rules[K3_RULE_COUNT] = {
    [K3_RULE_QPS] = {"qps", "how many queue pairs a peer has, and which one carries what"},
    [K3_RULE_POSTING] = {"posting", "when a doorbell hands posted messages over"},
    [K3_RULE_LOCK] = {"lock", "posts of one queue pair under a lock, or by a poster of its own"},
    [K3_RULE_SIGNAL] = {"signal", "when data are announced, by which operation, value and size"},
    [K3_RULE_COPY] = {"copy",
                      "a copy of a row for each expert, rank or node; its slot; counts in front"},
    [K3_RULE_RECORD] = {"record", "header, metadata and padding of a dispatched row"},
    [K3_RULE_COMBINE_STRIDE] = {"combine-stride", "metadata and room of a returned row"},
    [K3_RULE_COMPLETION] = {"completion", "how a receiver knows that all has come"},
    [K3_RULE_BUFFER] = {"buffer", "how many buffers alternate, and their size formula"},
    [K3_RULE_MASK_AT_SEND] = {"mask-at-send", "whether rows for a dead rank are still sent"},
    [K3_RULE_TIMEOUT] = {"timeout", "the limit of a call, and what follows when it has passed"},
};

const char *k3_rule_name(k3_rule_t rule)
{
    return rules[rule].name;
}

const char *k3_rule_what(k3_rule_t rule)
{
    return rules[rule].what;
}

static void turn_qps(k3_profile_t *p, const k3_profile_t *to)
{
    p->qp_count = to->qp_count;
    p->qp_param = to->qp_param;
    p->sms = to->sms;
    p->channels = to->channels;
    p->qp_active_max = to->qp_active_max;
    p->qp_active_roce = to->qp_active_roce;
    p->qp_map = to->qp_map;
    p->qp_control = to->qp_control;
    p->qp_fewer_is_what_if = to->qp_fewer_is_what_if;
}

static void turn_signal(k3_profile_t *p, const k3_profile_t *to)
{
    p->signal_op = to->signal_op;
    p->signal_bytes = to->signal_bytes;
    p->combine_signal_bytes = to->combine_signal_bytes;
    p->dispatch_when = to->dispatch_when;
    p->combine_when = to->combine_when;
    p->dispatch_value = to->dispatch_value;
    p->combine_value = to->combine_value;
}

static void turn_copy(k3_profile_t *p, const k3_profile_t *to)
{
    p->copy = to->copy;
    p->combine_copy = to->combine_copy;
    p->slots = to->slots;
    p->combine_folds = to->combine_folds;
    p->notify = to->notify;
}

static void turn_record(k3_profile_t *p, const k3_profile_t *to)
{
    p->header_bytes = to->header_bytes;
    p->meta_bytes = to->meta_bytes;
    p->meta_topk_bytes = to->meta_topk_bytes;
    p->pad = to->pad;
    p->align = to->align;
}

static void turn_combine_stride(k3_profile_t *p, const k3_profile_t *to)
{
    p->combine_meta_bytes = to->combine_meta_bytes;
    p->combine_meta_topk_bytes = to->combine_meta_topk_bytes;
    p->combine_slot_extra = to->combine_slot_extra;
}

static void turn_timeout(k3_profile_t *p, const k3_profile_t *to)
{
    p->fault = to->fault;
    p->fault_choices = to->fault_choices;
    p->timeout_s = to->timeout_s;
    p->first_call_unlimited = to->first_call_unlimited;
}

bool k3_rule_turn(k3_rule_t rule, k3_profile_t *p, const k3_profile_t *to)
{
    k3_profile_t before;

    memcpy(&before, p, sizeof(before)); /* with its padding: what differs is what was set */
    switch (rule) {
    case K3_RULE_QPS:
        turn_qps(p, to);
        break;
    case K3_RULE_POSTING:
        p->doorbell_every = to->doorbell_every;
        p->doorbell_signal = to->doorbell_signal;
        break;
    case K3_RULE_LOCK:
        p->exclusive = to->exclusive;
        break;
    case K3_RULE_SIGNAL:
        turn_signal(p, to);
        break;
    case K3_RULE_COPY:
        turn_copy(p, to);
        break;
    case K3_RULE_RECORD:
        turn_record(p, to);
        break;
    case K3_RULE_COMBINE_STRIDE:
        turn_combine_stride(p, to);
        break;
    case K3_RULE_COMPLETION:
        p->completion = to->completion;
        break;
    case K3_RULE_BUFFER:
        p->buffers = to->buffers;
        p->buffer_formula = to->buffer_formula;
        break;
    case K3_RULE_MASK_AT_SEND:
        p->mask_at_send = to->mask_at_send;
        break;
    default:
        turn_timeout(p, to);
        break;
    }
    return memcmp(&before, p, sizeof(before)) != 0;
}
