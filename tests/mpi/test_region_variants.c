/* Regions with context parallelism, and every variant of the shared expert, through their interface:
 * right, without an allocation, with the weights that the plan says. ranks: 2 8 */
#define _GNU_SOURCE /* mincore */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/plan/ranks.h"
#include "bench/plan/slab.h"
#include "bench/region/measure.h"
#include "region_runs.h"

enum { ROUNDS = 3 };

static void run_checked(const k3_cell_request_t *request)
{
    uint64_t    before = k3_alloc_bytes(), rows;
    k3_memory_t plan;
    opened_t    o;
    k3_check_t  check;

    open_region(&o, request, NULL);
    rows = o.cell.layout.rows_global;
    open_check(&o);
    for (int round = 0; round < ROUNDS; round++) {
        run_once(&o);
        verify(&o);
    }
    k3_memory_plan(&o.cell, (uint32_t)world.rank, &plan);
    CHECK(o.weights.bytes == plan.expert_weights + plan.shared_expert + plan.dense_weights +
                                 plan.buffer[K3_BUF_DENSE_WORK]);
    check = close_region(&o);
    if (check.wrong) {
        fprintf(stderr, "%s cp %u: %s\n", request->backend, (unsigned)request->cp, check.diagnosis);
    }
    CHECK(!check.wrong);
    CHECK(check.rows_checked == ROUNDS * rows);
    CHECK(k3_alloc_bytes() == before);
}

static void test_context(void)
{
    static const char *const backends[] = {"none", "deepep:ll", "mpi"};
    static const uint64_t    sizes[][2] = {{1, 2}, {2, 2}, {1, 4}, {1, 8}}; /* dp, cp */

    for (int i = 0; i < 3; i++) {
        for (int s = 0; s < 4; s++) {
            k3_cell_request_t request = request_of(backends[i], 5);

            if (sizes[s][0] * sizes[s][1] > (uint64_t)world.size) {
                continue;
            }
            request.model = "deepseek-v4-flash:E=32,H=256,I=128,S=128";
            request.generation = "k3";
            request.dp = sizes[s][0];
            request.cp = sizes[s][1];
            request.skew = s % 2 == 0 ? "ragged" : "equal";
            run_checked(&request);
            if (i > 0) { /* all ranks dispatch all rows; the complete ones are only cut */
                request.path = "fallback";
                run_checked(&request);
            }
        }
    }
}

static void test_shared_variants(void)
{
    static const char *const slabs[] = {"mooncake", "deepep:ll"};
    static const char *const variants[] = {"replicated", "sharded"};

    for (int i = 0; i < 8; i++) {
        k3_cell_request_t request = request_of(slabs[i % 2], 5);

        request.shared = variants[i / 2 % 2];
        request.shared_overlap = i / 4 == 1 ? "on" : "off";
        request.skew = "ragged";
        run_checked(&request);
    }
}

/* Where rows arrive, as its backend plans it: at most two areas of some bytes each. */
static uint64_t receive_areas(const k3_cell_t *cell, uint64_t at[2])
{
    k3_slab_t  slab;
    k3_ranks_t ranks;

    if (cell->profile->engine == K3_ENGINE_SLAB) {
        k3_slab_plan(cell, &slab);
        memcpy(at, slab.recv, sizeof(slab.recv));
        return k3_slab_record_at(&slab, slab.local - 1, slab.ranks - 1, slab.m - 1) + slab.record;
    }
    k3_ranks_plan(cell, &ranks);
    memcpy(at, ranks.recv, sizeof(ranks.recv));
    return ranks.ranks * ranks.m * ranks.record;
}

static void run_filled(opened_t *o, const uint64_t at[2], uint64_t bytes, int value)
{
    uint8_t *block = k3_qps_memory(o->region.ops->qps(o->region.engine));

    MPI_Barrier(world.comm); /* nobody reads what came, nobody sends yet */
    memset(block + at[0], value, bytes);
    memset(block + at[1], value, bytes);
    MPI_Barrier(world.comm);
    run_once(o);
}

/* What stands in slots that no row came to, NaN or zeros, is in no result, bit for bit. */
static void test_P17_P18_unused_slots(void)
{
    static const char *const backends[] = {"mooncake", "deepep:ll", "deepep_v2:direct", "nccl_ep",
                                           "mori:asyncll"};

    for (int i = 0; i < 5; i++) {
        k3_cell_request_t request = request_of(backends[i], 5);
        uint64_t          at[2], bytes, size;
        uint16_t         *first;
        opened_t          o;

        request.skew = "ragged";
        request.max_tokens = 32;
        open_region(&o, &request, NULL);
        open_check(&o);
        bytes = receive_areas(&o.cell, at);
        size = o.cell.layout.rows[world.rank] * o.cell.model.hidden * sizeof(uint16_t);
        first = malloc(size + 1);
        run_filled(&o, at, bytes, 0xff);
        verify(&o);
        memcpy(first, o.region.y, size);
        o.payload--;
        run_filled(&o, at, bytes, 0);
        CHECK(memcmp(first, o.region.y, size) == 0);
        free(first);
        CHECK(!close_region(&o).wrong);
    }
}

/* Rings of two slots, a row a chunk: every slot waits for its credit while one forwarder is late. */
static void test_P25_rings_of_two_slots(void)
{
    static const k3_ring_tuning_t narrow[] = {{2, {1, 2, 1, 2}, {1, 4, 1, 2}}, {0}};
    k3_cell_request_t             request = request_of("deepep:normal", 33);
    k3_region_options_t           options = {.fabric = fabric,
                                             .accounting = true,
                                             .order_rounds = 8,
                                             .fault = K3_FAULT_NONE,
                                             .isa = "auto"};
    k3_profile_t                  profile;
    k3_check_t                    check;
    opened_t                      o = {0};

    request.skew = "ragged";
    CHECK_OK(k3_cell_create(&request, &o.cell, err));
    profile = *o.cell.profile;
    profile.rings = narrow;
    o.cell.profile = &profile;
    options.weights = &o.weights;
    options.fault.stall_rank = world.size / 2;
    options.fault.stall_phase = K3_PHASE_DISPATCH_WAIT;
    options.fault.stall_ms = 20.0;
    options.fault.stall_every = 2;
    CHECK_OK(k3_region_create(&o.cell, &world, &options, &o.region, err));
    open_check(&o);
    for (int round = 0; round < ROUNDS; round++) {
        run_once(&o);
        verify(&o);
    }
    check = close_region(&o);
    CHECK(!check.wrong && check.rows_checked > 0);
}

/* --- what the first rank does not see -------------------------------------------------------- */

/* It is alone on its node: that others map each other is theirs to say. */
static void test_Q06_transports_of_all(void)
{
    k3_measure_options_t options = {.iters = 1, .check = K3_CHECK_OFF};
    k3_cell_request_t    request = request_of("mooncake", 2);
    int                  nodes[8] = {0, 1, 1, 1, 1, 1, 1, 1};
    k3_measurement_t     m;
    opened_t             o;

    if (world.size != 8) {
        return;
    }
    request.node_of = nodes;
    request.nodes_as = 0;
    request.component = "pair";
    open_region(&o, &request, NULL);
    CHECK_OK(k3_measure(&o.region, &options, &m, err));
    if (world.rank == 0) {
        CHECK(strncmp(m.transport, "self, mapped, ", 14) == 0);
        CHECK(strchr(m.transport + 14, '/') != NULL && strchr(m.transport + 14, ',') == NULL);
    }
    k3_measurement_free(&m);
    close_region(&o);
}

/* --- a long trace ---------------------------------------------------------------------------- */

/* Row r of step s goes to expert s + r. */
static void write_trace(const char *path, int steps, int rows, int experts)
{
    char  head[118];
    FILE *file = fopen(path, "wb");
    int   used =
        snprintf(head, sizeof(head),
                 "{'descr': '<i4', 'fortran_order': False, 'shape': (%d, %d, 1), }", steps, rows);

    CHECK(file != NULL);
    memset(head + used, ' ', sizeof(head) - (size_t)used);
    head[sizeof(head) - 1] = '\n';
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
    fwrite(head, 1, sizeof(head), file);
    for (int step = 0; step < steps; step++) {
        for (int row = 0; row < rows; row++) {
            int32_t id = (step + row) % experts;

            fwrite(&id, sizeof(id), 1, file);
        }
    }
    CHECK(fclose(file) == 0);
}

static bool is_present(const void *memory, uint64_t bytes)
{
    uint64_t       page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t       begin = ((uint64_t)(uintptr_t)memory + page - 1) / page * page;
    uint64_t       pages = ((uint64_t)(uintptr_t)memory + bytes - begin) / page, present = 0;
    unsigned char *state = calloc(pages, 1);

    CHECK(state != NULL && mincore((void *)(uintptr_t)begin, pages * page, state) == 0);
    for (uint64_t i = 0; i < pages; i++) {
        present += state[i] & 1;
    }
    free(state);
    return present == pages;
}

/* What a later step is the first to store to has its pages before the first iteration: slots of the queue pairs, and
 * the counts of the steps. */
static void test_pages_of_a_trace(void)
{
    enum { STEPS = 600000, EXPERTS = 8 };

    k3_cell_request_t request = request_of("mooncake", 1);
    char              path[64], routing[80];
    opened_t          o;

    if (world.size != 2) {
        return;
    }
    (void)snprintf(path, sizeof(path), "/tmp/k3bench-trace-%d-%d.npy", (int)getpid(), world.rank);
    (void)snprintf(routing, sizeof(routing), "trace:%s", path);
    write_trace(path, STEPS, world.size, EXPERTS);
    request.model = "tiny:E=8,K=1";
    request.max_tokens = 512;
    request.component = "pair";
    request.routing = routing;
    open_region(&o, &request, NULL);
    unlink(path);
    CHECK(is_present(o.region.booked, STEPS * sizeof(uint64_t)));
    CHECK(is_present(k3_qps_memory(o.region.ops->qps(o.region.engine)),
                     k3_qps_bytes(o.region.ops->qps(o.region.engine))));
    close_region(&o);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK_OK(k3_fabric_open(&world, &fabric, err));
    test_context();
    test_shared_variants();
    test_P17_P18_unused_slots();
    test_P25_rings_of_two_slots();
    test_Q06_transports_of_all();
    test_pages_of_a_trace();
    k3_fabric_close(fabric);
    return finish("test_region_variants");
}
