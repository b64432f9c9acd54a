/* One iteration written to a folder, so that anyone can recompute it: the values of all rows stage by
 * stage, what arrived at the experts, and the weights, as .npy files with a README.md that says what each
 * one is. scripts/verify_dump.py does so with NumPy alone. */
#ifndef K3_REGION_DUMP_H
#define K3_REGION_DUMP_H

#include "bench/region/region.h"
#include "bench/region/verify.h"

/* Values of rows and of what arrived, of all ranks together; weights of more bytes are left out. */
#define K3_DUMP_BYTES_MAX   ((uint64_t)1 << 30)
#define K3_DUMP_WEIGHTS_MAX ((uint64_t)256 << 20)

/* What the experts of a rank were given in one iteration, in the order in which they ran. */
typedef struct k3_capture {
    uint64_t count, capacity;
    size_t   value_bytes, scale_bytes; /* of a row */
    int32_t *expert;                   /* [capacity] of all experts */
    uint8_t *values, *scales;
} k3_capture_t;

/* They lie in memory of the compute. */
void k3_capture_rows(k3_capture_t *capture, k3_compute_t *compute, uint32_t expert,
                     const k3_expert_rows_t *work);

/* Bytes of the row values of a cell's dump over all ranks, and of its weights. */
uint64_t k3_dump_row_bytes(const k3_cell_t *cell);
uint64_t k3_dump_weight_bytes(const k3_cell_t *cell);

/* Whether a dump of this cell to `path` can be: the whole region, its rows checked, no more than
 * K3_DUMP_BYTES_MAX, and a path that does not exist. The file system is looked at by rank 0; collective. */
k3_status_t k3_dump_check(const k3_cell_t *cell, const k3_world_t *world, const char *path,
                          k3_error_t *err);

/* Room for one iteration of `region`; the region fills it while it is attached. */
k3_status_t k3_capture_open(const k3_region_t *region, k3_capture_t *capture, k3_error_t *err);
void        k3_capture_close(k3_capture_t *capture);

/* Collective, after k3_verify_all of the iteration `payload`. Rank 0 gathers and writes, to a folder of
 * another name that is renamed when it is complete. */
k3_status_t k3_dump_write(const k3_verify_t *verify, const k3_capture_t *capture, uint64_t payload,
                          const char *path, k3_error_t *err);

#endif
