/* The chosen instants of a trace, and the allocations that were live at them. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/report/anchors.h"

void
anchors_begin(struct anchors *anchors, size_t lives_most)
{
    *anchors = (struct anchors){ .lives_most = lives_most };
}

void
anchors_free(struct anchors *anchors)
{
    free(anchors->list);
    free(anchors->lives);
    *anchors = (struct anchors){ 0 };
}

bool
anchors_add(struct anchors *anchors, int64_t ns, unsigned why)
{
    if (!tidei_grow(&anchors->list, &anchors->capacity, anchors->count, 1))
        return false;
    anchors->list[anchors->count++] = (struct anchor){ .ns = ns, .why = why };
    return true;
}

static int
anchors_compare(const void *a, const void *b)
{
    const struct anchor *one = a;
    const struct anchor *other = b;

    return (one->ns > other->ns) - (one->ns < other->ns);
}

void
anchors_sort(struct anchors *anchors)
{
    size_t count = 0;

    if (anchors->count > 0)
        qsort(anchors->list, anchors->count, sizeof(*anchors->list), anchors_compare);
    for (size_t i = 0; i < anchors->count; i++) {
        if (count > 0 && anchors->list[count - 1].ns == anchors->list[i].ns)
            anchors->list[count - 1].why |= anchors->list[i].why;
        else
            anchors->list[count++] = anchors->list[i];
    }
    anchors->count = anchors->chosen = count;
}

void
anchors_clear(struct anchors *anchors)
{
    anchors->passed = 0;
    anchors->last_event = 0;
    anchors->life_count = 0;
}

void
anchors_pass(struct anchors *anchors, int64_t ns, bool is_free, uint64_t events, uint64_t bytes, uint64_t count)
{
    for (; anchors->passed < anchors->count; anchors->passed++) {
        struct anchor *anchor = &anchors->list[anchors->passed];

        if (anchor->ns > ns || (anchor->ns == ns && !is_free))
            return;
        anchor->event = anchors->last_event = events;
        anchor->bytes = bytes;
        anchor->count = count;
    }
}

/* The place of the first of the passed instants behind an event. */
static size_t
anchors_behind(const struct anchors *anchors, uint64_t event)
{
    size_t from = 0, to = anchors->passed;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (anchors->list[middle].event <= event)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* Whether the life reaches up to an instant: it begins before it, and ends behind. */
static bool
anchors_has(const struct anchors *anchors, const struct kept_life *life)
{
    size_t place = anchors_behind(anchors, life->event);

    return place < anchors->passed &&
           (life->lived == 0 || (uint64_t)anchors->list[place].ns - (uint64_t)life->alloc_ns < life->lived);
}

/* A number without order, for a sample. */
static uint64_t
anchors_hash(int64_t allocation_id)
{
    uint64_t hash = (uint64_t)allocation_id * UINT64_C(0x9e3779b97f4a7c15);

    return hash ^ hash >> 32;
}

/* Whether its size lets it be kept. */
static inline bool
anchors_takes(const struct anchors *anchors, uint64_t size, int64_t allocation_id)
{
    return size >= anchors->least_bytes || (anchors->mask != 0 && size + 1 == anchors->least_bytes &&
                                            (anchors_hash(allocation_id) & anchors->mask) == 0);
}

/* Leave out every second instant: of the spread alone, if that is half of all or more. */
static void
anchors_halve(struct anchors *anchors)
{
    size_t spread = 0, count = 0, passed = 0;
    size_t seen = 0;
    bool all;

    for (size_t i = 0; i < anchors->count; i++)
        spread += anchors->list[i].why == ANCHOR_SPREAD;
    all = spread * 2 < anchors->count;
    for (size_t i = 0; i < anchors->count; i++) {
        const struct anchor *anchor = &anchors->list[i];
        bool may_go = anchor->why == ANCHOR_SPREAD || (all && (anchor->why & (ANCHOR_PEAK | ANCHOR_END)) == 0);

        if (may_go && seen++ % 2 == 0)
            continue;
        passed += i < anchors->passed;
        anchors->list[count++] = *anchor;
    }
    anchors->count = count;
    anchors->passed = passed;
    anchors->last_event = passed > 0 ? anchors->list[passed - 1].event : 0;
}

static int
anchors_compare_sizes(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

    return (one > other) - (one < other);
}

/* Leave out the smaller half of the allocations, or a half of those of the smallest size. */
static void
anchors_raise(struct anchors *anchors)
{
    uint64_t *sizes = malloc(anchors->life_count * sizeof(*sizes));
    uint64_t least, median;

    if (sizes == NULL) {
        anchors->failed = true;
        return;
    }
    for (size_t i = 0; i < anchors->life_count; i++)
        sizes[i] = anchors->lives[i].size;
    qsort(sizes, anchors->life_count, sizeof(*sizes), anchors_compare_sizes);
    least = sizes[0];
    median = sizes[anchors->life_count / 2];
    free(sizes);
    if (median > least) {
        anchors->least_bytes = median;
        anchors->mask = 0;
    } else if (anchors->mask != 0 && least + 1 == anchors->least_bytes) {
        anchors->mask = anchors->mask << 1 | 1;
    } else {
        anchors->least_bytes = least + 1;
        anchors->mask = 1;
    }
}

/* Too many allocations are kept: keep fewer. */
static void
anchors_thin(struct anchors *anchors)
{
    size_t count = 0;

    if (anchors->count > ANCHORS_FEWEST)
        anchors_halve(anchors);
    else
        anchors_raise(anchors);
    for (size_t i = 0; i < anchors->life_count; i++) {
        const struct kept_life *life = &anchors->lives[i];

        if (anchors_takes(anchors, life->size, life->allocation_id) && anchors_has(anchors, life))
            anchors->lives[count++] = *life;
    }
    anchors->life_count = count;
}

void
anchors_keep(struct anchors *anchors, const struct scan_life *life)
{
    if (life->event >= anchors->last_event || scan_live_count(life) == 0 ||
        !anchors_takes(anchors, life->size, life->allocation_id))
        return;
    while (anchors->life_count >= anchors->lives_most && !anchors->failed)
        anchors_thin(anchors);
    if (life->event >= anchors->last_event || !anchors_takes(anchors, life->size, life->allocation_id))
        return;
    if (anchors->failed || !tidei_grow(&anchors->lives, &anchors->life_capacity, anchors->life_count, 1)) {
        anchors->failed = true;
        return;
    }
    anchors->lives[anchors->life_count++] = (struct kept_life){
        .allocation_id = life->allocation_id,
        .alloc_ns = life->alloc_ns,
        .lived = life->freed ? (uint64_t)life->free_ns - (uint64_t)life->alloc_ns + 1 : 0,
        .event = life->event,
        .size = life->size,
        .address = life->address,
        .tag_id = life->tag_id,
        .callstack_id = life->callstack_id,
        .thread_id = life->alloc_thread_id,
        .stream_id = life->alloc_stream_id,
        .layer_id = life->layer_id,
    };
}

static int
anchors_compare_lives(const void *a, const void *b)
{
    const struct kept_life *one = a;
    const struct kept_life *other = b;

    return (one->event > other->event) - (one->event < other->event);
}

/* Count what is kept at each instant. A life is counted from the first instant in it up to the last. */
static void
anchors_count_kept(struct anchors *anchors)
{
    uint64_t bytes = 0, count = 0;

    for (size_t i = 0; i < anchors->count; i++)
        anchors->list[i].kept_bytes = anchors->list[i].kept_count = 0;
    for (size_t i = 0; i < anchors->life_count; i++) {
        const struct kept_life *life = &anchors->lives[i];
        size_t from = anchors_behind(anchors, life->event), to = anchors->count, low = from;

        while (life->lived != 0 && low < to) {
            size_t middle = low + (to - low) / 2;

            if ((uint64_t)anchors->list[middle].ns - (uint64_t)life->alloc_ns < life->lived)
                low = middle + 1;
            else
                to = middle;
        }
        anchors->list[from].kept_bytes += life->size;
        anchors->list[from].kept_count++;
        if (to < anchors->count) {
            anchors->list[to].kept_bytes -= life->size;
            anchors->list[to].kept_count--;
        }
    }
    for (size_t i = 0; i < anchors->count; i++) {
        anchors->list[i].kept_bytes = bytes += anchors->list[i].kept_bytes;
        anchors->list[i].kept_count = count += anchors->list[i].kept_count;
    }
}

void
anchors_end(struct anchors *anchors)
{
    if (anchors->life_count > 0)
        qsort(anchors->lives, anchors->life_count, sizeof(*anchors->lives), anchors_compare_lives);
    anchors_count_kept(anchors);
}
