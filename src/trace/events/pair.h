/*
 * Turns a half of the backlog, records in the order of time, into rows of whole lives: numbers allocations and finds
 * for each free the allocation that it ends, in this half or in one of before.
 */
#ifndef TIDEI_TRACE_EVENTS_PAIR_H
#define TIDEI_TRACE_EVENTS_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/tables/lives.h"
#include "src/trace/ring/ringfile.h"

#define TIDEI_NO_FREE UINT32_MAX

/* A new row: indices of the two records in the half. */
struct tidei_row {
    uint32_t alloc;
    uint32_t free; /* TIDEI_NO_FREE while it lives, and for a failure */
};

/* An allocation of an earlier half that lives, as its row has it. */
struct tidei_live {
    uint64_t id;
    uint64_t ticks; /* where the trace was taken up again, what its nanosecond comes to */
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
    uint32_t next_free; /* of the slots that are not in use */
};

/* A free in this half that ends a live allocation of an earlier one. */
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
    struct tidei_lives lives; /* numbered by row + 1, or PAIR_LIVE | index of `live` */
    struct tidei_live *live;
    size_t live_capacity;
    uint32_t live_free; /* first slot not in use; UINT32_MAX: none */
    uint64_t live_count;

    uint64_t next_id;
    bool no_memory;

    /* Of the part of a half that was paired last. */
    unsigned half;
    uint64_t end; /* of the part */
    uint64_t first_id;
    struct tidei_row *rows;
    size_t row_count;
    size_t row_capacity;
    struct tidei_closing *closings; /* in the order of id once paired */
    size_t closing_count;
    size_t closing_capacity;
    struct tidei_index_list unmatched; /* frees of nothing that is known */
    struct tidei_index_list odd;       /* frees that were refused, or named another size */
    struct tidei_index_list other;     /* records that are no allocations and no frees */
};

struct tidei_pair *tidei_pair_new(struct tidei_ringfile *file);
void tidei_pair_free(struct tidei_pair *pair);

/* Pair the records from `from` to before `end` of a half. False where host memory is short. */
bool tidei_pair_run(struct tidei_pair *pair, unsigned half, uint64_t from, uint64_t end);

/*
 * Keep a row that still lives beyond its half. `live` has all its fields but next_free; `row` is its index, or
 * SIZE_MAX for one that comes from the trace itself. False where host memory is short.
 */
bool tidei_pair_keep(struct tidei_pair *pair, const struct tidei_live *live, size_t row);

/* The half is committed: forget what its frees have ended. */
void tidei_pair_forget_closed(struct tidei_pair *pair);

#endif
