#include "tests/gpu/emulator.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

namespace k3_emulator
{

namespace
{

constexpr size_t   stack_bytes = 64 * 1024;
constexpr unsigned nobody = ~0u;

enum waiting { runs, at_barrier, at_exchange, ended };

struct touched_bytes {
    const void *site; /* the place in the kernel */
    uintptr_t   at;
    size_t      bytes;
    unsigned    lane;
    bool        store, shared;
};

struct fiber {
    jmp_buf                    context;
    std::vector<char>          stack;
    waiting                    state = ended;
    bool                       started = false;
    std::vector<touched_bytes> log; /* since the last meeting of the warp */
};

struct warp {
    unsigned    arrived = 0;
    uint64_t    meetings = 0; /* the epoch of accesses within the warp */
    const void *mine[2][k3_warp];
};

struct region {
    uintptr_t begin, end;
    bool      writable;
    intptr_t  shift;
};

/* When a thread touched a byte. */
struct stamp {
    unsigned who = nobody, in_block = 0;
    uint64_t epoch = 0, meeting = 0;
};

/* The last store, the last two threads that loaded, and the epoch in which several warps did. */
struct touch {
    stamp    store, load, load_before;
    uint64_t many_epoch = 0;
};

struct machine {
    grid                                     shape;
    unsigned                                 block_x = 0, block_y = 0, number = 0, current = 0;
    uint64_t                                 epoch = 0;
    std::vector<fiber>                       fibers;
    std::vector<warp>                        warps;
    std::vector<region>                      memory;
    std::map<std::string, std::vector<char>> shared_arrays;
    std::unordered_map<uintptr_t, touch>     touched;
    std::string                              fault;
    jmp_buf                                  scheduler;
    ucontext_t                               first;
    void (*entry)(const void *) = nullptr;
    const void *argument = nullptr;
    unsigned    order = 0;
    bool        watching = true;
    size_t      last_region = 0; /* that an access fell into */
    counts      counted = {};
} m;

[[noreturn]] void stop(const std::string &text)
{
    char head[96];

    snprintf(head, sizeof head, "block %u,%u thread %u: ", m.block_x, m.block_y, m.current);
    m.fault = head + text;
    _longjmp(m.scheduler, 2);
}

[[noreturn]] void leave()
{
    _longjmp(m.scheduler, 1);
}

void wait_as(waiting state)
{
    fiber &f = m.fibers[m.current];

    f.state = state;
    if (_setjmp(f.context) == 0) {
        leave();
    }
}

/* A fiber stays for the next block: making a new one is a system call. */
void fiber_main()
{
    for (;;) {
        m.entry(m.argument);
        wait_as(ended);
    }
}

/* --- counts: what lanes do at one place of the kernel, the k-th time since they last met, is one
 * instruction ---------------------------------------------------------------------------------- */

void count_ways(const std::vector<touched_bytes> &accesses)
{
    std::map<unsigned, std::vector<uintptr_t>> words;

    for (const touched_bytes &a : accesses) {
        for (uintptr_t w = a.at / 4; w <= (a.at + a.bytes - 1) / 4; w++) {
            auto &of_bank = words[w % 32];

            if (std::find(of_bank.begin(), of_bank.end(), w) == of_bank.end()) {
                of_bank.push_back(w);
            }
        }
    }
    for (const auto &bank : words) {
        m.counted.bank_ways = std::max(m.counted.bank_ways, (unsigned)bank.second.size());
    }
}

/* Accesses are served for as many neighbouring lanes at a time as fill 128 bytes. */
void count_banks(const std::vector<touched_bytes> &accesses)
{
    std::vector<touched_bytes> together;
    size_t                     turn = 0;

    for (const touched_bytes &a : accesses) {
        size_t its_turn = a.lane / (128 / std::max(a.bytes, (size_t)4));

        if (!a.shared) {
            continue;
        }
        if (its_turn != turn) {
            count_ways(together);
            together.clear();
            turn = its_turn;
        }
        together.push_back(a);
    }
    count_ways(together);
}

/* Lanes that load the same bytes load them once. */
void count_global(std::vector<touched_bytes> accesses)
{
    std::sort(accesses.begin(), accesses.end(),
              [](const touched_bytes &a, const touched_bytes &b) { return a.at < b.at; });
    for (size_t i = 0; i < accesses.size(); i++) {
        const touched_bytes &a = accesses[i];

        if (a.shared || (i > 0 && a.at == accesses[i - 1].at && !a.store)) {
            continue;
        }
        (a.store ? m.counted.written_bytes : m.counted.read_bytes) += a.bytes;
        (a.store ? m.counted.writes : m.counted.reads)++;
        m.counted.wide += a.bytes == 16;
    }
}

void count_accesses(unsigned first)
{
    if (!m.watching) {
        return;
    }
    std::map<std::pair<const void *, unsigned>, std::vector<touched_bytes>> instructions;

    for (unsigned i = 0; i < k3_warp; i++) {
        std::unordered_map<const void *, unsigned> times;
        std::vector<touched_bytes>                &log = m.fibers[first + i].log;

        for (const touched_bytes &a : log) {
            instructions[{a.site, times[a.site]++}].push_back(a);
        }
        log.clear();
    }
    for (const auto &instruction : instructions) {
        count_banks(instruction.second);
        count_global(instruction.second);
    }
}

/* --- races ------------------------------------------------------------------------------------ */

/* Whether an earlier touch may happen at the same time as one of now. */
bool unordered(const stamp &t)
{
    if (t.who == nobody || (t.in_block == m.number && t.who == m.current)) {
        return false;
    }
    if (t.in_block != m.number) {
        return true; /* blocks are never ordered */
    }
    if (t.epoch != m.epoch) {
        return false;
    }
    return t.who / k3_warp != m.current / k3_warp ||
           t.meeting == m.warps[m.current / k3_warp].meetings;
}

void report_race(const stamp &t, uintptr_t at, bool store)
{
    char text[160];

    snprintf(text, sizeof text, "%s of byte %#zx races with thread %u", store ? "store" : "load",
             (size_t)at, t.who);
    stop(text);
}

void note_touch(uintptr_t at, bool store)
{
    touch &t = m.touched[at];
    stamp  now;

    now.who = m.current;
    now.in_block = m.number;
    now.epoch = m.epoch;
    now.meeting = m.warps[m.current / k3_warp].meetings;
    if (unordered(t.store)) {
        report_race(t.store, at, store);
    }
    if (store) {
        for (const stamp *load : {&t.load, &t.load_before}) {
            if (unordered(*load)) {
                report_race(*load, at, store);
            }
        }
        if (t.many_epoch == m.epoch) {
            report_race(t.load, at, store);
        }
        t.store = now;
        return;
    }
    if (t.load.who != nobody && t.load.epoch == m.epoch &&
        t.load.who / k3_warp != m.current / k3_warp) {
        t.many_epoch = m.epoch;
    }
    if (t.load.who != m.current || t.load.in_block != m.number) {
        t.load_before = t.load;
    }
    t.load = now;
}

bool in_shared(uintptr_t at, size_t bytes)
{
    for (const auto &a : m.shared_arrays) {
        uintptr_t begin = (uintptr_t)a.second.data();

        if (at >= begin && at + bytes <= begin + a.second.size()) {
            return true;
        }
    }
    return false;
}

/* --- the scheduler ---------------------------------------------------------------------------- */

void resume(unsigned i)
{
    fiber &f = m.fibers[i];

    m.current = i;
    if (_setjmp(m.scheduler) != 0) {
        return;
    }
    if (f.started) {
        _longjmp(f.context, 1);
    }
    f.started = true;
    getcontext(&m.first);
    m.first.uc_stack.ss_sp = f.stack.data();
    /* Tops of stacks at different places of a page: at the same they share a few lines of the caches. */
    m.first.uc_stack.ss_size = f.stack.size() - i % 64 * 192;
    m.first.uc_link = nullptr;
    makecontext(&m.first, fiber_main, 0);
    setcontext(&m.first);
}

bool release_barrier()
{
    unsigned waiting_threads = 0, living = 0;

    for (const fiber &f : m.fibers) {
        living += f.state != ended;
        waiting_threads += f.state == at_barrier;
    }
    if (living == 0) {
        return false;
    }
    if (waiting_threads != m.shape.threads) {
        char text[120];

        snprintf(text, sizeof text, "%u of %u threads wait at a barrier, the others do not come",
                 waiting_threads, m.shape.threads);
        m.fault = text;
        return false;
    }
    for (unsigned w = 0; w < m.warps.size(); w++) {
        count_accesses(w * k3_warp);
    }
    for (fiber &f : m.fibers) {
        f.state = runs;
    }
    m.epoch++;
    return true;
}

bool run_ready(const std::vector<unsigned> &order)
{
    bool any = false;

    for (unsigned i : order) {
        if (m.fibers[i].state == runs) {
            any = true;
            resume(i);
            if (!m.fault.empty()) {
                return false;
            }
        }
    }
    return any;
}

std::vector<unsigned> thread_order()
{
    std::vector<unsigned> order(m.shape.threads);
    uint32_t              state = m.order * 2654435761u + m.number;

    for (unsigned i = 0; i < order.size(); i++) {
        order[i] = i;
    }
    for (unsigned i = (unsigned)order.size(); m.order != 0 && i > 1; i--) {
        state = state * 1664525u + 1013904223u;
        std::swap(order[i - 1], order[(state >> 8) % i]);
    }
    return order;
}

void run_block()
{
    std::vector<unsigned> order = thread_order();

    m.shared_arrays.clear();
    for (fiber &f : m.fibers) {
        f.state = runs;
        f.log.clear();
    }
    for (warp &w : m.warps) {
        w.arrived = 0;
    }
    m.epoch++;
    do {
        while (run_ready(order)) {
        }
    } while (m.fault.empty() && release_barrier());
    for (unsigned w = 0; w < m.warps.size() && m.fault.empty(); w++) {
        count_accesses(w * k3_warp);
        /* Shared memory ends with the block. */
    }
    for (const auto &a : m.shared_arrays) {
        uintptr_t begin = (uintptr_t)a.second.data();

        for (uintptr_t at = begin; m.watching && at < begin + a.second.size(); at++) {
            m.touched.erase(at);
        }
    }
}

} // namespace

void add_memory(const void *at, size_t bytes, bool writable, intptr_t shift)
{
    m.memory.push_back({(uintptr_t)at, (uintptr_t)at + bytes, writable, shift});
}

void watch_races(bool on)
{
    m.watching = on;
}

void remove_memory(const void *at)
{
    m.memory.erase(std::remove_if(m.memory.begin(), m.memory.end(),
                                  [=](const region &r) { return r.begin == (uintptr_t)at; }),
                   m.memory.end());
}

void set_order(unsigned seed)
{
    m.order = seed;
}

std::string run(grid shape, void (*entry)(const void *), const void *argument)
{
    m.shape = shape;
    m.entry = entry;
    m.argument = argument;
    m.fault.clear();
    m.counted = {};
    m.touched.clear();
    if (shape.threads == 0 || shape.threads % k3_warp != 0 || shape.threads > 1024) {
        return "a block has whole warps and at most 1024 threads";
    }
    m.fibers.resize(shape.threads);
    for (fiber &f : m.fibers) {
        f.stack.resize(stack_bytes);
        f.started = f.started && f.state == ended; /* a fault left the others in the middle */
    }
    m.warps.assign(shape.threads / k3_warp, warp());
    for (m.block_y = 0; m.block_y < shape.y && m.fault.empty(); m.block_y++) {
        for (m.block_x = 0; m.block_x < shape.x && m.fault.empty(); m.block_x++) {
            m.number = m.block_y * shape.x + m.block_x;
            run_block();
        }
    }
    return m.fault;
}

counts last_counts()
{
    return m.counted;
}

unsigned thread()
{
    return m.current;
}

unsigned block(unsigned axis)
{
    return axis == 0 ? m.block_x : m.block_y;
}

void barrier()
{
    wait_as(at_barrier);
}

const void *const *exchange(const void *mine)
{
    unsigned number = m.current / k3_warp;
    warp    &w = m.warps[number];
    unsigned side = w.meetings % 2;

    w.mine[side][m.current % k3_warp] = mine;
    if (++w.arrived < k3_warp) {
        wait_as(at_exchange);
    } else {
        count_accesses(number * k3_warp);
        for (unsigned i = 0; i < k3_warp; i++) {
            fiber &f = m.fibers[number * k3_warp + i];

            f.state = runs;
        }
        w.arrived = 0;
        w.meetings++;
    }
    return m.warps[number].mine[side];
}

void *shared(const char *name, size_t bytes)
{
    std::vector<char> &array = m.shared_arrays[name];

    if (array.empty()) {
        array.resize(bytes);
        /* What was never written is no zero. */
        std::fill(array.begin(), array.end(), (char)0xa5);
    }
    return array.data();
}

namespace
{

const region *region_of(uintptr_t begin, size_t bytes)
{
    if (m.last_region < m.memory.size()) {
        const region &r = m.memory[m.last_region];

        if (begin >= r.begin && begin + bytes <= r.end) {
            return &r;
        }
    }
    for (size_t i = 0; i < m.memory.size(); i++) {
        if (begin >= m.memory[i].begin && begin + bytes <= m.memory[i].end) {
            m.last_region = i;
            return &m.memory[i];
        }
    }
    return nullptr;
}

[[noreturn]] void stop_access(const void *at, size_t bytes, bool store, const char *why)
{
    char text[120];

    snprintf(text, sizeof text, "%s of %zu bytes at %p is %s", store ? "store" : "load", bytes, at,
             why);
    stop(text);
}

} // namespace

void *access(const void *at, size_t bytes, bool store)
{
    uintptr_t     begin = (uintptr_t)at;
    bool          shared = in_shared(begin, bytes);
    const region *given = shared ? nullptr : region_of(begin, bytes);

    if (begin % std::min(bytes, (size_t)16) != 0) {
        stop_access(at, bytes, store, "not aligned");
    }
    if (!shared && (given == nullptr || (store && !given->writable))) {
        stop_access(at, bytes, store, "outside of the memory given");
    }
    if (m.watching) {
        m.fibers[m.current].log.push_back(
            {__builtin_return_address(0), begin, bytes, m.current % k3_warp, store, shared});
        for (size_t i = 0; i < bytes && (shared || store || given->writable); i++) {
            note_touch(begin + i, store); /* nobody stores to what is not writable */
        }
    }
    return reinterpret_cast<void *>(begin + (uintptr_t)(shared ? 0 : given->shift));
}

void count_product()
{
    m.counted.products++;
}

} // namespace k3_emulator
