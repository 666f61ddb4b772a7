/* Detects the kind of a file. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "viewer/base/file.h"

static const char file_sqlite_magic[FILE_SQLITE_BYTES] = "SQLite format 3";

ssize_t
file_head(const char *path, char *head, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    ssize_t count = -1;
    int error;

    if (file < 0)
        return -1;
    if (fstat(file, &status) == 0) {
        if (S_ISREG(status.st_mode))
            count = read(file, head, size);
        else
            errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    }
    error = errno;
    close(file);
    errno = error;
    return count;
}

bool
file_head_is_sqlite(const char *head, ssize_t count)
{
    return count >= FILE_SQLITE_BYTES && memcmp(head, file_sqlite_magic, FILE_SQLITE_BYTES) == 0;
}

bool
file_is_sqlite(const char *path)
{
    char head[FILE_SQLITE_BYTES];

    return file_head_is_sqlite(head, file_head(path, head, sizeof(head)));
}
