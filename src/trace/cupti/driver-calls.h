/* CUPTI's part of one trace: what is recorded, when to collect it, and what the trace says of it. */
#ifndef TIDEI_TRACE_CUPTI_DRIVER_CALLS_H
#define TIDEI_TRACE_CUPTI_DRIVER_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/trace/cupti/device-events.h"

struct tidei_driver_calls;
struct tidei_session;

/* For the trace of `session` (NULL after a kill; never followed). NULL where host memory is short. */
struct tidei_driver_calls *tidei_driver_calls_new(const struct tidei_session *session, bool tsc);
void tidei_driver_calls_free(struct tidei_driver_calls *calls);

/* What happens to memory, as rows; for the store. */
struct tidei_device_events *tidei_driver_calls_devices(struct tidei_driver_calls *calls);

/* Have CUPTI follow the driver's calls from now on, and all memory with `memory`: whether it does. Any thread. */
bool tidei_driver_calls_watch(struct tidei_driver_calls *calls, bool memory);

/* The stack asks for none of it: that is what there is to say. Any thread. */
void tidei_driver_calls_leave(struct tidei_driver_calls *calls);

/* CUPTI follows calls, or did. Any thread. */
bool tidei_driver_calls_watched(struct tidei_driver_calls *calls);

/* A slice has been paired: do its events go on where those of memory have ended? The writer's thread, as the next. */
void tidei_driver_calls_look(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline,
                             const struct tidei_pair *pair);

/* It has been written: its calls are known. */
void tidei_driver_calls_slice(struct tidei_driver_calls *calls, const struct tidei_pair *pair);

/*
 * Take what CUPTI has, where it is time to or `at_once`: then all from before this call, but for what a log has not
 * told yet. Whether rows wait for a transaction. The writer's thread; holds no lock while CUPTI works.
 */
bool tidei_driver_calls_round(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline, bool at_once);

/* The last round: every event has been added, and CUPTI hands over everything. */
void tidei_driver_calls_end(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline);

/*
 * What meta.cupti is to say, where that has changed since the last call: "calls", "memory", or one of these or "off"
 * with the reason behind a colon. False where it has not.
 */
bool tidei_driver_calls_state(struct tidei_driver_calls *calls, char *text, size_t capacity);

/* Records that CUPTI has dropped so far, and what was lost for want of memory. */
uint64_t tidei_driver_calls_dropped(struct tidei_driver_calls *calls);

#endif
