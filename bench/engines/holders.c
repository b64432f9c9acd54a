#include "bench/engines/holders.h"

#include "harness/base/memory.h"

k3_status_t k3_holders_create(k3_holders_t *h, uint32_t experts, uint32_t count, k3_error_t *err)
{
    *h = (k3_holders_t){.count = count, .words = count / 64 + 1};
    if (k3_alloc("holders of experts", 1 + (uint64_t)experts, sizeof(uint32_t), &h->of, err) !=
            K3_OK ||
        k3_alloc("holders of a row", h->words, sizeof(uint64_t), &h->set, err) != K3_OK) {
        return err->status;
    }
    for (uint64_t x = 0; x <= experts; x++) {
        h->of[x] = count;
    }
    return K3_OK;
}

void k3_holders_destroy(k3_holders_t *h)
{
    k3_free(h->set);
    k3_free(h->of);
}
