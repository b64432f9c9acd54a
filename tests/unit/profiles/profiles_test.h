/* What the tests of bench/profiles share. */
#ifndef K3_TEST_PROFILES_H
#define K3_TEST_PROFILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/profiles/profile.h"

static inline const k3_profile_t *profile_of(const char *name)
{
    k3_error_t          err = K3_ERROR_INIT;
    const k3_profile_t *p = NULL;

    if (k3_registry_find(name, &p, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
    return p;
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

#endif
