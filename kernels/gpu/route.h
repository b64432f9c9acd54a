/* The selection: a warp for each row, each lane with every k3_warp-th expert. */
#ifndef K3_KERNELS_GPU_ROUTE_H
#define K3_KERNELS_GPU_ROUTE_H

#include "kernels/gpu/gpu.h"
#include "kernels/gpu/numbers.h"

constexpr unsigned k3_route_experts = 1024; /* the most */
constexpr unsigned k3_route_of_lane = k3_route_experts / k3_warp;

/* Larger for a larger value, and among equal ones for a lower id; 0 is below all. NaN goes last. */
K3_DEVICE uint64_t k3_route_key(float value, uint32_t id)
{
    uint32_t bits = k3_as_bits(value + 0.0f);

    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        bits = 0xff800000u; /* -infinity */
    }
    bits ^= bits >> 31 != 0 ? 0xffffffffu : 0x80000000u;
    return (uint64_t)bits << 32 | (0xffffffffu - id);
}

K3_KERNEL k3_route_rows(k3_gpu_route_t a)
{
    uint64_t row = (uint64_t)k3_block(0) * k3_warps + k3_thread() / k3_warp;
    uint64_t keys[k3_route_of_lane];
    float    scores[k3_route_of_lane], sum = 0, my_score = 0;
    int32_t  my_id = -1;

    if (row >= a.rows) {
        return;
    }
#pragma unroll
    for (unsigned j = 0; j < k3_route_of_lane; j++) {
        uint32_t id = j * k3_warp + k3_lane();

        keys[j] = 0;
        if (id < a.experts) {
            scores[j] = k3_gpu_sigmoid(k3_load(a.logits + row * a.experts + id));
            keys[j] = k3_route_key(scores[j] + k3_load(a.bias + id), id);
        }
    }
    for (unsigned i = 0; i < a.k; i++) {
        uint64_t mine = 0, best;
        float    score = 0;
        int32_t  id = -1;

#pragma unroll
        for (unsigned j = 0; j < k3_route_of_lane; j++) {
            if (keys[j] > mine) {
                mine = keys[j];
                score = scores[j];
            }
        }
        best = k3_max_over(mine, k3_warp);
        if (best != 0) {
            id = (int32_t)(0xffffffffu - (uint32_t)best);
        }
        score = k3_shuffle(score, id < 0 ? 0 : (unsigned)id % k3_warp);
        score = id < 0 ? 0.0f : score;
#pragma unroll
        for (unsigned j = 0; j < k3_route_of_lane; j++) {
            keys[j] = keys[j] == best ? 0 : keys[j];
        }
        sum += score;
        if (k3_lane() == i) {
            my_id = id;
            my_score = score;
        }
    }
    if (k3_lane() < a.k) {
        k3_store(a.ids + row * a.k + k3_lane(), my_id);
        k3_store(a.weights + row * a.k + k3_lane(), my_score / (sum + 1e-20f));
    }
}

/* A warp for each row, a lane for each of its ids. */
K3_KERNEL k3_weigh_ids(k3_gpu_weigh_t a)
{
    uint64_t row = (uint64_t)k3_block(0) * k3_warps + k3_thread() / k3_warp;
    float    score = 0, sum = 0;

    if (row >= a.rows) {
        return;
    }
    if (k3_lane() < a.k) {
        int32_t id = k3_load(a.ids + row * a.k + k3_lane());

        score = id < 0 ? 0.0f : k3_gpu_sigmoid(k3_load(a.logits + row * a.experts + id));
    }
    for (unsigned i = 0; i < a.k; i++) {
        sum += k3_shuffle(score, i);
    }
    if (k3_lane() < a.k) {
        k3_store(a.weights + row * a.k + k3_lane(), score / (sum + 1e-20f));
    }
}

#endif
