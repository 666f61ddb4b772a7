/*
 * Files that get their name when they are complete: written beside it, and removed if the program fails or is
 * interrupted. What a killed program has left is removed when the same file is made again.
 */
#ifndef VIEWER_BASE_TEMPORARY_H
#define VIEWER_BASE_TEMPORARY_H

#include <stdbool.h>
#include <sys/types.h>

struct temporary {
    char *path; /* owns; NULL: there is none, or it has got its name */
    int file;   /* owns: open for writing, and locked (flock) as long as the file is in use */
};

/*
 * Make and lock a new file beside `target`, for the command `what`. Files that killed programs have left of the same
 * target and command are removed; those of running programs stay. False with errno: it cannot be made.
 */
bool temporary_open(struct temporary *temporary, const char *target, const char *what, mode_t mode);

/* Rename the file to `target`. Without `replace`, a file that is there stays. False with errno. */
bool temporary_publish(struct temporary *temporary, const char *target, bool replace);

/* Close the file; where it has not got its name, remove it and the files of SQLite and of the recorder beside it. */
void temporary_close(struct temporary *temporary);

#endif
