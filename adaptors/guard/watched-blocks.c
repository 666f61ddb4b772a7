/* Blocks that have canaries around them, handed out or held after their free. */
#include "adaptors/guard/watched-blocks.h"

#include "src/resource/resource.h"

void
tidei_watched_init(struct tidei_watched *watched, size_t margin_bytes)
{
    *watched =
        (struct tidei_watched){ .margin_bytes = margin_bytes, .oldest = TIDEI_BLOCK_NONE, .newest = TIDEI_BLOCK_NONE };
    tidei_blocks_init(&watched->blocks);
    tidei_lock_init(&watched->lock);
}

void
tidei_watched_fini(struct tidei_watched *watched)
{
    tidei_blocks_fini(&watched->blocks);
    tidei_lock_fini(&watched->lock);
}

/* With the lock held. */
static bool
watched_enter(struct tidei_watched *watched, const struct tidei_watched_block *block, bool held)
{
    struct tidei_block *entry;
    uint32_t number;
    size_t total;

    if (!tidei_blocks_reserve(&watched->blocks, (uint64_t)watched->blocks.count + 1))
        return false;
    (void)tidei_watched_total(watched, block->bytes, block->alignment, &total);
    number = tidei_blocks_add(&watched->blocks, block->pointer, 0);
    entry = &watched->blocks.blocks[number];
    entry->bytes = block->bytes;
    entry->alignment = block->alignment;
    entry->out = !held;
    entry->epoch = watched->blocks.epoch;
    entry->next = TIDEI_BLOCK_NONE;
    *(held ? &watched->held_bytes : &watched->used_bytes) += block->bytes;
    watched->reserved_bytes += total;
    if (held) {
        *(watched->newest != TIDEI_BLOCK_NONE ? &watched->blocks.blocks[watched->newest].next : &watched->oldest) =
            number;
        watched->newest = number;
    }
    return true;
}

bool
tidei_watched_add(struct tidei_watched *watched, const struct tidei_watched_block *block,
                  enum tidei_watched_state state)
{
    bool entered;

    tidei_lock_acquire(&watched->lock);
    entered = (state != TIDEI_WATCHED_HELD || watched->refusing == 0) &&
              watched_enter(watched, block, state != TIDEI_WATCHED_OUT);
    tidei_lock_release(&watched->lock);
    return entered;
}

void
tidei_watched_refuse_held(struct tidei_watched *watched, bool begin)
{
    tidei_lock_acquire(&watched->lock);
    if (begin)
        watched->refusing++;
    else
        watched->refusing--;
    tidei_lock_release(&watched->lock);
}

/* With the lock held. */
static struct tidei_watched_block
watched_forget(struct tidei_watched *watched, uint32_t number)
{
    const struct tidei_block *entry = &watched->blocks.blocks[number];
    struct tidei_watched_block block = { (unsigned char *)entry->address, entry->bytes, entry->alignment, 0 };
    size_t total;

    (void)tidei_watched_total(watched, block.bytes, block.alignment, &total);
    watched->reserved_bytes -= total;
    *(entry->out ? &watched->used_bytes : &watched->held_bytes) -= block.bytes;
    tidei_blocks_remove(&watched->blocks, number);
    return block;
}

static enum tide_status
watched_refuse(const void *pointer, size_t bytes, size_t alignment, const struct tidei_block *block)
{
    if (!block->used)
        return tide_error_set(TIDE_EPOINTER, "guard: %p given back, which is none of its blocks", pointer);
    if (!block->out)
        return tide_error_set(TIDE_EPOINTER, "guard: %p given back, which was given back before", pointer);
    return tide_error_set(TIDE_EMISMATCH,
                          "guard: %p given back with %zu B at a multiple of %zu, allocated with %zu B at %zu", pointer,
                          bytes, alignment, block->bytes, block->alignment);
}

enum tide_status
tidei_watched_take(struct tidei_watched *watched, void *pointer, size_t bytes, size_t alignment,
                   struct tidei_watched_block *out)
{
    struct tidei_block block = { 0 };
    unsigned looks = 0;
    uint32_t number;
    bool right;

    for (;;) {
        tidei_lock_acquire(&watched->lock);
        number = tidei_blocks_find(&watched->blocks, pointer);
        block = number != TIDEI_BLOCK_NONE ? watched->blocks.blocks[number] : (struct tidei_block){ 0 };
        if (block.pins == 0)
            break;
        tidei_lock_release(&watched->lock);
        tidei_lock_pause(&looks);
    }
    right = block.out && block.bytes == bytes && block.alignment == alignment;
    if (right)
        *out = watched_forget(watched, number);
    tidei_lock_release(&watched->lock);
    return right ? TIDE_OK : watched_refuse(pointer, bytes, alignment, &block);
}

/* The block that has been held for longest, or the oldest one that is not pinned; *before is the block before it. */
static uint32_t
watched_oldest(const struct tidei_watched *watched, bool pinned_too, uint32_t *before)
{
    uint32_t number = watched->oldest;

    *before = TIDEI_BLOCK_NONE;
    while (!pinned_too && number != TIDEI_BLOCK_NONE && watched->blocks.blocks[number].pins != 0) {
        *before = number;
        number = watched->blocks.blocks[number].next;
    }
    return number;
}

/* Unlink a block from the list of held ones. The caller of this and the function above holds the lock. */
static void
watched_unlink(struct tidei_watched *watched, uint32_t number, uint32_t before)
{
    uint32_t next = watched->blocks.blocks[number].next;

    *(before != TIDEI_BLOCK_NONE ? &watched->blocks.blocks[before].next : &watched->oldest) = next;
    if (next == TIDEI_BLOCK_NONE)
        watched->newest = before;
}

bool
tidei_watched_take_held(struct tidei_watched *watched, uint64_t keep_bytes, bool wait, struct tidei_watched_block *out)
{
    uint32_t number = TIDEI_BLOCK_NONE, before;
    unsigned looks = 0;

    for (;;) {
        tidei_lock_acquire(&watched->lock);
        if (watched->held_bytes > keep_bytes)
            number = watched_oldest(watched, wait, &before);
        else
            number = TIDEI_BLOCK_NONE;
        if (number == TIDEI_BLOCK_NONE || watched->blocks.blocks[number].pins == 0)
            break;
        tidei_lock_release(&watched->lock);
        tidei_lock_pause(&looks);
    }
    if (number != TIDEI_BLOCK_NONE) {
        watched_unlink(watched, number, before);
        *out = watched_forget(watched, number);
        out->phase = watched->phase;
        watched->leaving[out->phase % 2]++;
    }
    tidei_lock_release(&watched->lock);
    return number != TIDEI_BLOCK_NONE;
}

void
tidei_watched_leave_end(struct tidei_watched *watched, const struct tidei_watched_block *block, bool gone)
{
    tidei_lock_acquire(&watched->lock);
    watched->leaving[block->phase % 2]--;
    watched->left += gone;
    tidei_lock_release(&watched->lock);
}

uint64_t
tidei_watched_left(struct tidei_watched *watched)
{
    uint64_t left;

    tidei_lock_acquire(&watched->lock);
    left = watched->left;
    tidei_lock_release(&watched->lock);
    return left;
}

/*
 * A phase begins only when no block of the last phase but one is leaving any more, so two counts are enough. Blocks
 * that are leaving now belong to the phase `began` or to the one before. All of them have left when two phases have
 * begun since, or when one has and the count of `began` is 0. Blocks that leave later are counted in the new phase, and
 * cause no wait.
 */
void
tidei_watched_wait(struct tidei_watched *watched)
{
    uint32_t began = 0;
    unsigned looks = 0;

    for (bool first = true;; first = false) {
        bool over;

        tidei_lock_acquire(&watched->lock);
        if (first)
            began = watched->phase;
        if (watched->phase == began && watched->leaving[(began + 1) % 2] == 0)
            watched->phase++;
        over = watched->phase - began > 1 || (watched->phase - began == 1 && watched->leaving[began % 2] == 0);
        tidei_lock_release(&watched->lock);
        if (over)
            return;
        tidei_lock_pause(&looks);
    }
}

void
tidei_watched_pause(struct tidei_watched *watched, bool wait)
{
    unsigned looks = 0;

    tidei_lock_acquire(&watched->lock);
    while (wait && watched->leaving[0] + watched->leaving[1] != 0) {
        tidei_lock_release(&watched->lock);
        tidei_lock_pause(&looks);
        tidei_lock_acquire(&watched->lock);
    }
}

void
tidei_watched_resume(struct tidei_watched *watched)
{
    tidei_lock_release(&watched->lock);
}

bool
tidei_watched_next_held(const struct tidei_watched *watched, uint32_t *number, struct tidei_watched_block *out)
{
    for (; *number < watched->blocks.capacity; ++*number) {
        const struct tidei_block *block = &watched->blocks.blocks[*number];

        if (!block->used || block->out)
            continue;
        *out = (struct tidei_watched_block){ .pointer = (unsigned char *)block->address,
                                             .bytes = block->bytes,
                                             .alignment = block->alignment };
        ++*number;
        return true;
    }
    return false;
}

uint64_t
tidei_watched_bytes(struct tidei_watched *watched, bool reserved)
{
    uint64_t bytes;

    tidei_lock_acquire(&watched->lock);
    bytes = reserved ? watched->reserved_bytes : watched->used_bytes;
    tidei_lock_release(&watched->lock);
    return bytes;
}

uint32_t
tidei_watched_epoch_end(struct tidei_watched *watched, uint32_t *numbers)
{
    uint32_t epoch;

    tidei_lock_acquire(&watched->lock);
    epoch = tidei_blocks_epoch_end(&watched->blocks);
    *numbers = watched->blocks.capacity;
    tidei_lock_release(&watched->lock);
    return epoch;
}

bool
tidei_watched_pin(struct tidei_watched *watched, uint32_t number, uint32_t epoch, struct tidei_watched_block *out,
                  bool *held)
{
    struct tidei_block *entry;
    bool used;

    tidei_lock_acquire(&watched->lock);
    used = number < watched->blocks.capacity && watched->blocks.blocks[number].used &&
           watched->blocks.blocks[number].epoch <= epoch;
    if (used) {
        entry = &watched->blocks.blocks[number];
        entry->pins++;
        *out = (struct tidei_watched_block){ (unsigned char *)entry->address, entry->bytes, entry->alignment, 0 };
        *held = !entry->out;
    }
    tidei_lock_release(&watched->lock);
    return used;
}

void
tidei_watched_unpin(struct tidei_watched *watched, uint32_t number)
{
    tidei_lock_acquire(&watched->lock);
    watched->blocks.blocks[number].pins--;
    tidei_lock_release(&watched->lock);
}
