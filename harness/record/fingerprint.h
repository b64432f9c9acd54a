/* What machine and software a record comes from.
 *
 * stable: facts that stay until somebody changes the machine (CPU model, cores, NUMA nodes, memory
 * rounded to GiB, node count, ranks). They alone make the key. volatile: kernel, governor, turbo, THP,
 * load, library builds, control-group limits: kept beside, never in the key. */
#ifndef K3_RECORD_FINGERPRINT_H
#define K3_RECORD_FINGERPRINT_H

#include <jansson.h>

typedef struct k3_machine {
    const char *cpu_model;
    int         cores, numa_nodes;
    int         nodes, ranks;
    const char *device; /* what the ranks compute on; NULL: their processors */
} k3_machine_t;

/* {"key": "<16 hex digits>", "stable": {...}, "volatile": {...}} */
json_t *k3_fingerprint(const k3_machine_t *machine);

/* The environment variables that may enter a record: exact names and prefixes from one list in the
 * source (K3BENCH_, UCX_, OMPI_MCA_, OMP_NUM_THREADS, ...), sorted by name. A name that contains
 * TOKEN, SECRET, PASS, KEY or CREDENTIAL is left out whatever its prefix. */
json_t *k3_environment(void);

/* UTC time of now as "2026-01-31T12:00:00Z"; `text` holds 21 bytes. */
void k3_utc_now(char text[21]);

#endif
