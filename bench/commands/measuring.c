#include "bench/commands/measuring.h"

#include "harness/base/terminal.h"

static k3_status_t choose_names(const k3_options_t *options, k3_measuring_t *m, k3_error_t *err)
{
    static const char *const starts[] = {"auto", "round", "barrier", NULL};
    static const char *const progress_names[] = {"auto", "off", NULL};
    size_t                   check, progress, format, start;

    if (k3_parse_name("check", k3_options_get(options, "check"), k3_check_mode_names, &check,
                      err) != K3_OK ||
        k3_parse_name("progress", k3_options_get(options, "progress"), progress_names, &progress,
                      err) != K3_OK ||
        k3_parse_name("format", k3_options_get(options, "format"), k3_output_format_names, &format,
                      err) != K3_OK ||
        k3_parse_name("sync", k3_options_get(options, "sync"), starts, &start, err) != K3_OK) {
        return err->status;
    }
    m->options.check = (k3_check_mode_t)check;
    m->options.progress.shown = progress == 0 && k3_terminal_watched();
    m->format = (k3_output_format_t)format;
    m->start = (k3_start_t)start;
    return K3_OK;
}

k3_status_t k3_measuring_choose(const k3_options_t *options, k3_measuring_t *m, k3_error_t *err)
{
    const char *iters = k3_options_get(options, "iters");

    if (choose_names(options, m, err) != K3_OK ||
        k3_parse_u64("rotate", k3_options_get(options, "rotate"), 0, UINT32_MAX, &m->rotate, err) !=
            K3_OK ||
        (iters != NULL &&
         k3_parse_u64("iters", iters, 1, 1u << 20, &m->options.iters, err) != K3_OK) ||
        k3_parse_double("ci-target", k3_options_get(options, "ci-target"), 0.01, 100.0,
                        &m->options.ci_target, err) != K3_OK ||
        k3_parse_double("max-seconds", k3_options_get(options, "max-seconds"), 0.001, 86400.0,
                        &m->options.max_seconds, err) != K3_OK) {
        return err->status;
    }
    return k3_parse_double("timeout", k3_options_get(options, "timeout"), 1.0, 86400.0, &m->timeout,
                           err);
}
