#include "kernels/bench/bench.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/threads.h"

static const char usage[] =
    "usage: bench-kernels [--part experts|rows] [--model NAME] [--recipe NAME] [--rows N,...]\n"
    "                     [--isa NAME] [--threads N] [--seconds S]\n\n"
    "  model    kimi-k3 (default), deepseek-v3, deepseek-v4-flash\n"
    "  recipe   w4a16, fp8, mxfp8, a4w4, int8; default: what the model is used with\n"
    "  rows     of an expert, at most 4096; default 1,2,4,8,16,32,64,256,1024\n"
    "  threads  default 1\n"
    "  seconds  of each line, default 1\n";

typedef struct k3_bench_arguments {
    const char *part, *model, *recipe, *rows, *isa, *threads, *seconds;
} k3_bench_arguments_t;

static bool parse(int argc, char **argv, k3_bench_arguments_t *a)
{
    static const struct option options[] = {{"part", 1, NULL, 'p'},    {"model", 1, NULL, 'm'},
                                            {"recipe", 1, NULL, 'r'},  {"rows", 1, NULL, 'n'},
                                            {"isa", 1, NULL, 'i'},     {"threads", 1, NULL, 't'},
                                            {"seconds", 1, NULL, 's'}, {NULL, 0, NULL, 0}};
    const char               **values[] = {
                      ['p'] = &a->part, ['m'] = &a->model,   ['r'] = &a->recipe, ['n'] = &a->rows,
                      ['i'] = &a->isa,  ['t'] = &a->threads, ['s'] = &a->seconds};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == '?') {
            return false;
        }
        *values[c] = optarg;
    }
    return optind == argc;
}

int main(int argc, char **argv)
{
    k3_bench_arguments_t a = {.part = "experts",
                              .model = "kimi-k3",
                              .threads = "1",
                              .rows = "1,2,4,8,16,32,64,256,1024",
                              .seconds = "1"};
    k3_bench_t           bench;
    bool                 ok = parse(argc, argv, &a);

    if (!ok || atoi(a.threads) < 1 || !(atof(a.seconds) > 0)) {
        fputs(usage, stderr);
        return 2;
    }
    k3_threads_set(atoi(a.threads));
    bench = (k3_bench_t){k3_kernels_cpu(a.isa), atof(a.seconds)};
    if (bench.kernels == NULL) {
        fprintf(stderr, "isa %s: this processor has %s\n", a.isa, k3_kernels_usable());
        return 2;
    }
    printf("isa %s, %d thread%s\n", bench.kernels->isa, k3_threads(), k3_threads() > 1 ? "s" : "");
    if (strcmp(a.part, "rows") == 0) {
        k3_bench_rows(&bench);
    } else if (strcmp(a.part, "experts") != 0 ||
               !k3_bench_experts(&bench, a.model, a.recipe, a.rows)) {
        fputs(usage, stderr);
        return 2;
    }
    return 0;
}
