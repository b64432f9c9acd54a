/* The expert MLP's GEMM on bf16 units, written once: a source file includes the simd_ISA.h of its
 * unit and then this. No include guard on purpose.
 *
 * Panels of 32 columns of MXFP4 weights are decoded to bf16, exactly, in the caches, and multiplied by
 * 16 or 32 rows at a time. A weight is decoded once for up to K3_EXPERT_CHUNK rows; nothing but its
 * 32 values is needed to decode a group, so that a panel's depth is any number of groups. */

/* Values first .. end of row j of w to a column of the panel. A group's codes become words: the
 * byte of two codes in a 32-bit lane, the upper code moved up. The lower word keeps a bit of the
 * upper code in its index, so the table is there twice. */
K3_SIMD_INLINE void fill_column(const k3_matrix_t *w, size_t j, size_t first, size_t end,
                                uint16_t *to)
{
    const uint8_t *values = w->values + j * (w->columns / 2);
    const uint8_t *scales = (const uint8_t *)w->scales + j * (w->columns / K3_BF16_GROUP);
    uintptr_t      next = (uintptr_t)values + K3_BF16_COLUMNS * (w->columns / 2);

    for (size_t k = first; k < end; k += K3_BF16_GROUP, to += K3_BF16_COLUMNS * K3_BF16_GROUP) {
        const uint16_t *scaled = k3_bf16_weights[scales[k / K3_BF16_GROUP]];
        __m512i         table =
            _mm512_broadcast_i64x4(_mm256_load_si256((const __m256i *)(const void *)scaled));
        __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(values + k / 2)));

        _mm_prefetch((const char *)(next + k / 2), _MM_HINT_T1);
        codes = _mm512_or_si512(codes, _mm512_slli_epi32(codes, 12));
        _mm512_storeu_si512(to, _mm512_permutexvar_epi16(codes, table));
    }
}

K3_SIMD static void fill_panel(const k3_matrix_t *w, size_t j, size_t count, size_t first,
                               size_t end, uint16_t *panel)
{
    for (size_t c = 0; c < count; c++) {
        fill_column(w, j + c, first, end, panel + c * K3_BF16_GROUP);
    }
    for (size_t c = count; c < K3_BF16_COLUMNS; c++) {
        for (size_t g = 0; g < (end - first) / K3_BF16_GROUP; g++) {
            memset(panel + (g * K3_BF16_COLUMNS + c) * K3_BF16_GROUP, 0,
                   sizeof *panel * K3_BF16_GROUP);
        }
    }
}

/* All rows against the panel, over values first .. end. `stride`: of x from tile to tile. */
K3_SIMD static void panel_rows(const uint16_t *panel, const uint16_t *x, size_t stride, size_t m,
                               size_t first, size_t end, float *sums)
{
    size_t groups = (end - first) / K3_BF16_GROUP, i = 0;

    x += first * K3_BF16_ROWS;
    for (; i + K3_BF16_ROWS < m; i += 2 * K3_BF16_ROWS, x += 2 * stride) {
        k3_block_wide(groups, panel, x, x + stride, sums + i);
    }
    if (i < m) {
        k3_block_narrow(groups, panel, x, sums + i);
    }
}

K3_SIMD void K3_SIMD_NAME(gemm)(const k3_matrix_t *w, const void *x, size_t m, size_t first,
                                size_t count, float *y)
{
    _Alignas(64) float    sums[K3_GEMM_COLUMNS * K3_EXPERT_CHUNK];
    _Alignas(64) uint16_t panel[K3_BF16_COLUMNS * K3_BF16_DEPTH];

    memset(sums, 0, sizeof sums);
    k3_block_begin();
    for (size_t k = 0; k < w->columns; k += K3_BF16_DEPTH) {
        size_t end = w->columns - k < K3_BF16_DEPTH ? w->columns : k + K3_BF16_DEPTH;

        for (size_t c = 0; c < count; c += K3_BF16_COLUMNS) {
            size_t left = count - c;

            fill_panel(w, first + c, left < K3_BF16_COLUMNS ? left : K3_BF16_COLUMNS, k, end,
                       panel);
            panel_rows(panel, x, K3_BF16_ROWS * k3_padded(w->columns), m, k, end,
                       sums + c * K3_EXPERT_CHUNK);
        }
    }
    k3_block_end();
    for (size_t i = 0; i < m; i++) {
        for (size_t c = 0; c < count; c++) {
            y[i * k3_padded(w->rows) + first + c] = sums[c * K3_EXPERT_CHUNK + i];
        }
    }
}

_Static_assert(K3_GEMM_COLUMNS % K3_BF16_COLUMNS == 0, "panels have to fit");
_Static_assert(K3_EXPERT_CHUNK % (2 * K3_BF16_ROWS) == 0, "tiles have to fit");
