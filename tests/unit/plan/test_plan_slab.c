#include "tests/unit/plan/plan_test.h"

#include "bench/plan/counted.h"
#include "bench/plan/slab.h"
#include "harness/base/arith.h"

static k3_slab_t slab_of(k3_cell_request_t request)
{
    k3_cell_t cell = cell_of(request);
    k3_slab_t slab;

    k3_slab_plan(&cell, &slab);
    k3_cell_destroy(&cell);
    return slab;
}

/* --- sizes ----------------------------------------------------------------------------------- */

/* The sizes that Mooncake and DeepEP allocate, to the byte. */
static void test_block_sizes(void **state)
{
    static const struct {
        const char *model;
        uint64_t    m, mooncake, deepep;
    } rows[] = {
        {"deepseek-v3", 128, 1883246592, 1908410496},
        {"deepseek-v3", 64, 941625344, 954206336},
        {"deepseek-v3", 256, 3766489088, 3816818816},
        {"deepseek-v3:E=288", 128, 2118652416, 2146961792},
        {"deepseek-v3:E=384", 128, 2824869888, 2862615680},
        {"deepseek-v3:E=288,H=2048,L=2048", 256, 1217401344, 1226836352},
        {"kimi-k3", 128, 3303028736, 3339721856},
        {"kimi-k3", 1024, 26424129536, 0},
        {"tiny", 16, 2229248, 2146944},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_cell_request_t request = request_of("mooncake", rows[i].model, 8);

        request.max_tokens = rows[i].m;
        assert_int_equal(slab_of(request).bytes, rows[i].mooncake);
        request.backend = "deepep:ll";
        if (rows[i].deepep != 0) {
            assert_int_equal(slab_of(request).bytes, rows[i].deepep);
        }
    }
}

/* The block depends on E, M and W: not on how many ranks share it, and not on the format. */
static void test_block_is_the_same_for_all_ranks_and_formats(void **state)
{
    static const char *const formats[] = {"bf16", "fp8", "mxfp8", "mxfp4"};

    (void)state;
    for (uint64_t tp = 8; tp <= 64; tp *= 2) {
        for (unsigned f = 0; f < 4; f++) {
            k3_cell_request_t request = request_of("deepep:ll", "kimi-k3", tp);

            request.max_tokens = 128;
            request.dispatch_dtype = formats[f];
            assert_int_equal(slab_of(request).bytes, 3339721856);
        }
    }
}

/* Records of both libraries: fp8 and bf16 dispatch, combine; the K3 row is L09's. */
static void test_L09_record_sizes(void **state)
{
    static const struct {
        unsigned width, fp8, bf16, combine, scales;
    } rows[] = {
        {2048, 2128, 4112, 4096, 16},   {2560, 2656, 5136, 5120, 20},
        {3072, 3184, 6160, 6144, 24},   {3584, 3712, 7184, 7168, 28},
        {4096, 4240, 8208, 8192, 32},   {5120, 5296, 10256, 10240, 40},
        {6144, 6352, 12304, 12288, 48}, {7168, 7408, 14352, 14336, 56},
        {8192, 8464, 16400, 16384, 64},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char              model[32];
        k3_cell_request_t request = request_of("mooncake", model, 8);
        k3_slab_t         s;

        snprintf(model, sizeof(model), "kimi-k3:L=%u", rows[i].width);
        s = slab_of(request);
        assert_int_equal(s.record, rows[i].fp8);
        assert_int_equal(s.record_payload, rows[i].width + 4 * rows[i].scales);
        assert_int_equal(s.record_values, 16);
        assert_int_equal(s.record_scales, 16 + rows[i].width);
        assert_int_equal(s.result, rows[i].combine);
        assert_int_equal(s.result_payload, rows[i].combine);
        assert_int_equal(s.result_stride, rows[i].combine);
        assert_int_equal(s.signal_bytes, 4);
        request.dispatch_dtype = "bf16";
        s = slab_of(request);
        assert_int_equal(s.record, rows[i].bf16);
        assert_int_equal(s.record_payload, rows[i].combine);
        request.backend = "deepep:ll"; /* cmsg = 2 W + W / 32 in the slot, 2 W on the wire */
        s = slab_of(request);
        assert_int_equal(s.record, rows[i].bf16);
        assert_int_equal(s.result, rows[i].combine);
        assert_int_equal(s.result_stride, rows[i].combine + rows[i].width / 32);
    }
}

/* 3584 wide: 7168 (bf16), 3696 (fp8 and mxfp8), 1904 (mxfp4); never the hidden 14336. */
static void test_L09_payload_is_the_latent_row(void **state)
{
    static const struct {
        const char *format;
        unsigned    payload;
    } rows[] = {{"bf16", 7168}, {"fp8", 3696}, {"mxfp8", 3696}, {"mxfp4", 1904}};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        k3_cell_request_t request = request_of("deepep:ll", "kimi-k3", 8);
        k3_slab_t         s;

        request.dispatch_dtype = rows[i].format;
        s = slab_of(request);
        assert_int_equal(s.record_payload, rows[i].payload);
        assert_int_equal(s.record, 16 + rows[i].payload);
    }
}

/* --- where things lie ------------------------------------------------------------------------ */

static void check_areas(const k3_slab_t *s)
{
    uint32_t l = s->local - 1, r = s->ranks - 1, e = s->experts - 1;

    assert_int_equal(s->local * s->ranks, s->experts);
    for (int b = 0; b < 2; b++) {
        uint64_t send = s->recv[b] - s->send[b], recv = s->signal[b] - s->recv[b];
        uint64_t signals = (b == 0 ? s->send[1] : s->bytes) - s->signal[b];

        assert_true(s->send[b] < s->recv[b] && s->recv[b] < s->signal[b]);
        assert_true(s->signal[b] < (b == 0 ? s->send[1] : s->bytes));
        assert_true(s->m * s->record <= send);
        assert_true(k3_slab_staging_at(s, l, r, s->m - 1) + s->result <= send);
        assert_true(k3_slab_record_at(s, l, r, s->m - 1) + s->record <= recv);
        assert_true(k3_slab_result_at(s, e, s->m - 1) + s->result <= recv);
        assert_true(k3_slab_count_at(s, l, r) + s->signal_bytes <= signals);
        assert_true(k3_slab_flag_at(s, e) + s->signal_bytes <= signals);
        assert_int_equal(s->signal[b] % s->signal_bytes, 0);
    }
    assert_int_equal(s->send[0], 0);
}

static void test_areas_do_not_overlap(void **state)
{
    static const char *const models[] = {"kimi-k3", "tiny", "kimi-k3-mini", "tiny:E=8,K=2,L=128",
                                         "kimi-k3:L=128"};
    static const char *const formats[] = {"bf16", "fp8", "mxfp8", "mxfp4"};

    (void)state;
    for (unsigned m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
        unsigned            i = 0;
        const k3_profile_t *p;

        while ((p = next_available(K3_ENGINE_SLAB, &i)) != NULL) {
            for (unsigned f = 0; f < 4; f++) {
                k3_cell_request_t request = request_of(p->name, models[m], 8);
                k3_slab_t         slab;

                if (k3_is_counted(p) || (f > 1 && (p->dispatch_formats & K3_BIT(f)) == 0)) {
                    continue;
                }
                request.dispatch_dtype = formats[f];
                request.max_tokens = 33;
                if (f == 1) {
                    request.max_tokens = 36;
                }
                slab = slab_of(request);
                check_areas(&slab);
            }
        }
    }
}

/* Every record, result and word has a place of its own: neighbours in the order of the address
 * touch, the first is 0. */
static void test_places_are_dense_and_distinct(void **state)
{
    k3_cell_request_t request = request_of("mooncake", "tiny:E=12,K=4", 4);
    k3_slab_t         s;
    uint64_t          record = 0, staging = 0, word = 0;

    (void)state;
    request.tokens = request.max_tokens = 5;
    s = slab_of(request);
    for (uint32_t l = 0; l < s.local; l++) {
        for (uint32_t r = 0; r < s.ranks; r++) {
            assert_int_equal(k3_slab_count_at(&s, l, r), word);
            word += s.signal_bytes;
            for (uint64_t i = 0; i < s.m; i++) {
                assert_int_equal(k3_slab_record_at(&s, l, r, i), record);
                assert_int_equal(k3_slab_staging_at(&s, l, r, i), staging);
                record += s.record;
                staging += s.result_stride;
            }
        }
    }
    for (uint32_t e = 0; e < s.experts; e++) {
        assert_int_equal(k3_slab_flag_at(&s, e), e * s.signal_bytes);
        assert_int_equal(k3_slab_result_at(&s, e, 0), e * s.m * s.result_stride);
        assert_int_equal(k3_slab_result_at(&s, e, 3) - k3_slab_result_at(&s, e, 2),
                         s.result_stride);
    }
}

/* The stride is the allocation's: rows of the call do not move a slot. */
static void test_P11_stride_comes_from_the_bound(void **state)
{
    static const uint64_t tokens[] = {8, 64, 1, 16, 0};
    k3_cell_request_t     request = request_of("deepep:ll", "tiny", 8);
    k3_slab_t             first;

    (void)state;
    request.max_tokens = 64;
    first = slab_of(request);
    for (unsigned i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        k3_slab_t s;

        request.tokens = tokens[i];
        s = slab_of(request);
        assert_int_equal(s.m, 64);
        assert_int_equal(s.bytes, first.bytes);
        assert_int_equal(k3_slab_record_at(&s, 1, 2, 3), k3_slab_record_at(&first, 1, 2, 3));
    }
}

/* --- queue pairs ----------------------------------------------------------------------------- */

/* The most experts that one QP carries: Mooncake's QP map, and Q13. */
static void test_Q13_qp_of_an_expert(void **state)
{
    static const struct {
        const char *backend, *model, *fabric;
        uint64_t    tp, qps;
        uint32_t    active, most;
    } rows[] = {
        {"mooncake", "deepseek-v3", "ib", 8, 0, 32, 1},
        {"mooncake", "deepseek-v3", "roce", 8, 0, 8, 4},
        {"mooncake", "deepseek-v3:E=288", "ib", 8, 0, 32, 2},
        {"mooncake", "deepseek-v3:E=288", "roce", 8, 0, 8, 5},
        {"mooncake", "deepseek-v3:E=288", "ib", 12, 0, 21, 2},
        {"mooncake", "deepseek-v3:E=288", "roce", 12, 0, 8, 3},
        {"mooncake", "tiny:E=33", "ib", 3, 0, 85, 1},
        {"mooncake", "kimi-k3", "ib", 32, 0, 8, 4},
        {"mooncake", "kimi-k3", "roce", 8, 0, 8, 14},
        {"mooncake", "kimi-k3", "roce", 64, 0, 4, 4},
        {"mooncake", "kimi-k3", "ib", 8, 4, 4, 28},
        {"deepep:ll", "kimi-k3", "ib", 32, 0, 28, 1},
        {"deepep:ll", "kimi-k3", "ib", 32, 4, 4, 7},
        {"deepep:ll", "kimi-k3", "roce", 32, 0, 28, 1},
        {"nixl", "kimi-k3", "ib", 32, 0, 4, 7},
        {"nixl", "kimi-k3", "ib", 8, 0, 4, 28},
        {"uccl", "kimi-k3", "ib", 32, 0, 4, 7},
        {"uccl", "deepseek-v3", "ib", 8, 0, 4, 8},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        k3_cell_request_t request = request_of(rows[i].backend, rows[i].model, rows[i].tp);
        uint32_t          load[256] = {0}, most = 0;
        k3_slab_t         s;

        request.fabric = rows[i].fabric;
        request.qps = rows[i].qps;
        s = slab_of(request);
        assert_int_equal(s.qps, rows[i].active);
        for (uint32_t e = 0; e < s.local; e++) {
            uint32_t qp = k3_slab_qp(&s, e);

            assert_int_equal(qp, e % rows[i].active);
            load[qp]++;
            most = load[qp] > most ? load[qp] : most;
        }
        assert_int_equal(most, rows[i].most);
    }
}

/* An expert sticks to a proxy thread: (expert % 32 channels) % threads. */
static void test_uccl_proxies(void **state)
{
    k3_cell_request_t request = request_of("uccl", "kimi-k3", 8);
    k3_slab_t         s;

    (void)state;
    request.qps = 3; /* does not divide the channels */
    s = slab_of(request);
    assert_int_equal(s.channels, 32);
    assert_int_equal(k3_slab_qp(&s, 31), 31 % 3);
    assert_int_equal(k3_slab_qp(&s, 32), 0);
    assert_int_equal(k3_slab_qp(&s, 65), 1);
    assert_int_equal(k3_slab_lanes(&s), 3);
}

/* NIXL's words are 8 bytes: DeepEP's size and twice the signals, padded to 128, of two halves. */
static void test_nixl_sizes(void **state)
{
    k3_cell_request_t request = request_of("nixl", "kimi-k3", 8);
    k3_slab_t         s;

    (void)state;
    request.max_tokens = 128;
    s = slab_of(request);
    assert_int_equal(s.signal_bytes, 8);
    assert_int_equal(s.bytes, UINT64_C(3339721856) + 2 * 896 * 4);
    request.backend = "uccl";
    assert_int_equal(slab_of(request).bytes, UINT64_C(3339721856));
}

/* A result as LogFMT-10: a pair and 160 to 256 bytes for 128 values; the slot is as it was. */
static void test_logfmt_results(void **state)
{
    k3_cell_request_t request = request_of("deepep:ll", "kimi-k3", 8);
    k3_slab_t         s, plain = slab_of(request);

    (void)state;
    request.combine_dtype = "logfmt10";
    s = slab_of(request);
    assert_int_equal(s.result, 7168 + 28 * 4);
    assert_int_equal(s.result_payload, s.result);
    assert_int_equal(s.result - s.result_spare, 28 * (4 + 160));
    assert_int_equal(s.result_stride, plain.result_stride + 28 * 4);
    assert_int_equal(s.decoded, 16 * 7168);
}

/* Results lie outside the block unless they are written where the combine sends from. */
static void test_zero_copy(void **state)
{
    k3_cell_request_t request = request_of("deepep:ll", "kimi-k3", 8);
    k3_slab_t         copied = slab_of(request), direct;

    (void)state;
    request.zero_copy = "on";
    direct = slab_of(request);
    assert_int_equal(copied.results, UINT64_C(896) * 16 * 7168);
    assert_int_equal(direct.results, 0);
    assert_int_equal(direct.bytes, copied.bytes);
    request.combine_dtype = "logfmt10";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "deepep:ll", "zero-copy", "logfmt10");
    request.combine_dtype = NULL;
    request.backend = "mooncake";
    assert_cell_refused(request, K3_ERR_UNSUPPORTED, "mooncake", "zero-copy", NULL);
}

/* --- 64 bits --------------------------------------------------------------------------------- */

/* 720 ranks, bound 8192: places just below and above 2^31 and 2^32 bytes. */
static void test_C03_offsets_above_32_bits(void **state)
{
    k3_cell_request_t request = request_of("deepep:ll", "kimi-k3:E=720", 720);
    k3_slab_t         s;

    (void)state;
    request.tokens = 1;
    request.max_tokens = 8192;
    s = slab_of(request);
    assert_int_equal(s.record, 3712);
    assert_int_equal(s.bytes, UINT64_C(171756754816));
    /* 70 sources of 8192 records of 3712 bytes: the first byte of source 70 is just below 2^31,
     * source 71's is above; source 141 is just below 2^32, source 142 above. */
    assert_int_equal(k3_slab_record_at(&s, 0, 70, 0), UINT64_C(2128609280));
    assert_int_equal(k3_slab_record_at(&s, 0, 71, 0), UINT64_C(2159017984));
    assert_int_equal(k3_slab_record_at(&s, 0, 141, 0), UINT64_C(4287627264));
    assert_int_equal(k3_slab_record_at(&s, 0, 142, 0), UINT64_C(4318035968));
    assert_int_equal(k3_slab_record_at(&s, 0, 719, 8191), UINT64_C(21894266880) - 3712);
    assert_int_equal(k3_slab_result_at(&s, 719, 8191), UINT64_C(5898239) * (7168 + 112));
    check_areas(&s);
}

/* 896 ranks with one expert each, 7168 wide: 896 x 8192 x 14336 = 105 GB of returned rows. */
static void test_C04_exact_bytes_of_a_huge_block(void **state)
{
    k3_cell_request_t request = request_of("deepep:ll", "kimi-k3:L=7168", 896);
    k3_slab_t         s;

    (void)state;
    request.tokens = 1;
    request.max_tokens = 8192;
    request.dispatch_dtype = "bf16";
    s = slab_of(request);
    assert_int_equal(s.bytes, UINT64_C(427483470976));
    assert_int_equal(s.signal[0] - s.recv[0], UINT64_C(896) * 8192 * 14560);
    assert_int_equal(k3_slab_record_at(&s, 0, 896, 0), UINT64_C(105344139264));
    check_areas(&s);
}

/* A size that does not fit in 64 bits stays visible as such in every area. */
static void test_C04_saturation(void **state)
{
    static const char *const backends[] = {"mooncake", "deepep:ll"};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        k3_cell_t cell = cell_of(request_of(backends[i], "kimi-k3", 8));
        k3_slab_t s;

        cell.max_tokens = UINT64_C(1) << 50;
        k3_slab_plan(&cell, &s);
        assert_int_equal(s.bytes, K3_TOO_BIG);
        cell.max_tokens = K3_TOO_BIG;
        k3_slab_plan(&cell, &s);
        assert_int_equal(s.bytes, K3_TOO_BIG);
        k3_cell_destroy(&cell);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_sizes),
        cmocka_unit_test(test_block_is_the_same_for_all_ranks_and_formats),
        cmocka_unit_test(test_L09_record_sizes),
        cmocka_unit_test(test_L09_payload_is_the_latent_row),
        cmocka_unit_test(test_areas_do_not_overlap),
        cmocka_unit_test(test_places_are_dense_and_distinct),
        cmocka_unit_test(test_P11_stride_comes_from_the_bound),
        cmocka_unit_test(test_Q13_qp_of_an_expert),
        cmocka_unit_test(test_uccl_proxies),
        cmocka_unit_test(test_nixl_sizes),
        cmocka_unit_test(test_logfmt_results),
        cmocka_unit_test(test_zero_copy),
        cmocka_unit_test(test_C03_offsets_above_32_bits),
        cmocka_unit_test(test_C04_exact_bytes_of_a_huge_block),
        cmocka_unit_test(test_C04_saturation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
