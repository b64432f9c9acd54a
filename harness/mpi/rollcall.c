#include "harness/mpi/rollcall.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/base/log.h"

enum { ADDRESSES_MAX = 4, LINE = 896 };

typedef enum kind { ASK = 1, ANSWER, ALARM, TOLD, WORKING, WORDS } kind_t;

typedef struct contact {
    uint16_t port; /* network order; 0: none */
    uint16_t count;
    uint32_t address[ADDRESSES_MAX]; /* network order */
} contact_t;

typedef struct message {
    uint64_t        secret;
    uint32_t        kind;
    k3_roll_entry_t entry;
} message_t;

struct k3_rollcall {
    const k3_world_t *world;
    int               socket;
    uint64_t          secret;
    contact_t        *contacts; /* [size] */
    k3_roll_entry_t   words;    /* heard: the first last words that came */
};

/* --- open and close -------------------------------------------------------------------------- */

static void find_addresses(contact_t *contact)
{
    struct ifaddrs *list = NULL;

    if (getifaddrs(&list) != 0) {
        return;
    }
    for (const struct ifaddrs *i = list; i != NULL && contact->count < ADDRESSES_MAX;
         i = i->ifa_next) {
        struct sockaddr_in in;

        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET &&
            (i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP) {
            memcpy(&in, i->ifa_addr, sizeof(in));
            contact->address[contact->count++] = in.sin_addr.s_addr;
        }
    }
    freeifaddrs(list);
}

static int open_socket(contact_t *contact)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t          length = sizeof(in);
    int                fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return -1;
    }
    if (bind(fd, (struct sockaddr *)&in, length) != 0 ||
        getsockname(fd, (struct sockaddr *)&in, &length) != 0) {
        close(fd);
        return -1;
    }
    contact->port = in.sin_port;
    find_addresses(contact);
    return fd;
}

k3_rollcall_t *k3_rollcall_open(const k3_world_t *world)
{
    k3_rollcall_t *roll = calloc(1, sizeof(*roll));
    contact_t      own = {0};
    int            mine, all;

    if (roll != NULL) {
        roll->world = world;
        roll->socket = open_socket(&own);
        roll->contacts = calloc((size_t)world->size, sizeof(*roll->contacts));
        if (getrandom(&roll->secret, sizeof(roll->secret), 0) != (ssize_t)sizeof(roll->secret)) {
            roll->secret = 0;
        }
    }
    mine = roll != NULL && roll->socket >= 0 && roll->contacts != NULL;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, world->comm);
    if (!all) {
        k3_rollcall_close(roll);
        return NULL;
    }
    MPI_Bcast(&roll->secret, 1, MPI_UINT64_T, 0, world->comm);
    MPI_Allgather(&own, (int)sizeof(own), MPI_BYTE, roll->contacts, (int)sizeof(own), MPI_BYTE,
                  world->comm);
    return roll;
}

void k3_rollcall_close(k3_rollcall_t *roll)
{
    if (roll == NULL) {
        return;
    }
    if (roll->socket >= 0) {
        close(roll->socket);
    }
    free(roll->contacts);
    free(roll);
}

int k3_rollcall_socket(const k3_rollcall_t *roll)
{
    return roll->socket;
}

/* --- messages -------------------------------------------------------------------------------- */

static void send_to(const k3_rollcall_t *roll, int peer, const message_t *message)
{
    const contact_t *contact = &roll->contacts[peer];
    bool             near = roll->world->node_of[peer] == roll->world->node;
    unsigned         count = near ? 1 : contact->count;

    for (unsigned i = 0; i < count && i < ADDRESSES_MAX; i++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = contact->port};

        to.sin_addr.s_addr = near ? htonl(INADDR_LOOPBACK) : contact->address[i];
        /* Lost or not: who does not hear does not answer. */
        (void)sendto(roll->socket, message, sizeof(*message), MSG_DONTWAIT, (struct sockaddr *)&to,
                     sizeof(to));
    }
}

static void send_to_all(const k3_rollcall_t *roll, int rank, kind_t kind, const char *text)
{
    message_t message = {.secret = roll->secret, .kind = kind, .entry = {.rank = rank}};

    snprintf(message.entry.text, sizeof(message.entry.text), "%s", text);
    for (int peer = 0; peer < roll->world->size; peer++) {
        if (peer != rank) {
            send_to(roll, peer, &message);
        }
    }
}

void k3_rollcall_alarm(k3_rollcall_t *roll, int rank)
{
    send_to_all(roll, rank, ALARM, "");
}

void k3_rollcall_ask(k3_rollcall_t *roll, int rank)
{
    send_to_all(roll, rank, ASK, "");
}

void k3_rollcall_told(k3_rollcall_t *roll, int rank)
{
    send_to_all(roll, rank, TOLD, "");
}

void k3_rollcall_working(k3_rollcall_t *roll, int rank)
{
    send_to_all(roll, rank, WORKING, "");
}

void k3_rollcall_last_words(k3_rollcall_t *roll, int rank, const char *text)
{
    send_to_all(roll, rank, WORDS, text);
}

static void keep_answer(k3_roll_entry_t *entries, const k3_roll_entry_t *answer)
{
    k3_roll_entry_t *entry = &entries[answer->rank];

    *entry = *answer;
    entry->heard = true;
    entry->place[K3_ROLL_PLACE - 1] = '\0';
    entry->text[K3_ROLL_TEXT - 1] = '\0';
}

k3_roll_news_t k3_rollcall_read(k3_rollcall_t *roll, const k3_roll_entry_t *own,
                                k3_roll_entry_t *entries)
{
    message_t      message;
    k3_roll_news_t news = {.alarm_by = -1};

    while (recv(roll->socket, &message, sizeof(message), MSG_DONTWAIT) ==
           (ssize_t)sizeof(message)) {
        int peer = message.entry.rank;

        if (message.secret != roll->secret || peer < 0 || peer >= roll->world->size) {
            continue;
        }
        if (message.kind == ASK) {
            message_t answer = {.secret = roll->secret, .kind = ANSWER, .entry = *own};

            send_to(roll, peer, &answer);
        } else if (message.kind == ANSWER && entries != NULL) {
            keep_answer(entries, &message.entry);
        } else if (message.kind == ALARM) {
            news.alarm_by = peer;
        } else if (message.kind == TOLD) {
            news.told = true;
        } else if (message.kind == WORKING) {
            news.working = true;
        } else if (message.kind == WORDS && !roll->words.heard) {
            roll->words = message.entry;
            roll->words.heard = true;
            roll->words.text[K3_ROLL_TEXT - 1] = '\0';
        }
    }
    return news;
}

const k3_roll_entry_t *k3_rollcall_words(const k3_rollcall_t *roll)
{
    return roll->words.heard ? &roll->words : NULL;
}

/* --- for people ------------------------------------------------------------------------------ */

typedef struct line {
    char   text[LINE];
    size_t used;
    int    ranks;
} line_t;

static void add_rank(line_t *line, int rank, char (*hosts)[K3_HOST_MAX])
{
    int written = snprintf(line->text + line->used, LINE - line->used, "%s%d (%s)",
                           line->ranks > 0 ? ", " : "", rank, hosts[rank]);

    line->ranks++;
    if (written > 0 && line->used + (size_t)written < LINE) {
        line->used += (size_t)written;
    }
}

static bool same_place(const k3_roll_entry_t *a, const k3_roll_entry_t *b)
{
    return a->heard && b->heard && a->step == b->step && strcmp(a->place, b->place) == 0;
}

void k3_rollcall_print(const k3_roll_entry_t *entries, int size, char (*hosts)[K3_HOST_MAX])
{
    for (int r = 0; r < size; r++) {
        line_t line = {.used = 0};
        bool   told = false;

        for (int before = 0; before < r && !told; before++) {
            told = same_place(&entries[before], &entries[r]);
        }
        if (!entries[r].heard || told) {
            continue;
        }
        for (int other = r; other < size; other++) {
            if (same_place(&entries[r], &entries[other])) {
                add_rank(&line, other, hosts);
            }
        }
        k3_log_error("roll call: in %s, step %llu: rank %s", entries[r].place,
                     (unsigned long long)entries[r].step, line.text);
    }
}

typedef bool (*pick_t)(const k3_roll_entry_t *entry, const k3_roll_entry_t *reference);

/* Names the ranks for which `pick` holds; false when it holds for none or for all. */
static bool name_them(const k3_roll_entry_t *entries, int size, char (*hosts)[K3_HOST_MAX],
                      pick_t pick, const k3_roll_entry_t *reference, const char *what,
                      char verdict[K3_ROLL_VERDICT])
{
    line_t line = {.used = 0};

    for (int r = 0; r < size; r++) {
        if (pick(&entries[r], reference)) {
            add_rank(&line, r, hosts);
        }
    }
    if (line.ranks == 0 || line.ranks == size) {
        return false;
    }
    snprintf(verdict, K3_ROLL_VERDICT, "roll call: %s: rank %s", what, line.text);
    return true;
}

static bool is_silent(const k3_roll_entry_t *entry, const k3_roll_entry_t *unused)
{
    (void)unused;
    return !entry->heard;
}

static bool is_behind(const k3_roll_entry_t *entry, const k3_roll_entry_t *first)
{
    return entry->heard && entry->step < first->step;
}

static bool waits_for_nobody(const k3_roll_entry_t *entry, const k3_roll_entry_t *unused)
{
    (void)unused;
    return entry->heard && entry->text[0] == '\0';
}

static bool nobody_waits(const k3_roll_entry_t *entries, int size)
{
    int count = 0;

    for (int r = 0; r < size; r++) {
        count += waits_for_nobody(&entries[r], NULL);
    }
    return count == size;
}

/* In a collective step nobody can say for whom it waits; who is not in it gives itself away. */
static bool is_elsewhere(const k3_roll_entry_t *entry, const k3_roll_entry_t *most)
{
    return !same_place(entry, most);
}

int k3_rollcall_silent(const k3_roll_entry_t *entries, int size)
{
    int count = 0;

    for (int r = 0; r < size; r++) {
        count += is_silent(&entries[r], NULL);
    }
    return count;
}

/* A rank with the highest step. */
static const k3_roll_entry_t *first_of(const k3_roll_entry_t *entries, int size)
{
    const k3_roll_entry_t *first = &entries[0];

    for (int r = 1; r < size; r++) {
        if (entries[r].heard && (!first->heard || entries[r].step > first->step)) {
            first = &entries[r];
        }
    }
    return first;
}

/* A rank from the place where more than half of them are; else NULL. */
static const k3_roll_entry_t *most_of(const k3_roll_entry_t *entries, int size)
{
    for (int r = 0; r < size; r++) {
        int count = 0;

        for (int other = 0; other < size; other++) {
            count += same_place(&entries[r], &entries[other]);
        }
        if (2 * count > size) {
            return &entries[r];
        }
    }
    return NULL;
}

void k3_rollcall_judge(const k3_roll_entry_t *entries, int size, char (*hosts)[K3_HOST_MAX],
                       char verdict[K3_ROLL_VERDICT])
{
    const k3_roll_entry_t *first = first_of(entries, size), *most = most_of(entries, size);

    if (name_them(entries, size, hosts, is_silent, NULL,
                  "no answer, so stopped, dead or unreachable", verdict) ||
        name_them(entries, size, hosts, is_behind, first, "never arrived in the step of the others",
                  verdict) ||
        name_them(entries, size, hosts, waits_for_nobody, NULL,
                  "stalled, and waits for no signal itself", verdict) ||
        (most != NULL && name_them(entries, size, hosts, is_elsewhere, most,
                                   "stalled elsewhere than most ranks", verdict))) {
        return;
    }
    snprintf(verdict, K3_ROLL_VERDICT,
             nobody_waits(entries, size)
                 ? "roll call: all %d ranks answer, none says for whom it waits"
                 : "roll call: all %d ranks answer and wait for one another",
             size);
}
