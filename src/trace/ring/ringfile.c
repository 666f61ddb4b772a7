/* Creates, opens, grows and locks the ring file. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "src/resource/resource.h"
#include "src/trace/ring/filelimit.h"
#include "src/trace/ring/ringfile.h"

static enum tide_status
ringfile_error(const char *path, const char *what, int error)
{
    return tide_error_set(TIDE_EIO, "log: %s: %s: %s", path, what, strerror(error));
}

/*
 * A recorder locks all bytes below RINGFILE_RECOVERY. A recovery locks that byte first, and then the bytes below it. So
 * another recovery can tell whether the process that has the file records into it or recovers it. The lock says nothing
 * of who has it: for that, the process that has one of the two sets a POSIX lock on a byte of its own, which is gone
 * where the process has closed the file meanwhile. Earlier versions have POSIX locks alone, of the same bytes.
 */
#define RINGFILE_RECOVERY ((off_t)1 << 62)
#define RINGFILE_NAMES    (RINGFILE_RECOVERY + 1)

/* The lock of process that died vanishes soon: attempts, 5 ms apart; and where nothing is known of the process. */
#define RINGFILE_TRIES         200
#define RINGFILE_TRIES_UNKNOWN 20

/* The bytes to lock from `first` on, and the byte that tells who has. */
static off_t
ringfile_lock_length(off_t first)
{
    return first == 0 ? RINGFILE_RECOVERY : 1;
}

static off_t
ringfile_lock_name(off_t first)
{
    return RINGFILE_NAMES + (first == 0 ? 0 : 1);
}

/* Who records into the file, and whether that process lives, as its header says. */
static enum tidei_owner_state
ringfile_owner(const struct tidei_ringfile *file, uint32_t *pid, bool *posix)
{
    struct tidei_ring_header header;

    *pid = 0;
    *posix = false;
    if (pread(file->claim.fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        memcmp(header.magic, TIDEI_RING_MAGIC, sizeof(header.magic)) != 0)
        return TIDEI_OWNER_UNKNOWN;
    *pid = header.pid;
    *posix = header.owner.posix != 0;
    return tidei_owner_look(&header.owner, header.pid, file->claim.fd);
}

/* Lock, or say who has the lock; *state: whether that process lives. 0, EAGAIN, or the error number. */
static int
ringfile_try_lock(struct tidei_ringfile *file, off_t first, uint32_t *pid, enum tidei_owner_state *state)
{
    enum tidei_owner_state owner;
    bool posix, weak;
    uint32_t recorder;
    int error = tidei_claim_lock(&file->claim, F_WRLCK, first, ringfile_lock_length(first), &posix);
    pid_t holder;

    owner = first == 0 ? ringfile_owner(file, &recorder, &weak) : TIDEI_OWNER_UNKNOWN;
    *state = TIDEI_OWNER_UNKNOWN;
    if (error == 0) {
        file->posix = posix;
        tidei_claim_lock_process(&file->claim, F_WRLCK, ringfile_lock_name(first), 1);
        if (first != 0 || !weak || owner != TIDEI_OWNER_LIVES)
            return 0;
        tidei_claim_lock(&file->claim, F_UNLCK, first, ringfile_lock_length(first), NULL);
        error = EAGAIN;
    }
    if (error != EAGAIN)
        return error;
    holder = tidei_claim_holder(&file->claim, F_WRLCK, first, ringfile_lock_length(first));
    if (holder <= 0)
        holder = tidei_claim_holder(&file->claim, F_WRLCK, ringfile_lock_name(first), 1);
    *state = owner;
    if (holder > 0)
        *state = kill(holder, 0) == 0 || errno != ESRCH ? TIDEI_OWNER_LIVES : TIDEI_OWNER_UNKNOWN;
    *pid = holder > 0 ? (uint32_t)holder : first == 0 ? recorder : 0;
    return EAGAIN;
}

/*
 * Lock with retries, since the lock of a process that has just died or closed the file vanishes soon. Returns 0, EAGAIN
 * if another process has the lock (*pid; 0: not known), or the error number. A recorder that is certainly dead has no
 * claim any more: a child that it made without fork() may have its descriptors, and with them its lock.
 */
static int
ringfile_lock(struct tidei_ringfile *file, off_t first, uint32_t *pid)
{
    const struct timespec pause = { 0, 5000000 };
    enum tidei_owner_state state = TIDEI_OWNER_UNKNOWN;

    *pid = 0;
    for (int tries = 0; tries < RINGFILE_TRIES; tries++) {
        int error = ringfile_try_lock(file, first, pid, &state);

        if (error != EAGAIN)
            return error;
        if (state == TIDEI_OWNER_LIVES || (state == TIDEI_OWNER_UNKNOWN && tries >= RINGFILE_TRIES_UNKNOWN))
            return EAGAIN;
        nanosleep(&pause, NULL);
    }
    return state == TIDEI_OWNER_DEAD ? 0 : EAGAIN;
}

/* The status and error text for a result of ringfile_lock. */
static enum tide_status
ringfile_lock_error(const char *path, int error, uint32_t pid, const char *what)
{
    if (error != EAGAIN)
        return ringfile_error(path, "lock", error);
    return tide_error_set(TIDE_EBUSY, "log: %s: process %u %s", path, pid, what);
}

/* Allocate blocks for [offset, offset + bytes). */
static int
ringfile_allocate(int fd, uint64_t offset, uint64_t bytes)
{
    sigset_t before;
    int error;

    tidei_filelimit_hold(&before);
    do {
        error = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    } while (error == EINTR);
    tidei_filelimit_release(&before);
    return error;
}

static void *
ringfile_map(struct tidei_ringfile *file, uint64_t offset, uint64_t bytes)
{
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, (off_t)offset);

    if (address == MAP_FAILED)
        return NULL;
    if (tidei_fault_add(&file->fault, address, bytes, offset))
        return address;
    munmap(address, bytes);
    errno = ENOMEM;
    return NULL;
}

#define RINGFILE_BTRFS 0x9123683e /* statfs(2), as the headers of older kernels lack it */

bool
tidei_ringfile_copies_on_write(const char *path)
{
    struct statfs info;

    return statfs(path, &info) == 0 && (unsigned long)info.f_type == RINGFILE_BTRFS;
}

void
tidei_ringfile_write_in_place(int fd)
{
    struct statfs info;
    int flags;

    /* Elsewhere the flag is unknown, or there is no need of it. A failure leaves the file as it is. */
    if (fstatfs(fd, &info) != 0 || (unsigned long)info.f_type != RINGFILE_BTRFS ||
        ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0)
        return;
    flags |= FS_NOCOW_FL;
    (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

/*
 * In the handler of a fault: the memory of this process goes on without the file. What the file has from now on is no
 * state that the memory ever had, so nobody may recover from it.
 */
static void
ringfile_faulted(struct tidei_fault_owner *owner)
{
    struct tidei_ringfile *file = (struct tidei_ringfile *)((char *)owner - offsetof(struct tidei_ringfile, fault));

    tidei_ringfile_unlink(file);
}

/* Whether another process has cut the file off, or emptied it and made it long again. */
static bool
ringfile_is_cut(struct tidei_ringfile *file)
{
    struct stat info;
    uint64_t size;

    /* First what this process has made of it, since that grows after the file. */
    pthread_mutex_lock(&file->lock);
    size = file->size;
    pthread_mutex_unlock(&file->lock);
    if (!tidei_file_id_is(&file->id, file->fd) || fstat(file->fd, &info) != 0)
        return false;
    return (uint64_t)info.st_size < size || (file->trace_id != 0 && file->trace_id != file->header->trace_id);
}

/* Whether other code of the process has closed the file, whose number may be that of another file by now. */
static bool
ringfile_is_closed(const struct tidei_ringfile *file)
{
    return file->fd >= 0 && !tidei_file_id_is(&file->id, file->fd);
}

static enum tide_status
ringfile_closed(const struct tidei_ringfile *file)
{
    return tide_error_set(TIDE_EIO, "log: %s: %s", file->path, TIDEI_CLOSED_TEXT);
}

/* Lock again where other code of the process has closed the claim. False: another process has the file. */
static bool
ringfile_claim_again(struct tidei_ringfile *file)
{
    struct tidei_claim *claim = &file->claim;
    bool others = false;

    pthread_mutex_lock(&file->lock);
    if (claim->fd >= 0 && !tidei_claim_is_open(claim)) {
        tidei_claim_close(claim);
        /* Where the path names another file, or none, no other process can have this one. */
        if (tidei_file_id_is_at(&file->id, file->path) && tidei_claim_open(claim, file->path, O_RDWR, -1) == 0) {
            others = tidei_claim_lock(claim, F_WRLCK, 0, ringfile_lock_length(0), NULL) == EAGAIN;
            tidei_claim_lock_process(claim, F_WRLCK, ringfile_lock_name(0), 1);
        }
    }
    pthread_mutex_unlock(&file->lock);
    return !others;
}

enum tide_status
tidei_ringfile_check_sound(struct tidei_ringfile *file, bool exactly)
{
    enum tidei_fault_state state = tidei_fault_state(&file->fault);

    if (state == TIDEI_FAULT_LOST || ringfile_is_cut(file)) {
        /* For good: a new segment would make the file long again. */
        tidei_fault_tell(&file->fault, TIDEI_FAULT_LOST);
        return tide_error_set(TIDE_EIO, "log: %s: another process has cut it off, or the disk fails", file->path);
    }
    if (state == TIDEI_FAULT_KEPT && (exactly || file->left))
        return tide_error_set(TIDE_EIO, "log: %s: no space to write a page again", file->path);
    if (exactly && !file->left && ringfile_is_closed(file))
        return ringfile_closed(file);
    if (exactly && !file->left && !ringfile_claim_again(file)) {
        tidei_fault_tell(&file->fault, TIDEI_FAULT_LOST);
        return tide_error_set(TIDE_EIO, "log: %s: another process has taken it, as %s", file->path, TIDEI_CLOSED_TEXT);
    }
    return TIDE_OK;
}

/* Give back the blocks that a segment got before it failed: ext4 keeps them. Nothing lies behind the last segment. */
static void
ringfile_give_back(const struct tidei_ringfile *file)
{
    while (ftruncate(file->fd, (off_t)file->size) != 0 && errno == EINTR)
        ;
}

/* Allocate blocks for a new segment, unless that has just failed. The file's lock is held. */
static int
ringfile_extend(struct tidei_ringfile *file, uint64_t bytes, bool at_once)
{
    uint64_t now = tidei_monotonic_ns();
    int error;

    if (!at_once && file->refused_ns != 0 && bytes >= file->refused_bytes &&
        now - file->refused_ns < TIDEI_RING_AGAIN_NS)
        return file->refused_error;
    error = ringfile_allocate(file->fd, file->size, bytes);
    if (error != 0)
        ringfile_give_back(file);
    file->refused_ns = error != 0 ? now : 0;
    file->refused_bytes = bytes;
    file->refused_error = error;
    return error;
}

/*
 * Allocate and map a new segment at the end of the file; with `at_once`, even where that has just failed. The file's
 * lock is held.
 */
static enum tide_status
ringfile_add_segment(struct tidei_ringfile *file, uint64_t bytes, bool at_once, uint64_t *offset, void **address)
{
    int error;

    *offset = 0;
    *address = NULL;
    if (ringfile_is_closed(file))
        return ringfile_closed(file);
    error = ringfile_extend(file, bytes, at_once);
    if (error != 0)
        return ringfile_error(file->path, "no space for another segment", error);
    *offset = file->size;
    *address = ringfile_map(file, file->size, bytes);
    if (*address == NULL) {
        error = errno;
        ringfile_give_back(file);
        return ringfile_error(file->path, "mmap", error);
    }
    file->size += bytes;
    return TIDE_OK;
}

enum tide_status
tidei_ringfile_add_ring(struct tidei_ringfile *file, struct tidei_ring **out)
{
    enum tide_status status = TIDE_ENOMEM;
    uint64_t offset;
    void *address = NULL;
    uint32_t count;

    status = tidei_ringfile_check_sound(file, true);
    if (status != TIDE_OK)
        goto out_unlocked;
    pthread_mutex_lock(&file->lock);
    count = atomic_load_explicit(&file->header->ring_count, memory_order_relaxed);
    if (count == tidei_ringfile_rings_most()) {
        status = TIDE_ENOMEM;
        tide_error_set(status, "log: %s: more than %u threads record at once", file->path, count);
        goto out;
    }
    status = ringfile_add_segment(file, TIDEI_PAGE + file->ring_bytes, false, &offset, &address);
    if (status != TIDE_OK)
        goto out;
    file->directory->rings[count] = offset;
    file->rings[count] = address;
    /* Pairs with the acquire in the merge and in tidei_ringfile_open: the ring exists before it is counted. */
    atomic_store_explicit(&file->header->ring_count, count + 1, memory_order_release);
out:
    pthread_mutex_unlock(&file->lock);
out_unlocked:
    *out = address;
    return status;
}

enum tide_status
tidei_ringfile_add_chunk(struct tidei_ringfile *file, unsigned buffer)
{
    enum tide_status status = TIDE_ENOMEM;
    uint64_t offset;
    void *address;
    uint32_t count;

    count = atomic_load_explicit(&file->header->chunk_count, memory_order_relaxed);
    if (file->buffer_chunks[buffer] >= file->buffer_chunks_max || count >= TIDEI_MAX_CHUNKS)
        return tide_error_set(status, "log: %s: the backlog is as large as it may be", file->path);
    status = tidei_ringfile_check_sound(file, false);
    if (status != TIDE_OK)
        return status;
    pthread_mutex_lock(&file->lock);
    /* Without its first chunk a buffer cannot be filled at all, which ends the recording: so that one is asked for. */
    status = ringfile_add_segment(file, TIDEI_CHUNK_BYTES, file->buffer_chunks[buffer] == 0, &offset, &address);
    if (status == TIDE_OK) {
        file->directory->chunks[count] = offset | buffer;
        file->chunks[buffer][file->buffer_chunks[buffer]++] = address;
        /* Pairs with the acquire in tidei_ringfile_open. */
        atomic_store_explicit(&file->header->chunk_count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&file->lock);
    return status;
}

static struct tidei_ringfile *
ringfile_new(const char *path)
{
    struct tidei_ringfile *file = calloc(1, sizeof(*file));

    if (file == NULL)
        return NULL;
    file->fd = -1;
    file->fault.file = &file->fd;
    file->fault.id = &file->id;
    file->claim.fd = -1;
    pthread_mutex_init(&file->lock, NULL);
    file->path = strdup(path);
    if (file->path == NULL) {
        tidei_ringfile_close(file, false);
        return NULL;
    }
    return file;
}

/* Map the gauge page of a file that this process creates. */
static enum tide_status
ringfile_map_gauge(struct tidei_ringfile *file)
{
    file->gauge = ringfile_map(file, TIDEI_RING_PREFIX_BYTES, TIDEI_GAUGE_BYTES);
    return file->gauge != NULL ? TIDE_OK : ringfile_error(file->path, "mmap", errno);
}

/* Map header and directory. */
static enum tide_status
ringfile_map_prefix(struct tidei_ringfile *file)
{
    char *address = ringfile_map(file, 0, TIDEI_RING_PREFIX_BYTES);

    if (address == NULL)
        return ringfile_error(file->path, "mmap", errno);
    file->header = (struct tidei_ring_header *)address;
    file->directory = (struct tidei_ring_directory *)(address + TIDEI_PAGE);
    return TIDE_OK;
}

bool
tidei_ringfile_is_at(const struct tidei_ringfile *file)
{
    return tidei_file_id_is_at(&file->id, file->path);
}

/* Whether the file is a ring file, or an unfinished one, and may be removed. Any other file must stay. */
static bool
ringfile_may_go(int fd)
{
    char magic[sizeof(TIDEI_RING_MAGIC) - 1] = "";
    struct stat info;

    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && pread(fd, magic, sizeof(magic), 0) >= 0 &&
           (memcmp(magic, TIDEI_RING_MAGIC, sizeof(magic)) == 0 || memcmp(magic, "\0\0\0\0\0\0\0", sizeof(magic)) == 0);
}

/* Open the file, and once more for its lock. Returns 0, or the error number. */
static int
ringfile_open_both(struct tidei_ringfile *file, int flags, mode_t mode)
{
    int error;

    do {
        file->fd = tidei_open_high(file->path, flags, mode);
        if (file->fd < 0 || !tidei_file_id_read(&file->id, file->fd))
            return errno;
        error = tidei_claim_open(&file->claim, file->path, flags & ~(O_CREAT | O_EXCL), file->fd);
        if (error != 0 && error != ESTALE && (flags & O_EXCL) != 0)
            unlink(file->path);
        if (error != 0) {
            close(file->fd);
            file->fd = -1;
        }
    } while (error == ESTALE); /* it was replaced in between */
    return error;
}

static void
ringfile_close_both(struct tidei_ringfile *file)
{
    tidei_claim_close(&file->claim);
    tidei_file_id_close(&file->id, file->fd);
    file->fd = -1;
}

/* Create and lock a new file. A dead process's file is renamed to `replaced`, or removed if that is NULL. */
static enum tide_status
ringfile_claim(struct tidei_ringfile *file, const char *replaced, mode_t mode)
{
    uint32_t pid = 0;
    int error;

    for (int tries = 0; tries < 100; tries++) {
        bool created = true;

        error = ringfile_open_both(file, O_RDWR | O_CREAT | O_EXCL, mode);
        if (error == EEXIST) {
            created = false;
            error = ringfile_open_both(file, O_RDWR | O_NONBLOCK, 0);
        }
        if (error == ENOENT)
            continue;
        if (error != 0)
            return ringfile_error(file->path, "open", error);
        if (!created && !ringfile_may_go(file->fd))
            return tide_error_set(TIDE_EEXIST, "log: %s exists and is no ring file: it stays", file->path);
        error = ringfile_lock(file, 0, &pid);
        if (error != 0 && error != EAGAIN && created)
            unlink(file->path);
        if (error != 0)
            return ringfile_lock_error(file->path, error, pid, "records there");
        if (tidei_ringfile_is_at(file)) {
            if (created)
                return TIDE_OK;
            if ((replaced != NULL ? rename(file->path, replaced) : unlink(file->path)) != 0)
                return ringfile_error(file->path, replaced != NULL ? "rename" : "unlink", errno);
        }
        ringfile_close_both(file);
    }
    return tide_error_set(TIDE_EBUSY, "log: %s: other processes keep creating it", file->path);
}

/* Restore the replaced file, unless another process has created a new one. */
static void
ringfile_put_back(const char *replaced, const char *path)
{
    if (replaced != NULL && link(replaced, path) == 0)
        unlink(replaced);
}

enum tide_status
tidei_ringfile_create(const char *path, const char *replaced, mode_t mode, uint64_t ring_bytes, uint64_t backlog_bytes,
                      struct tidei_ringfile **out)
{
    struct tidei_ringfile *file = ringfile_new(path);
    enum tide_status status;
    bool claimed;
    int error;

    *out = NULL;
    if (file == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    status = ringfile_claim(file, replaced, mode);
    claimed = status == TIDE_OK;
    if (claimed) {
        file->fault.found = ringfile_faulted;
        tidei_ringfile_write_in_place(file->fd);
        error = ringfile_allocate(file->fd, 0, TIDEI_RING_PREFIX_BYTES + TIDEI_GAUGE_BYTES);
        status = error == 0 ? ringfile_map_prefix(file) : ringfile_error(path, "no space", error);
        if (status == TIDE_OK)
            status = ringfile_map_gauge(file);
    }
    if (status != TIDE_OK) {
        tidei_ringfile_close(file, claimed);
        ringfile_put_back(replaced, path);
        return status;
    }
    file->size = TIDEI_RING_PREFIX_BYTES + TIDEI_GAUGE_BYTES;
    file->header->gauge_bytes = TIDEI_GAUGE_BYTES;
    file->buffer_chunks_max = (uint32_t)(backlog_bytes / 2 / TIDEI_CHUNK_BYTES);
    if (file->buffer_chunks_max == 0)
        file->buffer_chunks_max = 1;
    memcpy(file->header->magic, TIDEI_RING_MAGIC, sizeof(file->header->magic));
    file->header->format = TIDEI_RING_FORMAT;
    file->header->pid = (uint32_t)getpid();
    file->header->ring_bytes = file->ring_bytes = ring_bytes;
    tidei_owner_set(&file->header->owner, file->fd);
    file->header->owner.posix = file->posix;
    file->records = true;
    *out = file;
    return TIDE_OK;
}

static enum tide_status
ringfile_damaged(const struct tidei_ringfile *file, const char *what)
{
    return tide_error_set(TIDE_EFORMAT, "%s: %s", file->path, what);
}

static enum tide_status
ringfile_check_header(const struct tidei_ringfile *file)
{
    const struct tidei_ring_header *header = file->header;

    if (memcmp(header->magic, TIDEI_RING_MAGIC, sizeof(header->magic)) != 0)
        return ringfile_damaged(file, "no ring file of a trace");
    if (header->format < 1 || header->format > TIDEI_RING_FORMAT)
        return tide_error_set(TIDE_EFORMAT, "%s: ring file of format %u, this version reads format %d", file->path,
                              header->format, TIDEI_RING_FORMAT);
    if (!tidei_is_power_of_two(header->ring_bytes) || header->ring_bytes < TIDEI_PAGE ||
        header->ring_bytes > (uint64_t)1 << 30)
        return ringfile_damaged(file, "damaged ring file: the size of its rings is impossible");
    if (header->gauge_bytes != 0 && header->gauge_bytes != TIDEI_GAUGE_BYTES)
        return ringfile_damaged(file, "damaged ring file: the size of its gauge page is impossible");
    if (header->ring_count > TIDEI_MAX_RINGS || header->chunk_count > TIDEI_MAX_CHUNKS)
        return ringfile_damaged(file, "damaged ring file: the number of its segments is impossible");
    if (header->ready > 1 || (header->ready == 0 && header->ring_count != 0))
        return ringfile_damaged(file, "damaged ring file: it is and is not ready");
    return TIDE_OK;
}

/* Map one segment that the directory names, if it lies in the file. */
static enum tide_status
ringfile_map_segment(struct tidei_ringfile *file, uint64_t offset, uint64_t bytes, void *out)
{
    void *address;

    if (offset % TIDEI_PAGE != 0 || offset < tidei_ring_segments(file->header) || offset > file->size ||
        bytes > file->size - offset)
        return ringfile_damaged(file, "damaged ring file: a segment lies outside of it, or it was cut off");
    address = ringfile_map(file, offset, bytes);
    if (address == NULL)
        return ringfile_error(file->path, "mmap", errno);
    memcpy(out, &address, sizeof(address));
    return TIDE_OK;
}

static enum tide_status
ringfile_map_segments(struct tidei_ringfile *file)
{
    uint32_t rings = atomic_load_explicit(&file->header->ring_count, memory_order_acquire);
    uint32_t chunks = atomic_load_explicit(&file->header->chunk_count, memory_order_acquire);
    enum tide_status status = TIDE_OK;

    for (uint32_t i = 0; status == TIDE_OK && i < rings; i++)
        status = ringfile_map_segment(file, file->directory->rings[i], TIDEI_PAGE + file->ring_bytes, &file->rings[i]);
    for (uint32_t i = 0; status == TIDE_OK && i < chunks; i++) {
        unsigned buffer = file->directory->chunks[i] & 1;

        status = ringfile_map_segment(file, file->directory->chunks[i] & ~(uint64_t)1, TIDEI_CHUNK_BYTES,
                                      &file->chunks[buffer][file->buffer_chunks[buffer]]);
        file->buffer_chunks[buffer] += status == TIDE_OK;
    }
    file->buffer_chunks_max = TIDEI_MAX_CHUNKS / 2;
    /* Not the file's end: a kill may have left a segment there that the directory does not name. It is reused. */
    file->size =
        tidei_ring_segments(file->header) + rings * (TIDEI_PAGE + file->ring_bytes) + chunks * TIDEI_CHUNK_BYTES;
    return status;
}

/* Allocate what recovery writes of one segment. */
static enum tide_status
ringfile_make_room_at(const struct tidei_ringfile *file, uint64_t offset, uint64_t bytes)
{
    int error = ringfile_allocate(file->fd, offset, bytes);

    return error == 0 ? TIDE_OK : ringfile_error(file->path, "no space", error);
}

enum tide_status
tidei_ringfile_make_room(const struct tidei_ringfile *file)
{
    uint32_t rings = atomic_load_explicit(&file->header->ring_count, memory_order_relaxed);
    uint32_t chunks = atomic_load_explicit(&file->header->chunk_count, memory_order_relaxed);
    enum tide_status status = ringfile_make_room_at(file, 0, TIDEI_RING_PREFIX_BYTES);
    uint64_t left = tidei_ringfile_left(file), needed[2], seen[2] = { 0, 0 };

    for (unsigned buffer = 0; buffer < 2; buffer++)
        needed[buffer] = (tidei_ringfile_count(file, buffer) + left) / TIDEI_CHUNK_RECORDS + 1;
    for (uint32_t i = 0; status == TIDE_OK && i < rings; i++)
        status = ringfile_make_room_at(file, file->directory->rings[i], TIDEI_PAGE);
    for (uint32_t i = 0; status == TIDE_OK && i < chunks; i++) {
        if (seen[file->directory->chunks[i] & 1]++ < needed[file->directory->chunks[i] & 1])
            status = ringfile_make_room_at(file, file->directory->chunks[i] & ~(uint64_t)1, TIDEI_CHUNK_BYTES);
    }
    return status;
}

/* Whether the process was killed before it wrote the header: then there are no segments, and no records. */
static bool
ringfile_is_unborn(const struct tidei_ringfile *file)
{
    char magic[8] = "";

    return file->size <= TIDEI_RING_PREFIX_BYTES + TIDEI_GAUGE_BYTES && pread(file->fd, magic, sizeof(magic), 0) >= 0 &&
           memcmp(magic, "\0\0\0\0\0\0\0", sizeof(magic)) == 0;
}

/* Lock a file that was left behind, or tell which process has locked it, and whether that recovers it. */
static enum tide_status
ringfile_lock_left(struct tidei_ringfile *file, struct tidei_ring_holder *holder)
{
    int error = ringfile_lock(file, RINGFILE_RECOVERY, &holder->pid);

    holder->recovers = error == EAGAIN;
    if (error == 0)
        error = ringfile_lock(file, 0, &holder->pid);
    if (error == 0)
        return TIDE_OK;
    return ringfile_lock_error(file->path, error, holder->pid, holder->recovers ? "is recovering it" : "records there");
}

/* Whether no process has the file, which cannot be opened for writing and so not be locked. */
static enum tide_status
ringfile_check_unlocked(const struct tidei_ringfile *file, struct tidei_ring_holder *holder)
{
    pid_t pid = tidei_claim_holder(&file->claim, F_WRLCK, 0, 0);
    bool posix;

    if (pid == 0)
        return TIDE_OK;
    if (pid > 0)
        holder->pid = (uint32_t)pid;
    else
        ringfile_owner(file, &holder->pid, &posix);
    return ringfile_lock_error(file->path, EAGAIN, holder->pid, "has it open");
}

enum tide_status
tidei_ringfile_hold(const char *path, struct tidei_ringfile **out, struct tidei_ring_holder *holder)
{
    struct tidei_ringfile *file = ringfile_new(path);
    enum tide_status status;
    bool readable = false;
    int error;

    *out = NULL;
    *holder = (struct tidei_ring_holder){ 0 };
    if (file == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    error = ringfile_open_both(file, O_RDWR | O_NONBLOCK, 0);
    if (error == EACCES || error == EROFS || error == EPERM) {
        error = ringfile_open_both(file, O_RDONLY | O_NONBLOCK, 0);
        readable = true;
    }
    if (error != 0)
        status = error == ENOENT ? TIDE_OK : ringfile_error(path, "open", error);
    else
        status = readable ? ringfile_check_unlocked(file, holder) : ringfile_lock_left(file, holder);
    if (status == TIDE_OK && error == 0)
        *out = file;
    else
        tidei_ringfile_close(file, false);
    return status;
}

static enum tide_status
ringfile_open_locked(struct tidei_ringfile *file)
{
    enum tide_status status;
    struct stat info;

    if (fstat(file->fd, &info) != 0)
        return ringfile_error(file->path, "fstat", errno);
    file->size = (uint64_t)info.st_size;
    if (ringfile_is_unborn(file))
        return TIDE_OK;
    if (file->size < TIDEI_RING_PREFIX_BYTES)
        return ringfile_damaged(file, "damaged ring file: it is cut off");
    status = ringfile_map_prefix(file);
    if (status == TIDE_OK)
        status = ringfile_check_header(file);
    file->ring_bytes = status == TIDE_OK ? file->header->ring_bytes : 0;
    file->trace_id = status == TIDE_OK ? file->header->trace_id : 0;
    return status == TIDE_OK ? ringfile_map_segments(file) : status;
}

enum tide_status
tidei_ringfile_open(const char *path, struct tidei_ringfile **out, struct tidei_ring_holder *holder)
{
    struct tidei_ringfile *file = ringfile_new(path);
    enum tide_status status;
    struct stat info;
    int error;

    *out = NULL;
    *holder = (struct tidei_ring_holder){ 0 };
    if (file == NULL)
        return tide_error_set(TIDE_ENOMEM, "log: no host memory");
    /* Not blocking: what has the name may be a pipe. */
    file->left = true;
    error = ringfile_open_both(file, O_RDWR | O_NONBLOCK, 0);
    if (error == 0 && fstat(file->fd, &info) != 0)
        error = errno;
    if (error != 0)
        status = ringfile_error(path, "open", error);
    else if (!S_ISREG(info.st_mode))
        status = ringfile_damaged(file, "no regular file");
    else
        status = ringfile_lock_left(file, holder);
    if (status == TIDE_OK)
        status = ringfile_open_locked(file);
    if (status != TIDE_OK) {
        tidei_ringfile_close(file, false);
        return status;
    }
    *out = file;
    return TIDE_OK;
}

void
tidei_ringfile_note_failure(struct tidei_ringfile *file, const char *why)
{
    size_t bytes = tidei_utf8_length(why, TIDEI_RING_FAILURE_BYTES - 1);

    memcpy(file->header->failure, why, bytes);
    /* Release: a kill in between leaves no text, and never a part of one. */
    atomic_store_explicit(&file->header->failure_bytes, (uint32_t)bytes, memory_order_release);
}

bool
tidei_ringfile_is_blank(const struct tidei_ringfile *file)
{
    if (file->header == NULL || file->header->ready == 0)
        return true;
    for (size_t i = 0; i < TIDEI_MAX_RINGS && file->rings[i] != NULL; i++) {
        if (atomic_load_explicit(&file->rings[i]->head, memory_order_relaxed) != 0)
            return false;
    }
    return true;
}

void
tidei_ringfile_unlink(struct tidei_ringfile *file)
{
    if (file->fd >= 0 && tidei_ringfile_is_at(file))
        unlink(file->path);
}

void
tidei_ringfile_close(struct tidei_ringfile *file, bool unlink_it)
{
    uint64_t ring_bytes = TIDEI_PAGE + file->ring_bytes;

    if (unlink_it)
        tidei_ringfile_unlink(file);
    /* Whoever finds the file from here on need not wait for this process to end. */
    if (file->records && file->fd >= 0 && file->header != NULL)
        memset(&file->header->owner, 0, sizeof(file->header->owner));
    tidei_fault_remove(&file->fault, NULL);
    for (size_t i = 0; i < TIDEI_MAX_RINGS && file->rings[i] != NULL; i++)
        munmap(file->rings[i], ring_bytes);
    for (unsigned buffer = 0; buffer < 2; buffer++) {
        for (uint32_t i = 0; i < file->buffer_chunks[buffer]; i++)
            munmap(file->chunks[buffer][i], TIDEI_CHUNK_BYTES);
    }
    if (file->gauge != NULL)
        munmap(file->gauge, TIDEI_GAUGE_BYTES);
    if (file->header != NULL)
        munmap(file->header, TIDEI_RING_PREFIX_BYTES);
    ringfile_close_both(file);
    pthread_mutex_destroy(&file->lock);
    free(file->path);
    free(file);
}
