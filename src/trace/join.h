/*
 * Ties the driver's calls to the allocations and frees that made them: by thread, and because a call lies within the
 * interval of its event, both in ticks of one clock.
 */
#ifndef TIDEI_TRACE_JOIN_H
#define TIDEI_TRACE_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/calls.h"
#include "trace/store.h"

/* A row of driver_call. */
struct tidei_driver_call {
    uint64_t allocation_id;
    uint64_t start_ns; /* of the trace */
    uint64_t duration_ns;
    const char *function; /* static */
    uint32_t thread_id;
    int32_t result;
    bool is_free;
};

struct tidei_join;

/* NULL where host memory is short. */
struct tidei_join *tidei_join_new(void);
void tidei_join_free(struct tidei_join *join);

/* Events of that layer are the driver's: no other log stands between it and the base. Any thread. */
void tidei_join_add_layer(struct tidei_join *join, uint32_t layer_id);

/* A thread of the trace, by the number that the system gave it. */
void tidei_join_add_thread(struct tidei_join *join, uint32_t thread_id, uint32_t os_tid);

/* The events of what store->pair has paired: records `from` to before `end` of a half. False: no host memory. */
bool tidei_join_add_events(struct tidei_join *join, const struct tidei_store *store, uint64_t from, uint64_t end);

/* Calls as they come from the inbox; `items` is copied. False: no host memory. */
bool tidei_join_add_calls(struct tidei_join *join, const struct tidei_call *items, size_t count);

/*
 * Tie what can be tied. Every event up to tick `events_until` has been added; every call up to `calls_until` has been
 * handed over: calls before the one that belong to no event are not ours, events before the other had no call.
 */
void tidei_join_run(struct tidei_join *join, uint64_t events_until, uint64_t calls_until);

/* The rows that wait for a transaction (borrowed), until tidei_join_written. */
const struct tidei_driver_call *tidei_join_rows(const struct tidei_join *join, size_t *count);
void tidei_join_written(struct tidei_join *join);

#endif
