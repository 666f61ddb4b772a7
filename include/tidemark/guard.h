/* guard: find what writes past the ends of its memory, or into memory that was freed. */
#ifndef TIDEMARK_GUARD_H
#define TIDEMARK_GUARD_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where bytes have changed that nobody may write to. */
enum tide_guard_place {
    TIDE_GUARD_BEFORE = 0, /* before the block */
    TIDE_GUARD_AFTER = 1,  /* behind its last byte */
    TIDE_GUARD_FREED = 2,  /* in a block that was freed */
};

#define TIDE_GUARD_SEEN 16

struct tide_guard_damage {
    size_t struct_size;                  /* set by the library: see TIDE_HAS_FIELD */
    void *block;                         /* as it was handed out */
    size_t bytes;                        /* of the block, as requested */
    int64_t offset;                      /* of the first changed byte from the block's begin; below 0: before it */
    uint64_t changed_bytes;              /* how many have changed in the part that was looked at */
    uint32_t place;                      /* of enum tide_guard_place */
    uint32_t seen_bytes;                 /* how many of `seen` count */
    unsigned char seen[TIDE_GUARD_SEEN]; /* what stands at the offset and behind it, in the part that was looked at */
    unsigned char expected;              /* what each of the changed bytes was */
    unsigned char reserved[7];           /* 0 */
};

/*
 * Called on the thread that found it, without any lock held. `damage` is borrowed for the call. It may allocate, but
 * not free what the guard has handed out: a block that is looked at cannot be freed meanwhile. Other threads that
 * allocate or free may wait for it to return, so that it is not to wait for them.
 */
typedef void (*tide_guard_function)(void *context, const struct tide_guard_damage *damage);

struct tide_guard_options {
    size_t struct_size;
    uint64_t canary_bytes;        /* before and behind each block; a power of two from 16 to 1 MiB; 0: 256 */
    uint64_t hold_bytes;          /* of freed blocks that are kept to look at; 0: 16 MiB; TIDE_NONE */
    tide_guard_function function; /* NULL: an error in the message sink */
    void *context;                /* borrowed for the life of the resource */
};

/*
 * Put canaries around each block, and a pattern over each that is freed, and look whether they are whole: the canaries
 * when the block is freed, the pattern when the block goes back to `upstream`, which is when more than hold_bytes are
 * held, when upstream has no more memory, in a trim, and at the end; all of them in tide_guard_check. Where upstream
 * has no room, a request is refused only once all that was freed before has gone back, by whichever thread. What
 * upstream does not take back at the end is lost, and told in the message sink.
 *
 * Where the canaries have changed, the deallocation is TIDE_EDAMAGED: the block stays allocated, to be looked at, and
 * its canaries are written anew, so that the next deallocation succeeds. All that is found is told to the function, or
 * the message sink.
 *
 * Memory of a device is written in the order of the allocation's stream, and read in that of the deallocation's, which
 * then waits for that stream on the host. A stream that is captured into a graph cannot be waited for: what is freed
 * there is not looked at. It knows its pointers. `options` may be NULL.
 *
 * Holds a reference to `upstream`. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, canary_bytes), TIDE_EUNSUPPORTED (no memory below, as that of sim; a driver that cannot
 * fill or copy it), TIDE_ENOMEM, TIDE_EDRIVER. Its allocations: TIDE_EOVERFLOW, TIDE_ENOMEM, TIDE_EDRIVER; its
 * deallocations: TIDE_EDAMAGED, TIDE_EPOINTER (also freed before), TIDE_EMISMATCH, TIDE_EDRIVER, TIDE_ENOMEM (no host
 * memory to look at the block, which stays allocated).
 * Thread safety: any thread; takes a short lock, and writes and reads the memory. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_guard_create(struct tide_resource *upstream, const struct tide_guard_options *options,
                                               struct tide_resource **out);

/*
 * Look at all canaries and all freed blocks that are held now, once the device is done with what was submitted.
 * *damaged (may be NULL) is the number of places that have changed; they stay as they are, and are told again.
 *
 * Errors: TIDE_EDAMAGED (there are some), TIDE_EINVAL (not a guard), TIDE_EDRIVER (also where a stream is captured),
 * TIDE_ENOMEM. Thread safety: any thread; a block that is looked at cannot be freed meanwhile, which waits. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_guard_check(struct tide_resource *guard, uint64_t *damaged);

#ifdef __cplusplus
}
#endif
#endif
