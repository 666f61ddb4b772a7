/* track: know every block that is outstanding, and refuse frees that are wrong. */
#ifndef TIDEMARK_TRACK_H
#define TIDEMARK_TRACK_H

#include <tidemark/callstack.h>
#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tide_track_options {
    size_t struct_size;
    uint32_t callstack_depth; /* frames of the call stack that is kept with each block, up to TIDE_CALLSTACK_MOST */
    uint32_t unwind;          /* of enum tide_unwind: how it is taken */
};

/*
 * Keep size, alignment, thread, stream, tag and call stack of every block that passes through from `upstream`, until it
 * is freed. A free of another size or alignment (TIDE_EMISMATCH), of a pointer that was not given out here or that was
 * freed already (TIDE_EPOINTER) goes no further: nothing is freed. Neither does a pointer that upstream gives out while
 * it is live (TIDE_EPOINTER). The error text says where the block was allocated, where it was freed and where the call
 * came from; so does the table `misuse` of every trace that the process records. A double free is told from an unknown
 * pointer until its place in the table is needed for another block: at first there are two for each of 4,096 parts of
 * the addresses, and the older of two frees goes first.
 *
 * `options` may be NULL: no call stacks. Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, callstack_depth, unwind), TIDE_EUNSUPPORTED (unwind), TIDE_ENOMEM. Its allocations:
 * TIDE_ENOMEM (no host memory to remember one; it is given back), TIDE_EPOINTER, TIDE_EUPSTREAM (NULL with success).
 * Where upstream refuses to take a block back, and there is no host memory to know it again, an error in the message
 * sink says which.
 * Thread safety: any thread; a short lock by the address, of which there are thousands. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_track_create(struct tide_resource *upstream, const struct tide_track_options *options,
                                               struct tide_resource **out);

/* A block that is outstanding. */
struct tide_track_block {
    size_t struct_size; /* set by the library: see TIDE_HAS_FIELD */
    void *pointer;
    uint64_t bytes; /* as requested */
    uint64_t alignment;
    tide_stream stream; /* that it was allocated on */
    const char *tag;    /* the path of the thread's tags, "train/forward"; "" for none; borrowed for the call */
    uint32_t thread;    /* the system's id of the thread that did */
    uint32_t callstack; /* for tide_callstack_frames; 0: none */
};

typedef void (*tide_track_function)(void *context, const struct tide_track_block *block);

/*
 * Call `function` for each block that is outstanding, the largest first, blocks of one size in the order of their
 * addresses: those of one moment, for which all other threads wait. Allocations of 0 bytes, which have no address, are
 * not among them. No lock is held any more: `function` may call any other.
 *
 * Errors: TIDE_EINVAL (not a track resource; NULL), TIDE_ENOMEM. Thread safety: any thread. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_track_report(struct tide_resource *track, tide_track_function function,
                                               void *context);

/*
 * The same as text: what is outstanding in all, and the `most` largest blocks with the frames of their call stacks.
 * *needed (may be NULL) is the length without the NUL, also where `capacity` was too small and the text was cut.
 * Errors, thread safety: as tide_track_report. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_track_report_text(struct tide_resource *track, size_t most, char *text,
                                                    size_t capacity, size_t *needed);

#ifdef __cplusplus
}
#endif
#endif
