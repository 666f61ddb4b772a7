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
    free(anchors->order);
    free(anchors->ranks);
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
    anchors->life_count = anchors->ordered = anchors->slot_count = 0;
    anchors->largest = 0;
    anchors->ranked = 0;
    for (size_t i = 0; i < anchors->count; i++)
        anchors->list[i].rank = (struct anchor_rank){ 0, 0 };
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

/* The passed instants in a life. */
struct anchor_span {
    size_t from, to;
};

static struct anchor_span
anchors_span(const struct anchors *anchors, const struct kept_life *life)
{
    struct anchor_span span = { anchors_behind(anchors, life->event), anchors->passed };
    size_t low = span.from;

    while (life->lived != 0 && low < span.to) {
        size_t middle = low + (span.to - low) / 2;

        if ((uint64_t)anchors->list[middle].ns - (uint64_t)life->alloc_ns < life->lived)
            low = middle + 1;
        else
            span.to = middle;
    }
    return span;
}

static struct anchor_rank
anchors_rank(int64_t allocation_id, uint64_t size)
{
    uint64_t sample = (uint64_t)allocation_id * UINT64_C(0x9e3779b97f4a7c15);

    return (struct anchor_rank){ size, sample ^ sample >> 32 };
}

static inline bool
anchors_is_lower(const struct anchor_rank *one, const struct anchor_rank *other)
{
    return one->size != other->size ? one->size < other->size : one->sample < other->sample;
}

/* Make the tree: a node's children are at twice its place, the leaves at `ranked` and behind. False: no memory. */
static bool
anchors_plant(struct anchors *anchors)
{
    size_t count = anchors->passed;
    struct anchor_rank *tree = realloc(anchors->ranks, (2 * count + 1) * sizeof(*tree));

    if (tree == NULL)
        return false;
    anchors->ranks = tree;
    anchors->ranked = count;
    for (size_t i = 0; i < count; i++)
        tree[count + i] = anchors->list[i].rank;
    for (size_t i = count; i-- > 1;)
        tree[i] = anchors_is_lower(&tree[2 * i], &tree[2 * i + 1]) ? tree[2 * i] : tree[2 * i + 1];
    return true;
}

/* Whether the life ranks so high that it may be kept for one of the instants in it. */
static bool
anchors_takes(const struct anchors *anchors, const struct kept_rank *kept)
{
    bool taken = anchors->largest == 0 || kept->to > anchors->ranked;

    for (size_t from = kept->from + anchors->ranked, to = kept->to + anchors->ranked; from < to && !taken;
         from /= 2, to /= 2) {
        if (from % 2 == 1)
            taken = !anchors_is_lower(&kept->rank, &anchors->ranks[from++]);
        if (to % 2 == 1 && !taken)
            taken = !anchors_is_lower(&kept->rank, &anchors->ranks[--to]);
    }
    return taken;
}

/* Leave out every second instant: of the spread alone, if that is half of all or more. */
static void
anchors_halve(struct anchors *anchors)
{
    uint32_t *before = malloc((anchors->count + 1) * sizeof(*before)); /* the instants before each that are left */
    size_t spread = 0, count = 0, seen = 0;
    bool all;

    anchors->failed = anchors->failed || before == NULL;
    if (anchors->failed)
        return;
    for (size_t i = 0; i < anchors->count; i++)
        spread += anchors->list[i].why == ANCHOR_SPREAD;
    all = spread * 2 < anchors->count;
    for (size_t i = 0; i < anchors->count; i++) {
        const struct anchor *anchor = &anchors->list[i];
        bool may_go = anchor->why == ANCHOR_SPREAD || (all && (anchor->why & (ANCHOR_PEAK | ANCHOR_END)) == 0);

        before[i] = (uint32_t)count;
        if (!may_go || seen++ % 2 != 0)
            anchors->list[count++] = *anchor;
    }
    before[anchors->count] = (uint32_t)count;
    for (size_t i = 0; i < anchors->life_count; i++) {
        anchors->order[i].from = before[anchors->order[i].from];
        anchors->order[i].to = before[anchors->order[i].to];
    }
    anchors->passed = before[anchors->passed];
    anchors->count = count;
    anchors->last_event = anchors->passed > 0 ? anchors->list[anchors->passed - 1].event : 0;
    free(before);
}

/* The highest rank first. */
static int
anchors_compare_ranks(const void *a, const void *b)
{
    const struct kept_rank *one = a, *other = b;

    return anchors_is_lower(&one->rank, &other->rank) - anchors_is_lower(&other->rank, &one->rank);
}

/* A byte of a rank: those of the size are counted from ANCHORS_SAMPLE_BYTES on, behind the highest of the sample. */
#define ANCHORS_SAMPLE_BYTES 2
#define ANCHORS_SAMPLE_SHIFT (64 - 8 * ANCHORS_SAMPLE_BYTES)

static inline unsigned
anchors_byte(const struct anchor_rank *rank, unsigned byte)
{
    return byte < ANCHORS_SAMPLE_BYTES ? rank->sample >> (ANCHORS_SAMPLE_SHIFT + 8 * byte) & 255
                                       : rank->size >> 8 * (byte - ANCHORS_SAMPLE_BYTES) & 255;
}

/* Sort stably by one byte, the largest first. */
static void
anchors_sort_byte(const struct kept_rank *from, struct kept_rank *to, size_t count, unsigned byte)
{
    size_t places[257] = { 0 };

    for (size_t i = 0; i < count; i++)
        places[256 - anchors_byte(&from[i].rank, byte)]++;
    for (size_t i = 1; i < 257; i++)
        places[i] += places[i - 1];
    for (size_t i = 0; i < count; i++)
        to[places[255 - anchors_byte(&from[i].rank, byte)]++] = from[i];
}

/* Whether all bytes by which anchors_sort_ranks sorts are the same. */
static inline bool
anchors_is_near(const struct anchor_rank *one, const struct anchor_rank *other)
{
    return one->size == other->size && (one->sample ^ other->sample) >> ANCHORS_SAMPLE_SHIFT == 0;
}

/*
 * Sort by rank: by the highest bytes of the sample, then by the bytes of the size, as far as they differ; then the few
 * that are alike in these. Returns the array with them.
 */
static struct kept_rank *
anchors_sort_ranks(struct kept_rank *ranks, struct kept_rank *spare, size_t count)
{
    struct anchor_rank differs = { 0, 0 };

    for (size_t i = 1; i < count; i++) {
        differs.size |= ranks[i].rank.size ^ ranks[0].rank.size;
        differs.sample |= ranks[i].rank.sample ^ ranks[0].rank.sample;
    }
    for (unsigned byte = 0; byte < ANCHORS_SAMPLE_BYTES + sizeof(uint64_t); byte++) {
        struct kept_rank *sorted = spare;

        if (anchors_byte(&differs, byte) == 0)
            continue;
        anchors_sort_byte(ranks, sorted, count, byte);
        spare = ranks;
        ranks = sorted;
    }
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && anchors_is_near(&ranks[to].rank, &ranks[from].rank);)
            to++;
        if (to - from > 1)
            qsort(ranks + from, to - from, sizeof(*ranks), anchors_compare_ranks);
    }
    return ranks;
}

/* Sort the new lives by rank, and merge them with the others. */
static void
anchors_order(struct anchors *anchors)
{
    size_t fresh = anchors->life_count - anchors->ordered, old = anchors->ordered, to = anchors->life_count;
    struct kept_rank *order = anchors->order, *room = malloc((fresh + 1) * sizeof(*room)), *sorted;

    anchors->failed = anchors->failed || room == NULL;
    if (room == NULL || fresh == 0) {
        free(room);
        return;
    }
    sorted = anchors_sort_ranks(order + old, room, fresh);
    if (sorted != room)
        memcpy(room, sorted, fresh * sizeof(*room));
    sorted = room; /* the merge overwrites the others */
    while (fresh > 0) {
        bool is_old = old > 0 && anchors_compare_ranks(&order[old - 1], &sorted[fresh - 1]) > 0;

        order[--to] = is_old ? order[--old] : sorted[--fresh];
    }
    anchors->ordered = anchors->life_count;
    free(room);
}

/* The first instant from `at` on that has not all it wants: `next` has a later one for each that has. */
static size_t
anchors_wanting(size_t *next, size_t at)
{
    while (next[at] != at) {
        next[at] = next[next[at]];
        at = next[at];
    }
    return at;
}

/* Give the life to each of its instants that has room. Returns whether there was one. */
static bool
anchors_give(struct anchors *anchors, const struct kept_rank *kept, size_t *next, size_t *held)
{
    size_t at = anchors_wanting(next, kept->from);
    bool given = at < kept->to;

    for (; at < kept->to; at = anchors_wanting(next, at)) {
        if (++held[at] == anchors->largest) {
            anchors->list[at].rank = kept->rank;
            next[at] = at + 1;
        } else {
            at++;
        }
    }
    return given;
}

/*
 * The slots that no life has, in their order: new lives then go through memory from its begin to its end. In the order
 * in which they became free, a line and a page of memory had to be fetched for each life.
 */
static void
anchors_sort_free(struct anchors *anchors)
{
    size_t at = anchors->life_count;
    bool *taken = calloc(anchors->slot_count + 1, sizeof(*taken));

    anchors->failed = anchors->failed || taken == NULL;
    for (size_t i = 0; i < anchors->life_count && !anchors->failed; i++)
        taken[anchors->order[i].slot] = true;
    for (size_t slot = 0; slot < anchors->slot_count && !anchors->failed; slot++) {
        if (!taken[slot])
            anchors->order[at++].slot = (uint32_t)slot;
    }
    free(taken);
}

/* Keep those that are among the largest at an instant: the highest rank first goes to each instant that has room. */
static void
anchors_select(struct anchors *anchors)
{
    size_t instants = anchors->passed, count = 0;
    size_t *next = malloc((instants + 1) * sizeof(*next)), *held = calloc(instants + 1, sizeof(*held));

    anchors->failed = anchors->failed || next == NULL || held == NULL;
    for (size_t i = 0; i <= instants && !anchors->failed; i++)
        next[i] = i;
    anchors_order(anchors);
    for (size_t i = 0; i < anchors->life_count && !anchors->failed; i++) {
        struct kept_rank kept = anchors->order[i];

        if (!anchors_give(anchors, &kept, next, held))
            continue;
        anchors->order[count++] = kept;
    }
    if (!anchors->failed) {
        anchors->life_count = anchors->ordered = count;
        anchors_sort_free(anchors);
    }
    free(next);
    free(held);
    anchors->failed = anchors->failed || !anchors_plant(anchors);
}

/* Keep no more than `lives_most`. */
static void
anchors_thin(struct anchors *anchors)
{
    if (anchors->largest == 0)
        anchors->largest = ANCHORS_LARGEST;
    anchors_select(anchors);
    while (anchors->life_count > anchors->lives_most && !anchors->failed) {
        bool may_halve = anchors->count >= 2 * ANCHORS_FEWEST;

        /* Half of the instants, then half of the largest of each, and so on. */
        if (may_halve && anchors->count * ANCHORS_LARGEST >= anchors->chosen * anchors->largest)
            anchors_halve(anchors);
        else
            anchors->largest /= 2;
        anchors_select(anchors);
    }
}

/* A slot for a life, which becomes the last of the new ones. NULL: no memory. */
static struct kept_life *
anchors_add_life(struct anchors *anchors, struct kept_rank kept)
{
    size_t at = anchors->life_count;

    if (at == anchors->slot_count) {
        if (!tidei_grow(&anchors->lives, &anchors->life_capacity, at, 1) ||
            !tidei_grow(&anchors->order, &anchors->order_capacity, at, 1))
            return NULL;
        anchors->order[anchors->slot_count++].slot = (uint32_t)at;
    }
    kept.slot = anchors->order[at].slot;
    anchors->order[at] = kept;
    anchors->life_count++;
    return &anchors->lives[kept.slot];
}

void
anchors_keep(struct anchors *anchors, const struct scan_life *life)
{
    struct kept_life *slot;
    struct kept_rank place;

    if (life->event >= anchors->last_event || scan_live_count(life) == 0 || anchors->failed)
        return;
    /* It has just ended, if ever: the instants in it go on to the last one that was passed. */
    place = (struct kept_rank){
        .rank = anchors_rank(life->allocation_id, life->size),
        .from = (uint32_t)anchors_behind(anchors, life->event),
        .to = (uint32_t)anchors->passed,
    };
    if (!anchors_takes(anchors, &place))
        return;
    slot = anchors_add_life(anchors, place);
    if (slot == NULL) {
        anchors->failed = true;
        return;
    }
    *slot = (struct kept_life){
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
    /* Each choice looks at all that are kept, so some more are let in before. */
    if (anchors->life_count > anchors->lives_most + anchors->lives_most / 2)
        anchors_thin(anchors);
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
        struct anchor_span span = anchors_span(anchors, life);

        anchors->list[span.from].kept_bytes += life->size;
        anchors->list[span.from].kept_count++;
        if (span.to < anchors->count) {
            anchors->list[span.to].kept_bytes -= life->size;
            anchors->list[span.to].kept_count--;
        }
    }
    for (size_t i = 0; i < anchors->count; i++) {
        struct anchor *anchor = &anchors->list[i];

        anchor->kept_bytes = bytes += anchor->kept_bytes;
        anchor->kept_count = count += anchor->kept_count;
        /* Of the lowest rank's size some may lack. */
        anchor->least_bytes = count < anchor->count ? anchor->rank.size + 1 : 0;
    }
}

/* Move the lives that are left together, in the order of allocation. */
static void
anchors_gather(struct anchors *anchors)
{
    size_t count = 0;

    for (size_t i = anchors->life_count; i < anchors->slot_count; i++)
        anchors->lives[anchors->order[i].slot].size = 0; /* no kept life has 0 bytes */
    for (size_t i = 0; i < anchors->slot_count; i++) {
        if (anchors->lives[i].size != 0)
            anchors->lives[count++] = anchors->lives[i];
    }
    if (count > 0)
        qsort(anchors->lives, count, sizeof(*anchors->lives), anchors_compare_lives);
}

void
anchors_end(struct anchors *anchors)
{
    if (anchors->largest > 0 || anchors->life_count > anchors->lives_most)
        anchors_thin(anchors);
    anchors_gather(anchors);
    anchors_count_kept(anchors);
}

void
anchors_shrink(struct anchors *anchors, size_t lives_most)
{
    anchors->lives_most = lives_most;
    anchors->ordered = 0;
    anchors->slot_count = anchors->life_count;
    for (size_t i = 0; i < anchors->life_count; i++) {
        const struct kept_life *life = &anchors->lives[i];
        struct anchor_span span = anchors_span(anchors, life);

        anchors->order[i] = (struct kept_rank){
            .rank = anchors_rank(life->allocation_id, life->size),
            .slot = (uint32_t)i,
            .from = (uint32_t)span.from,
            .to = (uint32_t)span.to,
        };
    }
    anchors_end(anchors);
}
