/* Passes items on to threads, in batches. */
#include "config.h"

#include <stdlib.h>

#include "viewer/base/lanes.h"
#include "viewer/base/message.h"

static char *
lanes_batch(const struct lanes *lanes, uint64_t batch)
{
    return lanes->items + batch % LANES_BATCHES * LANES_ITEMS * lanes->item_bytes;
}

/* Wait for the next batch of the lane. Call with the lock. False: there are no more. */
static bool
lane_wait(struct lane *lane)
{
    struct lanes *lanes = lane->lanes;

    while (lane->taken == lanes->filled && !lanes->ended)
        pthread_cond_wait(&lanes->changed, &lanes->lock);
    return lane->taken < lanes->filled && !(lanes->ended && !lanes->ends);
}

static void *
lane_run(void *context)
{
    struct lane *lane = context;
    struct lanes *lanes = lane->lanes;
    bool ends;

    message_hold(true);
    pthread_mutex_lock(&lanes->lock);
    while (lane->answer == LANE_MORE && lane_wait(lane)) {
        const char *items = lanes_batch(lanes, lane->taken);
        size_t count = lanes->counts[lane->taken % LANES_BATCHES];
        enum lane_answer answer;

        pthread_mutex_unlock(&lanes->lock);
        answer = lane->work.take(lane->work.context, items, count);
        pthread_mutex_lock(&lanes->lock);
        lane->taken++;
        lane->answer = answer;
        pthread_cond_broadcast(&lanes->changed);
    }
    while (!lanes->ended)
        pthread_cond_wait(&lanes->changed, &lanes->lock);
    ends = lanes->ends;
    pthread_mutex_unlock(&lanes->lock);
    if (ends)
        lane->work.end(lane->work.context);
    return NULL;
}

/* Whether a lane has yet to take the batch in whose place the next one goes. Call with the lock. */
static bool
lanes_are_full(const struct lanes *lanes)
{
    bool full = false;

    for (size_t i = 0; i < lanes->count; i++)
        full = full || (lanes->list[i].answer == LANE_MORE && lanes->filled - lanes->list[i].taken == LANES_BATCHES);
    return full;
}

/* What the lanes want together. Call with the lock. */
static enum lane_answer
lanes_answer(const struct lanes *lanes)
{
    enum lane_answer answer = LANE_ENOUGH;

    for (size_t i = 0; i < lanes->count; i++) {
        if (lanes->list[i].answer == LANE_FAILED)
            return LANE_FAILED;
        if (lanes->list[i].answer == LANE_MORE)
            answer = LANE_MORE;
    }
    return answer;
}

/* Begin to fill a batch. */
static void
lanes_open(struct lanes *lanes)
{
    lanes->next = lanes_batch(lanes, lanes->filled);
    lanes->left = LANES_ITEMS;
}

/* Call with the lock. */
static void
lanes_close(struct lanes *lanes)
{
    lanes->counts[lanes->filled % LANES_BATCHES] = LANES_ITEMS - lanes->left;
    lanes->filled++;
    pthread_cond_broadcast(&lanes->changed);
}

enum lane_answer
lanes_hand_over(struct lanes *lanes)
{
    enum lane_answer answer;

    pthread_mutex_lock(&lanes->lock);
    lanes_close(lanes);
    while (lanes_are_full(lanes))
        pthread_cond_wait(&lanes->changed, &lanes->lock);
    answer = lanes_answer(lanes);
    pthread_mutex_unlock(&lanes->lock);
    lanes_open(lanes);
    return answer;
}

void
lanes_end(struct lanes *lanes, bool ends)
{
    pthread_mutex_lock(&lanes->lock);
    if (lanes->left < LANES_ITEMS)
        lanes_close(lanes);
    lanes->ended = true;
    lanes->ends = ends;
    pthread_cond_broadcast(&lanes->changed);
    pthread_mutex_unlock(&lanes->lock);
    for (size_t i = 0; i < lanes->count; i++)
        pthread_join(lanes->list[i].thread, NULL);
    pthread_cond_destroy(&lanes->changed);
    pthread_mutex_destroy(&lanes->lock);
    free(lanes->items);
}

bool
lanes_begin(struct lanes *lanes, size_t item_bytes, const struct lane_work *works, size_t count)
{
    *lanes = (struct lanes){ .item_bytes = item_bytes };
    lanes->items = calloc((size_t)LANES_BATCHES * LANES_ITEMS, item_bytes);
    if (lanes->items == NULL)
        return false;
    pthread_mutex_init(&lanes->lock, NULL);
    pthread_cond_init(&lanes->changed, NULL);
    lanes_open(lanes);
    for (; lanes->count < count; lanes->count++) {
        struct lane *lane = &lanes->list[lanes->count];

        *lane = (struct lane){ .lanes = lanes, .work = works[lanes->count] };
        if (pthread_create(&lane->thread, NULL, lane_run, lane) != 0) {
            lanes_end(lanes, false);
            return false;
        }
    }
    return true;
}
