/* k3bench doctor: what this machine or allocation can do, and what will disturb a measurement. Alone
 * it sees what one process can see; under a launcher each host is looked at by its first rank, and
 * pairs of ranks are measured. */
#include "bench/commands/doctor.h"

#include <stdlib.h>
#include <string.h>

#include "bench/commands/command.h"
#include "bench/plan/machine.h"
#include "harness/base/log.h"
#include "harness/base/sysfiles.h"
#include "harness/doctor/host.h"
#include "harness/mpi/clock.h"
#include "harness/mpi/launch.h"
#include "harness/record/document.h"

typedef struct doctor {
    const char   *json; /* where the document goes; NULL: text */
    bool          calibrate;
    double        load; /* before anything was measured; below 0: not known */
    k3_world_t    world;
    k3_findings_t findings; /* of this host, then of all at rank 0 */
    k3_options_t *options;
} doctor_t;

static void look_at_host(k3_findings_t *out, unsigned ranks, unsigned hosts)
{
    k3_host_facts_t facts = {
        .root = "", .ranks = ranks, .hosts = hosts, .net_devices = getenv("UCX_NET_DEVICES")};

    k3_doctor_cpu(&facts, out);
    k3_doctor_clock_cost(out);
    k3_doctor_memory(&facts, out);
    k3_doctor_nics(&facts, out);
    k3_doctor_gpus(&facts, out);
    k3_doctor_devices(out);
    k3_doctor_software(out);
}

static k3_status_t show(const doctor_t *d, const k3_world_t *world, const k3_pair_report_t *pairs,
                        k3_error_t *err)
{
    json_t *document;

    if (d->json == NULL) {
        k3_doctor_print(&d->findings, stdout);
        return K3_OK;
    }
    document = k3_doctor_json(&d->findings, world, pairs);
    k3_document_write(document, d->json, err);
    json_decref(document);
    return err->status;
}

/* --- one process ------------------------------------------------------------------------------- */

static k3_status_t look_alone(doctor_t *d, k3_error_t *err)
{
    if (d->calibrate) {
        return k3_fail(err, K3_ERR_USAGE,
                       "calibrate: pairs of ranks are measured, and this is one "
                       "process: " K3_MACHINE_MAKE_LOCAL);
    }
    look_at_host(&d->findings, 0, 1);
    k3_doctor_pairs(NULL, NULL, &d->findings);
    return show(d, NULL, NULL, err);
}

/* --- a launch ---------------------------------------------------------------------------------- */

/* The lists of the first rank of each host, brought together at rank 0. */
static k3_status_t gather_hosts(doctor_t *d, k3_error_t *err)
{
    const k3_world_t *w = &d->world;
    k3_findings_t    *of = calloc((size_t)w->nodes, sizeof(*of));
    const char      **hosts = calloc((size_t)w->nodes, sizeof(*hosts));
    k3_findings_t     merged = {0};
    k3_error_t        fault = K3_ERROR_INIT;

    if (of == NULL || hosts == NULL) {
        k3_fail(&fault, K3_ERR_ENV, "no memory for the findings of %d hosts", w->nodes);
    }
    if (k3_world_agree(w, &fault) == K3_OK) {
        for (int r = 0; r < w->size && fault.status == K3_OK; r++) {
            int    node = w->node_of[r];
            size_t bytes = d->findings.count * sizeof(k3_finding_t);
            void  *items = NULL;

            if (hosts[node] != NULL) {
                continue;
            }
            hosts[node] = w->host_of[r];
            if (k3_world_fetch(w, r, d->findings.items, bytes, &items, &bytes, &fault) == K3_OK) {
                of[node] = (k3_findings_t){.items = items, .count = bytes / sizeof(k3_finding_t)};
            }
        }
    }
    if (fault.status == K3_OK && w->rank == 0) {
        k3_doctor_merge(of, hosts, (unsigned)w->nodes, &merged);
        k3_findings_free(&d->findings);
        d->findings = merged;
    }
    for (int node = 0; of != NULL && node < w->nodes; node++) {
        free(of[node].items);
    }
    free(hosts);
    free(of);
    return fault.status == K3_OK ? K3_OK : k3_fail(err, fault.status, "%s", fault.text);
}

/* The pairs, and with --calibrate the machine file. */
static k3_status_t measure(doctor_t *d, k3_pair_report_t *pairs, k3_error_t *err)
{
    k3_fabric_t *fabric = NULL;

    if (k3_fabric_open(&d->world, &fabric, err) != K3_OK) {
        return err->status;
    }
    k3_pairs_measure(fabric, &d->world, pairs, err);
    if (err->status == K3_OK && d->calibrate) {
        k3_doctor_calibrate(&d->world, d->load, fabric, pairs, err);
    }
    k3_fabric_close(fabric);
    return err->status;
}

static k3_status_t look_together(doctor_t *d, k3_error_t *err)
{
    k3_pair_report_t pairs;

    if (d->world.local_rank == 0) {
        look_at_host(&d->findings, (unsigned)d->world.local_size, (unsigned)d->world.nodes);
    }
    if (gather_hosts(d, err) != K3_OK || k3_doctor_ranks(&d->world, &d->findings, err) != K3_OK ||
        measure(d, &pairs, err) != K3_OK) {
        return err->status;
    }
    if (d->world.rank == 0) {
        k3_doctor_pairs(&d->world, &pairs, &d->findings);
        show(d, &d->world, &pairs, err);
    }
    return k3_world_agree(&d->world, err);
}

/* --- the command ------------------------------------------------------------------------------- */

/* "--json" alone, as in `list`, means standard output. */
static void complete_json(int argc, char **argv)
{
    static char to_stdout[] = "--json=-";

    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0 &&
            (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0)) {
            argv[i] = to_stdout;
        }
    }
}

static int finish(doctor_t *d, bool speaks, k3_error_t *err)
{
    k3_level_t worst = k3_findings_worst(&d->findings);
    int        code = k3_exit_code(err->status);

    if (speaks && err->status != K3_OK) {
        k3_log_set_rank(-1);
        k3_log_error("%s", err->text);
    }
    k3_findings_free(&d->findings);
    if (d->options != NULL) {
        k3_options_free(d->options);
    }
    return err->status == K3_OK && worst == K3_LEVEL_BAD ? k3_exit_code(K3_ERR_ENV) : code;
}

static k3_status_t read_options(doctor_t *d, int argc, char **argv, int *help, k3_error_t *err)
{
    if (k3_command_options(&k3_command_doctor, argc, argv, &d->options, help, err) != K3_OK ||
        *help) {
        return err->status;
    }
    d->json = k3_options_get(d->options, "json");
    d->calibrate = k3_options_on(d->options, "calibrate");
    return K3_OK;
}

static int run_launched(int argc, char **argv)
{
    doctor_t   d = {0};
    k3_error_t err = K3_ERROR_INIT;
    double     load;
    int        help = 0, code;
    bool       first;

    if (k3_world_init(&argc, &argv, &d.world, &err) != K3_OK) {
        return k3_world_refused(&d.world, &err);
    }
    k3_clock_init();
    first = d.world.rank == 0;
    d.load = k3_sys_load("", &load) ? load : -1.0;
    read_options(&d, argc, argv, &help, &err);
    if (k3_world_agree(&d.world, &err) == K3_OK && !help) {
        look_together(&d, &err);
    }
    code = finish(&d, first, &err);
    code = k3_world_first(&d.world, code);
    k3_world_finalize(&d.world);
    k3_world_free(&d.world);
    return code;
}

static int run_doctor(int argc, char **argv)
{
    doctor_t    d = {0};
    k3_launch_t launch;
    k3_error_t  err = K3_ERROR_INIT;
    int         help = 0;

    complete_json(argc, argv);
    k3_launch_read(&launch);
    if (strcmp(launch.launcher, "singleton") != 0 &&
        !(argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0))) {
        return run_launched(argc, argv);
    }
    if (read_options(&d, argc, argv, &help, &err) == K3_OK && !help) {
        look_alone(&d, &err);
    }
    return finish(&d, true, &err);
}

const k3_command_t k3_command_doctor = {
    .id = K3_COMMAND_DOCTOR,
    .name = "doctor",
    .usage = "[OPTIONS]   (alone, or under mpirun or srun)",
    .what = "what this machine or allocation can do, what will disturb a measurement",
    .run = run_doctor,
};
