/* track: knows every block that is outstanding, and refuses wrong frees. */
#ifndef TIDEMARK_TRACK_H
#define TIDEMARK_TRACK_H

#include <tidemark/callstack.h>
#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_track_options {
    size_t struct_size;       /* TIDE_OPTIONS */
    uint32_t callstack_depth; /* frames of the call stack of each block: see TIDE_CALLSTACK_PYTHON; 0: none */
    uint32_t unwind;          /* enum tide_unwind: how call stacks are walked */
};

/*
 * Create a layer that keeps size, alignment, thread, stream, tag and call stack of every block that passes through it
 * from `upstream`, until the block is freed.
 *
 * It refuses a free with another size or alignment (TIDE_EMISMATCH), a free of a pointer that was freed already or was
 * never allocated here (TIDE_EPOINTER), and a block that upstream hands out while it is outstanding (TIDE_EPOINTER).
 * Nothing is freed then. The error text says where the block was allocated, where it was freed, and where the wrong
 * call came from. The table `misuse` of every trace that the process records says the same.
 *
 * A pointer that was freed is remembered until the table needs its place for another block; from then on a second free
 * of it is reported as a pointer that was never allocated here.
 *
 * Holds a reference to `upstream`. `options` may be NULL: no call stacks. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, callstack_depth, unwind), TIDE_EUNSUPPORTED (unwind), TIDE_ENOMEM.
 * Errors of its allocations: what upstream returns, TIDE_ENOMEM (no host memory to note the block, which is given
 * back), TIDE_EPOINTER, TIDE_EUPSTREAM (success with NULL). Of its deallocations: TIDE_EPOINTER, TIDE_EMISMATCH, and
 * what upstream returns. If upstream refuses to free a block and there is no host memory to note the block again, an
 * error goes to the message sink.
 * Thread safety: any thread. Takes one of thousands of short locks, chosen by the address. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_track_create(struct tide_resource *upstream, const struct tide_track_options *options,
                                               struct tide_resource **out);

/*
 * Put the size of the block at `pointer`, as requested, into *bytes. This is for code that has to free a block and only
 * knows its pointer. `pointer` is what tide_allocate gave out, not an address inside of a block. On failure *bytes is
 * 0.
 *
 * Errors: TIDE_EPOINTER (the block is not outstanding here; NULL), TIDE_EINVAL (not a track resource, no `bytes`).
 * Thread safety: any thread. Takes the same short lock as an allocation. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_track_size(struct tide_resource *track, const void *pointer, uint64_t *bytes);

/* A block that is outstanding. */
struct tide_track_block {
    size_t struct_size; /* set by the library: see TIDE_HAS_FIELD */
    void *pointer;
    uint64_t bytes; /* as requested */
    uint64_t alignment;
    tide_stream stream; /* the stream that it was allocated on */
    const char *tag;    /* path of the thread's tags, "train/forward"; "": no tag; borrowed for the call */
    uint32_t thread;    /* the system's id of the thread that allocated it */
    uint32_t callstack; /* number of its call stack, for tide_callstack_frames; 0: none */
};

/* Called for each block; `block` is borrowed for the call. No lock is held: it may call any function of the library. */
typedef void (*tide_track_function)(void *context, const struct tide_track_block *block);

/*
 * Call `function` for each outstanding block: the largest first, blocks of one size by their addresses. The blocks are
 * those of one moment, for which all other threads are stopped. Allocations of 0 bytes are left out: they have no
 * address.
 *
 * Errors: TIDE_EINVAL (not a track resource, NULL), TIDE_ENOMEM. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_track_report(struct tide_resource *track, tide_track_function function,
                                               void *context);

/*
 * The same report as text: how much is outstanding in all, and the `most` largest blocks with the frames of their call
 * stacks. Names are escaped as in tide_error_text(). Text that exceeds `capacity` is cut. *needed (may be NULL) is the
 * full length without the NUL.
 * Errors and thread safety: as tide_track_report. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_track_report_text(struct tide_resource *track, size_t most, char *text,
                                                    size_t capacity, size_t *needed);

#ifdef __cplusplus
}
#endif
#endif
