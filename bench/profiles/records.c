/* Bytes of rows on the wire: header, values, scales and metadata, padded as the profile says. */
#include "bench/profiles/profile.h"
#include "harness/base/arith.h"

static uint64_t padded(uint64_t bytes, uint32_t unit)
{
    return unit > 1 ? k3_round_up(bytes, unit) : bytes;
}

/* The parts of a record, each padded alone, then the whole. */
static uint64_t record(const k3_profile_t *p, uint64_t header, k3_format_t format, uint32_t width,
                       uint64_t meta)
{
    uint64_t values = padded(k3_format_value_bytes(format, width), p->pad);
    uint64_t scales = padded(k3_format_scale_bytes(format, width), p->pad);

    return padded(padded(header, p->pad) + values + scales + padded(meta, p->pad), p->align);
}

uint64_t k3_profile_scales_at(const k3_profile_t *p, k3_format_t format, uint32_t width)
{
    return padded(p->header_bytes, p->pad) + padded(k3_format_value_bytes(format, width), p->pad);
}

uint64_t k3_profile_meta_at(const k3_profile_t *p, k3_format_t format, uint32_t width)
{
    return k3_profile_scales_at(p, format, width) +
           padded(k3_format_scale_bytes(format, width), p->pad);
}

uint64_t k3_profile_dispatch_payload(const k3_profile_t *p, k3_format_t format, uint32_t width)
{
    (void)p;
    return k3_format_row_bytes(format, width);
}

uint64_t k3_profile_dispatch_record(const k3_profile_t *p, k3_format_t format, uint32_t width,
                                    uint32_t topk)
{
    uint64_t meta = p->meta_bytes + (uint64_t)p->meta_topk_bytes * topk;

    return record(p, p->header_bytes, format, width, meta);
}

uint64_t k3_profile_combine_payload(const k3_profile_t *p, k3_format_t format, uint32_t width)
{
    (void)p;
    return k3_format_row_bytes(format, width);
}

uint64_t k3_profile_combine_record(const k3_profile_t *p, k3_format_t format, uint32_t width,
                                   uint32_t topk)
{
    uint64_t meta = p->combine_meta_bytes + (uint64_t)p->combine_meta_topk_bytes * topk;

    return record(p, 0, format, width, meta);
}

uint64_t k3_profile_combine_stride(const k3_profile_t *p, k3_format_t format, uint32_t width,
                                   uint32_t topk)
{
    return k3_profile_combine_record(p, format, width, topk) +
           p->combine_slot_extra * k3_ceil_div(width, 128);
}
