/* Grants, leases and their recall in a budget that processes share, and the life of its file. */
#include "adaptors/limit/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/resource/resource.h"
#include "src/sync/fork.h"
#include "src/sync/testpoint.h"

#define SHARED_SLOTS   256
#define SHARED_VERSION 1

/* Leases of fewer requests are not worth their recall. */
#define SHARED_LEASE_LEAST 4

/* Requests with the lock before leases are granted again: doubled each time that they were taken back soon. */
#define SHARED_PATIENCE_FIRST 8
#define SHARED_PATIENCE_MOST  1024

/* The bytes of the file that are locked: the first is the lock of all, the others those of the slots. */
#define SHARED_LOCK        0
#define SHARED_SLOT_BYTE 1

struct shared_slot {
    _Alignas(64) _Atomic uint32_t used; /* 0: free, whatever the lanes have */
    uint32_t pid;                       /* for people */
    struct limit_lane lanes[LIMIT_SHARED_LANES];
};

/* All but the leases is guarded by the lock of the file. */
struct limit_file {
    char magic[16]; /* written last */
    uint32_t version, slot_count, lane_count;
    _Atomic uint32_t closing; /* lanes may be closed */
    uint64_t limit_bytes;
    _Atomic uint32_t taking;         /* the number of a lane from 1, whose lease is taken back; 0: none */
    _Atomic uint64_t taking_granted; /* and its grant after that */
    uint32_t slots_end;              /* above the highest slot ever used */
    uint32_t served, patience;       /* requests since the leases were taken back, and before they are granted again */
    struct shared_slot slots[SHARED_SLOTS];
};

static const char shared_magic[16] = "tidemark budget";

/* Those of this process, for fork(). */
static struct {
    struct tidei_lock lock;
    struct limit_shared *first;
} shareds;

static struct limit_lane shared_closed[LIMIT_SHARED_LANES];

/* Lanes. The lock of the file is held. */

static uint64_t
shared_granted(const struct shared_slot *slot)
{
    uint64_t sum = 0;

    for (int i = 0; i < LIMIT_SHARED_LANES; i++)
        sum += atomic_load_explicit(&slot->lanes[i].granted, memory_order_relaxed);
    return sum;
}

static bool
shared_is_used(const struct shared_slot *slot)
{
    return atomic_load_explicit(&slot->used, memory_order_relaxed) != 0;
}

/* What is granted to all processes. */
static uint64_t
shared_sum(const struct limit_file *file)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < file->slots_end; i++) {
        if (shared_is_used(&file->slots[i]))
            sum += shared_granted(&file->slots[i]);
    }
    return sum;
}

static uint64_t
shared_room(const struct limit_file *file)
{
    uint64_t sum = shared_sum(file);

    return sum < file->limit_bytes ? file->limit_bytes - sum : 0;
}

static struct limit_lane *
shared_lane_at(struct limit_file *file, uint32_t number)
{
    return &file->slots[number / LIMIT_SHARED_LANES].lanes[number % LIMIT_SHARED_LANES];
}

/* Sequentially consistent, as all stores here that a killed process leaves half done: they are made in this order. */
static void
shared_close(struct limit_file *file)
{
    atomic_store(&file->closing, 1);
    for (uint32_t i = 0; i < file->slots_end * LIMIT_SHARED_LANES; i++)
        atomic_fetch_or(&shared_lane_at(file, i)->lease, LIMIT_SHARED_CLOSED);
    TIDEI_TEST_POINT("shared.closed");
}

static void
shared_reopen(struct limit_file *file)
{
    for (uint32_t i = 0; i < file->slots_end * LIMIT_SHARED_LANES; i++)
        atomic_fetch_and(&shared_lane_at(file, i)->lease, ~LIMIT_SHARED_CLOSED);
    atomic_store(&file->closing, 0);
}

/* The second half of taking back a lease, which can be done again from its beginning. */
static void
shared_finish_taking(struct limit_file *file)
{
    struct limit_lane *lane = shared_lane_at(file, atomic_load(&file->taking) - 1);

    atomic_store(&lane->granted, atomic_load(&file->taking_granted));
    TIDEI_TEST_POINT("shared.taking");
    atomic_store(&lane->lease, LIMIT_SHARED_CLOSED);
    atomic_store(&file->taking, 0);
}

/* Take back the lease of a closed lane. */
static void
shared_take_lease(struct limit_file *file, uint32_t number)
{
    struct limit_lane *lane = shared_lane_at(file, number);
    uint64_t lease = atomic_load(&lane->lease) & ~LIMIT_SHARED_CLOSED;

    if (lease == 0)
        return;
    atomic_store(&file->taking_granted, atomic_load(&lane->granted) - lease);
    atomic_store(&file->taking, number + 1);
    TIDEI_TEST_POINT("shared.taken");
    shared_finish_taking(file);
}

/* A program that frees more than it has must not make room for others. */
static void
shared_keep_positive(struct shared_slot *slot)
{
    uint64_t sum = shared_granted(slot);

    if ((int64_t)sum < 0)
        atomic_fetch_sub(&slot->lanes[0].granted, sum);
}

/* Take back the leases of all processes, all at one moment. Afterwards the grants are what is outstanding. */
static void
shared_recall(struct limit_file *file)
{
    shared_close(file);
    for (uint32_t i = 0; i < file->slots_end; i++) {
        if (!shared_is_used(&file->slots[i]))
            continue;
        for (uint32_t j = 0; j < LIMIT_SHARED_LANES; j++)
            shared_take_lease(file, i * LIMIT_SHARED_LANES + j);
        shared_keep_positive(&file->slots[i]);
    }
    shared_reopen(file);
    if (file->served >= 4 * file->patience)
        file->patience /= 2;
    else if (file->patience < SHARED_PATIENCE_MOST)
        file->patience = file->patience == 0 ? SHARED_PATIENCE_FIRST : 2 * file->patience;
    file->served = 0;
}

/* Complete what a process had begun that was killed with the lock. */
static void
shared_repair(struct limit_file *file)
{
    if (atomic_load(&file->taking) != 0)
        shared_finish_taking(file);
    if (atomic_load(&file->closing) != 0)
        shared_reopen(file);
}

/* Slots. The lock of the file is held. */

static int
shared_lock_slot(const struct tidei_claim *claim, uint32_t slot, int type)
{
    return tidei_claim_lock(claim, type, SHARED_SLOT_BYTE + (off_t)slot, 1, NULL);
}

/* Empty the slots of dead processes: those whose byte nobody has locked. Returns the number of the others but `own`. */
static uint32_t
shared_sweep(struct limit_file *file, const struct tidei_claim *claim, uint32_t own)
{
    uint32_t others = 0;

    for (uint32_t i = 0; i < file->slots_end; i++) {
        struct shared_slot *slot = &file->slots[i];

        if (i == own || !shared_is_used(slot))
            continue;
        if (shared_lock_slot(claim, i, F_WRLCK) != 0) {
            others++;
            continue;
        }
        atomic_store(&slot->used, 0);
        shared_lock_slot(claim, i, F_UNLCK);
    }
    return others;
}

/* A slot for this process, or SHARED_SLOTS. */
static uint32_t
shared_take_slot(struct limit_file *file, const struct tidei_claim *claim)
{
    uint32_t i = 0;

    while (i < SHARED_SLOTS && (shared_is_used(&file->slots[i]) || shared_lock_slot(claim, i, F_WRLCK) != 0))
        i++;
    if (i == SHARED_SLOTS)
        return i;
    for (int j = 0; j < LIMIT_SHARED_LANES; j++) {
        atomic_store(&file->slots[i].lanes[j].lease, 0);
        atomic_store(&file->slots[i].lanes[j].granted, 0);
    }
    file->slots[i].pid = (uint32_t)getpid();
    if (file->slots_end <= i)
        file->slots_end = i + 1;
    atomic_store(&file->slots[i].used, 1);
    return i;
}

/* The lock of the file. */

/* Waits for other processes. The kernel may be short of memory for locks for a while. */
static void
shared_lock_file(struct limit_file *file, const struct tidei_claim *claim)
{
    while (tidei_claim_wait(claim, F_WRLCK, SHARED_LOCK, 1) != 0)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    shared_repair(file);
}

static void
shared_unlock_file(const struct tidei_claim *claim)
{
    tidei_claim_lock(claim, F_UNLCK, SHARED_LOCK, 1, NULL);
}

/* The file. */

static enum tide_status
shared_failure(enum tide_status status, const char *name, const char *what)
{
    return tide_error_set(status, "limit: shared budget '%s': %s", name, what);
}

static bool
shared_name_is(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");

    return length > 0 && length <= 200 && name[length] == '\0' && name[0] != '.';
}

/* A word names a file in /dev/shm, and a name with a slash is a path. */
static enum tide_status
shared_path(const char *name, char **out)
{
    static const char folder[] = "/dev/shm/tidemark-budget-";
    bool is_path = strchr(name, '/') != NULL;
    size_t room = sizeof(folder) + strlen(name);

    *out = NULL;
    if (!is_path && !shared_name_is(name))
        return shared_failure(TIDE_EINVAL, name,
                              "expected up to 200 letters, digits, '_', '-' and '.', or a path with a '/'");
    *out = malloc(room);
    if (*out == NULL)
        return shared_failure(TIDE_ENOMEM, name, "no host memory");
    strcpy(*out, is_path ? "" : folder);
    strcat(*out, name);
    return TIDE_OK;
}

static enum tide_status
shared_open_failure(const char *name, const char *path, int error)
{
    struct stat info;

    if ((error == EACCES || error == EPERM) && lstat(path, &info) == 0 && info.st_uid != geteuid())
        return tide_error_set(TIDE_EINVAL, "limit: shared budget '%s' belongs to another user, with the id %lu", name,
                              (unsigned long)info.st_uid);
    if (error == ELOOP)
        return shared_failure(TIDE_EINVAL, name, "its file is a symbolic link");
    return shared_failure(TIDE_EIO, name, strerror(error));
}

/* Whether the open file is one that only this user can change, and large enough. */
static enum tide_status
shared_check_file(const char *name, int fd, off_t bytes)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return shared_failure(TIDE_EIO, name, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return shared_failure(TIDE_EINVAL, name, "it is no regular file");
    if (info.st_uid != geteuid())
        return tide_error_set(TIDE_EINVAL, "limit: shared budget '%s' belongs to another user, with the id %lu", name,
                              (unsigned long)info.st_uid);
    if ((info.st_mode & 077) != 0)
        return shared_failure(TIDE_EINVAL, name, "other users may open its file");
    if (info.st_size != 0 && info.st_size != bytes)
        return shared_failure(TIDE_EFORMAT, name, "its file is of another version of Tidemark, or something else");
    return TIDE_OK;
}

/* Map the file at `path`, which is created where there is none. */
static enum tide_status
shared_map(const char *name, const char *path, int *fd, struct limit_file **out)
{
    off_t bytes = (off_t)sizeof(struct limit_file);
    enum tide_status status;
    int error;

    *out = NULL;
    *fd = tidei_open_high(path, O_RDWR | O_CREAT | O_NONBLOCK, 0600);
    if (*fd < 0)
        return shared_open_failure(name, path, errno);
    status = shared_check_file(name, *fd, bytes);
    if (status != TIDE_OK)
        return status;
    /* All of its blocks, so that no access faults where the file system is full. It stays all zeros. */
    error = posix_fallocate(*fd, 0, bytes);
    if (error != 0)
        return shared_failure(TIDE_EIO, name, strerror(error));
    *out = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (*out != MAP_FAILED)
        return TIDE_OK;
    *out = NULL;
    return shared_failure(TIDE_EIO, name, strerror(errno));
}

/* Whether the path still names the open file: its last process removes it. */
static bool
shared_is_there(const char *path, int fd)
{
    struct stat here, there;

    return fstat(fd, &here) == 0 && lstat(path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

/* Begin with an empty file, or check one that has begun. The lock of the file is held. */
static enum tide_status
shared_check_header(struct limit_file *file, const char *name)
{
    if (memcmp(file->magic, shared_magic, sizeof(file->magic)) != 0 && file->magic[0] != '\0')
        return shared_failure(TIDE_EFORMAT, name, "its file is none of a shared budget");
    if (file->magic[0] == '\0') {
        file->version = SHARED_VERSION;
        file->slot_count = SHARED_SLOTS;
        file->lane_count = LIMIT_SHARED_LANES;
        atomic_thread_fence(memory_order_seq_cst); /* the magic comes last */
        memcpy(file->magic, shared_magic, sizeof(file->magic));
    }
    if (file->version != SHARED_VERSION || file->slot_count != SHARED_SLOTS || file->lane_count != LIMIT_SHARED_LANES)
        return shared_failure(TIDE_EFORMAT, name, "its file is of another version of Tidemark");
    return TIDE_OK;
}

/* Take a slot; the first process sets the bound. The lock of the file is held. */
static enum tide_status
shared_enter(struct limit_file *file, const struct tidei_claim *claim, const char *name, uint64_t limit_bytes,
             uint32_t *slot)
{
    enum tide_status status = shared_check_header(file, name);
    char made[32], wanted[32];

    if (status != TIDE_OK)
        return status;
    shared_repair(file);
    if (shared_sweep(file, claim, SHARED_SLOTS) == 0)
        file->limit_bytes = limit_bytes;
    if (file->limit_bytes != limit_bytes) {
        tide_text_size(&(struct tide_text){ .data = made, .capacity = sizeof(made) }, file->limit_bytes);
        tide_text_size(&(struct tide_text){ .data = wanted, .capacity = sizeof(wanted) }, limit_bytes);
        return tide_error_set(TIDE_EINVAL,
                              "limit: shared budget '%s' was made with limit=%s, and is wanted with limit=%s here",
                              name, made, wanted);
    }
    *slot = shared_take_slot(file, claim);
    if (*slot == SHARED_SLOTS)
        return tide_error_set(TIDE_EBUSY, "limit: shared budget '%s' has no room for more than %u processes", name,
                              SHARED_SLOTS);
    return TIDE_OK;
}

/* Open the locks on the mapped file, and enter. *again: its last process has removed it meanwhile. */
static enum tide_status
shared_claim(struct limit_shared *shared, struct tidei_claim *claim, const char *name, int fd, bool *again)
{
    bool posix = false;
    int error = tidei_claim_open(claim, shared->path, O_RDWR, fd);
    enum tide_status status;

    *again = error == ESTALE || error == ENOENT;
    if (error != 0)
        return shared_open_failure(name, shared->path, error);
    /* Locks of processes would end when any code of this one closes the file. */
    error = tidei_claim_lock(claim, F_UNLCK, SHARED_LOCK, 1, &posix);
    if (error != 0 || posix)
        return shared_failure(TIDE_EUNSUPPORTED, name, "its file system has no locks of open files");
    while (tidei_claim_wait(claim, F_WRLCK, SHARED_LOCK, 1) != 0)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    *again = !shared_is_there(shared->path, fd);
    if (*again)
        return TIDE_EIO;
    status = shared_enter(shared->file, claim, name, shared->limit_bytes, &shared->slot);
    shared_unlock_file(claim);
    return status;
}

/* Map the file and enter it; *claim is open on success, and closed else. */
static enum tide_status
shared_open(struct limit_shared *shared, struct tidei_claim *claim, const char *name)
{
    enum tide_status status;
    bool again;

    do {
        int fd = -1;

        again = false;
        status = shared_map(name, shared->path, &fd, &shared->file);
        if (status == TIDE_OK)
            status = shared_claim(shared, claim, name, fd, &again);
        /* The mapping keeps no lock: those are on the file that the claim has opened. */
        if (fd >= 0)
            close(fd);
        if (status == TIDE_OK)
            return TIDE_OK;
        tidei_claim_close(claim);
        if (shared->file != NULL)
            munmap(shared->file, sizeof(*shared->file));
        shared->file = NULL;
    } while (again);
    return status;
}

/* fork() */

/* What this process has outstanding, as the lanes say. Exact while no other thread allocates or frees. */
static uint64_t
shared_own(const struct limit_shared *shared)
{
    const struct shared_slot *slot = &shared->file->slots[shared->slot];
    uint64_t sum = shared_granted(slot);

    for (int i = 0; i < LIMIT_SHARED_LANES; i++)
        sum -= atomic_load_explicit(&slot->lanes[i].lease, memory_order_relaxed) & ~LIMIT_SHARED_CLOSED;
    return sum;
}

/* A child has a slot of its own from its first request on. What it inherits counts in its parent's. */
static void
shareds_before_fork(void)
{
    for (struct limit_shared *shared = shareds.first; shared != NULL; shared = shared->next) {
        shared->forked_bytes = shared->inherited_bytes + (shared->is_orphan ? 0 : shared_own(shared));
    }
}

static void
shareds_in_child(void)
{
    for (struct limit_shared *shared = shareds.first; shared != NULL; shared = shared->next) {
        shared->is_orphan = true;
        shared->inherited_bytes = shared->forked_bytes;
        atomic_store_explicit(&shared->lanes, shared_closed, memory_order_relaxed);
    }
}

static void
shareds_prepare(void)
{
    static const struct tidei_fork_hook hook = { .prepare = shareds_before_fork, .child = shareds_in_child };

    for (int i = 0; i < LIMIT_SHARED_LANES; i++)
        atomic_store_explicit(&shared_closed[i].lease, LIMIT_SHARED_CLOSED, memory_order_relaxed);
    tidei_lock_init(&shareds.lock);
    tidei_claim_handle_forks();
    tidei_fork_hook_set(TIDEI_FORK_BUDGETS, &hook);
}

/* Let the threads use their lanes, unless frees may be those of inherited blocks. */
static void
shared_show_lanes(struct limit_shared *shared)
{
    if (shared->inherited_bytes == 0)
        atomic_store_explicit(&shared->lanes, shared->file->slots[shared->slot].lanes, memory_order_relaxed);
}

/* In a child of fork(): take a slot. The caller holds no lock. False, with the error text set, if that fails. */
static bool
shared_adopt(struct limit_shared *shared)
{
    struct limit_shared fresh = { .path = shared->path, .limit_bytes = shared->limit_bytes };
    struct tidei_claim *claim = malloc(sizeof(*claim)), *unused = claim;
    struct limit_file *left = NULL;

    if (claim == NULL)
        return shared_failure(TIDE_ENOMEM, shared->name, "no host memory") == TIDE_OK;
    claim->fd = -1;
    if (shared_open(&fresh, claim, shared->name) != TIDE_OK) {
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

/* Take the locks. False, with none taken, in a child that gets no slot. */
static bool
shared_begin(struct limit_shared *shared)
{
    for (;;) {
        tidei_lock_acquire(&shared->lock);
        if (!shared->is_orphan)
            break;
        tidei_lock_release(&shared->lock);
        if (!shared_adopt(shared))
            return false;
    }
    shared_lock_file(shared->file, shared->claim);
    return true;
}

static void
shared_end(struct limit_shared *shared)
{
    shared_unlock_file(shared->claim);
    tidei_lock_release(&shared->lock);
}

static uint32_t
shared_processes(const struct limit_file *file)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < file->slots_end; i++)
        count += shared_is_used(&file->slots[i]);
    return count;
}

static void
shared_figures(const struct limit_shared *shared, struct limit_shared_figures *out)
{
    out->used_bytes = shared_sum(shared->file);
    out->own_bytes = shared_granted(&shared->file->slots[shared->slot]);
    out->processes = shared_processes(shared->file);
}

/* Grant `bytes` out of `room`, and a lease, unless leases were taken back just now. */
static void
shared_grant(struct limit_shared *shared, uint64_t bytes, uint64_t room)
{
    struct limit_file *file = shared->file;
    struct limit_lane *lane =
        &file->slots[shared->slot].lanes[tidei_thread->number % LIMIT_SHARED_LANES];
    uint64_t lease = (room - bytes) / 2 / shared_processes(file);

    file->served += file->served < UINT32_MAX;
    if (lease / SHARED_LEASE_LEAST < bytes || file->served < file->patience)
        lease = 0;
    /* Killed between the two, this process has lost its slot. */
    atomic_fetch_add(&lane->granted, bytes + lease);
    atomic_fetch_add(&lane->lease, lease);
}

bool
limit_shared_ask_add(struct limit_shared *shared, uint64_t bytes, struct limit_shared_figures *refusal)
{
    uint64_t room;
    bool fits;

    *refusal = (struct limit_shared_figures){ 0 };
    tidei_thread_get();
    if (!shared_begin(shared))
        return false;
    room = shared_room(shared->file);
    if (room < bytes) {
        shared_recall(shared->file);
        room = shared_room(shared->file);
    }
    if (room < bytes) {
        shared_sweep(shared->file, shared->claim, shared->slot);
        room = shared_room(shared->file);
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
limit_shared_ask_take_off(struct limit_shared *shared, uint64_t bytes)
{
    uint64_t inherited;

    if (!shared_begin(shared))
        return;
    inherited = bytes < shared->inherited_bytes ? bytes : shared->inherited_bytes;
    shared->inherited_bytes -= inherited;
    atomic_fetch_add(&shared->file->slots[shared->slot].lanes[0].lease, bytes - inherited);
    shared_show_lanes(shared);
    shared_end(shared);
}

void
limit_shared_read(struct limit_shared *shared, struct limit_shared_figures *out)
{
    *out = (struct limit_shared_figures){ 0 };
    if (!shared_begin(shared))
        return;
    shared_sweep(shared->file, shared->claim, shared->slot);
    shared_recall(shared->file);
    shared_figures(shared, out);
    shared_end(shared);
}

/* Attaching and detaching. */

static void
shared_free(struct limit_shared *shared)
{
    free(shared->claim);
    free(shared->path);
    free(shared->name);
    free(shared);
}

enum tide_status
limit_shared_attach(const char *name, uint64_t limit_bytes, struct limit_shared **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct limit_shared *shared = calloc(1, sizeof(*shared));
    enum tide_status status;

    *out = NULL;
    pthread_once(&once, shareds_prepare);
    if (shared == NULL || (shared->claim = malloc(sizeof(*shared->claim))) == NULL ||
        (shared->name = strdup(name)) == NULL) {
        if (shared != NULL)
            shared_free(shared);
        return shared_failure(TIDE_ENOMEM, name, "no host memory");
    }
    shared->claim->fd = -1;
    shared->limit_bytes = limit_bytes;
    status = shared_path(name, &shared->path);
    if (status == TIDE_OK)
        status = shared_open(shared, shared->claim, name);
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
limit_shared_detach(struct limit_shared *shared)
{
    struct limit_shared **link = &shareds.first;

    tidei_lock_acquire(&shareds.lock);
    while (*link != shared)
        link = &(*link)->next;
    *link = shared->next;
    tidei_lock_release(&shareds.lock);
    if (!shared->is_orphan) {
        shared_lock_file(shared->file, shared->claim);
        atomic_store(&shared->file->slots[shared->slot].used, 0);
        /* Whoever waits for the lock finds that the path is another file's, or nothing's. */
        if (shared_sweep(shared->file, shared->claim, shared->slot) == 0)
            unlink(shared->path);
    }
    tidei_claim_close(shared->claim); /* and with it all locks */
    munmap(shared->file, sizeof(*shared->file));
    tidei_lock_fini(&shared->lock);
    shared_free(shared);
}
