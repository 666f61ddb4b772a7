/*
 * Keeps SQLite's locks on the trace of an open connection, whatever else the process does with its files.
 *
 * SQLite has POSIX locks, which end as soon as any code of the process closes any descriptor of the file: another copy
 * of SQLite that reads the trace, a program that copies its own files. Without them a reader of another process takes
 * itself for the last one when it closes the trace: it folds the write-ahead log in and removes it, while it is being
 * written; and the next one that opens the trace cuts off the index that is mapped. So the guard holds read locks of
 * its own open files (claim.h) beside SQLite's: on the trace's shared range, so that nobody gets the exclusive lock
 * that the log's removal needs, and on the byte of the index that its first opener locks. Each transaction sets
 * SQLite's locks again, and sees whether another writer was there meanwhile.
 */
#ifndef TIDEI_TRACE_DATABASE_GUARD_H
#define TIDEI_TRACE_DATABASE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "src/trace/ring/claim.h"

struct tidei_guard {
    struct tidei_claim trace, index;
    bool posix;       /* there are no locks of open files, and these are SQLite's own */
    uint32_t changes; /* of the trace, as the index counts them, when the transaction began */
    bool is_counted;  /* and whether the index could tell */
};

/* Begin: SQLite has opened the trace, which is in the mode of the write-ahead log. Without locks there is no guard. */
void tidei_guard_open(struct tidei_guard *guard, const char *path);

/*
 * Within a transaction that writes: at its begin, now and then, and before its end. False: others have written. The
 * begin opens anew what other code of the process has closed of the guard on the trace at `path`.
 */
void tidei_guard_begin(struct tidei_guard *guard, const char *path);
void tidei_guard_renew(const struct tidei_guard *guard);
bool tidei_guard_check(struct tidei_guard *guard);

/* Let SQLite fold the log in and remove it, which it does next. */
void tidei_guard_release(struct tidei_guard *guard);

/*
 * After SQLite has closed the trace. The files stay open as long as another connection of this process has locks there,
 * since closing them would end these.
 */
void tidei_guard_close(struct tidei_guard *guard);

#endif
