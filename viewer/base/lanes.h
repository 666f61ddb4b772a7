/*
 * Passes items on to threads, in batches: each thread, a lane, gets all items in their order. Whoever makes the items
 * fills one batch while the lanes take those before it, and waits where the slowest lane is LANES_BATCHES behind.
 */
#ifndef VIEWER_BASE_LANES_H
#define VIEWER_BASE_LANES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANES_MOST    4
#define LANES_BATCHES 4
#define LANES_ITEMS   1024 /* of a batch */

/* Whether a lane wants further items. Where one has failed, none gets any. */
enum lane_answer { LANE_MORE, LANE_ENOUGH, LANE_FAILED };

/* What a lane does on its thread, whose messages are held back (message_hold). */
struct lane_work {
    enum lane_answer (*take)(void *context, const void *items, size_t count);
    void (*end)(void *context); /* after the last item, if lanes_end says so */
    void *context;              /* borrows */
};

struct lanes {
    struct lane {
        struct lanes *lanes;
        struct lane_work work;
        pthread_t thread;
        uint64_t taken;          /* batches; of these, and of all below but `next` and `left`, under the lock */
        enum lane_answer answer; /* the last one */
    } list[LANES_MOST];
    size_t count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *items; /* owns; of all batches */
    size_t item_bytes;
    size_t counts[LANES_BATCHES]; /* the items of each batch */
    uint64_t filled;              /* batches */
    bool ended;                   /* there are no more batches */
    bool ends;                    /* each lane's `end` is called */
    char *next;                   /* where the next item goes; of the thread that makes them, as the next */
    size_t left;                  /* items of its batch that are not made yet */
};

/*
 * Start a thread for each of `works`, LANES_MOST at most, for items of `item_bytes`. Places of items are zeros before
 * their first use. False: no memory or no thread, and there is nothing to end.
 */
bool lanes_begin(struct lanes *lanes, size_t item_bytes, const struct lane_work *works, size_t count);

/* Hand over a full batch, and wait for room for the next one. Returns what any lane wants, or that one has failed. */
enum lane_answer lanes_hand_over(struct lanes *lanes);

/* The place of the next item, which stays as it is until lanes_add. */
static inline void *
lanes_next(const struct lanes *lanes)
{
    return lanes->next;
}

/* The next item is made. Returns what lanes_hand_over does. */
static inline enum lane_answer
lanes_add(struct lanes *lanes)
{
    lanes->next += lanes->item_bytes;
    return --lanes->left > 0 ? LANE_MORE : lanes_hand_over(lanes);
}

/*
 * Wait until the lanes have taken all items and their threads have ended; `ends`: there was no error, and each lane's
 * `end` is called. Else items that no lane has taken yet may be dropped.
 */
void lanes_end(struct lanes *lanes, bool ends);

#endif
