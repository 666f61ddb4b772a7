/* A concurrent table from live addresses to numbers. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/address-shards.h"
#include "src/sync/lock.h"
#include "src/resource/resource.h"
#include "src/tables/map.h"

struct shard {
    _Alignas(128) struct tidei_lock lock;
    struct tidei_map map;   /* guarded by the lock */
    _Atomic uint64_t count; /* of the map; written with the lock */
};

struct tidei_address_shards {
    struct shard shards[TIDEI_ADDRESS_SHARDS];
};

static struct shard *
shards_of(struct tidei_address_shards *shards, const void *address)
{
    /* Fibonacci hashing, as in the maps, but with other bits of the product. */
    struct shard *shard = &shards->shards[((uintptr_t)address * 0x9e3779b97f4a7c15u >> 20) % TIDEI_ADDRESS_SHARDS];

    __asm__("" : "+r"(shard)); /* else gcc computes the address anew for each field */
    return shard;
}

enum tide_status
tidei_address_shards_create(const char *subject, struct tidei_address_shards **out)
{
    struct tidei_address_shards *shards = aligned_alloc(_Alignof(struct tidei_address_shards), sizeof(*shards));

    *out = shards;
    if (shards == NULL)
        return tide_error_set(TIDE_ENOMEM, "%s: no host memory for a table of addresses", subject);
    memset(shards, 0, sizeof(*shards));
    for (unsigned i = 0; i < TIDEI_ADDRESS_SHARDS; i++)
        tidei_lock_init(&shards->shards[i].lock);
    return TIDE_OK;
}

void
tidei_address_shards_destroy(struct tidei_address_shards *shards)
{
    for (unsigned i = 0; shards != NULL && i < TIDEI_ADDRESS_SHARDS; i++) {
        tidei_lock_fini(&shards->shards[i].lock);
        tidei_map_free(&shards->shards[i].map);
    }
    free(shards);
}

bool
tidei_address_shards_put(struct tidei_address_shards *shards, const void *address, uint32_t value)
{
    struct shard *shard = shards_of(shards, address);
    bool done;

    tidei_lock_acquire(&shard->lock);
    done = tidei_map_add(&shard->map, (uintptr_t)address, 0, value);
    tidei_figure_add(&shard->count, done);
    tidei_lock_release(&shard->lock);
    return done;
}

uint32_t
tidei_address_shards_take(struct tidei_address_shards *shards, const void *address)
{
    struct shard *shard = shards_of(shards, address);
    uint32_t value = 0;

    /* Relaxed: the freeing thread got the address from the one that put it, and sees that count or a later one. */
    if (atomic_load_explicit(&shard->count, memory_order_relaxed) == 0)
        return 0;
    tidei_lock_acquire(&shard->lock);
    if (tidei_map_take(&shard->map, (uintptr_t)address, 0, &value))
        tidei_figure_add(&shard->count, UINT64_MAX);
    tidei_lock_release(&shard->lock);
    return value;
}
