/* What tests of adaptors/track/table.h share: blocks by their addresses. */
#ifndef TESTS_TRACK_BLOCKS_H
#define TESTS_TRACK_BLOCKS_H

#include <stdlib.h>

#include "adaptors/track/table.h"

static inline struct tidei_track_table *
table_of(void)
{
    struct tidei_track_table *table;

    if (tidei_track_table_create(&table) != TIDE_OK)
        abort();
    return table;
}

/* Addresses of one bucket, however large the table is: the hash is a product, which can be inverted. */
static inline uint64_t
colliding(uint64_t n)
{
    const uint64_t factor = 0x9e3779b97f4a7c15u;
    uint64_t inverse = factor;

    for (int i = 0; i < 5; i++) /* Newton's method: each step doubles the number of correct bits */
        inverse *= 2 - factor * inverse;
    return ((UINT64_C(5) << 52) + 1 + n) * inverse;
}

static inline uint64_t
even(uint64_t n)
{
    return (UINT64_C(1) << 40) + 512 * n;
}

static inline enum tidei_track_answer
put_block(struct tidei_track_table *table, uint64_t address, uint64_t bytes)
{
    const struct tidei_track_block block = { .address = address, .bytes = bytes, .caller = { 1, 2 } };
    struct tidei_track_block known;

    return tidei_track_put(table, &block, &known);
}

static inline enum tidei_track_answer
take_block(struct tidei_track_table *table, uint64_t address, uint64_t bytes)
{
    const struct tidei_track_block back = { .address = address, .bytes = bytes, .freed_by = { 3, 4 } };
    struct tidei_track_block known;

    return tidei_track_take(table, &back, &known);
}

static inline size_t
listed(struct tidei_track_table *table)
{
    struct tidei_track_block *list;
    size_t count;

    if (!tidei_track_list(table, &list, &count))
        abort();
    free(list);
    return count;
}

#endif
