/* The file of a shared budget: its slots, its locks, and how it is opened. */
#include "adaptors/limit/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "src/resource/resource.h"

#define FILE_VERSION 1

/* Where the files are that words name. */
#define FILE_FOLDER "/dev/shm"
#define FILE_PREFIX "tidemark-budget-"

/* The bytes of the file that are locked: the first is the lock of all, the others those of the slots. */
#define FILE_LOCK      0
#define FILE_SLOT_BYTE 1

static const char file_magic[16] = "tidemark budget";

static int
file_lock_slot(const struct tidei_claim *claim, uint32_t slot, int type)
{
    return tidei_claim_lock(claim, type, FILE_SLOT_BYTE + (off_t)slot, 1, NULL);
}

/* Empty the slots of dead processes: those whose byte nobody has locked. Returns the number of the others but `own`. */
uint32_t
tidei_limit_sweep(struct tidei_limit_file *file, const struct tidei_claim *claim, uint32_t own)
{
    uint32_t others = 0;

    for (uint32_t i = 0; i < file->slots_end; i++) {
        struct tidei_limit_slot *slot = &file->slots[i];

        if (i == own || !tidei_limit_slot_is_used(slot))
            continue;
        if (file_lock_slot(claim, i, F_WRLCK) != 0) {
            others++;
            continue;
        }
        atomic_store(&slot->used, 0);
        file_lock_slot(claim, i, F_UNLCK);
    }
    return others;
}

bool
tidei_limit_is_last(struct tidei_limit_file *file, const struct tidei_claim *claim, uint32_t own)
{
    bool last = true;

    tidei_limit_sweep(file, claim, own);
    for (uint32_t i = 0; i < file->slots_end; i++) {
        const struct tidei_limit_slot *slot = &file->slots[i];

        if (i != own && tidei_limit_slot_is_used(slot))
            last = last && atomic_load(&slot->used) == TIDEI_LIMIT_LEAVING && tidei_limit_outstanding_most(slot) == 0;
    }
    return last;
}

/* A slot for this process, or TIDEI_LIMIT_SLOTS. */
static uint32_t
file_take_slot(struct tidei_limit_file *file, const struct tidei_claim *claim)
{
    uint32_t i = 0;

    while (i < TIDEI_LIMIT_SLOTS &&
           (tidei_limit_slot_is_used(&file->slots[i]) || file_lock_slot(claim, i, F_WRLCK) != 0))
        i++;
    if (i == TIDEI_LIMIT_SLOTS)
        return i;
    for (int j = 0; j < TIDEI_LIMIT_LANES; j++) {
        atomic_store(&file->slots[i].lanes[j].lease, 0);
        atomic_store(&file->slots[i].lanes[j].granted, 0);
    }
    file->slots[i].pid = (uint32_t)getpid();
    if (file->slots_end <= i)
        file->slots_end = i + 1;
    atomic_store(&file->slots[i].used, TIDEI_LIMIT_USED);
    return i;
}

/* Lock the file, which waits for other processes. 0, or the error number. */
static int
file_lock(const struct tidei_claim *claim)
{
    int error;

    for (;;) {
        error = tidei_claim_wait(claim, F_WRLCK, FILE_LOCK, 1);
        /* The kernel may be short of memory for locks for a while. Other errors stay. */
        if (error != ENOLCK && error != ENOMEM && error != EINTR && error != EDEADLK && error != EAGAIN)
            return error;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

bool
tidei_limit_try_lock(const struct tidei_claim *claim)
{
    return tidei_claim_lock(claim, F_WRLCK, FILE_LOCK, 1, NULL) == 0;
}

void
tidei_limit_unlock(const struct tidei_claim *claim)
{
    tidei_claim_lock(claim, F_UNLCK, FILE_LOCK, 1, NULL);
}

static enum tide_status
file_failure(enum tide_status status, const char *name, const char *what)
{
    return tide_error_set(status, "limit: shared budget '%s': %s", name, what);
}

enum tide_status
tidei_limit_lock(struct tidei_limit_file *file, const struct tidei_claim *claim, const char *name)
{
    int error = file_lock(claim);

    if (error != 0)
        return tide_error_set(TIDE_EIO, "limit: shared budget '%s': its file cannot be locked any more: %s%s", name,
                              strerror(error), error == EBADF ? "; has the program closed all descriptors?" : "");
    tidei_limit_repair(file);
    return TIDE_OK;
}

static bool
file_name_is(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");

    return length > 0 && length <= 200 && name[length] == '\0' && name[0] != '.';
}

/*
 * A word names a file in /dev/shm. A path begins with a slash: a child of fork() opens the file again, perhaps in
 * another working directory.
 */
enum tide_status
tidei_limit_path(const char *name, char **out)
{
    bool is_path = name[0] == '/';
    size_t room = sizeof(FILE_FOLDER "/" FILE_PREFIX) + strlen(name);

    *out = NULL;
    if (!is_path && !file_name_is(name))
        return file_failure(TIDE_EINVAL, name,
                            "expected up to 200 letters, digits, '_', '-' and '.', or a path that begins with '/'");
    *out = malloc(room);
    if (*out == NULL)
        return file_failure(TIDE_ENOMEM, name, "no host memory");
    strcpy(*out, is_path ? "" : FILE_FOLDER "/" FILE_PREFIX);
    strcat(*out, name);
    return TIDE_OK;
}

static enum tide_status
file_open_failure(const char *name, const char *path, int error)
{
    struct stat info;

    if ((error == EACCES || error == EPERM) && lstat(path, &info) == 0 && info.st_uid != geteuid())
        return tide_error_set(TIDE_EINVAL, "limit: shared budget '%s' belongs to another user, with the id %lu", name,
                              (unsigned long)info.st_uid);
    if (error == ELOOP)
        return file_failure(TIDE_EINVAL, name, "its file is a symbolic link");
    return file_failure(TIDE_EIO, name, strerror(error));
}

/* Whether the open file is one that only this user can change, and large enough. */
static enum tide_status
file_check_file(const char *name, int fd, off_t bytes)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return file_failure(TIDE_EIO, name, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return file_failure(TIDE_EINVAL, name, "it is no regular file");
    if (info.st_uid != geteuid())
        return tide_error_set(TIDE_EINVAL, "limit: shared budget '%s' belongs to another user, with the id %lu", name,
                              (unsigned long)info.st_uid);
    if ((info.st_mode & 077) != 0)
        return file_failure(TIDE_EINVAL, name, "other users may open its file");
    if (info.st_size != 0 && info.st_size != bytes)
        return file_failure(TIDE_EFORMAT, name, "its file is of another version of Tidemark, or something else");
    return TIDE_OK;
}

/* Map the file at `path`, which is created where there is none. */
static enum tide_status
file_map(const char *name, const char *path, int *fd, struct tidei_limit_file **out)
{
    off_t bytes = (off_t)sizeof(struct tidei_limit_file);
    enum tide_status status;
    int error;

    *out = NULL;
    *fd = tidei_open_high(path, O_RDWR | O_CREAT | O_NONBLOCK, 0600);
    if (*fd < 0)
        return file_open_failure(name, path, errno);
    status = file_check_file(name, *fd, bytes);
    if (status != TIDE_OK)
        return status;
    /* All of its blocks, so that no access faults where the file system is full. It stays all zeros. */
    error = posix_fallocate(*fd, 0, bytes);
    if (error != 0)
        return file_failure(TIDE_EIO, name, strerror(error));
    *out = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (*out != MAP_FAILED)
        return TIDE_OK;
    *out = NULL;
    return file_failure(TIDE_EIO, name, strerror(errno));
}

/* Whether the path still names the open file: its last process removes it. */
static bool
file_is_there(const char *path, int fd)
{
    struct stat here, there;

    return fstat(fd, &here) == 0 && lstat(path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

void
tidei_limit_remove(const char *path, const struct tidei_claim *claim)
{
    if (file_is_there(path, claim->fd))
        unlink(path);
}

/* Whether no process has a slot in the file, which is one of a budget: nobody has locked any of it. */
static bool
file_is_left(const struct tidei_claim *claim)
{
    struct stat info;
    char magic[sizeof(file_magic)];

    return fstat(claim->fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
           info.st_size == (off_t)sizeof(struct tidei_limit_file) &&
           pread(claim->fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
           memcmp(magic, file_magic, sizeof(magic)) == 0 &&
           tidei_claim_lock(claim, F_WRLCK, FILE_LOCK, FILE_SLOT_BYTE + TIDEI_LIMIT_SLOTS, NULL) == 0;
}

static void
file_clear(const char *name)
{
    struct tidei_claim claim = { .fd = -1 };
    char path[sizeof(FILE_FOLDER) + 256];
    int fd;

    snprintf(path, sizeof(path), FILE_FOLDER "/%s", name);
    fd = tidei_open_high(path, O_RDWR | O_NONBLOCK, 0);
    if (fd < 0)
        return;
    /* A process that opens it meanwhile waits for the lock, and then sees that the file is gone. */
    if (tidei_claim_open(&claim, path, O_RDWR, fd) == 0 && file_is_left(&claim))
        tidei_limit_remove(path, &claim);
    tidei_claim_close(&claim);
    close(fd);
}

void
tidei_limit_clear(const char *path)
{
    DIR *folder =
        strncmp(path, FILE_FOLDER "/" FILE_PREFIX, sizeof(FILE_FOLDER FILE_PREFIX)) == 0 ? opendir(FILE_FOLDER) : NULL;
    const struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, FILE_PREFIX, sizeof(FILE_PREFIX) - 1) == 0)
            file_clear(entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
}

/* Begin with an empty file, or check one that has begun. The lock of the file is held. */
static enum tide_status
file_check_header(struct tidei_limit_file *file, const char *name)
{
    if (memcmp(file->magic, file_magic, sizeof(file->magic)) != 0 && file->magic[0] != '\0')
        return file_failure(TIDE_EFORMAT, name, "its file is none of a shared budget");
    if (file->magic[0] == '\0') {
        file->version = FILE_VERSION;
        file->slot_count = TIDEI_LIMIT_SLOTS;
        file->lane_count = TIDEI_LIMIT_LANES;
        atomic_thread_fence(memory_order_seq_cst); /* the magic comes last */
        memcpy(file->magic, file_magic, sizeof(file->magic));
    }
    if (file->version != FILE_VERSION || file->slot_count != TIDEI_LIMIT_SLOTS || file->lane_count != TIDEI_LIMIT_LANES)
        return file_failure(TIDE_EFORMAT, name, "its file is of another version of Tidemark");
    if (file->slots_end > TIDEI_LIMIT_SLOTS || atomic_load(&file->taking) > TIDEI_LIMIT_SLOTS * TIDEI_LIMIT_LANES)
        return file_failure(TIDE_EFORMAT, name, "its file is damaged");
    return TIDE_OK;
}

/* Take a slot; the first process sets the bound. The lock of the file is held. */
static enum tide_status
file_enter(struct tidei_limit_file *file, const struct tidei_claim *claim, const char *name, uint64_t limit_bytes,
           uint32_t *slot)
{
    enum tide_status status = file_check_header(file, name);
    char made[32], wanted[32];

    if (status != TIDE_OK)
        return status;
    tidei_limit_repair(file);
    if (tidei_limit_sweep(file, claim, TIDEI_LIMIT_SLOTS) == 0)
        file->limit_bytes = limit_bytes;
    if (file->limit_bytes != limit_bytes) {
        tide_text_size(&(struct tide_text){ .data = made, .capacity = sizeof(made) }, file->limit_bytes);
        tide_text_size(&(struct tide_text){ .data = wanted, .capacity = sizeof(wanted) }, limit_bytes);
        return tide_error_set(TIDE_EINVAL,
                              "limit: shared budget '%s' was made with limit=%s, and is wanted with limit=%s here",
                              name, made, wanted);
    }
    *slot = file_take_slot(file, claim);
    if (*slot == TIDEI_LIMIT_SLOTS)
        return tide_error_set(TIDE_EBUSY, "limit: shared budget '%s' has no room for more than %u processes", name,
                              TIDEI_LIMIT_SLOTS);
    return TIDE_OK;
}

/* Open the locks on the mapped file, and enter. *again: its last process has removed it meanwhile. */
static enum tide_status
file_claim(struct tidei_limit_shared *shared, struct tidei_claim *claim, const char *name, int fd, bool *again)
{
    bool posix = false;
    int error = tidei_claim_open(claim, shared->path, O_RDWR, fd);
    enum tide_status status;

    *again = error == ESTALE || error == ENOENT;
    if (error != 0)
        return file_open_failure(name, shared->path, error);
    /* Locks of processes would end when any code of this one closes the file. */
    error = tidei_claim_lock(claim, F_UNLCK, FILE_LOCK, 1, &posix);
    if (error != 0 || posix)
        return file_failure(TIDE_EUNSUPPORTED, name, "its file system has no locks of open files");
    error = file_lock(claim);
    if (error != 0)
        return file_failure(TIDE_EIO, name, strerror(error));
    *again = !file_is_there(shared->path, fd);
    if (*again)
        return TIDE_EIO;
    status = file_enter(shared->file, claim, name, shared->limit_bytes, &shared->slot);
    tidei_limit_unlock(claim);
    return status;
}

/* Map the file and enter it; *claim is open on success, and closed else. */
enum tide_status
tidei_limit_open(struct tidei_limit_shared *shared, struct tidei_claim *claim, const char *name)
{
    enum tide_status status;
    bool again;

    do {
        int fd = -1;

        again = false;
        status = file_map(name, shared->path, &fd, &shared->file);
        if (status == TIDE_OK)
            status = file_claim(shared, claim, name, fd, &again);
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
