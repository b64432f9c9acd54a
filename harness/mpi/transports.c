#include "harness/mpi/transports.h"
#include "harness/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

static const char *kind_of(uct_device_type_t type)
{
    switch (type) {
    case UCT_DEVICE_TYPE_NET:
        return "network";
    case UCT_DEVICE_TYPE_SHM:
        return "shared memory";
    case UCT_DEVICE_TYPE_ACC:
        return "accelerator";
    case UCT_DEVICE_TYPE_SELF:
        return "self";
    default:
        return "other";
    }
}

static void visit_domain(uct_component_h component, const char *name, k3_transport_visit_t visit,
                         void *arg)
{
    uct_md_config_t        *config;
    uct_md_h                domain;
    uct_tl_resource_desc_t *resources;
    unsigned                count;

    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK) {
        return;
    }
    if (uct_md_open(component, name, config, &domain) == UCS_OK) {
        if (uct_md_query_tl_resources(domain, &resources, &count) == UCS_OK) {
            for (unsigned i = 0; i < count; i++) {
                visit(resources[i].tl_name, resources[i].dev_name, kind_of(resources[i].dev_type),
                      arg);
            }
            uct_release_tl_resource_list(resources);
        }
        uct_md_close(domain);
    }
    uct_config_release(config);
}

/* Asked twice: how many memory domains, then their names. */
static void visit_component(uct_component_h component, k3_transport_visit_t visit, void *arg)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};

    if (uct_component_query(component, &attr) != UCS_OK || attr.md_resource_count == 0) {
        return;
    }
    attr.md_resources = calloc(attr.md_resource_count, sizeof(*attr.md_resources));
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    if (attr.md_resources != NULL && uct_component_query(component, &attr) == UCS_OK) {
        for (unsigned i = 0; i < attr.md_resource_count; i++) {
            visit_domain(component, attr.md_resources[i].md_name, visit, arg);
        }
    }
    free(attr.md_resources);
}

k3_status_t k3_transports_list(k3_transport_visit_t visit, void *arg, k3_error_t *err)
{
    uct_component_h *components;
    unsigned         count;
    ucs_status_t     status = uct_query_components(&components, &count);

    if (status != UCS_OK) {
        return k3_fail(err, K3_ERR_ENV, "UCX names no transports: %s", ucs_status_string(status));
    }
    for (unsigned i = 0; i < count; i++) {
        visit_component(components[i], visit, arg);
    }
    uct_release_component_list(components);
    return K3_OK;
}

k3_status_t k3_transports_memory(char *text, unsigned size, k3_error_t *err)
{
    ucp_params_t       params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64};
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    ucp_context_h      context;
    ucs_status_t       status = ucp_init(&params, NULL, &context);
    size_t             used = 0;

    text[0] = '\0';
    if (status != UCS_OK) {
        return k3_fail(err, K3_ERR_ENV, "UCX cannot be opened: %s", ucs_status_string(status));
    }
    if (ucp_context_query(context, &attr) == UCS_OK) {
        for (int t = 0; t < UCS_MEMORY_TYPE_LAST && used < size; t++) {
            if ((attr.memory_types & UCS_BIT(t)) != 0) {
                used = k3_append(text, size, used, "%s%s", used > 0 ? ", " : "",
                                 ucs_memory_type_names[t]);
            }
        }
    }
    ucp_cleanup(context);
    return K3_OK;
}
