/*
 * Virtual memory of the fake driver: ranges of addresses, handles of physical memory, and the mappings between them.
 *
 * A handle is a file in memory, which can be mapped at several addresses and given to another process. Without access,
 * the host cannot read or write a mapping either. It is checked that use is legal: no mapping over another one, an end
 * of whole mappings alone, and of none that work still names. A GPU answers the last with a fault: the contexts then
 * have CUDA_ERROR_ILLEGAL_ADDRESS, and `faults` counts it.
 */
#include "tests/fake-cuda/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fake-cuda/capture.h"

#define VIRTUAL_PAGE (2 * FAKE_MIB)

struct virtual_range {
    struct virtual_range *next;
    uint64_t address, bytes;
};

/* A handle lives until it is released and nothing maps it. */
struct virtual_handle {
    struct virtual_handle *next;
    uint64_t id, bytes;
    int device; /* -1: of another process, or on the host */
    CUmemLocation location;
    int fd;
    CUmemAllocationHandleType types;
    unsigned references; /* not released yet */
    unsigned maps;
};

struct fake_mapping {
    struct fake_mapping *next;
    uint64_t address, id;
    struct virtual_handle *handle;
    unsigned access; /* a bit for each device */
};

static struct virtual_range *virtual_ranges;
static struct virtual_handle *virtual_handles;
static struct fake_mapping *virtual_mappings;
static uint64_t virtual_ids = 0x1000, virtual_reserved_bytes;
static unsigned virtual_faults;

static void *
virtual_new(size_t bytes)
{
    void *made = calloc(1, bytes);

    if (made == NULL)
        abort();
    return made;
}

static struct virtual_handle *
virtual_handle_find(CUmemGenericAllocationHandle id)
{
    struct virtual_handle *handle = virtual_handles;

    while (handle != NULL && (handle->id != id || handle->references == 0))
        handle = handle->next;
    return handle;
}

/* The mapping in which the address lies. */
static struct fake_mapping *
virtual_mapping_at(uint64_t address)
{
    struct fake_mapping *mapping = virtual_mappings;

    while (mapping != NULL && (address < mapping->address || address - mapping->address >= mapping->handle->bytes))
        mapping = mapping->next;
    return mapping;
}

static bool
virtual_is_reserved(uint64_t address, uint64_t bytes)
{
    for (const struct virtual_range *range = virtual_ranges; range != NULL; range = range->next) {
        if (address >= range->address && address - range->address <= range->bytes &&
            bytes <= range->bytes - (address - range->address))
            return true;
    }
    return false;
}

/* Whether any mapping lies in the range. */
static bool
virtual_is_mapped(uint64_t address, uint64_t bytes)
{
    for (const struct fake_mapping *mapping = virtual_mappings; mapping != NULL; mapping = mapping->next) {
        if (mapping->address < address + bytes && address < mapping->address + mapping->handle->bytes)
            return true;
    }
    return false;
}

bool
fake_virtual_place(uint64_t address, struct fake_place *out)
{
    const struct fake_mapping *mapping = virtual_mapping_at(address);

    if (mapping == NULL)
        return false;
    *out = (struct fake_place){ .start = mapping->address,
                                .bytes = mapping->handle->bytes,
                                .id = mapping->id,
                                .kind = FAKE_DEVICE,
                                .device = mapping->handle->device,
                                .mapping = mapping };
    return true;
}

bool
fake_virtual_check(int device, uint64_t address, uint64_t bytes)
{
    uint64_t end = address + bytes;

    while (address < end) {
        const struct fake_mapping *mapping = virtual_mapping_at(address);

        if (mapping == NULL || (mapping->access & 1u << device) == 0)
            return false;
        address = mapping->address + mapping->handle->bytes;
    }
    return true;
}

void
fake_virtual_count(struct fake_count *out)
{
    for (const struct virtual_handle *handle = virtual_handles; handle != NULL; handle = handle->next) {
        out->handles += handle->references;
        out->handle_bytes += handle->device >= 0 ? handle->bytes : 0;
    }
    for (const struct virtual_range *range = virtual_ranges; range != NULL; range = range->next)
        out->ranges++;
    for (const struct fake_mapping *mapping = virtual_mappings; mapping != NULL; mapping = mapping->next)
        out->maps++;
    out->faults = virtual_faults;
}

static CUresult
do_cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags)
{
    uint64_t most = fake_environment_bytes("FAKE_CUDA_ADDRESSES", UINT64_MAX);
    uint64_t room = alignment > VIRTUAL_PAGE ? alignment : VIRTUAL_PAGE;
    struct virtual_range *range;
    char *address;

    (void)wish;
    if (out == NULL || bytes == 0 || bytes % VIRTUAL_PAGE != 0 || (alignment & (alignment - 1)) != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > most || virtual_reserved_bytes > most - bytes || bytes > (uint64_t)1 << 46)
        return CUDA_ERROR_OUT_OF_MEMORY;
    address = mmap(NULL, bytes + room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range = virtual_new(sizeof(*range));
    range->address = ((uint64_t)(uintptr_t)address + room - 1) / room * room;
    range->bytes = bytes;
    if (range->address > (uint64_t)(uintptr_t)address)
        munmap(address, range->address - (uint64_t)(uintptr_t)address);
    munmap((void *)(uintptr_t)(range->address + bytes), (uint64_t)(uintptr_t)address + room - range->address);
    range->next = virtual_ranges;
    virtual_ranges = range;
    virtual_reserved_bytes += bytes;
    *out = range->address;
    return CUDA_SUCCESS;
}

FAKE_API(10020, cuMemAddressReserve,
         (CUdeviceptr * out, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags),
         (out, bytes, alignment, wish, flags))

static CUresult
do_cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    struct virtual_range **link = &virtual_ranges;
    struct virtual_range *range;

    while (*link != NULL && ((*link)->address != address || (*link)->bytes != bytes))
        link = &(*link)->next;
    if (*link == NULL || virtual_is_mapped(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    range = *link;
    *link = range->next;
    munmap((void *)(uintptr_t)address, bytes);
    virtual_reserved_bytes -= bytes;
    free(range);
    return CUDA_SUCCESS;
}

FAKE_API(10020, cuMemAddressFree, (CUdeviceptr address, size_t bytes), (address, bytes))

static bool
virtual_properties_are(const CUmemAllocationProp *properties)
{
    if (properties == NULL || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return false;
    if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        return fake_device_is(properties->location.id);
    return properties->location.type == CU_MEM_LOCATION_TYPE_HOST ||
           (properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && properties->location.id == 0);
}

static CUresult
do_cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                 CUmemAllocationGranularity_flags flags)
{
    if (bytes == NULL || !virtual_properties_are(properties) || flags > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = VIRTUAL_PAGE;
    return CUDA_SUCCESS;
}

FAKE_API(10020, cuMemGetAllocationGranularity,
         (size_t * bytes, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags flags),
         (bytes, properties, flags))

static struct virtual_handle *
virtual_handle_new(uint64_t bytes, int device, int fd, CUmemAllocationHandleType types)
{
    struct virtual_handle *handle = virtual_new(sizeof(*handle));

    *handle = (struct virtual_handle){ .next = virtual_handles,
                                       .id = ++virtual_ids,
                                       .bytes = bytes,
                                       .device = device,
                                       .fd = fd,
                                       .types = types,
                                       .references = 1 };
    virtual_handles = handle;
    return handle;
}

static CUresult
do_cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *properties,
               unsigned long long flags)
{
    struct virtual_handle *handle;
    int device;
    int fd;

    if (out == NULL || bytes == 0 || bytes % VIRTUAL_PAGE != 0 || !virtual_properties_are(properties) || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties->location.id : -1;
    if (!fake_device_take(device, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    fd = memfd_create("fake-cuda-pages", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    handle = virtual_handle_new(bytes, device, fd, properties->requestedHandleTypes);
    handle->location = properties->location;
    *out = handle->id;
    return CUDA_SUCCESS;
}

FAKE_API(10020, cuMemCreate,
         (CUmemGenericAllocationHandle * out, size_t bytes, const CUmemAllocationProp *properties,
          unsigned long long flags),
         (out, bytes, properties, flags))

/* Give the memory of a handle back that is released and that nothing maps. */
static void
virtual_handle_drop(struct virtual_handle *handle)
{
    struct virtual_handle **link = &virtual_handles;

    if (handle->references > 0 || handle->maps > 0)
        return;
    while (*link != handle)
        link = &(*link)->next;
    *link = handle->next;
    fake_device_give(handle->device, handle->bytes);
    close(handle->fd);
    free(handle);
}

static CUresult
do_cuMemRelease(CUmemGenericAllocationHandle id)
{
    struct virtual_handle *handle = virtual_handle_find(id);

    if (handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    handle->references--;
    virtual_handle_drop(handle);
    return CUDA_SUCCESS;
}

FAKE_API(10020, cuMemRelease, (CUmemGenericAllocationHandle id), (id))

/* Also of a handle that is released and still mapped, which may be used again from here on. */
static CUresult
do_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    struct fake_mapping *mapping = virtual_mapping_at((uint64_t)(uintptr_t)address);

    if (out == NULL || mapping == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    mapping->handle->references++;
    *out = mapping->handle->id;
    return CUDA_SUCCESS;
}

FAKE_API(11000, cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * out, void *address), (out, address))

static CUresult
do_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out, CUmemGenericAllocationHandle id)
{
    const struct virtual_handle *handle = virtual_handle_find(id);

    if (out == NULL || handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .requestedHandleTypes = handle->types,
                                  .location = handle->location };
    return CUDA_SUCCESS;
}

FAKE_API(10020, cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp * out, CUmemGenericAllocationHandle id),
         (out, id))

static CUresult
do_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle id, unsigned long long flags)
{
    struct virtual_handle *handle = virtual_handle_find(id);
    struct fake_mapping *mapping;

    if (handle == NULL || bytes != handle->bytes || offset != 0 || flags != 0 || address % VIRTUAL_PAGE != 0 ||
        !virtual_is_reserved(address, bytes) || virtual_is_mapped(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (mmap((void *)(uintptr_t)address, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->fd, 0) == MAP_FAILED)
        abort();
    mapping = virtual_new(sizeof(*mapping));
    *mapping =
        (struct fake_mapping){ .next = virtual_mappings, .address = address, .id = fake_memory_id(), .handle = handle };
    virtual_mappings = mapping;
    handle->maps++;
    return CUDA_SUCCESS;
}

FAKE_API(10020, cuMemMap,
         (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle id, unsigned long long flags),
         (address, bytes, offset, id, flags))

/* Whether the range consists of whole mappings. */
static bool
virtual_is_whole(uint64_t address, uint64_t bytes)
{
    uint64_t end = address + bytes;

    while (address < end) {
        const struct fake_mapping *mapping = virtual_mapping_at(address);

        if (mapping == NULL || mapping->address != address)
            return false;
        address += mapping->handle->bytes;
    }
    return address == end && bytes > 0;
}

/* A GPU that finds no memory where its work has an address ends the work of its contexts for good. */
static void
virtual_fault(uint64_t address, uint64_t bytes)
{
    fprintf(stderr, "fake-cuda: unmapped under the work of a stream: %#lx, %lu bytes\n", (unsigned long)address,
            (unsigned long)bytes);
    virtual_faults++;
    for (CUcontext context = fake.contexts; context != NULL; context = context->next)
        context->error = CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* After a fault the host's mapping stays: work that runs just now would crash the test. */
static CUresult
do_cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    bool faulty = fake_work_names(address, address + bytes);

    if (!virtual_is_whole(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (faulty)
        virtual_fault(address, bytes);
    for (struct fake_mapping **link = &virtual_mappings; *link != NULL;) {
        struct fake_mapping *mapping = *link;

        if (mapping->address < address || mapping->address >= address + bytes) {
            link = &mapping->next;
            continue;
        }
        *link = mapping->next;
        mapping->handle->maps--;
        virtual_handle_drop(mapping->handle);
        free(mapping);
    }
    if (!faulty && mmap((void *)(uintptr_t)address, bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        abort();
    return CUDA_SUCCESS;
}

FAKE_API(10020, cuMemUnmap, (CUdeviceptr address, size_t bytes), (address, bytes))

static CUresult
virtual_access_check(const CUmemAccessDesc *wanted, const struct fake_mapping *mapping)
{
    if (wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !fake_device_is(wanted->location.id) ||
        wanted->flags > CU_MEM_ACCESS_FLAGS_PROT_READWRITE || wanted->flags == 2)
        return CUDA_ERROR_INVALID_VALUE;
    if (mapping->handle->device >= 0 && mapping->handle->device != wanted->location.id &&
        fake_environment_bytes("FAKE_CUDA_NO_PEERS", 0))
        return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

static CUresult
do_cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *wanted, size_t count)
{
    if (wanted == NULL || count == 0 || !virtual_is_whole(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUresult result = virtual_access_check(&wanted[i], virtual_mapping_at(address));

        if (result != CUDA_SUCCESS)
            return result;
    }
    for (uint64_t at = address; at < address + bytes;) {
        struct fake_mapping *mapping = virtual_mapping_at(at);

        for (size_t i = 0; i < count; i++) {
            mapping->access &= ~(1u << wanted[i].location.id);
            if (wanted[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
                mapping->access |= 1u << wanted[i].location.id;
        }
        mprotect((void *)(uintptr_t)at, mapping->handle->bytes,
                 mapping->access != 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
        at += mapping->handle->bytes;
    }
    return CUDA_SUCCESS;
}

FAKE_API(10020, cuMemSetAccess, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *wanted, size_t count),
         (address, bytes, wanted, count))

static CUresult
do_cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle id, CUmemAllocationHandleType type,
                                unsigned long long flags)
{
    const struct virtual_handle *handle = virtual_handle_find(id);
    int fd;

    if (out == NULL || handle == NULL || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        (handle->types & type) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(out, &fd, sizeof(fd));
    return CUDA_SUCCESS;
}

FAKE_API(10020, cuMemExportToShareableHandle,
         (void *out, CUmemGenericAllocationHandle id, CUmemAllocationHandleType type, unsigned long long flags),
         (out, id, type, flags))

/* Whether the descriptor is a handle's: the name of its file says so. */
static bool
virtual_is_handle(int fd, uint64_t *bytes)
{
    char path[64], name[128] = "";
    struct stat status;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (readlink(path, name, sizeof(name) - 1) < 0 || strstr(name, "memfd:fake-cuda-pages") == NULL ||
        fstat(fd, &status) != 0)
        return false;
    *bytes = (uint64_t)status.st_size;
    return true;
}

static CUresult
do_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *shared, CUmemAllocationHandleType type)
{
    int fd = (int)(intptr_t)shared;
    uint64_t bytes;

    if (out == NULL || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    if (!virtual_is_handle(fd, &bytes))
        return CUDA_ERROR_UNKNOWN;
    *out = virtual_handle_new(bytes, -1, fcntl(fd, F_DUPFD_CLOEXEC, 3), CU_MEM_HANDLE_TYPE_NONE)->id;
    return CUDA_SUCCESS;
}

FAKE_API(10020, cuMemImportFromShareableHandle,
         (CUmemGenericAllocationHandle * out, void *shared, CUmemAllocationHandleType type), (out, shared, type))
