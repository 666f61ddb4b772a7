/* arena: each thread cuts blocks out of memory of its own, which all take from one pool of chunks. */
#ifndef TIDEMARK_ARENA_H
#define TIDEMARK_ARENA_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_arena_options {
    size_t struct_size;
    uint64_t size_bytes; /* the most that is reserved at a time; 0: no bound */
};

/*
 * Serve requests from arenas: threads share as many as there are processors, each with its lock, so that threads that
 * allocate and free at the same time do not meet, and what lives for long on one does not cut up another's memory. An
 * arena takes 8 MiB at a time from all of them's chunks, which come from `upstream` (less where size_bytes is below
 * 512 MiB, down to 2 MiB), and gives those back that are free, but for one. Requests of more than a quarter of that
 * have an arena for themselves. Memory goes from stream to stream as in `pool`.
 *
 * Before a request fails, all arenas give back what they do not use, and each is asked for room. Where that does not
 * help, the traces that are open get a mark: what is reserved, used and free, the largest free block, and the
 * fragmentation, 1 less the largest block's share of what is free; 0 where nothing is free.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, a size above 2^47), TIDE_ENOMEM. Its allocations: TIDE_ECAPACITY (the size), TIDE_EINVAL
 * (more than 2^47 bytes), TIDE_ENOMEM, TIDE_EUPSTREAM (memory that upstream cannot have meant), and what upstream
 * returns. Its deallocations: TIDE_EPOINTER, TIDE_EMISMATCH.
 * Thread safety: any thread; takes a short lock, which is its own arena's where a thread frees what it has allocated.
 * Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_arena_create(struct tide_resource *upstream, const struct tide_arena_options *options,
                                               struct tide_resource **out);

#ifdef __cplusplus
}
#endif
#endif
