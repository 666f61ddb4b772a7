/*
 * Which process records into a ring file, so that another one can tell whether it lives. The lock on the file decides
 * wherever it can: a process of another container looks dead from here, and may live.
 */
#ifndef TIDEI_TRACE_RING_OWNER_H
#define TIDEI_TRACE_RING_OWNER_H

#include <stdint.h>
#include <sys/types.h>

/* In the ring file; all 0 where it is not known, in files of earlier versions, and once the process has let it go. */
struct tidei_owner {
    uint64_t boot;          /* of the machine */
    uint64_t pid_namespace; /* in which the process id counts */
    uint64_t start_ticks;   /* when the process began, as /proc says */
    uint64_t device, inode; /* of the ring file itself: a copy of it is nobody's */
    uint64_t posix;         /* 1: its lock is one that ends whenever the process closes the file */
};

enum tidei_owner_state {
    TIDEI_OWNER_UNKNOWN,
    TIDEI_OWNER_LIVES,
    TIDEI_OWNER_DEAD, /* certainly */
};

/* This process, and the open file `fd`. */
void tidei_owner_set(struct tidei_owner *owner, int fd);

/* Whether process `pid`, which recorded into the open file `fd`, still lives. */
enum tidei_owner_state tidei_owner_look(const struct tidei_owner *owner, uint32_t pid, int fd);

#endif
