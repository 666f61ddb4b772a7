/* Expands the path of a trace, and moves and removes the files that are there. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/resource/resource.h"
#include "src/sync/thread.h"
#include "src/trace/database/files.h"
#include "src/trace/database/identity.h"
#include "src/trace/database/schema.h"
#include "src/trace/ring/ringfile.h"

/* What a letter after % stands for. */
static enum tide_status
path_letter(const char *pattern, char letter, char *text, size_t capacity)
{
    struct tidei_identity identity;

    switch (letter) {
    case 'p':
        snprintf(text, capacity, "%ld", (long)getpid());
        return TIDE_OK;
    case 'h':
        if (gethostname(text, capacity) != 0)
            snprintf(text, capacity, "localhost");
        text[capacity - 1] = '\0';
        return TIDE_OK;
    case 'r':
        tidei_identity_read(&identity);
        snprintf(text, capacity, "%lld", identity.rank < 0 ? 0 : (long long)identity.rank);
        return TIDE_OK;
    case '%':
        snprintf(text, capacity, "%%");
        return TIDE_OK;
    default:
        return tide_error_set(TIDE_EINVAL, "log: %s: %%%c is unknown, expected %%p, %%h, %%r or %%%%", pattern, letter);
    }
}

static enum tide_status
path_expand(const char *pattern, char *path, size_t capacity)
{
    enum tide_status status;
    size_t length = 0;

    for (const char *at = pattern; *at != '\0'; at++) {
        char text[HOST_NAME_MAX + 1] = { *at, '\0' };

        if (*at == '%' && at[1] == '\0')
            return tide_error_set(TIDE_EINVAL, "log: %s ends in %%, expected %%p, %%h, %%r or %%%%", pattern);
        if (*at == '%') {
            status = path_letter(pattern, *++at, text, sizeof(text));
            if (status != TIDE_OK)
                return status;
        }
        if (length + strlen(text) >= capacity)
            return tide_error_set(TIDE_EINVAL, "log: the path is longer than %zu bytes", capacity - 1);
        strcpy(path + length, text);
        length += strlen(text);
    }
    path[length] = '\0';
    return length == 0 ? tide_error_set(TIDE_EINVAL, "log: the path is empty") : TIDE_OK;
}

/* Make the folder of the path absolute. */
static enum tide_status
path_resolve(char *path, char **out)
{
    char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path, *real;
    char first = *name;

    if (first == '\0')
        return tide_error_set(TIDE_EINVAL, "log: %s is a directory", path);
    *name = '\0';
    real = realpath(slash != NULL ? path : "./", NULL);
    if (real == NULL)
        return tide_error_set(TIDE_EIO, "log: %s: %s", slash != NULL ? path : "./", strerror(errno));
    *name = first;
    if (asprintf(out, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name) < 0)
        *out = NULL;
    free(real);
    return *out != NULL ? TIDE_OK : tide_error_set(TIDE_ENOMEM, "log: no host memory");
}

struct path_call {
    const char *pattern;
    char **out;
    enum tide_status status;
    struct tidei_error error;
};

static void
path_called(void *argument)
{
    struct path_call *call = argument;
    char path[PATH_MAX];

    call->status = path_expand(call->pattern, path, sizeof(path) - 32);
    if (call->status == TIDE_OK)
        call->status = path_resolve(path, call->out);
    tidei_error_save(&call->error);
}

enum tide_status
tidei_trace_path(const char *pattern, char **out)
{
    struct path_call call = { .pattern = pattern, .out = out };

    *out = NULL;
    /* realpath() needs a few KiB of stack, which a thread that allocates may not have. */
    tidei_thread_call("tidemark-path", path_called, &call);
    if (call.status != TIDE_OK && tidei_thread_get() != NULL)
        tidei_error_restore(&call.error);
    return call.status;
}

bool
tidei_trace_path_is_own(const char *pattern)
{
    for (const char *at = strchr(pattern, '%'); at != NULL && at[1] != '\0'; at = strchr(at + 2, '%')) {
        if (at[1] == 'p')
            return true;
    }
    return false;
}

char *
tidei_trace_path_beside(const char *path, const char *suffix)
{
    char *beside;

    return asprintf(&beside, "%s%s", path, suffix) < 0 ? NULL : beside;
}

bool
tidei_trace_is_at(const char *path)
{
    static const unsigned char id[4] = { TIDEI_TRACE_APPLICATION_ID >> 24 & 255, TIDEI_TRACE_APPLICATION_ID >> 16 & 255,
                                         TIDEI_TRACE_APPLICATION_ID >> 8 & 255, TIDEI_TRACE_APPLICATION_ID & 255 };
    unsigned char header[100];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t length;

    if (fd < 0)
        return false;
    length = pread(fd, header, sizeof(header), 0);
    close(fd);
    if (length == 0)
        return true;
    return length == (ssize_t)sizeof(header) && memcmp(header, "SQLite format 3", 16) == 0 &&
           memcmp(header + 68, id, sizeof(id)) == 0;
}

/*
 * Whether the file beside a trace may be used: SQLite and this library write into it. In a folder where others may make
 * files, one of them could have put it there.
 */
static enum tide_status
files_check_beside(const char *beside, const char *path, uid_t owner)
{
    struct stat info;

    if (lstat(beside, &info) != 0)
        return errno == ENOENT ? TIDE_OK : tide_error_set(TIDE_EIO, "log: %s: %s", beside, strerror(errno));
    if (S_ISLNK(info.st_mode))
        return tide_error_set(TIDE_EIO, "log: %s is a symbolic link: it is not followed", beside);
    if (info.st_uid == owner || info.st_uid == geteuid() || info.st_uid == 0)
        return TIDE_OK;
    return tide_error_set(TIDE_EFORMAT, "log: %s belongs to user %lu, and %s to user %lu: it is not used", beside,
                          (unsigned long)info.st_uid, path, (unsigned long)owner);
}

enum tide_status
tidei_trace_check_beside(const char *path)
{
    static const char *const suffixes[] = { TIDEI_RINGS_SUFFIX, "-wal", "-shm", "-journal" };
    enum tide_status status = TIDE_OK;
    struct stat info;
    uid_t owner = stat(path, &info) == 0 ? info.st_uid : geteuid();

    for (size_t i = 0; status == TIDE_OK && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char *beside = tidei_trace_path_beside(path, suffixes[i]);

        status = beside != NULL ? files_check_beside(beside, path, owner)
                                : tide_error_set(TIDE_ENOMEM, "log: no host memory");
        free(beside);
    }
    return status;
}

/* The trace itself is last, so that after a kill in between it still has its name. */
static const char *const replaced_suffixes[] = { "-wal", "-shm", "-journal", "" };

#define REPLACED_SUFFIXES (sizeof(replaced_suffixes) / sizeof(replaced_suffixes[0]))

/* Move the file at `source` to `target`. If there is none, or `source` is NULL, remove the file at `target`. */
static int
replaced_rename(const char *source, const char *target)
{
    if (source != NULL && rename(source, target) == 0) {
        unlink(source); /* where both are names of one file, rename() has done nothing */
        return 0;
    }
    if (source != NULL && errno != ENOENT)
        return errno;
    return unlink(target) == 0 || errno == ENOENT ? 0 : errno;
}

/* The same for one file of the traces at `from` (NULL: none) and `to`. */
static enum tide_status
replaced_move(const char *from, const char *to, const char *suffix)
{
    char *source = from != NULL ? tidei_trace_path_beside(from, suffix) : NULL;
    char *target = tidei_trace_path_beside(to, suffix);
    enum tide_status status = TIDE_OK;
    int error = 0;

    if (target == NULL || (from != NULL && source == NULL))
        status = tide_error_set(TIDE_ENOMEM, "log: no host memory");
    else
        error = replaced_rename(source, target);
    if (error != 0)
        status = tide_error_set(TIDE_EIO, "log: %s: %s", target, strerror(error));
    free(source);
    free(target);
    return status;
}

enum tide_status
tidei_replaced_take(const char *path, const char *replaced)
{
    enum tide_status status = TIDE_OK;
    size_t taken = 0;

    while (status == TIDE_OK && taken < REPLACED_SUFFIXES) {
        /* A second name, so that at each moment there is a trace at `path`. */
        if (replaced_suffixes[taken][0] != '\0' || link(path, replaced) != 0)
            status = replaced_move(path, replaced, replaced_suffixes[taken]);
        taken += status == TIDE_OK;
    }
    while (status != TIDE_OK && taken > 0)
        replaced_move(replaced, path, replaced_suffixes[--taken]);
    return status;
}

/* renameat2() for file systems that cannot promise that no file is replaced. 0, or the error number. */
static int
put_new(const char *begun, const char *path)
{
    struct stat info;

    if (renameat2(AT_FDCWD, begun, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    if (link(begun, path) == 0)
        return unlink(begun) == 0 ? 0 : errno;
    if (errno == EEXIST || lstat(path, &info) == 0)
        return EEXIST;
    return rename(begun, path) == 0 ? 0 : errno;
}

enum tide_status
tidei_trace_put(const char *begun, const char *path, bool replace)
{
    int error = replace ? (rename(begun, path) == 0 ? 0 : errno) : put_new(begun, path);

    if (error == EEXIST)
        return tide_error_set(TIDE_EEXIST, "log: %s exists; overwrite=true replaces it", path);
    return error == 0 ? TIDE_OK : tide_error_set(TIDE_EIO, "log: %s: %s", path, strerror(error));
}

void
tidei_replaced_restore(const char *path, const char *replaced)
{
    for (size_t i = 0; i < REPLACED_SUFFIXES; i++)
        replaced_move(replaced, path, replaced_suffixes[i]);
}

void
tidei_replaced_restore_rings(const char *path, const char *replaced)
{
    replaced_move(replaced, path, TIDEI_RINGS_SUFFIX);
}

void
tidei_trace_drop_beside(const char *path)
{
    for (size_t i = 0; replaced_suffixes[i][0] != '\0'; i++)
        replaced_move(NULL, path, replaced_suffixes[i]);
}

void
tidei_replaced_drop(const char *path, bool rings)
{
    if (rings)
        replaced_move(NULL, path, TIDEI_RINGS_SUFFIX);
    for (size_t i = 0; i < REPLACED_SUFFIXES; i++)
        replaced_move(NULL, path, replaced_suffixes[i]);
}
