/* Holders of a row's experts against plain search: any number of them, experts of nobody, ids of -1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "bench/engines/holders.h"

enum { EXPERTS = 896, TOPK = 64, DRAWS = 2000 };

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % below;
}

static uint32_t search(const k3_holders_t *h, const int32_t *ids, uint32_t topk, uint32_t *list)
{
    uint32_t n = 0;

    for (uint32_t holder = 0; holder < h->count; holder++) {
        bool found = false;

        for (uint32_t k = 0; k < topk; k++) {
            found |= ids[k] >= 0 && h->of[1 + ids[k]] == holder;
        }
        if (found) {
            list[n++] = holder;
        }
    }
    return n;
}

static void check_row(k3_holders_t *h, const int32_t *ids, uint32_t topk)
{
    uint32_t want[TOPK], got[TOPK], n = search(h, ids, topk, want);

    assert_int_equal(k3_holders_list(h, ids, topk, got), n);
    assert_memory_equal(got, want, n * sizeof(*got));
    assert_int_equal(k3_holders_number(h, ids, topk), n);
}

static void check_holders(uint32_t count)
{
    k3_error_t   err = {.status = K3_OK};
    k3_holders_t h;
    uint64_t     state = count;
    int32_t      ids[TOPK];

    assert_int_equal(k3_holders_create(&h, EXPERTS, count, &err), K3_OK);
    memset(ids, 0, sizeof(ids));
    check_row(&h, ids, TOPK); /* nobody holds any */
    for (uint32_t x = 0; x < EXPERTS && count > 0; x++) {
        if (draw(&state, 8) > 0) {
            k3_holders_give(&h, x, draw(&state, count));
        }
    }
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint32_t topk = 1 + draw(&state, TOPK);

        for (uint32_t k = 0; k < topk; k++) {
            ids[k] = (int32_t)draw(&state, EXPERTS + 40) - 40;
            ids[k] = ids[k] < -1 ? -1 : ids[k];
        }
        check_row(&h, ids, topk);
    }
    k3_holders_destroy(&h);
}

static void test_list(void **state)
{
    static const uint32_t counts[] = {0, 1, 2, 8, 62, 63, 64, 65, 127, 128, 896};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        check_holders(counts[i]);
    }
}

static void test_mine(void **state)
{
    int32_t ids[TOPK];

    (void)state;
    for (uint32_t k = 0; k < TOPK; k++) {
        ids[k] = (int32_t)k - 1;
    }
    assert_true(k3_holders_mine(ids, 4, 0, 2) == 6); /* -1 is nobody's */
    assert_true(k3_holders_mine(ids, TOPK, 61, 100) == UINT64_C(3) << 62);
    assert_true(k3_holders_mine(ids, TOPK, 100, 8) == 0);
    assert_false(k3_holders_outside(ids, TOPK, 63));
    assert_true(k3_holders_outside(ids, TOPK, 62));
    ids[5] = -2;
    assert_true(k3_holders_outside(ids, TOPK, 63));
    ids[5] = INT32_MIN;
    assert_true(k3_holders_outside(ids, TOPK, 63));
    ids[5] = INT32_MAX;
    assert_true(k3_holders_outside(ids, TOPK, 63));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list), cmocka_unit_test(test_mine)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
