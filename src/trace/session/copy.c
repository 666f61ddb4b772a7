/* Copies the files of a trace that nobody records into any more, to recover them in another place. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/trace.h>

#include "src/resource/resource.h"
#include "src/trace/database/files.h"
#include "src/trace/ring/filelimit.h"
#include "src/trace/ring/session.h"
#include "src/trace/session/recorder.h"
#include "src/trace/session/writer.h"

/* How often the files are copied again because somebody has changed them meanwhile. */
#define COPY_TRIES 5

/* A trace, and where its files go. */
struct copy {
    const char *from; /* borrowed */
    const char *into; /* borrowed */
    char buffer[1 << 16];
};

static enum tide_status
copy_failed(const char *path)
{
    return tide_error_set(TIDE_EIO, "%s: %s", path, strerror(errno));
}

/* Copy the bytes of the open file `source`, which is read from its begin. */
static enum tide_status
copy_bytes(struct copy *copy, int source, const char *from, int target, const char *into)
{
    off_t at = 0;
    ssize_t got;

    if (ftruncate(target, 0) != 0)
        return copy_failed(into);
    while ((got = pread(source, copy->buffer, sizeof(copy->buffer), at)) > 0) {
        for (ssize_t done = 0, put; done < got; done += put) {
            put = pwrite(target, copy->buffer + done, (size_t)(got - done), at + done);
            if (put <= 0)
                return copy_failed(into);
        }
        at += got;
    }
    return got == 0 ? TIDE_OK : copy_failed(from);
}

/* Copy one file of the trace. `source`: its descriptor; -1: it is opened here. One that is missing is not copied. */
static enum tide_status
copy_file(struct copy *copy, const char *suffix, int source, mode_t mode)
{
    char *from = tidei_trace_path_beside(copy->from, suffix), *into = tidei_trace_path_beside(copy->into, suffix);
    enum tide_status status = TIDE_OK;
    int opened = -1, target = -1;

    if (from == NULL || into == NULL) {
        status = tide_error_set(TIDE_ENOMEM, "trace: no host memory");
        goto out;
    }
    if (source < 0) {
        source = opened = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (source < 0 && (errno != ENOENT || suffix[0] == '\0'))
            status = copy_failed(from);
        if (source < 0)
            goto out;
    }
    target = open(into, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mode);
    status = target < 0 ? copy_failed(into) : copy_bytes(copy, source, from, target, into);
out:
    if (target >= 0 && close(target) != 0 && status == TIDE_OK)
        status = copy_failed(into);
    if (opened >= 0)
        close(opened);
    free(from);
    free(into);
    return status;
}

/* The sizes and times of the trace and its write-ahead log, which change with whatever changes the files. */
static bool
copy_look(const struct copy *copy, struct stat info[2])
{
    char *log = tidei_trace_path_beside(copy->from, "-wal");

    memset(info, 0, 2 * sizeof(*info));
    if (log != NULL && stat(log, &info[1]) == 0)
        memset(&info[1].st_atim, 0, sizeof(info[1].st_atim));
    free(log);
    if (stat(copy->from, &info[0]) != 0)
        return false;
    memset(&info[0].st_atim, 0, sizeof(info[0].st_atim));
    return true;
}

/* A reader that closes the trace may fold the write-ahead log in: then both are copied again. */
static enum tide_status
copy_database(struct copy *copy)
{
    struct stat before[2], after[2];

    for (int tries = 0; tries < COPY_TRIES; tries++) {
        enum tide_status status;

        if (!copy_look(copy, before))
            return copy_failed(copy->from);
        tidei_trace_drop_beside(copy->into);
        status = copy_file(copy, "", -1, 0666);
        if (status == TIDE_OK)
            status = copy_file(copy, "-wal", -1, 0666);
        if (status != TIDE_OK)
            return status;
        if (copy_look(copy, after) && memcmp(before, after, sizeof(before)) == 0)
            return TIDE_OK;
    }
    return tide_error_set(TIDE_EBUSY, "%s: other programs keep changing it", copy->from);
}

/* Copy all files. The ring file is held, so that nobody recovers it meanwhile. */
static enum tide_status
copy_files(struct copy *copy, const char *rings)
{
    struct tidei_ring_holder holder;
    enum tide_status status;
    struct tidei_ringfile *held;

    if (tidei_session_owns(rings))
        return tide_error_set(TIDE_EBUSY, "%s: this process records there", copy->from);
    status = tidei_ringfile_hold(rings, &held, &holder);
    if (status != TIDE_OK)
        return status;
    status = copy_database(copy);
    if (status == TIDE_OK && held != NULL)
        status = copy_file(copy, TIDEI_RINGS_SUFFIX, held->fd, 0600);
    if (held != NULL)
        tidei_ringfile_close(held, false);
    return status;
}

enum tide_status
tide_trace_copy(const char *path, const char *into)
{
    struct copy *copy;
    enum tide_status status;
    char *real, *rings;
    sigset_t before;

    if (path == NULL || into == NULL)
        return tide_error_set(TIDE_EINVAL, "trace: the path is NULL");
    real = realpath(path, NULL);
    if (real == NULL)
        return copy_failed(path);
    rings = tidei_trace_path_beside(real, TIDEI_RINGS_SUFFIX);
    copy = malloc(sizeof(*copy));
    if (rings != NULL && copy != NULL) {
        copy->from = real;
        copy->into = into;
        tidei_filelimit_hold(&before);
        pthread_mutex_lock(&tidei_files_lock);
        status = copy_files(copy, rings);
        pthread_mutex_unlock(&tidei_files_lock);
        tidei_filelimit_release(&before);
    } else {
        status = tide_error_set(TIDE_ENOMEM, "trace: no host memory");
    }
    free(copy);
    free(rings);
    free(real);
    return status;
}
