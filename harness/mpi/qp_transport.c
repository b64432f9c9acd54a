/* Which transport carries the puts of an endpoint, over which devices. UCX 1.13 has no query for it; what it prints
 * about an endpoint says so in lines like
 *
 *     lane[0]:  3:sysv/memory.0 md[2]   -> md[2]/sysv/sysdev[255] amo#0 am am_bw#0
 *     put[0]: 0..<short>..4294967296..<bcopy>..(inf)
 *
 * A "put[N]" line names a lane for remote memory access; without one puts travel as active messages
 * on the lane marked "am". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/mpi/qp_internal.h"

enum { LANES_MAX = 16 };

typedef struct lane_line {
    char name[K3_TRANSPORT_MAX];
    bool puts, messages;
} lane_line_t;

/* "3:sysv/memory.0 md[2]" gives "sysv/memory": neither resource index nor path number. */
static void copy_name(const char *text, char *name)
{
    size_t      length;
    const char *colon;

    text += strspn(text, " ");
    length = strcspn(text, " \n");
    colon = memchr(text, ':', length);
    if (colon != NULL) {
        length -= (size_t)(colon + 1 - text);
        text = colon + 1;
    }
    for (size_t i = length; i > 0; i--) {
        if (text[i - 1] == '.') {
            length = i - 1;
            break;
        }
        if (text[i - 1] < '0' || text[i - 1] > '9') {
            break;
        }
    }
    snprintf(name, K3_TRANSPORT_MAX, "%.*s", (int)length, text);
}

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);

    for (const char *p = text; (p = strstr(p, word)) != NULL; p += length) {
        if (p[-1] == ' ' && (p[length] == ' ' || p[length] == '\n' || p[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static void read_line(const char *line, lane_line_t *lanes)
{
    const char *start = strstr(line, " lane[");
    unsigned    number;

    if (start != NULL && sscanf(start, " lane[%u]:", &number) == 1 && number < LANES_MAX) {
        copy_name(strchr(start, ':') + 1, lanes[number].name);
        lanes[number].messages = has_word(start, "am");
        lanes[number].puts |= strstr(start, " rma#0") != NULL;
        return;
    }
    start = strstr(line, " put[");
    if (start != NULL && sscanf(start, " put[%u]:", &number) == 1 && number < LANES_MAX) {
        lanes[number].puts = true;
    }
}

/* The block's own memory decides between several lanes for puts: only the one whose transport can
 * reach such memory is used. */
static const char *choose(const lane_line_t *lanes, const char *backing)
{
    size_t length = strlen(backing);

    for (int i = 0; i < LANES_MAX && length > 0; i++) {
        if (lanes[i].puts && strncmp(lanes[i].name, backing, length) == 0) {
            return lanes[i].name;
        }
    }
    for (int i = 0; i < LANES_MAX; i++) {
        if (lanes[i].puts && lanes[i].name[0] != '\0') {
            return lanes[i].name;
        }
    }
    for (int i = 0; i < LANES_MAX; i++) {
        if (lanes[i].messages) {
            return lanes[i].name;
        }
    }
    return lanes[0].name[0] != '\0' ? lanes[0].name : "unknown";
}

void k3_transport_parse(const char *info, const char *backing, char *name)
{
    lane_line_t lanes[LANES_MAX];

    memset(lanes, 0, sizeof(lanes));
    for (const char *line = info; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        char        copy[256];

        snprintf(copy, sizeof(copy), "%.*s",
                 (int)(end == NULL ? strlen(line) : (size_t)(end - line)), line);
        read_line(copy, lanes);
        line = end == NULL ? NULL : end + 1;
    }
    strncpy(name, choose(lanes, backing), K3_TRANSPORT_MAX - 1);
    name[K3_TRANSPORT_MAX - 1] = '\0';
}

char *k3_transport_info(ucp_ep_h ep)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *out = open_memstream(&text, &size);

    if (out == NULL) {
        return NULL;
    }
    ucp_ep_print_info(ep, out);
    fclose(out);
    return text;
}

void k3_memory_backing(const void *address, char *text, unsigned size)
{
    char  line[512];
    FILE *file = fopen("/proc/self/maps", "r");

    text[0] = '\0';
    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long long from, to;

        if (sscanf(line, "%llx-%llx", &from, &to) == 2 && (uintptr_t)address >= from &&
            (uintptr_t)address < to) {
            snprintf(text, size, "%s",
                     strstr(line, "/SYSV") != NULL      ? "sysv"
                     : strstr(line, "/dev/shm") != NULL ? "posix"
                                                        : "");
            break;
        }
    }
    fclose(file);
}

const char *k3_qps_devices(void)
{
    const char *devices = getenv("UCX_NET_DEVICES");

    return devices != NULL ? devices : "a device of UCX's choice";
}
