/*
 * What is due later, the earliest first: a radix heap of 16 ways. Nothing may be added that is due before what was
 * taken last, which a scan in the order of time never does; then each entry is moved a few times from one array to the
 * end of another, no two are compared, and little is guessed wrong by the processor.
 */
#ifndef VIEWER_BASE_DUE_QUEUE_H
#define VIEWER_BASE_DUE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct due {
    uint64_t key; /* the time, so that it orders unsigned */
    uint64_t number;
};

struct due_bucket {
    struct due *list; /* owns; in the order in which they were added */
    size_t count;
    size_t capacity;
    uint64_t least; /* key; where count > 0 */
};

#define DUE_LEVELS 16

/*
 * All zeros is an empty one. An entry lies in the bucket of its highest digit that differs from the one of `last`, of
 * 16 hexadecimal digits; what differs in none lies in `now`.
 */
struct due_queue {
    struct due_bucket now;
    struct due_bucket buckets[DUE_LEVELS][16]; /* by the place of that digit, and the digit */
    uint16_t digits[DUE_LEVELS];               /* bit n: bucket n of that level is not empty */
    uint16_t levels;                           /* bit n: a bucket of level n is not empty */
    uint64_t last;                             /* the least key that may still come */
    size_t head;                               /* of `now`: what was taken already */
    size_t count;
    /* NULL, or how two numbers that are due at one time are ordered, as for qsort; else as they were added. */
    int (*compare)(const void *context, uint64_t one, uint64_t other);
    const void *context; /* borrows */
};

void due_queue_free(struct due_queue *queue);

/* Take everything out, and begin anew. */
void due_queue_clear(struct due_queue *queue);

/* Add `number`, due at `ns`. false: no memory. */
bool due_queue_add(struct due_queue *queue, int64_t ns, uint64_t number);

enum due_found { DUE_NOTHING, DUE_FOUND, DUE_NO_MEMORY };

/* Take the next that is due before `ns`. */
enum due_found due_queue_take(struct due_queue *queue, int64_t ns, uint64_t *number);

/* Some of those that may be taken next, at most `most` of them: a guess, to ask for what belongs to them ahead. */
size_t due_queue_peek(const struct due_queue *queue, uint64_t *numbers, size_t most);

/* Call `each` on all numbers, in no order. */
void due_queue_each(const struct due_queue *queue, void (*each)(void *context, uint64_t number), void *context);

#endif
