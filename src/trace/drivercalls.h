/* CUPTI's part of one trace: when to collect, what to tie, and what the trace says of it. */
#ifndef TIDEI_TRACE_DRIVERCALLS_H
#define TIDEI_TRACE_DRIVERCALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/join.h"

struct tidei_driver_calls;

/* NULL where host memory is short. */
struct tidei_driver_calls *tidei_driver_calls_new(bool tsc);
void tidei_driver_calls_free(struct tidei_driver_calls *calls);

/* What ties them; for the store. */
struct tidei_join *tidei_driver_calls_join(struct tidei_driver_calls *calls);

/* Record the driver's calls of a layer from now on, where CUPTI can be had. Any thread. */
void tidei_driver_calls_watch(struct tidei_driver_calls *calls, uint32_t layer_id);

/*
 * Take what CUPTI has and tie it. Every event up to tick `events_until` has been added. The writer's thread; holds
 * no lock while CUPTI works.
 */
void tidei_driver_calls_round(struct tidei_driver_calls *calls, uint64_t events_until);

/* The last round: every event has been added, and CUPTI hands over everything. */
void tidei_driver_calls_end(struct tidei_driver_calls *calls);

/*
 * What meta.cupti is to say, where that has changed since the last call: "calls", or "off: " and the reason. False
 * where it has not.
 */
bool tidei_driver_calls_state(struct tidei_driver_calls *calls, char *text, size_t capacity);

/* Calls that CUPTI has dropped so far. */
uint64_t tidei_driver_calls_dropped(struct tidei_driver_calls *calls);

#endif
