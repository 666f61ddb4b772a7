/* Counts what the base `vmm` would do with handles of physical memory; see sim-handles.h. */
#include "src/bases/sim-handles.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"

/* As REUSE_FEW in src/bases/vmm/reuse.c: with more handles than this for one block, a new one is created. */
#define HANDLES_FEW ((size_t)4)

void
tidei_sim_handles_fini(struct tidei_sim_handles *handles)
{
    free(handles->handles);
    free(handles->freed);
    free(handles->cache);
}

/* Room for what one request adds: a handle, a place in the cache for it, and one for the block among the freed. */
static bool
handles_reserve(struct tidei_sim_handles *handles)
{
    return handles->handle_count < TIDEI_SIM_NO_HANDLE - 1 &&
           tidei_grow(&handles->handles, &handles->handle_capacity, handles->handle_count, 1) &&
           tidei_grow(&handles->cache, &handles->cache_capacity, handles->handle_count, 1) &&
           tidei_grow(&handles->freed, &handles->freed_capacity, handles->freed_count + handles->live_count, 1);
}

static uint32_t
handles_new(struct tidei_sim_handles *handles, uint64_t bytes)
{
    uint32_t handle = handles->unused;

    if (handle != TIDEI_SIM_NO_HANDLE)
        handles->unused = handles->handles[handle].next;
    else
        handle = (uint32_t)handles->handle_count++;
    handles->handles[handle] = (struct tidei_sim_handle){ bytes, TIDEI_SIM_NO_HANDLE };
    handles->reserved_bytes += bytes;
    tidei_sim_tally_grow(handles->tally, bytes, handles->reserved_bytes);
    return handle;
}

static void
handles_release(struct tidei_sim_handles *handles, uint32_t handle)
{
    uint64_t bytes = handles->handles[handle].bytes;

    handles->reserved_bytes -= bytes;
    tidei_sim_tally_return(handles->tally, bytes);
    handles->handles[handle].next = handles->unused;
    handles->unused = handle;
}

static void
freed_remove(struct tidei_sim_handles *handles, size_t i)
{
    struct tidei_sim_freed *freed = &handles->freed[i];

    memmove(freed, freed + 1, (--handles->freed_count - i) * sizeof(*freed));
}

/* The mappings of a freed block end, and its handles go to the cache. */
static void
freed_retire(struct tidei_sim_handles *handles, size_t i)
{
    uint32_t handle = handles->freed[i].first;

    tidei_sim_tally_unmap(handles->tally, handles->freed[i].count);
    for (; handle != TIDEI_SIM_NO_HANDLE; handle = handles->handles[handle].next)
        handles->cache[handles->cache_count++] = handle;
    freed_remove(handles, i);
}

/* The freed block that serves the request as it is: the last one of its stream, else the first; SIZE_MAX: none. */
static size_t
freed_find(const struct tidei_sim_handles *handles, const struct tidei_sim_handles_request *request)
{
    size_t found = SIZE_MAX;

    for (size_t i = handles->freed_count; i-- > 0;) {
        const struct tidei_sim_freed *freed = &handles->freed[i];

        if (freed->bytes != request->bytes || (request->wished && freed->address != request->address))
            continue;
        found = i;
        if (freed->stream == request->stream)
            break;
    }
    return found;
}

/* Clear the addresses that the request wishes of freed blocks, the lowest first. */
static void
freed_clear(struct tidei_sim_handles *handles, const struct tidei_sim_handles_request *request)
{
    size_t lowest;

    do {
        lowest = SIZE_MAX;
        for (size_t i = 0; i < handles->freed_count; i++) {
            const struct tidei_sim_freed *freed = &handles->freed[i];

            if (freed->address < request->address + request->bytes &&
                request->address < freed->address + freed->bytes &&
                (lowest == SIZE_MAX || freed->address < handles->freed[lowest].address))
                lowest = i;
        }
        if (lowest != SIZE_MAX)
            freed_retire(handles, lowest);
    } while (lowest != SIZE_MAX);
}

static void
handles_shrink(struct tidei_sim_handles *handles, uint64_t keep_bytes)
{
    while (handles->cache_count > 0 && handles->reserved_bytes > keep_bytes)
        handles_release(handles, handles->cache[--handles->cache_count]);
    for (size_t i = 0; i < handles->freed_count && handles->reserved_bytes > keep_bytes;) {
        uint32_t handle = handles->freed[i].first, next;

        if (handles->freed[i].planned != 0) {
            i++;
            continue;
        }
        tidei_sim_tally_unmap(handles->tally, handles->freed[i].count);
        for (; handle != TIDEI_SIM_NO_HANDLE; handle = next) {
            next = handles->handles[handle].next;
            handles_release(handles, handle);
        }
        freed_remove(handles, i);
    }
}

/* The handles that a request is to have: those of freed blocks that are marked, and a list of those of the cache. */
struct handles_plan {
    uint64_t missing_bytes;
    size_t count;
    uint32_t freed;       /* how many are marked */
    uint32_t first, last; /* TIDEI_SIM_NO_HANDLE: the list is empty */
};

/* Plan whole freed blocks, the largest first, as long as they fit and there are at most `most` handles. */
static void
plan_freed(struct tidei_sim_handles *handles, struct handles_plan *plan, size_t most)
{
    while (plan->missing_bytes > 0 && plan->count < most) {
        struct tidei_sim_freed *best = NULL;

        for (size_t i = 0; i < handles->freed_count; i++) {
            struct tidei_sim_freed *freed = &handles->freed[i];

            if (freed->planned == 0 && freed->bytes <= plan->missing_bytes &&
                (best == NULL || freed->bytes > best->bytes))
                best = freed;
        }
        if (best == NULL)
            return;
        best->planned = ++plan->freed;
        plan->count += best->count;
        plan->missing_bytes -= best->bytes;
    }
}

/* The place of the largest cached handle that is not larger; SIZE_MAX: there is none. */
static size_t
cache_largest(const struct tidei_sim_handles *handles, uint64_t most_bytes)
{
    size_t best = SIZE_MAX;
    uint64_t best_bytes = 0;

    for (size_t i = 0; i < handles->cache_count; i++) {
        uint64_t bytes = handles->handles[handles->cache[i]].bytes;

        if (bytes <= most_bytes && bytes > best_bytes) {
            best = i;
            best_bytes = bytes;
        }
    }
    return best;
}

/* Add a handle that no block has, without mapping, at the end of the list. */
static void
plan_add(struct tidei_sim_handles *handles, struct handles_plan *plan, uint32_t handle)
{
    if (plan->last != TIDEI_SIM_NO_HANDLE)
        handles->handles[plan->last].next = handle;
    else
        plan->first = handle;
    plan->last = handle;
    handles->handles[handle].next = TIDEI_SIM_NO_HANDLE;
    plan->missing_bytes -= handles->handles[handle].bytes;
    plan->count++;
}

/* Plan cached handles. */
static void
plan_cached(struct tidei_sim_handles *handles, struct handles_plan *plan, size_t most)
{
    while (plan->missing_bytes > 0 && plan->count < most) {
        size_t best = cache_largest(handles, plan->missing_bytes);

        if (best == SIZE_MAX)
            return;
        plan_add(handles, plan, handles->cache[best]);
        handles->cache[best] = handles->cache[--handles->cache_count];
    }
}

/* The freed block with the largest handle that is not larger; SIZE_MAX: there is none. */
static size_t
freed_with_largest(const struct tidei_sim_handles *handles, uint64_t most_bytes)
{
    uint64_t best_bytes = 0;
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < handles->freed_count; i++) {
        uint32_t handle = handles->freed[i].planned != 0 ? TIDEI_SIM_NO_HANDLE : handles->freed[i].first;

        for (; handle != TIDEI_SIM_NO_HANDLE; handle = handles->handles[handle].next) {
            uint64_t bytes = handles->handles[handle].bytes;

            if (bytes <= most_bytes && bytes > best_bytes) {
                best = i;
                best_bytes = bytes;
            }
        }
    }
    return best;
}

static struct handles_plan
plan_of(uint64_t bytes)
{
    return (struct handles_plan){ bytes, 0, 0, TIDEI_SIM_NO_HANDLE, TIDEI_SIM_NO_HANDLE };
}

static void
plan_undo(struct tidei_sim_handles *handles, struct handles_plan *plan, uint64_t bytes)
{
    for (size_t i = 0; i < handles->freed_count; i++)
        handles->freed[i].planned = 0;
    for (uint32_t handle = plan->first; handle != TIDEI_SIM_NO_HANDLE; handle = handles->handles[handle].next)
        handles->cache[handles->cache_count++] = handle;
    *plan = plan_of(bytes);
}

/* Plan one handle or freed block of exactly the size. */
static bool
plan_exactly(struct tidei_sim_handles *handles, struct handles_plan *plan)
{
    size_t cached = cache_largest(handles, plan->missing_bytes);
    uint64_t bytes = plan->missing_bytes;

    if (cached != SIZE_MAX && handles->handles[handles->cache[cached]].bytes == bytes)
        plan_cached(handles, plan, 1);
    else
        plan_freed(handles, plan, 1);
    if (plan->missing_bytes == 0)
        return true;
    plan_undo(handles, plan, bytes);
    return false;
}

/* Plan without new memory, as far as that goes and takes few handles. */
static void
plan_all(struct tidei_sim_handles *handles, struct handles_plan *plan)
{
    uint64_t bytes = plan->missing_bytes;
    size_t source;

    plan_freed(handles, plan, SIZE_MAX);
    plan_cached(handles, plan, SIZE_MAX);
    while (plan->missing_bytes > 0 && (source = freed_with_largest(handles, plan->missing_bytes)) != SIZE_MAX) {
        freed_retire(handles, source);
        plan_cached(handles, plan, SIZE_MAX);
    }
    if (plan->count > HANDLES_FEW)
        plan_undo(handles, plan, bytes);
}

/* Plan the handles of a new block; what is missing then is to be created. */
static void
plan_make(struct tidei_sim_handles *handles, struct handles_plan *plan, uint64_t most_bytes)
{
    uint64_t bytes = plan->missing_bytes;

    if (plan_exactly(handles, plan))
        return;
    if (handles->reserved_bytes + bytes <= most_bytes) {
        plan_freed(handles, plan, HANDLES_FEW);
        plan_cached(handles, plan, HANDLES_FEW);
        if (plan->missing_bytes > 0 || plan->count > HANDLES_FEW)
            plan_undo(handles, plan, bytes);
    } else {
        plan_all(handles, plan);
    }
}

/* Take what is planned: the mappings of the freed blocks end. Returns the first of the handles. */
static uint32_t
plan_commit(struct tidei_sim_handles *handles, const struct handles_plan *plan)
{
    uint32_t first = plan->first, last;

    for (uint32_t planned = plan->freed; planned > 0; planned--) {
        size_t i = 0;

        while (handles->freed[i].planned != planned)
            i++;
        last = handles->freed[i].first;
        while (handles->handles[last].next != TIDEI_SIM_NO_HANDLE)
            last = handles->handles[last].next;
        handles->handles[last].next = first;
        first = handles->freed[i].first;
        tidei_sim_tally_unmap(handles->tally, handles->freed[i].count);
        freed_remove(handles, i);
    }
    return first;
}

/* Choose handles for a block that none serves as it is, and map them. */
static uint32_t
handles_plan(struct tidei_sim_handles *handles, uint64_t bytes)
{
    uint64_t in_use = handles->mapped_bytes + bytes;
    uint64_t most_bytes = in_use > handles->most_mapped ? in_use : handles->most_mapped;
    struct handles_plan plan = plan_of(bytes);

    plan_make(handles, &plan, most_bytes);
    if (plan.missing_bytes > 0) {
        handles_shrink(handles, most_bytes - plan.missing_bytes);
        plan_add(handles, &plan, handles_new(handles, plan.missing_bytes));
    }
    tidei_sim_tally_map(handles->tally, plan.count);
    return plan_commit(handles, &plan);
}

bool
tidei_sim_handles_take(struct tidei_sim_handles *handles, const struct tidei_sim_handles_request *request,
                       uint32_t *first)
{
    size_t found;

    if (!handles_reserve(handles))
        return false;
    found = freed_find(handles, request);
    if (found != SIZE_MAX) {
        *first = handles->freed[found].first;
        freed_remove(handles, found);
        tidei_figure_add(&handles->tally->kept, 1);
    } else {
        if (request->wished)
            freed_clear(handles, request);
        *first = handles_plan(handles, request->bytes);
    }
    handles->live_count++;
    handles->mapped_bytes += request->bytes;
    if (handles->most_mapped < handles->mapped_bytes)
        handles->most_mapped = handles->mapped_bytes;
    return true;
}

void
tidei_sim_handles_give(struct tidei_sim_handles *handles, uint64_t address, uint64_t bytes, tide_stream stream,
                       uint32_t first)
{
    uint32_t count = 0;

    for (uint32_t handle = first; handle != TIDEI_SIM_NO_HANDLE; handle = handles->handles[handle].next)
        count++;
    handles->live_count--;
    handles->mapped_bytes -= bytes;
    handles->freed[handles->freed_count++] = (struct tidei_sim_freed){
        .address = address, .bytes = bytes, .stream = stream, .first = first, .count = count
    };
}

void
tidei_sim_handles_trim(struct tidei_sim_handles *handles, uint64_t keep_bytes)
{
    handles_shrink(handles, keep_bytes);
}
