/* The parent of a program: passes signals on, keeps its exit status, prints summaries. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/run/names.h"
#include "viewer/base/message.h"
#include "viewer/commands/commands.h"
#include "viewer/commands/run-wait.h"

static void
wait_summary(const char *path)
{
    char *arguments[] = { "tidemark summary", "--no-pager", (char *)path, NULL };

    message("tidemark run: recorded in %s", path);
    optind = 0;
    command_invoke(&command_summary, 3, arguments);
    fflush(stdout);
}

/*
 * The processes write the names of their traces, each with its NUL byte, into a file that this process has open and
 * that no folder has: nothing is left behind, whatever happens. -1, and errno is set: there is none.
 */
static int
wait_list_open(void)
{
    char path[64];
    int fd = memfd_create(TIDEI_RUN_TRACES, MFD_CLOEXEC);

    if (fd < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(), fd);
    if (setenv("TIDEMARK_RUN_LIST", path, 1) == 0)
        return fd;
    close(fd);
    return -1;
}

/* All that was written; NULL: nothing, or it cannot be read. The caller frees it. */
static char *
wait_list_read(int fd, size_t *bytes)
{
    off_t end = lseek(fd, 0, SEEK_END);
    char *names = end > 0 ? calloc((size_t)end + 1, 1) : NULL;
    ssize_t count = names != NULL ? pread(fd, names, (size_t)end, 0) : 0;

    *bytes = count > 0 ? (size_t)count : 0;
    if (*bytes != 0)
        return names;
    free(names);
    return NULL;
}

/* Where this command runs under another one that waits, that one wants to know the traces, too. */
static void
wait_list_pass_on(const char *list, const char *names, size_t bytes)
{
    int fd = list != NULL && tidei_run_is_list(list) ? open(list, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY) : -1;

    if (fd < 0)
        return;
    if (write(fd, names, bytes) < 0)
        message("tidemark run: %s: %s", list, strerror(errno));
    close(fd);
}

/* Standard output is the program's. What is printed here goes where messages go. */
static void
wait_summaries(int list, const char *outer)
{
    size_t bytes;
    char *names = wait_list_read(list, &bytes);

    if (names == NULL) {
        const char *trace = getenv("TIDEMARK_RUN_TRACE");

        message("tidemark run: no process has told of a trace (%s): none has allocated device memory, or where it runs "
                "this one is not seen",
                trace != NULL ? trace : "tidemark-%p.db");
        return;
    }
    wait_list_pass_on(outer, names, bytes);
    if (dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) {
        for (const char *name = names; name < names + bytes; name += strlen(name) + 1)
            wait_summary(name);
    }
    free(names);
}

/* The terminal sends these to all processes of its foreground, the program included. */
static bool
wait_is_of_terminal(const siginfo_t *info)
{
    return info->si_code == SI_KERNEL && (info->si_signo == SIGINT || info->si_signo == SIGQUIT ||
                                          info->si_signo == SIGTSTP || info->si_signo == SIGHUP);
}

/* Pass signals on until the child has ended. Returns its status, as of waitpid(). All signals are blocked. */
static int
wait_for(pid_t child, const sigset_t *all)
{
    for (;;) {
        siginfo_t info;
        int status;
        int signal = sigwaitinfo(all, &info);
        pid_t ended;

        if (signal > 0 && signal != SIGCHLD && signal != SIGCONT) {
            if (!wait_is_of_terminal(&info))
                kill(child, signal);
            continue;
        }
        while ((ended = waitpid(child, &status, WNOHANG | WUNTRACED)) == child) {
            if (!WIFSTOPPED(status))
                return status;
            /* As the program is stopped, so is this one, for the shell. */
            raise(SIGSTOP);
            kill(child, SIGCONT);
        }
        if (ended < 0 && errno != EINTR)
            return 0;
    }
}

/* The end that the child had. */
static int
wait_end(int status)
{
    const struct rlimit none = { 0, 0 };
    sigset_t only;

    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    /* The child has written the core, if any. */
    setrlimit(RLIMIT_CORE, &none);
    signal(WTERMSIG(status), SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, WTERMSIG(status));
    raise(WTERMSIG(status));
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    return 128 + WTERMSIG(status);
}

int
run_wait(void)
{
    const struct sigaction usual = { .sa_handler = SIG_DFL };
    struct sigaction inherited;
    const char *around = getenv("TIDEMARK_RUN_LIST");
    char *outer = around != NULL ? strdup(around) : NULL; /* the next call changes it */
    int list = wait_list_open();
    sigset_t all, before;
    pid_t child;
    int status;

    if (list < 0) {
        message("tidemark run: --summary: %s", strerror(errno));
        free(outer);
        return COMMAND_WRONG;
    }
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    sigaction(SIGCHLD, &usual, &inherited); /* where it is ignored, there would be nothing to wait for */
    child = fork();
    if (child <= 0)
        sigprocmask(SIG_SETMASK, &before, NULL);
    if (child == 0)
        sigaction(SIGCHLD, &inherited, NULL);
    if (child == 0)
        return RUN_WAIT_CHILD;
    if (child < 0) {
        message("tidemark run: %s", strerror(errno));
        return COMMAND_WRONG;
    }
    status = wait_for(child, &all);
    unsetenv("DEBUGINFOD_URLS");
    wait_summaries(list, outer);
    close(list);
    free(outer);
    return wait_end(status);
}
