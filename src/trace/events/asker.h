/*
 * Asks the resources that a program brings for their figures, on a thread of its own.
 *
 * A query of the program's may take a lock of the program's, for instance an interpreter's, which a thread holds while
 * it calls the library. So nobody waits for such a query without a bound: neither the writer, nor a thread that
 * releases the resource, ends the recording or forks. A query that takes longer is left to itself: its answer goes
 * nowhere, and the resource is kept until it has returned. Meanwhile nothing else is asked.
 */
#ifndef TIDEI_TRACE_EVENTS_ASKER_H
#define TIDEI_TRACE_EVENTS_ASKER_H

#include <stdbool.h>
#include <stdint.h>

#include "src/resource/resource.h"

struct tidei_answer {
    bool known;
    struct tidei_layer_figures figures;
    uint64_t free_bytes, total_bytes; /* of the device */
};

struct tidei_asker;

/* Starts the thread. NULL without a thread or host memory. The caller holds no lock that a fork hook takes later. */
struct tidei_asker *tidei_asker_new(void);

/* End the thread; one that is in a query ends after it. `asker` may be NULL. */
void tidei_asker_free(struct tidei_asker *asker);

/* Whether a resource must be asked here: the program brings it. */
bool tidei_asker_is_for(struct tide_resource *resource);

/* Query a resource (borrowed) for its figures, or for those of its device, on the calling thread. */
void tidei_asker_query(struct tide_resource *resource, bool device, struct tidei_answer *out);

/* The same on the asker's thread. False if there is no answer in time. One thread at a time. */
bool tidei_asker_ask(struct tidei_asker *asker, struct tide_resource *resource, bool device, struct tidei_answer *out);

/*
 * The resource will not be asked any more, and its owner is about to give it up. Waits for a query of it; if that does
 * not return in time, gives it a reference of its own, and returns false.
 */
bool tidei_asker_leave(struct tidei_asker *asker, struct tide_resource *resource);

/* Around fork(): wait for a query, in time, and begin none. In the child: there is no thread. */
void tidei_asker_hold(struct tidei_asker *asker);
void tidei_asker_release(struct tidei_asker *asker);
void tidei_asker_forked(struct tidei_asker *asker);

#endif
