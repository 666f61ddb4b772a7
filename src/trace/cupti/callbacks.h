/*
 * The process's one connection to CUPTI.
 *
 * CUPTI calls back at the beginning and the end of each driver call that allocates or frees, on the calling thread. The
 * callback puts the call into the thread's capture (capture.h), and the log that waits for it records it with its
 * event. On an H200 callbacks alone cost 190 to 230 ns for an allocation and its free. CUPTI's own records of the same
 * calls cost 230 to 290 ns, arrive later on a CUPTI thread, have to be matched to their events (400 to 500 ns measured
 * in all), and are lost with the process.
 *
 * Events of memory (MEMORY2 and MEMORY_POOL records) arrive in buffers. They go to a queue for each trace that wants
 * them, and so do calls that no log waits for.
 */
#ifndef TIDEI_TRACE_CUPTI_CALLBACKS_H
#define TIDEI_TRACE_CUPTI_CALLBACKS_H

#include <stdbool.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "src/trace/cupti/queue.h"

/*
 * Initialize `queue` and begin to collect into it (borrowed until the detach). The caller destroys queue->lock, even on
 * failure. `session` identifies the trace and is never dereferenced. With `memory`, queue->memory says whether events
 * of memory will arrive; if not, the error text says why.
 * Errors: TIDE_EUNSUPPORTED (no CUPTI, another subscriber, another trace with another clock, a child of fork()); the
 * text says which.
 */
enum tide_status tidei_calls_attach(struct tidei_cupti_queue *queue, const struct tidei_session *session, bool tsc,
                                    bool memory);

/* Stop collecting, after CUPTI's remaining records were put into the queue. */
void tidei_calls_detach(struct tidei_cupti_queue *queue);

/* In a child of fork(): abandon the queues, and locks that other threads may have held; see callbacks.c. */
void tidei_calls_forked(void);

/* The tick from which on queues get events of pools, but none of memory, after an import; 0: no import so far. */
uint64_t tidei_calls_imported(void);
#define TIDEI_CALLS_IMPORTED "it crashes where imported pointers are freed, and the process has imported one"

/* The tick from which on no queue gets events of memory, since the process exits; 0: it is not exiting. */
uint64_t tidei_calls_exited(void);
#define TIDEI_CALLS_EXITED "the process began to exit"

/* Calls of this process that did not fit into their thread's capture. */
uint64_t tidei_calls_overflown(void);

/* Make CUPTI deliver its records. The caller holds no lock that another user of the driver may need. */
void tidei_calls_flush(void);

#endif
