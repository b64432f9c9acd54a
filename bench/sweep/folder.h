/* The folder of a sweep: its lock, its journal, and where each file of a launch lies.
 *
 *   journal.jsonl   lock
 *   records/ID.json         of launches that are done; nothing else lies there
 *   running/ID.aN.json      attempt N, until it has been looked at
 *   aside/ID.aN.json        rejected, parts, or of what the sweep no longer asks for
 *   logs/ID.aN.txt          what the launch said */
#ifndef K3_SWEEP_FOLDER_H
#define K3_SWEEP_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/sweep/journal.h"

typedef struct k3_folder {
    char         path[PATH_MAX - 512];
    int          lock; /* -1: only looked at */
    k3_journal_t journal;
} k3_folder_t;

/* Makes the folder and takes its lock; K3_ERR_ENV when another sweep has it. look: neither, and a folder that
 * is not there is empty. */
k3_status_t k3_folder_open(const char *path, bool look, k3_folder_t *folder, k3_error_t *err);
void        k3_folder_close(k3_folder_t *folder);

typedef enum k3_folder_part {
    K3_RECORDS,
    K3_RUNNING,
    K3_ASIDE,
    K3_LOGS,
    K3_PARTS
} k3_folder_part_t;

/* Attempt 0: without a number. */
void k3_folder_file(const k3_folder_t *folder, k3_folder_part_t part, const char *id,
                    uint64_t attempt, char path[PATH_MAX]);

/* Moves a file within the folder and makes the move last. Never onto another file. */
k3_status_t k3_folder_move(const char *from, const char *to, k3_error_t *err);

/* K3_ERR_IO when less is free than a launch may need. */
k3_status_t k3_folder_check_space(const k3_folder_t *folder, k3_error_t *err);

#endif
