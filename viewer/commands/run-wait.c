/* The parent of a program: passes signals on, keeps its exit status, prints summaries. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "viewer/base/message.h"
#include "viewer/commands/commands.h"
#include "viewer/commands/run-wait.h"

/* What fnmatch() takes for a trace's name: a star for what differs from process to process, and for its number. */
static void
wait_glob(const char *name, char *out, size_t size)
{
    const char *dot = strrchr(name, '.');
    size_t length = 0;

    for (; *name != '\0' && length < size - 4; name++) {
        if (name == dot)
            out[length++] = '*';
        if (*name == '%' && name[1] != '\0') {
            out[length++] = *++name == '%' ? '%' : '*';
            continue;
        }
        if (strchr("*?[\\", *name) != NULL)
            out[length++] = '\\';
        out[length++] = *name;
    }
    if (dot == NULL)
        out[length++] = '*';
    out[length] = '\0';
}

static bool
wait_is_new(const char *path, const struct timespec *since)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           (info.st_ctim.tv_sec > since->tv_sec ||
            (info.st_ctim.tv_sec == since->tv_sec && info.st_ctim.tv_nsec >= since->tv_nsec));
}

/* The files of SQLite and of the recorder beside a trace. */
static bool
wait_is_beside(const char *name)
{
    static const char *const ends[] = { "-wal", "-shm", "-journal", "-ring", "-begun", "-replaced" };
    size_t length = strlen(name);

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (length > strlen(ends[i]) && strcmp(name + length - strlen(ends[i]), ends[i]) == 0)
            return true;
    }
    return false;
}

static void
wait_summary(const char *path)
{
    char *arguments[] = { "tidemark summary", "--no-pager", (char *)path, NULL };

    message("tidemark run: recorded in %s", path);
    optind = 0;
    command_invoke(&command_summary, 3, arguments);
    fflush(stdout);
}

/* Standard output is the program's. What is printed here goes where messages go. */
static void
wait_summaries(const char *pattern, const struct timespec *since)
{
    const char *name = strrchr(pattern, '/') + 1;
    struct dirent **entries;
    char folder[4096], glob[1024];
    unsigned found = 0;
    int count;

    snprintf(folder, sizeof(folder), "%.*s", (int)(name - pattern), pattern);
    /* "%%" of a folder's name. A folder whose name differs from process to process is not looked for. */
    for (char *at = strstr(folder, "%%"); at != NULL; at = strstr(at + 1, "%%"))
        memmove(at, at + 1, strlen(at));
    wait_glob(name, glob, sizeof(glob));
    count = scandir(folder, &entries, NULL, versionsort);
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return;
    for (int i = 0; i < count; i++) {
        char path[4096 + 256];

        snprintf(path, sizeof(path), "%s%s", folder, entries[i]->d_name);
        if (fnmatch(glob, entries[i]->d_name, 0) == 0 && !wait_is_beside(entries[i]->d_name) &&
            wait_is_new(path, since)) {
            wait_summary(path);
            found++;
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    if (found == 0)
        message("tidemark run: nothing was recorded: no process has allocated device memory");
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
run_wait(const char *pattern)
{
    const struct sigaction usual = { .sa_handler = SIG_DFL };
    struct sigaction inherited;
    struct timespec since;
    sigset_t all, before;
    pid_t child;
    int status;

    /* The clock of files' times. */
    clock_gettime(CLOCK_REALTIME_COARSE, &since);
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
    wait_summaries(pattern, &since);
    return wait_end(status);
}
