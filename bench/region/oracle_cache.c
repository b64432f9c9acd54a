#include <stdlib.h>
#include <string.h>

#include "bench/region/oracle_internal.h"
#include "harness/base/keyed.h"

/* A table of the process, one place for each key; a new row takes the place of an old one. When the
 * bound is reached everything is forgotten. Outside the counted allocations, because it outlives
 * the cell that filled it. */
enum { PLACES = 1 << 14, BYTES_MAX = 64 << 20 };

typedef struct place {
    k3_oracle_key_t key;
    size_t          n;
    uint16_t       *row;
} place_t;

static place_t places[PLACES];
static size_t  bytes_kept;

void k3_oracle_key_add(k3_oracle_key_t *key, const void *data, size_t bytes)
{
    const char *at = data;

    key->a = k3_mix(key->a ^ bytes);
    while (bytes > 0) {
        size_t   part = bytes < sizeof(uint64_t) ? bytes : sizeof(uint64_t);
        uint64_t word = 0;

        memcpy(&word, at, part);
        key->a = k3_mix(key->a ^ word);
        key->b = k3_mix(key->b + word) ^ key->a;
        at += part;
        bytes -= part;
    }
}

static place_t *place_of(k3_oracle_key_t key)
{
    return &places[key.a % PLACES];
}

static void forget(place_t *place)
{
    bytes_kept -= place->n * sizeof(uint16_t);
    free(place->row);
    memset(place, 0, sizeof(*place));
}

bool k3_oracle_cache_get(k3_oracle_key_t key, size_t n, uint16_t *row)
{
    const place_t *place = place_of(key);

    if (place->row == NULL || place->n != n || place->key.a != key.a || place->key.b != key.b) {
        return false;
    }
    memcpy(row, place->row, n * sizeof(*row));
    return true;
}

void k3_oracle_cache_put(k3_oracle_key_t key, size_t n, const uint16_t *row)
{
    place_t *place = place_of(key);
    size_t   bytes = n * sizeof(*row);

    forget(place);
    if (bytes_kept + bytes > BYTES_MAX) {
        k3_oracle_cache_clear();
    }
    place->row = malloc(bytes);
    if (place->row == NULL) {
        return; /* only a cache */
    }
    memcpy(place->row, row, bytes);
    place->key = key;
    place->n = n;
    bytes_kept += bytes;
}

void k3_oracle_cache_clear(void)
{
    for (size_t i = 0; i < PLACES; i++) {
        if (places[i].row != NULL) {
            forget(&places[i]);
        }
    }
}
