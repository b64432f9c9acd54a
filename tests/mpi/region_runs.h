/* What the tests of regions share: open, run once without an allocation, check, close. */
#ifndef K3_TEST_REGION_RUNS_H
#define K3_TEST_REGION_RUNS_H

#include "bench/region/region.h"
#include "bench/region/verify.h"
#include "harness/base/memory.h"
#include "ranks.h"

static k3_fabric_t *fabric;

typedef struct opened {
    k3_cell_t    cell;
    k3_weights_t weights;
    k3_region_t  region;
    k3_verify_t  verify;
    uint64_t     payload;
} opened_t;

static inline const k3_limits_t *limits_of(const char *backend)
{
    const k3_profile_t *profile = NULL;

    CHECK_OK(k3_registry_find(backend, &profile, err));
    return &profile->limits;
}

static inline k3_cell_request_t request_of(const char *backend, uint64_t tokens)
{
    return (k3_cell_request_t){
        .world = (uint32_t)world.size,
        .node_of = world.node_of,
        .nodes_as = limits_of(backend)->one_node ? 1 : 2,
        .dp = limits_of(backend)->dp_groups_min, /* 0: one */
        .model = "tiny:E=32,K=4,I=128",
        .backend = backend,
        .tokens = tokens,
        .seed = 7,
        /* fp8 asks for ranks x rows in fours. */
        .dispatch_dtype = limits_of(backend)->rm_unit != 0 ? "bf16" : NULL,
        .p2p = true,
    };
}

static inline void open_region(opened_t *o, const k3_cell_request_t *request,
                               const k3_fault_t *fault)
{
    k3_region_options_t options = {
        .fabric = fabric,
        .accounting = true,
        .order_rounds = 8,
        .fault = K3_FAULT_NONE,
        .isa = "auto",
        .weights = &o->weights,
    };

    memset(o, 0, sizeof(*o));
    if (fault != NULL) {
        options.fault = *fault;
    }
    CHECK_OK(k3_cell_create(request, &o->cell, err));
    CHECK_OK(k3_region_create(&o->cell, &world, &options, &o->region, err));
}

static inline void open_check(opened_t *o)
{
    CHECK_OK(k3_verify_open(&o->region, true, &o->verify, err));
}

static inline void run_once(opened_t *o)
{
    uint64_t calls, bytes;

    k3_region_fill(&o->region, o->payload);
    calls = k3_alloc_calls();
    bytes = k3_alloc_bytes();
    CHECK_OK(k3_region_run(&o->region, o->payload, err));
    CHECK(k3_alloc_calls() == calls);
    CHECK(k3_alloc_bytes() == bytes);
    o->payload++;
}

static inline void verify(opened_t *o)
{
    k3_verify_all(&o->verify, o->payload - 1);
}

static inline k3_check_t close_region(opened_t *o)
{
    k3_check_t check = {0};

    if (o->verify.oracle != NULL) {
        k3_verify_merge(&o->verify, &check);
    }
    k3_verify_close(&o->verify);
    k3_region_destroy(&o->region);
    k3_weights_destroy(&o->weights);
    k3_cell_destroy(&o->cell);
    k3_oracle_cache_clear();
    return check;
}

#endif
