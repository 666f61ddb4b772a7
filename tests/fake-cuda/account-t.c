/* Tests the account of all device memory of a process: the wrappers are called as a program does, on the fake driver. */
#include "tests/fake-cuda/account.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"
#include "tests/trace.h"

#ifdef HAVE_CUDA_H

#define MIB ((size_t)1 << 20)

/* Each test is a process of its own, as the account is one of a process. */
static const char *
trace_of(const char *name)
{
    return scratch("%s.db", name);
}

static bool
start(const char *name, const char *stack, const char *limit)
{
    const char *trace = trace_of(name);
    const struct tide_process_options options = {
        TIDE_OPTIONS(options), .stack = stack, .trace = trace, .limit = limit
    };

    return account_start(&options);
}

static bool
passes(int (*test)(void *))
{
    int status;

    fflush(stdout);
    status = in_child(test, NULL);
    if (WIFSIGNALED(status))
        diag("killed by signal %d", WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int
test_plain(void *unused)
{
    CUdeviceptr a = 0, b = 0;

    (void)unused;
    if (!start("plain", NULL, NULL))
        return 1;
    CHECK(account.w_cuMemAlloc_v2(&a, 3 * MIB) == CUDA_SUCCESS && a != 0);
    CHECK(account.w_cuMemAlloc_v2(&b, 5 * MIB) == CUDA_SUCCESS && b != 0);
    CHECK(account_used("plain", 0) == 8 * MIB);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_SUCCESS);
    CHECK(account_used("plain", 0) == 5 * MIB);
    CHECK(account.w_cuMemFree_v2(0) == CUDA_SUCCESS);
    CHECK(account.w_cuMemFree_v2(a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account.w_cuMemAlloc_v2(&a, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(account_used("plain", 0) == 5 * MIB);
    account_flush();
    return account_failures;
}

int
main(void)
{
    if (!account_find())
        skip_all("there is no fake driver");
    plan(3);
    (void)scratch("here"); /* the folder is made before the first child */
    ok(passes(test_plain), "plain memory is counted, and the driver's codes come through");
    if (!CHILDREN_MAY_RECORD) {
        skip(2, "children record nothing here");
        return done();
    }
    tide_trace_recover(trace_of("plain"), NULL);
    ok(sql_number(trace_of("plain"), "SELECT sum(size) FROM allocation WHERE status = 0") == 8 * (int64_t)MIB &&
           sql_number(trace_of("plain"), "SELECT count(*) FROM allocation WHERE free_ns IS NULL") == 1,
       "a killed process leaves a row for each of its blocks");
    ok(sql_number(trace_of("plain"), "SELECT count(*) FROM layer WHERE kind = 'process' AND config = 'kind=plain, "
                                     "device=0'") == 1,
       "the base of a row's stack says what kind of memory it is");
    return done();
}

#else

int
main(void)
{
    skip_all("this build has no CUDA");
}

#endif
