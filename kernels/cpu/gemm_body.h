/* The expert MLP's GEMM on packed weights, written once for all vector ISAs: a source file includes
 * the simd_ISA.h of its ISA and then this. No include guard on purpose.
 *
 * Up to FEW rows: every weight is decoded in registers and used at once for all rows; the time is
 * that of reading and decoding weights. More rows: panels of weights are decoded to f32 in the
 * first-level cache and multiplied by tiles of 4 rows x K3_TILE columns, vectors running along the
 * sum in both operands. A weight is decoded once for up to K3_EXPERT_CHUNK rows.
 *
 * The order of a result's sum depends on the count of rows and on the ISA, but not on which columns
 * are asked for together: that is what makes results independent of the number of threads. */

enum {
    FEW = 8,      /* rows of the streaming version */
    GROUP = 4,    /* rows of w that it takes against the same piece of x */
    PIECE = 4096, /* floats of x at hand in it: half of the first-level cache */
    WHOLE = 7168, /* the same where one piece is all of x */
    AHEAD = 2048, /* bytes of weights fetched before their use where they come one by one */
    COLUMNS = 12, /* of a panel */
    ROWS = 4,     /* of a tile */
    PAIRS = 4     /* of vectors in a block */
};

/* A row of w. */
typedef struct k3_gemm_row {
    const uint8_t *values;
    const void    *scales;
} k3_gemm_row_t;

/* What the end of a row that is no whole block is copied to. */
typedef struct k3_gemm_rest {
    uint8_t values[K3_BLOCK];
    uint8_t scales[K3_BLOCK / 32];
} k3_gemm_rest_t;

/* Of one of the two formats; the compiler drops the other. */
typedef struct k3_gemm_block {
    k3_mx_block_t  mx;
    k3_fp8_block_t fp8;
} k3_gemm_block_t;

K3_SIMD_INLINE k3_gemm_row_t row_of(k3_weight_format_t format, const k3_matrix_t *w, size_t j)
{
    k3_gemm_row_t row;

    if (format == K3_WEIGHT_MXFP4) {
        row.values = w->values + j * (w->columns / 2);
        row.scales = (const uint8_t *)w->scales + j * (w->columns / 32);
    } else {
        row.values = w->values + j * w->columns;
        row.scales = (const float *)w->scales + j / 128 * ((w->columns + 127) / 128);
    }
    return row;
}

K3_SIMD_INLINE size_t bytes_of(k3_weight_format_t format, size_t values)
{
    return format == K3_WEIGHT_MXFP4 ? values / 2 : values;
}

K3_SIMD_INLINE k3_gemm_block_t open_block(k3_weight_format_t format, k3_gemm_row_t row, size_t at)
{
    k3_gemm_block_t block;

    if (format == K3_WEIGHT_MXFP4) {
        block.mx = k3_mx_open(row.values + at / 2, (const uint8_t *)row.scales + at / 32);
    } else {
        block.fp8 = k3_fp8_open(row.values + at, ((const float *)row.scales)[at / 128]);
    }
    return block;
}

/* The last `left` weights of a row, zeros behind them. */
K3_SIMD_INLINE k3_gemm_block_t open_rest(k3_weight_format_t format, k3_gemm_row_t row, size_t at,
                                         size_t left, k3_gemm_rest_t *rest)
{
    k3_gemm_block_t block;

    memset(rest->values, 0, sizeof rest->values);
    memcpy(rest->values, row.values + bytes_of(format, at), bytes_of(format, left));
    if (format == K3_WEIGHT_MXFP4) {
        memset(rest->scales, 127, sizeof rest->scales);
        memcpy(rest->scales, (const uint8_t *)row.scales + at / 32, left / 32);
        block.mx = k3_mx_open(rest->values, rest->scales);
    } else {
        block.fp8 = k3_fp8_open(rest->values, ((const float *)row.scales)[at / 128]);
    }
    return block;
}

K3_SIMD_INLINE void pair_of(k3_weight_format_t format, k3_gemm_block_t block, size_t pair,
                            k3_vec_t out[2])
{
    if (format == K3_WEIGHT_MXFP4) {
        k3_mx_pair(block.mx, pair, out);
    } else {
        k3_fp8_pair(block.fp8, pair, out);
    }
}

K3_SIMD void K3_SIMD_NAME(pack)(k3_weight_format_t format, float *row, size_t n)
{
    memset(row + n, 0, sizeof *row * (k3_padded(n) - n));
    for (size_t i = 0; format == K3_WEIGHT_MXFP4 && i < k3_padded(n); i += K3_BLOCK) {
        float block[K3_BLOCK];

        memcpy(block, row + i, sizeof block);
        for (size_t v = 0; v < K3_BLOCK / K3_LANES; v++) {
            for (size_t lane = 0; lane < K3_LANES; lane++) {
                row[i + v * K3_LANES + lane] = block[k3_mx_order(v, lane)];
            }
        }
    }
}

/* --- few rows -------------------------------------------------------------------------------- */

/* Independent chains of additions for each row, so that their latency does not count. */
K3_SIMD_INLINE size_t chains_of(size_t m)
{
    return m <= 2 ? 4 : m <= 5 ? 2 : 1;
}

K3_SIMD_INLINE void stream_block(k3_weight_format_t format, size_t m, k3_gemm_block_t block,
                                 const float *x, size_t stride, k3_vec_t sum[][4])
{
    size_t chains = chains_of(m);

    for (size_t pair = 0; pair < PAIRS; pair++) {
        k3_vec_t w[2];

        pair_of(format, block, pair, w);
        for (size_t i = 0; i < m; i++) {
            const float *at = x + i * stride + 2 * pair * K3_LANES;
            k3_vec_t    *a = &sum[i][2 * pair % chains], *b = &sum[i][(2 * pair + 1) % chains];

            *a = k3_vec_fma(w[0], k3_vec_load(at), *a);
            *b = k3_vec_fma(w[1], k3_vec_load(at + K3_LANES), *b);
        }
    }
}

/* Adds the products of `m` (a constant) rows of x with values first .. end of a row of w. */
K3_SIMD_INLINE void stream_piece(k3_weight_format_t format, size_t m, k3_gemm_row_t row,
                                 size_t first, size_t end, size_t ahead, const float *x,
                                 size_t stride, k3_vec_t *total)
{
    k3_vec_t       sum[FEW][4];
    k3_gemm_rest_t rest;
    size_t         at = first;

    for (size_t i = 0; i < m; i++) {
        for (size_t c = 0; c < chains_of(m); c++) {
            sum[i][c] = k3_vec_zero();
        }
    }
    for (; at + K3_BLOCK <= end; at += K3_BLOCK) {
        for (size_t line = 0; line < bytes_of(format, K3_BLOCK); line += 64) {
            __builtin_prefetch(
                (const void *)((uintptr_t)row.values + bytes_of(format, at) + line + ahead));
        }
        stream_block(format, m, open_block(format, row, at), x + at, stride, sum);
    }
    if (at < end) {
        stream_block(format, m, open_rest(format, row, at, end - at, &rest), x + at, stride, sum);
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t c = 1; c < chains_of(m); c++) {
            sum[i][0] = k3_vec_add(sum[i][0], sum[i][c]);
        }
        total[i] = k3_vec_add(total[i], sum[i][0]);
    }
}

/* How much of x is taken at a time. */
K3_SIMD_INLINE size_t piece_of(size_t m, size_t columns)
{
    return m * columns <= WHOLE ? columns : PIECE / m / K3_BLOCK * K3_BLOCK;
}

/* Columns j .. j + count of the result, at most GROUP. */
K3_SIMD_INLINE void stream_group(k3_weight_format_t format, size_t m, const k3_matrix_t *w,
                                 size_t j, size_t count, const float *x, float *y)
{
    size_t   stride = k3_padded(w->columns), piece = piece_of(m, w->columns);
    size_t   ahead = piece < w->columns ? GROUP * bytes_of(format, w->columns) : AHEAD;
    k3_vec_t total[GROUP][FEW];

    for (size_t c = 0; c < count; c++) {
        for (size_t i = 0; i < m; i++) {
            total[c][i] = k3_vec_zero();
        }
    }
    for (size_t k = 0; k < w->columns; k += piece) {
        size_t end = w->columns - k < piece ? w->columns : k + piece;

        for (size_t c = 0; c < count; c++) {
            stream_piece(format, m, row_of(format, w, j + c), k, end, ahead, x, stride, total[c]);
        }
    }
    for (size_t c = 0; c < count; c++) {
        for (size_t i = 0; i < m; i++) {
            y[i * k3_padded(w->rows) + j + c] = k3_vec_total(total[c][i]);
        }
    }
}

K3_SIMD_INLINE void stream_rows(k3_weight_format_t format, size_t m, const k3_matrix_t *w,
                                size_t first, size_t count, const float *x, float *y)
{
    for (size_t j = first; j < first + count; j += GROUP) {
        size_t left = first + count - j;

        stream_group(format, m, w, j, left < GROUP ? left : GROUP, x, y);
    }
}

#define K3_STREAM_ROWS(M)                                                                          \
    case M:                                                                                        \
        stream_rows(format, M, w, first, count, x, y);                                             \
        break

K3_SIMD_INLINE void stream_any(k3_weight_format_t format, const k3_matrix_t *w, const float *x,
                               size_t m, size_t first, size_t count, float *y)
{
    switch (m) {
        K3_STREAM_ROWS(1);
        K3_STREAM_ROWS(2);
        K3_STREAM_ROWS(3);
        K3_STREAM_ROWS(4);
        K3_STREAM_ROWS(5);
        K3_STREAM_ROWS(6);
        K3_STREAM_ROWS(7);
        K3_STREAM_ROWS(8);
    default:
        break;
    }
}

K3_SIMD static void stream_mxfp4(const k3_matrix_t *w, const float *x, size_t m, size_t first,
                                 size_t count, float *y)
{
    stream_any(K3_WEIGHT_MXFP4, w, x, m, first, count, y);
}

K3_SIMD static void stream_fp8(const k3_matrix_t *w, const float *x, size_t m, size_t first,
                               size_t count, float *y)
{
    stream_any(K3_WEIGHT_FP8_B128, w, x, m, first, count, y);
}

/* --- many rows: panels ----------------------------------------------------------------------- */

K3_SIMD_INLINE void store_block(k3_weight_format_t format, k3_gemm_block_t block, float *out)
{
    for (size_t pair = 0; pair < PAIRS; pair++) {
        k3_vec_t w[2];

        pair_of(format, block, pair, w);
        k3_vec_store(out + 2 * pair * K3_LANES, w[0]);
        k3_vec_store(out + (2 * pair + 1) * K3_LANES, w[1]);
    }
}

/* Values first .. end of row j. A panel takes short pieces of many rows, which the hardware does
 * not foresee: fetches the same piece of the next panel's row. Addresses beyond do no harm. */
K3_SIMD_INLINE void fill_row(k3_weight_format_t format, const k3_matrix_t *w, size_t j,
                             size_t first, size_t end, float *out)
{
    k3_gemm_row_t  row = row_of(format, w, j);
    uintptr_t      next = (uintptr_t)row.values + COLUMNS * bytes_of(format, w->columns);
    k3_gemm_rest_t rest;
    size_t         at = first;

    for (; at + K3_BLOCK <= end; at += K3_BLOCK, out += K3_BLOCK) {
        for (size_t line = 0; line < bytes_of(format, K3_BLOCK); line += 64) {
            __builtin_prefetch((const void *)(next + bytes_of(format, at) + line), 0, 2);
        }
        store_block(format, open_block(format, row, at), out);
    }
    if (at < end) {
        store_block(format, open_rest(format, row, at, end - at, &rest), out);
    }
}

K3_SIMD static void fill_panel(const k3_matrix_t *w, size_t j, size_t count, size_t first,
                               size_t end, float *panel)
{
    for (size_t c = 0; c < count; c++) {
        if (w->format == K3_WEIGHT_MXFP4) {
            fill_row(K3_WEIGHT_MXFP4, w, j + c, first, end, panel + c * K3_DEPTH);
        } else {
            fill_row(K3_WEIGHT_FP8_B128, w, j + c, first, end, panel + c * K3_DEPTH);
        }
    }
    for (size_t c = count; c % K3_TILE != 0; c++) {
        memset(panel + c * K3_DEPTH, 0, sizeof *panel * K3_DEPTH);
    }
}

/* `rows` (a constant) x K3_TILE results over `depth`, added to sums[column][row]. */
K3_SIMD_INLINE void tile(size_t rows, const float *x, size_t stride, const float *panel,
                         size_t depth, float *sums)
{
    k3_vec_t sum[K3_TILE][ROWS];

    for (size_t c = 0; c < K3_TILE; c++) {
        for (size_t r = 0; r < ROWS; r++) {
            sum[c][r] = k3_vec_zero();
        }
    }
    for (size_t k = 0; k < depth; k += K3_LANES) {
        k3_vec_t w[K3_TILE];

        for (size_t c = 0; c < K3_TILE; c++) {
            w[c] = k3_vec_load(panel + c * K3_DEPTH + k);
        }
        for (size_t r = 0; r < rows; r++) {
            k3_vec_t value = k3_vec_load(x + r * stride + k);

            for (size_t c = 0; c < K3_TILE; c++) {
                sum[c][r] = k3_vec_fma(w[c], value, sum[c][r]);
            }
        }
    }
    for (size_t c = 0; c < K3_TILE; c++) {
        k3_vec_add_totals(sums + c * K3_EXPERT_CHUNK, sum[c][0], sum[c][1], sum[c][2], sum[c][3]);
    }
}

K3_SIMD static void tile_rows(size_t rows, const float *x, size_t stride, const float *panel,
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

/* All rows against `count` columns, at most a panel, over values first .. end. */
K3_SIMD static void panel_columns(const k3_matrix_t *w, const float *x, size_t m, size_t j,
                                  size_t count, size_t first, size_t end, float *sums)
{
    _Alignas(64) float panel[COLUMNS * K3_DEPTH];
    size_t             stride = k3_padded(w->columns);
    size_t             depth = (end - first + K3_BLOCK - 1) / K3_BLOCK * K3_BLOCK;

    fill_panel(w, j, count, first, end, panel);
    for (size_t i = 0; i < m; i += ROWS) {
        for (size_t c = 0; c < count; c += K3_TILE) {
            tile_rows(m - i, x + i * stride + first, stride, panel + c * K3_DEPTH, depth,
                      sums + c * K3_EXPERT_CHUNK + i);
        }
    }
}

/* The piece of x stays in the second-level cache while all panels go over it. */
K3_SIMD static void panels(const k3_matrix_t *w, const float *x, size_t m, size_t first,
                           size_t count, float *y)
{
    _Alignas(64) float sums[K3_GEMM_COLUMNS * K3_EXPERT_CHUNK];

    memset(sums, 0, sizeof sums);
    for (size_t k = 0; k < w->columns; k += K3_DEPTH) {
        size_t end = w->columns - k < K3_DEPTH ? w->columns : k + K3_DEPTH;

        for (size_t c = 0; c < count; c += COLUMNS) {
            panel_columns(w, x, m, first + c, count - c < COLUMNS ? count - c : COLUMNS, k, end,
                          sums + c * K3_EXPERT_CHUNK);
        }
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t c = 0; c < count; c++) {
            y[i * k3_padded(w->rows) + first + c] = sums[c * K3_EXPERT_CHUNK + i];
        }
    }
}

K3_SIMD void K3_SIMD_NAME(gemm)(const k3_matrix_t *w, const void *x, size_t m, size_t first,
                                size_t count, float *y)
{
    if (m > FEW) {
        panels(w, x, m, first, count, y);
    } else if (w->format == K3_WEIGHT_MXFP4) {
        stream_mxfp4(w, x, m, first, count, y);
    } else {
        stream_fp8(w, x, m, first, count, y);
    }
}

_Static_assert(K3_DEPTH % K3_BLOCK == 0 && PIECE / FEW >= K3_BLOCK, "blocks have to fit");
_Static_assert(K3_EXPERT_CHUNK % ROWS == 0 && COLUMNS % K3_TILE == 0, "tiles have to fit");
_Static_assert(K3_GEMM_COLUMNS % COLUMNS == 0 && K3_GEMM_COLUMNS % GROUP == 0,
               "panels and groups have to fit");
