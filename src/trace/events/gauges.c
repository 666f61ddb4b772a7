/* Keeps the gauge page of a recording up to date. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "src/tables/map.h"
#include "src/trace/events/gauges.h"

#define GAUGES_IDS     65536 /* of layers */
#define GAUGES_HIGHS   4096u /* kept of a level; half of them go where there are more */
#define GAUGES_OF_LIVE 0x80000000u

/* A moment at which more was live than at any moment before. */
struct gauges_high {
    uint64_t ticks;
    int64_t bytes;
};

/* What a layer has. `bytes` and `count` may be below zero for a moment: a free may come before its allocation. */
struct gauges_level {
    int64_t bytes;
    int64_t count;
    uint64_t allocations;
    uint64_t frees;
    uint64_t failures;
    uint64_t total_bytes;
    struct gauges_high *highs; /* owned; the last is the peak */
    size_t high_count, high_capacity;
};

struct gauges_layer {
    uint16_t id;
    struct gauges_level shown;   /* of all merged records */
    struct gauges_level settled; /* of those that are paired */
};

struct gauges_tag {
    uint32_t tag;
    uint16_t layer;
    int64_t bytes;
    int64_t count;
};

struct tidei_gauges {
    struct tidei_ringfile *file;
    struct tidei_sampler *sampler;
    const struct tidei_timeline *timeline;
    struct gauges_layer *layers;
    size_t layer_count, layer_capacity;
    struct gauges_tag *tags;
    size_t tag_count, tag_capacity;
    struct tidei_map tag_places; /* by tag and layer */
    uint32_t *owners;            /* of each record of the slice, see gauges_find_owners */
    size_t owner_capacity;
    unsigned buffer; /* that fills */
    uint64_t filled; /* records in it */
    bool begun;      /* the trace has an allocation: see tidei_pair_row_ticks */
    bool dirty;      /* what is shown is not what is settled, with what came since */
    bool no_memory;  /* the page stays as it was */
    uint64_t dropped_allocations, dropped_frees;
    size_t chosen[TIDEI_GAUGE_LAYERS]; /* the layers on the page, where not all have room */
    size_t chosen_count;
    struct tidei_gauge page;
    uint32_t places[GAUGES_IDS]; /* 1 + the layer's place; 0: none */
};

struct tidei_gauges *
tidei_gauges_new(struct tidei_ringfile *file, struct tidei_sampler *sampler, const struct tidei_timeline *timeline)
{
    struct tidei_gauges *gauges = file->gauge != NULL ? calloc(1, sizeof(*gauges)) : NULL;

    if (gauges == NULL)
        return NULL;
    gauges->file = file;
    gauges->sampler = sampler;
    gauges->timeline = timeline;
    gauges->page.epoch_ns = file->header->start_ns;
    return gauges;
}

void
tidei_gauges_free(struct tidei_gauges *gauges)
{
    if (gauges == NULL)
        return;
    for (size_t i = 0; i < gauges->layer_count; i++) {
        free(gauges->layers[i].shown.highs);
        free(gauges->layers[i].settled.highs);
    }
    free(gauges->layers);
    free(gauges->tags);
    tidei_map_free(&gauges->tag_places);
    free(gauges->owners);
    free(gauges);
}

/* Bytes became live at a tick: the latest of all so far. */
static inline void
gauges_raise(struct gauges_level *level, uint64_t bytes, uint64_t ticks)
{
    size_t count = level->high_count;

    level->bytes += (int64_t)bytes;
    level->count += bytes != 0; /* a request of no bytes is never live */
    if (level->bytes <= (count != 0 ? level->highs[count - 1].bytes : 0))
        return;
    if (count == GAUGES_HIGHS) {
        /* Where the older half was highest, it stays. */
        count = GAUGES_HIGHS / 2 + 1;
        memmove(level->highs, level->highs + GAUGES_HIGHS - count, count * sizeof(*level->highs));
    }
    /* Without host memory the latest replaces the one before. */
    if (tidei_grow(&level->highs, &level->high_capacity, count, 1))
        count++;
    else if (count == 0)
        return;
    level->highs[count - 1] = (struct gauges_high){ .ticks = ticks, .bytes = level->bytes };
    level->high_count = count;
}

/* Bytes have not been live since a tick: what was the most since then is less, and may be no more than before. */
static __attribute__((noinline)) void
gauges_lower_highs(struct gauges_level *level, int64_t bytes, uint64_t ticks)
{
    size_t first = level->high_count, next;
    int64_t before;

    while (first > 0 && level->highs[first - 1].ticks >= ticks)
        level->highs[--first].bytes -= bytes;
    before = first > 0 ? level->highs[first - 1].bytes : 0;
    for (next = first; next < level->high_count && level->highs[next].bytes <= before; next++)
        ;
    memmove(level->highs + first, level->highs + next, (level->high_count - next) * sizeof(*level->highs));
    level->high_count -= next - first;
}

static inline void
gauges_lower(struct gauges_level *level, uint64_t bytes, uint64_t ticks)
{
    level->bytes -= (int64_t)bytes;
    level->count -= bytes != 0;
    level->frees++;
    if (level->high_count != 0 && level->highs[level->high_count - 1].ticks >= ticks)
        gauges_lower_highs(level, (int64_t)bytes, ticks);
}

static struct gauges_layer *
gauges_add_layer(struct tidei_gauges *gauges, uint16_t id)
{
    if (!tidei_grow(&gauges->layers, &gauges->layer_capacity, gauges->layer_count, 1)) {
        gauges->no_memory = true;
        return NULL;
    }
    gauges->layers[gauges->layer_count] = (struct gauges_layer){ .id = id };
    gauges->places[id] = (uint32_t)gauges->layer_count + 1;
    if (gauges->chosen_count < TIDEI_GAUGE_LAYERS)
        gauges->chosen[gauges->chosen_count++] = gauges->layer_count;
    return &gauges->layers[gauges->layer_count++];
}

static inline struct gauges_layer *
gauges_layer(struct tidei_gauges *gauges, uint16_t id)
{
    uint32_t place = gauges->places[id];

    return place != 0 ? &gauges->layers[place - 1] : gauges_add_layer(gauges, id);
}

/* The tick at which a call began. */
static inline uint64_t
gauges_begin(const struct tidei_record *record)
{
    uint64_t duration = tidei_record_duration(record);

    return record->ticks > duration ? record->ticks - duration : 0;
}

/* Count a merged event by what it says itself. */
static inline void
gauges_show(struct tidei_gauges *gauges, const struct tidei_record *record)
{
    struct gauges_layer *layer = gauges_layer(gauges, record->layer);
    struct gauges_level *level;

    if (layer == NULL)
        return;
    level = &layer->shown;
    if (record->kind == TIDEI_RECORD_FREE) {
        if (record->status == TIDE_OK)
            gauges_lower(level, record->size, gauges_begin(record));
        return;
    }
    gauges->begun |= record->kind == TIDEI_RECORD_ALLOC;
    if (record->status != TIDE_OK) {
        level->failures++;
        return;
    }
    level->allocations++;
    level->total_bytes += record->size;
    gauges_raise(level, record->size, gauges->begun ? record->ticks : TIDEI_TICKS_BEFORE);
}

static inline bool
gauges_is_event(const struct tidei_record *record)
{
    return record->kind == TIDEI_RECORD_ALLOC || record->kind == TIDEI_RECORD_FREE || record->kind == TIDEI_RECORD_HELD;
}

static void
gauges_count_duration(struct tidei_gauges *gauges, const struct tidei_record *record, double ns_per_tick)
{
    unsigned bucket = tidei_gauge_bucket((uint64_t)((double)tidei_record_duration(record) * ns_per_tick));

    if (record->kind == TIDEI_RECORD_ALLOC)
        gauges->page.alloc_durations[bucket]++;
    else if (record->kind == TIDEI_RECORD_FREE)
        gauges->page.free_durations[bucket]++;
}

/* The nanosecond of the trace. */
static uint64_t
gauges_ns(const struct tidei_gauges *gauges, uint64_t ticks)
{
    const struct tidei_clock_line *line = tidei_ring_line(gauges->file->header);
    uint64_t ns;

    if (ticks == TIDEI_TICKS_BEFORE)
        return 0;
    if ((int64_t)(ticks - line->base.ticks) < 0)
        return tidei_timeline_ns(gauges->timeline, ticks);
    ns = tidei_clock_ns(line, ticks);
    return ns > gauges->page.epoch_ns ? ns - gauges->page.epoch_ns : 0;
}

static void
gauges_fill_layers(struct tidei_gauges *gauges)
{
    struct tidei_gauge *page = &gauges->page;

    page->layer_count = (uint32_t)gauges->chosen_count;
    page->layers_left_out = (uint32_t)(gauges->layer_count - gauges->chosen_count);
    for (size_t i = 0; i < gauges->chosen_count; i++) {
        const struct gauges_layer *layer = &gauges->layers[gauges->chosen[i]];
        const struct gauges_level *level = &layer->shown;
        const struct gauges_high none = { 0, 0 };
        const struct gauges_high *peak = level->high_count != 0 ? &level->highs[level->high_count - 1] : &none;

        page->layers[i] = (struct tidei_gauge_layer){ .layer_id = layer->id,
                                                      .live_bytes = level->bytes > 0 ? (uint64_t)level->bytes : 0,
                                                      .live_count = level->count > 0 ? (uint64_t)level->count : 0,
                                                      .peak_bytes = (uint64_t)peak->bytes,
                                                      .peak_ns = gauges_ns(gauges, peak->ticks),
                                                      .allocations = level->allocations,
                                                      .frees = level->frees,
                                                      .failures = level->failures,
                                                      .total_bytes = level->total_bytes };
    }
}

/* Bring up to date what is lost. Returns whether it was not. */
static bool
gauges_fill_losses(struct tidei_gauges *gauges)
{
    uint64_t allocations = gauges->dropped_allocations, frees = gauges->dropped_frees;
    struct tidei_ring_header *header = gauges->file->header;
    struct tidei_gauge *page = &gauges->page;
    bool changed;

    for (unsigned cause = 0; cause < TIDEI_LOST_CAUSES; cause++) {
        struct tidei_lost *lost = tidei_ring_lost(header, cause);

        allocations += atomic_load_explicit(&lost->allocs, memory_order_relaxed);
        frees += atomic_load_explicit(&lost->frees, memory_order_relaxed);
    }
    changed = page->lost_allocations != allocations || page->lost_frees != frees;
    page->lost_allocations = allocations;
    page->lost_frees = frees;
    return changed;
}

/* The same of the pools. */
static bool
gauges_fill_pools(struct tidei_gauges *gauges)
{
    struct tidei_gauge_pool pools[TIDEI_GAUGE_POOLS];
    struct tidei_gauge *page = &gauges->page;
    uint32_t count, left_out;

    count = tidei_sampler_latest(gauges->sampler, pools, TIDEI_GAUGE_POOLS, &left_out);
    if (count == page->pool_count && left_out == page->pools_left_out &&
        memcmp(pools, page->pools, count * sizeof(*pools)) == 0)
        return false;
    memcpy(page->pools, pools, count * sizeof(*pools));
    page->pool_count = count;
    page->pools_left_out = left_out;
    return true;
}

/* Write the page if anything has `changed`: a program that does nothing has no page of its file written to the disk. */
static void
gauges_write(struct tidei_gauges *gauges, uint64_t merged_ns, bool changed)
{
    uint64_t now;

    changed |= gauges_fill_losses(gauges);
    changed |= gauges_fill_pools(gauges);
    if (!changed || gauges->no_memory)
        return;
    now = tidei_monotonic_ns();
    gauges_fill_layers(gauges);
    gauges->page.merged_ns = merged_ns;
    gauges->page.written_ns = now > gauges->page.epoch_ns ? now - gauges->page.epoch_ns : 0;
    tidei_gauge_write(gauges->file->gauge, &gauges->page);
}

void
tidei_gauges_merged(struct tidei_gauges *gauges, unsigned buffer, uint64_t from, uint64_t to, uint64_t watermark,
                    uint64_t late)
{
    double ns_per_tick;

    if (gauges == NULL || gauges->no_memory)
        return;
    ns_per_tick = tidei_ring_line(gauges->file->header)->ns_per_tick;
    for (uint64_t i = from; i < to; i++) {
        const struct tidei_record *record = tidei_buffer_record(gauges->file, buffer, i);

        if (gauges_is_event(record)) {
            gauges_show(gauges, record);
            gauges_count_duration(gauges, record, ns_per_tick);
        } else if (record->kind == TIDEI_RECORD_MARK) {
            gauges->page.marks++;
        } else if (record->kind == TIDEI_RECORD_LOSS) {
            gauges->dropped_allocations += record->address;
            gauges->dropped_frees += record->size;
        }
    }
    gauges->buffer = buffer;
    gauges->filled = to;
    gauges->page.late = late;
    gauges_write(gauges, gauges_ns(gauges, watermark), from < to);
}

/*
 * For each record of the slice that is a free: 1 + the row that it ends, or GAUGES_OF_LIVE and the live allocation; 0
 * where it ends nothing.
 */
static bool
gauges_find_owners(struct tidei_gauges *gauges, const struct tidei_pair *pair, uint64_t from, uint64_t to)
{
    if (!tidei_grow(&gauges->owners, &gauges->owner_capacity, 0, (size_t)(to - from)))
        return false;
    for (uint64_t i = 0; i < to - from; i++)
        gauges->owners[i] = 0;
    for (size_t i = 0; i < pair->row_count; i++) {
        uint64_t free = pair->rows[i].free;

        if (free >= from && free < to)
            gauges->owners[free - from] = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < pair->closing_count; i++) {
        uint64_t free = pair->closings[i].free;

        if (free >= from && free < to)
            gauges->owners[free - from] = GAUGES_OF_LIVE | pair->closings[i].live;
    }
    return true;
}

/* Add to what a tag has in a layer. */
static void
gauges_add_tag(struct tidei_gauges *gauges, uint32_t tag, uint16_t layer, int64_t bytes, int64_t count)
{
    uint32_t *place = tidei_map_find(&gauges->tag_places, tag, layer);

    if (place == NULL) {
        if (!tidei_grow(&gauges->tags, &gauges->tag_capacity, gauges->tag_count, 1) ||
            !tidei_map_add(&gauges->tag_places, tag, layer, (uint32_t)gauges->tag_count)) {
            gauges->no_memory = true;
            return;
        }
        gauges->tags[gauges->tag_count++] = (struct gauges_tag){ .tag = tag, .layer = layer };
        place = tidei_map_find(&gauges->tag_places, tag, layer);
    }
    gauges->tags[*place].bytes += bytes;
    gauges->tags[*place].count += count;
}

/* A slice that is being settled. */
struct gauges_slice {
    struct tidei_gauges *gauges;
    const struct tidei_pair *pair;
    bool plain; /* each free ends one allocation, of the size that it says */
};

/* A life has ended at a tick; the next allocation of its address, if any, is in row `next` - 1 at the latest. */
static void
gauges_end(struct gauges_slice *slice, uint16_t id, uint32_t tag, uint64_t size, uint64_t ticks, uint32_t next)
{
    struct gauges_layer *layer = gauges_layer(slice->gauges, id);
    uint64_t until = next != 0 ? tidei_pair_row_ticks(slice->pair, next - 1) : UINT64_MAX;

    if (layer == NULL)
        return;
    gauges_lower(&layer->settled, size, ticks < until ? ticks : until);
    gauges_add_tag(slice->gauges, tag, id, -(int64_t)size, -(int64_t)(size != 0));
}

static void
gauges_end_row(struct gauges_slice *slice, size_t row, uint64_t ticks)
{
    const struct tidei_row *ended = &slice->pair->rows[row];
    const struct tidei_record *record = tidei_buffer_record(slice->pair->file, slice->pair->buffer, ended->alloc);

    gauges_end(slice, record->layer, record->tag, record->size, ticks, ended->next);
}

static void
gauges_settle_free(struct gauges_slice *slice, const struct tidei_record *record, uint64_t index, uint32_t owner)
{
    const struct tidei_pair *pair = slice->pair;

    if (record->status != TIDE_OK)
        return;
    if (owner == 0) {
        slice->plain = false;
    } else if (owner & GAUGES_OF_LIVE) {
        const struct tidei_live *live = &pair->live[owner & ~GAUGES_OF_LIVE];

        slice->plain = slice->plain && live->until_ns == 0 && live->size == record->size;
        if (live->until_ns == 0) /* else it has ended where its address was allocated again */
            gauges_end(slice, live->layer, live->tag, live->size, gauges_begin(record), live->next_row);
    } else {
        const struct tidei_row *row = &pair->rows[owner - 1];

        slice->plain = slice->plain && row->alloc < index &&
                       tidei_buffer_record(pair->file, pair->buffer, row->alloc)->size == record->size;
        if (row->alloc < index)
            gauges_end_row(slice, owner - 1, gauges_begin(record));
    }
}

static void
gauges_settle_allocation(struct gauges_slice *slice, const struct tidei_record *record, uint64_t index, size_t row)
{
    struct gauges_layer *layer = gauges_layer(slice->gauges, record->layer);
    const struct tidei_row *made = &slice->pair->rows[row];
    bool freed =
        made->early == 0 && made->free != TIDEI_NO_FREE && ((made->free & TIDEI_FREE_EARLY) != 0 || made->free < index);

    if (layer == NULL)
        return;
    if (record->status != TIDE_OK) {
        layer->settled.failures++;
        return;
    }
    layer->settled.allocations++;
    layer->settled.total_bytes += record->size;
    if (made->free != TIDEI_NO_FREE && (made->free & TIDEI_FREE_EARLY) != 0)
        slice->plain = false;
    if (freed) {
        layer->settled.frees++;
        return;
    }
    gauges_raise(&layer->settled, record->size, tidei_pair_row_ticks(slice->pair, row));
    gauges_add_tag(slice->gauges, record->tag, record->layer, (int64_t)record->size, record->size != 0);
}

/* Lives that have ended where their address was allocated again, and whose frees have not come. */
static void
gauges_settle_succeeded(struct gauges_slice *slice)
{
    const struct tidei_pair *pair = slice->pair;

    for (size_t i = 0; i < pair->row_count; i++) {
        if (pair->rows[i].next != 0 && pair->rows[i].free == TIDEI_NO_FREE) {
            gauges_end_row(slice, i, UINT64_MAX);
            slice->plain = false;
        }
    }
    for (size_t i = 0; i < pair->closing_count; i++) {
        const struct tidei_live *live = &pair->live[pair->closings[i].live];

        if (pair->closings[i].free != TIDEI_NO_FREE)
            continue;
        gauges_end(slice, live->layer, live->tag, live->size, UINT64_MAX, live->next_row);
        slice->plain = false;
    }
}

/* Whether a tag comes before another on the page. */
static bool
gauges_tag_precedes(const struct gauges_tag *tag, const struct tidei_gauge_tag *other)
{
    if ((uint64_t)tag->bytes != other->live_bytes)
        return (uint64_t)tag->bytes > other->live_bytes;
    return tag->layer != other->layer_id ? tag->layer < other->layer_id : tag->tag < other->tag_id;
}

/* Choose the tags with the most live bytes, sorted. */
static void
gauges_choose_tags(struct tidei_gauges *gauges)
{
    struct tidei_gauge *page = &gauges->page;
    uint64_t bytes = 0;
    uint32_t count = 0, all = 0;

    for (size_t i = 0; i < gauges->tag_count; i++) {
        const struct gauges_tag *tag = &gauges->tags[i];
        uint32_t place = count;

        if (tag->count <= 0 || tag->bytes < 0)
            continue;
        all++;
        bytes += (uint64_t)tag->bytes;
        if (count == TIDEI_GAUGE_TAGS && !gauges_tag_precedes(tag, &page->tags[count - 1]))
            continue;
        if (count < TIDEI_GAUGE_TAGS)
            count++;
        else
            place--;
        for (; place > 0 && gauges_tag_precedes(tag, &page->tags[place - 1]); place--)
            page->tags[place] = page->tags[place - 1];
        page->tags[place] = (struct tidei_gauge_tag){ .layer_id = tag->layer,
                                                      .tag_id = tag->tag,
                                                      .live_bytes = (uint64_t)tag->bytes,
                                                      .live_count = (uint64_t)tag->count };
    }
    page->tag_count = count;
    page->tags_left_out = all - count;
    for (uint32_t i = 0; i < count; i++)
        bytes -= page->tags[i].live_bytes;
    page->tags_left_bytes = bytes;
}

/* Whether a layer goes on the page rather than another: by what is live, then the later one. */
static bool
gauges_layer_precedes(const struct tidei_gauges *gauges, size_t one, size_t other)
{
    int64_t bytes = gauges->layers[one].shown.bytes, others = gauges->layers[other].shown.bytes;

    return bytes != others ? bytes > others : one > other;
}

static int
gauges_by_place(const void *left, const void *right)
{
    size_t a = *(const size_t *)left, b = *(const size_t *)right;

    return (a > b) - (a < b);
}

/* Choose the layers of the page, where not all have room. */
static void
gauges_choose_layers(struct tidei_gauges *gauges)
{
    size_t count = 0;

    if (gauges->layer_count <= TIDEI_GAUGE_LAYERS)
        return;
    for (size_t i = 0; i < gauges->layer_count; i++) {
        size_t place = count;

        if (count == TIDEI_GAUGE_LAYERS && !gauges_layer_precedes(gauges, i, gauges->chosen[count - 1]))
            continue;
        if (count < TIDEI_GAUGE_LAYERS)
            count++;
        else
            place--;
        for (; place > 0 && gauges_layer_precedes(gauges, i, gauges->chosen[place - 1]); place--)
            gauges->chosen[place] = gauges->chosen[place - 1];
        gauges->chosen[place] = i;
    }
    qsort(gauges->chosen, count, sizeof(*gauges->chosen), gauges_by_place);
}

static bool
gauges_copy_level(struct gauges_level *to, const struct gauges_level *from)
{
    struct gauges_high *highs = to->highs;
    size_t capacity = to->high_capacity;

    if (!tidei_grow(&highs, &capacity, 0, from->high_count))
        return false;
    if (from->high_count != 0)
        memcpy(highs, from->highs, from->high_count * sizeof(*highs));
    *to = *from;
    to->highs = highs;
    to->high_capacity = capacity;
    return true;
}

/* Begin anew from what is settled, and count what was merged since. */
static void
gauges_show_again(struct tidei_gauges *gauges, unsigned settled)
{
    for (size_t i = 0; i < gauges->layer_count; i++)
        gauges->no_memory |= !gauges_copy_level(&gauges->layers[i].shown, &gauges->layers[i].settled);
    for (uint64_t i = 0; gauges->buffer != settled && i < gauges->filled; i++) {
        const struct tidei_record *record = tidei_buffer_record(gauges->file, gauges->buffer, i);

        if (gauges_is_event(record))
            gauges_show(gauges, record);
    }
    gauges->dirty = false;
}

void
tidei_gauges_paired(struct tidei_gauges *gauges, const struct tidei_pair *pair, uint64_t from, uint64_t to, bool all)
{
    struct gauges_slice slice = { .gauges = gauges, .pair = pair, .plain = true };
    size_t row = 0;

    if (gauges == NULL || gauges->no_memory)
        return;
    if (!gauges_find_owners(gauges, pair, from, to)) {
        gauges->no_memory = true;
        return;
    }
    for (uint64_t i = from; i < to; i++) {
        const struct tidei_record *record = tidei_buffer_record(gauges->file, pair->buffer, i);

        if (record->kind == TIDEI_RECORD_FREE)
            gauges_settle_free(&slice, record, i, gauges->owners[i - from]);
        else if (gauges_is_event(record))
            gauges_settle_allocation(&slice, record, i, row++);
        if (record->kind != TIDEI_RECORD_TEXT)
            gauges->page.tags_ns = record->ticks;
    }
    gauges_settle_succeeded(&slice);
    gauges->page.tags_ns = gauges_ns(gauges, gauges->page.tags_ns);
    gauges->dirty |= !slice.plain;
    if (gauges->dirty && all)
        gauges_show_again(gauges, pair->buffer);
    gauges_choose_tags(gauges);
    gauges_choose_layers(gauges);
    gauges_write(gauges, gauges->page.merged_ns, true);
}
