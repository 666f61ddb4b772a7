/* The CUPTI side of one trace: attaching, collecting in rounds, and the text for meta.cupti. */
#ifndef TIDEI_TRACE_CUPTI_DRIVER_CALLS_H
#define TIDEI_TRACE_CUPTI_DRIVER_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/trace/cupti/device-events.h"

struct tidei_driver_calls;
struct tidei_session;
struct tidei_steady;

/*
 * For the trace of `session` (NULL in a recovery; never dereferenced), by whose `clock` (borrowed) times are corrected.
 * NULL without host memory.
 */
struct tidei_driver_calls *tidei_driver_calls_new(const struct tidei_session *session,
                                                  const struct tidei_steady *clock);
void tidei_driver_calls_free(struct tidei_driver_calls *calls);

/* The rows of memory events, for the database. */
struct tidei_device_events *tidei_driver_calls_devices(struct tidei_driver_calls *calls);

/* Follow driver calls from now on; with `memory`, all events of memory, too. Returns whether it does. Any thread. */
bool tidei_driver_calls_watch(struct tidei_driver_calls *calls, bool memory);

/* No layer asks for CUPTI: let meta.cupti say so. Any thread. */
void tidei_driver_calls_leave(struct tidei_driver_calls *calls);

/* Whether CUPTI follows driver calls for this trace. Any thread. */
bool tidei_driver_calls_watched(struct tidei_driver_calls *calls);

/* After pairing a slice: note if it has events after events of memory have ended. From here on: writer thread only. */
void tidei_driver_calls_look(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline,
                             const struct tidei_pair *pair);

/* After writing the slice: add the calls of its events. */
void tidei_driver_calls_slice(struct tidei_driver_calls *calls, const struct tidei_pair *pair);

/*
 * Collect CUPTI's records, if a period has passed or with `at_once`. The latter makes rows of all events from before
 * this call, except those whose call a log has yet to record. Returns whether there are rows to write. Holds no lock
 * while CUPTI works.
 */
bool tidei_driver_calls_round(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline, bool at_once);

/* The last round: detach from CUPTI, and make rows of all remaining events. */
void tidei_driver_calls_end(struct tidei_driver_calls *calls, const struct tidei_timeline *timeline);

/*
 * The text for meta.cupti, if it has changed since the last call; false if not. It is "calls", "memory", or one of
 * these or "off" followed by a colon and a reason.
 */
bool tidei_driver_calls_state(struct tidei_driver_calls *calls, char *text, size_t capacity);

/* The number of records that CUPTI dropped, or that were lost without host memory. */
uint64_t tidei_driver_calls_dropped(struct tidei_driver_calls *calls);

#endif
