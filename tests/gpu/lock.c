/* Lets GPU tests that run at the same time take turns on the device. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "tests/gpu/lock.h"
#include "tests/tap.h"

#define LOCK_VARIABLE "TIDEMARK_GPU_LOCK"

/* Another user's file in a folder that all may write to is opened, but not with O_CREAT. */
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
    /* The file stays open for the life of the process, and with it the lock. */
    do
        result = file >= 0 ? flock(file, alone ? LOCK_EX : LOCK_SH) : -1;
    while (result != 0 && errno == EINTR);
    if (result != 0)
        diag("%s: %s: tests at the same time may disturb each other", path, strerror(errno));
    setenv(LOCK_VARIABLE, "", 1);
    return result == 0;
}
