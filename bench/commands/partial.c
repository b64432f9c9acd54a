#include "bench/commands/partial.h"

#include <pthread.h>
#include <string.h>

#include "bench/report/record.h"
#include "harness/base/log.h"
#include "harness/record/document.h"

/* The watchdog's thread reads what the measuring thread writes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static k3_partial_t    of;
static json_t         *cells;   /* done, in the order of execution */
static json_t         *running; /* as planned; NULL: none, or not resolved */
static bool            closed = true;

void k3_partial_begin(const k3_partial_t *partial)
{
    pthread_mutex_lock(&lock);
    of = *partial;
    cells = json_array();
    running = NULL;
    closed = false;
    pthread_mutex_unlock(&lock);
}

void k3_partial_running(json_t *planned)
{
    pthread_mutex_lock(&lock);
    json_decref(running);
    running = planned;
    pthread_mutex_unlock(&lock);
}

void k3_partial_done(json_t *cell)
{
    pthread_mutex_lock(&lock);
    json_decref(running);
    running = NULL;
    json_array_append_new(cells, cell);
    pthread_mutex_unlock(&lock);
}

/* Each cell gave one object, in the order of execution. */
static json_t *ordered(void)
{
    size_t  count = json_array_size(cells);
    json_t *result = json_array();

    for (size_t i = 0; i < count; i++) {
        size_t  position = (i + count - of.rotate % count) % count;
        json_t *cell = json_array_get(cells, position);

        if (json_is_array(json_object_get(cell, "phases"))) {
            json_object_set_new(cell, "position", json_integer((json_int_t)position));
        }
        json_array_append(result, cell);
    }
    return result;
}

static void order(void)
{
    json_t *result = ordered();

    json_decref(cells);
    cells = result;
}

json_t *k3_partial_complete(void)
{
    pthread_mutex_lock(&lock);
    closed = true;
    order();
    pthread_mutex_unlock(&lock);
    return cells;
}

/* --- in the middle --------------------------------------------------------------------------- */

static json_t *unfinished(size_t position, const char *status, const char *reason)
{
    k3_error_t err = K3_ERROR_INIT;
    size_t     count = of.requests->count;
    json_t    *cell;

    k3_fail(&err, K3_ERR_CHECK, "%s", reason);
    cell = k3_record_refused(&of.requests->items[(position + of.rotate) % count], &err);
    k3_record_status(cell, status, reason);
    return cell;
}

/* No cell disappears. */
static void fill_up(const char *reason)
{
    size_t count = of.requests->count;

    if (running != NULL) {
        k3_record_status(running, "failed", reason);
        json_array_append_new(cells, running);
        running = NULL;
    } else if (json_array_size(cells) < count) {
        json_array_append_new(cells, unfinished(json_array_size(cells), "failed", reason));
    }
    while (json_array_size(cells) < count) {
        json_array_append_new(cells, unfinished(json_array_size(cells), "skipped",
                                                "the launch ended before this cell began"));
    }
    order();
}

void k3_partial_leave(void *unused, const char *reason)
{
    k3_error_t err = K3_ERROR_INIT;
    json_t    *document;

    (void)unused;
    pthread_mutex_lock(&lock);
    if (!closed && of.path[0] != '\0' && strcmp(of.path, "-") != 0) {
        closed = true;
        fill_up(reason);
        document = k3_launch_document(of.launch, cells);
        if (k3_document_write(document, of.path, &err) == K3_OK) {
            k3_log_note("partial record: %s", of.path);
        } else {
            k3_log_error("no partial record: %s", err.text);
        }
        json_decref(document);
    }
    pthread_mutex_unlock(&lock);
}

void k3_partial_end(void)
{
    pthread_mutex_lock(&lock);
    closed = true;
    json_decref(running);
    json_decref(cells);
    running = NULL;
    cells = NULL;
    pthread_mutex_unlock(&lock);
}
