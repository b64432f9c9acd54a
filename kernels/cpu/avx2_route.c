/* The selection, equal to that of kernels/cpu/scalar.c bit for bit.
 *
 * The sigmoid of all experts is what costs most, and all but a few of them are not needed in full:
 * scores are estimated first, within ESTIMATE of what the scalar code computes. Of 32 strided parts
 * of the estimates the largest are taken; the k-th largest of these is a bound that at least k
 * estimates reach, so that no score of the k best is estimated more than 2 ESTIMATE below it. What
 * is left, a few more than k, is computed in full and put in order. */
#include "kernels/cpu/avx2_functions.h"

#if defined(__x86_64__)

#include <math.h>

enum {
    EXPERTS_MAX = 1024, /* more, or fewer than PARTS, are left to the plain selection */
    PARTS = 32,
    CANDIDATES = 128
};

/* The quadratic is within 0.0018 of 2^f, relative, which moves a sigmoid by a quarter of it at most;
 * the reciprocal adds 0.0004, and the sum with a bias below LARGEST twice 0.00003. tests/unit proves
 * it over the range of f32. */
#define ESTIMATE 1e-3f
#define LARGEST  500.0f

static const float power_terms[] = {1.00044388f, 0.703448021f, 0.238425266f};

/* sigmoid(x), roughly. */
K3_AVX2_INLINE __m256 estimate(__m256 x)
{
    const __m256 round = _mm256_set1_ps(K3_EXP_ROUND), one = _mm256_set1_ps(1.0f);
    __m256       t = _mm256_mul_ps(x, _mm256_set1_ps(-K3_LOG2_E)), k, f, p;
    __m256i      exponent;

    t = _mm256_max_ps(_mm256_min_ps(t, _mm256_set1_ps(100.0f)), _mm256_set1_ps(-100.0f));
    k = _mm256_add_ps(t, round);
    f = _mm256_sub_ps(t, _mm256_sub_ps(k, round));
    p = _mm256_fmadd_ps(f, _mm256_set1_ps(power_terms[2]), _mm256_set1_ps(power_terms[1]));
    p = _mm256_fmadd_ps(f, p, _mm256_set1_ps(power_terms[0]));
    exponent = _mm256_slli_epi32(_mm256_castps_si256(k), 23); /* the low bits of k are an integer */
    p = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
    return _mm256_rcp_ps(_mm256_add_ps(one, p));
}

K3_AVX2_INLINE __m256 without_nan(__m256 value, __m256 a, __m256 b)
{
    return _mm256_blendv_ps(value, _mm256_set1_ps(-INFINITY), _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}

/* Estimated scores of `experts`, -infinity for NaN and behind the end; the largest of each part. */
K3_AVX2_INLINE void estimate_all(const float *logits, const float *bias, size_t experts,
                                 float *scores, __m256 most[4])
{
    const __m256 least = _mm256_set1_ps(-INFINITY);
    size_t       i = 0;

    most[0] = most[1] = most[2] = most[3] = least;
    for (; i + 8 <= experts; i += 8) {
        __m256 x = _mm256_loadu_ps(logits + i), b = _mm256_loadu_ps(bias + i);
        __m256 value = without_nan(_mm256_add_ps(estimate(x), b), x, b);

        _mm256_store_ps(scores + i, value);
        most[i / 8 % 4] = _mm256_max_ps(most[i / 8 % 4], value);
    }
    for (size_t end = (experts + 7) / 8 * 8; i < end; i++) {
        float value = i < experts ? k3_sigmoid(logits[i]) + bias[i] : -INFINITY;

        scores[i] = isnan(value) ? -INFINITY : value;
    }
}

/* The k-th largest of the parts' largest, k <= PARTS: the least of those that fewer than k exceed. */
K3_AVX2_INLINE float bound_of(const __m256 most[4], size_t k)
{
    _Alignas(32) float values[PARTS];
    __m256i above[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                        _mm256_setzero_si256()};
    __m256  least = _mm256_set1_ps(INFINITY);
    float   bound = INFINITY;

    for (size_t p = 0; p < 4; p++) {
        _mm256_store_ps(values + 8 * p, most[p]);
    }
    for (size_t i = 0; i < PARTS; i++) {
        __m256 other = _mm256_set1_ps(values[i]);

        for (size_t p = 0; p < 4; p++) {
            __m256 larger = _mm256_cmp_ps(other, most[p], _CMP_GT_OQ);

            above[p] = _mm256_sub_epi32(above[p], _mm256_castps_si256(larger));
        }
    }
    for (size_t p = 0; p < 4; p++) {
        __m256i few = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)k), above[p]);

        least = _mm256_min_ps(
            least, _mm256_blendv_ps(_mm256_set1_ps(INFINITY), most[p], _mm256_castsi256_ps(few)));
    }
    _mm256_store_ps(values, least);
    for (size_t i = 0; i < 8; i++) {
        bound = values[i] < bound ? values[i] : bound;
    }
    return bound;
}

/* The lanes that are set in a mask, the first ones first. */
static uint8_t lanes_of[256][8];

void k3_avx2_prepare_route(void)
{
    for (unsigned mask = 0; mask < 256; mask++) {
        size_t count = 0;

        for (uint8_t lane = 0; lane < 8; lane++) {
            if ((mask >> lane & 1) != 0) {
                lanes_of[mask][count++] = lane;
            }
        }
    }
}

/* The ids of scores that reach the bound, rising, and up to 8 values behind them that mean nothing;
 * more than CANDIDATES: there are more. Without a branch on what is found, which nothing foretells. */
K3_AVX2_INLINE size_t collect(const float *scores, size_t experts, float bound, int32_t *ids)
{
    const __m256 limit = _mm256_set1_ps(bound);
    size_t       count = 0;

    for (size_t i = 0; i < experts && count <= CANDIDATES; i += 8) {
        __m256   reach = _mm256_cmp_ps(_mm256_load_ps(scores + i), limit, _CMP_GE_OQ);
        unsigned mask = (unsigned)_mm256_movemask_ps(reach);
        __m128i  lanes = _mm_loadl_epi64((const __m128i *)(const void *)lanes_of[mask]);
        __m256i  found =
            _mm256_add_epi32(_mm256_cvtepu8_epi32(lanes), _mm256_set1_epi32((int32_t)i));

        _mm256_storeu_si256((__m256i *)(void *)(ids + count), found);
        count += (size_t)__builtin_popcount(mask);
    }
    return count;
}

/* Places of the candidates in falling order, an equal earlier one first: how many are before. */
K3_AVX2_INLINE void place(const float *values, size_t count, int32_t *places)
{
    size_t end = (count + 7) / 8 * 8;

    for (size_t j = 0; j < end; j += 8) {
        __m256  own = _mm256_load_ps(values + j);
        __m256i at =
            _mm256_add_epi32(_mm256_set1_epi32((int)j), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        __m256i before = _mm256_setzero_si256();

        for (size_t i = 0; i < count; i++) {
            __m256  other = _mm256_set1_ps(values[i]);
            __m256i larger = _mm256_castps_si256(_mm256_cmp_ps(other, own, _CMP_GT_OQ));
            __m256i equal = _mm256_castps_si256(_mm256_cmp_ps(other, own, _CMP_EQ_OQ));
            __m256i earlier = _mm256_cmpgt_epi32(at, _mm256_set1_epi32((int)i));

            before =
                _mm256_sub_epi32(before, _mm256_or_si256(larger, _mm256_and_si256(equal, earlier)));
        }
        _mm256_store_si256((__m256i *)(places + j), before);
    }
}

/* The scores of the candidates in full, -infinity behind them. */
K3_AVX2_INLINE void score(const float *logits, const float *bias, const int32_t *candidates,
                          size_t count, float *values)
{
    for (size_t first = 0; first < count; first += 8) {
        _Alignas(32) float x[8] = {0}, b[8];
        __m256             value;

        for (size_t i = 0; i < 8; i++) {
            bool is = first + i < count;

            x[i] = is ? logits[candidates[first + i]] : 0.0f;
            b[i] = is ? bias[candidates[first + i]] : -INFINITY;
        }
        value = _mm256_add_ps(k3_sigmoid8(_mm256_load_ps(x)), _mm256_load_ps(b));
        _mm256_store_ps(values + first, value);
    }
}

/* False: to be done the plain way. */
K3_AVX2 static bool select_ids(const float *logits, const float *bias, size_t experts, size_t k,
                               int32_t *ids)
{
    _Alignas(32) float   scores[EXPERTS_MAX], values[CANDIDATES];
    _Alignas(32) int32_t candidates[CANDIDATES + 16], places[CANDIDATES];
    __m256               most[4], largest;
    float                bound;
    size_t               count;

    estimate_all(logits, bias, experts, scores, most);
    bound = bound_of(most, k);
    largest = _mm256_max_ps(_mm256_max_ps(most[0], most[1]), _mm256_max_ps(most[2], most[3]));
    largest = _mm256_cmp_ps(largest, _mm256_set1_ps(LARGEST), _CMP_GT_OQ);
    if (!(bound >= -LARGEST) || _mm256_movemask_ps(largest) != 0) {
        return false;
    }
    count = collect(scores, experts, bound - 2 * ESTIMATE, candidates);
    if (count < k || count > CANDIDATES) {
        return false;
    }
    score(logits, bias, candidates, count, values);
    place(values, count, places);
    for (size_t i = 0; i < count; i++) {
        if ((size_t)places[i] < k) {
            ids[places[i]] = candidates[i];
        }
    }
    return true;
}

K3_AVX2 void k3_avx2_route_weights(const float *logits, size_t k, const int32_t *ids,
                                   float *weights)
{
    float sum = 0.0f;

    for (size_t first = 0; first < k; first += 8) {
        size_t             count = k - first < 8 ? k - first : 8;
        _Alignas(32) float some[8] = {0};

        for (size_t i = 0; i < count; i++) {
            some[i] = ids[first + i] < 0 ? 0.0f : logits[ids[first + i]];
        }
        _mm256_store_ps(some, k3_sigmoid8(_mm256_load_ps(some)));
        for (size_t i = 0; i < count; i++) {
            weights[first + i] = ids[first + i] < 0 ? 0.0f : some[i];
            sum += weights[first + i];
        }
    }
    for (size_t i = 0; i < k; i++) {
        weights[i] /= sum + 1e-20f;
    }
}

K3_AVX2 static void route_values(const float *logits, const float *bias, size_t n, float *out)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(out + i, _mm256_add_ps(k3_sigmoid8(_mm256_loadu_ps(logits + i)),
                                                _mm256_loadu_ps(bias + i)));
    }
    for (; i < n; i++) {
        out[i] = k3_sigmoid(logits[i]) + bias[i];
    }
}

void k3_avx2_route(const float *logits, const float *bias, size_t experts, size_t k, int32_t *ids,
                   float *weights)
{
    bool fits = experts >= 8 * PARTS && experts <= EXPERTS_MAX && k <= PARTS;

    if (fits && select_ids(logits, bias, experts, k, ids)) {
        k3_avx2_route_weights(logits, k, ids, weights);
        return;
    }
    k3_route_by(route_values, logits, bias, experts, k, ids, weights);
}

#endif
