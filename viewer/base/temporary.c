/* Makes files that get their name when they are complete, and removes them if the program is interrupted. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "viewer/base/temporary.h"

/* What SQLite and the recorder make beside the file; the file itself is last. */
static const char *const temporary_endings[] = { "-wal", "-shm", "-journal", "-rings", "" };

#define TEMPORARY_ENDINGS (sizeof(temporary_endings) / sizeof(temporary_endings[0]))

/*
 * The names that a signal's handler removes, of one file at a time: no command makes two. Written with the signals
 * blocked.
 */
static char *temporary_names[TEMPORARY_ENDINGS];

static const int temporary_signals[] = { SIGINT, SIGTERM, SIGHUP };

#define TEMPORARY_SIGNALS (sizeof(temporary_signals) / sizeof(temporary_signals[0]))

static void
temporary_interrupted(int number)
{
    for (size_t i = 0; i < TEMPORARY_ENDINGS; i++) {
        if (temporary_names[i] != NULL)
            unlink(temporary_names[i]);
    }
    /* The handler was reset when it was called: the signal ends the program as it would have. */
    raise(number);
}

/* Have the names removed that begin with `path`, or none where it is NULL. Without memory the files would stay. */
static void
temporary_remember(const char *path)
{
    char *names[TEMPORARY_ENDINGS] = { NULL };
    sigset_t signals, before;

    sigemptyset(&signals);
    for (size_t i = 0; i < TEMPORARY_SIGNALS; i++)
        sigaddset(&signals, temporary_signals[i]);
    for (size_t i = 0; path != NULL && i < TEMPORARY_ENDINGS; i++) {
        if (asprintf(&names[i], "%s%s", path, temporary_endings[i]) < 0)
            names[i] = NULL;
    }
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    for (size_t i = 0; i < TEMPORARY_ENDINGS; i++) {
        free(temporary_names[i]);
        temporary_names[i] = names[i];
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Handle the signals that would end the program; one that it ignores, as under nohup, stays ignored. */
static void
temporary_handle_signals(void)
{
    struct sigaction action = { .sa_handler = temporary_interrupted, .sa_flags = (int)SA_RESETHAND | SA_NODEFER };
    struct sigaction present;

    for (size_t i = 0; i < TEMPORARY_SIGNALS; i++) {
        if (sigaction(temporary_signals[i], NULL, &present) == 0 && present.sa_handler == SIG_DFL)
            sigaction(temporary_signals[i], &action, NULL);
    }
}

static void
temporary_unlink_all(const char *path)
{
    for (size_t i = 0; i < TEMPORARY_ENDINGS; i++) {
        char *name;

        if (asprintf(&name, "%s%s", path, temporary_endings[i]) < 0)
            continue;
        unlink(name);
        free(name);
    }
}

/* Whether the open file still has the name. */
static bool
temporary_is_at(int file, const char *path)
{
    struct stat here, there;

    return fstat(file, &here) == 0 && lstat(path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

/* Remove a file that no running program has locked. One that has just been made is locked at once: see below. */
static void
temporary_remove_left(const char *path)
{
    int file = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat info;

    if (file < 0)
        return;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && flock(file, LOCK_EX | LOCK_NB) == 0 &&
        temporary_is_at(file, path))
        temporary_unlink_all(path);
    close(file);
}

/* Whether `name` is `prefix` and a process id. */
static bool
temporary_is_ours(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(name, prefix, length) == 0 && name[length] != '\0' &&
           strspn(name + length, "0123456789") == strlen(name + length);
}

/* Remove what killed programs have left: files of names that begin as `prefix`, a path, does. */
static void
temporary_clear(const char *prefix)
{
    const char *slash = strrchr(prefix, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(prefix, (size_t)(slash - prefix) + 1);
    DIR *directory = folder != NULL ? opendir(folder) : NULL;
    const struct dirent *entry;

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char *path;

        if (!temporary_is_ours(entry->d_name, slash != NULL ? slash + 1 : prefix) ||
            asprintf(&path, "%s/%s", folder, entry->d_name) < 0)
            continue;
        temporary_remove_left(path);
        free(path);
    }
    if (directory != NULL)
        closedir(directory);
    free(folder);
}

/*
 * Make and lock the file. Another program may find it between the two, take it for one that was left and remove it:
 * then it is made again. A file system without locks does without.
 */
static bool
temporary_make(struct temporary *temporary, mode_t mode)
{
    for (int tries = 0; tries < 100; tries++) {
        temporary->file = open(temporary->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (temporary->file < 0)
            return false;
        flock(temporary->file, LOCK_EX);
        if (temporary_is_at(temporary->file, temporary->path))
            return true;
        close(temporary->file);
    }
    errno = EAGAIN;
    return false;
}

bool
temporary_open(struct temporary *temporary, const char *target, const char *what, mode_t mode)
{
    char *prefix;
    int error;

    *temporary = (struct temporary){ .file = -1 };
    if (asprintf(&prefix, "%s.tidemark-%s-", target, what) < 0 ||
        asprintf(&temporary->path, "%s%ld", prefix, (long)getpid()) < 0) {
        temporary->path = NULL;
        errno = ENOMEM;
        return false;
    }
    temporary_clear(prefix);
    free(prefix);
    temporary_handle_signals();
    temporary_remember(temporary->path);
    if (temporary_make(temporary, mode))
        return true;
    error = errno;
    temporary_remember(NULL);
    free(temporary->path);
    temporary->path = NULL;
    errno = error;
    return false;
}

bool
temporary_publish(struct temporary *temporary, const char *target, bool replace)
{
    int failed = replace ? rename(temporary->path, target)
                         : renameat2(AT_FDCWD, temporary->path, AT_FDCWD, target, RENAME_NOREPLACE);

    /* A file system that cannot promise that no file is replaced. */
    if (failed != 0 && !replace && errno == EINVAL && access(target, F_OK) != 0)
        failed = rename(temporary->path, target);
    if (failed != 0)
        return false;
    temporary_remember(NULL);
    free(temporary->path);
    temporary->path = NULL;
    return true;
}

void
temporary_close(struct temporary *temporary)
{
    if (temporary->path != NULL) {
        temporary_unlink_all(temporary->path);
        temporary_remember(NULL);
    }
    free(temporary->path);
    temporary->path = NULL;
    if (temporary->file >= 0)
        close(temporary->file);
    temporary->file = -1;
}
