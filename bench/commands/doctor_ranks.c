#include <stdlib.h>
#include <string.h>

#include "bench/commands/doctor.h"
#include "harness/mpi/topology.h"

/* Ranks of one host; cores that they share are found by equal bindings to fewer cores than ranks. */
static void look_at_host(const k3_world_t *world, const k3_place_t *places, int node,
                         k3_findings_t *out)
{
    int           first = -1, ranks = 0, loose = 0, wide = 0, twins[2] = {-1, -1};
    char          name[K3_HOST_MAX + 16];
    k3_finding_t *line;

    for (int r = 0; r < world->size; r++) {
        if (world->node_of[r] != node) {
            continue;
        }
        first = first < 0 ? r : first;
        ranks++;
        loose += places[r].cores > 1;
        wide += places[r].numa < 0;
        for (int other = first; other < r && twins[0] < 0; other++) {
            if (world->node_of[other] == node && places[r].cores == 1 &&
                strcmp(places[other].cpus, places[r].cpus) == 0) {
                twins[0] = other;
                twins[1] = r;
            }
        }
    }
    snprintf(name, sizeof(name), "host %s", world->host_of[first]);
    line = k3_find(out, "ranks", name, "%d rank%s, first on cores %s, NUMA node %d", ranks,
                   ranks == 1 ? "" : "s", places[first].cpus, places[first].numa);
    if (twins[0] >= 0 && ranks <= world->cores) {
        k3_advise(line, K3_LEVEL_BAD,
                  "ranks %d and %d are bound to the same core (%s) while others are idle: mpirun "
                  "--bind-to core --map-by core",
                  twins[0], twins[1], places[twins[0]].cpus);
    } else if (ranks > 1 && loose > 0 && ranks <= world->cores) {
        k3_advise(line, K3_LEVEL_WARN,
                  "%d of them may move between cores: mpirun --bind-to core --map-by core", loose);
    } else if (wide > 0) {
        k3_advise(line, K3_LEVEL_WARN,
                  "%d of them may run on several NUMA nodes: mpirun --bind-to numa", wide);
    }
}

k3_status_t k3_doctor_ranks(const k3_world_t *world, k3_findings_t *findings, k3_error_t *err)
{
    k3_place_t own, *places = NULL;

    k3_place_find(&own, err);
    if (k3_world_agree(world, err) != K3_OK ||
        k3_place_gather(world, &own, &places, err) != K3_OK || world->rank != 0) {
        return err->status;
    }
    for (int node = 0; node < world->nodes; node++) {
        look_at_host(world, places, node, findings);
    }
    free(places);
    return K3_OK;
}

/* --- pairs ------------------------------------------------------------------------------------- */

static const char *const why_not[K3_PAIR_CLASSES] = {"skipped", "skipped: no two ranks on one host",
                                                     "skipped: no two ranks on one host",
                                                     "skipped: all ranks are on one host"};

void k3_doctor_pairs(const k3_world_t *world, const k3_pair_report_t *pairs,
                     k3_findings_t *findings)
{
    for (int class = 0; class < K3_PAIR_CLASSES; class ++) {
        const k3_pair_result_t *r = pairs != NULL ? &pairs->result[class] : NULL;
        const char             *name = k3_pair_class_names[class];
        k3_finding_t           *line;

        if (r == NULL) {
            k3_find(findings, "pair", name, "skipped: one process; mpirun -np 2 k3bench doctor");
            continue;
        }
        if (!r->measured) {
            k3_find(findings, "pair", name, "%s", why_not[class]);
            continue;
        }
        line = k3_find(findings, "pair", name,
                       "%.2f us, %.1f GB/s (8 KiB rows %.1f), put %.2f us, signal %.2f us, by %s, "
                       "ranks %d and %d; order held in %llu rounds (%llu overtaken without fence)",
                       r->latency_us, r->bulk_GBps, r->row_GBps, r->message_us, r->signal_us,
                       r->transport, r->src, r->dst, (unsigned long long)r->order_rounds,
                       (unsigned long long)r->overtaken_bare);
        line->varies = true;
        if (r->overtaken_used > 0) {
            k3_advise(line, K3_LEVEL_BAD,
                      "signals overtook their data %llu times with every order tried: do not "
                      "measure with this transport",
                      (unsigned long long)r->overtaken_used);
        } else if (r->order == K3_ORDER_FLUSH) {
            k3_advise(line, K3_LEVEL_WARN,
                      "fences do not keep order here: each signal waits for a flush");
        }
        if (class != K3_PAIR_SELF && !world->oversubscribed && r->latency_us > 50) {
            k3_advise(line, K3_LEVEL_WARN, "slow for a pair that has its cores for itself");
        }
    }
    if (pairs != NULL && world->size > 1) {
        k3_find(findings, "pair", "barrier", "%.1f us over %d ranks", pairs->barrier_us,
                world->size)
            ->varies = true;
    }
}
