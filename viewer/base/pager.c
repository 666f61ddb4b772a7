/* Shows text that is longer than the screen through a pager. */
#include "config.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "viewer/base/pager.h"

static bool
pager_in_path(const char *name)
{
    const char *path = getenv("PATH");
    char file[4096];

    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");

        snprintf(file, sizeof(file), "%.*s/%s", (int)length, path, name);
        if (access(file, X_OK) == 0)
            return true;
        path += length + (path[length] == ':');
    }
    return false;
}

/* The command; NULL: none is wanted, or none is there. */
static const char *
pager_command(void)
{
    const char *command = getenv("TIDEMARK_PAGER");

    if (command == NULL)
        command = getenv("PAGER");
    if (command == NULL)
        command = pager_in_path("less") ? "less" : pager_in_path("more") ? "more" : "";
    return *command == '\0' || strcmp(command, "cat") == 0 ? NULL : command;
}

static bool
pager_fits(const char *text, size_t length)
{
    struct winsize screen;
    size_t lines = 0;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &screen) != 0 || screen.ws_row == 0)
        return true;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines < screen.ws_row;
}

void
pager_print(const char *text, size_t length)
{
    const char *command = isatty(STDOUT_FILENO) && !pager_fits(text, length) ? pager_command() : NULL;
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    struct sigaction before;
    FILE *pipe;

    fflush(stdout);
    if (command == NULL) {
        fwrite(text, 1, length, stdout);
        return;
    }
    /* As git does: colours pass, and the screen is not cleared. */
    setenv("LESS", "FRX", 0);
    /* A pager that is left before the end closes the pipe. */
    sigaction(SIGPIPE, &ignore, &before);
    pipe = popen(command, "w");
    if (pipe != NULL)
        fwrite(text, 1, length, pipe);
    if (pipe == NULL || pclose(pipe) >> 8 == 127)
        fwrite(text, 1, length, stdout);
    sigaction(SIGPIPE, &before, NULL);
}
