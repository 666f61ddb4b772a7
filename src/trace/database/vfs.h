/*
 * An SQLite VFS over the default one, for connections whose write-ahead index may be cut off or find no room.
 *
 * SQLite maps the index of the write-ahead log, the file that ends in -shm. Here its blocks are allocated before SQLite
 * uses them, and where the memory faults nevertheless, it is replaced by zeros, and everything that the connection does
 * with files fails from then on: nothing is read or written by an index with a hole. What was committed is in the
 * write-ahead log, from which the next connection makes the index again.
 *
 * Other code of the process may close a descriptor that SQLite writes by, and open a file of its own that gets the same
 * number. So each descriptor is compared with its file before SQLite uses it or closes it (src/sync/file-id.h). Once
 * one was closed, everything that the connection does with files fails, and SQLite never closes that number. Nothing
 * tells for sure which descriptor SQLite has opened where other threads open the same file at that moment, or other
 * connections of the process have it open: then it is not compared.
 *
 * The name and the question below are for files that open a connection of their own, the command's too.
 */
#ifndef TIDEI_TRACE_DATABASE_VFS_H
#define TIDEI_TRACE_DATABASE_VFS_H

#include <sqlite3.h>

#define TIDEI_VFS_NAME "tidemark"

/*
 * An operation of sqlite3_file_control, with an int: what has happened to the connection's index, enum tidei_vfs_index.
 * Another VFS answers SQLITE_NOTFOUND.
 */
#define TIDEI_VFS_INDEX 0x74696465

enum tidei_vfs_index {
    TIDEI_VFS_INDEX_FINE = 0,
    TIDEI_VFS_INDEX_NO_ROOM = 1, /* the disk had no room for it */
    TIDEI_VFS_INDEX_TORN = 2,    /* it was cut off, or a page of it found no room, while it was used */
    TIDEI_VFS_INDEX_KEPT = 3,    /* so it was before, and another connection of the process keeps what is left of it */
    TIDEI_VFS_INDEX_CLOSED = 4,  /* other code of the process has closed a descriptor of the connection */
};

/* Register the VFS with SQLite, once. Returns its name; NULL, SQLite's default, if that is impossible. Any thread. */
const char *tidei_vfs(void);

/* What has happened to the index of a connection. */
static inline enum tidei_vfs_index
tidei_vfs_index(sqlite3 *db)
{
    int index = TIDEI_VFS_INDEX_FINE;

    if (db != NULL)
        sqlite3_file_control(db, "main", TIDEI_VFS_INDEX, &index);
    return (enum tidei_vfs_index)index;
}

#endif
