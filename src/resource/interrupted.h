/*
 * Calls from signal handlers that have interrupted another call of the same thread.
 *
 * The interrupted call may hold any lock, and may be in the middle of anything: the heap, the driver, a record. So an
 * allocation is refused, before it has touched anything, and a free is put off: it goes into a list in memory from
 * mmap(2), and the interrupted call makes it as its last act. Where the list is full, or there is none, it is refused.
 *
 * An operation that the program brings may call the library from within a call. Such calls cannot be told from those of
 * a handler. So within a call of a stack that has such operations every call goes ahead, as if there was no mark.
 */
#ifndef TIDEI_RESOURCE_INTERRUPTED_H
#define TIDEI_RESOURCE_INTERRUPTED_H

#include "src/resource/resource.h"
#include "src/sync/inside.h"

/* Whether a call that finds the mark `call` has to keep out. Lock-free, allocates nothing, sets no error. */
bool tidei_interrupted_by(const void *call);

/* The same for a call that is about to begin. Counts it as refused if it has to keep out. */
bool tidei_interrupted_refuses(void);

/* Put off a free. TIDE_ESIGNAL where there is no room. Sets no error. */
enum tide_status tidei_interrupted_defer(struct tide_resource *resource, const struct tidei_place *place);

/* Make the frees that were put off; the thread's mark is as its caller found it. Keeps the thread's error. */
void tidei_interrupted_free(void);

#endif
