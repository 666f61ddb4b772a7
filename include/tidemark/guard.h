/* guard: finds writes past the ends of a block, and writes into memory that was freed. */
#ifndef TIDEMARK_GUARD_H
#define TIDEMARK_GUARD_H

#include <tidemark/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where bytes have changed that no code may write to. */
enum tide_guard_place {
    TIDE_GUARD_BEFORE = 0, /* in front of the block */
    TIDE_GUARD_AFTER = 1,  /* behind the last byte of the block */
    TIDE_GUARD_FREED = 2,  /* in a block that was freed */
};

/* The most bytes of a damaged place that a report shows. */
#define TIDE_GUARD_SEEN 16

/* Damage that was found in one place. */
struct tide_guard_damage {
    size_t struct_size;                  /* set by the library: see TIDE_HAS_FIELD */
    void *block;                         /* the block, as it was handed out */
    size_t bytes;                        /* size of the block, as requested */
    int64_t offset;                      /* bytes from the block's begin to the first changed byte; < 0: before it */
    uint64_t changed_bytes;              /* how many bytes have changed in this place */
    uint32_t place;                      /* enum tide_guard_place */
    uint32_t seen_bytes;                 /* how many bytes of `seen` count */
    unsigned char seen[TIDE_GUARD_SEEN]; /* the bytes from `offset` on, as they are now */
    unsigned char expected;              /* the value that each changed byte had */
    unsigned char reserved[7];           /* 0 */
};

/*
 * Called for each damage, on the thread that found it, without any lock held. `damage` is borrowed for the call.
 *
 * The function may allocate. It must not free blocks of this guard, and it must not wait for other threads: the block
 * that is examined cannot be freed meanwhile, and threads that allocate or free may be waiting for this call.
 */
typedef void (*tide_guard_function)(void *context, const struct tide_guard_damage *damage);

struct tide_guard_options {
    size_t struct_size;           /* TIDE_OPTIONS */
    uint64_t canary_bytes;        /* size of each canary; a power of two from 16 bytes to 1 MiB; 0: 256 */
    uint64_t hold_bytes;          /* the most bytes of freed blocks that are kept; 0: 16 MiB; TIDE_NONE: none */
    tide_guard_function function; /* NULL: each damage is an error in the message sink */
    void *context;                /* borrowed for the life of the resource */
};

/*
 * Create a layer that puts a canary (a pattern that no code may change) in front of and behind each block, and fills
 * each freed block with a pattern.
 *
 * The canaries are checked when the block is freed. A freed block is kept, and checked when it goes back to `upstream`:
 * when more than hold_bytes are kept, when upstream has no more memory, in tide_trim, and at the end. A request fails
 * for lack of memory only after all kept blocks have gone back. tide_guard_check checks everything at once.
 *
 * A deallocation that finds a changed canary returns TIDE_EDAMAGED. The block stays allocated, so that a debugger can
 * examine it, and its canaries are written again: the next deallocation of it succeeds. The function of the options, or
 * the message sink, gets all damage. A block that upstream does not take back at the end is lost, which the message
 * sink reports.
 *
 * Device memory is written in the order of the allocation's stream. It is read in the order of the deallocation's
 * stream, for which the host then waits. A block that is freed on a stream under graph capture is not checked, because
 * the host cannot wait for such a stream. The layer knows its own blocks, and refuses to free any other.
 *
 * Holds a reference to `upstream`. `options` may be NULL. On failure *out is NULL.
 * Errors: TIDE_EINVAL (NULL, canary_bytes, hold_bytes), TIDE_EUNSUPPORTED (the base has no memory, like `sim`, or the
 * driver can neither fill nor copy it), TIDE_ENOMEM, TIDE_EDRIVER.
 * Errors of its allocations: TIDE_EOVERFLOW, TIDE_ENOMEM, TIDE_EDRIVER, and what upstream returns. Of its
 * deallocations: TIDE_EDAMAGED, TIDE_EPOINTER (also for a block that was freed before), TIDE_EMISMATCH, TIDE_EDRIVER,
 * TIDE_ENOMEM (no host memory to check the block, which stays allocated).
 * Thread safety: any thread. Takes a short lock, and writes and reads the memory. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_guard_create(struct tide_resource *upstream, const struct tide_guard_options *options,
                                               struct tide_resource **out);

/*
 * Check all canaries and all freed blocks that are kept, after the device has done all submitted work. *damaged (may be
 * NULL) is the number of damaged places. They stay as they are, so a later check finds them again.
 *
 * Errors: TIDE_EDAMAGED (there is damage), TIDE_EINVAL (not a guard resource), TIDE_EDRIVER (also while a stream is
 * captured), TIDE_ENOMEM.
 * Thread safety: any thread. A thread that frees the block that is being checked waits. Since 0.1.
 */
TIDE_EXPORT enum tide_status tide_guard_check(struct tide_resource *guard, uint64_t *damaged);

#ifdef __cplusplus
}
#endif
#endif
