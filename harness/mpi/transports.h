/* The transports of the UCX that is loaded, each with its device, as they are on this host. */
#ifndef K3_MPI_TRANSPORTS_H
#define K3_MPI_TRANSPORTS_H

#include "harness/base/status.h"

/* `kind`: "network", "shared memory", "accelerator", "self" or "other". */
typedef void (*k3_transport_visit_t)(const char *name, const char *device, const char *kind,
                                     void *arg);
k3_status_t k3_transports_list(k3_transport_visit_t visit, void *arg, k3_error_t *err);

/* The kinds of memory that UCX takes addresses of, as it names them ("host, cuda"). */
k3_status_t k3_transports_memory(char *text, unsigned size, k3_error_t *err);

#endif
