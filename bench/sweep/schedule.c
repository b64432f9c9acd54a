#include "bench/sweep/schedule.h"

#include <math.h>
#include <string.h>

#include "harness/base/memory.h"

static k3_variant_tally_t *tally_of(const k3_schedule_t *schedule, const k3_variant_t *variant)
{
    return &schedule->tallies[variant - schedule->variants->items];
}

static void count_item(k3_schedule_t *schedule, const k3_launch_item_t *item)
{
    k3_variant_tally_t *tally = tally_of(schedule, item->variant);

    if (k3_launch_is_open(schedule, item)) {
        tally->open++;
        schedule->open++;
    } else if (item->past.state == K3_LAUNCH_DONE && isfinite(item->past.seconds)) {
        tally->seconds += item->past.seconds;
        tally->timed++;
    }
}

k3_status_t k3_schedule_create(const k3_variants_t *variants, const k3_journal_t *journal,
                               bool retry, k3_schedule_t *schedule, k3_error_t *err)
{
    uint64_t total = 0, rounds = 0;

    memset(schedule, 0, sizeof(*schedule));
    for (size_t i = 0; i < variants->count; i++) {
        total += variants->items[i].launches;
        rounds = variants->items[i].launches > rounds ? variants->items[i].launches : rounds;
    }
    schedule->variants = variants;
    schedule->retry = retry;
    if (k3_alloc("launches", total, sizeof(*schedule->items), &schedule->items, err) != K3_OK ||
        k3_alloc("variants", variants->count, sizeof(*schedule->tallies), &schedule->tallies,
                 err) != K3_OK) {
        k3_schedule_free(schedule);
        return err->status;
    }
    for (uint64_t round = 1; round <= rounds; round++) {
        for (size_t i = 0; i < variants->count; i++) {
            const k3_variant_t *variant = &variants->items[(i + round - 1) % variants->count];
            k3_launch_item_t   *item = &schedule->items[schedule->count];

            if (round <= variant->launches) {
                item->variant = variant;
                item->round = round;
                k3_launch_id(variant, round, item->id);
                k3_journal_past(journal, item->id, &item->past);
                schedule->count++;
                count_item(schedule, item);
            }
        }
    }
    return K3_OK;
}

void k3_schedule_free(k3_schedule_t *schedule)
{
    k3_free(schedule->items);
    k3_free(schedule->tallies);
    memset(schedule, 0, sizeof(*schedule));
}

bool k3_launch_is_open(const k3_schedule_t *schedule, const k3_launch_item_t *item)
{
    switch (item->past.state) {
    case K3_LAUNCH_DONE:
        return false;
    case K3_LAUNCH_FAILED:
    case K3_LAUNCH_REJECTED:
        return schedule->retry;
    case K3_LAUNCH_NONE:
    case K3_LAUNCH_ASIDE:
        break;
    }
    return true;
}

void k3_schedule_close(k3_schedule_t *schedule, k3_launch_item_t *item, const k3_launch_end_t *end)
{
    k3_variant_tally_t *tally = tally_of(schedule, item->variant);

    item->past.state = end->state;
    item->past.seconds = end->seconds;
    item->past.wrong = end->wrong;
    tally->open--;
    schedule->open--;
    if (end->state == K3_LAUNCH_DONE && isfinite(end->seconds)) {
        tally->seconds += end->seconds;
        tally->timed++;
    }
}

void k3_schedule_reopen(k3_schedule_t *schedule, k3_launch_item_t *item)
{
    item->past.state = K3_LAUNCH_ASIDE;
    tally_of(schedule, item->variant)->open++;
    schedule->open++;
}

double k3_schedule_expect(const k3_schedule_t *schedule, const k3_variant_t *variant)
{
    const k3_variant_tally_t *tally = tally_of(schedule, variant);

    return tally->timed > 0 ? tally->seconds / (double)tally->timed : variant->guess;
}

double k3_schedule_remaining(const k3_schedule_t *schedule)
{
    double sum = 0.0;

    for (size_t i = 0; i < schedule->variants->count; i++) {
        sum += (double)schedule->tallies[i].open *
               k3_schedule_expect(schedule, &schedule->variants->items[i]);
    }
    return sum;
}
