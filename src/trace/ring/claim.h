/*
 * Locks on a file that end with this process, and with nothing else that it does.
 *
 * A POSIX record lock ends when any code of the process closes any descriptor of the file. So a claim is a lock of an
 * open file description. It is never that of a mapping: a child of fork() keeps its copies of some mappings, and with
 * them the description. A child closes its copies of all claims. Where the kernel or the file system has no such locks,
 * a claim is a POSIX lock.
 *
 * Other code of the process may close the descriptor of a claim, which ends its locks: then all functions that lock
 * return EBADF, even where the number is that of another file by now.
 */
#ifndef TIDEI_TRACE_RING_CLAIM_H
#define TIDEI_TRACE_RING_CLAIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/sync/file-id.h"

struct tidei_claim {
    int fd;                   /* -1: there is none */
    struct tidei_file_id id;  /* set while there is one */
    struct tidei_claim *next; /* in the list of those that a child closes */
};

#define TIDEI_CLAIM_NONE                                                                                               \
    {                                                                                                                  \
        .fd = -1                                                                                                       \
    }

/* Call this before the first claim. The caller holds no lock of the library. */
void tidei_claim_handle_forks(void);

/*
 * As open() with O_NOFOLLOW and O_CLOEXEC, but never returns one of the first three descriptors: if the program has
 * closed its standard output, its prints would go into the file.
 */
int tidei_open_high(const char *path, int flags, mode_t mode);

/*
 * Open the file at `path` once more, to lock it. `same` is a descriptor of the file that it has to be; -1: any. Returns
 * 0, ESTALE if the path names another file than `same`, or the error number.
 */
int tidei_claim_open(struct tidei_claim *claim, const char *path, int flags, int same);

/* Whether the claim is open: no other code of the process has closed it. */
bool tidei_claim_is_open(const struct tidei_claim *claim);

/* Move the claim to another place. */
void tidei_claim_move(struct tidei_claim *from, struct tidei_claim *to);

/* Close the claim, and with it its locks. */
void tidei_claim_close(struct tidei_claim *claim);

/* Lock bytes: F_RDLCK, F_WRLCK, F_UNLCK. 0, EAGAIN if they are locked, or the error number. *posix: by a POSIX lock. */
int tidei_claim_lock(const struct tidei_claim *claim, int type, off_t first, off_t length, bool *posix);

/* The same with a lock of the open file alone, which is waited for. 0, or the error number. */
int tidei_claim_wait(const struct tidei_claim *claim, int type, off_t first, off_t length);

/* Who keeps the claim from locking bytes; 0: nobody; -1: a process that is not known. */
pid_t tidei_claim_holder(const struct tidei_claim *claim, int type, off_t first, off_t length);

/* Set a POSIX lock of this process. 0, EAGAIN, or the error number. */
int tidei_claim_lock_process(const struct tidei_claim *claim, int type, off_t first, off_t length);

#endif
