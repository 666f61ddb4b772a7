/* Keeps the files that this process reads or records into from being replaced by a trace that it makes. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/trace.h>

#include "src/resource/resource.h"
#include "src/sync/fork.h"
#include "src/sync/inside.h"
#include "src/sync/testpoint.h"
#include "src/tables/grow.h"
#include "src/trace/session/recorder.h"

/*
 * Open with O_PATH, so that no other file gets the inode number, and so that nobody's locks end where one is closed.
 * They stay until the process ends.
 */
static struct {
    pthread_mutex_t lock;
    int *files;
    size_t count, capacity;
} protect = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void
protect_hold(void)
{
    pthread_mutex_lock(&protect.lock);
}

static void
protect_release(void)
{
    pthread_mutex_unlock(&protect.lock);
}

void
tidei_protect_handle_forks(void)
{
    static const struct tidei_fork_hook hook = { protect_hold, protect_release, protect_release };

    tidei_fork_hook_set(TIDEI_FORK_PROTECT, &hook);
}

static bool
protect_has_locked(const struct stat *sought)
{
    struct stat info;

    for (size_t i = 0; i < protect.count; i++) {
        if (fstat(protect.files[i], &info) == 0 && info.st_dev == sought->st_dev && info.st_ino == sought->st_ino)
            return true;
    }
    return false;
}

bool
tidei_trace_is_protected(const char *path)
{
    struct stat info;
    bool found = false;

    if (lstat(path, &info) != 0)
        return false;
    protect_hold();
    found = protect_has_locked(&info);
    protect_release();
    return found;
}

struct tidei_recorder *
tidei_recorder_at_locked(const char *path)
{
    struct stat sought, info;

    if (lstat(path, &sought) != 0)
        return NULL;
    for (struct tidei_session *session = tidei_sessions.first; session != NULL; session = session->next) {
        struct tidei_recorder *recorder = tidei_recorder_of(session);

        if (tidei_recorder_is_open(session) && lstat(recorder->path, &info) == 0 && info.st_dev == sought.st_dev &&
            info.st_ino == sought.st_ino)
            return recorder;
    }
    return NULL;
}

/* Add the open file, or close it where the list has it already. */
static enum tide_status
protect_add(int file)
{
    enum tide_status status = TIDE_OK;
    bool added = false;
    struct stat info;

    protect_hold();
    TIDEI_TEST_POINT("protect.locked");
    if (fstat(file, &info) != 0)
        status = tide_error_set(TIDE_EIO, "trace: %s", strerror(errno));
    else if (!protect_has_locked(&info))
        added = tidei_grow(&protect.files, &protect.capacity, protect.count, 1);
    if (added)
        protect.files[protect.count++] = file;
    else if (status == TIDE_OK && !protect_has_locked(&info))
        status = tide_error_set(TIDE_ENOMEM, "trace: no host memory");
    protect_release();
    if (!added)
        close(file);
    return status;
}

enum tide_status
tide_trace_protect(const char *path)
{
    TIDEI_INSIDE(NULL);
    int file;

    if (path == NULL)
        return tide_error_set(TIDE_EINVAL, "trace: the path is NULL");
    tidei_protect_handle_forks();
    file = open(path, O_PATH | O_CLOEXEC);
    if (file < 0)
        return tide_error_set(TIDE_EIO, "trace: %s: %s", path, strerror(errno));
    return protect_add(file);
}
