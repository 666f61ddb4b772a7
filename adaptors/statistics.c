/*
 * statistics: count the bytes and allocations outstanding, their peaks and their totals.
 *
 * Usage: statistics [(tags)]
 *     tags  also count for each tag: how much did each part of the program allocate
 *
 * Example: the memory that one phase of a program needs beyond what is already allocated:
 *     tide_statistics_push(statistics, NULL);
 *     phase();
 *     tide_statistics_pop(statistics, &phase_statistics);
 *
 * An allocation is added after upstream has succeeded, and subtracted before upstream takes it back. So a failed
 * attempt never shows, and `current` never exceeds what upstream has outstanding: the peak over a limit never passes
 * that limit.
 *
 * Every call takes effect at one moment between its begin and its end, in bytes and number at once. The figures follow
 * the order of these moments. src/account/ledger.h lets threads count apart from each other and keeps the peak exact.
 *
 * LIMITATIONS
 *  - Push and pop nest for the whole resource, not for each thread.
 *  - Bytes are as requested. A second `statistics` further down counts what alignment, bins and pools add.
 *  - It knows no pointers: it does not detect a deallocation with a wrong size.
 *  - Reading, push and pop stop all threads for some microseconds.
 *  - Counters by tag are for hundreds of tags: a thread that uses thousands has to search for its part of each.
 */
#include <stdlib.h>
#include <string.h>

#include <tidemark/statistics.h>

#include "src/account/ledger.h"
#include "src/context/tag.h"
#include "src/resource/kind.h"
#include "src/sync/inside.h"
#include "src/tables/address-shards.h"
#include "src/tables/grow.h"
#include "src/trace/ring/producer.h"

/* The outer counters, as they stood at the push. */
struct level {
    struct tide_statistics_figures figures;
    uint64_t serial;
    struct level *outer; /* owned */
};

/* Counters by tag number: chunk i has 2^(i + CHUNK_BITS) of them, so that none ever moves. */
#define CHUNK_BITS 6
#define CHUNKS     (32 - CHUNK_BITS + 1)

/*
 * The allocations under a path of tags (tide_tag_push), including all nested tags: what its children count, it counts
 * too.
 */
struct tag_counter {
    struct tidei_ledger ledger;
    struct tag_counter *parent; /* borrowed; NULL for an outermost tag */
    uint32_t tag;               /* 0: no tag */
};

typedef _Atomic(struct tag_counter *) tag_counter_slot;

/*
 * The counters by tag. The table of live addresses says under which tag each was allocated: there a free is subtracted,
 * whatever thread and tag it comes from.
 */
struct tag_counters {
    struct tidei_address_shards *live;          /* owned; addresses with tag + 1; NULL without `tags` */
    _Atomic(tag_counter_slot *) chunks[CHUNKS]; /* owned, with the counters in them; set once */
};

/* The ledger keeps the innermost counters. The fields behind it change only between the ledger's begin and end. */
struct statistics {
    struct tide_resource base;
    struct tidei_ledger ledger; /* its serial: 0 for the outermost counters, then one more for each push ever */
    struct level *outer;        /* owned */
    uint64_t pushes;
    struct tag_counters by_tag; /* only with `tags` */
    struct tide_statistics_options options;
};

/* Computed as unsigned: a sum past INT64_MAX, which only addresses without memory reach, wraps and is defined. */
static int64_t
counter_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Bytes are outstanding that were not counted, and have been all along. */
static void
counter_raise(struct tide_counter *counter, int64_t value)
{
    counter->current = counter_sum(counter->current, value);
    if (counter->current > counter->peak)
        counter->peak = counter->current;
}

/* Add the counts of a push to the counters around it. */
static void
counter_fold(struct tide_counter *counter, const struct tide_counter *inner)
{
    int64_t reached = counter_sum(counter->current, inner->peak);

    if (reached > counter->peak)
        counter->peak = reached;
    counter->current = counter_sum(counter->current, inner->current);
    counter->total = counter_sum(counter->total, inner->total);
}

static void
figures_from_ledger(const struct tidei_ledger_figures *figures, struct tide_statistics_figures *out)
{
    out->struct_size = sizeof(*out);
    out->bytes = (struct tide_counter){ (int64_t)figures->current.bytes, (int64_t)figures->mark.bytes,
                                        (int64_t)figures->total.bytes };
    out->count = (struct tide_counter){ (int64_t)figures->current.count, (int64_t)figures->mark.count,
                                        (int64_t)figures->total.count };
}

/* Stop all other threads until figures_end, and read a ledger. */
static void
figures_begin(struct tidei_ledger *ledger, struct tide_statistics_figures *out)
{
    struct tidei_ledger_figures figures;

    tidei_ledger_begin(ledger, &figures);
    figures_from_ledger(&figures, out);
}

static void
figures_end(struct tidei_ledger *ledger, const struct tide_statistics_figures *set)
{
    const struct tidei_ledger_figures figures = {
        .current = { (uint64_t)set->bytes.current, (uint64_t)set->count.current },
        .mark = { (uint64_t)set->bytes.peak, (uint64_t)set->count.peak },
        .total = { (uint64_t)set->bytes.total, (uint64_t)set->count.total },
    };

    tidei_ledger_end(ledger, &figures);
}

/* Add a block that is outstanding, and has been all along. */
static void
figures_raise(struct tide_statistics_figures *figures, size_t bytes)
{
    counter_raise(&figures->bytes, (int64_t)bytes);
    counter_raise(&figures->count, 1);
}

/* The chunk of `tag`, and its index there. */
static unsigned
counters_chunk(uint32_t tag, uint64_t *index)
{
    uint64_t number = (uint64_t)tag + (1u << CHUNK_BITS);
    unsigned bit = 63 - (unsigned)__builtin_clzll(number);

    *index = number - (UINT64_C(1) << bit);
    return bit - CHUNK_BITS;
}

/* The slot of `tag`; NULL where its chunk is missing and host memory is short. */
static tag_counter_slot *
counters_slot(struct tag_counters *counters, uint32_t tag)
{
    uint64_t index;
    unsigned at = counters_chunk(tag, &index);
    /* Acquire: pairs with the release below, and sees the zeros. */
    tag_counter_slot *chunk = atomic_load_explicit(&counters->chunks[at], memory_order_acquire);
    tag_counter_slot *made;

    if (chunk != NULL)
        return &chunk[index];
    made = calloc((size_t)1 << (at + CHUNK_BITS), sizeof(*made));
    if (made == NULL)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(&counters->chunks[at], &chunk, made, memory_order_acq_rel,
                                                memory_order_acquire))
        return &made[index];
    free(made);
    return &chunk[index];
}

static void
counter_free(struct tag_counter *counter)
{
    if (counter == NULL)
        return;
    tidei_ledger_fini(&counter->ledger);
    free(counter);
}

static struct tag_counter *
counter_new(uint32_t tag, struct tag_counter *parent)
{
    struct tag_counter *counter = aligned_alloc(_Alignof(struct tag_counter), sizeof(*counter));

    if (counter == NULL)
        return NULL;
    tidei_ledger_init(&counter->ledger, true, (struct tidei_amount){ 0, 0 }, UINT64_MAX);
    counter->parent = parent;
    counter->tag = tag;
    return counter;
}

static struct tag_counter *counter_get(struct tag_counters *counters, uint32_t tag);

/* Create the counter of a new tag, below that of its parent. Several threads may try at once; one succeeds. */
static struct tag_counter *
counter_make(struct tag_counters *counters, tag_counter_slot *slot, uint32_t tag)
{
    uint32_t parent_tag = tidei_tag_parent(tag);
    struct tag_counter *parent = parent_tag != 0 ? counter_get(counters, parent_tag) : NULL;
    struct tag_counter *found = NULL, *made;

    if (parent_tag != 0 && parent == NULL)
        return NULL;
    made = counter_new(tag, parent);
    if (made == NULL)
        return NULL;
    /* Release: pairs with the acquire in counter_get, and here with the acquire of a thread that comes second. */
    if (atomic_compare_exchange_strong_explicit(slot, &found, made, memory_order_acq_rel, memory_order_acquire))
        return made;
    counter_free(made);
    return found;
}

/* NULL where host memory is short. Recursion: as deep as tags nest, only on a tag's first use. */
static struct tag_counter *
counter_get(struct tag_counters *counters, uint32_t tag)
{
    tag_counter_slot *slot = counters_slot(counters, tag);
    struct tag_counter *counter;

    if (slot == NULL)
        return NULL;
    counter = atomic_load_explicit(slot, memory_order_acquire); /* acquire: pairs with the release in counter_make */
    return counter != NULL ? counter : counter_make(counters, slot, tag);
}

static void
tag_counters_free(struct tag_counters *counters)
{
    for (unsigned at = 0; at < CHUNKS; at++) {
        /* Relaxed, here and below: no other thread has access. */
        tag_counter_slot *chunk = atomic_load_explicit(&counters->chunks[at], memory_order_relaxed);

        for (size_t i = 0; chunk != NULL && i < (size_t)1 << (at + CHUNK_BITS); i++)
            counter_free(atomic_load_explicit(&chunk[i], memory_order_relaxed));
        free(chunk);
    }
    tidei_address_shards_destroy(counters->live);
}

/* Count an allocation under this thread's tag. On TIDE_ENOMEM, with the error text set, nothing is counted. */
static __attribute__((noinline)) enum tide_status
tag_counters_add(struct tag_counters *counters, const void *pointer, uint64_t bytes)
{
    struct tag_counter *counter = counter_get(counters, tidei_tag_now());
    struct tidei_ledger_answer answer;

    if (counter == NULL || !tidei_address_shards_put(counters->live, pointer, counter->tag + 1))
        return tide_error_set(TIDE_ENOMEM, "statistics: no host memory for counters by tag");
    for (; counter != NULL; counter = counter->parent)
        tidei_ledger_add(&counter->ledger, bytes, &answer);
    return TIDE_OK;
}

/* Subtract a block where it was counted. Returns that place, for put_back; 0 where the pointer is unknown. */
static __attribute__((noinline)) uint32_t
tag_counters_take_off(struct tag_counters *counters, const void *pointer, uint64_t bytes)
{
    uint32_t place = tidei_address_shards_take(counters->live, pointer);

    if (place == 0)
        return 0;
    for (struct tag_counter *counter = counter_get(counters, place - 1); counter != NULL; counter = counter->parent)
        tidei_ledger_take_off(&counter->ledger, bytes);
    return place;
}

/* Add the block again, as outstanding all along: upstream has refused to take it. */
static __attribute__((noinline)) void
tag_counters_put_back(struct tag_counters *counters, const void *pointer, uint64_t bytes, uint32_t place)
{
    /* The table has not shrunk since the address was in it: there is room, unless others have taken it. */
    if (place == 0 || !tidei_address_shards_put(counters->live, pointer, place))
        return;
    for (struct tag_counter *counter = counter_get(counters, place - 1); counter != NULL; counter = counter->parent) {
        struct tide_statistics_figures figures;

        figures_begin(&counter->ledger, &figures);
        figures_raise(&figures, bytes);
        figures_end(&counter->ledger, &figures);
    }
}

struct entry {
    uint32_t tag;
    struct tide_statistics_figures figures;
};

static int
entry_compare(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    if (a->figures.bytes.peak != b->figures.bytes.peak)
        return a->figures.bytes.peak < b->figures.bytes.peak ? 1 : -1;
    return (a->tag > b->tag) - (a->tag < b->tag);
}

/* Read all figures, each set at one moment, into *entries (owned by the caller). False where host memory is short. */
static bool
counters_collect(struct tag_counters *counters, struct entry **entries, size_t *count)
{
    size_t capacity = 0;

    *entries = NULL;
    *count = 0;
    for (uint64_t tag = 0; tag <= UINT32_MAX; tag++) {
        uint64_t index;
        unsigned at = counters_chunk((uint32_t)tag, &index);
        /* Acquire, here and below: pairs with the release of the creator. */
        tag_counter_slot *chunk = atomic_load_explicit(&counters->chunks[at], memory_order_acquire);
        struct tag_counter *counter = chunk != NULL ? atomic_load_explicit(&chunk[index], memory_order_acquire) : NULL;
        struct tidei_ledger_figures figures;

        if (chunk == NULL) { /* go on with the next one */
            tag = (UINT64_C(2) << (at + CHUNK_BITS)) - (1u << CHUNK_BITS) - 1;
            continue;
        }
        if (counter == NULL)
            continue;
        if (!tidei_grow(entries, &capacity, *count, 1))
            return false;
        tidei_ledger_read(&counter->ledger, &figures);
        (*entries)[*count].tag = counter->tag;
        figures_from_ledger(&figures, &(*entries)[(*count)++].figures);
    }
    return true;
}

/* Call `function` for each path, the highest peak first. Errors: TIDE_ENOMEM, with the error text set. */
static enum tide_status
tag_counters_report(struct tag_counters *counters, tide_statistics_function function, void *context)
{
    enum tide_status status = TIDE_OK;
    struct entry *entries;
    size_t count;

    if (!counters_collect(counters, &entries, &count))
        status = tide_error_set(TIDE_ENOMEM, "statistics: no host memory for a report");
    if (status == TIDE_OK && count > 0)
        qsort(entries, count, sizeof(*entries), entry_compare);
    for (size_t i = 0; status == TIDE_OK && i < count; i++) {
        char *path = tidei_tag_path(entries[i].tag);

        if (path == NULL)
            status = tide_error_set(TIDE_ENOMEM, "statistics: no host memory for a report");
        else
            TIDEI_OUTSIDE(function(context, path, &entries[i].figures));
        free(path);
    }
    free(entries);
    return status;
}

static __attribute__((noinline)) enum tide_status
statistics_allocate_tagged(struct statistics *statistics, size_t bytes, size_t alignment, tide_stream stream,
                           void **out)
{
    struct tide_resource *upstream = statistics->base.upstream;
    enum tide_status status = tidei_allocate(upstream, bytes, alignment, stream, out);
    struct tidei_ledger_answer answer;

    if (status != TIDE_OK)
        return status;
    status = tag_counters_add(&statistics->by_tag, *out, bytes);
    if (status != TIDE_OK) {
        tidei_deallocate(upstream, *out, bytes, alignment, stream);
        *out = NULL;
        return tidei_refused(&statistics->base, status);
    }
    tidei_ledger_add(&statistics->ledger, bytes, &answer);
    return TIDE_OK;
}

/* The account has no lease for the allocation. */
static __attribute__((noinline)) enum tide_status
statistics_add(struct statistics *statistics, size_t bytes)
{
    struct tidei_ledger_answer answer;

    tidei_ledger_add(&statistics->ledger, bytes, &answer);
    return TIDE_OK;
}

/* Apart from the above, which have more to keep over their calls, and would save more registers here. */
static enum tide_status
statistics_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct statistics *statistics = (struct statistics *)self;
    enum tide_status status;

    if (__builtin_expect(statistics->by_tag.live != NULL, 0))
        return statistics_allocate_tagged(statistics, bytes, alignment, stream, out);
    status = tidei_allocate(self->upstream, bytes, alignment, stream, out);
    if (__builtin_expect(status != TIDE_OK, 0))
        return status;
    if (__builtin_expect(!tidei_ledger_add_quickly(&statistics->ledger, bytes), 0))
        return statistics_add(statistics, bytes);
    return TIDE_OK;
}

/*
 * Add a block again that upstream refused to take back: to the counters of serial `serial` from which it was
 * subtracted, or, where these were popped since, to those that include them. The memory was outstanding all along, so
 * the sum with later allocations is a height that was reached, and may raise the peak. It is no new allocation, so the
 * total stays.
 */
static __attribute__((noinline)) void
statistics_put_back(struct statistics *statistics, size_t bytes, uint64_t serial)
{
    struct tide_statistics_figures innermost, *figures = &innermost;

    figures_begin(&statistics->ledger, &innermost);
    if (statistics->ledger.serial > serial) {
        struct level *level = statistics->outer;

        while (level->serial > serial)
            level = level->outer;
        figures = &level->figures;
    }
    figures_raise(figures, bytes);
    figures_end(&statistics->ledger, &innermost);
}

/* A free that upstream has refused. */
static __attribute__((noinline)) enum tide_status
statistics_refused(struct statistics *statistics, size_t bytes, uint64_t serial, enum tide_status status)
{
    statistics_put_back(statistics, bytes, serial);
    return status;
}

static __attribute__((noinline)) enum tide_status
statistics_deallocate_otherwise(struct statistics *statistics, void *pointer, size_t bytes, size_t alignment,
                                tide_stream stream)
{
    uint64_t serial = tidei_ledger_take_off(&statistics->ledger, bytes);
    enum tide_status status;
    uint32_t place = 0;

    if (statistics->by_tag.live != NULL)
        place = tag_counters_take_off(&statistics->by_tag, pointer, bytes);
    status = tidei_deallocate(statistics->base.upstream, pointer, bytes, alignment, stream);
    if (status == TIDE_OK)
        return TIDE_OK;
    statistics_put_back(statistics, bytes, serial);
    if (statistics->by_tag.live != NULL)
        tag_counters_put_back(&statistics->by_tag, pointer, bytes, place);
    return status;
}

static enum tide_status
statistics_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct statistics *statistics = (struct statistics *)self;
    enum tide_status status;
    uint64_t serial = 0;

    if (__builtin_expect(statistics->by_tag.live != NULL, 0) ||
        __builtin_expect(!tidei_ledger_take_off_quickly(&statistics->ledger, bytes, &serial), 0))
        return statistics_deallocate_otherwise(statistics, pointer, bytes, alignment, stream);
    status = tidei_deallocate(self->upstream, pointer, bytes, alignment, stream);
    if (__builtin_expect(status != TIDE_OK, 0))
        return statistics_refused(statistics, bytes, serial, status);
    return TIDE_OK;
}

static void
statistics_fini(struct tide_resource *self)
{
    struct statistics *statistics = (struct statistics *)self;
    struct level *level = statistics->outer;

    while (level != NULL) {
        struct level *outer = level->outer;

        free(level);
        level = outer;
    }
    tag_counters_free(&statistics->by_tag);
    tidei_ledger_fini(&statistics->ledger);
}

static enum tide_status
statistics_init(struct tide_resource *self, size_t *fault)
{
    struct statistics *statistics = (struct statistics *)self;
    enum tide_status status = TIDE_OK;

    (void)fault;
    tidei_ledger_init(&statistics->ledger, true, (struct tidei_amount){ 0, 0 }, UINT64_MAX);
    if (statistics->options.by_tag)
        status = tidei_address_shards_create("statistics", &statistics->by_tag.live);
    if (status != TIDE_OK)
        tidei_ledger_fini(&statistics->ledger);
    tidei_resource_set_quick(self);
    return status;
}

static const struct tidei_argument statistics_arguments[] = {
    TIDEI_FLAG("tags", struct tide_statistics_options, by_tag),
};

const struct tidei_kind tidei_statistics_kind = {
    .ops = {
        TIDEI_KIND_OPS("statistics"),
        .allocate = statistics_allocate,
        .deallocate = statistics_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(statistics_arguments),
    .options_size = offsetof(struct tide_statistics_options, reserved),
    TIDEI_KIND_STRUCT(struct statistics),
    .init = statistics_init,
    .fini = statistics_fini,
};

enum tide_status
tide_statistics_create(struct tide_resource *upstream, const struct tide_statistics_options *options,
                       struct tide_resource **out)
{
    return tidei_kind_create(&tidei_statistics_kind, upstream, options, out);
}

enum tide_status
tide_statistics_read(struct tide_resource *resource, struct tide_statistics_figures *out)
{
    TIDEI_INSIDE(resource);
    enum tide_status status = tidei_kind_check_figures(&tidei_statistics_kind, resource, out);
    struct tide_statistics_figures figures;
    struct tidei_ledger_figures counted;

    if (status != TIDE_OK)
        return status;
    tidei_ledger_read(&((struct statistics *)resource)->ledger, &counted);
    figures_from_ledger(&counted, &figures);
    tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}

/* `out` may be NULL. */
static enum tide_status
statistics_check(struct tide_resource *resource, struct tide_statistics_figures *out)
{
    return out != NULL ? tidei_kind_check_figures(&tidei_statistics_kind, resource, out)
                       : tidei_kind_check(&tidei_statistics_kind, resource);
}

enum tide_status
tide_statistics_push(struct tide_resource *resource, struct tide_statistics_figures *out)
{
    TIDEI_INSIDE(resource);
    static const struct tide_statistics_figures zeros = { TIDE_FIGURES(zeros) };
    enum tide_status status = statistics_check(resource, out);
    struct statistics *statistics = (struct statistics *)resource;
    struct tide_statistics_figures figures;
    struct level *level;

    if (status != TIDE_OK)
        return status;
    level = malloc(sizeof(*level));
    if (level == NULL)
        return tide_error_set(TIDE_ENOMEM, "statistics: no host memory for %zu B", sizeof(*level));
    figures_begin(&statistics->ledger, &figures);
    level->figures = figures;
    level->serial = statistics->ledger.serial;
    level->outer = statistics->outer;
    statistics->outer = level;
    statistics->ledger.serial = ++statistics->pushes;
    figures_end(&statistics->ledger, &zeros);
    if (out != NULL)
        tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}

enum tide_status
tide_statistics_pop(struct tide_resource *resource, struct tide_statistics_figures *out)
{
    TIDEI_INSIDE(resource);
    enum tide_status status = statistics_check(resource, out);
    struct statistics *statistics = (struct statistics *)resource;
    struct tide_statistics_figures inner, figures;
    struct level *level;

    if (status != TIDE_OK)
        return status;
    figures_begin(&statistics->ledger, &inner);
    figures = inner;
    level = statistics->outer;
    if (level != NULL) {
        figures = level->figures;
        statistics->ledger.serial = level->serial;
        statistics->outer = level->outer;
        counter_fold(&figures.bytes, &inner.bytes);
        counter_fold(&figures.count, &inner.count);
    }
    figures_end(&statistics->ledger, &figures);
    if (level == NULL)
        return tide_error_set(TIDE_EINVAL, "statistics: pop with nothing pushed");
    free(level);
    if (out != NULL)
        tidei_figures_copy(out, &inner, sizeof(inner));
    return TIDE_OK;
}

enum tide_status
tide_statistics_report(struct tide_resource *resource, tide_statistics_function function, void *context)
{
    TIDEI_INSIDE(resource);
    struct statistics *statistics = (struct statistics *)resource;

    if (tidei_kind_check(&tidei_statistics_kind, resource) != TIDE_OK)
        return TIDE_EINVAL;
    if (function == NULL)
        return tide_error_set(TIDE_EINVAL, "statistics: no function to report to");
    if (statistics->by_tag.live == NULL)
        return tide_error_set(TIDE_EINVAL, "statistics: no counters by tag were asked for, expected tags=true");
    return tag_counters_report(&statistics->by_tag, function, context);
}

static void
report_line(void *context, const char *path, const struct tide_statistics_figures *figures)
{
    tide_text_format(context, "%12lld %20lld %20lld %20lld  %s\n", (long long)figures->count.total,
                     (long long)figures->bytes.peak, (long long)figures->bytes.total, (long long)figures->bytes.current,
                     path[0] != '\0' ? path : "(no tag)");
}

enum tide_status
tide_statistics_report_text(struct tide_resource *resource, char *text, size_t capacity, size_t *needed)
{
    TIDEI_INSIDE(resource);
    struct tide_text report = { text, text != NULL ? capacity : 0, 0 };
    enum tide_status status;

    if (report.capacity > 0)
        text[0] = '\0';
    tide_text_format(&report, "%12s %20s %20s %20s  %s\n", "allocations", "peak bytes", "total bytes", "current bytes",
                     "tag");
    status = tide_statistics_report(resource, report_line, &report);
    if (status != TIDE_OK) {
        report.length = 0;
        if (report.capacity > 0)
            text[0] = '\0';
    }
    if (needed != NULL)
        *needed = report.length;
    return status;
}
