#include "bench/region/verify.h"

#include <stdio.h>
#include <string.h>

#include "harness/base/keyed.h"
#include "harness/base/memory.h"
#include "harness/mpi/watchdog.h"

k3_status_t k3_verify_open(k3_region_t *region, bool on, k3_verify_t *v, k3_error_t *err)
{
    const k3_layout_t *l = &region->cell->layout;
    uint32_t           rank = (uint32_t)region->world->rank;

    memset(v, 0, sizeof(*v));
    v->region = region;
    if (!on) {
        return K3_OK;
    }
    if (k3_alloc("rows to check", l->rows[rank], sizeof(k3_measured_row_t), &v->rows, err) !=
            K3_OK ||
        k3_alloc("selections served", l->rows[rank], region->cell->model.topk * sizeof(int32_t),
                 &v->served, err) != K3_OK ||
        k3_alloc("hashes", region->group_rows, sizeof(uint64_t), &v->hashes, err) != K3_OK ||
        k3_alloc("hash counts", l->attn_tp, sizeof(int), &v->counts, err) != K3_OK ||
        k3_alloc("hash counts", l->attn_tp, sizeof(int), &v->at, err) != K3_OK) {
        return err->status;
    }
    return k3_oracle_create(region->cell, region->stand_in, &v->oracle, err);
}

void k3_verify_close(k3_verify_t *v)
{
    if (v->oracle != NULL) {
        k3_oracle_destroy(v->oracle);
    }
    k3_free(v->at);
    k3_free(v->counts);
    k3_free(v->hashes);
    k3_free(v->served);
    k3_free(v->rows);
    memset(v, 0, sizeof(*v));
}

/* Own row i among the rows that were kept from the sums on. */
static uint64_t kept_row(const k3_region_t *r, uint64_t i)
{
    const k3_layout_t *l = &r->cell->layout;
    uint32_t           rank = (uint32_t)r->world->rank;

    if (r->cell->path.fast) {
        return i;
    }
    return r->group_at + l->first_row[rank] - l->first_row[k3_layout_group_first(l, rank)] + i;
}

/* Selections of experts on masked ranks count as not served; NULL: no rank is masked. */
static const int32_t *served_ids(const k3_verify_t *v, uint64_t i, const int32_t *ids)
{
    const k3_region_t *r = v->region;
    uint32_t           topk = r->cell->model.topk;
    const k3_mask_t   *masks = r->ops->masks != NULL ? r->ops->masks(r->engine) : NULL;
    int32_t           *served = v->served + i * topk;
    bool               any = false;

    for (uint32_t k = 0; k < topk && masks != NULL; k++) {
        bool missing = ids[k] >= 0 && masks[k3_cell_owner(r->cell, (uint32_t)ids[k])].call != 0;

        served[k] = missing ? -1 : ids[k];
        any |= missing;
    }
    return any ? served : NULL;
}

/* Own rows that can be right: a dead rank has none. */
static uint64_t rows_to_check(const k3_verify_t *v)
{
    const k3_region_t *r = v->region;

    return r->spans.dead ? 0 : r->cell->layout.rows[r->world->rank];
}

/* The measured values of own row i. On the fallback the front holds all global rows. */
static void view_row(const k3_verify_t *v, uint64_t i, uint64_t payload, k3_measured_row_t *row)
{
    const k3_region_t *r = v->region;
    const k3_model_t  *m = &r->cell->model;
    uint64_t           first = r->cell->layout.first_row[r->world->rank];
    uint64_t           at = r->cell->path.fast ? i : first + i;
    uint64_t           kept = kept_row(r, i);
    bool               whole = r->cell->component == K3_COMPONENT_REGION;

    *row = (k3_measured_row_t){
        .row = first + i,
        .payload = payload,
        .x = whole ? v->view.x + at * m->hidden : NULL,
        .logits = whole ? v->view.logits + at * m->experts : NULL,
        .ids = v->view.ids + at * m->topk,
        .served = served_ids(v, i, v->view.ids + at * m->topk),
        .weights = v->view.gates + at * m->topk,
        .latent = v->view.latent + at * m->latent,
        /* Partial sums are not looked at: only the whole region reduces them. */
        .combined = whole || r->cell->profile->combine_complete
                        ? v->view.combined + kept * m->latent
                        : NULL,
        .output = whole ? v->view.y + kept * m->hidden : NULL,
    };
}

static uint64_t hash_row(const uint16_t *row, uint32_t n)
{
    uint64_t hash = n, word;

    for (uint32_t i = 0; i < n; i += 4) {
        memcpy(&word, row + i, sizeof(word));
        hash = k3_mix(hash ^ word);
    }
    return hash;
}

static void note_restored(k3_verify_t *v, uint64_t row, uint64_t payload)
{
    k3_check_t wrong = {.wrong = true,
                        .rows_wrong = 1,
                        .first_row = row,
                        .first_payload = payload,
                        .first_stage = K3_STAGE_OUTPUT};

    snprintf(wrong.diagnosis, sizeof(wrong.diagnosis),
             "the row that rank %d holds after the region differs from its owner's",
             v->region->world->rank);
    k3_check_merge(&v->check, &wrong);
}

/* Every rank of the group must hold the rows that their owners computed. */
static void check_restored(k3_verify_t *v, uint64_t payload)
{
    const k3_region_t *r = v->region;
    const k3_layout_t *l = &r->cell->layout;
    uint32_t           rank = (uint32_t)r->world->rank, h = r->cell->model.hidden;
    uint32_t           first = k3_layout_group_first(l, rank);
    uint64_t           own = l->first_row[rank] - l->first_row[first];
    uint64_t           at = kept_row(r, 0);

    for (uint32_t a = 0; a < l->attn_tp; a++) {
        v->counts[a] = (int)l->rows[first + a];
        v->at[a] = (int)(l->first_row[first + a] - l->first_row[first]);
    }
    for (uint64_t i = 0; i < l->rows[rank]; i++) {
        v->hashes[own + i] = hash_row(v->view.y + (at + i) * h, h);
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_UINT64_T, v->hashes, v->counts, v->at, MPI_UINT64_T,
                   r->attn.comm);
    for (uint64_t i = 0; i < r->group_rows; i++) {
        if (v->hashes[i] != hash_row(v->view.restored + i * h, h)) {
            note_restored(v, l->first_row[first] + i, payload);
        }
    }
}

void k3_verify_all(k3_verify_t *v, uint64_t payload)
{
    uint64_t n = rows_to_check(v);

    k3_watchdog_tick("check", payload);
    k3_region_look(v->region, &v->view);
    for (uint64_t i = 0; i < n; i++) {
        view_row(v, i, payload, &v->rows[i]);
    }
    k3_watchdog_work(true);
    k3_oracle_check_rows(v->oracle, v->rows, n, &v->check);
    k3_watchdog_work(false);
    if (v->region->cell->component == K3_COMPONENT_REGION) {
        check_restored(v, payload);
    }
    k3_watchdog_tick("check: waiting for the other ranks", payload);
    MPI_Barrier(v->region->world->comm);
}

void k3_verify_one(k3_verify_t *v, uint64_t payload, uint64_t turn)
{
    uint64_t n = rows_to_check(v);

    k3_watchdog_tick("check", payload);
    if (n > 0) {
        k3_region_look(v->region, &v->view);
        view_row(v, turn % n, payload, &v->rows[0]);
        k3_watchdog_work(true);
        k3_oracle_check(v->oracle, &v->rows[0], &v->check);
        k3_watchdog_work(false);
    }
}

void k3_verify_merge(const k3_verify_t *v, k3_check_t *check)
{
    const k3_world_t *world = v->region->world;

    memset(check, 0, sizeof(*check));
    for (int r = 0; r < world->size; r++) {
        k3_check_t other = v->check;

        MPI_Bcast(&other, sizeof(other), MPI_BYTE, r, world->comm);
        k3_check_merge(check, &other);
    }
}
