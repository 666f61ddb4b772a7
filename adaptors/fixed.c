/*
 * fixed: serve requests of up to one size with blocks of just that size, and keep them for reuse.
 *
 * Usage: fixed(SIZE [, preallocate=COUNT])
 *     SIZE         of every block
 *     preallocate  blocks to take from upstream at once, on stream 0; none unless asked for
 *
 * Example: requests of 128 to 256 KiB reuse each other's blocks instead of calling the driver:
 *     binning(256KiB={fixed(256KiB, preallocate=8)}) | driver
 *
 * A request takes a block that was freed on its own stream; else one that was freed on another stream, behind
 * tide_order; else a new one from upstream. Where upstream refuses, all idle blocks go back to it, and it is asked
 * once more. No block is ever touched: what is known of them lies on the host.
 *
 * Blocks go back on stream 0, once that waits for all streams: those that they were freed on may be destroyed. That
 * blocks the host until the device is done, but comes only where streams cannot be ordered, and at the end.
 *
 * It knows its pointers: one that it did not give out, or that was freed before, is TIDE_EPOINTER, a size or
 * alignment other than the allocation's TIDE_EMISMATCH.
 *
 * LIMITATIONS
 *  - Idle blocks go back under pressure in this layer only: what another layer over the same upstream is refused does
 *    not free them.
 *  - A stream on which blocks were freed must live until they are taken again, as another stream that takes one over
 *    is ordered behind it; or the application calls tide_order(stack, TIDE_STREAM_ALL, 0) when it destroys streams.
 *  - Where the order behind all streams fails at the end, the blocks stay with upstream, and a warning says so.
 *  - Requests of 0 bytes get NULL and take no block.
 *  - TIDE_QUERY_BYTES_USED is what was asked for, TIDE_QUERY_BYTES_RESERVED all blocks; it knows no
 *    highs of them. Other figures are upstream's.
 */
#include <stdlib.h>

#include <tidemark/base.h>
#include <tidemark/fixed.h>

#include "blocks.h"
#include "kind.h"
#include "lock.h"
#include "resource.h"

struct fixed {
    struct tide_resource base;
    size_t block_bytes;
    uint64_t preallocate;
    struct tidei_lock lock;     /* guards what follows; never held over a call of upstream */
    uint64_t used_bytes;        /* as asked for, outstanding */
    uint32_t moving;            /* blocks on their way to another stream */
    uint32_t travelling;        /* blocks on their way from and to upstream */
    struct tidei_blocks blocks; /* all others, with room for those that travel */
};

/* Note what the block is out for. With `lock` held. */
static void *
fixed_hand_out(struct fixed *fixed, uint32_t number, size_t bytes, size_t alignment, tide_stream stream)
{
    struct tidei_block *block = &fixed->blocks.blocks[number];

    block->bytes = bytes;
    block->alignment = alignment;
    block->stream = stream;
    fixed->used_bytes += bytes;
    return (void *)block->address;
}

static void
fixed_put(struct fixed *fixed, uint32_t block, tide_stream stream)
{
    tidei_lock_take(&fixed->lock);
    tidei_blocks_put(&fixed->blocks, block, stream);
    tidei_lock_give(&fixed->lock);
}

/* Have `stream` wait for where the block was freed; else it is idle again. With `lock` held, but not throughout. */
static bool
fixed_move(struct fixed *fixed, uint32_t block, tide_stream stream)
{
    struct tide_resource *upstream = fixed->base.upstream;
    tide_stream freed_on = fixed->blocks.blocks[block].stream;
    enum tide_status status;

    fixed->moving++;
    tidei_lock_give(&fixed->lock);
    /* The block is out and known to nobody: upstream may take its time. */
    status = upstream->ops->order(upstream, freed_on, stream);
    tidei_lock_take(&fixed->lock);
    fixed->moving--;
    if (status != TIDE_OK)
        tidei_blocks_put(&fixed->blocks, block, freed_on);
    return status == TIDE_OK;
}

/* An idle block into *out; false where there is none, or where `stream` could not be made to wait for it. */
static bool
fixed_reuse(struct fixed *fixed, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    uint32_t block;
    bool found;

    tidei_lock_take(&fixed->lock);
    block = tidei_blocks_take(&fixed->blocks, stream);
    found = block != TIDEI_BLOCK_NONE;
    if (!found) {
        block = tidei_blocks_take_any(&fixed->blocks);
        found = block != TIDEI_BLOCK_NONE && fixed_move(fixed, block, stream);
    }
    if (found)
        *out = fixed_hand_out(fixed, block, bytes, alignment, stream);
    tidei_lock_give(&fixed->lock);
    return found;
}

/* What upstream cannot have meant goes back, unless that would give away what is here. *out is NULL then. */
static enum tide_status
fixed_take_from_upstream(struct fixed *fixed, tide_stream stream, void **out)
{
    struct tide_resource *upstream = fixed->base.upstream;
    enum tide_status status = tidei_allocate(upstream, fixed->block_bytes, TIDE_DEFAULT_ALIGNMENT, stream, out);
    void *pointer = *out;
    bool known;

    if (status != TIDE_OK)
        return status;
    tidei_lock_take(&fixed->lock);
    known = tidei_blocks_find(&fixed->blocks, pointer) != TIDEI_BLOCK_NONE;
    tidei_lock_give(&fixed->lock);
    if (pointer != NULL && !known && (uintptr_t)pointer % TIDE_DEFAULT_ALIGNMENT == 0)
        return TIDE_OK;
    *out = NULL;
    if (pointer != NULL && !known)
        tidei_deallocate(upstream, pointer, fixed->block_bytes, TIDE_DEFAULT_ALIGNMENT, stream);
    return tide_error_set(TIDE_EUPSTREAM, "fixed: %s gave out %p%s", tide_resource_name(upstream), pointer,
                          known             ? ", which it gave before"
                          : pointer != NULL ? ", which is no multiple of 256"
                                            : "");
}

/* A block from upstream, out and of 0 bytes so far, into *number. There is room for it before upstream is asked. */
static enum tide_status
fixed_block_new(struct fixed *fixed, tide_stream stream, uint32_t *number)
{
    enum tide_status status;
    void *pointer;
    bool room;

    tidei_lock_take(&fixed->lock);
    room = tidei_blocks_reserve(&fixed->blocks, (uint64_t)fixed->blocks.count + fixed->travelling + 1);
    fixed->travelling += room;
    tidei_lock_give(&fixed->lock);
    if (!room)
        return tide_error_set(TIDE_ENOMEM, "fixed: no host memory to note another block of %s",
                              tidei_size_text(fixed->block_bytes));
    status = fixed_take_from_upstream(fixed, stream, &pointer);
    tidei_lock_take(&fixed->lock);
    fixed->travelling--;
    if (status == TIDE_OK)
        *number = tidei_blocks_add(&fixed->blocks, pointer, stream);
    tidei_lock_give(&fixed->lock);
    return status;
}

/* Give an idle block of stream 0 to upstream; where that does not want it, it is idle again: false, as for none. */
static bool
fixed_block_return(struct fixed *fixed, bool *none)
{
    uint32_t number;
    void *pointer = NULL;
    bool returned;

    tidei_lock_take(&fixed->lock);
    number = tidei_blocks_take(&fixed->blocks, 0);
    *none = number == TIDEI_BLOCK_NONE;
    if (!*none) {
        pointer = (void *)fixed->blocks.blocks[number].address;
        /* Before upstream is called: the address may come back on another thread at once. */
        tidei_blocks_remove(&fixed->blocks, number);
        fixed->travelling++;
    }
    tidei_lock_give(&fixed->lock);
    if (*none)
        return false;
    returned =
        tidei_deallocate(fixed->base.upstream, pointer, fixed->block_bytes, TIDE_DEFAULT_ALIGNMENT, 0) == TIDE_OK;
    tidei_lock_take(&fixed->lock);
    fixed->travelling--;
    if (!returned)
        tidei_blocks_put(&fixed->blocks, tidei_blocks_add(&fixed->blocks, pointer, 0), 0);
    tidei_lock_give(&fixed->lock);
    return returned;
}

/*
 * Have stream 0 wait for all that was submitted so far, and what is idle be idle there: it has not to be known any
 * more on which stream a block was freed. The blocks can be taken meanwhile.
 */
static enum tide_status
fixed_settle(struct fixed *fixed)
{
    struct tide_resource *upstream = fixed->base.upstream;
    enum tide_status status;
    uint32_t epoch;

    tidei_lock_take(&fixed->lock);
    /* Before the order, which says nothing of work that is submitted, and then freed behind, while it waits. */
    epoch = tidei_blocks_epoch_end(&fixed->blocks);
    tidei_lock_give(&fixed->lock);
    status = upstream->ops->order(upstream, TIDE_STREAM_ALL, 0);
    if (status != TIDE_OK)
        return status;
    tidei_lock_take(&fixed->lock);
    tidei_blocks_settle(&fixed->blocks, epoch, 0);
    tidei_lock_give(&fixed->lock);
    return TIDE_OK;
}

/*
 * Give idle blocks back until no more than `keep` blocks are here, those of now at most, so that threads which go on
 * freeing do not keep this one here. False where the device cannot be waited for, or upstream does not want one.
 */
static bool
fixed_give_back(struct fixed *fixed, uint64_t keep)
{
    uint32_t most;
    bool returned, idle, none = false;

    tidei_lock_take(&fixed->lock);
    most = fixed->blocks.count > keep ? fixed->blocks.count - (uint32_t)keep : 0;
    idle = fixed->blocks.oldest != TIDEI_BLOCK_NONE;
    tidei_lock_give(&fixed->lock);
    if (!idle || most == 0)
        return true;
    returned = fixed_settle(fixed) == TIDE_OK;
    for (uint32_t i = 0; i < most && returned; i++)
        returned = fixed_block_return(fixed, &none);
    return returned || none;
}

/* Whether blocks are idle, or will be if the stream that is to take them cannot wait. */
static bool
fixed_has_more(struct fixed *fixed)
{
    bool more;

    tidei_lock_take(&fixed->lock);
    more = fixed->blocks.oldest != TIDEI_BLOCK_NONE || fixed->moving > 0;
    tidei_lock_give(&fixed->lock);
    return more;
}

/*
 * Upstream has refused: give it back what is idle, and ask again. What others free meanwhile may have come too late to
 * be given back, while others yet have taken what was: then all over again, which ends, as each round leaves a block
 * less here or one more with somebody. Threads may do so at the same time: a block on its way to upstream, which the
 * others do not find, is room for the one that gives it back, or for whoever is faster.
 */
static enum tide_status
fixed_allocate_pressed(struct fixed *fixed, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    enum tide_status status;
    uint32_t number = TIDEI_BLOCK_NONE;
    bool returned;

    do {
        if (fixed_reuse(fixed, bytes, alignment, stream, out)) {
            status = TIDE_OK;
            break;
        }
        returned = fixed_give_back(fixed, 0);
        status = fixed_block_new(fixed, stream, &number);
    } while (status != TIDE_OK && status != TIDE_EUPSTREAM && returned && fixed_has_more(fixed));
    if (number == TIDEI_BLOCK_NONE)
        return status;
    tidei_lock_take(&fixed->lock);
    *out = fixed_hand_out(fixed, number, bytes, alignment, stream);
    tidei_lock_give(&fixed->lock);
    return TIDE_OK;
}

static enum tide_status
fixed_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct fixed *fixed = (struct fixed *)self;
    enum tide_status status;
    uint32_t number;

    *out = NULL;
    if (bytes > fixed->block_bytes)
        return tide_error_set(TIDE_EINVAL, "fixed: %zu B request exceeds %zu B block", bytes, fixed->block_bytes);
    if (alignment > TIDE_DEFAULT_ALIGNMENT)
        return tide_error_set(TIDE_EINVAL, "fixed: alignment of %zu B exceeds %zu B of the blocks", alignment,
                              TIDE_DEFAULT_ALIGNMENT);
    if (bytes == 0 || fixed_reuse(fixed, bytes, alignment, stream, out))
        return TIDE_OK;
    status = fixed_block_new(fixed, stream, &number);
    if (status == TIDE_EUPSTREAM)
        return status;
    if (status != TIDE_OK)
        return fixed_allocate_pressed(fixed, bytes, alignment, stream, out);
    tidei_lock_take(&fixed->lock);
    *out = fixed_hand_out(fixed, number, bytes, alignment, stream);
    tidei_lock_give(&fixed->lock);
    return TIDE_OK;
}

/* What `pointer` was when it could not be freed. */
static enum tide_status
fixed_refuse(enum tide_status status, const struct tidei_block *block, void *pointer, size_t bytes, size_t alignment)
{
    if (status == TIDE_EMISMATCH)
        return tide_error_set(status,
                              "fixed: %p given back with %zu B at a multiple of %zu, allocated with %zu B at %zu",
                              pointer, bytes, alignment, block->bytes, block->alignment);
    if (block->used)
        return tide_error_set(status, "fixed: %p given back, which was given back before", pointer);
    return tide_error_set(status, "fixed: %p given back, which is none of its blocks", pointer);
}

static enum tide_status
fixed_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct fixed *fixed = (struct fixed *)self;
    struct tidei_block block = { 0 };
    enum tide_status status = TIDE_OK;
    uint32_t number;

    if (pointer == NULL && bytes == 0)
        return TIDE_OK;
    tidei_lock_take(&fixed->lock);
    number = tidei_blocks_find(&fixed->blocks, pointer);
    if (number != TIDEI_BLOCK_NONE)
        block = fixed->blocks.blocks[number];
    /* A block of 0 bytes is out, but to nobody: on its way to or from upstream or another stream. */
    if (!block.out || block.bytes == 0)
        status = TIDE_EPOINTER;
    else if (block.bytes != bytes || block.alignment != alignment)
        status = TIDE_EMISMATCH;
    if (status == TIDE_OK) {
        fixed->used_bytes -= bytes;
        fixed->blocks.blocks[number].bytes = 0;
        tidei_blocks_put(&fixed->blocks, number, stream);
    }
    tidei_lock_give(&fixed->lock);
    return status == TIDE_OK ? TIDE_OK : fixed_refuse(status, &block, pointer, bytes, alignment);
}

/* An order of stream 0 behind all is the application's word that streams may go. */
static enum tide_status
fixed_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    if (earlier != TIDE_STREAM_ALL || later != 0)
        return tide_pass_order(self, earlier, later);
    return fixed_settle((struct fixed *)self);
}

/* It is no failure of a trim that blocks are kept which the device cannot be waited for, or upstream does not want. */
static enum tide_status
fixed_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    struct fixed *fixed = (struct fixed *)self;
    struct tidei_error error;

    tidei_error_save(&error);
    if (!fixed_give_back(fixed, keep_bytes / fixed->block_bytes + (keep_bytes % fixed->block_bytes != 0)))
        tidei_error_restore(&error);
    return tide_pass_trim(self, keep_bytes);
}

static enum tide_status
fixed_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    struct fixed *fixed = (struct fixed *)self;

    if (what == TIDE_QUERY_BYTES_USED_HIGH || what == TIDE_QUERY_BYTES_RESERVED_HIGH)
        return tide_base_query(self, what, out); /* upstream's would be of other bytes */
    if (what == TIDE_QUERY_LARGEST_REQUEST) {
        *out = fixed->block_bytes;
        return TIDE_OK;
    }
    if (what != TIDE_QUERY_BYTES_USED && what != TIDE_QUERY_BYTES_RESERVED)
        return tide_pass_query(self, what, out);
    tidei_lock_take(&fixed->lock);
    *out = what == TIDE_QUERY_BYTES_USED ? fixed->used_bytes : (uint64_t)fixed->blocks.count * fixed->block_bytes;
    tidei_lock_give(&fixed->lock);
    return TIDE_OK;
}

static void
fixed_describe(struct tide_resource *self, struct tide_text *text)
{
    const struct fixed *fixed = (const struct fixed *)self;

    tide_text_size(text, fixed->block_bytes);
    if (fixed->preallocate != 0)
        tide_text_format(text, ", preallocate=%llu", (unsigned long long)fixed->preallocate);
}

/*
 * Also what is still out: it is upstream's, and nobody may use it from now on. Without order it stays there: that it is
 * lost does less harm than that somebody else gets it while the device still works on it.
 */
static void
fixed_return_all(struct fixed *fixed)
{
    struct tide_resource *upstream = fixed->base.upstream;

    if (upstream->ops->order(upstream, TIDE_STREAM_ALL, 0) != TIDE_OK) {
        tidei_message(TIDE_WARNING, "fixed: %u blocks of %s stay with upstream, not ordered behind their use",
                      (unsigned)fixed->blocks.count, tidei_size_text(fixed->block_bytes));
        return;
    }
    for (uint32_t i = 0; i < fixed->blocks.capacity; i++) {
        const struct tidei_block *block = &fixed->blocks.blocks[i];

        if (block->used)
            tidei_deallocate(upstream, (void *)block->address, fixed->block_bytes, TIDE_DEFAULT_ALIGNMENT, 0);
    }
}

static void
fixed_destroy(struct tide_resource *self)
{
    struct fixed *fixed = (struct fixed *)self;

    if (fixed->blocks.count > 0)
        fixed_return_all(fixed);
    tidei_blocks_fini(&fixed->blocks);
    tidei_lock_fini(&fixed->lock);
    tide_resource_fini(self);
    free(fixed);
}

static const struct tide_resource_ops fixed_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "fixed",
    .allocate = fixed_allocate,
    .deallocate = fixed_deallocate,
    .order = fixed_order,
    .trim = fixed_trim,
    .query = fixed_query,
    .describe = fixed_describe,
    .upstream_at = tide_pass_upstream_at,
    .destroy = fixed_destroy,
};

/* Take the first blocks. What was taken before a failure goes back when the resource is destroyed. */
static enum tide_status
fixed_preallocate(struct fixed *fixed)
{
    if (fixed->preallocate > SIZE_MAX / fixed->block_bytes)
        return tide_error_set(TIDE_EOVERFLOW, "fixed: the sizes of %llu blocks of %s overflow",
                              (unsigned long long)fixed->preallocate, tidei_size_text(fixed->block_bytes));
    if (!tidei_blocks_reserve(&fixed->blocks, fixed->preallocate))
        return tide_error_set(TIDE_ENOMEM, "fixed: no host memory to note %llu blocks",
                              (unsigned long long)fixed->preallocate);
    for (uint64_t i = 0; i < fixed->preallocate; i++) {
        uint32_t number;
        enum tide_status status = fixed_block_new(fixed, 0, &number);

        if (status != TIDE_OK)
            return status;
        fixed_put(fixed, number, 0);
    }
    return TIDE_OK;
}

/* The resource itself, without blocks. */
static enum tide_status
fixed_new(struct tide_resource *upstream, struct fixed **out)
{
    struct fixed *fixed = calloc(1, sizeof(*fixed));
    enum tide_status status;

    if (fixed == NULL)
        return tide_error_set(TIDE_ENOMEM, "fixed: no host memory for %zu B", sizeof(*fixed));
    tidei_blocks_init(&fixed->blocks);
    status = tidei_lock_init(&fixed->lock);
    if (status != TIDE_OK)
        goto free_fixed;
    status = tide_resource_init(&fixed->base, &fixed_ops, upstream);
    if (status != TIDE_OK)
        goto fini_lock;
    *out = fixed;
    return TIDE_OK;

fini_lock:
    tidei_lock_fini(&fixed->lock);
free_fixed:
    free(fixed);
    return status;
}

enum tide_status
tide_fixed_create(struct tide_resource *upstream, const struct tide_fixed_options *options, struct tide_resource **out)
{
    struct tide_fixed_options known;
    enum tide_status status;
    struct fixed *fixed = NULL;

    if (out == NULL)
        return tide_error_set(TIDE_EINVAL, "fixed: no place for the resource");
    *out = NULL;
    if (upstream == NULL)
        return tide_error_set(TIDE_EINVAL, "fixed: no upstream");
    status = tidei_options_copy("fixed", options, &known, sizeof(known));
    if (status != TIDE_OK)
        return status;
    if (known.block_bytes == 0)
        return tide_error_set(TIDE_EINVAL, "fixed: blocks of 0 B");
    status = fixed_new(upstream, &fixed);
    if (status != TIDE_OK)
        return status;
    fixed->block_bytes = known.block_bytes;
    fixed->preallocate = known.preallocate;
    status = fixed_preallocate(fixed);
    if (status != TIDE_OK) {
        tide_resource_release(&fixed->base);
        return status;
    }
    *out = &fixed->base;
    return TIDE_OK;
}

enum { FIXED_BLOCK, FIXED_PREALLOCATE };

static const struct tidei_argument fixed_arguments[] = {
    [FIXED_BLOCK] = { .key = "block",
                      .type = TIDEI_ARGUMENT_SIZE,
                      .positional = true,
                      .required = true,
                      .least = 1,
                      .expected = "a size such as 256KiB" },
    [FIXED_PREALLOCATE] = { .key = "preallocate", .type = TIDEI_ARGUMENT_COUNT, .expected = "a number of blocks" },
};

static enum tide_status
fixed_from_text(const struct tidei_arguments *arguments, struct tide_resource *upstream, struct tide_resource **out)
{
    struct tide_fixed_options options = { TIDE_OPTIONS(options), .block_bytes = arguments->values[FIXED_BLOCK].number,
                                          .preallocate = arguments->values[FIXED_PREALLOCATE].number };

    if (arguments->values[FIXED_PREALLOCATE].given)
        *arguments->error_column = arguments->values[FIXED_PREALLOCATE].column; /* should there be no room for them */
    return tide_fixed_create(upstream, &options, out);
}

const struct tidei_kind tidei_fixed_kind = {
    .name = "fixed",
    .arguments = fixed_arguments,
    .argument_count = TIDEI_COUNT_OF(fixed_arguments),
    .create = fixed_from_text,
};
