/* Weighted and plain sums of rows, equal to kernels/cpu/scalar.c bit for bit.
 *
 * The rows of a token lie anywhere, as many as experts were chosen. Side by side they are more
 * streams than a processor fetches ahead, and each is short. So rows are added a few in a turn, all
 * their columns, to sums that stay in the first-level cache, and the next lines are asked for. The
 * order of the additions to one sum is that of the rows. */
#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

enum {
    TOGETHER = 4,   /* rows in a turn */
    COLUMNS = 3584, /* sums at a time, less than half of the first-level cache */
    AHEAD = 512,    /* bytes of a row asked of memory before they are read */
    LINE = 64 / 2   /* values of a cache line */
};

typedef struct k3_turn {
    const uint16_t *rows[TOGETHER];
    float           weights[TOGETHER];
    size_t          count;
    bool            is_first, is_last;
} k3_turn_t;

static size_t next_row(const uint16_t *const *rows, size_t k, size_t at)
{
    while (at < k && rows[at] == NULL) {
        at++;
    }
    return at;
}

/* The next rows from `at` on, which moves to the one behind them. */
static k3_turn_t next_turn(const uint16_t *const *rows, const float *weights, size_t k, size_t *at)
{
    k3_turn_t turn = {.count = 0};

    while (*at < k && turn.count < TOGETHER) {
        turn.rows[turn.count] = rows[*at];
        turn.weights[turn.count++] = weights == NULL ? 1.0f : weights[*at];
        *at = next_row(rows, k, *at + 1);
    }
    turn.is_last = *at >= k;
    return turn;
}

/* 16 columns from i on, of which `left` are in the rows, to their sums or, in the last turn, to
 * `out`. */
K3_AVX2_INLINE void add_columns(size_t count, const k3_turn_t *turn, size_t i, size_t left,
                                float *sums, uint16_t *out)
{
    k3_f32x16_t sum = {_mm256_setzero_ps(), _mm256_setzero_ps()};

    if (!turn->is_first) {
        sum.low = _mm256_load_ps(sums);
        sum.high = _mm256_load_ps(sums + 8);
    }
    for (size_t r = 0; r < count; r++) {
        k3_f32x16_t value = k3_load_bf16(turn->rows[r] + i, left);
        __m256      weight = _mm256_set1_ps(turn->weights[r]);

        sum.low = _mm256_add_ps(sum.low, _mm256_mul_ps(value.low, weight));
        sum.high = _mm256_add_ps(sum.high, _mm256_mul_ps(value.high, weight));
    }
    if (turn->is_last) {
        k3_store_bf16(out + i, left, sum);
    } else {
        _mm256_store_ps(sums, sum.low);
        _mm256_store_ps(sums + 8, sum.high);
    }
}

/* Columns first to end of `count` (a constant) rows. */
K3_AVX2_INLINE void add_rows(size_t count, const k3_turn_t *turn, size_t first, size_t end,
                             float *sums, uint16_t *out)
{
    size_t i = first;

    for (; i + LINE <= end; i += LINE) {
        for (size_t r = 0; r < count; r++) { /* an address that is nobody's does no harm */
            _mm_prefetch((const char *)((uintptr_t)(turn->rows[r] + i) + AHEAD), _MM_HINT_T0);
        }
        add_columns(count, turn, i, 16, sums + (i - first), out);
        add_columns(count, turn, i + 16, 16, sums + (i - first) + 16, out);
    }
    for (; i < end; i += 16) {
        add_columns(count, turn, i, end - i, sums + (i - first), out);
    }
}

K3_AVX2 static void run_turn(const k3_turn_t *turn, size_t first, size_t end, float *sums,
                             uint16_t *out)
{
    switch (turn->count) {
    case 0:
        add_rows(0, turn, first, end, sums, out);
        break;
    case 1:
        add_rows(1, turn, first, end, sums, out);
        break;
    case 2:
        add_rows(2, turn, first, end, sums, out);
        break;
    case 3:
        add_rows(3, turn, first, end, sums, out);
        break;
    default:
        add_rows(TOGETHER, turn, first, end, sums, out);
        break;
    }
}

void k3_avx2_combine(const uint16_t *const *rows, const float *weights, size_t k, size_t n,
                     uint16_t *out)
{
    _Alignas(32) float sums[COLUMNS];

    for (size_t first = 0; first < n; first += COLUMNS) {
        size_t    end = n - first < COLUMNS ? n : first + COLUMNS;
        size_t    at = next_row(rows, k, 0);
        k3_turn_t turn;

        for (bool is_first = true; is_first || at < k; is_first = false) {
            turn = next_turn(rows, weights, k, &at);
            turn.is_first = is_first;
            run_turn(&turn, first, end, sums, out);
        }
    }
}

void k3_avx2_sum(const uint16_t *const *parts, size_t count, size_t n, uint16_t *out)
{
    k3_avx2_combine(parts, NULL, count, n, out);
}

#endif
