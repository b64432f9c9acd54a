#include "bench/sweep/schedule.h"

#include <math.h>
#include <string.h>

#include "harness/base/memory.h"

static k3_group_tally_t *tally_of(const k3_schedule_t *schedule, const k3_group_t *group)
{
    return &schedule->tallies[group - schedule->groups->items];
}

static void count_item(k3_schedule_t *schedule, const k3_launch_item_t *item)
{
    k3_group_tally_t *tally = tally_of(schedule, item->group);

    if (k3_launch_is_open(schedule, item)) {
        tally->open++;
        schedule->open++;
    } else if (item->past.state == K3_LAUNCH_DONE && isfinite(item->past.seconds)) {
        tally->seconds += item->past.seconds;
        tally->timed++;
    }
}

k3_status_t k3_schedule_create(const k3_groups_t *groups, const k3_journal_t *journal, bool retry,
                               k3_schedule_t *schedule, k3_error_t *err)
{
    uint64_t total = 0, rounds = 0;

    memset(schedule, 0, sizeof(*schedule));
    for (size_t i = 0; i < groups->count; i++) {
        total += groups->items[i].launches;
        rounds = groups->items[i].launches > rounds ? groups->items[i].launches : rounds;
    }
    schedule->groups = groups;
    schedule->retry = retry;
    if (k3_alloc("launches", total, sizeof(*schedule->items), &schedule->items, err) != K3_OK ||
        k3_alloc("groups", groups->count, sizeof(*schedule->tallies), &schedule->tallies, err) !=
            K3_OK) {
        k3_schedule_free(schedule);
        return err->status;
    }
    for (uint64_t round = 1; round <= rounds; round++) {
        for (size_t i = 0; i < groups->count; i++) {
            const k3_group_t *group = &groups->items[(i + round - 1) % groups->count];
            k3_launch_item_t *item = &schedule->items[schedule->count];

            if (round <= group->launches) {
                item->group = group;
                item->round = round;
                k3_launch_id(group, round, item->id);
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

void k3_schedule_close(k3_schedule_t *schedule, k3_launch_item_t *item, k3_launch_state_t state,
                       double seconds)
{
    k3_group_tally_t *tally = tally_of(schedule, item->group);

    item->past.state = state;
    item->past.seconds = seconds;
    tally->open--;
    schedule->open--;
    if (state == K3_LAUNCH_DONE && isfinite(seconds)) {
        tally->seconds += seconds;
        tally->timed++;
    }
}

double k3_schedule_expect(const k3_schedule_t *schedule, const k3_group_t *group)
{
    const k3_group_tally_t *tally = tally_of(schedule, group);

    return tally->timed > 0 ? tally->seconds / (double)tally->timed : group->guess;
}

double k3_schedule_remaining(const k3_schedule_t *schedule)
{
    double sum = 0.0;

    for (size_t i = 0; i < schedule->groups->count; i++) {
        sum += (double)schedule->tallies[i].open *
               k3_schedule_expect(schedule, &schedule->groups->items[i]);
    }
    return sum;
}
