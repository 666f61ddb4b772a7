/*
 * A growing array.
 *
 *     if (!tidei_grow(&list->items, &list->capacity, list->count, 1))
 *         return TIDE_ENOMEM;
 *     list->items[list->count++] = item;
 *
 * The array starts as NULL with a capacity of 0, and is released with free(). The capacity doubles, so that adding an
 * item takes amortized constant time.
 */
#ifndef TIDEI_TABLES_GROW_H
#define TIDEI_TABLES_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TIDEI_GROW_FIRST 16

/*
 * Make room for `more` items after the first `count` in `*array`, which has room for `*capacity`. False without host
 * memory, or if the size would overflow: the array and its capacity are then unchanged. New items are not initialized.
 */
#define tidei_grow(array, capacity, count, more)                                                                       \
    tidei_grow_items((array), sizeof(**(array)), (capacity), (count), (more))

/* `array` points to the pointer to the first item, of whatever type. */
static inline bool
tidei_grow_items(void *array, size_t item_bytes, size_t *capacity, size_t count, size_t more)
{
    size_t larger = *capacity != 0 ? *capacity : TIDEI_GROW_FIRST;
    void *items;

    if (more <= *capacity && count <= *capacity - more)
        return true;
    if (more > SIZE_MAX / 2 || count > SIZE_MAX / 2 - more)
        return false;
    while (larger < count + more)
        larger *= 2;
    memcpy(&items, array, sizeof(items)); /* a cast of `array` to void ** would violate strict aliasing */
    items = reallocarray(items, larger, item_bytes);
    if (items == NULL)
        return false;
    memcpy(array, &items, sizeof(items));
    *capacity = larger;
    return true;
}

#endif
