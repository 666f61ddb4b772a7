/*
 * How the fake driver's pools are shared: with other devices by access, with other processes by a descriptor. The
 * memory of a shareable pool is a memfd, which is also the descriptor; its last page describes it.
 */
#include "tests/fake-cuda/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARE_PAGE_BYTES 4096

struct share_page {
    char magic[16];
    uint64_t span_bytes;
    CUmemPoolProps properties;
};

struct share_pointer {
    char magic[16];
    uint64_t inode, offset, bytes;
};

static const char share_page_magic[16] = "fake-cuda pool";
static const char share_pointer_magic[16] = "fake-cuda block";

_Static_assert(sizeof(struct share_pointer) <= sizeof(CUmemPoolPtrExportData), "the data hold a pointer's");

bool
fake_pool_make_shareable(CUmemoryPool pool)
{
    struct share_page page = { .span_bytes = pool->span_bytes, .properties = pool->properties };

    memcpy(page.magic, share_page_magic, sizeof(page.magic));
    pool->fd = memfd_create("fake-cuda-pool", MFD_CLOEXEC);
    return pool->fd >= 0 && ftruncate(pool->fd, (off_t)(pool->span_bytes + SHARE_PAGE_BYTES)) == 0 &&
           pwrite(pool->fd, &page, sizeof(page), (off_t)pool->span_bytes) == (ssize_t)sizeof(page);
}

static uint64_t
share_inode(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

static bool
share_read(int fd, struct share_page *page)
{
    struct stat status;

    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > SHARE_PAGE_BYTES &&
           pread(fd, page, sizeof(*page), status.st_size - SHARE_PAGE_BYTES) == (ssize_t)sizeof(*page) &&
           memcmp(page->magic, share_page_magic, sizeof(page->magic)) == 0;
}

static CUresult
do_cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool, CUmemAllocationHandleType type,
                                    unsigned long long flags)
{
    int fd;

    if (out == NULL || flags != 0 || !fake_pool_is(pool) || pool->imported || type == CU_MEM_HANDLE_TYPE_NONE ||
        (pool->properties.handleTypes & type) != type)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) { /* as without the service that the other types need */
        fake_pool_refused(pool);
        pool->refused = true;
        return CUDA_ERROR_NOT_PERMITTED;
    }
    fd = fcntl(pool->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(out, &fd, sizeof(fd));
    pool->exported = true;
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuMemPoolExportToShareableHandle,
         (void *out, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags),
         (out, pool, type, flags))

static CUresult
do_cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *handle, CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    struct share_page page;
    int fd = (int)(intptr_t)handle;

    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return type == CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    if (!share_read(fd, &page))
        return CUDA_ERROR_UNKNOWN;
    for (CUmemoryPool pool = fake_pools(); pool != NULL; pool = pool->next) {
        if (pool->alive && pool->imported && share_inode(pool->fd) == share_inode(fd)) {
            *out = pool;
            return CUDA_SUCCESS;
        }
    }
    *out = fake_pool_new_imported(&page.properties, page.span_bytes, fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (*out == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake_pool_trace(*out, FAKE_POOL_CREATED, 0);
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuMemPoolImportFromShareableHandle,
         (CUmemoryPool * out, void *handle, CUmemAllocationHandleType type, unsigned long long flags),
         (out, handle, type, flags))

static CUresult
do_cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr address)
{
    struct share_pointer data = { 0 };
    struct fake_place place;

    if (out == NULL || !fake_place_find(address, &place) || place.start != address || place.block == NULL ||
        place.pool->imported || !place.pool->exported)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(data.magic, share_pointer_magic, sizeof(data.magic));
    data.inode = share_inode(place.pool->fd);
    data.offset = place.block->offset;
    data.bytes = place.block->requested_bytes;
    memset(out, 0, sizeof(*out));
    memcpy(out, &data, sizeof(data));
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuMemPoolExportPointer, (CUmemPoolPtrExportData * out, CUdeviceptr address), (out, address))

/* A second import returns the first one's memory: one free ends both. */
static CUresult
do_cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool pool, CUmemPoolPtrExportData *exported)
{
    struct share_pointer data;

    if (out == NULL || exported == NULL || !fake_pool_is(pool) || !pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&data, exported, sizeof(data));
    if (memcmp(data.magic, share_pointer_magic, sizeof(data.magic)) != 0 || data.inode != share_inode(pool->fd) ||
        data.offset >= pool->span_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)(pool->base + data.offset);
    if (fake_pool_block(pool, *out) == NULL)
        fake_pool_import_block(pool, data.offset, data.bytes);
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuMemPoolImportPointer, (CUdeviceptr * out, CUmemoryPool pool, CUmemPoolPtrExportData *exported),
         (out, pool, exported))

/* Check an access to be set: the pool's own device keeps full access. */
static CUresult
share_check_access(CUmemoryPool pool, const CUmemAccessDesc *wanted)
{
    if (wanted->flags > CU_MEM_ACCESS_FLAGS_PROT_READWRITE || wanted->flags == 2)
        return CUDA_ERROR_INVALID_VALUE;
    if (wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE || wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!fake_device_is(wanted->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    if (wanted->location.id == pool->device)
        return wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    if (pool->device >= 0 && fake_environment_bytes("FAKE_CUDA_NO_PEERS", 0))
        return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

static CUresult
do_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    if (!fake_pool_is(pool) || (map == NULL && count > 0))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUresult result = share_check_access(pool, &map[i]);

        if (result != CUDA_SUCCESS)
            return result;
    }
    for (size_t i = 0; i < count; i++)
        pool->access[map[i].location.id] = map[i].flags;
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *map, size_t count), (pool, map, count))

static CUresult
do_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    if (flags == NULL || location == NULL || !fake_pool_is(pool))
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
        if (!fake_device_is(location->id))
            return CUDA_ERROR_INVALID_VALUE;
        *flags = pool->access[location->id];
        return CUDA_SUCCESS;
    }
    if (location->type != CU_MEM_LOCATION_TYPE_HOST && location->type != CU_MEM_LOCATION_TYPE_HOST_NUMA)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = pool->kind == FAKE_HOST ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

FAKE_API(11020, cuMemPoolGetAccess, (CUmemAccess_flags * flags, CUmemoryPool pool, CUmemLocation *location),
         (flags, pool, location))
