#!/usr/bin/env python3
"""Writes the descriptions of nodes that the placement tests use: hwloc XML (format 2) with packages, NUMA nodes,
cores and the PCI tree of accelerators and network devices. Layouts follow the vendors' block diagrams; they are
synthetic, not captured. Usage: make.py FOLDER"""
import os
import sys

# name, cores a socket, accelerator (class, ids, name), network device name, devices in all, extra devices
MACHINES = {
    "h200": (56, ("0302", "10de:2335", "nvidia"), "mlx5_", 8, 2),   # two storage adapters, one port down each
    "b300": (72, ("0302", "10de:3182", "nvidia"), "mlx5_", 8, 0),
    "mi355x": (64, ("1200", "1002:75a3", "amdgpu"), "bnxt_re", 8, 1),
}


class Writer:
    def __init__(self, out):
        self.out, self.level, self.gp = out, 0, 0

    def open(self, kind, close=False, info=(), **attributes):
        self.gp += 1
        text = "".join(' %s="%s"' % item for item in attributes.items())
        self.out.write('%s<object type="%s"%s gp_index="%d"%s>\n' %
                       (" " * self.level, kind, text, self.gp, "/" if close and not info else ""))
        for name, value in info:
            self.out.write('%s<info name="%s" value="%s"/>\n' % (" " * (self.level + 1), name, value))
        if not close:
            self.level += 1
        elif info:
            self.out.write("%s</object>\n" % (" " * self.level))

    def end(self):
        self.level -= 1
        self.out.write("%s</object>\n" % (" " * self.level))


def mask(first, count):
    """hwloc writes bitmaps as 32-bit words, the highest first."""
    bits = ((1 << count) - 1) << first
    words = []
    while bits:
        words.append("0x%08x" % (bits & 0xFFFFFFFF))
        bits >>= 32
    return ",".join(reversed(words or ["0x0"]))


def sets(first, count, nodes):
    return dict(cpuset=mask(first, count), complete_cpuset=mask(first, count), nodeset=nodes, complete_nodeset=nodes)


def pci(w, domain, bus, cls, ids, close=False):
    vendor, device = ids.split(":")
    w.open("PCIDev", close=close, pci_busid="%04x:%02x:00.0" % (domain, bus),
           pci_type="%s [%s:%s] [0000:0000] 00" % (cls, vendor, device), pci_link_speed="63.0")


def port(w, name, up):
    w.open("OSDev", close=True, info=[("Port1State", "4" if up else "1")], name=name, osdev_type="3")


def switch(w, domain, bus, accelerator, nic):
    """One PCIe switch: an accelerator and the network device beside it."""
    w.open("Bridge", bridge_type="0-1", depth="0", bridge_pci="%04x:[%02x-%02x]" % (domain, bus, bus + 8))
    w.open("Bridge", bridge_type="1-1", depth="1", bridge_pci="%04x:[%02x-%02x]" % (domain, bus + 1, bus + 8),
           pci_busid="%04x:%02x:00.0" % (domain, bus), pci_type="0604 [1000:c030] [0000:0000] 00", pci_link_speed="63.0")
    pci(w, domain, bus + 2, accelerator[0], accelerator[1], close=True)
    pci(w, domain, bus + 4, "0207", "15b3:1021")
    port(w, nic, True)
    w.end()
    w.end()
    w.end()


def storage(w, domain, bus, nic):
    w.open("Bridge", bridge_type="0-1", depth="0", bridge_pci="%04x:[%02x-%02x]" % (domain, bus, bus + 2))
    pci(w, domain, bus + 1, "0207", "15b3:101d")
    port(w, nic, False)
    w.end()
    w.end()


def write(path, cores, accelerator, nic, devices, extra):
    with open(path, "w") as out:
        w = Writer(out)
        out.write('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">\n')
        w.level = 1
        w.open("Machine", os_index="0", allowed_cpuset=mask(0, 2 * cores), allowed_nodeset="0x00000003",
               **sets(0, 2 * cores, "0x00000003"))
        for socket in range(2):
            node = "0x%08x" % (1 << socket)
            w.open("Package", os_index=str(socket), **sets(socket * cores, cores, node))
            w.open("NUMANode", close=True, os_index=str(socket), local_memory=str(1 << 40), **sets(socket * cores, cores, node))
            for core in range(socket * cores, (socket + 1) * cores):
                w.open("Core", os_index=str(core), **sets(core, 1, node))
                w.open("PU", close=True, os_index=str(core), **sets(core, 1, node))
                w.end()
            half = devices // 2
            for i in range(half):
                # Device numbers do not follow the sockets on real nodes: the accelerators' order does.
                switch(w, socket, 0x10 + 0x10 * i, accelerator, "%s%d" % (nic, (socket * half + i) ^ 1))
            if socket < extra:
                storage(w, socket, 0xe0, "%s%d" % (nic, devices + socket))
            w.end()
        w.end()
        out.write("</topology>\n")


if __name__ == "__main__":
    for machine, (cores, accelerator, nic, devices, extra) in MACHINES.items():
        write(os.path.join(sys.argv[1], machine + ".xml"), cores, accelerator, nic, devices, extra)
