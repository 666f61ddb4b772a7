/* Counters by tag. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/address-shards.h"
#include "src/account/ledger.h"
#include "src/resource/resource.h"
#include "adaptors/statistics/tag-counters.h"
#include "src/tables/grow.h"
#include "src/trace/ring/producer.h"
#include "src/context/tag.h"

/* Counters by tag number: chunk i has 2^(i + CHUNK_BITS) of them, so that none ever moves. */
#define CHUNK_BITS 6
#define CHUNKS     (32 - CHUNK_BITS + 1)

struct tag_counter {
    struct tidei_ledger ledger;
    struct tag_counter *parent; /* borrowed; NULL for an outermost tag */
    uint32_t tag;               /* 0: no tag */
};

typedef _Atomic(struct tag_counter *) tag_counter_slot;

struct tidei_tag_counters {
    _Atomic(tag_counter_slot *) chunks[CHUNKS]; /* owned, with the counters in them; set once */
    struct tidei_address_shards *live;          /* owned; addresses with tag + 1 */
};

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
counters_slot(struct tidei_tag_counters *counters, uint32_t tag)
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

static struct tag_counter *counter_get(struct tidei_tag_counters *counters, uint32_t tag);

/* Create the counter of a new tag, below that of its parent. Several threads may try at once; one succeeds. */
static struct tag_counter *
counter_make(struct tidei_tag_counters *counters, tag_counter_slot *slot, uint32_t tag)
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
counter_get(struct tidei_tag_counters *counters, uint32_t tag)
{
    tag_counter_slot *slot = counters_slot(counters, tag);
    struct tag_counter *counter;

    if (slot == NULL)
        return NULL;
    counter = atomic_load_explicit(slot, memory_order_acquire); /* acquire: pairs with the release in counter_make */
    return counter != NULL ? counter : counter_make(counters, slot, tag);
}

enum tide_status
tidei_tag_counters_create(struct tidei_tag_counters **out)
{
    struct tidei_tag_counters *counters = calloc(1, sizeof(*counters));
    enum tide_status status;

    *out = NULL;
    if (counters == NULL)
        return tide_error_set(TIDE_ENOMEM, "statistics: no host memory for %zu B", sizeof(*counters));
    status = tidei_address_shards_create(&counters->live);
    if (status != TIDE_OK) {
        free(counters);
        return tide_error_set(status, "statistics: %s", tide_error_text());
    }
    *out = counters;
    return TIDE_OK;
}

void
tidei_tag_counters_destroy(struct tidei_tag_counters *counters)
{
    if (counters == NULL)
        return;
    for (unsigned at = 0; at < CHUNKS; at++) {
        /* Relaxed, here and below: no other thread has access. */
        tag_counter_slot *chunk = atomic_load_explicit(&counters->chunks[at], memory_order_relaxed);

        for (size_t i = 0; chunk != NULL && i < (size_t)1 << (at + CHUNK_BITS); i++)
            counter_free(atomic_load_explicit(&chunk[i], memory_order_relaxed));
        free(chunk);
    }
    tidei_address_shards_destroy(counters->live);
    free(counters);
}

enum tide_status
tidei_tag_counters_add(struct tidei_tag_counters *counters, const void *pointer, uint64_t bytes)
{
    struct tag_counter *counter = counter_get(counters, tidei_thread->tag);
    struct tidei_ledger_answer answer;

    if (counter == NULL || !tidei_address_shards_put(counters->live, pointer, counter->tag + 1))
        return tide_error_set(TIDE_ENOMEM, "statistics: no host memory for counters by tag");
    for (; counter != NULL; counter = counter->parent)
        tidei_ledger_add(&counter->ledger, bytes, &answer);
    return TIDE_OK;
}

uint32_t
tidei_tag_counters_take_off(struct tidei_tag_counters *counters, const void *pointer, uint64_t bytes)
{
    uint32_t place = tidei_address_shards_take(counters->live, pointer);

    if (place == 0)
        return 0;
    for (struct tag_counter *counter = counter_get(counters, place - 1); counter != NULL; counter = counter->parent)
        tidei_ledger_take_off(&counter->ledger, bytes);
    return place;
}

/* Bytes are outstanding that the ledger lacks, and have been all along. */
static void
counter_raise(struct tag_counter *counter, uint64_t bytes)
{
    struct tidei_ledger_figures figures;

    tidei_ledger_begin(&counter->ledger, &figures);
    figures.current.bytes += bytes;
    figures.current.count++;
    if ((int64_t)figures.current.bytes > (int64_t)figures.mark.bytes)
        figures.mark.bytes = figures.current.bytes;
    if ((int64_t)figures.current.count > (int64_t)figures.mark.count)
        figures.mark.count = figures.current.count;
    tidei_ledger_end(&counter->ledger, &figures);
}

void
tidei_tag_counters_put_back(struct tidei_tag_counters *counters, const void *pointer, uint64_t bytes, uint32_t place)
{
    /* The table has not shrunk since the address was in it: there is room, unless others have taken it. */
    if (place == 0 || !tidei_address_shards_put(counters->live, pointer, place))
        return;
    for (struct tag_counter *counter = counter_get(counters, place - 1); counter != NULL; counter = counter->parent)
        counter_raise(counter, bytes);
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

static struct tide_counter
entry_counter(uint64_t current, uint64_t mark, uint64_t total)
{
    return (struct tide_counter){ (int64_t)current, (int64_t)mark, (int64_t)total };
}

/* Read all figures, each set at one moment, into *entries (owned by the caller). False where host memory is short. */
static bool
counters_collect(struct tidei_tag_counters *counters, struct entry **entries, size_t *count)
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
        (*entries)[(*count)++] = (struct entry){
            .tag = counter->tag,
            .figures = { .bytes = entry_counter(figures.current.bytes, figures.mark.bytes, figures.total.bytes),
                         .count = entry_counter(figures.current.count, figures.mark.count, figures.total.count) },
        };
    }
    return true;
}

enum tide_status
tidei_tag_counters_report(struct tidei_tag_counters *counters, tide_statistics_function function, void *context)
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
            function(context, path, &entries[i].figures);
        free(path);
    }
    free(entries);
    return status;
}
