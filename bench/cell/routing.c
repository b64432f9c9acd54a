#include "bench/cell/routing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/cell/model.h"
#include "bench/cell/npy.h"
#include "bench/cell/routing_draw.h"
#include "bench/cell/routing_weights.h"
#include "harness/base/arith.h"
#include "harness/base/keyed.h"
#include "harness/base/memory.h"
#include "harness/base/options.h"

typedef enum routing_kind { UNIFORM, ZIPF, KHOT, LOGNORMAL, HOT_RANK, TRACE, GATE } routing_kind_t;

static const char *const kind_names[] = {"uniform",  "zipf",  "khot", "lognormal",
                                         "hot-rank", "trace", "gate", NULL};

static const struct {
    const char *form;
    size_t      values;
} kind_forms[] = {
    [UNIFORM] = {"uniform", 0},       [ZIPF] = {"zipf:A", 1},
    [KHOT] = {"khot:N:F", 2},         [LOGNORMAL] = {"lognormal:MAXVIO", 1},
    [HOT_RANK] = {"hot-rank:R:F", 2}, [GATE] = {"gate", 0},
};

/* Words that keep the random numbers of different uses of a seed apart. */
enum { KEY_ROWS = 0x524f5753, KEY_PLACES = 0x504c4143, KEY_SPREAD = 0x53505244 };

struct k3_routing {
    routing_kind_t kind;
    uint32_t       experts, topk;
    uint64_t       rows;
    uint64_t       row_key;
    k3_draw_t      draw;
    int32_t       *trace;       /* [steps][rows][topk] */
    int32_t       *drawn;       /* [rows][topk] of a generator, NULL: drawn when asked for */
    uint64_t       steps, step; /* the one in force */
    uint64_t       assignments;
};

/* --- generators ------------------------------------------------------------------------------ */

/* zipf falls with the place, so its places are shuffled; a lognormal spread has no order. */
static k3_status_t create_weighted(k3_routing_t *r, const k3_routing_request_t *q, double value,
                                   k3_error_t *err)
{
    double     *weights;
    k3_status_t status = k3_alloc("popularity", r->experts, sizeof(double), &weights, err);

    if (status != K3_OK) {
        return status;
    }
    if (r->kind == ZIPF) {
        status = k3_draw_shuffle(&r->draw, r->experts, k3_key(q->seed, KEY_PLACES), err);
        k3_weights_zipf(value, r->experts, weights);
    } else {
        k3_draw_plain(&r->draw, r->experts);
        status = k3_weights_lognormal(k3_key(q->seed, KEY_SPREAD), value, r->experts, r->topk,
                                      weights, err);
    }
    if (status == K3_OK) {
        status = k3_draw_weigh(&r->draw, weights, err);
    }
    k3_free(weights);
    return status;
}

static k3_status_t create_hot_rank(k3_routing_t *r, const k3_routing_request_t *q,
                                   const char *rank_text, k3_error_t *err)
{
    uint64_t    rank;
    uint32_t    local;
    k3_status_t status;

    if (q->ranks == 0 || r->experts % q->ranks != 0) {
        return k3_fail(err, K3_ERR_USAGE,
                       "routing: hot-rank needs experts in equal blocks: %u experts do not divide "
                       "over %u ranks",
                       r->experts, q->ranks);
    }
    status = k3_parse_u64("routing hot-rank R", rank_text, 0, q->ranks - 1, &rank, err);
    if (status != K3_OK) {
        return status;
    }
    local = r->experts / q->ranks;
    status = k3_draw_rotate(&r->draw, r->experts, (uint32_t)rank * local, err);
    r->draw.hot = local;
    return status;
}

static k3_status_t create_classes(k3_routing_t *r, const k3_routing_request_t *q,
                                  const k3_list_t *words, k3_error_t *err)
{
    uint64_t    hot = 0;
    double      share;
    k3_status_t status = k3_parse_double(r->kind == KHOT ? "routing khot F" : "routing hot-rank F",
                                         words->items[2], 0, 1, &share, err);

    if (status != K3_OK) {
        return status;
    }
    if (r->kind == HOT_RANK) {
        status = create_hot_rank(r, q, words->items[1], err);
    } else {
        status = k3_parse_u64("routing khot N", words->items[1], 1, r->experts, &hot, err);
        if (status == K3_OK) {
            status = k3_draw_shuffle(&r->draw, r->experts, k3_key(q->seed, KEY_PLACES), err);
            r->draw.hot = (uint32_t)hot;
        }
    }
    r->draw.hot_share = share;
    return status;
}

static k3_status_t create_lognormal(k3_routing_t *r, const k3_routing_request_t *q,
                                    const char *text, k3_error_t *err)
{
    double      limit = (double)r->experts / r->topk - 1, value;
    k3_status_t status = k3_parse_double("routing lognormal MAXVIO", text, 0, limit, &value, err);

    return status != K3_OK ? status : create_weighted(r, q, value, err);
}

static k3_status_t create_generator(k3_routing_t *r, const k3_routing_request_t *q,
                                    const k3_list_t *words, k3_error_t *err)
{
    double exponent;

    if (words->count - 1 != kind_forms[r->kind].values) {
        return k3_fail(err, K3_ERR_USAGE,
                       "routing: \"%s\" has %zu values where %zu are needed (%s)", q->text,
                       words->count - 1, kind_forms[r->kind].values, kind_forms[r->kind].form);
    }
    r->assignments = k3_mul(r->rows, r->topk);
    switch (r->kind) {
    case ZIPF:
        if (k3_parse_double("routing zipf A", words->items[1], 0, 8, &exponent, err) != K3_OK) {
            return K3_ERR_USAGE;
        }
        return create_weighted(r, q, exponent, err);
    case LOGNORMAL:
        return create_lognormal(r, q, words->items[1], err);
    case KHOT:
    case HOT_RANK:
        return create_classes(r, q, words, err);
    case UNIFORM:
    case TRACE:
    case GATE:
        break;
    }
    k3_draw_plain(&r->draw, r->experts);
    return K3_OK;
}

/* --- traces ---------------------------------------------------------------------------------- */

static k3_status_t check_trace_form(const char *path, const k3_npy_t *a, const k3_routing_t *r,
                                    k3_error_t *err)
{
    static const char *const type_names[] = {"int32", "int64",  "float32",
                                             "uint8", "uint16", "float16"};
    uint64_t                 rows;

    if (a->type != K3_NPY_I32 && a->type != K3_NPY_I64) {
        return k3_fail(err, K3_ERR_USAGE,
                       "routing trace %s: element type %s (a trace is int32 or int64)", path,
                       type_names[a->type]);
    }
    if (a->dims != 2 && a->dims != 3) {
        return k3_fail(err, K3_ERR_USAGE,
                       "routing trace %s: %u dimensions (a trace is [rows, K] or [steps, rows, K])",
                       path, a->dims);
    }
    if (a->shape[a->dims - 1] != r->topk) {
        return k3_fail(err, K3_ERR_USAGE,
                       "routing trace %s: rows of %" PRIu64 " ids where top-k is %u", path,
                       a->shape[a->dims - 1], r->topk);
    }
    rows = a->dims == 3 && a->shape[0] == 0 ? 0 : a->shape[a->dims - 2];
    if (rows < r->rows) {
        return k3_fail(err, K3_ERR_USAGE,
                       "routing trace %s: %" PRIu64 " rows where %" PRIu64
                       " are needed (the rows of all ranks)",
                       path, rows, r->rows);
    }
    return K3_OK;
}

static int64_t trace_id(const k3_npy_t *a, uint64_t i)
{
    return a->type == K3_NPY_I32 ? ((const int32_t *)a->data)[i] : ((const int64_t *)a->data)[i];
}

/* `row` counts over the whole file, the message over the step. */
static k3_status_t check_trace_row(const char *path, const k3_npy_t *a, const k3_routing_t *r,
                                   uint64_t row, k3_error_t *err)
{
    uint64_t step_rows = a->shape[a->dims - 2];

    for (uint32_t k = 0; k < r->topk; k++) {
        int64_t id = trace_id(a, row * r->topk + k);

        if (id < -1 || id >= (int64_t)r->experts) {
            return k3_fail(err, K3_ERR_USAGE,
                           "routing trace %s: step %" PRIu64 ", row %" PRIu64
                           ", slot %u: id %" PRId64 " (an id is 0 to %u, or -1 for not sent)",
                           path, row / step_rows, row % step_rows, k, id, r->experts - 1);
        }
        for (uint32_t j = 0; j < k && id >= 0; j++) {
            if (trace_id(a, row * r->topk + j) == id) {
                return k3_fail(err, K3_ERR_USAGE,
                               "routing trace %s: step %" PRIu64 ", row %" PRIu64
                               ": expert %" PRId64
                               " twice, slots %u and %u (the experts of a row are distinct)",
                               path, row / step_rows, row % step_rows, id, j, k);
            }
        }
    }
    return K3_OK;
}

static k3_status_t check_trace(const char *path, const k3_npy_t *a, const k3_routing_t *r,
                               k3_error_t *err)
{
    uint64_t    rows = (a->dims == 3 ? a->shape[0] : 1) * a->shape[a->dims - 2];
    k3_status_t status = K3_OK;

    for (uint64_t row = 0; row < rows && status == K3_OK; row++) {
        status = check_trace_row(path, a, r, row, err);
    }
    return status;
}

/* The rows asked for of each step. */
static k3_status_t keep_trace(const k3_npy_t *a, k3_routing_t *r, k3_error_t *err)
{
    uint64_t count = k3_mul(r->rows, r->topk), step = a->shape[a->dims - 2] * r->topk;

    r->steps = a->dims == 3 && a->shape[0] > 0 ? a->shape[0] : 1;
    if (k3_alloc("routing trace", k3_mul(r->steps, count), sizeof(int32_t), &r->trace, err) !=
        K3_OK) {
        return err->status;
    }
    for (uint64_t s = 0; s < r->steps; s++) {
        for (uint64_t i = 0; i < count; i++) {
            int32_t id = (int32_t)trace_id(a, s * step + i);

            r->trace[s * count + i] = id;
            r->assignments += id >= 0;
        }
    }
    return K3_OK;
}

/* --- the gate's own choice ------------------------------------------------------------------- */

static k3_status_t create_gate(k3_routing_t *r, const k3_routing_request_t *q,
                               const k3_list_t *words, k3_error_t *err)
{
    uint64_t count = k3_mul(r->rows, r->topk);

    if (words->count != 1) {
        return k3_fail(err, K3_ERR_USAGE, "routing: \"%s\": gate takes no values", q->text);
    }
    if (q->chosen == NULL) {
        return k3_fail(err, K3_ERR_USAGE, "routing gate: nothing was chosen (--hidden FILE.npy)");
    }
    if (k3_alloc("routing of the gate", count, sizeof(int32_t), &r->trace, err) == K3_OK) {
        memcpy(r->trace, q->chosen, count * sizeof(int32_t));
        r->assignments = count;
    }
    return err->status;
}

/* --- a trace --------------------------------------------------------------------------------- */

static k3_status_t create_trace(k3_routing_t *r, const k3_routing_request_t *q, k3_error_t *err)
{
    const char *colon = strchr(q->text, ':');
    k3_npy_t    array;
    k3_status_t status;

    if (colon == NULL || colon[1] == '\0') {
        return k3_fail(err, K3_ERR_USAGE, "routing: \"%s\" names no file (trace:FILE.npy)",
                       q->text);
    }
    status = k3_npy_read(colon + 1, &array, err);
    if (status != K3_OK) {
        return status;
    }
    status = check_trace_form(colon + 1, &array, r, err);
    if (status == K3_OK) {
        status = check_trace(colon + 1, &array, r, err);
    }
    if (status == K3_OK) {
        status = keep_trace(&array, r, err);
    }
    k3_npy_free(&array);
    return status;
}

/* --- interface ------------------------------------------------------------------------------- */

static k3_status_t check_sizes(const k3_routing_request_t *q, k3_error_t *err)
{
    if (q->topk == 0 || q->topk > q->experts || q->topk > K3_TOPK_MAX) {
        return k3_fail(err, K3_ERR_USAGE,
                       "routing: top-k %u with %u experts (1 to the number of experts, at most %d)",
                       q->topk, q->experts, K3_TOPK_MAX);
    }
    if (q->experts > INT32_MAX) {
        return k3_fail(err, K3_ERR_USAGE, "routing: %u experts (ids are int32, at most %d)",
                       q->experts, INT32_MAX);
    }
    return K3_OK;
}

static k3_status_t create_kind(k3_routing_t *r, const k3_routing_request_t *q, k3_error_t *err)
{
    k3_list_t   words;
    size_t      kind = UNIFORM;
    k3_status_t status;

    k3_list_split(q->text, ':', &words);
    status = k3_parse_name("routing", words.items[0], kind_names, &kind, err);
    r->kind = (routing_kind_t)kind;
    if (status == K3_OK) {
        status = r->kind == TRACE  ? create_trace(r, q, err)
                 : r->kind == GATE ? create_gate(r, q, &words, err)
                                   : create_generator(r, q, &words, err);
    }
    k3_list_free(&words);
    return status;
}

k3_status_t k3_routing_create(const k3_routing_request_t *request, k3_routing_t **routing_p,
                              k3_error_t *err)
{
    k3_routing_t *r;
    k3_status_t   status = check_sizes(request, err);

    *routing_p = NULL;
    if (status == K3_OK) {
        status = k3_alloc("routing", 1, sizeof(*r), &r, err);
    }
    if (status != K3_OK) {
        return status;
    }
    r->experts = request->experts;
    r->topk = request->topk;
    r->rows = request->rows;
    r->steps = 1;
    r->row_key = k3_key(request->seed, KEY_ROWS);
    status = create_kind(r, request, err);
    if (status != K3_OK) {
        k3_routing_destroy(r);
        return status;
    }
    *routing_p = r;
    return K3_OK;
}

void k3_routing_destroy(k3_routing_t *routing)
{
    if (routing != NULL) {
        k3_draw_destroy(&routing->draw);
        k3_free(routing->trace);
        k3_free(routing->drawn);
        k3_free(routing);
    }
}

uint64_t k3_routing_steps(const k3_routing_t *routing)
{
    return routing->steps;
}

void k3_routing_select(k3_routing_t *routing, uint64_t step)
{
    routing->step = step;
}

bool k3_routing_is_given(const k3_routing_t *routing)
{
    return routing->trace != NULL;
}

static void given_row(const k3_routing_t *r, uint64_t row, int32_t *ids)
{
    const int32_t *step = r->trace + r->step * r->rows * r->topk;

    for (uint32_t k = 0; k < r->topk; k++) {
        ids[k] = row < r->rows ? step[row * r->topk + k] : -1;
    }
}

static void draw_row(const k3_routing_t *routing, uint64_t row, int32_t *ids)
{
    uint64_t key = k3_key(routing->row_key, row);

    switch (routing->kind) {
    case UNIFORM:
        k3_draw_equal(&routing->draw, key, routing->topk, ids);
        break;
    case ZIPF:
    case LOGNORMAL:
        k3_draw_weighted(&routing->draw, key, routing->topk, ids);
        break;
    case KHOT:
    case HOT_RANK:
        k3_draw_classes(&routing->draw, key, routing->topk, ids);
        break;
    case TRACE:
    case GATE:
        given_row(routing, row, ids);
        break;
    }
}

void k3_routing_row(const k3_routing_t *routing, uint64_t row, int32_t *ids)
{
    if (routing->drawn != NULL && row < routing->rows) {
        memcpy(ids, routing->drawn + row * routing->topk, routing->topk * sizeof(*ids));
    } else {
        draw_row(routing, row, ids);
    }
}

void k3_routing_remember(k3_routing_t *routing)
{
    enum { BYTES_MOST = 64 << 20 };

    uint64_t   count = k3_mul(routing->rows, routing->topk);
    k3_error_t none = K3_ERROR_INIT;
    int32_t   *drawn = NULL;

    if (routing->trace != NULL || routing->drawn != NULL ||
        k3_mul(count, sizeof(*drawn)) > BYTES_MOST ||
        k3_alloc("routing", count, sizeof(*drawn), &drawn, &none) != K3_OK) {
        return;
    }
    for (uint64_t row = 0; row < routing->rows; row++) {
        draw_row(routing, row, drawn + row * routing->topk);
    }
    routing->drawn = drawn;
}

/* FNV-1a (Fowler, Noll, Vo), 64 bits, over a number's bytes in little-endian order. */
static uint64_t fnv_u32(uint64_t hash, uint32_t word)
{
    for (int i = 0; i < 4; i++) {
        hash = (hash ^ (word & 0xff)) * UINT64_C(0x100000001b3);
        word >>= 8;
    }
    return hash;
}

void k3_routing_hash(const k3_routing_t *routing, char text[17])
{
    /* Top-k goes in first: the same ids cut into other rows are another routing. */
    uint64_t     hash = fnv_u32(UINT64_C(0xcbf29ce484222325), routing->topk);
    k3_routing_t at = *routing;
    int32_t      ids[K3_TOPK_MAX];

    if (routing->steps > 1) {
        hash = fnv_u32(hash, (uint32_t)routing->steps);
    }
    for (at.step = 0; at.step < at.steps; at.step++) {
        for (uint64_t row = 0; row < routing->rows; row++) {
            k3_routing_row(&at, row, ids);
            for (uint32_t k = 0; k < routing->topk; k++) {
                hash = fnv_u32(hash, (uint32_t)ids[k]);
            }
        }
    }
    snprintf(text, 17, "%016" PRIx64, hash);
}

uint64_t k3_routing_assignments(const k3_routing_t *routing)
{
    return routing->assignments;
}

bool k3_routing_is_uniform(const k3_routing_t *routing)
{
    return routing->kind == UNIFORM;
}
