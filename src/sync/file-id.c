/* Compares descriptors with the files for which they were opened. */
#include "config.h"

#include <errno.h>
#include <unistd.h>

#include "src/sync/file-id.h"

static bool
file_id_equals(const struct tidei_file_id *id, const struct stat *info)
{
    return info->st_dev == id->device && info->st_ino == id->inode;
}

bool
tidei_file_id_read(struct tidei_file_id *id, int fd)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return false;
    *id = (struct tidei_file_id){ info.st_dev, info.st_ino };
    return true;
}

bool
tidei_file_id_is(const struct tidei_file_id *id, int fd)
{
    struct stat info;
    int saved = errno;
    bool is = fd >= 0 && fstat(fd, &info) == 0 && file_id_equals(id, &info);

    errno = saved;
    return is;
}

bool
tidei_file_id_is_at(const struct tidei_file_id *id, const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0 && file_id_equals(id, &info);
}

void
tidei_file_id_close(const struct tidei_file_id *id, int fd)
{
    if (tidei_file_id_is(id, fd))
        close(fd);
}
