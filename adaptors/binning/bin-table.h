/* Which of several resources serves a size: tables that are searched without a lock, and are replaced to change. */
#ifndef TIDEI_ADAPTORS_BINNING_BIN_TABLE_H
#define TIDEI_ADAPTORS_BINNING_BIN_TABLE_H

#include "src/resource/resource.h"

/* Where a size goes. */
struct tidei_bin_route {
    struct tide_resource *resource;
    uint32_t added; /* the number of a bin that was added later, from 1; 0: it was there from the beginning */
};

/*
 * `slot_count` slots, a power of two: the bins by size, then the layer that follows for what is left, the last one
 * included. The limits lie by themselves, so that a search through 16 bins reads two cache lines. Never changed: a bin
 * that is added makes a new table, and the ones before stay for whoever reads them.
 */
struct tidei_bin_table {
    struct tidei_bin_table *before; /* owned */
    size_t bin_count;
    size_t slot_count;
    struct tidei_bin_route
        *routes; /* holds a reference to each bin's resource; owns the array, which follows the limits */
    uint64_t limits[];
};

/*
 * The number of limits under `bytes` is the slot to take, as the last limit is UINT64_MAX. Each round halves what is
 * left without a branch to predict, for sizes come in no order.
 */
static inline const struct tidei_bin_route *
tidei_bin_route(const struct tidei_bin_table *table, uint64_t bytes)
{
    size_t slot = 0;

    for (size_t half = table->slot_count / 2; half > 0; half /= 2)
        slot += table->limits[slot + half - 1] < bytes ? half : 0;
    return &table->routes[slot];
}

/* The bin that was added with that number; it is in every table since. */
struct tide_resource *tidei_bin_added(const struct tidei_bin_table *table, uint32_t added);

/* The table and all before it, with their references. */
void tidei_bin_table_free(struct tidei_bin_table *table);

/*
 * For `count` bins, which are to be set; the slots behind them go to `upstream` (borrowed). NULL, with the error text
 * set, where there is no host memory.
 */
struct tidei_bin_table *tidei_bin_table_new(size_t count, struct tide_resource *upstream);
void tidei_bin_table_set(struct tidei_bin_table *table, size_t slot, uint64_t limit_bytes,
                         struct tide_resource *resource, uint32_t added);

bool tidei_bin_table_has(const struct tidei_bin_table *table, uint64_t limit_bytes);

/* The table `now`, which the new one owns, with one more bin; NULL as above. */
struct tidei_bin_table *tidei_bin_table_grow(struct tidei_bin_table *now, uint64_t limit_bytes,
                                             struct tide_resource *resource, uint32_t added);

#endif
