#include "harness/base/status.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Texts quote what a user or a file said; a control character in them would break the promise of
 * one line, or steer the terminal. */
static void keep_to_one_line(char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '\n' || c == '\t' || c == '\r') {
            *text = ' ';
        } else if (c < 0x20 || c == 0x7f) {
            *text = '?';
        }
    }
}

k3_status_t k3_fail(k3_error_t *err, k3_status_t status, const char *format, ...)
{
    if (err == NULL || err->status != K3_OK) {
        return status;
    }

    va_list args;

    va_start(args, format);
    int length = vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    if (length < 0) {
        err->text[0] = '\0';
    } else if ((size_t)length >= sizeof(err->text)) {
        memcpy(err->text + sizeof(err->text) - 4, "...", 4);
    }
    keep_to_one_line(err->text);
    err->status = status;
    return status;
}

void k3_error_clear(k3_error_t *err)
{
    err->status = K3_OK;
    err->text[0] = '\0';
}

const char *k3_status_name(k3_status_t status)
{
    switch (status) {
    case K3_OK:
        return "ok";
    case K3_ERR_CHECK:
        return "check";
    case K3_ERR_USAGE:
        return "usage";
    case K3_ERR_ENV:
        return "environment";
    case K3_ERR_TIMEOUT:
        return "timeout";
    case K3_ERR_IO:
        return "io";
    case K3_ERR_UNSUPPORTED:
        return "unsupported";
    case K3_STATUS_LAST:
        break;
    }
    return "unknown";
}

int k3_exit_code(k3_status_t status)
{
    switch (status) {
    case K3_OK:
        return 0;
    case K3_ERR_USAGE:
    case K3_ERR_UNSUPPORTED:
        return 2;
    case K3_ERR_ENV:
    case K3_ERR_IO:
        return 3;
    case K3_ERR_TIMEOUT:
        return 4;
    case K3_ERR_CHECK:
    case K3_STATUS_LAST:
        break;
    }
    return 1;
}
