/*
 * Passes everything to SQLite's default VFS, looks after the mapped index of the write-ahead log, and sees that SQLite
 * writes to no file of the program whose descriptor was closed by mistake.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/sync/fault.h"
#include "src/sync/file-id.h"
#include "src/trace/database/vfs.h"
#include "src/trace/ring/ringfile.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    bool registered;
    _Atomic bool faulted; /* an index of this process was cut off */
    pthread_once_t once;
} shim = { .once = PTHREAD_ONCE_INIT };

/* What SQLite has opened; `fd` is -1 where that is not known, or nothing. */
struct vfs_descriptor {
    int fd;
    struct tidei_file_id id;
};

/* An open file: the real one lies behind this head. */
struct vfs_file {
    sqlite3_file base;
    struct vfs_file *database;      /* borrowed: this file, or that to which this write-ahead log or journal belongs */
    struct tidei_fault_owner owner; /* of the mapped parts of the index */
    const char *path;               /* borrowed from SQLite */
    struct vfs_descriptor own;      /* of this file */
    struct vfs_descriptor index;    /* of the index of a database */
    bool closed;                    /* other code of the process has closed one of the database's files */
    bool no_room;
    bool kept;              /* another connection of the process keeps what is left of an index that was cut off */
    alignas(8) char real[]; /* as SQLite aligns this struct */
};

static struct vfs_file *
vfs_of(sqlite3_file *file)
{
    return (struct vfs_file *)file;
}

static sqlite3_file *
vfs_real(sqlite3_file *file)
{
    return (sqlite3_file *)(void *)vfs_of(file)->real;
}

/* Whether the connection's index has a hole. */
static bool
vfs_is_torn(sqlite3_file *file)
{
    return tidei_fault_state(&vfs_of(file)->database->owner) != TIDEI_FAULT_NONE;
}

static bool
vfs_is_closed(const struct vfs_descriptor *descriptor)
{
    return descriptor->fd >= 0 && !tidei_file_id_is(&descriptor->id, descriptor->fd);
}

/* Whether nothing may be done with the file. That stays so. */
static bool
vfs_is_broken(sqlite3_file *file)
{
    struct vfs_file *own = vfs_of(file);

    if (vfs_is_closed(&own->own))
        own->database->closed = true;
    return own->database->closed || vfs_is_torn(file);
}

/* The number that the next descriptor gets, unless another thread is first. */
static int
vfs_next_number(void)
{
    int fd = open("/", O_PATH | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd;
}

/* The one descriptor of the process that is of the file; -1: there are several, or /proc does not tell. 0: none. */
static int
vfs_search(const struct tidei_file_id *id)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    int found = 0;

    if (folder == NULL)
        return -1;
    while ((entry = readdir(folder)) != NULL && found >= 0) {
        int fd = entry->d_name[0] != '.' ? atoi(entry->d_name) : -1;

        if (tidei_file_id_is(id, fd))
            found = found == 0 ? fd : -1;
    }
    closedir(folder);
    return found;
}

/* Find out which descriptor SQLite has opened for `path`: `next`, most likely. False: it has none any more. */
static bool
vfs_find(struct vfs_descriptor *descriptor, const char *path, int next)
{
    struct stat info;

    descriptor->fd = -1;
    if (path == NULL || stat(path, &info) != 0)
        return true;
    descriptor->id = (struct tidei_file_id){ info.st_dev, info.st_ino };
    descriptor->fd = tidei_file_id_is(&descriptor->id, next) ? next : vfs_search(&descriptor->id);
    if (descriptor->fd != 0)
        return true;
    descriptor->fd = -1;
    return false;
}

/* A number that is another file's by now stays: SQLite would close that one, and end the program's locks on it. */
static int
vfs_close(sqlite3_file *file)
{
    tidei_fault_remove(&vfs_of(file)->owner, NULL);
    return vfs_is_closed(&vfs_of(file)->own) ? SQLITE_OK : vfs_real(file)->pMethods->xClose(vfs_real(file));
}

static int
vfs_read(sqlite3_file *file, void *buffer, int bytes, sqlite3_int64 offset)
{
    return vfs_is_broken(file) ? SQLITE_IOERR_READ
                               : vfs_real(file)->pMethods->xRead(vfs_real(file), buffer, bytes, offset);
}

static int
vfs_write(sqlite3_file *file, const void *buffer, int bytes, sqlite3_int64 offset)
{
    return vfs_is_broken(file) ? SQLITE_IOERR_WRITE
                               : vfs_real(file)->pMethods->xWrite(vfs_real(file), buffer, bytes, offset);
}

static int
vfs_truncate(sqlite3_file *file, sqlite3_int64 bytes)
{
    return vfs_is_broken(file) ? SQLITE_IOERR_TRUNCATE : vfs_real(file)->pMethods->xTruncate(vfs_real(file), bytes);
}

static int
vfs_sync(sqlite3_file *file, int flags)
{
    return vfs_is_broken(file) ? SQLITE_IOERR_FSYNC : vfs_real(file)->pMethods->xSync(vfs_real(file), flags);
}

static int
vfs_size(sqlite3_file *file, sqlite3_int64 *out)
{
    return vfs_is_broken(file) ? SQLITE_IOERR_FSTAT : vfs_real(file)->pMethods->xFileSize(vfs_real(file), out);
}

static int
vfs_lock(sqlite3_file *file, int level)
{
    return vfs_is_broken(file) ? SQLITE_IOERR_LOCK : vfs_real(file)->pMethods->xLock(vfs_real(file), level);
}

static int
vfs_unlock(sqlite3_file *file, int level)
{
    return vfs_is_closed(&vfs_of(file)->own) ? SQLITE_OK : vfs_real(file)->pMethods->xUnlock(vfs_real(file), level);
}

static int
vfs_check_lock(sqlite3_file *file, int *out)
{
    *out = 0;
    return vfs_is_broken(file) ? SQLITE_IOERR_CHECKRESERVEDLOCK
                               : vfs_real(file)->pMethods->xCheckReservedLock(vfs_real(file), out);
}

static int
vfs_control(sqlite3_file *file, int what, void *argument)
{
    if (what == TIDEI_VFS_INDEX) {
        *(int *)argument = vfs_of(file)->closed    ? TIDEI_VFS_INDEX_CLOSED
                           : vfs_of(file)->kept    ? TIDEI_VFS_INDEX_KEPT
                           : vfs_is_torn(file)     ? TIDEI_VFS_INDEX_TORN
                           : vfs_of(file)->no_room ? TIDEI_VFS_INDEX_NO_ROOM
                                                   : TIDEI_VFS_INDEX_FINE;
        return SQLITE_OK;
    }
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

/*
 * Make the index, where the file system would copy its pages on each write, with the mode and the owner that SQLite
 * gives it. One that is there is left alone: to close it would end SQLite's locks on it.
 */
static void
vfs_make_index(const struct vfs_file *file)
{
    char *path = sqlite3_mprintf("%s-shm", file->path);
    struct stat info;
    int index;

    if (path != NULL && stat(file->path, &info) == 0 && tidei_ringfile_copies_on_write(file->path)) {
        index = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, info.st_mode & 0777);
        if (index >= 0) {
            tidei_ringfile_write_in_place(index);
            /* As SQLite does; a failure changes who may open it, and that fails there. */
            if (fchmod(index, info.st_mode & 0777) != 0 ||
                (geteuid() == 0 && fchown(index, info.st_uid, info.st_gid) != 0))
                unlink(path);
            close(index);
        }
    }
    sqlite3_free(path);
}

static size_t
vfs_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Have the disk give blocks for the whole part, since SQLite writes one byte of each page. False: there is no room. */
static bool
vfs_populate(struct vfs_file *file, void *memory, size_t bytes)
{
    size_t page = vfs_page();

    if ((uintptr_t)memory % page != 0)
        return true; /* in the heap, as SQLite has it for a connection that excludes others */
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
        return true;
    if (errno == EFAULT)
        return false;
    /* An older kernel: a page without room faults here, and not within SQLite. */
    for (size_t at = 0; at < bytes; at += page)
        atomic_fetch_or_explicit((_Atomic uint32_t *)(void *)((char *)memory + at), 0, memory_order_relaxed);
    return tidei_fault_state(&file->owner) == TIDEI_FAULT_NONE;
}

/* In the handler of a fault: from now on parts of an index may be private memory of this process. */
static void
vfs_faulted(struct tidei_fault_owner *owner)
{
    (void)owner;
    atomic_store_explicit(&shim.faulted, true, memory_order_relaxed);
}

/* Whether the memory is that of a file. Where /proc does not tell, it is not known to be. */
static bool
vfs_is_of_file(uintptr_t memory)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long begin, end, inode = 0;
    char *line = NULL;
    size_t room = 0;
    bool found = false;

    while (!found && maps != NULL && getline(&line, &room, maps) > 0)
        found = sscanf(line, "%lx-%lx %*s %*s %*s %lu", &begin, &end, &inode) == 3 && memory >= begin && memory < end;
    free(line);
    if (maps != NULL)
        fclose(maps);
    return found && inode != 0;
}

/*
 * Whether SQLite gives out a part that a fault has replaced: it maps an index once for all connections of the process,
 * and unmaps it with the last. What is written into such a part no other process sees.
 */
static bool
vfs_is_left(const void *memory, size_t bytes)
{
    /* Relaxed: the connection that has seen the fault is closed by now, in this thread or with SQLite's mutex. */
    return atomic_load_explicit(&shim.faulted, memory_order_relaxed) && (uintptr_t)memory % vfs_page() == 0 &&
           (!vfs_is_of_file((uintptr_t)memory) || !vfs_is_of_file((uintptr_t)memory + bytes - 1));
}

/* A new part of the index: know it, and see that it has room. */
static int
vfs_take_part(struct vfs_file *file, void *memory, size_t bytes, bool writable)
{
    if (!tidei_fault_add(&file->owner, memory, bytes, 0))
        return SQLITE_NOMEM;
    /* Afterwards: from now on a fault of the part is told to this connection, too. */
    if (vfs_is_left(memory, bytes)) {
        file->kept = true;
        tidei_fault_tell(&file->owner, TIDEI_FAULT_LOST);
        return SQLITE_IOERR_SHMMAP;
    }
    if (!writable || vfs_populate(file, memory, bytes))
        return SQLITE_OK;
    tidei_fault_remove(&file->owner, memory);
    file->no_room = true;
    return SQLITE_IOERR_SHMSIZE;
}

static bool
vfs_index_is_broken(sqlite3_file *file)
{
    if (vfs_is_closed(&vfs_of(file)->index))
        vfs_of(file)->closed = true;
    return vfs_is_broken(file);
}

/* Whether the index that is mapped is open, too: an earlier connection of the process may have lost it. */
static bool
vfs_find_index(struct vfs_file *file, int next)
{
    char *path = sqlite3_mprintf("%s-shm", file->path);

    file->closed = file->closed || !vfs_find(&file->index, path, next);
    sqlite3_free(path);
    return !file->closed;
}

static int
vfs_shm_map(sqlite3_file *file, int part, int bytes, int extend, void volatile **out)
{
    struct vfs_file *own = vfs_of(file);
    void *memory;
    int code, taken, next;

    *out = NULL;
    if (vfs_index_is_broken(file))
        return SQLITE_IOERR_SHMMAP;
    if (part == 0)
        vfs_make_index(own);
    next = own->index.fd < 0 ? vfs_next_number() : -1;
    code = vfs_real(file)->pMethods->xShmMap(vfs_real(file), part, bytes, extend, out);
    memory = (void *)(uintptr_t)*out;
    if (memory != NULL && own->index.fd < 0 && !vfs_find_index(own, next)) {
        *out = NULL;
        return SQLITE_IOERR_SHMMAP;
    }
    if (memory == NULL || tidei_fault_has(&vfs_of(file)->owner, memory))
        return code;
    taken = vfs_take_part(vfs_of(file), memory, (size_t)bytes, code == SQLITE_OK);
    if (taken != SQLITE_OK)
        *out = NULL;
    return taken != SQLITE_OK ? taken : code;
}

static int
vfs_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    if ((flags & SQLITE_SHM_LOCK) != 0 && vfs_index_is_broken(file))
        return SQLITE_IOERR_SHMLOCK;
    if (vfs_is_closed(&vfs_of(file)->index))
        return SQLITE_OK; /* the lock has gone with the descriptor */
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
    tidei_fault_remove(&vfs_of(file)->owner, NULL);
    if (vfs_is_closed(&vfs_of(file)->index))
        return SQLITE_OK; /* as in vfs_close; the mapping stays, too */
    vfs_of(file)->index.fd = -1;
    return vfs_real(file)->pMethods->xShmUnmap(vfs_real(file), remove);
}

/* Without the functions of version 3, by which SQLite maps the database itself. */
#define VFS_METHODS(version)                                                                                           \
    {                                                                                                                  \
        .iVersion = (version), .xClose = vfs_close, .xRead = vfs_read, .xWrite = vfs_write, .xTruncate = vfs_truncate, \
        .xSync = vfs_sync, .xFileSize = vfs_size, .xLock = vfs_lock, .xUnlock = vfs_unlock,                            \
        .xCheckReservedLock = vfs_check_lock, .xFileControl = vfs_control, .xSectorSize = vfs_sector_size,             \
        .xDeviceCharacteristics = vfs_characteristics, .xShmMap = vfs_shm_map, .xShmLock = vfs_shm_lock,               \
        .xShmBarrier = vfs_shm_barrier, .xShmUnmap = vfs_shm_unmap                                                     \
    }
static const sqlite3_io_methods vfs_methods[] = { VFS_METHODS(1), VFS_METHODS(2) };

static int
vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *out_flags)
{
    bool is_kept = (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
    struct vfs_file *file = vfs_of(base);
    int code, next = is_kept ? vfs_next_number() : -1;

    (void)vfs;
    *file = (struct vfs_file){
        .database = file, .path = name, .owner = { .whole = true, .found = vfs_faulted }, .own.fd = -1, .index.fd = -1
    };
    if ((flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0 && name != NULL)
        file->database = vfs_of(sqlite3_database_file_object(name));
    vfs_real(base)->pMethods = NULL;
    code = shim.real->xOpen(shim.real, name, vfs_real(base), flags, out_flags);
    if (code == SQLITE_OK && is_kept)
        vfs_find(&file->own, name, next);
    if (vfs_real(base)->pMethods != NULL)
        base->pMethods = &vfs_methods[vfs_real(base)->pMethods->iVersion >= 2];
    return code;
}

static int
vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    return shim.real->xDelete(shim.real, name, sync);
}

static int
vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    (void)vfs;
    return shim.real->xAccess(shim.real, name, flags, out);
}

static int
vfs_full_path(sqlite3_vfs *vfs, const char *name, int bytes, char *out)
{
    (void)vfs;
    return shim.real->xFullPathname(shim.real, name, bytes, out);
}

static int
vfs_random(sqlite3_vfs *vfs, int bytes, char *out)
{
    (void)vfs;
    return shim.real->xRandomness(shim.real, bytes, out);
}

static int
vfs_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return shim.real->xSleep(shim.real, us);
}

static int
vfs_time(sqlite3_vfs *vfs, double *out)
{
    (void)vfs;
    return shim.real->xCurrentTime(shim.real, out);
}

static int
vfs_last_error(sqlite3_vfs *vfs, int bytes, char *out)
{
    (void)vfs;
    return shim.real->xGetLastError != NULL ? shim.real->xGetLastError(shim.real, bytes, out) : 0;
}

static void
vfs_register(void)
{
    shim.real = sqlite3_vfs_find(NULL);
    if (shim.real == NULL)
        return;
    shim.vfs = (sqlite3_vfs){ .iVersion = 1,
                              .szOsFile = (int)sizeof(struct vfs_file) + shim.real->szOsFile,
                              .mxPathname = shim.real->mxPathname,
                              .zName = TIDEI_VFS_NAME,
                              .xOpen = vfs_open,
                              .xDelete = vfs_delete,
                              .xAccess = vfs_access,
                              .xFullPathname = vfs_full_path,
                              .xRandomness = vfs_random,
                              .xSleep = vfs_sleep,
                              .xCurrentTime = vfs_time,
                              .xGetLastError = vfs_last_error };
    shim.registered = sqlite3_vfs_register(&shim.vfs, 0) == SQLITE_OK;
}

const char *
tidei_vfs(void)
{
    pthread_once(&shim.once, vfs_register);
    return shim.registered ? TIDEI_VFS_NAME : NULL;
}
