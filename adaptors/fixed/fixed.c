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
 * tide_order; else a new one from upstream; of the first two those that its own thread has allocated before are looked
 * for first (adaptors/fixed/block-shards.h). Where upstream refuses, all idle blocks go back to it, and it is asked
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

#include <tidemark/fixed.h>

#include "adaptors/fixed/block-shards.h"
#include "src/resource/kind.h"
#include "src/resource/resource.h"

struct fixed {
    struct tide_resource base;
    size_t block_bytes;
    uint64_t preallocate;
    struct tidei_block_shards *blocks; /* owned */
};

/*
 * Upstream has refused: give it back what is idle, and ask again. What others free meanwhile may have come too late to
 * be given back, while others yet have taken what was: then all over again, which ends, as each round leaves a block
 * less here or one more with somebody. Threads may do so at the same time: a block on its way to upstream, which the
 * others do not find, is room for the one that gives it back, or for whoever is faster.
 */
static enum tide_status
fixed_allocate_pressed(struct tidei_block_shards *blocks, const struct tidei_block_request *request, void **out)
{
    enum tide_status status;
    bool returned;

    do {
        if (tidei_block_shards_reuse(blocks, request, out))
            return TIDE_OK;
        returned = tidei_block_shards_give_back(blocks, 0);
        status = tidei_block_shards_grow(blocks, request, out);
    } while (status != TIDE_OK && status != TIDE_EUPSTREAM && returned && tidei_block_shards_have_more(blocks));
    return status;
}

static enum tide_status
fixed_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct fixed *fixed = (struct fixed *)self;
    const struct tidei_block_request request = { bytes, alignment, stream };
    enum tide_status status;

    *out = NULL;
    if (bytes > fixed->block_bytes)
        return tide_error_set(TIDE_EINVAL, "fixed: %zu B request exceeds %zu B block", bytes, fixed->block_bytes);
    if (alignment > TIDE_DEFAULT_ALIGNMENT)
        return tide_error_set(TIDE_EINVAL, "fixed: alignment of %zu B exceeds %zu B of the blocks", alignment,
                              TIDE_DEFAULT_ALIGNMENT);
    if (bytes == 0 || tidei_block_shards_reuse(fixed->blocks, &request, out))
        return TIDE_OK;
    status = tidei_block_shards_grow(fixed->blocks, &request, out);
    if (status == TIDE_OK || status == TIDE_EUPSTREAM)
        return status;
    return fixed_allocate_pressed(fixed->blocks, &request, out);
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
    const struct tidei_block_request request = { bytes, alignment, stream };
    struct tidei_block was;
    enum tide_status status;

    if (pointer == NULL && bytes == 0)
        return TIDE_OK;
    status = tidei_block_shards_free(((struct fixed *)self)->blocks, pointer, &request, &was);
    return status == TIDE_OK ? TIDE_OK : fixed_refuse(status, &was, pointer, bytes, alignment);
}

/* An order of stream 0 behind all is the application's word that streams may go. */
static enum tide_status
fixed_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    if (earlier != TIDE_STREAM_ALL || later != 0)
        return tide_pass_order(self, earlier, later);
    return tidei_block_shards_settle(((struct fixed *)self)->blocks);
}

/* It is no failure of a trim that blocks are kept which the device cannot be waited for, or upstream does not want. */
static enum tide_status
fixed_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    struct fixed *fixed = (struct fixed *)self;
    uint64_t keep = keep_bytes / fixed->block_bytes + (keep_bytes % fixed->block_bytes != 0);
    struct tidei_error error;

    tidei_error_save(&error);
    if (!tidei_block_shards_give_back(fixed->blocks, keep))
        tidei_error_restore(&error);
    return tide_pass_trim(self, keep_bytes);
}

static enum tide_status
fixed_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    struct fixed *fixed = (struct fixed *)self;
    uint64_t used_bytes, count;

    if (what == TIDE_QUERY_BYTES_USED_HIGH || what == TIDE_QUERY_BYTES_RESERVED_HIGH)
        return tide_base_query(self, what, out); /* upstream's would be of other bytes */
    if (what == TIDE_QUERY_LARGEST_REQUEST) {
        *out = fixed->block_bytes;
        return TIDE_OK;
    }
    if (what != TIDE_QUERY_BYTES_USED && what != TIDE_QUERY_BYTES_RESERVED)
        return tide_pass_query(self, what, out);
    tidei_block_shards_read(fixed->blocks, &used_bytes, &count);
    *out = what == TIDE_QUERY_BYTES_USED ? used_bytes : count * fixed->block_bytes;
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

static void
fixed_destroy(struct tide_resource *self)
{
    struct fixed *fixed = (struct fixed *)self;

    tidei_block_shards_destroy(fixed->blocks);
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
    const struct tidei_block_request request = { .alignment = TIDE_DEFAULT_ALIGNMENT };
    enum tide_status status = TIDE_OK;
    void *none;

    if (fixed->preallocate > SIZE_MAX / fixed->block_bytes)
        return tide_error_set(TIDE_EOVERFLOW, "fixed: the sizes of %llu blocks of %s overflow",
                              (unsigned long long)fixed->preallocate, tidei_size_text(fixed->block_bytes));
    if (fixed->preallocate > TIDEI_BLOCKS_MAX)
        return tide_error_set(TIDE_ENOMEM, "fixed: no host memory to note %llu blocks",
                              (unsigned long long)fixed->preallocate);
    for (uint64_t i = 0; i < fixed->preallocate && status == TIDE_OK; i++)
        status = tidei_block_shards_grow(fixed->blocks, &request, &none);
    return status;
}

enum tide_status
tide_fixed_create(struct tide_resource *upstream, const struct tide_fixed_options *options, struct tide_resource **out)
{
    struct tide_fixed_options known;
    enum tide_status status;
    struct fixed *fixed;

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
    fixed = calloc(1, sizeof(*fixed));
    if (fixed == NULL)
        return tide_error_set(TIDE_ENOMEM, "fixed: no host memory for %zu B", sizeof(*fixed));
    fixed->block_bytes = known.block_bytes;
    fixed->preallocate = known.preallocate;
    status = tidei_block_shards_create(upstream, known.block_bytes, &fixed->blocks);
    if (status == TIDE_OK)
        status = tide_resource_init(&fixed->base, &fixed_ops, upstream);
    if (status != TIDE_OK) {
        tidei_block_shards_destroy(fixed->blocks);
        free(fixed);
        return status;
    }
    status = fixed_preallocate(fixed);
    if (status == TIDE_OK)
        *out = &fixed->base;
    else
        tide_resource_release(&fixed->base);
    return status;
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
