/*
 * Which file a descriptor was opened for.
 *
 * A program may close a descriptor that it does not own: a daemon that closes all from 3 on, a number that is closed
 * twice. The next file that it opens gets the number. So a descriptor that the library keeps is compared with its file
 * before it is used, and before it is closed: to close a file of the program would end the program's locks on it, too.
 * A program that closes it between the comparison and the use, which are next to each other, is not noticed.
 */
#ifndef TIDEI_SYNC_FILE_ID_H
#define TIDEI_SYNC_FILE_ID_H

#include <stdbool.h>
#include <sys/stat.h>

/* Why a recording ends then. */
#define TIDEI_CLOSED_TEXT "the program has closed a descriptor that it does not own, by which the recorder writes"

struct tidei_file_id {
    dev_t device;
    ino_t inode;
};

/* The file of an open descriptor. False: it is not open. */
bool tidei_file_id_read(struct tidei_file_id *id, int fd);

/* Whether the descriptor is open, and still that of the file. One system call; async-signal-safe. Keeps errno. */
bool tidei_file_id_is(const struct tidei_file_id *id, int fd);

/* Whether the path names the file. A symbolic link is not followed. */
bool tidei_file_id_is_at(const struct tidei_file_id *id, const char *path);

/* Close the descriptor, unless it is that of another file by now. */
void tidei_file_id_close(const struct tidei_file_id *id, int fd);

#endif
