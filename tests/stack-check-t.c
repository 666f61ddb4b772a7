/*
 * tide_stack_check prints a text that describes the same stack, and creates nothing. Random stacks of all adaptors, and
 * the cases that random ones do not have.
 *
 * TEST_SEED=N runs from another seed.
 */
#include <sys/stat.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "contract.h"
#include "random-stack.h"
#include "tap.h"

#define ROUNDS   500
#define CAPACITY 16384

static char full[CAPACITY];

static const char *
check(const char *text)
{
    size_t needed;

    if (tide_stack_check(text, full, sizeof(full), &needed) != TIDE_OK)
        return tide_error_text();
    return needed == strlen(full) ? full : "the length is wrong";
}

/* What the stack of a text describes itself as; false where it cannot be built. */
static bool
describe(const char *text, char *out, size_t capacity)
{
    struct tide_resource *stack;
    bool built = tide_stack_parse(text, &stack) == TIDE_OK && tide_describe(stack, out, capacity, NULL) == TIDE_OK;

    if (built)
        tide_resource_release(stack);
    return built;
}

/* Whether the full text of a random stack is complete, and means the same; a text that makes no stack is refused. */
static const char *
check_random(const char *text, bool records)
{
    static char first[CAPACITY], before[CAPACITY], after[CAPACITY];

    if (tide_stack_check(text, first, sizeof(first), NULL) != TIDE_OK)
        return !records && describe(text, before, sizeof(before)) ? "refused, and it makes a stack" : NULL;
    if (strcmp(check(first), first) != 0)
        return "the full text of the full text is another one";
    if (records)
        return NULL;
    if (!describe(text, before, sizeof(before)) || !describe(first, after, sizeof(after)))
        return "one of the texts makes no stack";
    return strcmp(before, after) == 0 ? NULL : "the full text makes another stack";
}

static void
check_all_random(uint64_t seed)
{
    const char *fault = NULL;
    struct random_stack stack;
    unsigned recording = 0;

    for (unsigned i = 0; fault == NULL && i < ROUNDS; i++) {
        random_stack_make(&stack, seed + i, "/nowhere/stack-check.db");
        recording += strstr(stack.text, "/nowhere/") != NULL;
        fault = check_random(stack.text, strstr(stack.text, "/nowhere/") != NULL);
        if (fault != NULL)
            diag("TEST_SEED=%" PRIu64 " %s: %s", seed + i, stack.text, fault);
    }
    diag("TEST_SEED=%" PRIu64 ": %u stacks, %u of them with a trace in a folder that does not exist", seed, ROUNDS,
         recording);
    ok(fault == NULL, "the full text of each random stack is accepted, is its own full text and makes the same stack");
    ok(recording != 0, "stacks with a log are among them");
}

static void
check_texts(void)
{
    is_string(
        check("limit(25%) | pool(maximum=12.5%) | driver(maximum=50%)"),
        "limit(25%, alignment=256)\n| pool(maximum=12.5%, growth=2MiB, alignment=256, cache=64MiB, nvtx=auto)\n"
        "| driver(device=0, maximum=50%, default=false, location=device, host_numa=0, handle=none, fallback=none)",
        "shares stay shares, and a base of a device is printed where there is none");
    is_string(
        check("log(\"a b.db\") | limit(1) as gpu | log(callstack=4) | sim"),
        "log(\"a b.db\", overwrite=false, clock=auto, overflow=wait, cupti=auto, samples=auto, ring=1MiB, "
        "backlog=128MiB, mode=0600, callstack=0, unwind=auto)\n| limit(1, alignment=256) as gpu\n| log(callstack=4)\n| "
        "sim(granularity=1, model=plain)",
        "a log that joins the trace of one above is printed with what is given, and names are kept");
    is_string(check("binning(64KiB..1MiB, 4MiB={statistics | fixed(4MiB)}) | fallback({limit(9) | host}) | host"),
              "binning(64KiB..1MiB, 4MiB={statistics(tags=false) | fixed(4MiB, preallocate=0, nvtx=auto)})\n"
              "| fallback({limit(9, alignment=256) | host}, any=false)\n| host",
              "layers in braces are printed in one line");
    is_string(check("guard | prefetch | managed"),
              "guard(canary=256, hold=16MiB)\n| prefetch(to=device)\n| managed(device=0, attach=global, "
              "preferred=none, read_mostly=false)",
              "layers that ask what the memory below is are checked without it");
    is_string(check("fallback({pinned}) | cuda"),
              "fallback({pinned(device=0, portable=false, mapped=false, write_combined=false)}, any=false)\n"
              "| cuda(device=0)",
              "two bases of a stack are two resources");
}

static void
check_refusals(void)
{
    ok(strstr(check("pool(initial=2GiB, maximum=1GiB) | driver"), "column 1: pool: initial size of 2 GiB") != NULL,
       "a rule between two arguments of an adaptor is checked");
    ok(strstr(check("driver(default=true, maximum=1GiB)"), "driver: a maximum is for a pool of its own") != NULL,
       "a rule between two arguments of a base is checked");
    ok(strstr(check("log(x.db, ring=5KiB) | host"), "log: argument 'ring': '5KiB' is no power of two") != NULL,
       "a value that a log does not take is refused");
    ok(strstr(check("limit(4Gi) | host"), "did you mean GiB?") != NULL, "a value that cannot be read is named");
    full[0] = 'x';
    ok(tide_stack_check("pol | host", full, sizeof(full), NULL) == TIDE_ESYNTAX && full[0] == '\0',
       "the text is empty where the check fails");
    ok(tide_stack_check(NULL, full, sizeof(full), NULL) == TIDE_EINVAL, "NULL in place of the text is refused");
    ok(tide_stack_check("host", NULL, 1, NULL) == TIDE_EINVAL, "NULL in place of the buffer is refused");
}

static void
check_capacity(void)
{
    char small[9];
    size_t needed = 0;

    ok(tide_stack_check("limit(1) | host", small, sizeof(small), &needed) == TIDE_OK && needed == 30 &&
           strcmp(small, "limit(1,") == 0,
       "a text that does not fit is cut, and its length is said");
    ok(tide_stack_check("limit(1) | host", NULL, 0, &needed) == TIDE_OK && needed == 30,
       "the length alone can be asked for");
}

static void
check_nothing_made(void)
{
    struct stat info;

    ok(strstr(check("log(stack-check-made.db) | host"), "log(stack-check-made.db") != NULL &&
           stat("stack-check-made.db", &info) != 0,
       "no trace is created");
}

int
main(void)
{
    const char *seed = getenv("TEST_SEED");

    plan(17);
    check_all_random(seed != NULL ? strtoull(seed, NULL, 10) : (uint64_t)getpid() * 7919 + 1);
    check_texts();
    check_refusals();
    check_capacity();
    check_nothing_made();
    return done();
}
