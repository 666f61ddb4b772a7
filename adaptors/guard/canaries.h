/*
 * The canaries around a block, and the pattern over a freed block: writing them, and checking that they are intact.
 * Changes are reported to a function, or as an error to the message sink.
 */
#ifndef TIDEI_ADAPTORS_GUARD_CANARIES_H
#define TIDEI_ADAPTORS_GUARD_CANARIES_H

#include <tidemark/guard.h>

#include "src/cuda/memory-io.h"
#include "adaptors/guard/watched-blocks.h"

struct tidei_canaries {
    struct tidei_memory_io touch;
    size_t bytes;                 /* of each canary */
    tide_guard_function function; /* NULL: the message sink */
    void *context;                /* borrowed */
};

/* The bytes that one step reads. */
#define TIDEI_CANARIES_PIECE ((size_t)64 << 10)

/* Allocate a buffer for one step, which the caller frees; NULL with the error text set. */
unsigned char *tidei_canaries_buffer(void);

/* Write both canaries, in the order of the stream. Errors: TIDE_EDRIVER, here and below. */
enum tide_status tidei_canaries_fill(struct tidei_canaries *canaries, const struct tidei_watched_block *block,
                                     tide_stream stream);

/* Write the pattern over the block, and wait until that is done. */
enum tide_status tidei_canaries_fill_freed(struct tidei_canaries *canaries, const struct tidei_watched_block *block,
                                           tide_stream stream);

/*
 * Read the canaries, or the pattern, in steps into `buffer`, in the order of the stream, and wait for it. Add the
 * number of changed places to *damaged, and report each.
 */
enum tide_status tidei_canaries_look(struct tidei_canaries *canaries, const struct tidei_watched_block *block,
                                     tide_stream stream, unsigned char *buffer, uint64_t *damaged);
enum tide_status tidei_canaries_look_freed(struct tidei_canaries *canaries, const struct tidei_watched_block *block,
                                           tide_stream stream, unsigned char *buffer, uint64_t *damaged);

/* Whether this thread is inside the guard's function: then it must not wait for threads that may wait for it. */
bool tidei_canaries_tells(void);

#endif
