/* Status values, the error object and the exit codes.
 *
 * Functions that can fail return k3_status_t and take a k3_error_t as their last argument. The first
 * detector describes the fault with k3_fail (value, limit, rule); callers pass the status up and do
 * not overwrite the text. The command that owns the error prints it once. */
#ifndef K3_BASE_STATUS_H
#define K3_BASE_STATUS_H

#include <stdbool.h>

typedef enum k3_status {
    K3_OK = 0,
    K3_ERR_CHECK,       /* a result is wrong, or a cell ended failed */
    K3_ERR_USAGE,       /* an option, a value or a combination that can never work */
    K3_ERR_ENV,         /* launcher, library, memory or transport of this machine */
    K3_ERR_TIMEOUT,     /* no progress within a limit */
    K3_ERR_IO,          /* a file could not be read or written */
    K3_ERR_UNSUPPORTED, /* this cell cannot be done by this backend; others may */
    K3_STATUS_LAST
} k3_status_t;

enum { K3_ERROR_TEXT = 768 };

typedef struct k3_error {
    k3_status_t status;
    char        text[K3_ERROR_TEXT]; /* one line, no newline at the end */
} k3_error_t;

#define K3_ERROR_INIT                                                                              \
    {                                                                                              \
        K3_OK, ""                                                                                  \
    }

/* Describes a fault and returns `status`. Keeps an earlier fault if `err` already holds one; `err` may
 * be NULL. */
k3_status_t k3_fail(k3_error_t *err, k3_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Forgets the fault, so that the object can be used again. */
void k3_error_clear(k3_error_t *err);

/* "ok", "check", "usage", ... never NULL. */
const char *k3_status_name(k3_status_t status);

/* 0 ok, 1 check, 2 usage or unsupported, 3 environment or I/O, 4 watchdog. */
int k3_exit_code(k3_status_t status);

#endif
