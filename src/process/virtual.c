/*
 * Wraps the functions of physical memory and its mappings.
 *
 * The bytes belong to what cuMemCreate has made. It lives as long as something holds it: a handle, each as often as it
 * was made, retained or imported; and a mapping. JAX releases the handle once it is mapped; PyTorch keeps it. A handle
 * may come back while what it named is mapped still. So the account has numbers of its own for what was made.
 */
#include "config.h"

#include <stdlib.h>

#include "src/process/account.h"
#include "src/process/devices.h"
#include "src/sync/lock.h"
#include "src/tables/grow.h"

#ifdef HAVE_CUDA_H

#define VIRTUAL_NONE UINT32_MAX

/* The number of an item in the account: ranges of addresses that begin with them do not overlap. */
#define VIRTUAL_KEY(index) ((uint64_t)((index) + 1) << 40)

struct physical {
    uint64_t holders; /* handles, as often as they are held, and mappings; 0: the item is not in use */
    bool imported;    /* memory of another process: its bytes show when it is mapped */
    bool counted;     /* the account has it */
    int device;       /* -1: that of the context which is current */
    uint32_t next;    /* not in use: the next such item */
};

/* A handle of one item, or a mapping. */
struct reference {
    uint32_t physical;
    uint32_t next;  /* not in use: the next such reference */
    uint64_t count; /* of a handle: how often it is held */
    uint64_t bytes; /* of a mapping */
};

static struct {
    struct tidei_lock lock; /* guards all; nothing is called while it is held */
    struct physical *items; /* owned */
    size_t count, capacity;
    struct reference *references; /* owned */
    size_t reference_count, reference_capacity;
    uint32_t unused_item, unused_reference;
    struct tidei_map handles, mappings; /* to references: of a handle, and of the address at which a mapping begins */
} virtual = { .unused_item = VIRTUAL_NONE, .unused_reference = VIRTUAL_NONE };

__attribute__((constructor)) static void
virtual_load(void)
{
    tidei_lock_init(&virtual.lock);
}

/* An item with one holder; VIRTUAL_NONE without host memory. The lock is held here and in what follows. */
static uint32_t
item_new(int device, bool imported)
{
    uint32_t index = virtual.unused_item;

    if (index != VIRTUAL_NONE)
        virtual.unused_item = virtual.items[index].next;
    else if (virtual.count < VIRTUAL_NONE && tidei_grow(&virtual.items, &virtual.capacity, virtual.count, 1))
        index = (uint32_t) virtual.count++;
    else
        return VIRTUAL_NONE;
    virtual.items[index] = (struct physical){ .holders = 1, .imported = imported, .device = device };
    return index;
}

static void
item_end(uint32_t index)
{
    virtual.items[index].next = virtual.unused_item;
    virtual.unused_item = index;
}

static bool
reference_add(struct tidei_map *map, uint64_t id, uint32_t physical, uint64_t bytes)
{
    uint32_t index = virtual.unused_reference, old;

    if (index != VIRTUAL_NONE)
        virtual.unused_reference = virtual.references[index].next;
    else if (tidei_grow(&virtual.references, &virtual.reference_capacity, virtual.reference_count, 1))
        index = (uint32_t) virtual.reference_count++;
    else
        return false;
    virtual.references[index] = (struct reference){ .physical = physical, .count = 1, .bytes = bytes };
    (void)tidei_map_take(map, id, 0, &old); /* ended by a way that was not seen; its item stays held */
    return tidei_map_add(map, id, 0, index);
}

static struct reference *
reference_find(struct tidei_map *map, uint64_t id)
{
    uint32_t *index = tidei_map_find(map, id, 0);

    return index != NULL ? &virtual.references[*index] : NULL;
}

static void
reference_remove(struct tidei_map *map, uint64_t id)
{
    uint32_t index;

    if (!tidei_map_take(map, id, 0, &index))
        return;
    virtual.references[index].next = virtual.unused_reference;
    virtual.unused_reference = index;
}

/* Hold an item through a handle. Without host memory the item is held for ever: its bytes stay counted. */
static void
handle_hold(uint64_t handle, uint32_t physical)
{
    struct reference *held = reference_find(&virtual.handles, handle);

    if (held != NULL && held->physical == physical)
        held->count++;
    else
        (void)reference_add(&virtual.handles, handle, physical, 0);
}

/* Give one hold of a handle back; returns the item, VIRTUAL_NONE where the handle is not known. */
static uint32_t
handle_drop(uint64_t handle)
{
    struct reference *held = reference_find(&virtual.handles, handle);
    uint32_t physical = held != NULL ? held->physical : VIRTUAL_NONE;

    if (held != NULL && --held->count == 0)
        reference_remove(&virtual.handles, handle);
    return physical;
}

/* Creation. */

struct create_call {
    struct tidei_process_call call; /* first */
    CUmemGenericAllocationHandle *handle;
    const CUmemAllocationProp *properties;
    unsigned long long flags;
    uint32_t item;
};

static CUresult
create_make(struct tidei_process_call *call, uint64_t *key)
{
    struct create_call *create = (struct create_call *)call;

    *key = VIRTUAL_KEY(create->item);
    return TIDEI_REAL(cuMemCreate)(create->handle, call->bytes, create->properties, create->flags);
}

static CUresult
create_give(struct tidei_process_call *call, uint64_t key)
{
    (void)key;
    return TIDEI_REAL(cuMemRelease)(*((struct create_call *)call)->handle);
}

/* Where memory of these properties lies; false where that is nowhere that is known. */
static bool
create_what(const CUmemAllocationProp *properties, struct tidei_process_what *what)
{
    CUcontext context;

    *what = (struct tidei_process_what){ .names = TIDEI_PROCESS_PHYSICAL, .stays = true };
    if (properties == NULL)
        return false;
    what->kind = TIDEI_PROCESS_VIRTUAL;
    what->device = properties->location.id;
    if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        return what->device >= 0 && tidei_process_has_device(what->device);
    what->kind = TIDEI_PROCESS_PINNED; /* of the host: never a device's, whose number it may look like */
    if (!tidei_process_current(&context, &what->device))
        what->device = 0;
    return true;
}

CUresult CUDAAPI
tidei_process_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                          unsigned long long flags)
{
    struct create_call create = {
        .call = { .make = create_make, .give = create_give, .function = "cuMemCreate", .bytes = bytes },
        .handle = handle,
        .properties = properties,
        .flags = flags,
        .item = VIRTUAL_NONE,
    };
    struct tidei_process_what what;
    CUresult result;

    if (tidei_process_passes() || handle == NULL || !create_what(properties, &what))
        return TIDEI_REAL(cuMemCreate)(handle, bytes, properties, flags);
    tidei_lock_acquire(&virtual.lock);
    create.item = item_new(what.device, false);
    tidei_lock_release(&virtual.lock);
    if (create.item == VIRTUAL_NONE)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = tidei_process_allocate(&create.call, &what);
    tidei_lock_acquire(&virtual.lock);
    virtual.items[create.item].counted = create.call.counted;
    if (result == CUDA_SUCCESS)
        handle_hold(*handle, create.item);
    else
        item_end(create.item);
    tidei_lock_release(&virtual.lock);
    return result;
}

CUresult CUDAAPI
tidei_process_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                             CUmemAllocationHandleType type)
{
    CUresult result = TIDEI_REAL(cuMemImportFromShareableHandle)(handle, shared, type);
    struct reference *held;
    uint32_t item;

    if (result != CUDA_SUCCESS || tidei_process_passes())
        return result;
    tidei_lock_acquire(&virtual.lock);
    held = reference_find(&virtual.handles, *handle);
    if (held != NULL) { /* what this process has exported itself */
        held->count++;
        virtual.items[held->physical].holders++;
    } else if ((item = item_new(-1, true)) != VIRTUAL_NONE) {
        handle_hold(*handle, item);
    }
    tidei_lock_release(&virtual.lock);
    return result;
}

/* Whether `address` lies in a mapping; the item of that. Mappings are few beside what is done with them. */
static uint32_t
mapping_item(uint64_t address)
{
    const struct reference *mapping = reference_find(&virtual.mappings, address);

    if (mapping != NULL)
        return mapping->physical;
    for (size_t i = 0; virtual.mappings.count != 0 && i <= virtual.mappings.mask; i++) {
        const struct tidei_map_entry *entry = &virtual.mappings.entries[i];

        if (entry->used && address >= entry->id && address - entry->id < virtual.references[entry->number].bytes)
            return virtual.references[entry->number].physical;
    }
    return VIRTUAL_NONE;
}

CUresult CUDAAPI
tidei_process_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *pointer)
{
    CUresult result = TIDEI_REAL(cuMemRetainAllocationHandle)(handle, pointer);
    uint32_t item;

    if (result != CUDA_SUCCESS || tidei_process_passes())
        return result;
    tidei_lock_acquire(&virtual.lock);
    item = mapping_item((uintptr_t)pointer);
    if (item != VIRTUAL_NONE) {
        virtual.items[item].holders++;
        handle_hold(*handle, item);
    }
    tidei_lock_release(&virtual.lock);
    return result;
}

/* Mappings. */

static CUresult
import_make(struct tidei_process_call *call, uint64_t *key)
{
    *key = VIRTUAL_KEY(((struct create_call *)call)->item);
    return CUDA_SUCCESS;
}

static CUresult
import_give(struct tidei_process_call *call, uint64_t key)
{
    (void)call;
    (void)key;
    return CUDA_SUCCESS;
}

/* Memory of another process is mapped for the first time: mark it. */
static void
import_count(uint32_t item, size_t bytes)
{
    static const struct tidei_process_what what = {
        .kind = TIDEI_PROCESS_IMPORTED, .names = TIDEI_PROCESS_PHYSICAL, .device = -1, .stays = true
    };
    struct create_call create = {
        .call = { .make = import_make, .give = import_give, .function = "cuMemMap", .bytes = bytes },
        .item = item,
    };

    (void)tidei_process_allocate(&create.call, &what);
}

CUresult CUDAAPI
tidei_process_cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                       unsigned long long flags)
{
    CUresult result = TIDEI_REAL(cuMemMap)(pointer, bytes, offset, handle, flags);
    uint32_t item = VIRTUAL_NONE;
    struct reference *held;
    bool marks = false;

    if (result != CUDA_SUCCESS || tidei_process_passes())
        return result;
    tidei_lock_acquire(&virtual.lock);
    held = reference_find(&virtual.handles, handle);
    if (held != NULL) {
        item = held->physical;
        virtual.items[item].holders++;
        (void)reference_add(&virtual.mappings, pointer, item, bytes);
        marks = virtual.items[item].imported && !virtual.items[item].counted;
        virtual.items[item].counted |= marks;
    }
    tidei_lock_release(&virtual.lock);
    if (marks)
        import_count(item, bytes);
    return result;
}

/* The ends of holds. */

/* A call of the driver that ends holds, while the last of them ends the life of an item. */
struct end_call {
    struct tidei_process_call call; /* first */
    CUmemGenericAllocationHandle handle;
    CUdeviceptr pointer;
    size_t bytes; /* of the mappings; 0: it is the release of the handle */
    bool done;    /* with `end_result` */
    CUresult end_result;
};

static CUresult
end_give(struct tidei_process_call *call, uint64_t key)
{
    struct end_call *end = (struct end_call *)call;

    (void)key;
    if (!end->done)
        end->end_result =
            end->bytes != 0 ? TIDEI_REAL(cuMemUnmap)(end->pointer, end->bytes) : TIDEI_REAL(cuMemRelease)(end->handle);
    end->done = true;
    return end->end_result;
}

/* The call has been made: let its items go on, or end. */
static void
end_items(const uint32_t *items, size_t count)
{
    tidei_lock_acquire(&virtual.lock);
    for (size_t i = 0; i < count; i++) {
        if (items[i] != VIRTUAL_NONE)
            item_end(items[i]);
    }
    tidei_lock_release(&virtual.lock);
}

CUresult CUDAAPI
tidei_process_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct end_call end = { .call = { .give = end_give, .function = "cuMemRelease" }, .handle = handle };
    bool counted = false, ends = false;
    uint32_t item;
    CUresult result;

    if (tidei_process_passes())
        return TIDEI_REAL(cuMemRelease)(handle);
    tidei_lock_acquire(&virtual.lock);
    item = handle_drop(handle);
    if (item != VIRTUAL_NONE) {
        ends = --virtual.items[item].holders == 0;
        counted = virtual.items[item].counted;
    }
    tidei_lock_release(&virtual.lock);
    result = ends && counted ? tidei_process_free(&end.call, TIDEI_PROCESS_PHYSICAL, VIRTUAL_KEY(item))
                             : end_give(&end.call, 0);
    if (result == CUDA_SUCCESS && ends)
        end_items(&item, 1);
    if (result == CUDA_SUCCESS || item == VIRTUAL_NONE)
        return result;
    tidei_lock_acquire(&virtual.lock);
    virtual.items[item].holders++;
    handle_hold(handle, item);
    tidei_lock_release(&virtual.lock);
    return result;
}

/* A mapping that was taken out of the table. */
struct unmapped {
    uint64_t address;
    struct reference mapping;
    bool ends; /* it was the last that held its item */
};

struct unmapped_list {
    struct unmapped *items; /* owned */
    size_t count, capacity;
};

/* Take out all mappings of a range, which begin side by side. */
static void
unmap_take(struct unmapped_list *list, uint64_t address, size_t bytes)
{
    uint64_t at = address;

    tidei_lock_acquire(&virtual.lock);
    while (at - address < bytes && tidei_grow(&list->items, &list->capacity, list->count, 1)) {
        const struct reference *mapping = reference_find(&virtual.mappings, at);
        struct unmapped *taken = &list->items[list->count];

        if (mapping == NULL || mapping->bytes == 0)
            break;
        *taken = (struct unmapped){ .address = at, .mapping = *mapping };
        taken->ends = --virtual.items[mapping->physical].holders == 0;
        reference_remove(&virtual.mappings, at);
        at += taken->mapping.bytes;
        list->count++;
    }
    tidei_lock_release(&virtual.lock);
}

static void
unmap_restore(const struct unmapped_list *list)
{
    tidei_lock_acquire(&virtual.lock);
    for (size_t i = 0; i < list->count; i++) {
        const struct reference *mapping = &list->items[i].mapping;

        virtual.items[mapping->physical].holders++;
        (void)reference_add(&virtual.mappings, list->items[i].address, mapping->physical, mapping->bytes);
    }
    tidei_lock_release(&virtual.lock);
}

CUresult CUDAAPI
tidei_process_cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    struct end_call end = { .call = { .give = end_give, .function = "cuMemUnmap" },
                            .pointer = pointer,
                            .bytes = bytes };
    struct unmapped_list list = { 0 };

    if (tidei_process_passes() || bytes == 0)
        return TIDEI_REAL(cuMemUnmap)(pointer, bytes);
    unmap_take(&list, pointer, bytes);
    for (size_t i = 0; i < list.count && (!end.done || end.end_result == CUDA_SUCCESS); i++) {
        if (list.items[i].ends)
            (void)tidei_process_free(&end.call, TIDEI_PROCESS_PHYSICAL, VIRTUAL_KEY(list.items[i].mapping.physical));
    }
    if (end_give(&end.call, 0) != CUDA_SUCCESS)
        unmap_restore(&list);
    for (size_t i = 0; i < list.count && end.end_result == CUDA_SUCCESS; i++) {
        if (list.items[i].ends)
            end_items(&list.items[i].mapping.physical, 1);
    }
    free(list.items);
    return end.end_result;
}

#endif
