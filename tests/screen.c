/*
 * A helper program: screen COLUMNS COMMAND [ARGUMENT...] runs a command on a terminal of so many columns, and prints
 * what it prints there. Returns the command's exit status.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Run the command with the terminal as its output. Returns only on failure. */
static int
screen_run(int terminal, char **command)
{
    if (dup2(terminal, STDOUT_FILENO) >= 0)
        execvp(command[0], command);
    perror(command[0]);
    return 99;
}

/* Copy what the terminal shows, without the carriage returns that it adds. */
static void
screen_copy(int master)
{
    char buffer[4096];
    ssize_t count;

    /* EIO: the command has closed the terminal. */
    while ((count = read(master, buffer, sizeof(buffer))) > 0 || (count < 0 && errno == EINTR)) {
        for (ssize_t i = 0; i < count; i++) {
            if (buffer[i] != '\r')
                putchar(buffer[i]);
        }
    }
}

int
main(int argc, char **argv)
{
    struct winsize size = { .ws_row = 10000 };
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    int terminal;
    int status = 99;
    pid_t child;

    if (argc < 3 || master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        return 98;
    size.ws_col = (unsigned short)atoi(argv[1]);
    terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (terminal < 0 || ioctl(terminal, TIOCSWINSZ, &size) != 0)
        return 98;
    child = fork();
    if (child == 0)
        return screen_run(terminal, argv + 2);
    close(terminal);
    if (child < 0)
        return 98;
    screen_copy(master);
    if (waitpid(child, &status, 0) < 0 || fflush(stdout) != 0)
        return 98;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
