#include "harness/mpi/fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/memory.h"
#include "harness/mpi/memory_type.h"

/* UCX keeps RC off the table when it expects more endpoints than its limit (256 by default) and
 * takes transports that share hardware queues instead. A lane here is meant to be one hardware QP,
 * so the estimate never says more than that; UCX_NUM_EPS overrides it. */
#define ESTIMATED_ENDPOINTS_MAX 256

/* Sources of memory in the order of UCX, without those that take from the heap: what they give is
 * always fresh, so zero, and gigabytes need not be touched. */
#define FRESH_SOURCES "md:sysv,md:posix,huge,md:*,mmap"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *k3_fabric_version_compiled(void)
{
    return TEXT(UCP_API_MAJOR) "." TEXT(UCP_API_MINOR);
}

const char *k3_fabric_version_loaded(void)
{
    return ucp_get_version_string();
}

/* Whether the loaded UCX knows a setting; it would only warn, later, about one that it does not. */
static bool knows_setting(const ucp_config_t *config, const char *name)
{
    char  *text = NULL, pattern[64];
    size_t size = 0;
    FILE  *out = open_memstream(&text, &size);
    bool   known = false;

    if (out == NULL) {
        return false;
    }
    ucp_config_print(config, out, NULL, UCS_CONFIG_PRINT_CONFIG);
    fclose(out);
    snprintf(pattern, sizeof(pattern), "_%s=", name);
    known = text != NULL && strstr(text, pattern) != NULL;
    free(text);
    return known;
}

/* Nothing is striped: one lane, one rail. */
static void set_rails(ucp_config_t *config)
{
    static const char *const rails[] = {"MAX_RMA_RAILS", "MAX_RNDV_RAILS", "MAX_EAGER_RAILS"};

    for (size_t i = 0; i < sizeof(rails) / sizeof(rails[0]); i++) {
        if (knows_setting(config, rails[i])) {
            ucp_config_modify(config, rails[i], "1");
        }
    }
}

static ucs_status_t open_context(k3_fabric_t *fabric)
{
    ucp_params_t  params;
    ucp_config_t *config;
    ucs_status_t  status = ucp_config_read(NULL, NULL, &config);
    int           size = fabric->world->size;

    if (status != UCS_OK) {
        return status;
    }
    set_rails(config);
    fabric->fresh_memory = getenv("UCX_ALLOC_PRIO") == NULL &&
                           ucp_config_modify(config, "ALLOC_PRIO", FRESH_SOURCES) == UCS_OK;
    memset(&params, 0, sizeof(params));
    params.field_mask =
        UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64;
    params.estimated_num_eps =
        (size_t)(size < ESTIMATED_ENDPOINTS_MAX ? size : ESTIMATED_ENDPOINTS_MAX);
    params.name = "k3bench";
    status = ucp_init(&params, config, &fabric->context);
    ucp_config_release(config);
    return status;
}

bool k3_fabric_reaches(const k3_fabric_t *fabric, k3_memory_type_t type)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};

    return ucp_context_query(fabric->context, &attr) == UCS_OK &&
           (attr.memory_types & UCS_BIT(k3_ucs_memory_type(type))) != 0;
}

k3_status_t k3_fabric_open(const k3_world_t *world, k3_fabric_t **fabric_p, k3_error_t *err)
{
    k3_error_t   fault = K3_ERROR_INIT;
    k3_fabric_t *fabric = NULL;
    const char  *wanted = getenv("UCX_TLS");
    ucs_status_t status;

    *fabric_p = NULL;
    if (k3_alloc("fabric", 1, sizeof(*fabric), &fabric, &fault) == K3_OK) {
        fabric->world = world;
        status = open_context(fabric);
        if (status != UCS_OK) {
            k3_fail(&fault, K3_ERR_ENV, "UCX %s cannot be opened with UCX_TLS=%s: %s",
                    ucp_get_version_string(), wanted == NULL ? "(unset)" : wanted,
                    ucs_status_string(status));
        }
    }
    if (k3_world_agree(world, &fault) != K3_OK) {
        k3_fabric_close(fabric);
        return k3_fail(err, fault.status, "%s", fault.text);
    }
    *fabric_p = fabric;
    return K3_OK;
}

void k3_fabric_close(k3_fabric_t *fabric)
{
    if (fabric == NULL) {
        return;
    }
    if (fabric->context != NULL) {
        ucp_cleanup(fabric->context);
    }
    k3_free(fabric);
}
