/*
 * Blocks of one size from one upstream that threads share: each thread has a table of its own (src/tables/blocks.h)
 * behind a lock that is biased to it, and takes over what is idle in those of others before upstream is asked for more.
 *
 * A block is in one table, whoever has it out: who frees it puts it there, so that the thread that took it finds it
 * again. No lock is held over a call of upstream. Who holds two of the locks has taken the newer one first, as fork()
 * does. There is room in the tables for what is on its way from and to upstream, so that it cannot be lost.
 *
 * Progress: all take locks; none waits for upstream but in its own call of it.
 */
#ifndef TIDEI_ADAPTORS_FIXED_BLOCK_SHARDS_H
#define TIDEI_ADAPTORS_FIXED_BLOCK_SHARDS_H

#include "src/tables/blocks.h"
#include "src/resource/resource.h"

struct tidei_block_shards;

/* What a block is taken for. */
struct tidei_block_request {
    size_t bytes; /* not 0 */
    size_t alignment;
    tide_stream stream;
};

/* `upstream` is borrowed. Errors: TIDE_ENOMEM, with the text set. */
enum tide_status tidei_block_shards_create(struct tide_resource *upstream, size_t block_bytes,
                                           struct tidei_block_shards **out);

/*
 * Also what is still out goes back: it is upstream's, and nobody may use it from now on. Without order it stays there,
 * and a warning says so: that it is lost does less harm than that somebody else gets it while the device still works
 * on it. NULL is allowed.
 */
void tidei_block_shards_destroy(struct tidei_block_shards *shards);

/*
 * An idle block into *out: one that was freed on the request's stream, else another that the stream is made to wait
 * for. False where there is none, or it could not.
 */
bool tidei_block_shards_reuse(struct tidei_block_shards *shards, const struct tidei_block_request *request, void **out);

/*
 * A new block from upstream into *out; idle on the stream where the request has 0 bytes. Nothing is asked of upstream
 * that could not be noted. On failure *out is NULL.
 * Errors: TIDE_ENOMEM, TIDE_EUPSTREAM, and upstream's.
 */
enum tide_status tidei_block_shards_grow(struct tidei_block_shards *shards, const struct tidei_block_request *request,
                                         void **out);

/*
 * Make a block idle on the request's stream. On failure *was is what it is, `used` being false where no table has it.
 * Errors: TIDE_EPOINTER (not out), TIDE_EMISMATCH; without text.
 */
enum tide_status tidei_block_shards_free(struct tidei_block_shards *shards, const void *pointer,
                                         const struct tidei_block_request *request, struct tidei_block *was);

/*
 * Have stream 0 wait for all that was submitted so far, and what is idle be idle there: it has not to be known any
 * more on which stream a block was freed. The blocks can be taken meanwhile.
 */
enum tide_status tidei_block_shards_settle(struct tidei_block_shards *shards);

/*
 * Give idle blocks back until no more than `keep` blocks are here, those of now at most, so that threads which go on
 * freeing do not keep this one here. False where the device cannot be waited for, or upstream does not want one.
 */
bool tidei_block_shards_give_back(struct tidei_block_shards *shards, uint64_t keep);

/* Whether blocks are idle, or will be if the stream that is to take them cannot wait. */
bool tidei_block_shards_have_more(struct tidei_block_shards *shards);

/* At one moment: bytes outstanding, as they were asked for, and blocks. */
void tidei_block_shards_read(struct tidei_block_shards *shards, uint64_t *used_bytes, uint64_t *count);

#endif
