/* Lets GPU tests that run at the same time take turns on the device. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "tests/gpu/lock.h"
#include "tests/tap.h"

#define LOCK_VARIABLE "TIDEMARK_GPU_LOCK"

/* An existing file of another user, in a folder that everybody may write to, can be opened only without O_CREAT. */
static int
lock_open(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);

    return file >= 0 ? file : open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0666);
}

bool
gpu_lock(bool alone)
{
    const char *path = getenv(LOCK_VARIABLE), *folder = getenv("TMPDIR");
    char usual[4096];
    int file, result;

    if (path != NULL && path[0] == '\0')
        return true;
    if (path == NULL) {
        snprintf(usual, sizeof(usual), "%s/tidemark-gpu.lock", folder != NULL && folder[0] != '\0' ? folder : "/tmp");
        path = usual;
    }
    file = lock_open(path);
    /* The file stays open, and locked, for the life of the process. */
    do
        result = file >= 0 ? flock(file, alone ? LOCK_EX : LOCK_SH) : -1;
    while (result != 0 && errno == EINTR);
    if (result != 0)
        diag("%s: %s: tests at the same time may disturb each other", path, strerror(errno));
    setenv(LOCK_VARIABLE, "", 1);
    return result == 0;
}
