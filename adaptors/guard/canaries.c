/* Writes canaries and fill patterns, and checks whether they are intact. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "adaptors/guard/canaries.h"
#include "src/resource/resource.h"
#include "src/sync/thread.h"

#define CANARY_BYTE 0xa5
#define FREED_BYTE  0xdd

enum tide_status
tidei_canaries_fill(struct tidei_canaries *canaries, const struct tidei_watched_block *block, tide_stream stream)
{
    enum tide_status status =
        tidei_memory_io_fill(&canaries->touch, block->pointer - canaries->bytes, CANARY_BYTE, canaries->bytes, stream);

    if (status != TIDE_OK)
        return status;
    return tidei_memory_io_fill(&canaries->touch, block->pointer + block->bytes, CANARY_BYTE, canaries->bytes, stream);
}

/* A thread's part of the thread object: the depth of its calls to the guard's function. */
TIDEI_THREAD_PART(canaries_telling, guard, unsigned);

bool
tidei_canaries_tells(void)
{
    return *canaries_telling(tidei_thread) != 0;
}

static void
canaries_tell(const struct tidei_canaries *canaries, const struct tide_guard_damage *damage)
{
    struct tidei_thread *thread = tidei_thread_get();
    static const char *const places[] = { "before", "behind", "in freed" };
    uint64_t from_place = damage->place == TIDE_GUARD_BEFORE  ? (uint64_t)-damage->offset
                          : damage->place == TIDE_GUARD_AFTER ? (uint64_t)damage->offset - damage->bytes + 1
                                                              : (uint64_t)damage->offset;

    /* Without its part the thread reports, too: damage matters more than a function that may free and wait. */
    if (thread != NULL)
        (*canaries_telling(thread))++;
    if (canaries->function != NULL)
        canaries->function(canaries->context, damage);
    else
        tidei_message(TIDE_ERROR,
                      "guard: %" PRIu64 " bytes have changed %s block %p of %s: at %s%" PRIu64
                      " stands 0x%02x, expected 0x%02x",
                      damage->changed_bytes, places[damage->place], damage->block, tidei_size_text(damage->bytes),
                      damage->place == TIDE_GUARD_BEFORE ? "-" : "+", from_place, damage->seen[0], damage->expected);
    if (thread != NULL)
        (*canaries_telling(thread))--;
}

/* Add the bytes that have changed among the `bytes` bytes that were read from `offset` in the block. */
static void
canaries_compare(struct tide_guard_damage *damage, const unsigned char *read, size_t bytes, int64_t offset)
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

/* Read a part of the block in steps, and compare it. `buffer` has room for one step. */
static enum tide_status
canaries_look_at(struct tidei_canaries *canaries, const struct tidei_watched_block *block, enum tide_guard_place place,
                 tide_stream stream, unsigned char *buffer, uint64_t *damaged)
{
    struct tide_guard_damage damage = { TIDE_FIGURES(damage), .place = place, .block = block->pointer,
                                        .bytes = block->bytes };
    int64_t offset = place == TIDE_GUARD_BEFORE  ? -(int64_t)canaries->bytes
                     : place == TIDE_GUARD_AFTER ? (int64_t)block->bytes
                                                 : 0;
    size_t left = place == TIDE_GUARD_FREED ? block->bytes : canaries->bytes;

    damage.expected = place == TIDE_GUARD_FREED ? FREED_BYTE : CANARY_BYTE;
    while (left > 0) {
        size_t piece = left < TIDEI_CANARIES_PIECE ? left : TIDEI_CANARIES_PIECE;
        enum tide_status status =
            tidei_memory_io_read(&canaries->touch, buffer, block->pointer + offset, piece, stream);

        if (status == TIDE_OK && !canaries->touch.host)
            status = tidei_memory_io_wait(&canaries->touch, stream);
        if (status != TIDE_OK)
            return status;
        canaries_compare(&damage, buffer, piece, offset);
        offset += (int64_t)piece;
        left -= piece;
    }
    if (damage.changed_bytes == 0)
        return TIDE_OK;
    ++*damaged;
    canaries_tell(canaries, &damage);
    return TIDE_OK;
}

enum tide_status
tidei_canaries_look(struct tidei_canaries *canaries, const struct tidei_watched_block *block, tide_stream stream,
                    unsigned char *buffer, uint64_t *damaged)
{
    enum tide_status status = canaries_look_at(canaries, block, TIDE_GUARD_BEFORE, stream, buffer, damaged);

    return status == TIDE_OK ? canaries_look_at(canaries, block, TIDE_GUARD_AFTER, stream, buffer, damaged) : status;
}

enum tide_status
tidei_canaries_fill_freed(struct tidei_canaries *canaries, const struct tidei_watched_block *block, tide_stream stream)
{
    enum tide_status status = tidei_memory_io_fill(&canaries->touch, block->pointer, FREED_BYTE, block->bytes, stream);

    return status == TIDE_OK && !canaries->touch.host ? tidei_memory_io_wait(&canaries->touch, stream) : status;
}

enum tide_status
tidei_canaries_look_freed(struct tidei_canaries *canaries, const struct tidei_watched_block *block, tide_stream stream,
                          unsigned char *buffer, uint64_t *damaged)
{
    return canaries_look_at(canaries, block, TIDE_GUARD_FREED, stream, buffer, damaged);
}

unsigned char *
tidei_canaries_buffer(void)
{
    unsigned char *buffer = malloc(TIDEI_CANARIES_PIECE);

    if (buffer == NULL)
        tide_error_set(TIDE_ENOMEM, "guard: no host memory to look at blocks");
    return buffer;
}
