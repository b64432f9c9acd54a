/* Hidden states from a file: the rows that enter the router, in the order of the ranks that hold them. */
#ifndef K3_CELL_HIDDEN_H
#define K3_CELL_HIDDEN_H

#include <stdint.h>

#include "bench/cell/model.h"
#include "harness/base/status.h"

typedef struct k3_hidden k3_hidden_t;

/* A .npy file [rows, H]: float32 and float16 are rounded to bf16 (nearest, ties to even), uint16 holds
 * bf16 bit patterns as they are. A value that is not finite as bf16 is refused with row and column.
 * K3_ERR_IO when the file cannot be read, else K3_ERR_USAGE. */
k3_status_t k3_hidden_open(const char *path, k3_hidden_t **hidden_p, k3_error_t *err);
void        k3_hidden_close(k3_hidden_t *hidden); /* NULL is fine */

/* Rows of the model's width, and as many as all ranks hold together; K3_ERR_USAGE. */
k3_status_t k3_hidden_match(const k3_hidden_t *hidden, const k3_model_t *model, uint64_t rows,
                            k3_error_t *err);

const uint16_t *k3_hidden_row(const k3_hidden_t *hidden, uint64_t row);
const char     *k3_hidden_path(const k3_hidden_t *hidden);
uint64_t        k3_hidden_rows(const k3_hidden_t *hidden);

/* What tells the first `rows` rows from others, as bf16. */
uint64_t k3_hidden_identity(const k3_hidden_t *hidden, uint64_t rows);

#endif
