/* Addresses of the models of `sim`: where they end, and how places are found by them. */
#ifndef TIDEI_BASES_SIM_SEARCH_H
#define TIDEI_BASES_SIM_SEARCH_H

#include <stddef.h>
#include <stdint.h>

/* Addresses end below 2^63, since traces hold signed integers. */
#define TIDEI_SIM_END (UINT64_C(1) << 63)

/* Round an address, or bytes of at most 2^50, up to a power of two. */
static inline uint64_t
tidei_sim_up(uint64_t address, uint64_t step)
{
    return (address + step - 1) & ~(step - 1);
}

/* The first of `count` items, in the order of their addresses, at or behind `address`. */
#define TIDEI_SIM_SEARCH(items, count, address)                                                                        \
    tidei_sim_search(&(items)->address, (count), sizeof(*(items)), (address))

/* The same for items of `item_bytes` each, of which `first` is the address of the first one. */
static inline size_t
tidei_sim_search(const uint64_t *first, size_t count, size_t item_bytes, uint64_t address)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (*(const uint64_t *)(const void *)((const char *)first + middle * item_bytes) < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
