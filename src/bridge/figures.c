/*
 * The figures of each device.
 *
 * The ledger counts all that is outstanding, and keeps the highest sum since a boundary. A push, a pop and a reset are
 * boundaries: each takes that peak over into all phases that were going on, and has the ledger begin a new one.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/bridge/blocks.h"
#include "src/bridge/uses.h"
#include "src/context/tag.h"
#include "src/sync/inside.h"
#include "src/tables/grow.h"
#include "src/tables/map.h"

/* A phase that was pushed. */
struct tidei_bridge_level {
    struct tidei_bridge_level *outer; /* owned */
    struct tidei_ledger_figures begin;
    uint64_t failures;   /* at the begin */
    uint64_t peak_bytes; /* since the begin */
};

static uint64_t
larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Take the peak since the last boundary over. No thread adds anything until figures_end, which begins a new one. */
static void
figures_begin(struct tidei_bridge_device *device, struct tidei_ledger_figures *now)
{
    tidei_ledger_begin(&device->ledger, now);
    device->peak_bytes = larger(device->peak_bytes, now->mark.bytes);
    for (struct tidei_bridge_level *level = device->level; level != NULL; level = level->outer)
        level->peak_bytes = larger(level->peak_bytes, now->mark.bytes);
}

static void
figures_end(struct tidei_bridge_device *device, struct tidei_ledger_figures *now)
{
    now->mark = now->current;
    tidei_ledger_end(&device->ledger, now);
}

static enum tide_status
figures_add_reserved(struct tide_resource *top, void *context)
{
    uint64_t bytes = 0;

    if (tide_query(top, TIDE_QUERY_BYTES_RESERVED, &bytes) == TIDE_OK)
        *(uint64_t *)context += bytes;
    return TIDE_OK;
}

/* What a device has reserved, as far as its stacks know. Keeps the thread's error. */
static uint64_t
figures_reserved(const struct tidei_bridge_device *device)
{
    struct tidei_error error;
    uint64_t reserved = 0;

    tidei_error_save(&error);
    tidei_bridge_stacks_each(device, figures_add_reserved, &reserved);
    tidei_error_restore(&error);
    return reserved;
}

/* Begin to fill in figures; *device is NULL for one that has not been used. */
static enum tide_status
figures_open(int ordinal, struct tide_bridge_figures *out, struct tidei_bridge_device **device)
{
    enum tide_status status = tidei_figures_clear("bridge", out);

    *device = NULL;
    if (status == TIDE_OK && (ordinal < 0 || ordinal >= TIDE_BRIDGE_DEVICES))
        status = tidei_bridge_device_get(ordinal, device);
    if (status == TIDE_OK)
        *device = tidei_bridge_device_known(ordinal);
    return status;
}

enum tide_status
tide_bridge_read(int ordinal, struct tide_bridge_figures *out)
{
    struct tide_bridge_figures figures = { TIDE_FIGURES(figures) };
    struct tidei_bridge_device *device;
    struct tidei_ledger_figures now;
    enum tide_status status = figures_open(ordinal, out, &device);

    if (status != TIDE_OK || device == NULL)
        return status;
    figures_begin(device, &now);
    figures.peak_bytes = device->peak_bytes;
    figures_end(device, &now);
    figures.live_bytes = now.current.bytes;
    figures.live_count = now.current.count;
    figures.allocations = now.total.count;
    figures.frees = now.total.count - now.current.count;
    figures.total_bytes = now.total.bytes;
    figures.failures = atomic_load_explicit(&device->failures, memory_order_relaxed);
    figures.reserved_bytes = figures_reserved(device);
    tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}

enum tide_status
tide_bridge_reset_peak(int ordinal)
{
    struct tidei_bridge_device *device;
    struct tidei_ledger_figures now;
    enum tide_status status = tidei_bridge_device_get(ordinal, &device);

    if (status != TIDE_OK)
        return status;
    figures_begin(device, &now);
    device->peak_bytes = now.current.bytes;
    figures_end(device, &now);
    return TIDE_OK;
}

enum tide_status
tide_bridge_push(int ordinal)
{
    struct tidei_bridge_level *level = calloc(1, sizeof(*level));
    struct tidei_bridge_device *device;
    enum tide_status status = tidei_bridge_device_get(ordinal, &device);

    if (status == TIDE_OK && level == NULL)
        status = tide_error_set(TIDE_ENOMEM, "bridge: no host memory");
    if (status != TIDE_OK) {
        free(level);
        return status;
    }
    figures_begin(device, &level->begin);
    level->failures = atomic_load_explicit(&device->failures, memory_order_relaxed);
    level->peak_bytes = level->begin.current.bytes;
    level->outer = device->level;
    device->level = level;
    figures_end(device, &level->begin);
    return TIDE_OK;
}

/* What a phase that has ended at `now` has needed. */
static void
figures_of_level(const struct tidei_bridge_level *level, const struct tidei_ledger_figures *now,
                 struct tide_bridge_figures *out)
{
    out->begin_bytes = level->begin.current.bytes;
    out->live_bytes = now->current.bytes;
    out->live_count = now->current.count;
    out->peak_bytes = level->peak_bytes - level->begin.current.bytes;
    out->allocations = now->total.count - level->begin.total.count;
    out->total_bytes = now->total.bytes - level->begin.total.bytes;
    /* The frees of all time, less those until the begin; each is what was allocated and is not outstanding. */
    out->frees = out->allocations - (now->current.count - level->begin.current.count);
}

enum tide_status
tide_bridge_pop(int ordinal, struct tide_bridge_figures *out)
{
    struct tide_bridge_figures unwanted = { TIDE_FIGURES(unwanted) }, figures = { TIDE_FIGURES(figures) };
    struct tidei_bridge_device *device;
    struct tidei_bridge_level *level = NULL;
    struct tidei_ledger_figures now;
    enum tide_status status = figures_open(ordinal, out != NULL ? out : &unwanted, &device);

    if (status != TIDE_OK)
        return status;
    if (device != NULL) {
        figures_begin(device, &now);
        level = device->level;
        if (level != NULL) {
            device->level = level->outer;
            figures_of_level(level, &now, &figures);
            figures.failures = atomic_load_explicit(&device->failures, memory_order_relaxed) - level->failures;
        }
        figures_end(device, &now);
    }
    if (level == NULL)
        return tide_error_set(TIDE_EINVAL, "bridge: pop without a push");
    free(level);
    figures.reserved_bytes = figures_reserved(device);
    if (out != NULL)
        tidei_figures_copy(out, &figures, sizeof(figures));
    return TIDE_OK;
}

/* What is outstanding of one tag. */
struct live_tag {
    uint64_t bytes, count;
    uint32_t tag;
};

struct live_tags {
    const struct tidei_bridge_device *device;
    struct tidei_map numbers; /* tag to index */
    struct live_tag *items;   /* owned */
    size_t count, capacity;
    bool no_memory;
};

/* With all maps locked. */
static void
live_add(uintptr_t address, struct tidei_bridge_entry *entry, void *context)
{
    struct live_tags *live = context;
    uint32_t *number;

    (void)address;
    if (entry->stack->device != live->device || live->no_memory)
        return;
    number = tidei_map_find(&live->numbers, entry->tag, 0);
    if (number == NULL) {
        if (!tidei_grow(&live->items, &live->capacity, live->count, 1) ||
            !tidei_map_add(&live->numbers, entry->tag, 0, (uint32_t)live->count)) {
            live->no_memory = true;
            return;
        }
        live->items[live->count] = (struct live_tag){ .tag = entry->tag };
        number = tidei_map_find(&live->numbers, entry->tag, 0);
        live->count++;
    }
    live->items[*number].bytes += entry->bytes;
    live->items[*number].count++;
}

static int
live_compare(const void *left, const void *right)
{
    const struct live_tag *a = left, *b = right;

    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a->tag > b->tag) - (a->tag < b->tag);
}

enum tide_status
tide_bridge_live(int ordinal, tide_bridge_live_function function, void *context)
{
    struct live_tags live = { 0 };
    struct tidei_bridge_device *device;
    enum tide_status status = tidei_bridge_device_get(ordinal, &device);

    if (status == TIDE_OK && function == NULL)
        status = tide_error_set(TIDE_EINVAL, "bridge: NULL in place of a function for what is live");
    if (status != TIDE_OK)
        return status;
    live.device = device;
    tidei_bridge_blocks_each(true, live_add, &live);
    if (live.no_memory)
        status = tide_error_set(TIDE_ENOMEM, "bridge: no host memory to count what is live");
    if (live.count > 0)
        qsort(live.items, live.count, sizeof(live.items[0]), live_compare);
    for (size_t i = 0; status == TIDE_OK && i < live.count; i++) {
        char *path = tidei_tag_path(live.items[i].tag);

        if (path == NULL)
            status = tide_error_set(TIDE_ENOMEM, "bridge: no host memory to count what is live");
        else
            function(context, path, live.items[i].bytes, live.items[i].count);
        free(path);
    }
    free(live.items);
    tidei_map_free(&live.numbers);
    return status;
}

static enum tide_status
figures_trim(struct tide_resource *top, void *context)
{
    (void)context;
    return tide_trim(top, 0);
}

enum tide_status
tide_bridge_trim(int ordinal)
{
    TIDEI_INSIDE(NULL);
    struct tidei_bridge_device *device = tidei_bridge_device_known(ordinal);

    if (device == NULL && (ordinal < 0 || ordinal >= TIDE_BRIDGE_DEVICES))
        return tidei_bridge_device_get(ordinal, &device);
    /* The driver may wait for all streams, of which one is being captured. */
    if (device != NULL && atomic_load_explicit(&device->captures, memory_order_acquire) != 0)
        return TIDE_OK;
    return device != NULL ? tidei_bridge_stacks_each(device, figures_trim, NULL) : TIDE_OK;
}
