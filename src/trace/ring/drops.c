/* Keeps the addresses whose allocations were dropped, until they are freed. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "src/tables/map.h"
#include "src/trace/ring/drops.h"

struct tidei_drops {
    pthread_mutex_t lock;
    struct tidei_map map;
    _Atomic size_t count; /* written under the lock */
};

struct tidei_drops *
tidei_drops_new(void)
{
    struct tidei_drops *drops = calloc(1, sizeof(*drops));

    if (drops == NULL)
        return NULL;
    pthread_mutex_init(&drops->lock, NULL);
    return drops;
}

void
tidei_drops_free(struct tidei_drops *drops)
{
    if (drops == NULL)
        return;
    tidei_map_free(&drops->map);
    pthread_mutex_destroy(&drops->lock);
    free(drops);
}

void
tidei_drops_add(struct tidei_drops *drops, uint16_t layer, uint64_t address)
{
    pthread_mutex_lock(&drops->lock);
    if (tidei_map_add(&drops->map, address, layer, 1)) {
        /* Relaxed: the thread that frees the address got it from this one, and that orders the two. */
        atomic_store_explicit(&drops->count, drops->map.count, memory_order_relaxed);
    }
    pthread_mutex_unlock(&drops->lock);
}

bool
tidei_drops_take(struct tidei_drops *drops, uint16_t layer, uint64_t address)
{
    uint32_t ignored;
    bool dropped;

    if (atomic_load_explicit(&drops->count, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&drops->lock);
    dropped = tidei_map_take(&drops->map, address, layer, &ignored);
    atomic_store_explicit(&drops->count, drops->map.count, memory_order_relaxed);
    pthread_mutex_unlock(&drops->lock);
    return dropped;
}
