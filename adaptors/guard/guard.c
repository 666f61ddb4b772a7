/*
 * guard: detect writes past the ends of a block, and into freed memory.
 *
 * Usage: guard(canary=SIZE, hold=SIZE)
 *     canary  bytes before and behind each block that nobody may write to; a power of two, 256 unless given
 *     hold    bytes of freed blocks that are kept, filled with a pattern, to detect writes; 16 MiB unless given
 *
 * Example: damage is reported when a block is freed, and to the message sink:
 *     guard(hold=1GiB) | driver
 *
 * The canaries are written when a block is handed out and checked when it is freed. A freed block is checked when it is
 * given back to upstream. tide_guard_check checks all blocks at once. On a device, writes and checks follow the order
 * of the call's stream.
 *
 * LIMITATIONS
 *  - Reads, and writes beyond the canaries, are not detected; compute-sanitizer detects those, and is slower.
 *  - A deallocation on a device waits for its stream, so work that used to overlap may no longer do so.
 *  - While a stream is captured into a graph, nothing is checked, and blocks freed in it are not held. Memory that the
 *    host checks itself (pinned, managed) must not be freed while any stream is captured.
 *  - Each block takes two canaries more, the first one enlarged to the block's alignment. The layers below see these
 *    sizes.
 *  - TIDE_QUERY_BYTES_USED is the bytes requested, TIDE_QUERY_BYTES_RESERVED includes canaries and freed blocks. Their
 *    peaks are not counted.
 */
#include <inttypes.h>
#include <stdlib.h>

#include <tidemark/guard.h>

#include "adaptors/guard/canaries.h"
#include "src/resource/kind.h"
#include "src/resource/resource.h"
#include "adaptors/guard/watched-blocks.h"

struct guard {
    struct tide_resource base;
    struct tidei_canaries canaries;
    struct tidei_watched blocks; /* the room around a block is its canaries */
    struct tide_guard_options options;
};

static enum tide_status
guard_give(struct guard *guard, const struct tidei_watched_block *block, tide_stream stream)
{
    size_t total;

    (void)tidei_watched_total(&guard->blocks, block->bytes, block->alignment, &total);
    return tidei_deallocate(guard->base.upstream,
                            block->pointer - tidei_watched_front(&guard->blocks, block->alignment), total,
                            block->alignment, stream);
}

/*
 * Give held blocks back to upstream, oldest first, until no more than `keep_bytes` are held. All work submitted before
 * they were freed is done, so any stream will do. A block that upstream refuses is held again.
 */
static void
guard_release(struct guard *guard, uint64_t keep_bytes, tide_stream stream, unsigned char *buffer)
{
    struct tidei_watched_block block;
    struct tidei_error error;
    uint64_t damaged = 0;
    bool gone = true;

    tidei_error_save(&error);
    while (gone && tidei_watched_take_held(&guard->blocks, keep_bytes, !tidei_canaries_tells(), &block)) {
        if (buffer != NULL)
            (void)tidei_canaries_look_freed(&guard->canaries, &block, stream, buffer, &damaged);
        gone = guard_give(guard, &block, stream) == TIDE_OK;
        if (!gone && !tidei_watched_add(&guard->blocks, &block, true))
            tidei_message(TIDE_ERROR, "guard: no host memory to note a freed block of %s again that was not taken back",
                          tidei_size_text(block.bytes));
        tidei_watched_settle(&guard->blocks, &block, gone);
    }
    tidei_error_restore(&error);
}

/*
 * Upstream has no room: give all held blocks back, wait for those that other threads are giving back, and hold none
 * that are freed meanwhile. If upstream still refuses, there is no room. True where a block has gone since `left`.
 */
static bool
guard_make_room(struct guard *guard, uint64_t left, tide_stream stream)
{
    unsigned char *buffer = malloc(TIDEI_CANARIES_PIECE);

    guard_release(guard, 0, stream, buffer);
    free(buffer);
    if (!tidei_canaries_tells())
        tidei_watched_wait(&guard->blocks);
    return tidei_watched_left(&guard->blocks) != left;
}

static enum tide_status
guard_allocate_total(struct guard *guard, size_t total, size_t alignment, tide_stream stream, void **out)
{
    uint64_t left = tidei_watched_left(&guard->blocks);
    enum tide_status status = tidei_allocate(guard->base.upstream, total, alignment, stream, out);

    if ((status != TIDE_ECAPACITY && status != TIDE_ELIMIT) ||
        tidei_memory_io_is_captured(&guard->canaries.touch, stream))
        return status;
    tidei_watched_press(&guard->blocks);
    if (guard_make_room(guard, left, stream))
        status = tidei_allocate(guard->base.upstream, total, alignment, stream, out);
    tidei_watched_relax(&guard->blocks);
    return status;
}

static enum tide_status
guard_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct guard *guard = (struct guard *)self;
    struct tidei_watched_block block = { .bytes = bytes, .alignment = alignment };
    struct tidei_error error;
    enum tide_status status;
    size_t total;
    void *given;

    *out = NULL;
    if (bytes == 0)
        return tidei_allocate(self->upstream, bytes, alignment, stream, out);
    if (!tidei_watched_total(&guard->blocks, bytes, alignment, &total))
        return tide_error_set(TIDE_EOVERFLOW, "guard: %s request overflows with its canaries", tidei_size_text(bytes));
    status = guard_allocate_total(guard, total, alignment, stream, &given);
    if (status != TIDE_OK)
        return status;
    block.pointer = (unsigned char *)given + tidei_watched_front(&guard->blocks, alignment);
    status = tidei_canaries_fill(&guard->canaries, &block, stream);
    if (status == TIDE_OK && !tidei_watched_add(&guard->blocks, &block, false))
        status = tide_error_set(TIDE_ENOMEM, "guard: no host memory to note another block");
    if (status == TIDE_OK) {
        *out = block.pointer;
        return TIDE_OK;
    }
    tidei_error_save(&error);
    guard_give(guard, &block, stream);
    tidei_error_restore(&error);
    return status;
}

/* Check a block that is being freed. TIDE_EDAMAGED, with its canaries rewritten, where they have changed. */
static enum tide_status
guard_inspect(struct guard *guard, const struct tidei_watched_block *block, tide_stream stream, unsigned char *buffer)
{
    enum tide_status status =
        guard->canaries.touch.host ? tidei_memory_io_wait(&guard->canaries.touch, stream) : TIDE_OK;
    uint64_t damaged = 0;

    if (status == TIDE_OK)
        status = tidei_canaries_look(&guard->canaries, block, stream, buffer, &damaged);
    if (status != TIDE_OK || damaged == 0)
        return status;
    status = tidei_canaries_fill(&guard->canaries, block, stream);
    if (status != TIDE_OK)
        return status;
    return tide_error_set(TIDE_EDAMAGED, "guard: bytes have changed %s block %p of %s",
                          damaged == 2 ? "before and behind" : "before or behind", block->pointer,
                          tidei_size_text(block->bytes));
}

/* Fill the block with the pattern and hold it; false where it must go back to upstream now. */
static bool
guard_keep(struct guard *guard, const struct tidei_watched_block *block, tide_stream stream, unsigned char *buffer)
{
    if (guard->options.hold_bytes == 0 || block->bytes > guard->options.hold_bytes)
        return false;
    if (tidei_canaries_fill_freed(&guard->canaries, block, stream) != TIDE_OK ||
        !tidei_watched_hold(&guard->blocks, block))
        return false;
    guard_release(guard, guard->options.hold_bytes, stream, buffer);
    return true;
}

static enum tide_status
guard_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct guard *guard = (struct guard *)self;
    struct tidei_watched_block block;
    enum tide_status status;
    unsigned char *buffer;
    bool captured, kept;

    if (pointer == NULL && bytes == 0)
        return tidei_deallocate(self->upstream, pointer, bytes, alignment, stream);
    buffer = tidei_canaries_buffer();
    if (buffer == NULL)
        return TIDE_ENOMEM;
    status = tidei_watched_take(&guard->blocks, "guard", pointer, bytes, alignment, &block);
    if (status != TIDE_OK)
        goto out;
    captured = tidei_memory_io_is_captured(&guard->canaries.touch, stream);
    if (!captured)
        status = guard_inspect(guard, &block, stream, buffer);
    kept = status == TIDE_OK && !captured && guard_keep(guard, &block, stream, buffer);
    if (status == TIDE_OK && !kept)
        status = guard_give(guard, &block, stream);
    if (status != TIDE_OK && !tidei_watched_add(&guard->blocks, &block, false))
        tidei_message(TIDE_ERROR,
                      "guard: no host memory to note that %p (%s), which could not be freed, is outstanding", pointer,
                      tidei_size_text(bytes));
out:
    free(buffer);
    return status;
}

static enum tide_status
guard_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    struct guard *guard = (struct guard *)self;
    unsigned char *buffer = tidei_canaries_buffer();

    if (buffer == NULL)
        return TIDE_ENOMEM;
    guard_release(guard, keep_bytes, 0, buffer);
    free(buffer);
    return tide_pass_trim(self, keep_bytes);
}

static enum tide_status
guard_query(struct tide_resource *self, enum tide_query what, uint64_t *out)
{
    struct guard *guard = (struct guard *)self;
    struct tidei_watched_figures figures;
    enum tide_status status;

    switch (what) {
    case TIDE_QUERY_BYTES_USED_HIGH:
    case TIDE_QUERY_BYTES_RESERVED_HIGH:
        return tide_base_query(self, what, out); /* upstream's figures are about other bytes */
    case TIDE_QUERY_BYTES_USED:
    case TIDE_QUERY_BYTES_RESERVED:
        tidei_watched_read(&guard->blocks, &figures);
        *out = what == TIDE_QUERY_BYTES_USED ? figures.used_bytes : figures.reserved_bytes;
        return TIDE_OK;
    case TIDE_QUERY_ALIGNMENT:
        status = tide_pass_query(self, what, out);
        if (status == TIDE_OK && *out > guard->blocks.around_bytes)
            *out = guard->blocks.around_bytes;
        return status;
    case TIDE_QUERY_LARGEST_REQUEST:
        status = tide_pass_query(self, what, out);
        if (status == TIDE_OK)
            *out -= *out < 2 * guard->blocks.around_bytes ? *out : 2 * guard->blocks.around_bytes;
        return status;
    default:
        return tide_pass_query(self, what, out);
    }
}

/* Give all held blocks back. A block that upstream refuses is leaked, with a message. */
static void
guard_leave(struct guard *guard)
{
    unsigned char *buffer = tidei_canaries_buffer();
    struct tidei_watched_block block;
    uint64_t damaged = 0, lost = 0, lost_bytes = 0;

    while (tidei_watched_take_held(&guard->blocks, 0, true, &block)) {
        if (buffer != NULL)
            (void)tidei_canaries_look_freed(&guard->canaries, &block, 0, buffer, &damaged);
        if (guard_give(guard, &block, 0) == TIDE_OK)
            continue;
        lost++;
        lost_bytes += block.bytes;
    }
    free(buffer);
    if (lost > 0)
        tidei_message(TIDE_ERROR, "guard: %s does not take %" PRIu64 " freed blocks back, %s: %s",
                      tide_resource_name(guard->base.upstream), lost, tidei_size_text(lost_bytes), tide_error_text());
}

static void
guard_fini(struct tide_resource *self)
{
    struct guard *guard = (struct guard *)self;

    guard_leave(guard);
    tidei_watched_fini(&guard->blocks);
    tidei_memory_io_close(&guard->canaries.touch);
}

static enum tide_status
guard_init(struct tide_resource *self, size_t *fault)
{
    struct guard *guard = (struct guard *)self;
    size_t canary_bytes = (size_t)guard->options.canary_bytes;
    enum tide_status status;

    (void)fault;
    tidei_watched_init(&guard->blocks, canary_bytes);
    guard->canaries.bytes = canary_bytes;
    guard->canaries.function = guard->options.function;
    guard->canaries.context = guard->options.context;
    status = tidei_memory_io_open(&guard->canaries.touch, "guard", self->upstream);
    if (status != TIDE_OK)
        tidei_watched_fini(&guard->blocks);
    return status;
}

static const struct tidei_argument guard_arguments[] = {
    { .key = "canary",
      .type = TIDEI_ARGUMENT_SIZE,
      .power_of_two = true,
      .least = 16,
      .most = UINT64_C(1) << 20,
      .default_value = 256,
      .expected = "a power of two from 16 to 1MiB",
      TIDEI_FIELD(struct tide_guard_options, canary_bytes) },
    { .key = "hold",
      .type = TIDEI_ARGUMENT_SIZE,
      .most = UINT64_C(1) << 50,
      .default_value = UINT64_C(16) << 20,
      .zero_value = TIDE_NONE,
      .expected = "a size such as 1GiB",
      TIDEI_FIELD(struct tide_guard_options, hold_bytes) },
};

const struct tidei_kind tidei_guard_kind = {
    .ops = {
        .version = TIDE_RESOURCE_OPS_VERSION,
        .name = "guard",
        .allocate = guard_allocate,
        .deallocate = guard_deallocate,
        .order = tide_pass_order,
        .trim = guard_trim,
        .query = guard_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
        .destroy = tidei_kind_destroy,
    },
    .arguments = guard_arguments,
    .argument_count = TIDEI_COUNT_OF(guard_arguments),
    .options_size = sizeof(struct tide_guard_options),
    .asks_memory = true,
    TIDEI_KIND_STRUCT(struct guard),
    .init = guard_init,
    .fini = guard_fini,
};

enum tide_status
tide_guard_create(struct tide_resource *upstream, const struct tide_guard_options *options, struct tide_resource **out)
{
    return tidei_kind_create(&tidei_guard_kind, upstream, options, out);
}

/*
 * Check the blocks one by one, each pinned meanwhile, so that other threads go on. Blocks entered after the order are
 * left out: their canaries may not be written yet.
 */
static enum tide_status
guard_check_all(struct guard *guard, unsigned char *buffer, uint64_t *damaged)
{
    uint32_t epoch = tidei_watched_epoch_end(&guard->blocks);
    enum tide_status status = guard->base.upstream->ops->order(guard->base.upstream, TIDE_STREAM_ALL, 0);
    struct tidei_watched_figures figures;

    tidei_watched_read(&guard->blocks, &figures);
    for (uint32_t number = 0; status == TIDE_OK && number < figures.numbers; number++) {
        struct tidei_watched_block block;
        bool held;

        if (!tidei_watched_pin(&guard->blocks, number, epoch, &block, &held))
            continue;
        status = held ? tidei_canaries_look_freed(&guard->canaries, &block, 0, buffer, damaged)
                      : tidei_canaries_look(&guard->canaries, &block, 0, buffer, damaged);
        tidei_watched_unpin(&guard->blocks, number);
    }
    return status;
}

enum tide_status
tide_guard_check(struct tide_resource *resource, uint64_t *damaged)
{
    struct guard *guard = (struct guard *)resource;
    unsigned char *buffer;
    enum tide_status status;
    uint64_t found = 0;

    if (damaged != NULL)
        *damaged = 0;
    if (resource == NULL || resource->ops != &tidei_guard_kind.ops)
        return tide_error_set(TIDE_EINVAL, "guard: not a guard resource");
    buffer = tidei_canaries_buffer();
    if (buffer == NULL)
        return TIDE_ENOMEM;
    status = guard_check_all(guard, buffer, &found);
    free(buffer);
    if (damaged != NULL)
        *damaged = found;
    if (status != TIDE_OK || found == 0)
        return status;
    return tide_error_set(TIDE_EDAMAGED, "guard: bytes have changed in %" PRIu64 " places", found);
}
