/* The pages of the address space that allocations ever used. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/report/pages.h"

bool
pages_begin(struct pages *pages, size_t most)
{
    *pages = (struct pages){
        .list = calloc(most, sizeof(*pages->list)),
        .most = most,
        .shift = PAGES_SHIFT_FIRST,
        .hints = calloc(1 << PAGES_HINT_BITS, sizeof(*pages->hints)),
    };
    return pages->list != NULL && pages->hints != NULL;
}

void
pages_free(struct pages *pages)
{
    free(pages->list);
    free(pages->hints);
    *pages = (struct pages){ 0 };
}

void
pages_clear(struct pages *pages)
{
    pages->count = 0;
    pages->shift = PAGES_SHIFT_FIRST;
}

/* The place of the first page whose number is at least `page`. */
static size_t
pages_place(const struct pages *pages, uint64_t page)
{
    /* Multiplied, since a base may place blocks at multiples of a large power of two. */
    size_t *hint = &pages->hints[page * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PAGES_HINT_BITS)];
    size_t from = 0, to = pages->count;

    if (*hint < to && pages->list[*hint] == page)
        return *hint;
    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (pages->list[middle] < page)
            from = middle + 1;
        else
            to = middle;
    }
    *hint = from;
    return from;
}

size_t
pages_find(const struct pages *pages, const struct scan_life *life)
{
    return pages_place(pages, life->address >> pages->shift);
}

/* Pages of twice the size: two numbers become one where both were there. */
static void
pages_double(struct pages *pages)
{
    size_t count = 0;

    for (size_t i = 0; i < pages->count; i++) {
        if (count == 0 || pages->list[count - 1] != pages->list[i] >> 1)
            pages->list[count++] = pages->list[i] >> 1;
    }
    pages->count = count;
    pages->shift++;
}

/* Add the pages `first` to `last`. False: they do not fit. */
static bool
pages_insert(struct pages *pages, uint64_t first, uint64_t last)
{
    size_t from = pages_place(pages, first);
    size_t there = from;
    uint64_t wanted = last - first + 1;

    while (there < pages->count && pages->list[there] <= last)
        there++;
    if (wanted > pages->most || pages->count - (there - from) + wanted > pages->most)
        return false;
    memmove(pages->list + from + wanted, pages->list + there, (pages->count - there) * sizeof(*pages->list));
    for (uint64_t i = 0; i < wanted; i++)
        pages->list[from + i] = first + i;
    pages->count += wanted - (there - from);
    return true;
}

void
pages_add(struct pages *pages, const struct scan_life *life)
{
    uint64_t first, last;
    size_t place;

    if (life->size == 0)
        return;
    for (;;) {
        first = life->address >> pages->shift;
        last = pages_last_byte(life) >> pages->shift;
        place = pages_place(pages, first);
        /* Numbers ascend: where the first and the last stand as far apart as they are, all between are there. */
        if (last - first < pages->count - place && pages->list[place] == first &&
            pages->list[place + (last - first)] == last)
            return;
        if (pages_insert(pages, first, last))
            return;
        pages_double(pages);
    }
}
