/*
 * The pages of the address space that allocations ever used: those that an address map has rows for. A page is as small
 * as a power of two can be without there being too many of them.
 */
#ifndef VIEWER_REPORT_PAGES_H
#define VIEWER_REPORT_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/read/scan.h"

#define PAGES_SHIFT_FIRST 12
#define PAGES_HINT_BITS   10

struct pages {
    uint64_t *list; /* owns; the numbers of the pages, address >> shift, ascending */
    size_t count;
    size_t most;
    unsigned shift;
    size_t *hints; /* owns; where pages were found, by PAGES_HINT_BITS of their numbers' products */
};

/* Make room for `most` pages, at least 2. False: no memory. */
bool pages_begin(struct pages *pages, size_t most);
void pages_free(struct pages *pages);

/* Forget what was added. */
void pages_clear(struct pages *pages);

/* The pages of a life were used. One of 0 bytes has no address. */
void pages_add(struct pages *pages, const struct scan_life *life);

/* The place of the first page of `life`, whose pages are there; the others follow it. */
size_t pages_find(const struct pages *pages, const struct scan_life *life);

/* The last byte of a life that is not of 0 bytes. */
static inline uint64_t
pages_last_byte(const struct scan_life *life)
{
    uint64_t last = life->address + (life->size - 1);

    return last < life->address ? UINT64_MAX : last;
}

#endif
