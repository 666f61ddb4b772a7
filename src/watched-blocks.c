/* Blocks with room around them, handed out or held. */
#include "watched-blocks.h"

#include "resource.h"

enum tide_status
tidei_watched_init(struct tidei_watched *watched, size_t around_bytes)
{
    *watched =
        (struct tidei_watched){ .around_bytes = around_bytes, .oldest = TIDEI_BLOCK_NONE, .newest = TIDEI_BLOCK_NONE };
    tidei_blocks_init(&watched->blocks);
    return tidei_lock_init(&watched->lock);
}

void
tidei_watched_fini(struct tidei_watched *watched)
{
    tidei_blocks_fini(&watched->blocks);
    tidei_lock_fini(&watched->lock);
}

bool
tidei_watched_add(struct tidei_watched *watched, const struct tidei_watched_block *block, bool held)
{
    struct tidei_block *entry;
    uint32_t number;
    size_t total;
    bool room;

    (void)tidei_watched_total(watched, block->bytes, block->alignment, &total);
    tidei_lock_take(&watched->lock);
    room = tidei_blocks_reserve(&watched->blocks, (uint64_t)watched->blocks.count + 1);
    if (room) {
        number = tidei_blocks_add(&watched->blocks, block->pointer, 0);
        entry = &watched->blocks.blocks[number];
        entry->bytes = block->bytes;
        entry->alignment = block->alignment;
        entry->out = !held;
        entry->epoch = watched->blocks.epoch;
        entry->next = TIDEI_BLOCK_NONE;
        *(held ? &watched->held_bytes : &watched->used_bytes) += block->bytes;
        watched->reserved_bytes += total;
    }
    if (room && held) {
        *(watched->newest != TIDEI_BLOCK_NONE ? &watched->blocks.blocks[watched->newest].next : &watched->oldest) =
            number;
        watched->newest = number;
    }
    tidei_lock_give(&watched->lock);
    return room;
}

/* With the lock held. */
static struct tidei_watched_block
watched_forget(struct tidei_watched *watched, uint32_t number)
{
    const struct tidei_block *entry = &watched->blocks.blocks[number];
    struct tidei_watched_block block = { (unsigned char *)entry->address, entry->bytes, entry->alignment };
    size_t total;

    (void)tidei_watched_total(watched, block.bytes, block.alignment, &total);
    watched->reserved_bytes -= total;
    *(entry->out ? &watched->used_bytes : &watched->held_bytes) -= block.bytes;
    tidei_blocks_remove(&watched->blocks, number);
    return block;
}

static enum tide_status
watched_refuse(const char *subject, const void *pointer, size_t bytes, size_t alignment,
               const struct tidei_block *block)
{
    if (!block->used)
        return tide_error_set(TIDE_EPOINTER, "%s: %p given back, which is none of its blocks", subject, pointer);
    if (!block->out)
        return tide_error_set(TIDE_EPOINTER, "%s: %p given back, which was given back before", subject, pointer);
    return tide_error_set(TIDE_EMISMATCH,
                          "%s: %p given back with %zu B at a multiple of %zu, allocated with %zu B at %zu", subject,
                          pointer, bytes, alignment, block->bytes, block->alignment);
}

enum tide_status
tidei_watched_take(struct tidei_watched *watched, const char *subject, void *pointer, size_t bytes, size_t alignment,
                   struct tidei_watched_block *out)
{
    struct tidei_block block = { 0 };
    unsigned looks = 0;
    uint32_t number;
    bool right;

    for (;;) {
        tidei_lock_take(&watched->lock);
        number = tidei_blocks_find(&watched->blocks, pointer);
        block = number != TIDEI_BLOCK_NONE ? watched->blocks.blocks[number] : (struct tidei_block){ 0 };
        if (block.pins == 0)
            break;
        tidei_lock_give(&watched->lock);
        tidei_lock_pause(&looks);
    }
    right = block.out && block.bytes == bytes && block.alignment == alignment;
    if (right)
        *out = watched_forget(watched, number);
    tidei_lock_give(&watched->lock);
    return right ? TIDE_OK : watched_refuse(subject, pointer, bytes, alignment, &block);
}

bool
tidei_watched_take_held(struct tidei_watched *watched, uint64_t keep_bytes, struct tidei_watched_block *out)
{
    unsigned looks = 0;
    uint32_t number;

    for (;;) {
        tidei_lock_take(&watched->lock);
        number = watched->held_bytes > keep_bytes ? watched->oldest : TIDEI_BLOCK_NONE;
        if (number == TIDEI_BLOCK_NONE || watched->blocks.blocks[number].pins == 0)
            break;
        tidei_lock_give(&watched->lock);
        tidei_lock_pause(&looks);
    }
    if (number != TIDEI_BLOCK_NONE) {
        watched->oldest = watched->blocks.blocks[number].next;
        if (watched->oldest == TIDEI_BLOCK_NONE)
            watched->newest = TIDEI_BLOCK_NONE;
        *out = watched_forget(watched, number);
    }
    tidei_lock_give(&watched->lock);
    return number != TIDEI_BLOCK_NONE;
}

void
tidei_watched_read(struct tidei_watched *watched, struct tidei_watched_figures *out)
{
    tidei_lock_take(&watched->lock);
    *out = (struct tidei_watched_figures){ watched->used_bytes, watched->held_bytes, watched->reserved_bytes,
                                           watched->blocks.capacity };
    tidei_lock_give(&watched->lock);
}

uint32_t
tidei_watched_epoch_end(struct tidei_watched *watched)
{
    uint32_t epoch;

    tidei_lock_take(&watched->lock);
    epoch = tidei_blocks_epoch_end(&watched->blocks);
    tidei_lock_give(&watched->lock);
    return epoch;
}

bool
tidei_watched_pin(struct tidei_watched *watched, uint32_t number, uint32_t epoch, struct tidei_watched_block *out,
                  bool *held)
{
    struct tidei_block *entry;
    bool used;

    tidei_lock_take(&watched->lock);
    used = number < watched->blocks.capacity && watched->blocks.blocks[number].used &&
           watched->blocks.blocks[number].epoch <= epoch;
    if (used) {
        entry = &watched->blocks.blocks[number];
        entry->pins++;
        *out = (struct tidei_watched_block){ (unsigned char *)entry->address, entry->bytes, entry->alignment };
        *held = !entry->out;
    }
    tidei_lock_give(&watched->lock);
    return used;
}

void
tidei_watched_unpin(struct tidei_watched *watched, uint32_t number)
{
    tidei_lock_take(&watched->lock);
    watched->blocks.blocks[number].pins--;
    tidei_lock_give(&watched->lock);
}
