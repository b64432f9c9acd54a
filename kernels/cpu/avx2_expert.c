/* The expert MLP's GEMM on packed weights.
 *
 * Up to 4 rows: every weight is read once and used from registers; the time is that of reading and
 * unpacking weights. More rows: panels of weights are decoded to f32 in the first-level cache and
 * multiplied by a tile of 4 rows x 3 columns, vectors running along the sum in both operands. */
#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

enum {
    FEW = 4,      /* rows of the streaming version */
    AHEAD = 768,  /* bytes of weights that it fetches before their use */
    COLUMNS = 12, /* of a panel */
    DEPTH = 512,  /* of a panel: 24 KiB */
    ROWS = 4,     /* of a tile */
    TILE = 3      /* columns of a tile */
};

/* The order of the sum: unpacking 32 bytes of MXFP4 (groups of 32 in the two halves) gives 8
 * vectors. Vector v = 4 h + r holds in half g, lane d, value 32 g + 16 h + 4 d + r. Rows are put
 * into this order once. */

K3_AVX2 void k3_avx2_pack(k3_weight_format_t format, const float *row, size_t n, float *packed)
{
    memcpy(packed, row, sizeof *row * n);
    memset(packed + n, 0, sizeof *row * (k3_padded(n) - n));
    if (format != K3_WEIGHT_MXFP4) {
        return;
    }
    for (size_t i = 0; i < k3_padded(n); i += 64) {
        float block[64];

        memcpy(block, packed + i, sizeof block);
        for (size_t v = 0; v < 8; v++) {
            for (size_t lane = 0; lane < 8; lane++) {
                size_t from = lane / 4 * 32 + v / 4 * 16 + lane % 4 * 4 + v % 4;

                packed[i + 8 * v + lane] = block[from];
            }
        }
    }
}

/* Half the vectors of a block: the codes are the even or the odd values. out[0..1] are r = 0 or 1
 * and 2 or 3 of h = 0, out[2..3] of h = 1. */
K3_AVX2_INLINE void unpack_codes(__m256i codes, __m256 out[4])
{
    const __m256i top = _mm256_set1_epi32((int)0xffff0000);
    __m256i       low = k3_e2m1_low(codes);
    __m256i       high = k3_e2m1_high(codes);
    __m256i       a = _mm256_unpacklo_epi8(low, high);
    __m256i       b = _mm256_unpackhi_epi8(low, high);

    out[0] = _mm256_castsi256_ps(_mm256_slli_epi32(a, 16));
    out[1] = _mm256_castsi256_ps(_mm256_and_si256(a, top));
    out[2] = _mm256_castsi256_ps(_mm256_slli_epi32(b, 16));
    out[3] = _mm256_castsi256_ps(_mm256_and_si256(b, top));
}

K3_AVX2_INLINE __m256i even_codes(__m256i packed)
{
    return _mm256_and_si256(packed, _mm256_set1_epi8(15));
}

K3_AVX2_INLINE __m256i odd_codes(__m256i packed)
{
    return _mm256_and_si256(_mm256_srli_epi16(packed, 4), _mm256_set1_epi8(15));
}

/* 64 values; the last block of a row may have only 32, the rest are zeros then. */
K3_AVX2_INLINE __m256i load_block(const uint8_t *values, size_t left)
{
    if (left >= 64) {
        return _mm256_loadu_si256((const __m256i *)values);
    }
    return _mm256_inserti128_si256(_mm256_setzero_si256(), _mm_loadu_si128((const __m128i *)values),
                                   0);
}

/* Scales of 8 groups, 4 blocks. */
K3_AVX2_INLINE __m256 load_scales(const uint8_t *scales, size_t count)
{
    uint64_t bytes = 0;
    __m256i  codes, value;

    memcpy(&bytes, scales, count < 8 ? count : 8);
    codes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
    value = _mm256_slli_epi32(codes, 23);
    value =
        _mm256_or_si256(value, _mm256_and_si256(_mm256_cmpeq_epi32(codes, _mm256_setzero_si256()),
                                                _mm256_set1_epi32(0x00400000)));
    value =
        _mm256_or_si256(value, _mm256_and_si256(_mm256_cmpeq_epi32(codes, _mm256_set1_epi32(255)),
                                                _mm256_set1_epi32(0x00400000)));
    return _mm256_castsi256_ps(value);
}

/* The two scales of block b, each in its half. */
K3_AVX2_INLINE __m256 block_scales(__m256 scales, size_t b)
{
    const __m256i halves = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);

    return _mm256_permutevar8x32_ps(scales,
                                    _mm256_add_epi32(halves, _mm256_set1_epi32((int)(2 * b))));
}

/* --- few rows -------------------------------------------------------------------------------- */

/* sum[r] += scale * (block . x[r]) for m (a constant) rows. The two halves of the vectors make two
 * chains of additions. */
K3_AVX2_INLINE void stream_block(size_t m, __m256i packed, __m256 scale, const float *x,
                                 size_t stride, __m256 *sum)
{
    __m256 w[4], part[FEW], more[FEW];

    unpack_codes(even_codes(packed), w);
    for (size_t r = 0; r < m; r++) {
        const float *row = x + r * stride;

        part[r] = _mm256_mul_ps(w[0], _mm256_load_ps(row));
        part[r] = _mm256_fmadd_ps(w[1], _mm256_load_ps(row + 16), part[r]);
        part[r] = _mm256_fmadd_ps(w[2], _mm256_load_ps(row + 32), part[r]);
        part[r] = _mm256_fmadd_ps(w[3], _mm256_load_ps(row + 48), part[r]);
    }
    unpack_codes(odd_codes(packed), w);
    for (size_t r = 0; r < m; r++) {
        const float *row = x + r * stride;

        more[r] = _mm256_mul_ps(w[0], _mm256_load_ps(row + 8));
        more[r] = _mm256_fmadd_ps(w[1], _mm256_load_ps(row + 24), more[r]);
        more[r] = _mm256_fmadd_ps(w[2], _mm256_load_ps(row + 40), more[r]);
        more[r] = _mm256_fmadd_ps(w[3], _mm256_load_ps(row + 56), more[r]);
    }
    for (size_t r = 0; r < m; r++) {
        sum[r] = _mm256_fmadd_ps(_mm256_add_ps(part[r], more[r]), scale, sum[r]);
    }
}

K3_AVX2_INLINE void stream_row(size_t m, const uint8_t *values, const uint8_t *scales,
                               size_t columns, const float *x, float *sums)
{
    size_t stride = k3_padded(columns);
    __m256 sum[FEW];

    for (size_t r = 0; r < m; r++) {
        sum[r] = _mm256_setzero_ps();
    }
    for (size_t k = 0; k < columns; k += 256) {
        __m256 four = load_scales(scales + k / 32, (columns - k) / 32);
        size_t count = columns - k < 256 ? k3_padded(columns - k) / 64 : 4;

        for (size_t b = 0; b < count; b++) {
            size_t at = k + 64 * b;

            _mm_prefetch((const char *)((uintptr_t)values + at / 2 + AHEAD), _MM_HINT_T1);
            stream_block(m, load_block(values + at / 2, columns - at), block_scales(four, b),
                         x + at, stride, sum);
        }
    }
    for (size_t r = 0; r < m; r++) {
        sums[r] = k3_total(sum[r]);
    }
}

K3_AVX2_INLINE void stream_rows(size_t m, const k3_matrix_t *w, const float *x, float *y)
{
    for (size_t j = 0; j < w->rows; j++) {
        float sums[FEW];

        stream_row(m, w->values + j * (w->columns / 2),
                   (const uint8_t *)w->scales + j * (w->columns / 32), w->columns, x, sums);
        for (size_t r = 0; r < m; r++) {
            y[r * k3_padded(w->rows) + j] = sums[r];
        }
    }
}

K3_AVX2 static void stream(const k3_matrix_t *w, const float *x, size_t m, float *y)
{
    switch (m) {
    case 1:
        stream_rows(1, w, x, y);
        break;
    case 2:
        stream_rows(2, w, x, y);
        break;
    case 3:
        stream_rows(3, w, x, y);
        break;
    default:
        stream_rows(4, w, x, y);
        break;
    }
}

/* --- many rows: panels ----------------------------------------------------------------------- */

/* A panel takes short pieces of many rows, which the hardware does not foresee: fetches the same
 * piece of the next panel's row. Addresses beyond the end do no harm. */
K3_AVX2_INLINE void fetch_next_panel(const k3_matrix_t *w, const uint8_t *values)
{
    size_t bytes = w->format == K3_WEIGHT_MXFP4 ? w->columns / 2 : w->columns;

    _mm_prefetch((const char *)((uintptr_t)values + COLUMNS * bytes), _MM_HINT_T1);
}

K3_AVX2_INLINE void panel_mxfp4(const k3_matrix_t *w, size_t row, size_t first, size_t depth,
                                float *out)
{
    const uint8_t *values = w->values + row * (w->columns / 2);
    const uint8_t *scales = (const uint8_t *)w->scales + row * (w->columns / 32);

    for (size_t k = first; k < first + depth; k += 256) {
        __m256 four = load_scales(scales + k / 32, (w->columns - k) / 32);
        size_t count = first + depth - k < 256 ? k3_padded(first + depth - k) / 64 : 4;

        for (size_t b = 0; b < count; b++, out += 64) {
            size_t  at = k + 64 * b;
            __m256i packed = load_block(values + at / 2, w->columns - at);
            __m256  scale = block_scales(four, b);
            __m256  even[4], odd[4];

            fetch_next_panel(w, values + at / 2);
            unpack_codes(even_codes(packed), even);
            unpack_codes(odd_codes(packed), odd);
            for (size_t v = 0; v < 4; v++) {
                _mm256_store_ps(out + 16 * v, _mm256_mul_ps(even[v], scale));
                _mm256_store_ps(out + 16 * v + 8, _mm256_mul_ps(odd[v], scale));
            }
        }
    }
}

K3_AVX2_INLINE void panel_fp8(const k3_matrix_t *w, size_t row, size_t first, size_t depth,
                              float *out)
{
    const uint8_t *values = w->values + row * w->columns;
    const float   *scales = (const float *)w->scales + row / 128 * ((w->columns + 127) / 128);
    size_t         k = 0;

    for (; k < depth; k += 16) {
        __m256 low, high, scale = _mm256_set1_ps(scales[(first + k) / 128]);

        fetch_next_panel(w, values + first + k);
        k3_e4m3_widen(_mm_loadu_si128((const __m128i *)(values + first + k)), &low, &high);
        _mm256_store_ps(out + k, _mm256_mul_ps(low, scale));
        _mm256_store_ps(out + k + 8, _mm256_mul_ps(high, scale));
    }
    for (; k < k3_padded(depth); k += 8) {
        _mm256_store_ps(out + k, _mm256_setzero_ps());
    }
}

/* Rows row .. row + count of w, `depth` values from `first` each, at steps of DEPTH; columns of the
 * tile beyond are zero. */
K3_AVX2_INLINE void fill_panel(const k3_matrix_t *w, size_t row, size_t count, size_t first,
                               size_t depth, float *panel)
{
    for (size_t c = 0; c < count; c++) {
        if (w->format == K3_WEIGHT_MXFP4) {
            panel_mxfp4(w, row + c, first, depth, panel + c * DEPTH);
        } else {
            panel_fp8(w, row + c, first, depth, panel + c * DEPTH);
        }
    }
    for (size_t c = count; c % TILE != 0; c++) {
        memset(panel + c * DEPTH, 0, sizeof *panel * DEPTH);
    }
}

/* The sums of 4 vectors. */
K3_AVX2_INLINE __m128 totals(__m256 a, __m256 b, __m256 c, __m256 d)
{
    __m256 all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));

    return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

/* `rows` (a constant) x TILE results over `depth`, added to sums[column][row]. */
K3_AVX2_INLINE void tile(size_t rows, const float *x, size_t stride, const float *panel,
                         size_t depth, float *sums)
{
    __m256 sum[TILE][ROWS];

    for (size_t c = 0; c < TILE; c++) {
        for (size_t r = 0; r < ROWS; r++) {
            sum[c][r] = _mm256_setzero_ps();
        }
    }
    for (size_t k = 0; k < depth; k += 8) {
        __m256 w0 = _mm256_load_ps(panel + k);
        __m256 w1 = _mm256_load_ps(panel + DEPTH + k);
        __m256 w2 = _mm256_load_ps(panel + 2 * DEPTH + k);

        for (size_t r = 0; r < rows; r++) {
            __m256 value = _mm256_load_ps(x + r * stride + k);

            sum[0][r] = _mm256_fmadd_ps(w0, value, sum[0][r]);
            sum[1][r] = _mm256_fmadd_ps(w1, value, sum[1][r]);
            sum[2][r] = _mm256_fmadd_ps(w2, value, sum[2][r]);
        }
    }
    for (size_t c = 0; c < TILE; c++) {
        float *to = sums + c * K3_EXPERT_CHUNK;

        _mm_store_ps(
            to, _mm_add_ps(_mm_load_ps(to), totals(sum[c][0], sum[c][1], sum[c][2], sum[c][3])));
    }
}

K3_AVX2 static void tile_rows(size_t rows, const float *x, size_t stride, const float *panel,
                              size_t depth, float *sums)
{
    switch (rows) {
    case 1:
        tile(1, x, stride, panel, depth, sums);
        break;
    case 2:
        tile(2, x, stride, panel, depth, sums);
        break;
    case 3:
        tile(3, x, stride, panel, depth, sums);
        break;
    default:
        tile(4, x, stride, panel, depth, sums);
        break;
    }
}

/* `count` columns of the result from column j. */
K3_AVX2 static void panel_columns(const k3_matrix_t *w, const float *x, size_t m, size_t j,
                                  size_t count, float *y, float *panel)
{
    size_t             stride = k3_padded(w->columns);
    _Alignas(64) float sums[COLUMNS * K3_EXPERT_CHUNK];

    memset(sums, 0, sizeof sums);
    for (size_t k = 0; k < w->columns; k += DEPTH) {
        size_t depth = w->columns - k < DEPTH ? w->columns - k : DEPTH;

        fill_panel(w, j, count, k, depth, panel);
        for (size_t i = 0; i < m; i += ROWS) {
            for (size_t c = 0; c < count; c += TILE) {
                tile_rows(m - i, x + i * stride + k, stride, panel + c * DEPTH, k3_padded(depth),
                          sums + c * K3_EXPERT_CHUNK + i);
            }
        }
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t c = 0; c < count; c++) {
            y[i * k3_padded(w->rows) + j + c] = sums[c * K3_EXPERT_CHUNK + i];
        }
    }
}

K3_AVX2 void k3_avx2_gemm(const k3_matrix_t *w, const float *x, size_t m, float *y, float *panel)
{
    if (w->format == K3_WEIGHT_MXFP4 && m <= FEW) {
        stream(w, x, m, y);
        return;
    }
    for (size_t j = 0; j < w->rows; j += COLUMNS) {
        size_t count = w->rows - j < COLUMNS ? w->rows - j : COLUMNS;

        panel_columns(w, x, m, j, count, y, panel);
    }
}

_Static_assert(COLUMNS *DEPTH <= K3_PANEL_FLOATS, "the panel has to fit");
_Static_assert(K3_EXPERT_CHUNK % ROWS == 0 && COLUMNS % TILE == 0, "tiles have to fit");

#endif
