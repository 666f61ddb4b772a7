/*
 * A monotone priority queue of numbers by time, the earliest first: a radix heap with 16 buckets a level. An entry must
 * not be due before the last one taken; a scan in time order never needs that. In return, each entry only moves a few
 * times from one array to the end of another, without comparisons and with few branch mispredictions.
 */
#ifndef VIEWER_BASE_DUE_QUEUE_H
#define VIEWER_BASE_DUE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct due {
    uint64_t key; /* the time, mapped so that unsigned comparison keeps its order */
    uint64_t number;
};

struct due_bucket {
    struct due *list; /* owns; in the order in which they were added */
    size_t count;
    size_t capacity;
    uint64_t least; /* the smallest key; valid if count > 0 */
};

#define DUE_LEVELS 16

/*
 * All zeros is an empty queue. A key has 16 hexadecimal digits. The highest digit in which a key differs from `last`
 * selects the entry's bucket; an entry whose key equals `last` lies in `now`.
 */
struct due_queue {
    struct due_bucket now;
    struct due_bucket buckets[DUE_LEVELS][16]; /* by the digit's position and its value */
    uint16_t digits[DUE_LEVELS];               /* bit n: bucket n of that level is not empty */
    uint16_t levels;                           /* bit n: a bucket of level n is not empty */
    uint64_t last;                             /* the smallest key that may still be added */
    size_t head;                               /* entries of `now` that are already taken */
    size_t count;
    /* Orders numbers that are due at the same time, as for qsort. NULL: in the order in which they were added. */
    int (*compare)(const void *context, uint64_t one, uint64_t other);
    const void *context; /* borrows */
};

void due_queue_free(struct due_queue *queue);

/* Empty the queue, so that any time may be added again. */
void due_queue_clear(struct due_queue *queue);

/* Add `number`, due at `ns`. false: no memory. */
bool due_queue_add(struct due_queue *queue, int64_t ns, uint64_t number);

enum due_found { DUE_NOTHING, DUE_FOUND, DUE_NO_MEMORY };

/* Take the earliest number if it is due before `ns`. */
enum due_found due_queue_take(struct due_queue *queue, int64_t ns, uint64_t *number);

/* Guess at most `most` numbers that may be taken next, so that the caller can prefetch their data. */
size_t due_queue_peek(const struct due_queue *queue, uint64_t *numbers, size_t most);

/* Call `each` on all numbers, in no order. */
void due_queue_each(const struct due_queue *queue, void (*each)(void *context, uint64_t number), void *context);

#endif
