#include "tests/gpu/emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "tests/gpu/emulator.h"

namespace
{

/* Codes of faults. */
enum {
    out_of_memory = 2,
    no_such_device = 101,
    bad_address = 700,
    not_ready = 600,
    kernel_fault = 719
};

std::string last_fault;

k3_device_result_t done(const char *call)
{
    return {0, call};
}

/* --- memory ------------------------------------------------------------------------------------------ */

struct block {
    uint64_t bytes;
    intptr_t shift; /* from the address that the program has to the bytes; 0: memory of the host */
};

std::map<uintptr_t, block> blocks;

/* The block that holds [at, at + bytes); null: none. */
const std::pair<const uintptr_t, block> *block_of(const void *at, uint64_t bytes)
{
    auto after = blocks.upper_bound((uintptr_t)at);

    if (after == blocks.begin()) {
        return nullptr;
    }
    auto found = std::prev(after);

    return (uintptr_t)at + bytes <= found->first + found->second.bytes ? &*found : nullptr;
}

/* An address within a block of either kind, or plain memory of the host. */
char *resolve(const void *at, uint64_t bytes)
{
    auto found = block_of(at, bytes);

    return (char *)at + (found != nullptr ? found->second.shift : 0);
}

uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

k3_device_result_t alloc(uint64_t bytes, void **memory)
{
    const char *call = "alloc of the emulated device";
    const char *limit = getenv("K3_EMULATED_BYTES"); /* of all allocations */
    uint64_t    size = whole_pages(bytes), taken = 0;
    int         file;
    void       *program, *access;

    for (const auto &b : blocks) {
        taken += b.second.shift != 0 ? b.second.bytes : 0;
    }
    if (limit != nullptr && taken + bytes > strtoull(limit, nullptr, 10)) {
        return {out_of_memory, call};
    }
    file = memfd_create("k3bench-emulated", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)size) != 0) {
        return {out_of_memory, call};
    }
    program = mmap(nullptr, size, PROT_NONE, MAP_SHARED, file, 0);
    access = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (program == MAP_FAILED || access == MAP_FAILED) {
        return {out_of_memory, call};
    }
    memset(access, 0xa5, size); /* what was never written is no zero */
    blocks[(uintptr_t)program] = {bytes, (intptr_t)((uintptr_t)access - (uintptr_t)program)};
    k3_emulator::add_memory(program, bytes, true, blocks[(uintptr_t)program].shift);
    *memory = program;
    return done(call);
}

k3_device_result_t release(void *memory)
{
    auto found = blocks.find((uintptr_t)memory);

    if (found == blocks.end()) {
        return {bad_address, "free of the emulated device"};
    }
    k3_emulator::remove_memory(memory);
    munmap((char *)memory + found->second.shift, whole_pages(found->second.bytes));
    munmap(memory, whole_pages(found->second.bytes));
    blocks.erase(found);
    return done("free of the emulated device");
}

k3_device_result_t alloc_host(uint64_t bytes, void **memory)
{
    *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (*memory == nullptr) {
        return {out_of_memory, "alloc of memory that the emulated device reaches"};
    }
    blocks[(uintptr_t)*memory] = {bytes, 0};
    k3_emulator::add_memory(*memory, bytes, true);
    return done("alloc of memory that the emulated device reaches");
}

k3_device_result_t free_host(void *memory)
{
    k3_emulator::remove_memory(memory);
    blocks.erase((uintptr_t)memory);
    free(memory);
    return done("free of memory that the emulated device reaches");
}

intptr_t reach(const void *memory)
{
    auto found = block_of(memory, 0);

    return found != nullptr ? found->second.shift : 0;
}

/* --- streams ------------------------------------------------------------------------------------------ */

struct event {
    bool     over = true;
    double   us = 0;
    uint64_t records = 0; /* not over before the last one is */
    void    *stream = nullptr;
};

struct stream {
    std::deque<std::function<std::string()>> work;
};

double now_us()
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* Until there is nothing left, or the event is over. */
std::string run(stream *s, const event *until)
{
    while (!s->work.empty() && (until == nullptr || !until->over)) {
        auto        work = s->work.front();
        std::string fault;

        s->work.pop_front();
        fault = work();
        if (!fault.empty()) {
            return fault;
        }
    }
    return "";
}

k3_device_result_t finish(void *handle)
{
    std::string fault = run((stream *)handle, nullptr);

    if (!fault.empty()) {
        last_fault = fault;
        return {kernel_fault, "finish of a stream of the emulated device"};
    }
    return done("finish of a stream of the emulated device");
}

k3_device_result_t stream_create(void **handle)
{
    *handle = new stream();
    return done("stream");
}

k3_device_result_t stream_destroy(void *handle)
{
    delete (stream *)handle;
    return done("stream");
}

std::string check_range(const void *at, uint64_t bytes, const char *what)
{
    auto after = blocks.upper_bound((uintptr_t)at);

    /* Within a block it must end there; memory of the host is not known. */
    if (after != blocks.begin()) {
        auto found = std::prev(after);

        if ((uintptr_t)at < found->first + found->second.bytes &&
            (uintptr_t)at + bytes > found->first + found->second.bytes) {
            return std::string(what) + " beyond the end of a block";
        }
    }
    return "";
}

k3_device_result_t copy(void *handle, void *to, const void *from, uint64_t bytes)
{
    k3_emulated::enqueue(handle, [=]() {
        std::string fault = check_range(to, bytes, "copy") + check_range(from, bytes, "copy");

        if (fault.empty()) {
            memmove(resolve(to, bytes), resolve(from, bytes), bytes);
        }
        return fault;
    });
    return done("copy of the emulated device");
}

k3_device_result_t fill(void *handle, void *to, int byte, uint64_t bytes)
{
    k3_emulated::enqueue(handle, [=]() {
        std::string fault = check_range(to, bytes, "fill");

        if (fault.empty()) {
            memset(resolve(to, bytes), byte, bytes);
        }
        return fault;
    });
    return done("fill of the emulated device");
}

/* --- events ------------------------------------------------------------------------------------------- */

k3_device_result_t event_create(void **handle)
{
    *handle = new event();
    return done("event");
}

k3_device_result_t event_destroy(void *handle)
{
    delete (event *)handle;
    return done("event");
}

k3_device_result_t event_record(void *handle, void *on)
{
    event   *e = (event *)handle;
    uint64_t number = ++e->records;

    e->over = false;
    e->stream = on;
    k3_emulated::enqueue(on, [=]() {
        e->us = now_us();
        e->over = e->records == number;
        return std::string();
    });
    return done("event record");
}

k3_device_result_t event_wait(void *handle, void *waited)
{
    event *e = (event *)waited;

    k3_emulated::enqueue(handle, [=]() { return e->over ? "" : run((stream *)e->stream, e); });
    return done("event wait");
}

k3_device_result_t event_elapsed(void *from, void *to, double *us)
{
    event *a = (event *)from, *b = (event *)to;

    *us = b->us - a->us;
    return {a->over && b->over ? 0 : (int)not_ready, "elapsed time of events"};
}

/* --- what it is ---------------------------------------------------------------------------------------- */

int how_many()
{
    const char *text = getenv("K3_EMULATED_DEVICES");

    return text != nullptr ? atoi(text) : 1;
}

k3_device_result_t count(int *n)
{
    *n = how_many();
    return {*n < 0 ? (int)no_such_device : 0, "count of emulated devices"};
}

k3_device_result_t info(int index, k3_device_info_t *i)
{
    const char *memory = getenv("K3_EMULATED_MEMORY"); /* that it claims to have */

    if (index < 0 || index >= how_many()) {
        return {no_such_device, "info of an emulated device"};
    }
    snprintf(i->name, sizeof i->name, "emulated device, warps of %u", k3_warp);
    snprintf(i->bus, sizeof i->bus, "emulated:%d", index);
    snprintf(i->architecture, sizeof i->architecture, "emulated");
    i->memory_bytes = memory != nullptr ? strtoull(memory, nullptr, 10) : 1ull << 30;
    i->processors = 1;
    i->clock_mhz = 1;
    return done("info of an emulated device");
}

void versions(char runtime[K3_DEVICE_VERSION], char driver[K3_DEVICE_VERSION])
{
    snprintf(runtime, K3_DEVICE_VERSION, "emulated");
    snprintf(driver, K3_DEVICE_VERSION, "emulated");
}

k3_device_result_t use(int)
{
    return done("use of an emulated device");
}

k3_device_result_t peer(int, int, int *reachable)
{
    *reachable = 0;
    return done("peer of an emulated device");
}

const char *describe(int code)
{
    switch (code) {
    case out_of_memory:
        return "out of memory";
    case no_such_device:
        return "no such device";
    case not_ready:
        return "not ready";
    case kernel_fault:
        return last_fault.c_str();
    default:
        return "address that it does not have";
    }
}

} // namespace

void k3_emulated::enqueue(void *handle, std::function<std::string()> work)
{
    ((stream *)handle)->work.push_back(std::move(work));
}

extern const k3_device_kind_t k3_device_kind_emulated = {
    "emulated",   K3_MEMORY_HOST, count,          info,       versions,     use,
    peer,         describe,       alloc,          release,    alloc_host,   free_host,
    reach,        stream_create,  stream_destroy, finish,     copy,         fill,
    event_create, event_destroy,  event_record,   event_wait, event_elapsed};
