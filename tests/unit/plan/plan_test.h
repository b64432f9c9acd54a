/* What the tests of bench/plan, bench/commands and bench/report share: cells from requests. */
#ifndef K3_TEST_PLAN_H
#define K3_TEST_PLAN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/plan/cell.h"

/* What `plan` asks for: no world, 8 ranks a node, and a value for every member, so that a test
 * names only what it is about. */
static inline k3_cell_request_t request_of(const char *backend, const char *model, uint64_t tp)
{
    k3_error_t          none = K3_ERROR_INIT;
    const k3_profile_t *profile = NULL;
    uint32_t            least =
        k3_registry_find(backend, &profile, &none) == K3_OK ? profile->limits.dp_groups_min : 0;

    return (k3_cell_request_t){.backend = backend,
                               .model = model,
                               .tp = tp,
                               .dp = least > 1 ? least : 1,
                               .cp = 1,
                               .tokens = 16,
                               .seed = 1,
                               .p2p = true};
}

static inline k3_cell_t cell_of(k3_cell_request_t request)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_cell_t  cell;

    if (k3_cell_create(&request, &cell, &err) != K3_OK) {
        fail_msg("%s %s: %s", request.backend, request.model, err.text);
    }
    return cell;
}

/* A message is one line and holds each part that is not NULL. */
static inline void assert_says(const k3_error_t *err, const char *a, const char *b, const char *c)
{
    const char *const parts[] = {a, b, c};

    assert_null(strchr(err->text, '\n'));
    for (unsigned i = 0; i < 3; i++) {
        if (parts[i] != NULL && strstr(err->text, parts[i]) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", err->text, parts[i]);
        }
    }
}

static inline void assert_cell_refused(k3_cell_request_t request, k3_status_t status, const char *a,
                                       const char *b, const char *c)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_cell_t  cell;

    if (k3_cell_create(&request, &cell, &err) == K3_OK) {
        fail_msg("%s: not refused, key %s", request.backend, cell.key);
    }
    assert_says(&err, a, b, c);
    if (err.status != status) {
        fail_msg("\"%s\" has status %s, not %s", err.text, k3_status_name(err.status),
                 k3_status_name(status));
    }
    assert_null(cell.routing);
    assert_null(cell.node_of);
    assert_null(cell.layout.rows);
}

/* The next available row of an engine; starts with *i == 0. */
static inline const k3_profile_t *next_available(k3_engine_id_t engine, unsigned *i)
{
    while (*i < k3_registry_count()) {
        const k3_profile_t *p = k3_registry_at((*i)++);

        if (p->engine == engine && k3_profile_available(p)) {
            return p;
        }
    }
    return NULL;
}

#endif
