/* What the tests of bench/report share: records as text, and what a printer wrote. */
#ifndef K3_TEST_REPORT_H
#define K3_TEST_REPORT_H

#include <jansson.h>

#include "tests/unit/plan/plan_test.h"

#include "bench/report/record.h"

static inline json_t *parse_json(const char *text)
{
    json_error_t error;
    json_t      *json = json_loads(text, 0, &error);

    if (json == NULL) {
        fail_msg("%s: %.80s", error.text, text);
    }
    return json;
}

/* The member at "a.b.c"; NULL when there is none. */
static inline json_t *at(const json_t *object, const char *path)
{
    json_t *found = NULL;
    char    step[64];

    while (*path != '\0') {
        size_t n = strcspn(path, ".");

        snprintf(step, sizeof(step), "%.*s", (int)n, path);
        found = json_object_get(object, step);
        object = found;
        path += n + (path[n] == '.');
    }
    return found;
}

static inline json_int_t int_at(const json_t *object, const char *path)
{
    json_t *value = at(object, path);

    if (!json_is_integer(value)) {
        fail_msg("%s is no integer", path);
    }
    return json_integer_value(value);
}

static inline const char *text_at(const json_t *object, const char *path)
{
    json_t *value = at(object, path);

    if (!json_is_string(value)) {
        fail_msg("%s is no text", path);
    }
    return json_string_value(value);
}

static inline json_t *planned_of(k3_cell_request_t request)
{
    k3_cell_t   cell = cell_of(request);
    k3_error_t  err = K3_ERROR_INIT;
    k3_work_t   work;
    k3_memory_t memory;
    json_t     *json;

    assert_int_equal(k3_work_plan(&cell, &work, &err), K3_OK);
    k3_memory_plan(&cell, 0, &memory);
    json = k3_record_plan(&cell, &work, &memory);
    k3_cell_destroy(&cell);
    return json;
}

/* A row that runs, asked for results in a format that it does not have. */
static inline k3_cell_request_t refused_request(const char *model, uint64_t tp)
{
    k3_cell_request_t request = request_of("mori:v1", model, tp);

    request.combine_dtype = "mxfp4";
    return request;
}

static inline json_t *refused_of(k3_cell_request_t request)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_cell_t  cell;

    assert_int_not_equal(k3_cell_create(&request, &cell, &err), K3_OK);
    return k3_record_refused(&request, &err);
}

/* Null, and why; "reason" itself says why for the whole cell. */
static inline void assert_nulls_have_reasons(const json_t *value, const char *where)
{
    const char *key;
    json_t     *member;
    size_t      i;

    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        char reason[80];

        snprintf(reason, sizeof(reason), "%s_reason", key);
        if (json_is_null(member) && strcmp(key, "reason") != 0 &&
            !json_is_string(json_object_get(value, reason))) {
            fail_msg("%s.%s is null without a reason", where, key);
        }
        assert_nulls_have_reasons(member, key);
    }
    if (json_is_array(value)) {
        json_array_foreach(value, i, member)
        {
            assert_nulls_have_reasons(member, where);
        }
    }
}

/* Columns of the lanes and of the waits of a record, in its order. */
static inline json_t *lane_columns(void)
{
    return parse_json("[\"phase\", \"src\", \"dst\", \"qp\", \"lane\", \"messages\", \"signals\", "
                      "\"doorbells\", \"bytes_payload\", \"bytes_wire\", \"first_post_us\", "
                      "\"last_done_us\", \"busy_us\", \"p50_us\", \"p99_us\", \"max_us\"]");
}

static inline json_t *wait_columns(void)
{
    return parse_json("[\"phase\", \"dst\", \"src\", \"sum_us\", \"max_us\", \"count\"]");
}

/* What a printer writes; to be freed. */
#define CAPTURE(text, call)                                                                        \
    do {                                                                                           \
        size_t capture_size = 0;                                                                   \
        FILE  *out = open_memstream(&(text), &capture_size);                                       \
                                                                                                   \
        assert_non_null(out);                                                                      \
        call;                                                                                      \
        fclose(out);                                                                               \
    } while (0)

#endif
