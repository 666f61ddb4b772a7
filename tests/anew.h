/* Runs a test's own program anew, as another process that shares nothing with it. */
#ifndef TESTS_ANEW_H
#define TESTS_ANEW_H

#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* With `word` and `path` as arguments. The exit status; -1: it was ended by a signal. */
static inline int
run_anew(const char *word, const char *path)
{
    char *arguments[] = { (char *)"anew", (char *)word, (char *)path, NULL };
    int status = -1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        execv("/proc/self/exe", arguments);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
