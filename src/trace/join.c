/*
 * Ties the driver's calls to the allocations and frees that made them.
 *
 * Events and calls both come in batches, each in the order of time for a thread, and either may be the later one.
 * They are sorted by thread and time and run through side by side; what finds no partner stays until the other side
 * has got past it.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "trace/join.h"

/* One allocation or free of a layer of the driver's. */
struct join_event {
    uint64_t begin; /* ticks */
    uint64_t end;
    uint64_t begin_ns; /* of the trace: on the same line as the event's row */
    double ns_per_tick;
    uint64_t allocation_id;
    uint32_t os_tid;
    uint32_t thread_id;
    bool is_free;
};

struct tidei_join {
    pthread_mutex_t lock; /* for the layers */
    struct join_event *events;
    size_t event_count, event_capacity;
    struct tidei_call *calls;
    size_t call_count, call_capacity;
    struct tidei_driver_call *rows;
    size_t row_count, row_capacity;
    uint32_t *os_tids; /* by thread id */
    size_t thread_capacity;
    bool *layers; /* by layer id */
    size_t layer_capacity;
    uint64_t *owners; /* of the records that are being added: allocation id << 1 | is_free; 0: none */
    size_t owner_capacity;
};

struct tidei_join *
tidei_join_new(void)
{
    struct tidei_join *join = calloc(1, sizeof(*join));

    if (join != NULL)
        pthread_mutex_init(&join->lock, NULL);
    return join;
}

void
tidei_join_free(struct tidei_join *join)
{
    if (join == NULL)
        return;
    free(join->events);
    free(join->calls);
    free(join->rows);
    free(join->os_tids);
    free(join->layers);
    free(join->owners);
    pthread_mutex_destroy(&join->lock);
    free(join);
}

/* Make room for `wanted` items; what is new is zeroed. */
static bool
join_reserve(void **items, size_t wanted, size_t *capacity, size_t item_bytes)
{
    size_t larger = *capacity == 0 ? 256 : *capacity;
    char *moved;

    if (wanted <= *capacity)
        return true;
    while (larger < wanted)
        larger *= 2;
    moved = realloc(*items, larger * item_bytes);
    if (moved == NULL)
        return false;
    memset(moved + *capacity * item_bytes, 0, (larger - *capacity) * item_bytes);
    *items = moved;
    *capacity = larger;
    return true;
}

void
tidei_join_add_layer(struct tidei_join *join, uint32_t layer_id)
{
    pthread_mutex_lock(&join->lock);
    if (join_reserve((void **)&join->layers, (size_t)layer_id + 1, &join->layer_capacity, sizeof(*join->layers)))
        join->layers[layer_id] = true;
    pthread_mutex_unlock(&join->lock);
}

void
tidei_join_add_thread(struct tidei_join *join, uint32_t thread_id, uint32_t os_tid)
{
    if (join_reserve((void **)&join->os_tids, (size_t)thread_id + 1, &join->thread_capacity, sizeof(*join->os_tids)))
        join->os_tids[thread_id] = os_tid;
}

/* Which allocation each record belongs to. */
static void
join_find_owners(struct tidei_join *join, const struct tidei_pair *pair, uint64_t from, uint64_t end)
{
    memset(join->owners, 0, (end - from) * sizeof(*join->owners));
    for (size_t row = 0; row < pair->row_count; row++) {
        uint64_t id = pair->first_id + row;

        join->owners[pair->rows[row].alloc - from] = id << 1;
        if (pair->rows[row].free != TIDEI_NO_FREE)
            join->owners[pair->rows[row].free - from] = id << 1 | 1;
    }
    for (size_t i = 0; i < pair->closing_count; i++)
        join->owners[pair->closings[i].free - from] = pair->closings[i].id << 1 | 1;
}

static bool
join_is_ours(const struct tidei_join *join, const struct tidei_record *record)
{
    return record->layer < join->layer_capacity && join->layers[record->layer] &&
           record->thread < join->thread_capacity;
}

bool
tidei_join_add_events(struct tidei_join *join, const struct tidei_store *store, uint64_t from, uint64_t end)
{
    const struct tidei_pair *pair = store->pair;
    bool watches;

    pthread_mutex_lock(&join->lock);
    watches = join->layer_capacity != 0;
    pthread_mutex_unlock(&join->lock);
    if (!watches)
        return true;
    if (!join_reserve((void **)&join->owners, end - from, &join->owner_capacity, sizeof(*join->owners)) ||
        !join_reserve((void **)&join->events, join->event_count + (end - from), &join->event_capacity,
                      sizeof(*join->events)))
        return false;
    join_find_owners(join, pair, from, end);
    pthread_mutex_lock(&join->lock);
    for (uint64_t i = from; i < end; i++) {
        const struct tidei_record *record = tidei_half_record(pair->file, pair->half, i);
        uint64_t owner = join->owners[i - from];
        uint64_t begin = record->ticks - record->duration_ticks;

        if (owner == 0 || !join_is_ours(join, record))
            continue;
        join->events[join->event_count++] = (struct join_event){ .begin = begin,
                                                                 .end = record->ticks,
                                                                 .begin_ns = tidei_store_ns(store, begin),
                                                                 .ns_per_tick = store->line.ns_per_tick,
                                                                 .allocation_id = owner >> 1,
                                                                 .os_tid = join->os_tids[record->thread],
                                                                 .thread_id = record->thread,
                                                                 .is_free = (owner & 1) != 0 };
    }
    pthread_mutex_unlock(&join->lock);
    return true;
}

bool
tidei_join_add_calls(struct tidei_join *join, const struct tidei_call *items, size_t count)
{
    if (count == 0)
        return true;
    if (!join_reserve((void **)&join->calls, join->call_count + count, &join->call_capacity, sizeof(*join->calls)))
        return false;
    memcpy(join->calls + join->call_count, items, count * sizeof(*items));
    join->call_count += count;
    return true;
}

static int
join_compare(uint32_t left_tid, uint64_t left_time, uint32_t right_tid, uint64_t right_time)
{
    if (left_tid != right_tid)
        return left_tid < right_tid ? -1 : 1;
    return (left_time > right_time) - (left_time < right_time);
}

static int
join_events_by_time(const void *left, const void *right)
{
    const struct join_event *a = left, *b = right;

    return join_compare(a->os_tid, a->end, b->os_tid, b->end);
}

static int
join_calls_by_time(const void *left, const void *right)
{
    const struct tidei_call *a = left, *b = right;

    return join_compare(a->os_tid, a->end, b->os_tid, b->end);
}

static void
join_row(struct tidei_join *join, const struct join_event *event, const struct tidei_call *call)
{
    uint64_t since_begin = (uint64_t)((double)(call->start - event->begin) * event->ns_per_tick);
    uint64_t duration = (uint64_t)((double)(call->end - call->start) * event->ns_per_tick);

    if (!join_reserve((void **)&join->rows, join->row_count + 1, &join->row_capacity, sizeof(*join->rows)))
        return;
    join->rows[join->row_count++] = (struct tidei_driver_call){ .allocation_id = event->allocation_id,
                                                                .start_ns = event->begin_ns + since_begin,
                                                                .duration_ns = duration,
                                                                .function = call->function,
                                                                .thread_id = event->thread_id,
                                                                .result = call->result,
                                                                .is_free = event->is_free };
}

void
tidei_join_run(struct tidei_join *join, uint64_t events_until, uint64_t calls_until)
{
    size_t kept_calls = 0, kept_events = 0, event = 0;

    if (join->call_count != 0)
        qsort(join->calls, join->call_count, sizeof(*join->calls), join_calls_by_time);
    if (join->event_count != 0)
        qsort(join->events, join->event_count, sizeof(*join->events), join_events_by_time);
    for (size_t i = 0; i < join->call_count; i++) {
        const struct tidei_call call = join->calls[i];

        /* The first event of the thread that ends no earlier than the call: the only one it can lie in. */
        while (event < join->event_count &&
               join_compare(join->events[event].os_tid, join->events[event].end, call.os_tid, call.end) < 0)
            event++;
        if (event < join->event_count && join->events[event].os_tid == call.os_tid &&
            join->events[event].begin <= call.start)
            join_row(join, &join->events[event], &call);
        else if (call.end >= events_until)
            join->calls[kept_calls++] = call;
    }
    join->call_count = kept_calls;
    for (size_t i = 0; i < join->event_count; i++) {
        if (join->events[i].end >= calls_until)
            join->events[kept_events++] = join->events[i];
    }
    join->event_count = kept_events;
}

const struct tidei_driver_call *
tidei_join_rows(const struct tidei_join *join, size_t *count)
{
    *count = join->row_count;
    return join->rows;
}

void
tidei_join_written(struct tidei_join *join)
{
    join->row_count = 0;
}
