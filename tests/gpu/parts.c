/* Runs the tests of a program in parts, each in its own process. */
#include "tests/gpu/parts.h"

#ifdef HAVE_CUDA_H

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/lock.h"
#include "tests/tap.h"

extern char **environ;

unsigned
gpu_part_seconds(void)
{
    const char *wrapper = getenv("CHECK_GPU_WRAPPER");

    if (wrapper == NULL || wrapper[0] == '\0')
        return 120;
    return gpu_is_sanitized() ? 60 : 20;
}

/* Run a part, in its own process. */
static int
part_run(const struct gpu_part *part)
{
    const char *reason;

    alarm(gpu_part_seconds());
    reason = gpu_open();
    if (reason != NULL)
        skip_all(reason);
    plan(part->tests);
    part->run();
    return done();
}

/* Start the process of a part, with its output in a pipe. -1 if that fails. */
static pid_t
part_start(const char *program, const struct gpu_part *part, FILE **out)
{
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t pid = -1;

    if (pipe(ends) != 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL,
                    (char *[]){ (char *)(uintptr_t)program, (char *)(uintptr_t)part->name, NULL }, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *out = fdopen(ends[0], "r");
    return *out != NULL ? pid : -1;
}

/* Print a line of a part's output, with the test numbers of this program. */
static void
part_relay(const char *line, const struct gpu_part *part, int planned)
{
    bool passed = strncmp(line, "ok ", 3) == 0;

    if (strncmp(line, "1..0 # SKIP ", 12) == 0) {
        char reason[256];

        snprintf(reason, sizeof(reason), "%.*s", (int)strcspn(line + 12, "\n"), line + 12);
        if (tap.planned == 0)
            skip_all(reason);
        skip(part->tests, reason);
        return;
    }
    if (tap.planned == 0)
        plan(planned);
    if (passed || strncmp(line, "not ok ", 7) == 0) {
        line += passed ? 3 : 7;
        tap.failed += !passed;
        printf("%s %d%s", passed ? "ok" : "not ok", ++tap.run, line + strspn(line, "0123456789"));
    } else if (strncmp(line, "1..", 3) != 0)
        fputs(line, stdout);
}

/* Wait for a part. False if it did not end normally although all its tests have passed. */
static bool
part_wait(const struct gpu_part *part, pid_t pid, int failed_before)
{
    int status = -1;

    if (pid > 0)
        waitpid(pid, &status, 0);
    if (status == 0)
        return true;
    if (pid <= 0)
        diag("%s: there is no process for it", part->name);
    else if (WIFSIGNALED(status))
        diag("%s: ended by signal %d (%s)", part->name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (tap.failed == failed_before)
        diag("%s: exited with status %d", part->name, WEXITSTATUS(status));
    return false;
}

static bool
part_tests(const char *program, const struct gpu_part *part, int planned)
{
    int failed_before = tap.failed;
    int wanted = tap.run + part->tests;
    FILE *out = NULL;
    char *line = NULL;
    size_t capacity = 0;
    pid_t pid = part_start(program, part, &out);
    bool well;

    while (out != NULL && getline(&line, &capacity, out) >= 0)
        part_relay(line, part, planned);
    free(line);
    if (out != NULL)
        fclose(out);
    if (tap.planned == 0)
        plan(planned);
    well = part_wait(part, pid, failed_before);
    while (tap.run < wanted)
        ok(false, "%s: a test has not run", part->name);
    return well;
}

int
gpu_parts_main(int argc, char **argv, const struct gpu_part *parts, size_t count)
{
    bool well = true;
    int planned = 0;

    for (size_t i = 0; i < count; i++) {
        planned += parts[i].tests;
        if (argc > 1 && strcmp(argv[1], parts[i].name) == 0)
            return part_run(&parts[i]);
    }
    if (argc > 1) {
        fprintf(stderr, "%s: no part %s\n", argv[0], argv[1]);
        return 2;
    }
    /* Take the lock here, so that the wait for the device does not count as the part's time. */
    gpu_lock(false);
    for (size_t i = 0; i < count; i++)
        well = part_tests(argv[0], &parts[i], planned) && well;
    return done() != 0 || !well;
}

#endif
