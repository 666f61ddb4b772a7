/*
 * Tests src/nvtx/injection.c: ranges of NVTX are tags, of two libraries that use NVTX, each with tables of its own; and
 * what becomes of a program that is not linked with libtidemark (nvtx-program.c).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "tests/nvtx-user.h"
#include "tap.h"
#include "trace.h"

static const struct nvtx_user *a, *b;

static const struct nvtx_user *
user_load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    const struct nvtx_user *(*get)(void);

    if (library == NULL) {
        diag("%s", dlerror());
        exit(99);
    }
    *(void **)&get = dlsym(library, "nvtx_user");
    return get();
}

static void
longest(void *context, const char *path, const struct tide_statistics_figures *figures)
{
    char *kept = context;

    (void)figures;
    if (strlen(path) > strlen(kept))
        snprintf(kept, 1024, "%s", path);
}

/* The path of what this thread allocates now. */
static const char *
now(void)
{
    static _Thread_local char path[1024];
    struct tide_resource *stack = stack_of("statistics(tags) | sim");
    void *block = take(stack, 256);

    path[0] = '\0';
    tide_statistics_report(stack, longest, path);
    give(stack, block, 256);
    tide_resource_release(stack);
    return path;
}

#define DEFAULT_TESTS 9

static void
check_default(void)
{
    ok(all_of(a->push("train") == 0, strcmp(now(), "train") == 0), "a range of the default domain is a tag");
    ok(all_of(b->push_wide(L"caf\u00e9") == 1, strcmp(now(), "train/caf\xc3\xa9") == 0),
       "a wide range of another library nests in it");
    ok(all_of(a->push_event("by event") == 2, strcmp(now(), "train/caf\xc3\xa9/by event") == 0),
       "so does a range by its attributes");
    ok(all_of(b->domain_push(NULL, "by NULL") == 3, a->pop() == 3, b->domain_pop(NULL) == 2),
       "a range of the domain NULL is one of the default domain, and ends as one");
    ok(all_of(a->pop() == 1, strcmp(now(), "train") == 0), "a pop ends the innermost range, of whichever library");
    ok(all_of(b->pop() == 0, a->pop() < 0, strcmp(now(), "") == 0), "a pop too many ends nothing and says so");
    a->push("aten::addmm, seq = 1, op_id = 29");
    is_string(now(), "aten::addmm", "names of operators are cleaned");
    a->pop();
    a->push(NULL);
    is_string(now(), "(unnamed)", "a range without a name is unnamed");
    a->pop();
    a->start_and_end("started");
    is_string(now(), "", "a range that begins and ends on any thread is no tag");
}

#define DOMAIN_TESTS 8

static void
check_domains(void)
{
    void *wanted = a->domain("TSL"), *same = b->domain_wide(L"TSL"), *other = a->domain("CCCL");
    void *string = b->string(same, "registered, seq = 4");

    ok(all_of(wanted != NULL, other != NULL, string != NULL), "domains and registered strings have handles");
    ok(all_of(a->domain_push(other, "cub") < 0, a->domain_pop(other) < 0, strcmp(now(), "") == 0),
       "ranges of a domain that was not asked for are no tags");
    ok(all_of(a->domain_push_string(wanted, string) == 0, strcmp(now(), "registered") == 0),
       "a registered string names a range of a domain that was asked for");
    ok(all_of(a->push("default") == 0, b->domain_push_wide(same, L"wide") == 1,
              strcmp(now(), "registered/default/wide") == 0),
       "ranges of domains nest as they begin, and a domain is one for all libraries");
    ok(all_of(a->pop() == 0, strcmp(now(), "registered/wide") == 0), "a pop ends a range of its own domain alone");
    tide_tag_push("own");
    ok(all_of(b->domain_pop(same) == 1, b->domain_pop(same) == 0, strcmp(now(), "own") == 0),
       "a pop leaves the program's own tag");
    ok(all_of(b->domain_pop(same) < 0, a->pop() < 0, strcmp(now(), "own") == 0),
       "nor does a pop too many end the program's own tag");
    tide_tag_pop();
    a->domain_push_nothing(wanted);
    is_string(now(), "(unnamed)", "a range without a message is unnamed");
    a->domain_pop(wanted);
}

static void *
on_thread(void *argument)
{
    (void)argument;
    if (a->pop() >= 0 || strcmp(now(), "") != 0)
        return NULL;
    return a->push("thread") == 0 && strcmp(now(), "thread") == 0 ? (void *)a : NULL;
}

#define BOUND_TESTS 3

static void
check_bounds(void)
{
    pthread_t thread;
    void *right;
    bool counted = true;

    a->push("main");
    pthread_create(&thread, NULL, on_thread, NULL);
    pthread_join(thread, &right);
    ok(all_of(right != NULL, a->pop() == 0), "each thread has ranges of its own");
    for (int i = 0; i < 5000; i++)
        counted = a->push("deep") == i && counted;
    ok(all_of(counted, strlen(now()) < 5 * 65), "ranges that nobody ends make no endless path");
    for (int i = 5000; i-- > 0;)
        counted = a->pop() == i && counted;
    ok(all_of(counted, strcmp(now(), "") == 0), "and end as often as they began");
}

#define MARK_TESTS 2

static void
check_marks(void)
{
    const char *trace = scratch("ranges.db");
    struct tide_resource *stack = stack_of("log(%s, cupti=off) | sim", trace);
    char name[32];

    a->mark("epoch 1");
    b->domain_mark(a->domain("TSL"), "of TSL");
    a->domain_mark(a->domain("CCCL"), "of CCCL");
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof(name), "step %d", i);
        a->push(name);
        give(stack, take(stack, 256), 256);
        a->pop();
    }
    tide_resource_release(stack);
    is_i64(sql_number(trace, "SELECT count(*) FROM mark WHERE text IN ('epoch 1', 'of TSL', 'of CCCL')"), 2,
           "marks of the domains that count are marks in the trace");
    ok(sql_number(trace, "SELECT count(DISTINCT tag_id) FROM allocation") <= 2049,
       "five thousand names of ranges make some two thousand tags");
}

/* A program without libtidemark. */

static const char *
run(const char *path, const char *more)
{
    static char said[512];
    char command[4096];
    size_t length;
    FILE *pipe;

    snprintf(command, sizeof(command),
             "NVTX_INJECTION64_PATH='%s' TIDEMARK_RUN_LIBRARY='%s' TIDEMARK_RUN_NVTX_DOMAINS= %s %s 2>&1",
             NVTX_INJECTION, path, NVTX_PROGRAM, more);
    pipe = popen(command, "r");
    length = pipe != NULL ? fread(said, 1, sizeof(said) - 1, pipe) : 0;
    said[length] = '\0';
    if (pipe == NULL || WEXITSTATUS(pclose(pipe)) != 7)
        diag("the program ended otherwise: %s", said);
    return said;
}

/* Pools look for a tool, and find Tidemark's own library, which is none for them. */
#define OWN_TESTS 1

static void
check_own(void)
{
    struct tide_resource *stack = stack_of("pool | sim");

    a->push("around");
    give(stack, take(stack, 1000), 1000);
    is_string(now(), "around", "a pool for which Tidemark's own library is the tool works as ever");
    a->pop();
    tide_resource_release(stack);
}

#define PROGRAM_TESTS 3

static void
check_program(void)
{
    const char *said = run(TIDEMARK_LIBRARY, "2");

    is_string(said, "before=0 after=1 depth=1\n", "libtidemark is loaded at the first range, from where it is named");
    is_string(run("", ""), "before=0 after=0 depth=-2\n", "where none is named and none is loaded ranges are nothing");
    said = run("/nonexistent/libtidemark.so.0", "");
    ok(all_of(strncmp(said, "tidemark: NVTX ranges are no tags: ", 35) == 0,
              strstr(said, "\nbefore=0 after=0 depth=-2\n") != NULL),
       "where the one that is named is not there one line says so, and the program goes on");
}

int
main(void)
{
    setenv("NVTX_INJECTION64_PATH", NVTX_INJECTION, 1);
    setenv("TIDEMARK_RUN_NVTX_DOMAINS", "other,TSL", 1);
    plan(DEFAULT_TESTS + DOMAIN_TESTS + BOUND_TESTS + MARK_TESTS + OWN_TESTS + PROGRAM_TESTS);
    a = user_load(NVTX_USER_A);
    b = user_load(NVTX_USER_B);
    check_default();
    check_domains();
    check_bounds();
    check_own();
    check_marks();
    check_program();
    return done();
}
