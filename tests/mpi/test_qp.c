/* Data, signals and accounts of queue pairs, over shared memory and TCP, with and without plain
 * stores. ranks: 1 2 3 8 */
#include <math.h>

#include "harness/base/keyed.h"
#include "ranks.h"

enum { SLOT = 4096, SIGNAL_SLOT = 64, ROUNDS = 3, BIG = 1 << 20, LANES_MAX = 32 };

static k3_qps_t *qps;
static unsigned  per_peer;
static uint64_t  signals_at, big_at, block_bytes;

static uint64_t lane_number(int src, unsigned qp)
{
    return (uint64_t)(unsigned)src * per_peer + qp;
}

static unsigned message_bytes(unsigned qp)
{
    static const unsigned sizes[] = {3712, 1, 7, 8, 64, 1000, 4096};

    return sizes[qp % (sizeof(sizes) / sizeof(sizes[0]))];
}

static unsigned char byte_of(int src, int dst, unsigned qp, unsigned round, uint64_t i)
{
    uint64_t key = k3_key(k3_key((uint64_t)(unsigned)src << 32 | (unsigned)dst, qp), round);

    return (unsigned char)k3_key(key, i);
}

static void open_qps(k3_fabric_t *fabric, unsigned qps_per_peer, bool p2p)
{
    uint64_t        lanes = (uint64_t)(unsigned)world.size * qps_per_peer;
    k3_qps_config_t config;
    char           *memory;

    CHECK(qps_per_peer <= LANES_MAX);
    per_peer = qps_per_peer;
    signals_at = lanes * SLOT;
    big_at = signals_at + lanes * SIGNAL_SLOT;
    block_bytes = big_at + (uint64_t)(unsigned)world.size * BIG + 1;
    config = basic_config(block_bytes, qps_per_peer, p2p);
    config.order_rounds = 9;
    config.pulls = true;
    CHECK_OK(k3_qps_create(fabric, &config, &qps, err));
    CHECK(k3_qps_per_peer(qps) == qps_per_peer);
    memory = k3_qps_memory(qps);
    for (uint64_t i = 0; i < block_bytes; i++) {
        CHECK(memory[i] == 0);
    }
    CHECK_OK(k3_qps_barrier(qps, err));
}

/* --- data and signals ------------------------------------------------------------------------ */

/* What is added to or written into the four words of a lane in a round. */
static uint64_t value_of(unsigned word, unsigned qp, unsigned round)
{
    const uint64_t values[] = {qp + 1, (UINT64_C(1) << 32) - 1, round + 1,
                               UINT64_C(0x100000000) * (round + 1)};

    return values[word];
}

static void signal_one_by_one(int peer, unsigned qp, unsigned round)
{
    uint64_t word = signals_at + lane_number(world.rank, qp) * SIGNAL_SLOT;

    k3_qps_signal_add32(qps, peer, qp, word, (uint32_t)value_of(0, qp, round));
    k3_qps_signal_add64(qps, peer, qp, word + 8, value_of(1, qp, round));
    k3_qps_signal_write32(qps, peer, qp, word + 16, (uint32_t)value_of(2, qp, round));
    k3_qps_signal_write64(qps, peer, qp, word + 24, value_of(3, qp, round));
    k3_qps_doorbell(qps, peer, qp);
}

static void signal_by_lists(int peer, unsigned round)
{
    static const k3_signal_kind_t kinds[] = {K3_ADD32, K3_ADD64, K3_WRITE32, K3_WRITE64};
    k3_signal_t                   list[LANES_MAX];

    for (unsigned word = 0; word < 4; word++) {
        for (unsigned qp = 0; qp < per_peer; qp++) {
            list[qp] = (k3_signal_t){
                .offset = signals_at + lane_number(world.rank, qp) * SIGNAL_SLOT + 8 * word,
                .value = value_of(word, qp, round),
                .qp = qp,
            };
        }
        k3_qps_signals(qps, peer, kinds[word], list, per_peer, word == 3);
    }
}

static void send_all(unsigned char *source, unsigned round)
{
    bool lists = round % 2 == 1;

    for (int peer = 0; peer < world.size; peer++) {
        for (unsigned qp = 0; qp < per_peer; qp++) {
            uint64_t       lane = lane_number(world.rank, qp);
            unsigned       bytes = message_bytes(qp);
            unsigned char *data = source + lane_number(peer, qp) * SLOT;

            for (unsigned i = 0; i < bytes; i++) {
                data[i] = byte_of(world.rank, peer, qp, round, i);
            }
            k3_qps_put(qps, peer, qp, data, lane * SLOT, bytes, bytes / 2);
            if (!lists) {
                signal_one_by_one(peer, qp, round);
            }
        }
        if (lists) {
            signal_by_lists(peer, round);
        }
    }
}

static void wait_word64(const char *word, uint64_t value)
{
    while (k3_signal_read64(word) != value) {
        CHECK_OK(k3_qps_idle(qps, err));
    }
}

static void wait_word32(const char *word, uint32_t value)
{
    while (k3_signal_read32(word) != value) {
        CHECK_OK(k3_qps_idle(qps, err));
    }
}

static void receive_all(unsigned round)
{
    const char *memory = k3_qps_memory(qps);

    for (int src = 0; src < world.size; src++) {
        for (unsigned qp = 0; qp < per_peer; qp++) {
            uint64_t    lane = lane_number(src, qp);
            const char *word = memory + signals_at + lane * SIGNAL_SLOT;

            /* The first signal is enough for the data; the others are waited for on their own. */
            wait_word32(word, (round + 1) * (qp + 1));
            for (unsigned i = 0; i < message_bytes(qp); i++) {
                CHECK((unsigned char)memory[lane * SLOT + i] ==
                      byte_of(src, world.rank, qp, round, i));
            }
            wait_word64(word + 8, (round + 1) * ((UINT64_C(1) << 32) - 1));
            wait_word32(word + 16, round + 1);
            wait_word64(word + 24, UINT64_C(0x100000000) * (round + 1));
        }
    }
}

static void check_lane(unsigned bank, int peer, unsigned qp, double span_us)
{
    k3_lane_stats_t stats;
    uint64_t        total = 0;

    k3_qps_lane_stats(qps, bank, peer, qp, false, &stats);
    CHECK(stats.messages == ROUNDS);
    CHECK(stats.signals == 4 * ROUNDS);
    CHECK(stats.doorbells == (k3_qps_kind(qps, peer) == K3_LANE_QP ? ROUNDS : 0));
    CHECK(stats.bytes_wire == ROUNDS * (message_bytes(qp) + 24));
    CHECK(stats.bytes_payload == ROUNDS * (message_bytes(qp) / 2));
    CHECK(stats.spans == ROUNDS);
    CHECK(stats.first_post_us >= 0 && stats.first_post_us <= stats.last_done_us);
    CHECK(stats.last_done_us <= span_us);
    CHECK(stats.busy_us > 0 && stats.busy_us <= stats.last_done_us - stats.first_post_us + 0.001);
    CHECK(stats.hist != NULL);
    for (unsigned i = 0; i < K3_HIST_BUCKETS; i++) {
        total += stats.hist->count[i];
    }
    CHECK(stats.hist->total == ROUNDS && total == ROUNDS);
}

static void check_books(double span_us)
{
    k3_lane_stats_t stats;

    for (int peer = 0; peer < world.size; peer++) {
        for (unsigned qp = 0; qp < per_peer; qp++) {
            check_lane(1, peer, qp, span_us);
            k3_qps_lane_stats(qps, 0, peer, qp, false, &stats);
            CHECK(stats.messages == 0 && stats.spans == 0 && stats.hist == NULL);
        }
    }
    k3_qps_reset(qps);
    k3_qps_lane_stats(qps, 1, 0, 0, false, &stats);
    CHECK(stats.messages == 0 && stats.signals == 0 && stats.busy_us == 0 && stats.hist == NULL);
}

static void test_traffic(void)
{
    unsigned char *source = malloc((size_t)world.size * per_peer * SLOT);
    uint64_t       span = 0;

    CHECK(source != NULL);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t start = k3_clock_now();

        k3_qps_bank_begin(qps, 1);
        send_all(source, round);
        receive_all(round);
        CHECK_OK(k3_qps_bank_end(qps, err));
        span += k3_clock_now() - start;
        CHECK_OK(k3_qps_barrier(qps, err));
    }
    check_books(k3_clock_us(span));
    free(source);
}

/* A message larger than any segment, unaligned at both ends. */
static void test_big(void)
{
    int            to = (world.rank + 1) % world.size;
    int            from = (world.rank + world.size - 1) % world.size;
    unsigned char *source = malloc(BIG);
    const char    *memory = k3_qps_memory(qps);
    const char    *data = memory + big_at + (uint64_t)(unsigned)from * BIG + 1;

    CHECK(source != NULL);
    for (unsigned i = 0; i < BIG; i++) {
        source[i] = byte_of(world.rank, to, 9999, 0, i);
    }
    k3_qps_put(qps, to, 0, source, big_at + (uint64_t)(unsigned)world.rank * BIG + 1, BIG - 1, 0);
    k3_qps_signal_write32(qps, to, 0, signals_at + lane_number(world.rank, 0) * SIGNAL_SLOT + 32,
                          7);
    wait_word32(memory + signals_at + lane_number(from, 0) * SIGNAL_SLOT + 32, 7);
    for (unsigned i = 0; i < BIG - 1; i++) {
        CHECK((unsigned char)data[i] == byte_of(from, world.rank, 9999, 0, i));
    }
    CHECK_OK(k3_qps_flush_lane(qps, to, 0, err));
    free(source);
    CHECK_OK(k3_qps_barrier(qps, err));
}

static void test_kinds(bool p2p, bool mappable)
{
    uint64_t rounds, bare, used;

    CHECK(k3_qps_kind(qps, world.rank) == K3_LANE_SELF);
    CHECK(k3_qps_mapped(qps, world.rank) == k3_qps_memory(qps));
    CHECK(strcmp(k3_qps_transport(qps, world.rank), "self") == 0);
    for (int peer = 0; peer < world.size; peer++) {
        if (peer == world.rank) {
            continue;
        }
        if (p2p && mappable) {
            CHECK(k3_qps_kind(qps, peer) == K3_LANE_P2P && k3_qps_mapped(qps, peer) != NULL);
            CHECK(strcmp(k3_qps_transport(qps, peer), "mapped") == 0);
        } else {
            CHECK(k3_qps_kind(qps, peer) == K3_LANE_QP && k3_qps_mapped(qps, peer) == NULL);
            CHECK((strncmp(k3_qps_transport(qps, peer), "tcp/", 4) == 0) == !mappable);
            CHECK(strchr(k3_qps_transport(qps, peer), '/') != NULL);
        }
    }
    k3_qps_order_result(qps, &rounds, &bare, &used);
    CHECK(rounds == 9 * (unsigned)world.size && used == 0 && bare <= rounds);
    CHECK(k3_qps_order(qps) == K3_ORDER_FENCE);
}

/* What is stored through the mapping is in the peer's block. */
static void test_mapping(void)
{
    const char *memory = k3_qps_memory(qps);

    for (int peer = 0; peer < world.size; peer++) {
        char *mapped = k3_qps_mapped(qps, peer);

        if (mapped != NULL) {
            mapped[big_at + (uint64_t)(unsigned)world.rank] = (char)(world.rank + 1);
        }
    }
    CHECK_OK(k3_qps_barrier(qps, err));
    for (int src = 0; src < world.size; src++) {
        if (k3_qps_mapped(qps, src) != NULL) {
            CHECK(memory[big_at + (uint64_t)(unsigned)src] == (char)(src + 1));
        }
    }
    CHECK_OK(k3_qps_barrier(qps, err));
}

/* Rows that are read: booked where they come from, apart from what was posted there. Through a queue pair they
 * are here when all has landed. */
static void test_pull(void)
{
    enum { READS = 3, BYTES = 61 };
    k3_lane_stats_t stats;
    int             from = (world.rank + 1) % world.size;
    char           *memory = k3_qps_memory(qps), got[READS][BYTES + 1];

    memset(memory + big_at, world.rank + 7, BYTES + 1);
    memset(got, 0, sizeof(got));
    CHECK_OK(k3_qps_barrier(qps, err));
    k3_qps_reset(qps);
    k3_qps_bank_begin(qps, 1);
    for (unsigned i = 0; i < READS; i++) {
        k3_qps_get(qps, from, 0, got[i], big_at + 1, BYTES, 50);
    }
    CHECK_OK(k3_qps_land(qps, err));
    for (unsigned i = 0; i < READS; i++) {
        CHECK(got[i][0] == from + 7 && got[i][BYTES - 1] == from + 7 && got[i][BYTES] == 0);
    }
    CHECK_OK(k3_qps_barrier(qps, err)); /* a peer may need this rank's progress to read */
    CHECK_OK(k3_qps_bank_end(qps, err));
    k3_qps_lane_stats(qps, 1, from, 0, true, &stats);
    CHECK(stats.messages == READS && stats.bytes_wire == 183 && stats.bytes_payload == 150);
    CHECK(stats.signals == 0 && stats.spans == 1 && stats.hist->total == READS);
    CHECK(stats.busy_us > 0 && stats.busy_us <= stats.last_done_us - stats.first_post_us + 0.001);
    k3_qps_lane_stats(qps, 1, from, 0, false, &stats);
    CHECK(stats.messages == 0 && stats.hist == NULL);
    CHECK_OK(k3_qps_barrier(qps, err));
}

/* Places that all but its owner take at rank 0: each its own, without a gap. */
static void test_places(void)
{
    enum { TIMES = 5 };
    uint64_t before[TIMES] = {0}, all = 0, *word = (uint64_t *)(void *)k3_qps_memory(qps);

    *word = 0;
    CHECK_OK(k3_qps_barrier(qps, err));
    for (unsigned i = 0; i < TIMES && world.rank != 0; i++) {
        k3_qps_fetch_add64(qps, 0, 0, 0, 3, &before[i]);
    }
    CHECK_OK(k3_qps_land(qps, err));
    CHECK_OK(k3_qps_barrier(qps, err));
    for (unsigned i = 0; i < TIMES && world.rank != 0; i++) {
        CHECK(before[i] % 3 == 0);
        all += before[i] / 3;
    }
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_UINT64_T, MPI_SUM, world.comm);
    if (world.size > 1) {
        uint64_t n = TIMES * (uint64_t)(unsigned)(world.size - 1);

        CHECK(all == n * (n - 1) / 2);
        CHECK(world.rank != 0 || k3_signal_read64(word) == 3 * n);
    }
    *word = 0;
    CHECK_OK(k3_qps_barrier(qps, err));
}

/* Rows from anywhere, each with its part behind, lie one behind the other at the peer: one message. */
static void test_gathered_rows(void)
{
    static const char tails[] = "abcd";
    const char        first[] = "11111", second[] = "22222";
    const void *const rows[] = {second, first};
    const k3_gather_t both = {rows, 5, tails, 2, 2}, bare = {rows, 5, NULL, 0, 1};
    k3_lane_stats_t   stats;
    int               to = (world.rank + 1) % world.size;
    char             *memory = k3_qps_memory(qps);

    if (k3_qps_mapped(qps, to) == NULL) {
        return;
    }
    memset(memory, 0, 64);
    CHECK_OK(k3_qps_barrier(qps, err));
    k3_qps_reset(qps);
    k3_qps_bank_begin(qps, 0);
    k3_qps_put_gather(qps, to, 0, &both, 0, 10);
    k3_qps_put_gather(qps, to, 0, &bare, 32, 5);
    CHECK_OK(k3_qps_bank_end(qps, err));
    CHECK_OK(k3_qps_barrier(qps, err));
    CHECK(memcmp(memory, "22222ab11111cd", 15) == 0 && memcmp(memory + 32, "22222", 6) == 0);
    k3_qps_lane_stats(qps, 0, to, 0, false, &stats);
    CHECK(stats.messages == 2 && stats.bytes_wire == 19 && stats.bytes_payload == 15);
    CHECK(stats.hist->total == 2 && stats.doorbells == 0);
    CHECK_OK(k3_qps_barrier(qps, err));
}

enum { COPIES = 2, COPY_BYTES = 1000, COPY_STEP = SLOT / COPIES };

static unsigned qp_of_copies(int src, int dst)
{
    return (unsigned)(src + dst) % per_peer;
}

/* All copies of all ranks, each with a signal behind the last one of its lane. */
static void send_copies(unsigned char *source, k3_copy_t *to)
{
    unsigned count = 0;

    for (unsigned i = 0; i < COPY_BYTES; i++) {
        source[i] = byte_of(world.rank, 0, 7777, 1, i);
    }
    for (int peer = 0; peer < world.size; peer++) {
        unsigned qp = qp_of_copies(world.rank, peer);

        for (unsigned copy = 0; copy < COPIES; copy++) {
            to[count++] =
                (k3_copy_t){.offset = lane_number(world.rank, qp) * SLOT + copy * COPY_STEP,
                            .peer = peer,
                            .qp = qp,
                            .rings = copy + 1 == COPIES};
        }
    }
    k3_qps_put_copies(qps, to, count, source, COPY_BYTES, 900);
    for (int peer = 0; peer < world.size; peer++) {
        unsigned qp = qp_of_copies(world.rank, peer);

        k3_qps_signal_write32(qps, peer, qp,
                              signals_at + lane_number(world.rank, qp) * SIGNAL_SLOT + 40, 3);
    }
}

static void receive_copies(int src)
{
    uint64_t    lane = lane_number(src, qp_of_copies(src, world.rank));
    const char *memory = k3_qps_memory(qps);

    wait_word32(memory + signals_at + lane * SIGNAL_SLOT + 40, 3);
    for (unsigned copy = 0; copy < COPIES; copy++) {
        const char *data = memory + lane * SLOT + copy * COPY_STEP;

        for (unsigned i = 0; i < COPY_BYTES; i++) {
            CHECK((unsigned char)data[i] == byte_of(src, 0, 7777, 1, i));
        }
        CHECK(data[COPY_BYTES] == 0);
    }
}

static void check_copies(int peer)
{
    k3_lane_stats_t stats;
    bool            stored = k3_qps_kind(qps, peer) != K3_LANE_QP;

    k3_qps_lane_stats(qps, 0, peer, qp_of_copies(world.rank, peer), false, &stats);
    CHECK(stats.messages == COPIES && stats.hist->total == COPIES && stats.signals == 1);
    CHECK(stats.bytes_wire == COPIES * COPY_BYTES + 4 && stats.bytes_payload == COPIES * 900);
    CHECK(stats.doorbells == (stored ? 0 : 1));
    CHECK(stats.busy_us <= stats.last_done_us - stats.first_post_us + 0.001);
}

/* One row to several places, some of them of one lane: bytes, messages, doorbells and times of each. */
static void test_copies(void)
{
    unsigned char source[COPY_BYTES];
    k3_copy_t    *to = malloc((size_t)world.size * COPIES * sizeof(*to));

    CHECK(to != NULL);
    memset(k3_qps_memory(qps), 0, (size_t)world.size * per_peer * SLOT);
    CHECK_OK(k3_qps_barrier(qps, err));
    k3_qps_reset(qps);
    k3_qps_bank_begin(qps, 0);
    send_copies(source, to);
    for (int src = 0; src < world.size; src++) {
        receive_copies(src);
    }
    CHECK_OK(k3_qps_bank_end(qps, err));
    for (int peer = 0; peer < world.size; peer++) {
        check_copies(peer);
    }
    CHECK_OK(k3_qps_barrier(qps, err));
    free(to);
}

/* The first is booked from its own look at the clock, every other one from the end of the one before: what lies
 * between the first post and the last end is busy, to the tick. */
static void test_copies_share_the_clock(void)
{
    static const unsigned char row[64] = {1};
    enum { MANY = 32 };
    k3_copy_t       to[MANY];
    k3_lane_stats_t stats;

    for (unsigned i = 0; i < MANY; i++) {
        to[i] = (k3_copy_t){.offset = i * sizeof(row), .peer = world.rank};
    }
    k3_qps_reset(qps);
    k3_qps_bank_begin(qps, 0);
    k3_qps_put_copies(qps, to, MANY, row, sizeof(row), sizeof(row));
    CHECK_OK(k3_qps_bank_end(qps, err));
    k3_qps_lane_stats(qps, 0, world.rank, 0, false, &stats);
    CHECK(stats.messages == MANY && stats.hist->total == MANY);
    CHECK(fabs(stats.last_done_us - stats.first_post_us - stats.busy_us) < 0.001);
    CHECK_OK(k3_qps_barrier(qps, err));
}

/* A row in two places is one message, in its own bank while posts go to another one; a block of
 * status is one signal. */
static void test_parts_and_blocks(void)
{
    static const uint64_t words[4] = {0x0000000a3f800000, 1, 2, 3};
    k3_lane_stats_t       stats;
    int                   from = (world.rank + 1) % world.size;
    char                 *memory = k3_qps_memory(qps), got[64] = {0};
    k3_part_t             parts[] = {{got, big_at + 64, 5}, {got + 8, big_at + 80, 4}};

    if (k3_qps_mapped(qps, from) == NULL) {
        return;
    }
    memset(memory + big_at, world.rank + 9, 128);
    memset(memory, 0, 32);
    CHECK_OK(k3_qps_barrier(qps, err));
    k3_qps_reset(qps);
    k3_qps_banks_begin(qps, 0, 1);
    k3_qps_get_parts(qps, from, 0, parts, 2, 7);
    k3_qps_signal_block(qps, from, 0, 0, words, sizeof(words));
    CHECK_OK(k3_qps_bank_end(qps, err));
    CHECK(got[4] == from + 9 && got[5] == 0 && got[8] == from + 9 && got[11] == from + 9);
    CHECK_OK(k3_qps_barrier(qps, err));
    CHECK(memcmp(memory, words, sizeof(words)) == 0);
    k3_qps_lane_stats(qps, 1, from, 0, true, &stats);
    CHECK(stats.messages == 1 && stats.bytes_wire == 9 && stats.bytes_payload == 7);
    k3_qps_lane_stats(qps, 0, from, 0, true, &stats);
    CHECK(stats.messages == 0);
    k3_qps_lane_stats(qps, 0, from, 0, false, &stats);
    CHECK(stats.messages == 0 && stats.signals == 1 && stats.bytes_wire == sizeof(words));
    memset(memory, 0, 32);
    k3_qps_reset(qps);
    CHECK_OK(k3_qps_barrier(qps, err));
}

static void test_accounting_off(void)
{
    k3_lane_stats_t stats;
    int             to = (world.rank + 1) % world.size;
    char            data[64] = {0};

    k3_qps_accounting(qps, false);
    k3_qps_bank_begin(qps, 0);
    k3_qps_put(qps, to, 0, data, big_at, sizeof(data), 0);
    k3_qps_accounting(qps, true);
    k3_qps_put(qps, to, 0, data, big_at, sizeof(data), 0);
    CHECK_OK(k3_qps_bank_end(qps, err));
    k3_qps_put(qps, to, 0, data, big_at, sizeof(data), 0); /* outside any span */
    k3_qps_lane_stats(qps, 0, to, 0, false, &stats);
    CHECK(stats.messages == 1 && stats.hist->total == 1 && stats.bytes_wire == sizeof(data));
    CHECK_OK(k3_qps_flush(qps, err));
    CHECK_OK(k3_qps_barrier(qps, err));
}

/* More operations than the pool holds. */
static void test_Q01_more_than_the_pool(void)
{
    static char     data[64];
    k3_lane_stats_t stats;
    int             to = (world.rank + 1) % world.size;

    k3_qps_reset(qps);
    k3_qps_bank_begin(qps, 0);
    for (unsigned i = 0; i < 10000; i++) {
        k3_qps_put(qps, to, i % per_peer, data, big_at, sizeof(data), 1);
    }
    CHECK_OK(k3_qps_bank_end(qps, err));
    k3_qps_lane_stats(qps, 0, to, 0, false, &stats);
    CHECK(stats.messages == (10000 + per_peer - 1) / per_peer);
    CHECK(stats.hist->total == stats.messages && stats.spans == 1);
    CHECK(stats.busy_us <= stats.last_done_us - stats.first_post_us + 0.001);
    CHECK_OK(k3_qps_barrier(qps, err));
}

/* Another kind of lane than was asked for would be another measurement. */
static void refuse_mapping(k3_fabric_t *fabric)
{
    k3_qps_config_t config = basic_config(4096, 1, true);
    k3_error_t      refusal = K3_ERROR_INIT;

    CHECK(k3_qps_create(fabric, &config, &qps, &refusal) == K3_ERR_ENV);
    CHECK(strstr(refusal.text, "cannot be mapped") != NULL);
    CHECK(strstr(refusal.text, "p2p off") != NULL);
}

static void test_transport(const char *transports, bool mappable, unsigned most)
{
    k3_fabric_t *fabric;

    if (transports != NULL) {
        setenv("UCX_TLS", transports, 1);
    }
    CHECK_OK(k3_fabric_open(&world, &fabric, err));
    for (int p2p = 0; p2p <= 1; p2p++) {
        for (unsigned q = 1; q <= most; q += most - 1) {
            if (p2p && !mappable && world.size > 1) {
                refuse_mapping(fabric);
                continue;
            }
            open_qps(fabric, q, p2p != 0);
            test_kinds(p2p != 0, mappable);
            test_traffic();
            test_big();
            test_mapping();
            test_pull();
            test_places();
            test_gathered_rows();
            test_copies();
            test_copies_share_the_clock();
            test_parts_and_blocks();
            test_accounting_off();
            test_Q01_more_than_the_pool();
            k3_qps_destroy(qps);
        }
    }
    k3_fabric_close(fabric);
    unsetenv("UCX_TLS");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(k3_fabric_version_loaded()[0] != '\0' && k3_fabric_version_compiled()[0] != '\0');
    test_transport(NULL, true, 28);
    test_transport("posix,self", true, 3);
    test_transport("tcp,self", false, world.size > 3 ? 4 : 28);
    return finish("test_qp");
}
