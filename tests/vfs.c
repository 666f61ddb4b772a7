/* An SQLite VFS that passes everything to SQLite's own, except the writes that a test makes fail. */
#include "vfs.h"

#include <stdatomic.h>
#include <stdlib.h>

#include <sqlite3.h>

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    _Atomic uint64_t writes;
    _Atomic uint64_t first, end; /* of the writes that fail */
    _Atomic int code;
} shim;

/* An open file: SQLite's file lies behind this head. */
struct vfs_file {
    sqlite3_file base;
    sqlite3_file real[];
};

static sqlite3_file *
vfs_real(sqlite3_file *file)
{
    return ((struct vfs_file *)file)->real;
}

void
vfs_fail(uint64_t nth, uint64_t count, int code)
{
    atomic_store(&shim.first, UINT64_MAX);
    atomic_store(&shim.code, code);
    atomic_store(&shim.writes, 0);
    atomic_store(&shim.end, nth + count < nth ? UINT64_MAX : nth + count);
    atomic_store(&shim.first, nth == 0 ? UINT64_MAX : nth);
}

uint64_t
vfs_writes(void)
{
    return atomic_load(&shim.writes);
}

/* The result of the next write. */
static int
vfs_next(void)
{
    uint64_t number = atomic_fetch_add(&shim.writes, 1) + 1;

    return number >= atomic_load(&shim.first) && number < atomic_load(&shim.end) ? atomic_load(&shim.code) : SQLITE_OK;
}

static int
vfs_close(sqlite3_file *file)
{
    sqlite3_file *real = vfs_real(file);

    return real->pMethods != NULL ? real->pMethods->xClose(real) : SQLITE_OK;
}

static int
vfs_read(sqlite3_file *file, void *buffer, int bytes, sqlite3_int64 offset)
{
    return vfs_real(file)->pMethods->xRead(vfs_real(file), buffer, bytes, offset);
}

static int
vfs_write(sqlite3_file *file, const void *buffer, int bytes, sqlite3_int64 offset)
{
    int code = vfs_next();

    return code != SQLITE_OK ? code : vfs_real(file)->pMethods->xWrite(vfs_real(file), buffer, bytes, offset);
}

static int
vfs_truncate(sqlite3_file *file, sqlite3_int64 bytes)
{
    return vfs_real(file)->pMethods->xTruncate(vfs_real(file), bytes);
}

static int
vfs_sync(sqlite3_file *file, int flags)
{
    return vfs_real(file)->pMethods->xSync(vfs_real(file), flags);
}

static int
vfs_size(sqlite3_file *file, sqlite3_int64 *out)
{
    return vfs_real(file)->pMethods->xFileSize(vfs_real(file), out);
}

static int
vfs_lock(sqlite3_file *file, int level)
{
    return vfs_real(file)->pMethods->xLock(vfs_real(file), level);
}

static int
vfs_unlock(sqlite3_file *file, int level)
{
    return vfs_real(file)->pMethods->xUnlock(vfs_real(file), level);
}

static int
vfs_check_lock(sqlite3_file *file, int *out)
{
    return vfs_real(file)->pMethods->xCheckReservedLock(vfs_real(file), out);
}

static int
vfs_control(sqlite3_file *file, int what, void *argument)
{
    return vfs_real(file)->pMethods->xFileControl(vfs_real(file), what, argument);
}

static int
vfs_sector_size(sqlite3_file *file)
{
    return vfs_real(file)->pMethods->xSectorSize(vfs_real(file));
}

static int
vfs_characteristics(sqlite3_file *file)
{
    return vfs_real(file)->pMethods->xDeviceCharacteristics(vfs_real(file));
}

static int
vfs_shm_map(sqlite3_file *file, int page, int bytes, int extend, void volatile **out)
{
    return vfs_real(file)->pMethods->xShmMap(vfs_real(file), page, bytes, extend, out);
}

static int
vfs_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return vfs_real(file)->pMethods->xShmLock(vfs_real(file), offset, count, flags);
}

static void
vfs_shm_barrier(sqlite3_file *file)
{
    vfs_real(file)->pMethods->xShmBarrier(vfs_real(file));
}

static int
vfs_shm_unmap(sqlite3_file *file, int remove)
{
    return vfs_real(file)->pMethods->xShmUnmap(vfs_real(file), remove);
}

static const sqlite3_io_methods vfs_methods = {
    .iVersion = 2,
    .xClose = vfs_close,
    .xRead = vfs_read,
    .xWrite = vfs_write,
    .xTruncate = vfs_truncate,
    .xSync = vfs_sync,
    .xFileSize = vfs_size,
    .xLock = vfs_lock,
    .xUnlock = vfs_unlock,
    .xCheckReservedLock = vfs_check_lock,
    .xFileControl = vfs_control,
    .xSectorSize = vfs_sector_size,
    .xDeviceCharacteristics = vfs_characteristics,
    .xShmMap = vfs_shm_map,
    .xShmLock = vfs_shm_lock,
    .xShmBarrier = vfs_shm_barrier,
    .xShmUnmap = vfs_shm_unmap,
};

static int
vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *out_flags)
{
    int code = shim.real->xOpen(shim.real, name, vfs_real(file), flags, out_flags);

    (void)vfs;
    file->pMethods = vfs_real(file)->pMethods != NULL ? &vfs_methods : NULL;
    return code;
}

void
vfs_install(void)
{
    shim.real = sqlite3_vfs_find(NULL);
    if (shim.real == NULL)
        abort();
    shim.vfs = *shim.real;
    shim.vfs.zName = "failing";
    shim.vfs.szOsFile = (int)sizeof(struct vfs_file) + shim.real->szOsFile;
    shim.vfs.xOpen = vfs_open;
    shim.vfs.pNext = NULL;
    vfs_fail(0, 0, SQLITE_OK);
    if (sqlite3_vfs_register(&shim.vfs, 1) != SQLITE_OK)
        abort();
}
