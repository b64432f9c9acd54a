/* From a sweep's file to variants: cells that share a launch. A section of the file is a set of options; its lists
 * multiply. Cells with the same model and layout share a launch, so that backends are measured beside each
 * other on the same weights; what `run` takes no list of, and what --split names, gets launches of its own. */
#ifndef K3_SWEEP_VARIANTS_H
#define K3_SWEEP_VARIANTS_H

#include <stddef.h>
#include <stdint.h>

#include "bench/sweep/hosts.h"
#include "harness/base/options.h"

enum { K3_LAUNCH_ID_MAX = 128, K3_VARIANT_LABEL_MAX = 160, K3_LAUNCHES_A_VARIANT_MAX = 1000 };

/* Where the options come from. */
typedef struct k3_sweep_source {
    k3_option_table_t table; /* as `sweep` sees it */
    unsigned          run;   /* the bit of `run` */
    int               argc;  /* of the command line, without program and command */
    char            **argv;
    const char       *file;  /* the sweep's */
    const char       *build; /* what runs: launches of another build are others */
} k3_sweep_source_t;

typedef struct k3_variant {
    char          section[64];
    char          label[K3_VARIANT_LABEL_MAX]; /* "SECTION MODEL tp8 dp2", for people */
    k3_options_t *options;                     /* of `run`, resolved */
    k3_list_t     words;    /* the same as words of a command line, but for --out and --rotate */
    char         *launcher; /* NULL: the usual one */
    uint32_t      ranks;
    uint64_t      launches;
    size_t        cells, refused; /* refused ones are among the cells */
    k3_list_t
             works; /* k3_key_work of each cell that can be done and moves rows: equal for rivals */
    uint64_t hash;  /* of all that makes its launches what they are */
    uint64_t asked; /* the same with options that change nothing in its cells */
    double   guess; /* seconds that a launch should take, before one was seen */
} k3_variant_t;

/* Cells that no launch will try, all for one reason. */
typedef struct k3_refusal {
    char  *where;    /* section, model, layout */
    char  *backends; /* "mooncake, none" */
    char  *reason;   /* value, limit, rule */
    size_t cells;
} k3_refusal_t;

typedef struct k3_variants {
    k3_variant_t *items;
    size_t        count;
    k3_refusal_t *refusals;
    size_t        refusal_count;
} k3_variants_t;

/* K3_ERR_USAGE for what can never work: an unknown name or key, a value that no cell can have. */
k3_status_t k3_variants_create(const k3_sweep_source_t *source, const k3_hosts_t *hosts,
                               k3_variants_t *variants, k3_error_t *err);
void        k3_variants_free(k3_variants_t *variants);

/* The sections of the file; one without a name when it has no heads. Names are made of letters, digits, '-' and
 * '_': they begin the names of files. Free with k3_list_free. */
k3_status_t k3_sweep_sections(const char *file, k3_list_t *sections, k3_error_t *err);

/* "SECTION.npRANKS.HASH.rROUND": the same as long as the launch is; round from 1. */
void k3_launch_id(const k3_variant_t *variant, uint64_t round, char id[K3_LAUNCH_ID_MAX]);

#endif
