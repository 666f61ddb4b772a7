/*
 * held: remembers where the memory lies that the base below has given, and of which device and context it is.
 *
 * Usage: none; src/process/stacks.c puts it over each base of a redirected stack whose memory cuMemFree would free.
 */
#include "config.h"

#include "src/process/held.h"

#ifdef HAVE_CUDA_H

#include "src/process/devices.h"
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
    CUcontext context;
    int device; /* of the stack that has it */
};

static struct tidei_entries held_pieces;

void
tidei_process_held_start(void)
{
    tidei_entries_init(&held_pieces, sizeof(struct held_piece));
}

/* The call that the thread makes is of a program that has a context: the account has asked for it. */
static enum tide_status
held_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    struct held_piece piece = { .bytes = bytes }, stale;
    enum tide_status status;

    (void)tidei_process_current(&piece.context, &piece.device);
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
 * Out of the table first: once it is freed, another thread may get the same address. What is not in it has gone with
 * its context, and the address may be another's.
 */
static enum tide_status
held_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    struct held_piece piece;
    enum tide_status status;

    if (!tidei_entries_take(&held_pieces, (uintptr_t)pointer, &piece))
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

static bool
held_wanted(const void *entry, const void *wanted)
{
    const struct held_piece *piece = entry, *like = wanted;

    return piece->context == like->context && piece->device == like->device;
}

void
tidei_process_held_forget(CUcontext context, int device)
{
    const struct held_piece wanted = { .context = context, .device = device };
    struct held_piece piece;
    unsigned place = 0;
    uint64_t key;

    while (tidei_entries_take_next(&held_pieces, &place, held_wanted, &wanted, &key, &piece))
        continue;
}

const struct tidei_kind tidei_held_kind = {
    .ops = {
        TIDEI_KIND_OPS("held"),
        .allocate = held_allocate,
        .deallocate = held_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = tide_pass_describe,
        .upstream_at = tide_pass_upstream_at,
    },
    TIDEI_KIND_STRUCT(struct held),
    .options_size = sizeof(struct held_options),
};

#endif
