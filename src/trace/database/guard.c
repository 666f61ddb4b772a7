/* Keeps SQLite's locks on a trace. The bytes are those of SQLite's file format: sqlite.org/wal.html, os_unix.c. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/trace/database/files.h"
#include "src/trace/database/guard.h"

/* In the trace: whoever reads has a read lock here, and whoever removes the log a write lock. */
#define GUARD_SHARED       (((off_t)1 << 30) + 2)
#define GUARD_SHARED_BYTES 510

/* In the index: the lock of the one writer, and the one that everybody has who has the index open. */
#define GUARD_WRITER 120
#define GUARD_OPENED 128

/* In the index: the counter of changes (walformat.html, 2.1). */
#define GUARD_CHANGES 8

/* Claims on files that another connection of this process still had open. */
struct guard_left {
    struct guard_left *next;
    struct tidei_claim claim;
};

static struct {
    pthread_mutex_t lock;
    struct guard_left *first;
} guards = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* SQLite has both locks, so that nobody can have one that conflicts. */
static void
guard_claim_trace(struct tidei_guard *guard, const char *path)
{
    if (tidei_claim_open(&guard->trace, path, O_RDWR, -1) == 0)
        tidei_claim_lock(&guard->trace, F_RDLCK, GUARD_SHARED, GUARD_SHARED_BYTES, &guard->posix);
}

static void
guard_claim_index(struct tidei_guard *guard, const char *path)
{
    char *index = tidei_trace_path_beside(path, "-shm");

    if (index != NULL && tidei_claim_open(&guard->index, index, O_RDWR, -1) == 0)
        tidei_claim_lock(&guard->index, F_RDLCK, GUARD_OPENED, 1, NULL);
    free(index);
}

void
tidei_guard_open(struct tidei_guard *guard, const char *path)
{
    guard_claim_trace(guard, path);
    guard_claim_index(guard, path);
}

/* Open again what other code of the process has closed. */
static void
guard_open_again(struct tidei_guard *guard, const char *path)
{
    if (guard->trace.fd >= 0 && !tidei_claim_is_open(&guard->trace)) {
        tidei_claim_close(&guard->trace);
        guard_claim_trace(guard, path);
    }
    if (guard->index.fd >= 0 && !tidei_claim_is_open(&guard->index)) {
        tidei_claim_close(&guard->index);
        guard_claim_index(guard, path);
    }
}

/* Set again what SQLite believes to have. False: another process has it. */
static bool
guard_lock_again(const struct tidei_guard *guard, bool writes)
{
    int shared = 0, opened = 0, writer = 0;

    if (guard->trace.fd >= 0)
        shared = tidei_claim_lock_process(&guard->trace, F_RDLCK, GUARD_SHARED, GUARD_SHARED_BYTES);
    if (guard->index.fd >= 0)
        opened = tidei_claim_lock_process(&guard->index, F_RDLCK, GUARD_OPENED, 1);
    if (guard->index.fd >= 0 && writes)
        writer = tidei_claim_lock_process(&guard->index, F_WRLCK, GUARD_WRITER, 1);
    return shared != EAGAIN && opened != EAGAIN && writer != EAGAIN;
}

/* How often the trace was changed, which happens only in a commit. False: the index was cut off, and cannot tell. */
static bool
guard_changes(const struct tidei_guard *guard, uint32_t *changes)
{
    *changes = 0;
    return tidei_claim_is_open(&guard->index) &&
           pread(guard->index.fd, changes, sizeof(*changes), GUARD_CHANGES) == sizeof(*changes);
}

void
tidei_guard_renew(const struct tidei_guard *guard)
{
    guard_lock_again(guard, true);
}

void
tidei_guard_begin(struct tidei_guard *guard, const char *path)
{
    guard_open_again(guard, path);
    guard_lock_again(guard, true);
    guard->is_counted = guard_changes(guard, &guard->changes);
}

bool
tidei_guard_check(struct tidei_guard *guard)
{
    uint32_t changes;

    if (!guard_lock_again(guard, true))
        return false;
    return !guard->is_counted || !guard_changes(guard, &changes) || changes == guard->changes;
}

void
tidei_guard_release(struct tidei_guard *guard)
{
    guard_lock_again(guard, false);
    if (guard->posix)
        return; /* these are SQLite's own */
    if (guard->trace.fd >= 0)
        tidei_claim_lock(&guard->trace, F_UNLCK, GUARD_SHARED, GUARD_SHARED_BYTES, NULL);
    if (guard->index.fd >= 0)
        tidei_claim_lock(&guard->index, F_UNLCK, GUARD_OPENED, 1, NULL);
}

/* Whether somebody has locks on the file, which are not the claim's: this process may be one of them. */
static bool
guard_is_used(const struct tidei_claim *claim)
{
    return claim->fd >= 0 && tidei_claim_holder(claim, F_WRLCK, 0, 0) != 0;
}

/* Close what was left open and is not used any more. */
static void
guard_close_left(void)
{
    struct guard_left **link = &guards.first, *left;

    while ((left = *link) != NULL) {
        if (guard_is_used(&left->claim)) {
            link = &left->next;
            continue;
        }
        *link = left->next;
        tidei_claim_close(&left->claim);
        free(left);
    }
}

static void
guard_close_one(struct tidei_claim *claim)
{
    struct guard_left *left = guard_is_used(claim) ? malloc(sizeof(*left)) : NULL;

    if (left != NULL) {
        tidei_claim_move(claim, &left->claim);
        left->next = guards.first;
        guards.first = left;
        return;
    }
    tidei_claim_close(claim);
}

void
tidei_guard_close(struct tidei_guard *guard)
{
    pthread_mutex_lock(&guards.lock);
    guard_close_left();
    guard_close_one(&guard->trace);
    guard_close_one(&guard->index);
    pthread_mutex_unlock(&guards.lock);
}
