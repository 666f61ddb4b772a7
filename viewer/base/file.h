/* Detects the kind of a file, and reads files of settings line by line. */
#ifndef VIEWER_BASE_FILE_H
#define VIEWER_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Read the first bytes of a regular file. Returns their count, or -1 with errno; EINVAL: not a regular file. */
ssize_t file_head(const char *path, char *head, size_t size);

/* The length of the magic string at the start of an SQLite database. */
#define FILE_SQLITE_BYTES 16

/* Whether a file with this head, of `count` bytes, is an SQLite database. */
bool file_head_is_sqlite(const char *head, ssize_t count);

/* Whether the file at `path` is an SQLite database, by its first bytes; false if the file cannot be read. */
bool file_is_sqlite(const char *path);

/*
 * Call `each` for every line of the file at `path`, without the blanks around it, except empty lines and comments
 * ("#"). It may change the line; another result than COMMAND_FINE ends the reading. COMMAND_FINE, or another status
 * after a message.
 */
int file_each_line(const char *path, int (*each)(void *context, char *line, size_t number), void *context);

#endif
