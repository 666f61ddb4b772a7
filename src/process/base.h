/* The base of the account's stacks, `process`: it makes the program's own calls of the driver. */
#ifndef TIDEI_PROCESS_BASE_H
#define TIDEI_PROCESS_BASE_H

#include "src/resource/kind.h"

/* The kinds of memory that a process has; their names stand in the traces. */
enum tidei_process_kind {
    TIDEI_PROCESS_PLAIN,    /* cuMemAlloc, cuMemAllocPitch */
    TIDEI_PROCESS_ASYNC,    /* cuMemAllocAsync */
    TIDEI_PROCESS_POOL,     /* cuMemAllocFromPoolAsync */
    TIDEI_PROCESS_VIRTUAL,  /* cuMemCreate */
    TIDEI_PROCESS_ARRAY,    /* arrays, mipmapped ones included */
    TIDEI_PROCESS_MANAGED,  /* cuMemAllocManaged: on a device once it is used there */
    TIDEI_PROCESS_PINNED,   /* page-locked host memory, registered or allocated */
    TIDEI_PROCESS_GRAPH,    /* memory of graphs: polled, no allocations of it are seen */
    TIDEI_PROCESS_IMPORTED, /* of another process */
    TIDEI_PROCESS_KINDS
};

/* Its name, as traces have it. */
const char *tidei_process_kind_name(enum tidei_process_kind kind);

/* Whether a limit of the device holds for memory of this kind. */
static inline bool
tidei_process_is_limited(enum tidei_process_kind kind)
{
    return kind <= TIDEI_PROCESS_ARRAY;
}

/* Not in the table of all kinds: outside of a wrapper it allocates nothing. */
extern const struct tidei_kind tidei_process_kind;

/* Set a figure of the base that the trace has in layer_count, before the first allocation. */
void tidei_process_base_found(struct tide_resource *base, uint64_t used_bytes);

#endif
