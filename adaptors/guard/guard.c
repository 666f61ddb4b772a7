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
#include <string.h>

#include <tidemark/guard.h>

#include "adaptors/guard/watched-blocks.h"
#include "src/cuda/memory-io.h"
#include "src/resource/kind.h"
#include "src/sync/inside.h"
#include "src/sync/thread.h"

#define CANARY_BYTE 0xa5
#define FREED_BYTE  0xdd

/* The bytes that one step of a check reads. */
#define STEP_BYTES ((size_t)64 << 10)

struct guard {
    struct tide_resource base;
    struct tidei_memory_io memory;
    struct tidei_watched blocks; /* their margins are the canaries */
    struct tide_guard_options options;
};

/* A thread's part of the thread object: the depth of its calls to the guard's function. */
TIDEI_THREAD_PART(guard_reports, guard, unsigned);

/* Whether this thread is inside the guard's function: then it must not wait for threads that may wait for it. */
static bool
guard_is_reporting(void)
{
    return *guard_reports(tidei_thread) != 0;
}

/* Report damage to the guard's function, or as an error to the message sink. */
static void
guard_report(const struct guard *guard, const struct tide_guard_damage *damage)
{
    struct tidei_thread *thread = tidei_thread_get();
    static const char *const places[] = { "before", "behind", "in freed" };
    uint64_t from_place = damage->place == TIDE_GUARD_BEFORE  ? (uint64_t)-damage->offset
                          : damage->place == TIDE_GUARD_AFTER ? (uint64_t)damage->offset - damage->bytes + 1
                                                              : (uint64_t)damage->offset;

    /* Without its part the thread reports, too: damage matters more than a function that may free and wait. */
    if (thread != NULL)
        (*guard_reports(thread))++;
    if (guard->options.function != NULL)
        TIDEI_OUTSIDE(guard->options.function(guard->options.context, damage));
    else
        tidei_message(TIDE_ERROR,
                      "guard: %" PRIu64 " bytes have changed %s block %p of %s: at %s%" PRIu64
                      " stands 0x%02x, expected 0x%02x",
                      damage->changed_bytes, places[damage->place], damage->block, tidei_size_text(damage->bytes),
                      damage->place == TIDE_GUARD_BEFORE ? "-" : "+", from_place, damage->seen[0], damage->expected);
    if (thread != NULL)
        (*guard_reports(thread))--;
}

/* Allocate a buffer for one step, which the caller frees; NULL with the error text set. */
static unsigned char *
guard_buffer(void)
{
    unsigned char *buffer = malloc(STEP_BYTES);

    if (buffer == NULL)
        tide_error_set(TIDE_ENOMEM, "guard: no host memory to look at blocks");
    return buffer;
}

/* Write both canaries of a block, in the order of the stream. */
static enum tide_status
guard_fill(struct guard *guard, const struct tidei_watched_block *block, tide_stream stream)
{
    size_t bytes = guard->blocks.margin_bytes;
    enum tide_status status = tidei_memory_io_fill(&guard->memory, block->pointer - bytes, CANARY_BYTE, bytes, stream);

    if (status != TIDE_OK)
        return status;
    return tidei_memory_io_fill(&guard->memory, block->pointer + block->bytes, CANARY_BYTE, bytes, stream);
}

/* Add the bytes that have changed among the `bytes` bytes that were read from `offset` in the block. */
static void
guard_compare(struct tide_guard_damage *damage, const unsigned char *read, size_t bytes, int64_t offset)
{
    for (size_t i = 0; i < bytes; i++) {
        if (read[i] == damage->expected)
            continue;
        if (damage->changed_bytes++ != 0)
            continue;
        damage->offset = offset + (int64_t)i;
        damage->seen_bytes = bytes - i < TIDE_GUARD_SEEN ? (uint32_t)(bytes - i) : TIDE_GUARD_SEEN;
        memcpy(damage->seen, read + i, damage->seen_bytes);
    }
}

/*
 * Read one place of a block in steps into `buffer`, in the order of the stream, and wait for it. If bytes there have
 * changed, add 1 to *damaged and report them.
 */
static enum tide_status
guard_check_place(struct guard *guard, const struct tidei_watched_block *block, enum tide_guard_place place,
                  tide_stream stream, unsigned char *buffer, uint64_t *damaged)
{
    struct tide_guard_damage damage = { TIDE_FIGURES(damage), .place = place, .block = block->pointer,
                                        .bytes = block->bytes };
    size_t canary_bytes = guard->blocks.margin_bytes;
    int64_t offset = place == TIDE_GUARD_BEFORE  ? -(int64_t)canary_bytes
                     : place == TIDE_GUARD_AFTER ? (int64_t)block->bytes
                                                 : 0;
    size_t left = place == TIDE_GUARD_FREED ? block->bytes : canary_bytes;

    damage.expected = place == TIDE_GUARD_FREED ? FREED_BYTE : CANARY_BYTE;
    while (left > 0) {
        size_t step = left < STEP_BYTES ? left : STEP_BYTES;
        enum tide_status status = tidei_memory_io_read(&guard->memory, buffer, block->pointer + offset, step, stream);

        if (status == TIDE_OK && !guard->memory.host)
            status = tidei_memory_io_wait(&guard->memory, stream);
        if (status != TIDE_OK)
            return status;
        guard_compare(&damage, buffer, step, offset);
        offset += (int64_t)step;
        left -= step;
    }
    if (damage.changed_bytes == 0)
        return TIDE_OK;
    ++*damaged;
    guard_report(guard, &damage);
    return TIDE_OK;
}

/* The same for both canaries. */
static enum tide_status
guard_check_canaries(struct guard *guard, const struct tidei_watched_block *block, tide_stream stream,
                     unsigned char *buffer, uint64_t *damaged)
{
    enum tide_status status = guard_check_place(guard, block, TIDE_GUARD_BEFORE, stream, buffer, damaged);

    return status == TIDE_OK ? guard_check_place(guard, block, TIDE_GUARD_AFTER, stream, buffer, damaged) : status;
}

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
    while (gone && tidei_watched_take_held(&guard->blocks, keep_bytes, !guard_is_reporting(), &block)) {
        if (buffer != NULL)
            (void)guard_check_place(guard, &block, TIDE_GUARD_FREED, stream, buffer, &damaged);
        gone = guard_give(guard, &block, stream) == TIDE_OK;
        if (!gone && !tidei_watched_add(&guard->blocks, &block, TIDEI_WATCHED_HELD_AGAIN))
            tidei_message(TIDE_ERROR, "guard: no host memory to note a freed block of %s again that was not taken back",
                          tidei_size_text(block.bytes));
        tidei_watched_leave_end(&guard->blocks, &block, gone);
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
    unsigned char *buffer = malloc(STEP_BYTES);

    guard_release(guard, 0, stream, buffer);
    free(buffer);
    if (!guard_is_reporting())
        tidei_watched_wait(&guard->blocks);
    return tidei_watched_left(&guard->blocks) != left;
}

static enum tide_status
guard_allocate_total(struct guard *guard, size_t total, size_t alignment, tide_stream stream, void **out)
{
    uint64_t left = tidei_watched_left(&guard->blocks);
    enum tide_status status = tidei_allocate(guard->base.upstream, total, alignment, stream, out);

    if ((status != TIDE_ECAPACITY && status != TIDE_ELIMIT) || tidei_memory_io_is_captured(&guard->memory, stream))
        return status;
    tidei_watched_refuse_held(&guard->blocks, true);
    if (guard_make_room(guard, left, stream))
        status = tidei_allocate(guard->base.upstream, total, alignment, stream, out);
    tidei_watched_refuse_held(&guard->blocks, false);
    return status;
}

static struct tide_resource *
guard_beneath(struct tide_resource *self, struct tidei_place *place)
{
    const struct tidei_watched *blocks = &((struct guard *)self)->blocks;

    place->pointer = (unsigned char *)place->pointer - tidei_watched_front(blocks, place->alignment);
    return tidei_watched_total(blocks, place->bytes, place->alignment, &place->bytes) ? self->upstream : NULL;
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
        return tidei_refused(self, tide_error_set(TIDE_EOVERFLOW, "guard: %s request overflows with its canaries",
                                                  tidei_size_text(bytes)));
    status = guard_allocate_total(guard, total, alignment, stream, &given);
    if (status != TIDE_OK)
        return status;
    block.pointer = (unsigned char *)given + tidei_watched_front(&guard->blocks, alignment);
    status = guard_fill(guard, &block, stream);
    if (status == TIDE_OK && !tidei_watched_add(&guard->blocks, &block, TIDEI_WATCHED_OUT))
        status = tide_error_set(TIDE_ENOMEM, "guard: no host memory to note another block");
    if (status == TIDE_OK) {
        *out = block.pointer;
        return TIDE_OK;
    }
    tidei_error_save(&error);
    guard_give(guard, &block, stream);
    tidei_error_restore(&error);
    return tidei_refused(self, status);
}

/* Check a block that is being freed. TIDE_EDAMAGED, with its canaries rewritten, where they have changed. */
static enum tide_status
guard_inspect(struct guard *guard, const struct tidei_watched_block *block, tide_stream stream, unsigned char *buffer)
{
    enum tide_status status = guard->memory.host ? tidei_memory_io_wait(&guard->memory, stream) : TIDE_OK;
    uint64_t damaged = 0;

    if (status == TIDE_OK)
        status = guard_check_canaries(guard, block, stream, buffer, &damaged);
    if (status != TIDE_OK || damaged == 0)
        return status;
    status = guard_fill(guard, block, stream);
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
    enum tide_status status;

    if (guard->options.hold_bytes == 0 || block->bytes > guard->options.hold_bytes)
        return false;
    status = tidei_memory_io_fill(&guard->memory, block->pointer, FREED_BYTE, block->bytes, stream);
    if (status == TIDE_OK && !guard->memory.host)
        status = tidei_memory_io_wait(&guard->memory, stream);
    if (status != TIDE_OK || !tidei_watched_add(&guard->blocks, block, TIDEI_WATCHED_HELD))
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
    buffer = guard_buffer();
    if (buffer == NULL)
        return TIDE_ENOMEM;
    status = tidei_watched_take(&guard->blocks, pointer, bytes, alignment, &block);
    if (status != TIDE_OK)
        goto out;
    captured = tidei_memory_io_is_captured(&guard->memory, stream);
    if (!captured)
        status = guard_inspect(guard, &block, stream, buffer);
    kept = status == TIDE_OK && !captured && guard_keep(guard, &block, stream, buffer);
    if (status == TIDE_OK && !kept)
        status = guard_give(guard, &block, stream);
    if (status != TIDE_OK && !tidei_watched_add(&guard->blocks, &block, TIDEI_WATCHED_OUT))
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
    unsigned char *buffer = guard_buffer();

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
    enum tide_status status;

    switch (what) {
    case TIDE_QUERY_BYTES_USED_HIGH:
    case TIDE_QUERY_BYTES_RESERVED_HIGH:
    case TIDE_QUERY_PAGE:
    case TIDE_QUERY_UNIT:
        return tide_base_query(self, what, out); /* upstream's figures are about other bytes */
    case TIDE_QUERY_BYTES_USED:
    case TIDE_QUERY_BYTES_RESERVED:
        *out = tidei_watched_bytes(&guard->blocks, what == TIDE_QUERY_BYTES_RESERVED);
        return TIDE_OK;
    case TIDE_QUERY_ALIGNMENT:
        status = tide_pass_query(self, what, out);
        if (status == TIDE_OK && *out > guard->blocks.margin_bytes)
            *out = guard->blocks.margin_bytes;
        return status;
    case TIDE_QUERY_LARGEST_REQUEST:
        status = tide_pass_query(self, what, out);
        if (status == TIDE_OK)
            *out -= *out < 2 * guard->blocks.margin_bytes ? *out : 2 * guard->blocks.margin_bytes;
        return status;
    default:
        return tide_pass_query(self, what, out);
    }
}

/* Give all held blocks back. A block that upstream refuses is leaked, with a message. */
static void
guard_leave(struct guard *guard)
{
    unsigned char *buffer = guard_buffer();
    struct tidei_watched_block block;
    uint64_t damaged = 0, lost = 0, lost_bytes = 0;

    while (tidei_watched_take_held(&guard->blocks, 0, true, &block)) {
        if (buffer != NULL)
            (void)guard_check_place(guard, &block, TIDE_GUARD_FREED, 0, buffer, &damaged);
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
    tidei_memory_io_close(&guard->memory);
}

static enum tide_status
guard_init(struct tide_resource *self, size_t *fault)
{
    struct guard *guard = (struct guard *)self;
    enum tide_status status;

    (void)fault;
    tidei_watched_init(&guard->blocks, (size_t)guard->options.canary_bytes);
    status = tidei_memory_io_open(&guard->memory, "guard", self->upstream);
    if (status != TIDE_OK)
        tidei_watched_fini(&guard->blocks);
    return status;
}

static void
guard_pause(struct tide_resource *self, bool wait)
{
    tidei_watched_pause(&((struct guard *)self)->blocks, wait && !guard_is_reporting());
}

static void
guard_resume(struct tide_resource *self)
{
    tidei_watched_resume(&((struct guard *)self)->blocks);
}

/* Tell the blocks of upstream in which the held blocks lie. They were freed in the order of all streams. */
static void
guard_each_kept(struct tide_resource *self, void (*tell)(void *context, const struct tidei_place *place), void *context)
{
    const struct tidei_watched *blocks = &((struct guard *)self)->blocks;
    struct tidei_watched_block block;
    uint32_t number = 0;

    while (tidei_watched_next_held(blocks, &number, &block)) {
        struct tidei_place place = { block.pointer, block.bytes, block.alignment, 0 };

        if (guard_beneath(self, &place) != NULL)
            tell(context, &place);
    }
}

static const struct tidei_kept_ops guard_kept = { guard_pause, guard_each_kept, guard_resume };

static const struct tidei_argument guard_arguments[] = {
    TIDEI_ARGUMENT("canary", SIZE, struct tide_guard_options, canary_bytes, "a power of two from 16 to 1MiB",
                   .power_of_two = true, .least = 16, .most = UINT64_C(1) << 20, .default_value = 256),
    TIDEI_ARGUMENT("hold", SIZE, struct tide_guard_options, hold_bytes, "a size such as 1GiB",
                   .most = UINT64_C(1) << 50, .default_value = UINT64_C(16) << 20, .zero_value = TIDE_NONE),
};

const struct tidei_kind tidei_guard_kind = {
    .ops = {
        TIDEI_KIND_OPS("guard"),
        .allocate = guard_allocate,
        .deallocate = guard_deallocate,
        .order = tide_pass_order,
        .trim = guard_trim,
        .query = guard_query,
        .describe = tidei_kind_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_ARGUMENTS(guard_arguments),
    .options_size = sizeof(struct tide_guard_options),
    .asks_memory = true,
    TIDEI_KIND_STRUCT(struct guard),
    .init = guard_init,
    .fini = guard_fini,
    .beneath = guard_beneath,
    .kept = &guard_kept,
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
    uint32_t numbers;
    uint32_t epoch = tidei_watched_epoch_end(&guard->blocks, &numbers);
    enum tide_status status = guard->base.upstream->ops->order(guard->base.upstream, TIDE_STREAM_ALL, 0);

    for (uint32_t number = 0; status == TIDE_OK && number < numbers; number++) {
        struct tidei_watched_block block;
        bool held;

        if (!tidei_watched_pin(&guard->blocks, number, epoch, &block, &held))
            continue;
        status = held ? guard_check_place(guard, &block, TIDE_GUARD_FREED, 0, buffer, damaged)
                      : guard_check_canaries(guard, &block, 0, buffer, damaged);
        tidei_watched_unpin(&guard->blocks, number);
    }
    return status;
}

enum tide_status
tide_guard_check(struct tide_resource *resource, uint64_t *damaged)
{
    TIDEI_INSIDE(resource);
    struct guard *guard = (struct guard *)resource;
    unsigned char *buffer;
    enum tide_status status;
    uint64_t found = 0;

    if (damaged != NULL)
        *damaged = 0;
    if (tidei_kind_check(&tidei_guard_kind, resource) != TIDE_OK)
        return TIDE_EINVAL;
    buffer = guard_buffer();
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
