/* Locks files so that no other code of the process can end the lock. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

#include "src/sync/fork.h"
#include "src/sync/testpoint.h"
#include "src/trace/ring/claim.h"

/* The claims of this process. */
static struct {
    pthread_mutex_t lock;
    struct tidei_claim *first;
} claims = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void
claims_hold(void)
{
    pthread_mutex_lock(&claims.lock);
}

static void
claims_release(void)
{
    pthread_mutex_unlock(&claims.lock);
}

/* What the parent has locked is the parent's: a child that kept a descriptor would keep the lock after its death. */
static void
claims_in_child(void)
{
    for (struct tidei_claim *claim = claims.first; claim != NULL; claim = claim->next) {
        tidei_file_id_close(&claim->id, claim->fd);
        claim->fd = -1;
    }
    claims.first = NULL;
    claims_release();
}

void
tidei_claim_handle_forks(void)
{
    static const struct tidei_fork_hook hook = { claims_hold, claims_release, claims_in_child };

    tidei_fork_hook_set(TIDEI_FORK_CLAIMS, &hook);
}

int
tidei_open_high(const char *path, int flags, mode_t mode)
{
    int fd = open(path, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    int high, error;

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    error = errno;
    close(fd);
    errno = error;
    return high;
}

int
tidei_claim_open(struct tidei_claim *claim, const char *path, int flags, int same)
{
    int error = 0;

    claims_hold();
    claim->fd = tidei_open_high(path, flags | O_NONBLOCK, 0);
    if (claim->fd < 0 || !tidei_file_id_read(&claim->id, claim->fd))
        error = errno;
    else if (same >= 0 && !tidei_file_id_is(&claim->id, same))
        error = ESTALE;
    if (error == 0) {
        claim->next = claims.first;
        claims.first = claim;
    } else if (claim->fd >= 0) {
        close(claim->fd);
        claim->fd = -1;
    }
    claims_release();
    return error;
}

/* Where the list has the claim; NULL there: it has not. The lock is held. */
static struct tidei_claim **
claims_find(const struct tidei_claim *claim)
{
    struct tidei_claim **link = &claims.first;

    while (*link != NULL && *link != claim)
        link = &(*link)->next;
    return link;
}

void
tidei_claim_move(struct tidei_claim *from, struct tidei_claim *to)
{
    struct tidei_claim **link;

    claims_hold();
    link = claims_find(from);
    *to = *from;
    from->fd = -1;
    if (*link != NULL)
        *link = to;
    claims_release();
}

void
tidei_claim_close(struct tidei_claim *claim)
{
    struct tidei_claim **link;

    claims_hold();
    link = claims_find(claim);
    if (*link != NULL)
        *link = claim->next;
    tidei_file_id_close(&claim->id, claim->fd);
    claim->fd = -1;
    claims_release();
}

bool
tidei_claim_is_open(const struct tidei_claim *claim)
{
    return tidei_file_id_is(&claim->id, claim->fd);
}

static int
claim_fcntl(const struct tidei_claim *claim, int command, int type, off_t first, off_t length, pid_t *pid)
{
    struct flock lock = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = first, .l_len = length };
    int error = EBADF;

    if (tidei_claim_is_open(claim))
        error = fcntl(claim->fd, command, &lock) == 0 ? 0 : errno;
    if (pid != NULL)
        *pid = lock.l_type == F_UNLCK ? 0 : lock.l_pid != 0 ? lock.l_pid : -1;
    return error == EACCES ? EAGAIN : error;
}

/* Whether the kernel, or the file system, has no locks of open file descriptions. */
static bool
claim_is_unsupported(int error)
{
    return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

int
tidei_claim_lock(const struct tidei_claim *claim, int type, off_t first, off_t length, bool *posix)
{
    int error = EINVAL;

    if (TIDEI_TEST_LIMIT(no_open_file_locks, 0) == 0)
        error = claim_fcntl(claim, F_OFD_SETLK, type, first, length, NULL);
    if (posix != NULL)
        *posix = claim_is_unsupported(error);
    return claim_is_unsupported(error) ? tidei_claim_lock_process(claim, type, first, length) : error;
}

int
tidei_claim_wait(const struct tidei_claim *claim, int type, off_t first, off_t length)
{
    int error;

    do
        error = claim_fcntl(claim, F_OFD_SETLKW, type, first, length, NULL);
    while (error == EINTR);
    return error;
}

pid_t
tidei_claim_holder(const struct tidei_claim *claim, int type, off_t first, off_t length)
{
    pid_t pid = 0;
    int error = claim_fcntl(claim, F_OFD_GETLK, type, first, length, &pid);

    if (claim_is_unsupported(error))
        error = claim_fcntl(claim, F_GETLK, type, first, length, &pid);
    return error == 0 ? pid : 0;
}

int
tidei_claim_lock_process(const struct tidei_claim *claim, int type, off_t first, off_t length)
{
    return claim_fcntl(claim, F_SETLK, type, first, length, NULL);
}
