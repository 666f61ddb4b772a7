/* Detects the kind of a file, and reads files of settings line by line. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
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

int
file_each_line(const char *path, int (*each)(void *context, char *line, size_t number), void *context)
{
    FILE *file = fopen(path, "re");
    size_t capacity = 0;
    char *line = NULL;
    int status = COMMAND_FINE;

    for (size_t number = 1; file != NULL && status == COMMAND_FINE && getline(&line, &capacity, file) >= 0; number++) {
        char *text = line + strspn(line, " \t");
        size_t length = strlen(text);

        while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL)
            text[--length] = '\0';
        if (length > 0 && text[0] != '#')
            status = each(context, text, number);
    }
    if (file == NULL || (status == COMMAND_FINE && ferror(file))) {
        message("%s: %s", path, strerror(errno));
        status = COMMAND_WRONG;
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return status;
}
