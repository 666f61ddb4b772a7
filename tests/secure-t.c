/*
 * Tests that a program with rights that its caller lacks does not believe the caller's environment: a copy of this
 * program that is set-uid to another user looks at the stack and at the trace that it gets.
 */
#include "config.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "tests/tap.h"

#define OTHER_USER 65534

/* What the copy exits with: facts, or that it got no rights, as on a file system without them. */
enum {
    SEEN_STACK = 1,  /* the variable's stack */
    SEEN_RANK = 2,   /* the variable's rank */
    SEEN_NORMAL = 4, /* no rights */
    SEEN_FAILED = 8,
};

static char folder[] = "/tmp/tidemark-secure-t-XXXXXX";

static int
look(const char *where)
{
    struct tide_resource *top = NULL, *log = NULL;
    char text[256] = "";
    int seen = getauxval(AT_SECURE) == 0 ? SEEN_NORMAL : 0;

    if (tide_stack_from_environment("host", &top) != TIDE_OK || tide_describe(top, text, sizeof(text), NULL) != TIDE_OK)
        seen |= SEEN_FAILED;
    seen |= strstr(text, "limit") != NULL ? SEEN_STACK : 0;
    tide_resource_release(top);
    snprintf(text, sizeof(text), "log(%s/t-%%r.db) | host", where);
    if (tide_stack_parse(text, &log) != TIDE_OK)
        seen |= SEEN_FAILED;
    tide_resource_release(log);
    snprintf(text, sizeof(text), "%s/t-7.db", where);
    seen |= access(text, F_OK) == 0 ? SEEN_RANK : 0;
    unlink(text);
    snprintf(text, sizeof(text), "%s/t-0.db", where);
    unlink(text);
    return seen;
}

static bool
copy_self(const char *path, mode_t mode, uid_t user)
{
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    struct stat status;
    bool done = from >= 0 && to >= 0 && fstat(from, &status) == 0;

    for (off_t left = done ? status.st_size : 0; done && left > 0;) {
        ssize_t count = sendfile(to, from, NULL, (size_t)left);

        done = count > 0;
        left -= count;
    }
    done = done && fchown(to, user, (gid_t)-1) == 0 && fchmod(to, mode) == 0;
    close(from);
    close(to);
    return done;
}

/* What a copy of this program sees, with a stack and a rank in its environment; -1: it did not run. */
static int
run(const char *name, mode_t mode, uid_t user)
{
    static char *const environment[] = { "TIDEMARK_STACK=limit(1MiB) | host", "SLURM_PROCID=7", NULL };
    char path[128];
    int status;
    pid_t child;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (!copy_self(path, mode, user))
        return -1;
    child = fork();
    if (child == 0) {
        execle(path, path, folder, NULL, environment);
        _exit(127);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
        status = -1;
    unlink(path);
    return status < 0 || WEXITSTATUS(status) == 127 ? -1 : WEXITSTATUS(status);
}

int
main(int argc, char **argv)
{
    int seen;

    if (argc > 1)
        _exit(look(argv[1])); /* a leak checker cannot look at a process with further rights */
    plan(4);
    if (mkdtemp(folder) == NULL || chmod(folder, 0777) != 0) {
        printf("Bail out! no folder\n");
        return 99;
    }
    seen = run("plain", 0755, getuid());
    ok(seen == (SEEN_NORMAL | SEEN_STACK | SEEN_RANK),
       "a program without further rights has its caller's stack and rank");
    seen = geteuid() == 0 ? run("set-uid", 04755, OTHER_USER) : -1;
    if (seen < 0 || (seen & SEEN_NORMAL) != 0) {
        skip(3, geteuid() != 0 ? "only root makes a set-uid program of another user" : "no set-uid programs run here");
    } else {
        ok((seen & SEEN_FAILED) == 0, "a set-uid program makes its stack and its trace");
        ok((seen & SEEN_STACK) == 0, "a set-uid program ignores TIDEMARK_STACK");
        ok((seen & SEEN_RANK) == 0, "a set-uid program ignores the rank that its caller's environment names");
    }
    rmdir(folder);
    return done();
}
