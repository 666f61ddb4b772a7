/*
 * held: remembers where the memory lies that the base below has given.
 *
 * Usage: none; src/process/stacks.c puts it over each base of a redirected stack whose memory cuMemFree would free.
 */
#include "config.h"

#include "src/process/held.h"

#ifdef HAVE_CUDA_H

#include <string.h>

#include "src/process/call.h"
#include "src/tables/entries.h"

struct held_options {
    size_t struct_size;
};

struct held {
    struct tide_resource base;
    struct held_options options;
};

struct held_piece {
    size_t bytes;
    const struct tide_resource *owner; /* borrowed: the layer `held` over the base that has given it */
};

static struct tidei_entries held_pieces;

void
tidei_process_held_start(void)
{
    tidei_entries_init(&held_pieces, sizeof(struct held_piece));
}

static bool
held_is_of(const void *entry, const void *owner)
{
    return ((const struct held_piece *)entry)->owner == owner;
}

/* A piece that is there already has gone with its context. */
static enum tide_status
held_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct held_piece piece = { .bytes = bytes, .owner = self }, stale;
    enum tide_status status;

    status = tidei_allocate(self->upstream, bytes, alignment, stream, out);

    if (status != TIDE_OK)
        return status;
    (void)tidei_entries_take(&held_pieces, (uintptr_t)*out, &stale);
    if (tidei_entries_put(&held_pieces, (uintptr_t)*out, &piece))
        return TIDE_OK;
    (void)tidei_deallocate(self->upstream, *out, bytes, alignment, stream);
    *out = NULL;
    return tidei_refused(self, tide_error_set(TIDE_ENOMEM, "held: no host memory"));
}

/*
 * Out of the table first: once it is freed, another thread may get the same address. What is not in it, or is another
 * layer's, has gone with its context: the address may be another context's by now.
 */
static enum tide_status
held_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct held_piece piece;
    enum tide_status status;

    if (!tidei_entries_take_if(&held_pieces, (uintptr_t)pointer, held_is_of, self, &piece))
        return TIDE_OK;
    status = tidei_deallocate(self->upstream, pointer, bytes, alignment, stream);
    if (status != TIDE_OK)
        tidei_entries_put(&held_pieces, (uintptr_t)pointer, &piece);
    return status;
}

static bool
held_look(uint64_t key, const void *entry, void *context)
{
    const struct held_piece *piece = entry;
    uint64_t address = *(const uint64_t *)context;

    return address >= key && address - key < piece->bytes;
}

bool
tidei_process_held_covers(uint64_t address)
{
    return tidei_entries_any(&held_pieces, held_look, &address);
}

/* Whether memory of the base goes with the context in which it was allocated. */
static bool
held_ends(const struct tide_resource *base)
{
    return strcmp(base->ops->name, "driver") != 0 && strcmp(base->ops->name, "vmm") != 0;
}

/* All work of the context is done where its stack ends: others' is no matter of memory that goes with the context. */
static enum tide_status
held_order(struct tide_resource *self, tide_stream earlier, tide_stream later)
{
    if (earlier == TIDE_STREAM_ALL && tidei_process_thread(tidei_thread)->ends && held_ends(self->upstream))
        return TIDE_OK;
    return tide_pass_order(self, earlier, later);
}

void
tidei_process_held_forget(struct tide_resource *top)
{
    struct tide_upstream below;
    struct held_piece piece;
    struct tidei_entries_cursor cursor = { 0 };
    uint64_t key;

    if (strcmp(top->ops->name, "held") == 0 && held_ends(top->upstream)) {
        while (tidei_entries_take_next(&held_pieces, &cursor, held_is_of, top, &key, &piece))
            continue;
    }
    for (size_t i = 0; top->ops->upstream_at(top, i, &below) == TIDE_OK; i++)
        tidei_process_held_forget(below.resource);
}

const struct tidei_kind tidei_held_kind = {
    .ops = {
        TIDEI_KIND_OPS("held"),
        .allocate = held_allocate,
        .deallocate = held_deallocate,
        .order = held_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = tide_pass_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_STRUCT(struct held),
    .options_size = sizeof(struct held_options),
};

#endif
