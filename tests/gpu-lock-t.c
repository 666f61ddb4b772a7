/* Tests tests/gpu/lock.c: which process waits for which. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/lock.h"
#include "tests/tap.h"

static char path[] = "gpu-lock-t-XXXXXX";

/* Start a process that has the device, shared or alone, until it is killed. It has the device when this returns. */
static pid_t
holder(bool alone)
{
    int ends[2];
    char byte = 0;
    pid_t child = -1;

    if (pipe(ends) == 0)
        child = fork();
    if (child == 0) {
        byte = gpu_lock(alone) ? 'y' : 'n';
        if (write(ends[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    if (read(ends[0], &byte, 1) != 1 || byte != 'y')
        diag("a process has not got the lock");
    close(ends[0]);
    close(ends[1]);
    return child;
}

static void
end(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* Whether a process could take the lock now. */
static bool
is_free(int how)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool got = flock(file, how | LOCK_NB) == 0;

    close(file);
    return got;
}

int
main(void)
{
    pid_t first, second;
    int file = mkstemp(path);

    plan(7);
    close(file);
    setenv("TIDEMARK_GPU_LOCK", path, 1);
    first = holder(false);
    ok(is_free(LOCK_SH), "a second test may share the device");
    ok(!is_free(LOCK_EX), "a test that needs the device alone waits for one that shares it");
    second = holder(false);
    end(first);
    ok(!is_free(LOCK_EX), "a test that needs the device alone waits for all tests that share it");
    end(second);
    ok(is_free(LOCK_EX), "a test that has ended holds no lock");
    first = holder(true);
    ok(!is_free(LOCK_SH), "a test that shares the device waits for one that has it alone");
    end(first);
    ok(gpu_lock(true), "a test can take the device alone");
    ok(all_of(gpu_lock(false), !is_free(LOCK_SH)),
       "a test that has the device alone keeps it, although it asks to share it later");
    unlink(path);
    return done();
}
