/*
 * The chunks that a layer has from upstream, to hand out parts of them: all its requests for chunks go through here. A
 * trace without a `log` below the layer attaches a tap, through which the requests then pass; so it records them as
 * such a `log` would. What the layer had before is listed for it.
 *
 * Where some of several ways down have a `log` of that trace, the tap says the chunks that passed none of them. While a
 * chunk is requested, tidei_thread->untold is the trace of the tap, and a log below that records it sets NULL. What
 * another suballocator on the way requests for that chunk is none of the tap's.
 *
 * A request for a chunk takes a short lock here, and so does a return; an allocation that a chunk serves takes none.
 */
#ifndef TIDEI_SUBALLOC_CHUNKS_H
#define TIDEI_SUBALLOC_CHUNKS_H

#include "src/resource/resource.h"
#include "src/sync/lock.h"
#include "src/tables/blocks.h"

/* What a trace attaches to a layer's chunks; the trace embeds it. */
struct tidei_chunk_tap {
    struct tide_resource *through; /* called in place of upstream, but for returns of chunks that a log below knows */
    const void *trace;             /* only compared */
    /* The layer is destroyed: it has returned its chunks, and no call is in progress. */
    void (*end)(struct tidei_chunk_tap *tap);
};

struct tidei_chunks {
    const char *name;               /* of the layer, for messages */
    struct tide_resource *upstream; /* borrowed: the layer's */
    struct tidei_lock lock;         /* guards the fields below; never held over a call of upstream */
    struct tidei_blocks held;       /* with room for the calls in progress; `told`: a log below the tap knows it */
    uint32_t calls;                 /* in progress: requests and returns */
    bool paused;                    /* new calls wait */
    uint32_t forks;                 /* tidei_fork_generation when these two were set */
    struct tidei_chunk_tap *tap;    /* NULL: none */
    bool nvtx; /* a tool is told of the layer's chunks and blocks (src/nvtx/blocks.h); the layer sets it at creation */
    /* Of all in `held`, and its peak. Written with the lock; read without it by samples, in relaxed order. */
    _Atomic uint64_t bytes, high_bytes;
};

void tidei_chunks_init(struct tidei_chunks *chunks, const char *name, struct tide_resource *upstream);

/* Ends the tap. The layer has returned its chunks, or leaves them to upstream. */
void tidei_chunks_fini(struct tidei_chunks *chunks);

/* Request a chunk from upstream, or return one. Errors: TIDE_ENOMEM (the chunk cannot be noted), upstream's. */
enum tide_status tidei_chunks_allocate(struct tidei_chunks *chunks, size_t bytes, size_t alignment, tide_stream stream,
                                       void **out);
enum tide_status tidei_chunks_deallocate(struct tidei_chunks *chunks, void *pointer, size_t bytes, size_t alignment,
                                         tide_stream stream);

/* The figures of a layer that has `used_bytes` handed out; a sum read while threads go on may be too large. */
void tidei_chunks_figures(const struct tidei_chunks *chunks, uint64_t used_bytes, struct tidei_layer_figures *out);

/*
 * Keep new calls waiting, and return once none is in progress. Until tidei_chunks_resume the caller may read and write
 * all fields. One thread at a time; it pauses a layer before the layers below it, and calls none of them.
 */
void tidei_chunks_pause(struct tidei_chunks *chunks);
void tidei_chunks_resume(struct tidei_chunks *chunks);

#endif
