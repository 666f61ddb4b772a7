/*
 * The driver's memory calls as CUPTI saw them: one collector for the process, an inbox for each trace.
 *
 * Only API records of the memory calls are switched on, the cheapest that CUPTI has (CUDA.md: a tenth of what MEMORY2
 * costs). Their times come from the clock of the trace, so that a call is tied to its allocation by thread and time
 * and the calling thread pushes no correlation ids.
 */
#ifndef TIDEI_TRACE_CALLS_H
#define TIDEI_TRACE_CALLS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

/* One call of the driver. */
struct tidei_call {
    uint64_t start; /* ticks of the trace's clock */
    uint64_t end;
    const char *function; /* static */
    uint32_t os_tid;
    int32_t result; /* CUresult */
};

struct tidei_calls_inbox {
    pthread_mutex_t lock;
    struct tidei_call *items;
    size_t count;
    size_t capacity;
    uint64_t dropped; /* by CUPTI, and for want of memory */
    bool tsc;
    struct tidei_calls_inbox *next;
};

/*
 * Make `inbox` an empty one (its lock is the caller's to destroy, whatever comes back) and begin to collect into it
 * (borrowed until the detach).
 * Errors: TIDE_EUNSUPPORTED (no CUPTI, another subscriber, another trace with another clock, a child of fork()); the
 * text says which.
 */
enum tide_status tidei_calls_attach(struct tidei_calls_inbox *inbox, bool tsc);

/* Stop. What CUPTI still has is in the inbox first. */
void tidei_calls_detach(struct tidei_calls_inbox *inbox);

/* Have CUPTI hand over what it has. Hold no lock that a user of the driver may need. */
void tidei_calls_flush(void);

#endif
