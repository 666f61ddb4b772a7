/* Reads the allocations of a trace once and passes them to analyses as events in time order. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/due-queue.h"
#include "viewer/read/filter.h"
#include "viewer/read/rows.h"
#include "viewer/read/scan.h"

struct scan {
    const struct trace *trace;
    const struct scan_pass *passes;
    size_t pass_count;
    const struct filter *filter; /* NULL: everything */
    unsigned needs;
    bool has_frees;         /* a unit takes them, or asks what is live */
    struct scan_life *kept; /* owns; SCAN_LIVE: those that are never freed */
    size_t kept_count;
    size_t kept_capacity;
    char *lives;          /* owns; by slot: those that will be freed, `life_bytes` of each */
    size_t life_bytes;    /* up to the last column that is needed: fewer lines of the cache are touched */
    uint64_t *free_slots; /* owns; a stack of slots of `lives` that are not in use */
    size_t capacity;      /* of both arrays */
    size_t slot_count;    /* slots of `lives` that were ever in use */
    size_t free_count;
    struct due_queue due;   /* slots */
    struct scan_life freed; /* the one that is handed out */
    int64_t last_ns;
    uint64_t events;
};

/* Scans that share a reading. */
struct scan_group {
    struct scan *scans; /* owns */
    size_t count;
};

/* The number of upcoming frees whose lives are prefetched. */
#define SCAN_AHEAD 3

/* The size of a life without the columns that only some units need. */
#define SCAN_HEAD_BYTES offsetof(struct scan_life, tag_id)

static int
scan_grow(struct scan *scan)
{
    size_t capacity = scan->capacity == 0 ? 1024 : 2 * scan->capacity;
    char *lives = realloc(scan->lives, capacity * scan->life_bytes);
    uint64_t *free_slots = lives != NULL ? realloc(scan->free_slots, capacity * sizeof(*free_slots)) : NULL;

    if (lives != NULL)
        scan->lives = lives;
    if (free_slots == NULL)
        return trace_broken(scan->trace, "no memory for %zu live allocations", capacity);
    scan->free_slots = free_slots;
    scan->capacity = capacity;
    return COMMAND_FINE;
}

/* Copy the kept part of a life. Both lengths are compile-time constants: a call would cost more than the copy. */
static inline void
scan_copy(const struct scan *scan, void *to, const void *from)
{
    memcpy(to, from, SCAN_HEAD_BYTES);
    if (scan->life_bytes > SCAN_HEAD_BYTES)
        memcpy((char *)to + SCAN_HEAD_BYTES, (const char *)from + SCAN_HEAD_BYTES,
               sizeof(struct scan_life) - SCAN_HEAD_BYTES);
}

/* Keep a life until its free is due. */
static int
scan_push(struct scan *scan, const struct scan_life *life)
{
    uint64_t slot;

    if (scan->free_count == 0 && scan->slot_count == scan->capacity && scan_grow(scan) != COMMAND_FINE)
        return COMMAND_WRONG;
    slot = scan->free_count > 0 ? scan->free_slots[--scan->free_count] : scan->slot_count++;
    scan_copy(scan, scan->lives + slot * scan->life_bytes, life);
    if (!due_queue_add(&scan->due, life->free_ns, slot))
        return trace_broken(scan->trace, "no memory for %zu live allocations", scan->due.count);
    return COMMAND_FINE;
}

/* The life in a slot; what was not needed of it stays as it is. */
static inline void
scan_load(const struct scan *scan, uint64_t slot, struct scan_life *out)
{
    scan_copy(scan, out, scan->lives + slot * scan->life_bytes);
}

/* Prefetch the lives that are freed next while rows are read: cache misses took a third of the time of a free. */
static inline void
scan_prefetch(const struct scan *scan)
{
    uint64_t slots[SCAN_AHEAD];
    size_t count = due_queue_peek(&scan->due, slots, SCAN_AHEAD);

    for (size_t i = 0; i < count; i++) {
        const char *life = scan->lives + slots[i] * scan->life_bytes;

        __builtin_prefetch(life);
        __builtin_prefetch(life + scan->life_bytes - 1);
    }
}

/* Hand out a free. */
static int
scan_free(struct scan *scan, uint64_t slot)
{
    int status = COMMAND_FINE;

    scan_load(scan, slot, &scan->freed);
    scan_prefetch(scan);
    scan->free_slots[scan->free_count++] = slot;
    scan->last_ns = scan->freed.free_ns;
    scan->events++;
    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++) {
        if (scan->passes[i].unit->free != NULL)
            status = scan->passes[i].unit->free(scan->passes[i].context, &scan->freed);
    }
    return status;
}

/* Hand out every free that is due before `ns`. */
static int
scan_free_before(struct scan *scan, int64_t ns)
{
    uint64_t slot;

    for (;;) {
        enum due_found found = due_queue_take(&scan->due, ns, &slot);
        int status;

        if (found == DUE_NOTHING)
            return COMMAND_FINE;
        if (found == DUE_NO_MEMORY)
            return trace_broken(scan->trace, "no memory for %zu live allocations", scan->due.count);
        status = scan_free(scan, slot);
        if (status != COMMAND_FINE)
            return status;
    }
}

/* Keep a life that is never freed. */
static int
scan_keep(struct scan *scan, const struct scan_life *life)
{
    if (!tidei_grow(&scan->kept, &scan->kept_capacity, scan->kept_count, 1))
        return trace_broken(scan->trace, "no memory for %zu live allocations", 2 * scan->kept_capacity);
    scan->kept[scan->kept_count++] = *life;
    return COMMAND_FINE;
}

static int
scan_alloc(struct scan *scan, struct scan_life *life)
{
    int status = scan_free_before(scan, life->alloc_ns);

    scan->last_ns = life->alloc_ns;
    life->event = scan->events;
    scan->events += life->status == 0;
    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++)
        status = scan->passes[i].unit->alloc(scan->passes[i].context, life);
    if (status == COMMAND_FINE && life->freed)
        return scan->has_frees ? scan_push(scan, life) : COMMAND_FINE;
    if (status == COMMAND_FINE && life->status == 0 && scan->needs & SCAN_LIVE)
        return scan_keep(scan, life);
    return status;
}

/* What scan_each_live calls. */
struct scan_each {
    const struct scan *scan;
    void (*each)(void *context, const struct scan_life *life);
    void *context;
};

static void
scan_each_due(void *context, uint64_t slot)
{
    const struct scan_each *self = context;
    struct scan_life life = { 0 };

    scan_load(self->scan, slot, &life);
    self->each(self->context, &life);
}

void
scan_each_live(const struct scan *scan, void (*each)(void *context, const struct scan_life *life), void *context)
{
    struct scan_each self = { scan, each, context };

    due_queue_each(&scan->due, scan_each_due, &self);
    for (size_t i = 0; i < scan->kept_count; i++)
        each(context, &scan->kept[i]);
}

uint64_t
scan_events(const struct scan *scan)
{
    return scan->events;
}

static int
scan_begin(struct scan *scan)
{
    int status = COMMAND_FINE;

    due_queue_clear(&scan->due);
    scan->slot_count = scan->free_count = scan->kept_count = 0;
    scan->last_ns = 0;
    scan->events = 0;
    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++) {
        if (scan->passes[i].unit->begin != NULL)
            status = scan->passes[i].unit->begin(scan->passes[i].context);
    }
    return status;
}

static int
scan_end(struct scan *scan)
{
    int status = scan_free_before(scan, INT64_MAX);

    for (size_t i = 0; i < scan->pass_count && status == COMMAND_FINE; i++) {
        if (scan->passes[i].unit->end != NULL)
            status = scan->passes[i].unit->end(scan->passes[i].context, scan->last_ns);
    }
    return status;
}

/* The order of frees at equal times, if ids do not increase. */
static int
scan_compare(const void *context, uint64_t one, uint64_t other)
{
    const struct scan *scan = context;
    struct scan_life a = { 0 };
    struct scan_life b = { 0 };

    scan_load(scan, one, &a);
    scan_load(scan, other, &b);
    return (a.allocation_id > b.allocation_id) - (a.allocation_id < b.allocation_id);
}

static void
scan_prepare(struct scan *scan, const struct trace *trace, const struct scan_part *part)
{
    *scan =
        (struct scan){ .trace = trace, .filter = part->filter, .passes = part->passes, .pass_count = part->pass_count };
    scan->due.context = scan;
    scan->needs = part->filter != NULL ? part->filter->needs : 0;
    for (size_t i = 0; i < part->pass_count; i++) {
        scan->needs |= part->passes[i].unit->needs;
        scan->has_frees = scan->has_frees || part->passes[i].unit->free != NULL;
        if (part->passes[i].unit->attach)
            *(const struct scan **)part->passes[i].context = scan;
    }
    scan->has_frees = scan->has_frees || scan->needs & SCAN_LIVE;
    scan->life_bytes = scan->needs & ~(unsigned)SCAN_LIVE ? sizeof(struct scan_life) : SCAN_HEAD_BYTES;
}

static void
scan_release(struct scan *scan)
{
    due_queue_free(&scan->due);
    free(scan->lives);
    free(scan->free_slots);
    free(scan->kept);
}

static int
scan_group_begin(void *context, bool sorted)
{
    struct scan_group *group = context;
    int status = COMMAND_FINE;

    for (size_t i = 0; i < group->count && status == COMMAND_FINE; i++) {
        group->scans[i].due.compare = sorted ? scan_compare : NULL;
        status = scan_begin(&group->scans[i]);
    }
    return status;
}

/* Hand a row to all. */
static int
scan_group_row(void *context, const struct scan_life *life)
{
    struct scan_group *group = context;
    int status = COMMAND_FINE;

    for (size_t i = 0; i < group->count && status == COMMAND_FINE; i++) {
        struct scan *scan = &group->scans[i];
        struct scan_life own = *life; /* a filter may clip it */

        if (scan->filter == NULL || filter_takes(scan->filter, &own))
            status = scan_alloc(scan, &own);
    }
    return status;
}

static int
scan_group_end(void *context)
{
    struct scan_group *group = context;
    int status = COMMAND_FINE;

    for (size_t i = 0; i < group->count && status == COMMAND_FINE; i++)
        status = scan_end(&group->scans[i]);
    return status;
}

int
scan_run_parts(const struct trace *trace, const struct scan_part *parts, size_t part_count)
{
    struct scan_group group = { .scans = calloc(part_count, sizeof(*group.scans)), .count = part_count };
    const struct reading_taker taker = { &group, scan_group_begin, scan_group_row, scan_group_end };
    unsigned needs = 0;
    int status;

    if (group.scans == NULL)
        return trace_broken(trace, "no memory");
    for (size_t i = 0; i < part_count; i++) {
        scan_prepare(&group.scans[i], trace, &parts[i]);
        needs |= group.scans[i].needs;
    }
    status = reading_run(trace, needs, &taker);
    for (size_t i = 0; i < part_count; i++)
        scan_release(&group.scans[i]);
    free(group.scans);
    return status;
}

int
scan_run_filtered(const struct trace *trace, const struct filter *filter, const struct scan_pass *passes,
                  size_t pass_count)
{
    struct scan_part part = { filter, passes, pass_count };

    return scan_run_parts(trace, &part, 1);
}

int
scan_run(const struct trace *trace, const struct scan_pass *passes, size_t pass_count)
{
    return scan_run_filtered(trace, NULL, passes, pass_count);
}
