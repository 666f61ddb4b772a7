/*
 * The gauge page of a ring file: what a recording holds at this moment, for other processes to look at. The writer
 * brings it up to date after each merge; calling threads know nothing of it.
 *
 * There are two copies and a sequence. Copy `sequence & 1` is whole; the writer fills the other one and then raises the
 * sequence. So a process that is killed at any instruction leaves a whole copy, and a reader whose copy was written to
 * meanwhile finds another sequence.
 *
 * The layout is part of the ring file's format (doc/trace.md).
 */
#ifndef TIDEI_TRACE_RING_GAUGE_H
#define TIDEI_TRACE_RING_GAUGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define TIDEI_GAUGE_LAYERS    64
#define TIDEI_GAUGE_POOLS     32
#define TIDEI_GAUGE_TAGS      64
#define TIDEI_GAUGE_DURATIONS 128

/* What a recorded layer has. */
struct tidei_gauge_layer {
    uint64_t layer_id;
    uint64_t live_bytes;
    uint64_t live_count;
    uint64_t peak_bytes; /* the most that was live at once */
    uint64_t peak_ns;    /* when that was, in the trace's time */
    uint64_t allocations;
    uint64_t frees;
    uint64_t failures;
    uint64_t total_bytes; /* of all allocations so far */
};

/* What a base or suballocator said last. */
struct tidei_gauge_pool {
    uint64_t layer_id;
    uint64_t used_bytes;
    uint64_t reserved_bytes;
    uint64_t reserved_high_bytes; /* 0: not known */
};

/* What a tag has in a layer. */
struct tidei_gauge_tag {
    uint32_t layer_id;
    uint32_t tag_id; /* 0: allocated without a tag */
    uint64_t live_bytes;
    uint64_t live_count;
};

/* One copy. Times are nanoseconds of the trace. */
struct tidei_gauge {
    uint64_t written_ns; /* when this copy was written */
    uint64_t merged_ns;  /* the layers have each call that had returned by then */
    uint64_t tags_ns;    /* the same of the tags */
    uint64_t epoch_ns;   /* CLOCK_MONOTONIC at nanosecond 0 of the trace */
    uint64_t marks;
    uint64_t lost_allocations;
    uint64_t lost_frees;
    uint64_t late;            /* records that came later than they were waited for */
    uint32_t layer_count;     /* of `layers` */
    uint32_t layers_left_out; /* that have no room there */
    uint32_t pool_count;      /* of `pools` */
    uint32_t pools_left_out;  /* that have no room there */
    uint32_t tag_count;       /* of `tags` */
    uint32_t tags_left_out;   /* with live allocations, and no room there */
    uint64_t tags_left_bytes; /* live in these */
    struct tidei_gauge_layer layers[TIDEI_GAUGE_LAYERS];
    struct tidei_gauge_pool pools[TIDEI_GAUGE_POOLS];
    struct tidei_gauge_tag tags[TIDEI_GAUGE_TAGS];   /* most bytes first */
    uint64_t alloc_durations[TIDEI_GAUGE_DURATIONS]; /* calls so far, see tidei_gauge_bucket */
    uint64_t free_durations[TIDEI_GAUGE_DURATIONS];
};

_Static_assert(sizeof(struct tidei_gauge) % sizeof(uint64_t) == 0, "a copy is made in words");

#define TIDEI_GAUGE_COPY_BYTES 12288

_Static_assert(sizeof(struct tidei_gauge) <= TIDEI_GAUGE_COPY_BYTES, "a copy is three pages");

/* The pages, behind the directory of the ring file. */
struct tidei_gauge_pages {
    _Atomic uint64_t sequence; /* 0: nothing written yet */
    uint64_t reserved[511];
    uint64_t copies[2][TIDEI_GAUGE_COPY_BYTES / sizeof(uint64_t)];
};

#define TIDEI_GAUGE_BYTES ((uint64_t)sizeof(struct tidei_gauge_pages))

/*
 * The bucket of a call's duration. Four of them share each power of two, and bucket 127 has all from 7.5 s on. The
 * other one is the least duration of a bucket.
 */
static inline unsigned
tidei_gauge_bucket(uint64_t ns)
{
    unsigned log2;

    if (ns < 4)
        return (unsigned)ns;
    log2 = 63 - (unsigned)__builtin_clzll(ns);
    return log2 > 32 ? TIDEI_GAUGE_DURATIONS - 1 : 4 * (log2 - 1) + (unsigned)(ns >> (log2 - 2) & 3);
}

static inline uint64_t
tidei_gauge_bucket_ns(unsigned bucket)
{
    return bucket < 4 ? bucket : (uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

/* Write a copy. One thread. */
static inline void
tidei_gauge_write(struct tidei_gauge_pages *pages, const struct tidei_gauge *gauge)
{
    uint64_t sequence = atomic_load_explicit(&pages->sequence, memory_order_relaxed) + 1;
    const uint64_t *from = (const uint64_t *)(const void *)gauge;
    uint64_t *to = pages->copies[sequence & 1];

    /*
     * Pairs with the fence in tidei_gauge_read_memory: who reads a word of this copy finds at least the sequence before
     * this one, in which the copy no longer counts.
     */
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < sizeof(*gauge) / sizeof(uint64_t); i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
    /* Pairs with the acquire there: the words come before the sequence. */
    atomic_store_explicit(&pages->sequence, sequence, memory_order_release);
}

/* Copy the pages' latest state from memory that another thread writes. False: it was written meanwhile, try again. */
static inline bool
tidei_gauge_read_memory(const struct tidei_gauge_pages *pages, struct tidei_gauge *out)
{
    uint64_t sequence = atomic_load_explicit(&pages->sequence, memory_order_acquire);
    const uint64_t *from = pages->copies[sequence & 1];
    uint64_t *to = (uint64_t *)(void *)out;

    for (size_t i = 0; i < sizeof(*out) / sizeof(uint64_t); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&pages->sequence, memory_order_relaxed) == sequence;
}

#endif
