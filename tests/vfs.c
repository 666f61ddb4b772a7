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

/* What lies behind SQLite's own file: its methods, of which one is replaced. */
struct vfs_file {
    sqlite3_io_methods methods;
    const sqlite3_io_methods *real;
};

/* The bytes of SQLite's own file, up to where what lies behind it is aligned. */
static size_t
vfs_real_bytes(void)
{
    return ((size_t)shim.real->szOsFile + 15) & ~(size_t)15;
}

static struct vfs_file *
vfs_behind(sqlite3_file *file)
{
    return (struct vfs_file *)(void *)((char *)file + vfs_real_bytes());
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
vfs_write(sqlite3_file *file, const void *buffer, int bytes, sqlite3_int64 offset)
{
    int code = vfs_next();

    return code != SQLITE_OK ? code : vfs_behind(file)->real->xWrite(file, buffer, bytes, offset);
}

static int
vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *out_flags)
{
    struct vfs_file *behind = vfs_behind(file);
    int code = shim.real->xOpen(shim.real, name, file, flags, out_flags);

    (void)vfs;
    if (file->pMethods == NULL)
        return code;
    behind->real = file->pMethods;
    behind->methods = *behind->real;
    behind->methods.iVersion = behind->real->iVersion < 2 ? behind->real->iVersion : 2; /* the database is not mapped */
    behind->methods.xWrite = vfs_write;
    file->pMethods = &behind->methods;
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
    shim.vfs.szOsFile = (int)(vfs_real_bytes() + sizeof(struct vfs_file));
    shim.vfs.xOpen = vfs_open;
    shim.vfs.pNext = NULL;
    vfs_fail(0, 0, SQLITE_OK);
    if (sqlite3_vfs_register(&shim.vfs, 1) != SQLITE_OK)
        abort();
}
