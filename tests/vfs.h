/* An SQLite VFS for all connections of this process, whose writes a test can make fail. */
#ifndef TESTS_VFS_H
#define TESTS_VFS_H

#include <stdint.h>

/* Use this VFS for all connections that are opened from now on. */
void vfs_install(void);

/* The `nth` write from now on and the `count` - 1 after it fail with `code`, such as SQLITE_FULL; nth 0: none. */
void vfs_fail(uint64_t nth, uint64_t count, int code);

/* Writes since then. */
uint64_t vfs_writes(void);

#endif
