/*
 * Pairs the records of a buffer of the backlog, which are in the order of time, into one row for each allocation. It
 * numbers the allocations, and finds for each free the allocation that it ends, in this buffer or an earlier one.
 */
#ifndef TIDEI_TRACE_EVENTS_PAIR_H
#define TIDEI_TRACE_EVENTS_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/tables/lives.h"
#include "src/trace/ring/ringfile.h"

#define TIDEI_NO_FREE UINT32_MAX

/* A new row: the indices of its two records in the buffer. */
struct tidei_row {
    uint32_t alloc;
    uint32_t free; /* TIDEI_NO_FREE while it lives, and for a failed allocation */
};

/* A live allocation of an earlier buffer, with the values of its row. */
struct tidei_live {
    uint64_t id;
    uint64_t ticks; /* in a recovery: converted back from alloc_ns */
    uint64_t alloc_ns;
    uint64_t alloc_duration_ns;
    uint64_t address;
    uint64_t size;
    uint32_t alloc_stream_id;
    uint32_t alloc_thread_id;
    uint32_t tag;
    uint32_t callstack;
    uint16_t layer;
    uint8_t alignment_log2;
    uint32_t next_free; /* the next slot that is not in use */
};

/* A free in this buffer that ends an allocation of an earlier buffer. */
struct tidei_closing {
    uint64_t id;
    uint32_t live;
    uint32_t free;
};

/* A growing list of record indices. */
struct tidei_index_list {
    uint32_t *items;
    size_t count;
    size_t capacity;
};

struct tidei_pair {
    struct tidei_ringfile *file;
    struct tidei_lives lives; /* numbers are row + 1, or PAIR_LIVE | index into `live` */
    struct tidei_live *live;
    size_t live_capacity;
    uint32_t live_free; /* first slot not in use; UINT32_MAX: none */
    uint64_t live_count;

    uint64_t next_id;
    bool has_begun; /* an allocation with a time of its own has come */
    bool no_memory;

    /* The result of the latest tidei_pair_run. */
    unsigned buffer;
    uint64_t end; /* of the records that were paired */
    uint64_t first_id;
    struct tidei_row *rows;
    size_t row_count;
    size_t row_capacity;
    struct tidei_closing *closings; /* sorted by id */
    size_t closing_count;
    size_t closing_capacity;
    struct tidei_index_list unmatched; /* frees of no known allocation */
    struct tidei_index_list odd;       /* frees that were refused, or gave another size */
    struct tidei_index_list other;     /* records that are neither allocations nor frees */
};

struct tidei_pair *tidei_pair_new(struct tidei_ringfile *file);
void tidei_pair_free(struct tidei_pair *pair);

/* Pair the records [from, end) of a buffer. False without host memory. */
bool tidei_pair_run(struct tidei_pair *pair, unsigned buffer, uint64_t from, uint64_t end);

/*
 * Keep a live allocation beyond its buffer. The caller sets all fields of `live` but next_free. `row` is the index of
 * its row, or SIZE_MAX if it was loaded from the trace. False without host memory.
 */
bool tidei_pair_keep(struct tidei_pair *pair, const struct tidei_live *live, size_t row);

/* After the commit: forget the earlier allocations that the frees have ended. */
void tidei_pair_forget_closed(struct tidei_pair *pair);

#endif
