#include <stdio.h>
#include <string.h>

#include "bench/commands/command.h"
#include "harness/base/log.h"

enum {
    S = K3_COMMAND_SWEEP, /* takes what `run` takes, and hands it on */
    R = K3_COMMAND_RUN | S,
    CELL = R | K3_COMMAND_PLAN
};

const k3_option_def_t k3_option_defs[] = {
    /* what the model is and who holds it */
    {"model", "NAME,...", "tiny",
     "model shapes (see `list models`); NAME:KEY=VALUE,... varies one: E experts, K top-k, H "
     "hidden,\n"
     "L latent, I intermediate, S shared intermediate",
     CELL},
    {"backend", "NAME,...", "mooncake,deepep:ll,none,mpi", "backend profiles, see `list backends`",
     CELL},
    {"generation", "k3|stock", "auto",
     "which limits a profile has: as upstream documents them (stock) or widened for Kimi-K3;\n"
     "auto: k3 for the Kimi models and tiny, stock for the DeepSeek ones",
     CELL},
    {"tp", "N,...", NULL, "tensor-parallel ranks; default: the world (plan: 8)", CELL},
    {"dp", "N,...", "1", "data-parallel attention groups", CELL},
    {"cp", "N,...", "1", "context-parallel ranks of an attention group", CELL},
    {"ep", "N,...", NULL,
     "expert-parallel ranks; default: tp for backends that span the group, else 1\n"
     "(an expert's intermediate width is then cut over tp / ep ranks)",
     CELL},
    {"tokens", "N,...", "16", "rows that each rank dispatches on the fast path", CELL},
    {"max-tokens", "N", NULL,
     "bound of rows per rank that buffers are sized by; default: the largest", CELL},
    {"tokens-skew", "KIND", "equal",
     "equal, ragged, one-empty, all-but-one-empty, rows of each rank (8,0,3,...), or rows of each\n"
     "DP group (then spread over its ranks with padding)",
     CELL},
    {"routing", "KIND,...", NULL,
     "uniform, zipf:A, khot:N:F, lognormal:MAXVIO, hot-rank:R:F, trace:FILE.npy, or gate (the "
     "router\n"
     "decides, on the rows of --hidden); default: gate with --hidden, else uniform",
     CELL},
    {"seed", "N", "1", "of routing, weights and inputs", CELL},
    {"weights", "synthetic|FILE|DIR[:LAYER]", "synthetic",
     "a released Kimi-K3 checkpoint in safetensors: a file, or a folder with its index (see `list\n"
     "models`); without a layer: the lowest that has experts",
     CELL},
    {"hidden", "FILE.npy", NULL,
     "hidden states that enter the router, [rows, H]: float32 or float16 (rounded to bf16), or\n"
     "uint16 (bf16 as it is); rows in rank order, the same in every iteration",
     CELL},
    /* which path and how */
    {"path", "PATH,...", "auto", "auto (what the rule says), fast, fallback", CELL},
    {"path-rule", "NAME,...", "registry", "registry, or a historical rule (see `list paths`)",
     CELL},
    {"runner", "NAME,...", "auto",
     "expert runner, its numeric recipe and the formats it takes (see `list runners`): marlin,\n"
     "deep_gemm, flashinfer_mxfp4, aiter, aiter:a8w4, aiter:a4w4, triton, flashinfer_cutlass; "
     "auto: "
     "the\n"
     "first that takes the backend's layout and reads its rows as they arrive",
     CELL},
    {"dispatch-dtype", "TYPE,...", "auto", "bf16, fp8, mxfp8, mxfp4 (int8 where a profile has it)",
     CELL},
    {"combine-dtype", "TYPE,...", "auto", "bf16, fp8 (mori), mxfp8, logfmt10 (deepep:ll)", CELL},
    {"shared", "KIND,...", "auto",
     "the shared expert: replicated (whole on each rank), sharded (over the attention group, with "
     "a\n"
     "gather and a reduce-scatter), tp (over tp, reduced with the routed rows); auto: replicated "
     "on "
     "the\n"
     "fast path, tp on the fallback",
     CELL},
    {"shared-overlap", "on|off,...", "off",
     "on: the shared expert runs between the sends of the dispatch and its wait", CELL},
    {"qps", "N,...", "auto",
     "queue pairs to each peer that carry traffic; auto: the profile's rule", CELL},
    {"fabric", "ib|roce", "ib", "for profiles whose QP rule depends on it", CELL},
    {"signal", "OP,...", "auto",
     "how a slab backend signals: its own way (auto), add, or write (that waits for the messages\n"
     "before it where the backend adds)",
     CELL},
    {"zero-copy", "on|off,...", "off",
     "experts write their results where the combine sends from (deepep:ll, nixl, uccl)", CELL},
    {"p2p", "on|off", "on",
     "plain stores to mapped peers of the same node; off: through the queue pair", CELL},
    {"device", "KIND", "cpu",
     "what computes and holds the rows: cpu, cuda or hip, where the build has it; p2p is off on a "
     "device",
     CELL},
    {"nodes-as", "N", NULL, "split the ranks into N virtual nodes", CELL},
    {"component", "NAME,...", "region",
     "region, pair (dispatch + combine), dispatch, combine, experts, control (the same messages by "
     "a\n"
     "bare loop, beside dispatch), chain (pairs back to back, without synchronisation)",
     CELL},
    /* what a plan is held against */
    {"machine", "NAME", NULL,
     "a machine file of results/machines (h200, b300, mi355x, ...), local (by doctor --calibrate) "
     "or a\n"
     "path: plan: predicted times and device memory; run: the share of its limits that phases "
     "reach\n"
     "(default: local, where it is)",
     CELL},
    {"ranks", "N", NULL, "another word for --tp", K3_COMMAND_PLAN},
    {"fit", NULL, "off", "every legal dp and ep of these ranks, what fits first, fastest first",
     K3_COMMAND_PLAN},
    {"what-if", "RULE=VALUE,...", NULL,
     "times with one rule turned into another: qps=8, p2p=off, fabric=roce, posting=every4 or "
     "batch,\n"
     "signal=write, dispatch-dtype=bf16, combine-dtype=bf16, a figure of the machine "
     "(nic_gbps=100),\n"
     "or as:BACKEND, each rule in which that backend differs (k3bench help what-if explains "
     "them)",
     K3_COMMAND_PLAN},
    {"simulate", NULL, "off",
     "send the same plan message by message through links and NICs: shows incast and skew",
     K3_COMMAND_PLAN},
    {"counting", "auto|exact|expected", "auto",
     "draw every row, or expect what the distribution gives; auto: exact up to 4 M pairs",
     K3_COMMAND_PLAN},
    /* how it is measured */
    {"iters", "N", NULL, "timed iterations; default: until --ci-target or --max-seconds", R},
    {"ci-target", "PCT", "2", "stop when the 95 % interval of the median is within +- PCT percent",
     R},
    {"max-seconds", "S", "3", "time limit of the timed iterations of a cell", R},
    {"check", "off|ends|every", "ends", "which iterations are held against the oracle", R},
    {"rotate", "N", "0",
     "execute the first N cells after all others (the record keeps their order); another N in "
     "each\n"
     "launch evens out what a cell's place does to it",
     R},
    {"sync", "auto|round|barrier", "auto",
     "how iterations begin: at an agreed moment of the global clock (round) or behind a barrier;\n"
     "auto: round where a core is left beside the ranks of each node",
     R},
    {"accounting", "on|off", "on", "counters and times of each queue pair", R},
    {"share-device", "on|off", "off", "several ranks may take one device", R},
    {"staged", "on|off", "off",
     "what UCX and MPI read and write lies in the host's memory, which the device reaches over its "
     "bus",
     R},
    {"events", "on|off", "on",
     "phases that kernels of a device make up are timed by its events (off: not timed)", R},
    {"isa", "NAME", "auto",
     "CPU kernels of experts and rows: auto (the best of this processor), amx, avx512_bf16,\n"
     "avx512, avx2, neon, scalar",
     R},
    {"threads", "auto|N", "auto",
     "threads that a rank computes on; auto: the cores it is bound to, at most its share of the "
     "node's",
     R},
    {"fault", "SPEC", "none",
     "stall:RANK:PHASE:MS[:ITERATION or :/EVERY], dead:RANK[+RANK...]:PHASE[:ITERATION],\n"
     "skip:RANK:ITERATION (no dispatch, no combine), slow-qp:SRC:DST:QP:FACTOR, "
     "slow-node:NODE:FACTOR,\n"
     "corrupt:RANK:ROW (test of the checks);\n"
     "iterations from 1, warm-up counted (default: each; dead from the second timed one)",
     R},
    {"call-timeout", "S", NULL,
     "how long a dispatch or combine waits for a rank before --on-timeout; default: the backend's\n"
     "limit where a rank is to die, else for ever",
     R},
    {"on-timeout", "auto|mask|trap|wait", "auto",
     "what follows: the rank's rows are left out (mask), the cell ends (trap); auto: as the "
     "backend",
     CELL},
    {"timeout", "S", "60",
     "seconds without progress after which the job is ended (a launch has 20 more to start);\n"
     "gate: to wait for the history",
     R | K3_COMMAND_GATE},
    {"transport", "auto|any|rdma", "auto",
     "what must carry queue pairs between nodes: RDMA, or anything; auto: RDMA where this host has "
     "an\n"
     "RDMA device",
     R},
    /* files */
    {"out", "FILE", NULL,
     "run: the record; default: results/local/TIME-RUN_ID.json when that folder exists;\n"
     "sweep: the folder of journal, records and logs; default: FILE's name without its ending, in\n"
     "results/local when that folder exists",
     R},
    {"dump", "DIR", NULL,
     "run: write one iteration of the only cell, after the timed ones, as .npy files with a\n"
     "README: what scripts/verify_dump.py recomputes; not in a sweep",
     R},
    {"progress", "auto|off", "auto",
     "run: a progress line on a terminal; sweep: a line for each launch", R},
    {"json", "FILE", NULL,
     "list, plan, doctor: JSON instead of text (- for standard output; list: also without FILE)",
     K3_COMMAND_PLAN | K3_COMMAND_DOCTOR | K3_COMMAND_LIST},
    {"calibrate", NULL, "off",
     "measure this machine and write results/local/machine.ini, the machine file `local`",
     K3_COMMAND_DOCTOR},
    {"output", "FILE", NULL,
     "what it is follows from the ending (-o FILE). report: .html a page with pictures, .md "
     "Markdown\n"
     "for one comment, .csv a row for each cell and phase, .json the records in one document,\n"
     ".trace.json for Perfetto, .prom OpenMetrics; compare, gate: .md, .json",
     K3_COMMAND_REPORT | K3_COMMAND_COMPARE | K3_COMMAND_GATE},
    {"format", "text|json|csv", "text",
     "what is printed: the table, the record, a row for each cell and phase",
     R | K3_COMMAND_REPORT},
    {"lanes", NULL, "off", "CSV with a row for each queue pair instead", K3_COMMAND_REPORT},
    /* comparing */
    {"floor", "PCT", NULL,
     "a shift of the median below PCT percent is no finding, and `same` is shown to lie within "
     "it;\n"
     "default: compare 1, gate 3",
     K3_COMMAND_COMPARE | K3_COMMAND_GATE},
    {"scaled", "on|off", "off",
     "compare headlines as they would be at one speed of the processors (host.scaled_us)",
     K3_COMMAND_COMPARE},
    {"phase", "NAME", NULL, "compare this phase; default: the headline of each cell",
     K3_COMMAND_COMPARE},
    {"baseline", "BACKEND", NULL,
     "within one set: what the others are held against; default: the first of each work",
     K3_COMMAND_COMPARE},
    /* gate */
    {"history", "DIR", NULL,
     "a folder that you copy the record of each launch into; its index is kept there too",
     K3_COMMAND_GATE},
    {"baseline-file", "FILE", NULL, "the baseline; default: baseline.json in the history",
     K3_COMMAND_GATE},
    {"balance-floor", "PCT", "20",
     "a rise of the lanes' max/mean or Gini coefficient below PCT percent is no finding",
     K3_COMMAND_GATE},
    {"window", "N", "100", "launches of a cell, the last ones, in which changes are looked for",
     K3_COMMAND_GATE},
    {"sessions", "N", "5", "a change is a finding when it began in the last N days with launches",
     K3_COMMAND_GATE},
    {"promote", NULL, "off", "make the records given the baseline of their machine",
     K3_COMMAND_GATE},
    {"why", "TEXT", NULL, "the reason, kept with the promotion", K3_COMMAND_GATE},
    {"who", "NAME", NULL, "who promotes; default: the user's name", K3_COMMAND_GATE},
    {"rebuild", NULL, "off", "make the index of the history again from its records",
     K3_COMMAND_GATE},
    /* sweep */
    {"launches", "N", "5", "launches of each cell, in rounds: the first of all, then the second",
     S},
    {"split", "NAME,...", "none",
     "options whose values do not share a launch, besides model, tp, dp, cp, ep and those that "
     "`run`\n"
     "takes no list of",
     S},
    {"dry-run", NULL, "off", "print the plan and start nothing", S},
    {"retry", NULL, "off", "start again what failed or was rejected before", S},
    {"jobs", "N", "1", "launches at a time, on hosts (on one host: cores) of their own", S},
    {"hostfile", "FILE", NULL,
     "lines \"HOST slots=N\"; default: the hosts of the Slurm allocation, or this one", S},
    {"launcher", "WORDS", NULL,
     "what starts the ranks, with {np}, {nodes}, {hosts} (A:8,B:8), {names} (A,B) and {hostfile}\n"
     "filled in; default: srun --mpi=pmix within a Slurm allocation, else mpirun",
     S},
    {"launch-limit", "S", "auto",
     "seconds after which a launch is ended; auto: 60, --timeout and four times what it should\n"
     "take, together",
     S},
    {"carried-by", "NAME,...", NULL,
     "transports that may carry the queue pairs (rc_mlx5 or rc_mlx5/mlx5_0:1); a launch with "
     "others "
     "is\n"
     "rejected",
     S},
    {"budget", "S", NULL, "seconds after which no further launch is started", S},
    {"options", "FILE", NULL, "an ini file with NAME = VALUE for each option",
     K3_COMMAND_RUN | K3_COMMAND_PLAN},
    {"help", NULL, "off", "this text",
     CELL | K3_COMMAND_REPORT | K3_COMMAND_COMPARE | K3_COMMAND_GATE | K3_COMMAND_DOCTOR |
         K3_COMMAND_LIST},
};

const size_t k3_option_count = sizeof(k3_option_defs) / sizeof(k3_option_defs[0]);

static void print_help(const k3_command_t *command, const k3_option_table_t *table)
{
    printf("usage: k3bench %s %s\n\n%s\n\n", command->name, command->usage, command->what);
    k3_options_help(table, stdout);
}

k3_option_table_t k3_command_table(const k3_command_t *command)
{
    return (k3_option_table_t){.defs = k3_option_defs,
                               .count = k3_option_count,
                               .command = command->id,
                               .groups = command->groups,
                               .own_first = command->own_first};
}

k3_status_t k3_command_options(const k3_command_t *command, int argc, char **argv,
                               k3_options_t **options_p, int *help, k3_error_t *err)
{
    k3_option_table_t table = k3_command_table(command);

    *help = 0;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(command, &table);
            *help = 1;
            return K3_OK;
        }
    }
    if (k3_options_parse(&table, argc, argv, options_p, err) != K3_OK) {
        return err->status;
    }
    if (!command->files && k3_options_positional_count(*options_p) > 0) {
        k3_fail(err, K3_ERR_USAGE, "%s takes options only, not \"%s\"", command->name,
                k3_options_positional(*options_p, 0));
        k3_options_free(*options_p);
        *options_p = NULL;
    }
    return err->status;
}

int k3_command_end(const k3_error_t *err)
{
    if (err->status != K3_OK) {
        k3_log_error("%s", err->text);
    }
    return k3_exit_code(err->status);
}
