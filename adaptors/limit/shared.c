/* Requests and frees in a budget that processes share, and how a process comes to it, forks, and leaves. */
#include "adaptors/limit/shared.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "adaptors/limit/file.h"
#include "src/resource/resource.h"
#include "src/sync/fork.h"
#include "src/sync/testpoint.h"

/* Leases of fewer requests are not worth their recall. */
#define SHARED_LEASE_LEAST 4

/* How often a process looks at exit() whether the file is locked, 1 ms apart. */
#define SHARED_EXIT_TRIES 100

/* Those of this process, for fork(). */
static struct {
    struct tidei_lock lock;
    struct tidei_limit_shared *first;
} shareds;

static struct tidei_limit_lane shared_closed[TIDEI_LIMIT_LANES];

static enum tide_status
shared_no_memory(const char *name)
{
    return tide_error_set(TIDE_ENOMEM, "limit: shared budget '%s': no host memory", name);
}

/* fork() */

/* A child has a slot of its own from its first request on. What it inherits counts in its parent's. */
static void
shareds_before_fork(void)
{
    for (struct tidei_limit_shared *shared = shareds.first; shared != NULL; shared = shared->next) {
        const struct tidei_limit_slot *slot = &shared->file->slots[shared->slot];

        shared->forked_bytes = shared->inherited_bytes + (shared->is_orphan ? 0 : tidei_limit_outstanding_most(slot));
    }
}

static void
shareds_in_child(void)
{
    for (struct tidei_limit_shared *shared = shareds.first; shared != NULL; shared = shared->next) {
        shared->is_orphan = true;
        shared->inherited_bytes = shared->forked_bytes;
        atomic_store_explicit(&shared->lanes, shared_closed, memory_order_relaxed);
    }
}

static void
shareds_prepare(void)
{
    static const struct tidei_fork_hook hook = { .prepare = shareds_before_fork, .child = shareds_in_child };

    for (int i = 0; i < TIDEI_LIMIT_LANES; i++)
        atomic_store_explicit(&shared_closed[i].lease, TIDEI_LIMIT_CLOSED, memory_order_relaxed);
    tidei_lock_init(&shareds.lock);
    tidei_claim_handle_forks();
    tidei_fork_hook_set(TIDEI_FORK_BUDGETS, &hook);
}

/* Let the threads use their lanes, unless frees may be those of inherited blocks. */
static void
shared_show_lanes(struct tidei_limit_shared *shared)
{
    if (shared->inherited_bytes == 0)
        atomic_store_explicit(&shared->lanes, shared->file->slots[shared->slot].lanes, memory_order_relaxed);
}

/* In a child of fork(): take a slot. The caller holds no lock. False, with the error text set, if that fails. */
static bool
shared_adopt(struct tidei_limit_shared *shared)
{
    struct tidei_limit_shared fresh = { .path = shared->path, .limit_bytes = shared->limit_bytes };
    struct tidei_claim *claim = malloc(sizeof(*claim)), *unused = claim;
    struct tidei_limit_file *left = NULL;

    if (claim == NULL)
        return shared_no_memory(shared->name) == TIDE_OK;
    claim->fd = -1;
    if (tidei_limit_open(&fresh, claim, shared->name) != TIDE_OK) {
        free(claim);
        return false;
    }
    tidei_lock_acquire(&shared->lock);
    if (shared->is_orphan) {
        unused = shared->claim;
        left = shared->file;
        shared->claim = claim;
        shared->file = fresh.file;
        shared->slot = fresh.slot;
        shared->is_orphan = false;
        shared_show_lanes(shared);
    } else {
        left = fresh.file; /* another thread was first; the slot goes with its lock */
    }
    tidei_lock_release(&shared->lock);
    tidei_claim_close(unused);
    free(unused);
    munmap(left, sizeof(*left));
    return true;
}

/* Requests with the lock. */

/* Take the locks. False, with none taken and the error text set: a child gets no slot, or the file no lock. */
static bool
shared_begin(struct tidei_limit_shared *shared, enum tide_status *failure)
{
    *failure = TIDE_ELIMIT;
    for (;;) {
        tidei_lock_acquire(&shared->lock);
        if (!shared->is_orphan)
            break;
        tidei_lock_release(&shared->lock);
        if (!shared_adopt(shared))
            return false;
    }
    *failure = tidei_limit_lock(shared->file, shared->claim, shared->name);
    if (*failure != TIDE_OK)
        tidei_lock_release(&shared->lock);
    return *failure == TIDE_OK;
}

static void
shared_end(struct tidei_limit_shared *shared)
{
    tidei_limit_unlock(shared->claim);
    tidei_lock_release(&shared->lock);
}

static uint32_t
shared_processes(const struct tidei_limit_file *file)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < file->slots_end; i++)
        count += tidei_limit_slot_is_used(&file->slots[i]);
    return count;
}

static void
shared_figures(const struct tidei_limit_shared *shared, struct tidei_limit_shared_figures *out)
{
    out->used_bytes = tidei_limit_sum(shared->file);
    out->own_bytes = tidei_limit_granted(&shared->file->slots[shared->slot]);
    out->processes = shared_processes(shared->file);
}

/* Grant `bytes` out of `room`, and a lease, unless leases were taken back just now. */
static void
shared_grant(struct tidei_limit_shared *shared, uint64_t bytes, uint64_t room)
{
    struct tidei_limit_file *file = shared->file;
    struct tidei_limit_lane *lane = &file->slots[shared->slot].lanes[tidei_thread->number % TIDEI_LIMIT_LANES];
    uint64_t lease = (room - bytes) / 2 / shared_processes(file);

    file->served += file->served < UINT32_MAX;
    /* Until a child has freed what it has inherited, its threads use no lanes. */
    if (lease / SHARED_LEASE_LEAST < bytes || file->served < file->patience || shared->inherited_bytes != 0)
        lease = 0;
    /* Killed between the two, this process has lost its slot. */
    atomic_fetch_add(&lane->granted, bytes + lease);
    atomic_fetch_add(&lane->lease, lease);
}

bool
tidei_limit_shared_ask_add(struct tidei_limit_shared *shared, uint64_t bytes,
                           struct tidei_limit_shared_figures *refusal)
{
    uint64_t room;
    bool fits;

    *refusal = (struct tidei_limit_shared_figures){ 0 };
    tidei_thread_get();
    if (!shared_begin(shared, &refusal->failure))
        return false;
    room = tidei_limit_room(shared->file);
    if (room < bytes) {
        tidei_limit_recall(shared->file);
        room = tidei_limit_room(shared->file);
    }
    if (room < bytes) {
        tidei_limit_sweep(shared->file, shared->claim, shared->slot);
        room = tidei_limit_room(shared->file);
    }
    fits = room >= bytes;
    if (fits)
        shared_grant(shared, bytes, room);
    else
        shared_figures(shared, refusal);
    shared_end(shared);
    return fits;
}

void
tidei_limit_shared_ask_take_off(struct tidei_limit_shared *shared, uint64_t bytes)
{
    enum tide_status failure;
    uint64_t inherited;

    if (!shared_begin(shared, &failure))
        return;
    inherited = bytes < shared->inherited_bytes ? bytes : shared->inherited_bytes;
    shared->inherited_bytes -= inherited;
    atomic_fetch_add(&shared->file->slots[shared->slot].lanes[0].lease, bytes - inherited);
    shared_show_lanes(shared);
    shared_end(shared);
}

void
tidei_limit_shared_read(struct tidei_limit_shared *shared, struct tidei_limit_shared_figures *out)
{
    *out = (struct tidei_limit_shared_figures){ 0 };
    if (!shared_begin(shared, &out->failure))
        return;
    tidei_limit_sweep(shared->file, shared->claim, shared->slot);
    tidei_limit_look(shared->file, shared->slot, &out->used_bytes, &out->own_bytes);
    out->processes = shared_processes(shared->file);
    shared_end(shared);
}

/* Attaching and detaching. */

static void
shared_free(struct tidei_limit_shared *shared)
{
    free(shared->claim);
    free(shared->path);
    free(shared->name);
    free(shared);
}

enum tide_status
tidei_limit_shared_attach(const char *name, uint64_t limit_bytes, struct tidei_limit_shared **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct tidei_limit_shared *shared = calloc(1, sizeof(*shared));
    enum tide_status status;

    *out = NULL;
    pthread_once(&once, shareds_prepare);
    if (shared == NULL || (shared->claim = malloc(sizeof(*shared->claim))) == NULL ||
        (shared->name = strdup(name)) == NULL) {
        if (shared != NULL)
            shared_free(shared);
        return shared_no_memory(name);
    }
    shared->claim->fd = -1;
    shared->limit_bytes = limit_bytes;
    status = tidei_limit_path(name, &shared->path);
    if (status == TIDE_OK)
        tidei_limit_clear(shared->path);
    if (status == TIDE_OK)
        status = tidei_limit_open(shared, shared->claim, name);
    if (status != TIDE_OK) {
        shared_free(shared);
        return status;
    }
    tidei_lock_init(&shared->lock);
    shared_show_lanes(shared);
    tidei_lock_acquire(&shareds.lock);
    shared->next = shareds.first;
    shareds.first = shared;
    tidei_lock_release(&shareds.lock);
    *out = shared;
    return TIDE_OK;
}

void
tidei_limit_shared_detach(struct tidei_limit_shared *shared)
{
    struct tidei_limit_shared **link = &shareds.first;

    tidei_lock_acquire(&shareds.lock);
    while (*link != shared)
        link = &(*link)->next;
    *link = shared->next;
    tidei_lock_release(&shareds.lock);
    /* Without the lock the slot stays until others see that its byte is not locked any more. */
    if (!shared->is_orphan && tidei_limit_lock(shared->file, shared->claim, shared->name) == TIDE_OK) {
        atomic_store(&shared->file->slots[shared->slot].used, 0);
        /* Whoever waits for the lock finds that the path is another file's, or nothing's. */
        if (tidei_limit_is_last(shared->file, shared->claim, shared->slot))
            tidei_limit_remove(shared->path, shared->claim);
    }
    tidei_claim_close(shared->claim); /* and with it all locks */
    munmap(shared->file, sizeof(*shared->file));
    tidei_lock_fini(&shared->lock);
    shared_free(shared);
}

/* A child that no hook has seen, such as one of clone(), has the slot and the locks of its parent. */
static bool
shared_is_own(const struct tidei_limit_shared *shared)
{
    return !shared->is_orphan && shared->file->slots[shared->slot].pid == (uint32_t)getpid();
}

/* Lock the file unless others have it locked for so long that one of them must have been stopped. */
static bool
shared_lock_at_exit(const struct tidei_limit_shared *shared)
{
    for (int tries = 0; tries < SHARED_EXIT_TRIES; tries++) {
        if (tidei_limit_try_lock(shared->claim))
            return true;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return false;
}

static void
shared_leave(struct tidei_limit_shared *shared)
{
    struct tidei_limit_slot *slot = &shared->file->slots[shared->slot];

    if (tidei_limit_outstanding_most(slot) != 0)
        return;
    atomic_store(&slot->used, TIDEI_LIMIT_LEAVING);
    if (tidei_limit_is_last(shared->file, shared->claim, shared->slot))
        tidei_limit_remove(shared->path, shared->claim);
}

/*
 * At exit() budgets that are still there lose their file, where no other process needs it, and nothing is outstanding:
 * such memory is the process's until it has ended. It goes on with its mapping until then. The slot says that it is
 * leaving, so that the last of several processes that end at the same moment removes the file.
 */
__attribute__((destructor)) static void
shareds_at_exit(void)
{
    for (struct tidei_limit_shared *shared = shareds.first; shared != NULL; shared = shared->next) {
        if (!shared_is_own(shared) || !tidei_lock_try(&shared->lock))
            continue;
        if (shared_lock_at_exit(shared)) {
            shared_leave(shared);
            tidei_limit_unlock(shared->claim);
        }
        tidei_lock_release(&shared->lock);
    }
    TIDEI_TEST_POINT("shared.left");
}
