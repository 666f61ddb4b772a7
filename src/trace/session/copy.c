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
#include "src/sync/inside.h"
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

/* Copy what was read at `at`. */
static bool
copy_write(const struct copy *copy, int target, off_t at, ssize_t count)
{
    for (ssize_t done = 0, put; done < count; done += put) {
        put = pwrite(target, copy->buffer + done, (size_t)(count - done), at + done);
        if (put <= 0)
            return false;
    }
    return true;
}

/* Copy the bytes of the open file `source`, without its holes: a sparse file may say that it has any size. */
static enum tide_status
copy_bytes(struct copy *copy, int source, const char *from, int target, const char *into)
{
    struct stat info;
    off_t at = 0, data;
    ssize_t got;

    if (ftruncate(target, 0) != 0)
        return copy_failed(into);
    for (;;) {
        data = lseek(source, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break; /* no data from here on */
        at = data > at ? data : at;
        got = pread(source, copy->buffer, sizeof(copy->buffer), at);
        if (got < 0)
            return copy_failed(from);
        if (got == 0)
            break;
        if (!copy_write(copy, target, at, got))
            return copy_failed(into);
        at += got;
    }
    if (fstat(source, &info) != 0)
        return copy_failed(from);
    return info.st_size <= at || ftruncate(target, info.st_size) == 0 ? TIDE_OK : copy_failed(into);
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
    /* The files beside the copy are new: another user's would hand out what is written into it. */
    if (suffix[0] != '\0')
        unlink(into);
    target = open(into, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (suffix[0] != '\0' ? O_EXCL : 0), mode);
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
        status = copy_file(copy, "", -1, 0600);
        if (status == TIDE_OK)
            status = copy_file(copy, "-wal", -1, 0600);
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
    status = tidei_trace_check_beside(copy->from);
    if (status != TIDE_OK)
        return status;
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
    TIDEI_INSIDE(NULL);
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
