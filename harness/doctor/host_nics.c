/* RDMA devices and interfaces: cases E03 to E05 met filters that name what does not exist or is
 * down. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/base/sysfiles.h"
#include "harness/doctor/host.h"

enum { USABLE_TEXT = 256 };

typedef struct nics {
    const k3_host_facts_t *facts;
    k3_findings_t         *out;
    unsigned               active_ports, up; /* RDMA ports; interfaces but for the loopback */
    char                   usable[USABLE_TEXT];
} nics_t;

static void add_usable(nics_t *n, const char *name)
{
    size_t used = strlen(n->usable);

    snprintf(n->usable + used, sizeof(n->usable) - used, "%s%s", used > 0 ? ", " : "", name);
}

static void text_of(const char *root, const char *folder, const char *file, char text[K3_SYS_LINE])
{
    char path[K3_SYS_PATH];

    snprintf(path, sizeof(path), "%.800s/%s", folder, file);
    if (!k3_sys_line(root, path, text)) {
        snprintf(text, K3_SYS_LINE, "unknown");
    }
}

static void look_at_port(nics_t *n, const char *device, const char *port)
{
    const char   *root = n->facts->root;
    char          folder[K3_SYS_PATH], above[K3_SYS_PATH], name[2 * K3_SYS_NAME];
    char          state[K3_SYS_LINE], rate[K3_SYS_LINE], link[K3_SYS_LINE], numa[K3_SYS_LINE];
    k3_finding_t *line;

    snprintf(above, sizeof(above), "/sys/class/infiniband/%s", device);
    snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s/ports/%s", device, port);
    snprintf(name, sizeof(name), "%s:%s", device, port);
    text_of(root, folder, "state", state);
    text_of(root, folder, "rate", rate);
    text_of(root, folder, "link_layer", link);
    text_of(root, above, "device/numa_node", numa);
    line = k3_find(n->out, "network", name, "%s, %s, %s, NUMA node %s", state, link, rate, numa);
    if (strstr(state, "ACTIVE") != NULL) {
        n->active_ports++;
        add_usable(n, name);
    } else {
        k3_advise(line, K3_LEVEL_WARN,
                  "the port carries nothing: check cable, switch port and subnet manager, or leave "
                  "the device out of UCX_NET_DEVICES");
    }
}

static void look_at_rdma(nics_t *n)
{
    static k3_sys_names_t devices, ports;
    char                  folder[K3_SYS_PATH];
    k3_finding_t         *line;

    k3_sys_list(n->facts->root, "/sys/class/infiniband", &devices);
    for (unsigned i = 0; i < devices.count; i++) {
        snprintf(folder, sizeof(folder), "/sys/class/infiniband/%s/ports", devices.name[i]);
        k3_sys_list(n->facts->root, folder, &ports);
        for (unsigned p = 0; p < ports.count; p++) {
            look_at_port(n, devices.name[i], ports.name[p]);
        }
    }
    line = k3_find(n->out, "network", "RDMA", "%u device%s, %u active port%s", devices.count,
                   devices.count == 1 ? "" : "s", n->active_ports, n->active_ports == 1 ? "" : "s");
    if (n->active_ports == 0 && n->facts->hosts > 1) {
        k3_advise(line, K3_LEVEL_WARN,
                  "queue pairs between hosts will be emulated over TCP: figures say nothing about "
                  "an RDMA fabric");
    } else if (n->active_ports == 0 && devices.count > 0) {
        k3_advise(line, K3_LEVEL_WARN, "no port is active (see above)");
    }
}

/* Not the virtual ones: an interface of hardware has a device, a container's pair (veth) has none but is
 * all that there is. */
static void look_at_interface(nics_t *n, const char *name)
{
    const char   *root = n->facts->root;
    char          folder[K3_SYS_PATH], path[K3_SYS_PATH + 16], state[K3_SYS_LINE];
    char          speed[K3_SYS_LINE], mtu[K3_SYS_LINE];
    bool          hardware;
    k3_finding_t *line;

    snprintf(folder, sizeof(folder), "/sys/class/net/%s", name);
    text_of(root, folder, "operstate", state);
    text_of(root, folder, "speed", speed);
    text_of(root, folder, "mtu", mtu);
    snprintf(path, sizeof(path), "%s/device", folder);
    hardware = k3_sys_exists(root, path);
    if (strcmp(state, "up") == 0) {
        n->up++;
        add_usable(n, name);
    }
    if (strcmp(speed, "unknown") == 0 || strtol(speed, NULL, 10) <= 0) {
        k3_find(n->out, "network", name, "%s, mtu %s", state, mtu);
        return;
    }
    line = k3_find(n->out, "network", name, "%s, %s Mbit/s, mtu %s", state, speed, mtu);
    if (hardware && strcmp(state, "up") == 0 && strtol(speed, NULL, 10) < 10000 &&
        n->facts->hosts > 1 && n->active_ports == 0) {
        k3_advise(line, K3_LEVEL_WARN, "a slow link: set UCX_NET_DEVICES to a faster interface");
    }
}

static void look_at_interfaces(nics_t *n)
{
    static k3_sys_names_t names;
    k3_finding_t         *line;

    k3_sys_list(n->facts->root, "/sys/class/net", &names);
    for (unsigned i = 0; i < names.count; i++) {
        if (strcmp(names.name[i], "lo") != 0) {
            look_at_interface(n, names.name[i]);
        }
    }
    if (n->up == 0 && n->active_ports == 0) {
        line = k3_find(n->out, "network", "interfaces", "none is up but for the loopback");
        if (n->facts->hosts > 1) {
            k3_advise(line, K3_LEVEL_BAD, "hosts cannot reach each other");
        }
    }
}

/* An entry is DEVICE:PORT or an interface. */
static void look_at_entry(nics_t *n, const char *entry)
{
    const char   *root = n->facts->root;
    char          path[K3_SYS_PATH], state[K3_SYS_LINE], device[K3_SYS_NAME] = "";
    const char   *colon = strchr(entry, ':');
    k3_finding_t *line;

    if (strcmp(entry, "all") == 0) {
        return;
    }
    line = k3_find(n->out, "network", "filter", "UCX_NET_DEVICES=%.100s", entry);
    if (strcmp(entry, "lo") == 0) {
        k3_advise(line, n->facts->hosts > 1 ? K3_LEVEL_BAD : K3_LEVEL_WARN,
                  "the loopback reaches this host only; usable: %s", n->usable);
        return;
    }
    if (colon != NULL) {
        snprintf(device, sizeof(device), "%.*s", (int)(colon - entry), entry);
        snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%s/state", device, colon + 1);
    } else {
        snprintf(path, sizeof(path), "/sys/class/net/%s/operstate", entry);
    }
    if (strchr(entry, '/') != NULL || !k3_sys_line(root, path, state)) {
        k3_advise(line, K3_LEVEL_BAD, "there is no such device or interface; usable: %s",
                  n->usable[0] != '\0' ? n->usable : "none");
    } else if (colon != NULL ? strstr(state, "ACTIVE") == NULL : strcmp(state, "down") == 0) {
        k3_advise(line, K3_LEVEL_BAD, "it is down (%s); usable: %s", state,
                  n->usable[0] != '\0' ? n->usable : "none");
    }
}

static void look_at_filter(nics_t *n)
{
    char  list[K3_SYS_LINE];
    char *rest = list, *entry;

    if (n->facts->net_devices == NULL) {
        return;
    }
    snprintf(list, sizeof(list), "%s", n->facts->net_devices);
    while ((entry = strsep(&rest, ",")) != NULL) {
        if (entry[0] != '\0') {
            look_at_entry(n, entry);
        }
    }
}

void k3_doctor_nics(const k3_host_facts_t *facts, k3_findings_t *findings)
{
    nics_t n = {.facts = facts, .out = findings};

    look_at_rdma(&n);
    look_at_interfaces(&n);
    look_at_filter(&n);
}
