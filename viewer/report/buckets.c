/* Buckets of an axis: how low and how high the live bytes were in each. */
#include "config.h"

#include <stdlib.h>

#include "viewer/report/buckets.h"

struct axis
axis_make(int64_t begin, int64_t last, size_t most)
{
    uint64_t span = (uint64_t)last - (uint64_t)begin;
    struct axis axis = { .begin = begin };

    while (span >> axis.shift >= most)
        axis.shift++;
    axis.count = (size_t)(span >> axis.shift) + 1;
    return axis;
}

bool
buckets_begin(struct buckets *buckets, size_t most)
{
    *buckets = (struct buckets){
        .most = most,
        .least = calloc(most, sizeof(*buckets->least)),
        .high = calloc(most, sizeof(*buckets->high)),
        .events = calloc(most, sizeof(*buckets->events)),
        .ns = calloc(most, sizeof(*buckets->ns)),
    };
    return buckets->least != NULL && buckets->high != NULL && buckets->events != NULL && buckets->ns != NULL;
}

void
buckets_free(struct buckets *buckets)
{
    free(buckets->least);
    free(buckets->high);
    free(buckets->events);
    free(buckets->ns);
    *buckets = (struct buckets){ 0 };
}

void
buckets_clear(struct buckets *buckets)
{
    buckets->axis = (struct axis){ 0 };
}

void
buckets_fold(struct buckets *buckets)
{
    size_t count = buckets->axis.count;

    for (size_t i = 0; i < count; i += 2) {
        size_t next = i + 1 < count ? i + 1 : i;

        buckets->least[i / 2] = buckets->least[next] < buckets->least[i] ? buckets->least[next] : buckets->least[i];
        buckets->high[i / 2] = buckets->high[next] > buckets->high[i] ? buckets->high[next] : buckets->high[i];
        buckets->events[i / 2] = buckets->events[i] + (next > i ? buckets->events[next] : 0);
        buckets->ns[i / 2] = buckets->ns[i];
    }
    buckets->axis.count = (count + 1) / 2;
    buckets->axis.shift++;
}

/* Begin the next bucket, with what is live. */
static void
buckets_open(struct buckets *buckets, uint64_t live, int64_t ns)
{
    size_t at = buckets->axis.count++;

    buckets->least[at] = buckets->high[at] = live;
    buckets->events[at] = 0;
    buckets->ns[at] = ns;
}

void
buckets_go(struct buckets *buckets, int64_t position, uint64_t live, int64_t ns)
{
    if (buckets->axis.count == 0) {
        buckets->axis.begin = position;
        buckets_open(buckets, live, ns);
    }
    while (axis_bucket(&buckets->axis, position) >= buckets->most)
        buckets_fold(buckets);
    while (axis_bucket(&buckets->axis, position) >= buckets->axis.count)
        buckets_open(buckets, live, ns);
}
