/* Which of several resources serves a size. */
#include <stdlib.h>

#include "adaptors/binning/bin-table.h"

struct tide_resource *
tidei_bin_added(const struct tidei_bin_table *table, uint32_t added)
{
    size_t slot = 0;

    while (table->routes[slot].added != added)
        slot++;
    return table->routes[slot].resource;
}

void
tidei_bin_table_free(struct tidei_bin_table *table)
{
    while (table != NULL) {
        struct tidei_bin_table *before = table->before;

        for (size_t i = 0; i < table->bin_count; i++)
            tide_resource_release(table->routes[i].resource);
        free(table);
        table = before;
    }
}

struct tidei_bin_table *
tidei_bin_table_new(size_t count, struct tide_resource *upstream)
{
    size_t slot_count = 1;
    struct tidei_bin_table *table;

    while (slot_count < count + 1)
        slot_count *= 2;
    table = calloc(1, sizeof(*table) + slot_count * (sizeof(uint64_t) + sizeof(struct tidei_bin_route)));
    if (table == NULL) {
        tide_error_set(TIDE_ENOMEM, "binning: no host memory for %zu bins", count);
        return NULL;
    }
    table->bin_count = count;
    table->slot_count = slot_count;
    table->routes = (struct tidei_bin_route *)(table->limits + slot_count);
    for (size_t i = count; i < slot_count; i++) {
        table->limits[i] = UINT64_MAX;
        table->routes[i].resource = upstream;
    }
    return table;
}

void
tidei_bin_table_set(struct tidei_bin_table *table, size_t slot, uint64_t limit_bytes, struct tide_resource *resource,
                    uint32_t added)
{
    table->limits[slot] = limit_bytes;
    table->routes[slot] = (struct tidei_bin_route){ tide_resource_retain(resource), added };
}

bool
tidei_bin_table_has(const struct tidei_bin_table *table, uint64_t limit_bytes)
{
    size_t slot = 0;

    while (slot < table->bin_count && table->limits[slot] != limit_bytes)
        slot++;
    return slot < table->bin_count;
}

struct tidei_bin_table *
tidei_bin_table_grow(struct tidei_bin_table *now, uint64_t limit_bytes, struct tide_resource *resource, uint32_t added)
{
    struct tide_resource *upstream = now->routes[now->bin_count].resource;
    struct tidei_bin_table *table = tidei_bin_table_new(now->bin_count + 1, upstream);
    size_t slot = 0;

    if (table == NULL)
        return NULL;
    for (; slot < now->bin_count && now->limits[slot] < limit_bytes; slot++)
        tidei_bin_table_set(table, slot, now->limits[slot], now->routes[slot].resource, now->routes[slot].added);
    tidei_bin_table_set(table, slot, limit_bytes, resource, added);
    for (; slot < now->bin_count; slot++)
        tidei_bin_table_set(table, slot + 1, now->limits[slot], now->routes[slot].resource, now->routes[slot].added);
    table->before = now;
    return table;
}
