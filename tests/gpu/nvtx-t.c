/*
 * Tests that compute-sanitizer --nvtx=yes finds what a kernel does outside of the blocks of each kind of pool, and
 * nothing on a program without errors. Each case runs this program again, under compute-sanitizer: COMPUTE_SANITIZER,
 * else the one on PATH or of /usr/local/cuda. Where there is none, as with the fake driver, the cases run by
 * themselves, and what the checker would say is skipped.
 *
 *     nvtx-t CASE STACK...    CASE is none, overrun, after-free or after-reset; the error is in the last stack
 */
#include "tests/gpu/lock.h"
#include "tests/gpu/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

#ifdef HAVE_CUDA_H

#define BLOCKS      4
#define BLOCK_BYTES 1000 /* no pool's own size: the overrun stays in what the block is rounded up to */
#define BLOCK_WORDS (BLOCK_BYTES / 4)
#define VALUE       0x5eed

/* What runs under the checker. */

/* Fill blocks on two streams, free some before the kernels have ended, and verify the rest. */
static bool
use_rightly(struct gpu_work *work, struct tide_resource *stack, void **blocks)
{
    bool right = true;

    for (int round = 0; round < 3 && right; round++) {
        for (int i = 0; i < BLOCKS && right; i++) {
            CUstream stream = i % 2 == 0 ? work->first : work->second;

            tide_tag_push("case");
            right = gpu_allocates(stack, BLOCK_BYTES, stream, &blocks[i]) &&
                    gpu_delay(&work->kernels, stream, 100000) &&
                    gpu_fill(&work->kernels, stream, blocks[i], BLOCK_WORDS, VALUE);
            tide_tag_pop();
        }
        for (int i = 0; i < BLOCKS - 1 && right && round < 2; i++)
            right = gpu_frees(stack, blocks[i], BLOCK_BYTES, i % 2 == 0 ? work->first : work->second);
    }
    right = right && gpu.context_synchronize() == CUDA_SUCCESS;
    for (int i = 0; i < BLOCKS && right; i++)
        right = gpu_count_wrong(&work->kernels, work->first, blocks[i], BLOCK_WORDS, VALUE) == 0;
    return right;
}

/* The seeded error; what the calls of the driver return from here on is the checker's affair. */
static bool
err(struct gpu_work *work, const char *error, struct tide_resource *stack, void **blocks)
{
    if (strcmp(error, "overrun") == 0) {
        gpu_fill(&work->kernels, work->first, blocks[0], BLOCK_WORDS + 1, VALUE);
    } else if (strcmp(error, "after-free") == 0) {
        if (!gpu_frees(stack, blocks[1], BLOCK_BYTES, work->first))
            return false;
        gpu_fill(&work->kernels, work->first, blocks[1], 1, VALUE);
    } else if (strcmp(error, "after-reset") == 0) {
        if (tide_monotonic_reset(stack, (tide_stream)work->first) != TIDE_OK)
            return false;
        gpu_fill(&work->kernels, work->first, blocks[2], 1, VALUE);
    } else {
        for (int i = 0; i < BLOCKS; i++)
            gpu_frees(stack, blocks[i], BLOCK_BYTES, work->first);
    }
    gpu.context_synchronize();
    return true;
}

/* The stack of a text, or of the text that a program gets which chooses none. */
static struct tide_resource *
case_stack(const char *text)
{
    char chosen[64] = "";

    if (strcmp(text, "default") != 0)
        return gpu_stack("%s", text);
    if (tide_stack_default(0, chosen, sizeof(chosen), NULL) != TIDE_OK)
        return NULL;
    return gpu_stack("%s", chosen);
}

static void
case_message(void *context, enum tide_severity severity, const char *text)
{
    (void)context, (void)severity;
    printf("message: %s\n", text);
}

static int
run_case(const char *error, char **texts, int count)
{
    struct gpu_work work = { 0 };
    const char *reason = gpu_open();
    void *blocks[BLOCKS] = { NULL };
    bool right;

    if (reason != NULL) {
        printf("no GPU: %s\n", reason);
        return 1;
    }
    tide_message_sink_set(case_message, NULL);
    right = gpu_work_open(&work, 0);
    for (int i = 0; i < count && right; i++) {
        struct tide_resource *stack = case_stack(texts[i]);

        right = stack != NULL && use_rightly(&work, stack, blocks) &&
                err(&work, i == count - 1 ? error : "none", stack, blocks);
        tide_resource_release(stack);
    }
    gpu_work_close(&work);
    printf("the case has run to its end: %s\n", right ? "right" : "wrong");
    return right ? 0 : 1;
}

/* The tests. */

static const char *const stacks[] = {
    "default",
    "pool | cuda",
    "pool(cache=0) | cuda",
    "arena | cuda",
    "fixed(64KiB) | cuda",
    "monotonic(1MiB) | cuda",
    "pool(growth=8MiB) | arena | cuda",
    "binning(64KiB={fixed(64KiB)}) | pool | cuda",
    "monotonic(256KiB) | pool | cuda",
};

/* Over memory of which compute-sanitizer takes no heap. */
static const char *const others[] = { "pool | driver", "pool | vmm", "arena | vmm" };

#define STACKS (sizeof(stacks) / sizeof(stacks[0]))
#define OTHERS (sizeof(others) / sizeof(others[0]))
#define ERRORS "ERROR SUMMARY: "

static char wrapper[512]; /* the checker with its options; empty: there is none */
static char said[1 << 16];

static void
find_checker(void)
{
    static const char search[] = "for c in \"${COMPUTE_SANITIZER:-compute-sanitizer}\" "
                                 "/usr/local/cuda/bin/compute-sanitizer; do command -v \"$c\" && exit; done";
    char path[256] = "";
    FILE *pipe;

    if (gpu_is_fake() || gpu_is_sanitized())
        return;
    pipe = popen(search, "r");
    if (pipe != NULL && fgets(path, sizeof(path), pipe) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        snprintf(wrapper, sizeof(wrapper), "'%s' --tool memcheck --nvtx=yes --report-api-errors no --error-exitcode 86",
                 path);
    }
    if (pipe != NULL)
        pclose(pipe);
}

/* Run the program again; its exit status, with what it said in `said`. */
static int
run(const char *error, const char *const *texts, size_t count)
{
    char self[1024] = "", command[4096];
    size_t length = 0;
    int status = -1;
    FILE *pipe;

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return -1;
    length = (size_t)snprintf(command, sizeof(command), "%s '%s' %s", wrapper, self, error);
    for (size_t i = 0; i < count; i++)
        length += (size_t)snprintf(command + length, sizeof(command) - length, " '%s'", texts[i]);
    snprintf(command + length, sizeof(command) - length, " 2>&1");
    fflush(stdout);
    pipe = popen(command, "r");
    length = pipe != NULL ? fread(said, 1, sizeof(said) - 1, pipe) : 0;
    said[length] = '\0';
    if (pipe != NULL)
        status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Print what the program said, for a test that has failed. */
static void
say(bool passed)
{
    for (char *line = said; !passed && line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');

        diag("%.*s", (int)(end != NULL ? end - line : (long)strlen(line)), line);
        line = end != NULL ? end + 1 : NULL;
    }
}

static void
check_clean(void)
{
    int status = run("none", stacks, STACKS);
    bool checked = wrapper[0] == '\0' || strstr(said, ERRORS "0 errors") != NULL;

    say(ok(all_of(status == 0, checked), "nothing is found in a program without errors over each kind of pool"));
}

static void
check_other(const char *text)
{
    int status = run("none", &text, 1);
    bool checked = wrapper[0] == '\0' || (strstr(said, ERRORS "0 errors") != NULL &&
                                          strstr(said, "takes blocks only in memory of the base cuda") != NULL);

    say(ok(all_of(status == 0, checked), "%s: no error is counted, and a warning says that no blocks are checked",
           text));
}

static void
check_error(const char *error, const char *text)
{
    int status = run(error, &text, 1);
    bool found = strstr(said, "Invalid __global__ write of size 4 bytes") != NULL;

    if (wrapper[0] == '\0')
        say(ok(status == 0, "%s: the case %s runs to its end without a checker", text, error));
    else
        say(ok(all_of(status == 86, found), "%s: %s is found", text, error));
}

static bool
has_reset(const char *text)
{
    return strncmp(text, "monotonic", 9) == 0;
}

int
main(int argc, char **argv)
{
    const char *reason;

    if (argc > 2)
        return run_case(argv[1], argv + 2, argc - 2);
    gpu_skip_sanitized("it starts compute-sanitizer itself");
    reason = gpu_open();
    if (reason != NULL)
        skip_all(reason);
    plan(1 + (int)OTHERS + 2 * (int)STACKS + 2);
    gpu_diag();
    find_checker();
    if (wrapper[0] == '\0')
        diag("without compute-sanitizer: the cases run, and nobody looks");
    check_clean();
    for (size_t i = 0; i < OTHERS; i++)
        check_other(others[i]);
    for (size_t i = 0; i < STACKS; i++) {
        check_error("overrun", stacks[i]);
        check_error("after-free", stacks[i]);
        if (has_reset(stacks[i]))
            check_error("after-reset", stacks[i]);
    }
    return done();
}

#else

int
main(void)
{
    skip_all("no GPU: this build has no CUDA");
}

#endif
