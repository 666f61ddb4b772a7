/*
 * The process's one connection to CUPTI.
 *
 * CUPTI calls back at the beginning and the end of each call of the driver that allocates or frees, on the thread that
 * makes it: there the call is put into the thread's slot (callslot.h), and the log that waits for it records it with
 * its event. On an H200 callbacks alone cost 190 to 230 ns for an allocation and its free, where CUPTI's own records of
 * the same calls cost 230 to 290, arrive later on a thread of CUPTI's, have to be tied to their events (in all 400 to
 * 500 ns were measured), and are lost with the process.
 *
 * What happens to memory (MEMORY2 and MEMORY_POOL records) comes in buffers, and goes to an queue for each trace that
 * wants it, as do calls that no log waits for.
 */
#ifndef TIDEI_TRACE_CUPTI_CALLBACKS_H
#define TIDEI_TRACE_CUPTI_CALLBACKS_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "src/trace/cupti/queue.h"

/*
 * Make `queue` an empty one (its lock is the caller's to destroy, whatever comes back) and begin to collect into it
 * (borrowed until the detach); `session` tells its trace from others and is not followed. With `memory` queue->memory
 * says whether there will be events, and where not the error text why.
 * Errors: TIDE_EUNSUPPORTED (no CUPTI, another subscriber, another trace with another clock, a child of fork()); the
 * text says which.
 */
enum tide_status tidei_calls_attach(struct tidei_cupti_queue *queue, const struct tidei_session *session, bool tsc,
                                    bool memory);

/* Stop. What CUPTI still has is in the queue first. */
void tidei_calls_detach(struct tidei_cupti_queue *queue);

/* This process was forked off: it leaves the inboxes alone, and locks that nobody may give back; see calls.c. */
void tidei_calls_forked(void);

/* The tick from which on no queue gets events of memory, but of pools alone; 0: all do. */
uint64_t tidei_calls_imported(void);
#define TIDEI_CALLS_IMPORTED "it crashes where imported pointers are freed, and the process has imported one"

/* The tick from which on no queue gets events of memory, since the process exits; 0: it does not. */
uint64_t tidei_calls_exited(void);
#define TIDEI_CALLS_EXITED "the process began to exit"

/* Calls of this process that did not fit into their thread's slot. */
uint64_t tidei_calls_overflown(void);

/* Have CUPTI hand over the records that it has. Hold no lock that a user of the driver may need. */
void tidei_calls_flush(void);

#endif
