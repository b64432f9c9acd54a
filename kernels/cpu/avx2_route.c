/* The selection, equal to that of kernels/cpu/scalar.c bit for bit.
 *
 * The sigmoid of all experts is what costs most, and all but a few of them are not needed in full:
 * scores are estimated first, within ESTIMATE of what the scalar code computes. Of 32 strided parts
 * of the estimates the largest are taken; the k-th largest of these is a bound that at least k
 * estimates reach, so that no score of the k best is estimated more than 2 ESTIMATE below it. What
 * is left, a few more than k, is computed in full and put in order. A logit that is NaN is estimated
 * like -infinity: where it counts it is among what is left, and then the row is done plainly. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize") /* numbers go to memory faster one by one */
#endif

#include "kernels/cpu/avx2_functions.h"

#if defined(__x86_64__)

#include <math.h>

enum {
    EXPERTS_MAX = 1024, /* more, or fewer than PARTS, are left to the plain selection */
    PARTS = 32,
    CANDIDATES = 128,
    SEVERAL = 4 /* candidates of 64 experts that are found without a branch */
};

/* The bits of a float are near a line of its logarithm: those of 2^t are near (127 + t) 2^23. With
 * t = log2(e) x / 2 the error of 2^t over that of 2^-t, e^x, is at most 0.0102, relative, which moves
 * a sigmoid by a quarter of it at most; the reciprocal adds 0.0004, and the sum with a bias below
 * LARGEST twice 0.00003. tests/unit proves it over the range of f32. */
#define ESTIMATE 3e-3f
#define LARGEST  500.0f
#define FAR      32.0f /* a sigmoid of more is 1 */
#define ONE_BITS 0x3f800000

/* sigmoid(x), roughly; 0 for NaN. */
K3_AVX2_INLINE __m256 estimate(__m256 x)
{
    const __m256 slope = _mm256_set1_ps(0.5f * K3_LOG2_E * 0x1p23f);
    const __m256 one = _mm256_set1_ps((float)ONE_BITS);
    __m256i      bits;
    __m256       up, down;

    /* min and max return their second operand where one is NaN. */
    x = _mm256_max_ps(_mm256_min_ps(_mm256_set1_ps(FAR), x), _mm256_set1_ps(-FAR));
    bits = _mm256_cvtps_epi32(_mm256_fmadd_ps(x, slope, one));
    up = _mm256_castsi256_ps(bits);
    down = _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_set1_epi32(2 * ONE_BITS), bits));
    return _mm256_mul_ps(up, _mm256_rcp_ps(_mm256_add_ps(up, down)));
}

/* Estimated scores of 8 experts; NaN where the bias is. */
K3_AVX2_INLINE __m256 estimate_at(const float *logits, const float *bias, float *scores)
{
    __m256 value = _mm256_add_ps(estimate(_mm256_loadu_ps(logits)), _mm256_loadu_ps(bias));

    _mm256_store_ps(scores, value);
    return value;
}

/* Estimated scores of `experts`, -infinity behind the end up to a multiple of 64; the largest of each
 * part. */
K3_AVX2_INLINE void estimate_all(const float *logits, const float *bias, size_t experts,
                                 float *scores, __m256 most[4])
{
    size_t i = 0;

    for (size_t p = 0; p < 4; p++) {
        most[p] = _mm256_set1_ps(-INFINITY);
    }
    for (; i + 32 <= experts; i += 32) {
        for (size_t p = 0; p < 4; p++) {
            size_t at = i + 8 * p;

            most[p] = _mm256_max_ps(estimate_at(logits + at, bias + at, scores + at), most[p]);
        }
    }
    for (; i < (experts + 63) / 64 * 64; i += 32) {
        _Alignas(32) float x[32], b[32];

        for (size_t e = 0; e < 32; e++) {
            x[e] = i + e < experts ? logits[i + e] : 0.0f;
            b[e] = i + e < experts ? bias[i + e] : -INFINITY;
        }
        for (size_t p = 0; p < 4; p++) {
            most[p] = _mm256_max_ps(estimate_at(x + 8 * p, b + 8 * p, scores + i + 8 * p), most[p]);
        }
    }
}

/* *a the larger ones. */
K3_AVX2_INLINE void order(__m256 *a, __m256 *b)
{
    __m256 larger = _mm256_max_ps(*a, *b);

    *b = _mm256_min_ps(*a, *b);
    *a = larger;
}

/* `value` where at least k of the parts' largest reach it, else -infinity. */
K3_AVX2_INLINE __m256 where_reached(__m256 value, __m256i count, size_t k)
{
    __m256i enough = _mm256_cmpgt_epi32(count, _mm256_set1_epi32((int)k - 1));

    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), value, _mm256_castsi256_ps(enough));
}

/* A value that at least k <= PARTS of the parts' largest reach: of all those of two ranks, each
 * lane's four being put in order, the largest. All of rank r are reached by the 8 (r + 1) of ranks
 * 0 to r. `most` comes back in order. */
K3_AVX2_INLINE float bound_of(__m256 most[4], size_t k)
{
    size_t             rank = k <= 8 ? 0 : k <= 16 ? 1 : 2;
    _Alignas(32) float values[PARTS];
    __m256             a, b;
    __m256i            of_a = _mm256_setzero_si256(), of_b = of_a;
    __m128             half;

    order(&most[0], &most[1]);
    order(&most[2], &most[3]);
    order(&most[0], &most[2]);
    order(&most[1], &most[3]);
    order(&most[1], &most[2]);
    for (size_t p = 0; p < 4; p++) {
        _mm256_store_ps(values + 8 * p, most[p]);
    }
    a = _mm256_load_ps(values + 8 * rank);
    b = _mm256_load_ps(values + 8 * rank + 8);
    for (size_t i = 0; i < PARTS; i++) {
        __m256 other = _mm256_set1_ps(values[i]);

        of_a = _mm256_sub_epi32(of_a, _mm256_castps_si256(_mm256_cmp_ps(other, a, _CMP_GE_OQ)));
        of_b = _mm256_sub_epi32(of_b, _mm256_castps_si256(_mm256_cmp_ps(other, b, _CMP_GE_OQ)));
    }
    a = _mm256_max_ps(where_reached(a, of_a, k), where_reached(b, of_b, k));
    half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

/* A bit for each of 32 scores that reaches the limit. */
K3_AVX2_INLINE uint32_t reach(const float *scores, __m256 limit)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i       is[4], bytes;

    for (size_t p = 0; p < 4; p++) {
        is[p] =
            _mm256_castps_si256(_mm256_cmp_ps(_mm256_load_ps(scores + 8 * p), limit, _CMP_GE_OQ));
    }
    bytes = _mm256_packs_epi16(_mm256_packs_epi32(is[0], is[1]), _mm256_packs_epi32(is[2], is[3]));
    return (uint32_t)_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, order));
}

/* The ids of scores that reach the bound, rising, and up to SEVERAL values behind them that mean
 * nothing; more than CANDIDATES: there are more. Where what is found decides on a branch nothing
 * foretells it, so the branch is left to what is seldom. */
K3_AVX2_INLINE size_t collect(const float *scores, size_t experts, float bound, int32_t *ids)
{
    const __m256 limit = _mm256_set1_ps(bound);
    size_t       count = 0;

    for (size_t i = 0; i < experts && count <= CANDIDATES; i += 64) {
        uint64_t left = reach(scores + i, limit) | (uint64_t)reach(scores + i + 32, limit) << 32;
        size_t   found = (size_t)__builtin_popcountll(left);

        for (size_t n = 0; n < SEVERAL; n++) {
            ids[count + n] = (int32_t)i + __builtin_ctzll(left | (uint64_t)1 << 63);
            left &= left - 1;
        }
        for (size_t n = SEVERAL; n < found; n++) {
            ids[count + n] = (int32_t)i + __builtin_ctzll(left);
            left &= left - 1;
        }
        count += found;
    }
    return count;
}

/* The candidates, up to a multiple of 8. */
typedef struct k3_candidates {
    _Alignas(32) float sigmoid[CANDIDATES];
    _Alignas(32) float score[CANDIDATES];
    int32_t id[CANDIDATES + 64]; /* what one step more may find */
    size_t  count;
} k3_candidates_t;

/* In full; -infinity behind them. False: there is a NaN. */
K3_AVX2_INLINE bool score(const float *logits, const float *bias, k3_candidates_t *c)
{
    __m256 nan = _mm256_setzero_ps();
    size_t i = 0;

    for (; i < c->count; i++) {
        c->sigmoid[i] = logits[c->id[i]];
        c->score[i] = bias[c->id[i]];
    }
    for (; i % 8 != 0; i++) {
        c->sigmoid[i] = 0.0f;
        c->score[i] = -INFINITY;
    }
    for (i = 0; i < c->count; i += 8) {
        __m256 s = k3_sigmoid8(_mm256_load_ps(c->sigmoid + i));
        __m256 value = _mm256_add_ps(s, _mm256_load_ps(c->score + i));

        _mm256_store_ps(c->sigmoid + i, s);
        _mm256_store_ps(c->score + i, value);
        nan = _mm256_or_ps(nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    }
    return _mm256_movemask_ps(nan) == 0;
}

/* before + how many of 8 others are larger than `own`. */
K3_AVX2_INLINE __m256i add_larger(__m256i before, const float *others, __m256 own)
{
    for (size_t i = 0; i < 8; i++) {
        __m256 larger = _mm256_cmp_ps(_mm256_set1_ps(others[i]), own, _CMP_GT_OQ);

        before = _mm256_sub_epi32(before, _mm256_castps_si256(larger));
    }
    return before;
}

/* The same of those that are not less. */
K3_AVX2_INLINE __m256i add_not_less(__m256i before, const float *others, __m256 own)
{
    for (size_t i = 0; i < 8; i++) {
        __m256 not_less = _mm256_cmp_ps(_mm256_set1_ps(others[i]), own, _CMP_GE_OQ);

        before = _mm256_sub_epi32(before, _mm256_castps_si256(not_less));
    }
    return before;
}

/* The others are the same 8: an equal one is before a later one. */
K3_AVX2_INLINE __m256i add_own(__m256i before, const float *others, __m256 own)
{
    const __m256i at = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    before = add_larger(before, others, own);
    for (int i = 0; i < 7; i++) {
        __m256  equal = _mm256_cmp_ps(_mm256_set1_ps(others[i]), own, _CMP_EQ_OQ);
        __m256i later = _mm256_cmpgt_epi32(at, _mm256_set1_epi32(i));

        before = _mm256_sub_epi32(before, _mm256_and_si256(_mm256_castps_si256(equal), later));
    }
    return before;
}

/* Places of the candidates in falling order, an equal earlier one first: how many are before. */
K3_AVX2_INLINE void place(const float *values, size_t count, int32_t *places)
{
    for (size_t j = 0; j < count; j += 8) {
        __m256  own = _mm256_load_ps(values + j);
        __m256i before = add_own(_mm256_setzero_si256(), values + j, own);

        for (size_t i = 0; i < j; i += 8) {
            before = add_not_less(before, values + i, own);
        }
        for (size_t i = j + 8; i < count; i += 8) {
            before = add_larger(before, values + i, own);
        }
        _mm256_store_si256((__m256i *)(places + j), before);
    }
}

/* weights /= their sum, which is taken in order. */
K3_AVX2_INLINE void normalise(float *weights, size_t k)
{
    float sum = 0.0f;

    for (size_t i = 0; i < k; i++) {
        sum += weights[i];
    }
    for (size_t i = 0; i < k; i++) {
        weights[i] /= sum + 1e-20f;
    }
}

K3_AVX2_INLINE void put_in_order(const k3_candidates_t *c, size_t k, int32_t *ids, float *weights)
{
    _Alignas(32) int32_t places[CANDIDATES];
    int32_t              sorted_ids[CANDIDATES];
    float                sorted[CANDIDATES];

    place(c->score, c->count, places);
    for (size_t i = 0; i < c->count; i++) {
        sorted_ids[places[i]] = c->id[i];
        sorted[places[i]] = c->sigmoid[i];
    }
    memcpy(ids, sorted_ids, sizeof *ids * k);
    memcpy(weights, sorted, sizeof *weights * k);
    normalise(weights, k);
}

/* False: to be done the plain way. */
K3_AVX2 static bool select_few(const float *logits, const float *bias, size_t experts, size_t k,
                               int32_t *ids, float *weights)
{
    _Alignas(32) float scores[EXPERTS_MAX];
    k3_candidates_t    c;
    __m256             most[4], too_large;
    float              bound;

    estimate_all(logits, bias, experts, scores, most);
    bound = bound_of(most, k);
    too_large = _mm256_cmp_ps(most[0], _mm256_set1_ps(LARGEST), _CMP_GT_OQ);
    if (!(bound >= -LARGEST) || _mm256_movemask_ps(too_large) != 0) {
        return false;
    }
    c.count = collect(scores, experts, bound - 2 * ESTIMATE, c.id);
    if (c.count < k || c.count > CANDIDATES || !score(logits, bias, &c)) {
        return false;
    }
    put_in_order(&c, k, ids, weights);
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

    if (fits && select_few(logits, bias, experts, k, ids, weights)) {
        return;
    }
    k3_route_by(route_values, logits, bias, experts, k, ids, weights);
}

#endif
