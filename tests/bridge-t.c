/* Tests the bridge without a GPU: as PyTorch calls it, with stacks that are exchanged, its figures, and threads. */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "find.h"
#include "tap.h"
#include "trace.h"

/* The addresses that PyTorch keeps for the life of the process, as it calls them. */
static void *(*const torch_alloc)(size_t, int, void *) = tide_torch_alloc;
static void (*const torch_free)(void *, size_t, int, void *) = tide_torch_free;

static struct tide_bridge_figures
figures_of(int device)
{
    struct tide_bridge_figures figures = { TIDE_FIGURES(figures) };

    if (tide_bridge_read(device, &figures) != TIDE_OK)
        diag("%s", tide_error_text());
    return figures;
}

static bool
use(const char *format, const char *path)
{
    char text[400];

    snprintf(text, sizeof(text), format, path);
    if (tide_bridge_use(text) == TIDE_OK)
        return true;
    diag("%s: %s", text, tide_error_text());
    return false;
}

/* A block on its way between threads. */
struct passed {
    void *pointer;
    size_t bytes;
    void *stream;
};

static void *
allocating_thread(void *argument)
{
    struct passed *passed = argument;

    passed->pointer = torch_alloc(passed->bytes, 0, passed->stream);
    return NULL;
}

static void *
freeing_thread(void *argument)
{
    struct passed *passed = argument;

    torch_free(passed->pointer, passed->bytes, 0, passed->stream);
    return NULL;
}

static void
on_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, function, argument) != 0)
        abort();
    pthread_join(thread, NULL);
}

#define ABI_TESTS 7

static void
test_abi(void)
{
    struct passed passed = { .bytes = 1000, .stream = (void *)2 };
    struct tide_torch_pool id = { 1, 0 };
    struct tide_bridge_figures figures;
    size_t bytes = 1;

    use("%s", "pool | host");
    tide_torch_init(1);
    ok(torch_alloc(0, 0, NULL) == NULL, "a request of 0 bytes gets NULL");
    torch_free(NULL, 0, 0, NULL);
    is_u64(figures_of(0).allocations, 0, "a request of 0 bytes reaches no stack and no figures");
    on_thread(allocating_thread, &passed);
    ok(all_of(passed.pointer != NULL, (uintptr_t)passed.pointer % 256 == 0, figures_of(0).live_bytes == 1000),
       "a block of another thread is a multiple of 256 and is counted");
    ok(all_of(tide_torch_base((char *)passed.pointer + 10, &bytes) == passed.pointer, bytes == 1000),
       "the base of an address within a block is the block's begin");
    ok(all_of(tide_torch_base(&bytes, &bytes) == &bytes, bytes == 0), "the base of a foreign address is itself");
    tide_torch_record_stream(passed.pointer, (void *)4);
    tide_torch_begin(0, id, NULL);
    tide_torch_end(0, id);
    tide_torch_release(0, id);
    on_thread(freeing_thread, &passed);
    figures = figures_of(0);
    ok(all_of(figures.live_bytes == 0, figures.live_count == 0, figures.frees == 1, figures.allocations == 1),
       "a block that a third thread frees is gone");
    tide_torch_reset();
    is_u64(figures_of(0).reserved_bytes, 0, "empty_cache has the pool give back what it holds");
    tide_bridge_end();
}

#define EXCHANGE_TESTS 11

/* Blocks of a former stack go back to it, and its trace is complete before that. */
static void
test_exchange(void)
{
    const char *first = scratch("first.db"), *second = scratch("second.db");
    void *kept, *freed, *later;

    use("log(%s) | limit(1MiB) | pool | host", first);
    kept = torch_alloc(5000, 0, NULL);
    freed = torch_alloc(3000, 0, NULL);
    torch_free(freed, 3000, 0, NULL);
    memset(kept, 7, 5000);
    use("log(%s) | host", second);
    later = torch_alloc(2000, 0, NULL);
    torch_free(kept, 5000, 0, NULL);
    kept = torch_alloc(4000, 0, NULL);
    ok(tide_bridge_end() == TIDE_OK, "a use ends while a block of it is outstanding");
    ok(trace_is_whole(second), "the trace of a use that has ended is whole at once");
    is_string(sql_text(second, "SELECT value FROM meta WHERE key = 'ended'"), "closed",
              "the trace of a use that has ended is closed");
    is_i64(sql_number(second, "SELECT count(*) FROM live"), 2, "its trace says what was outstanding");
    is_u64(scratch_count("second.db"), 1, "nothing lies beside the trace of a use that has ended");
    is_i64(sql_number(second, "SELECT count(*) FROM allocation"), 2, "each trace has what its own stack has given out");
    memset(later, 1, 2000);
    torch_free(later, 2000, 0, NULL);
    torch_free(kept, 4000, 0, NULL);
    is_u64(figures_of(0).live_bytes, 0, "blocks of a use that has ended go back to its stack");
    kept = torch_alloc(100, 0, NULL);
    ok(kept != NULL, "after that the former use is in use again");
    torch_free(kept, 100, 0, NULL);
    tide_bridge_end();
    ok(trace_is_whole(first), "the trace of the outer use is whole at its end");
    is_i64(sql_number(first, "SELECT count(*) FROM allocation WHERE layer_id = 1 AND free_ns IS NOT NULL"), 3,
           "frees of its blocks during the inner use are in the outer one's trace");
    ok(all_of(tide_bridge_end() == TIDE_EINVAL, strstr(tide_error_text(), "no use to end") != NULL),
       "an end without a use is refused");
}

#define CUPTI_TESTS 3

static const char *
text_of(const char *format, const char *path)
{
    static char text[4096];
    struct tide_resource *stack = NULL;

    use(format, path);
    if (tide_bridge_stack(0, &stack) == TIDE_OK)
        tide_describe(stack, text, sizeof(text), NULL);
    tide_resource_release(stack);
    tide_bridge_end();
    return text;
}

/* A profiler may want CUPTI, of which a process has one user. */
static void
test_cupti(void)
{
    const char *path = scratch("cupti.db");
    const struct tide_stack_options wrong = { TIDE_OPTIONS(wrong), .device = -1 };
    struct tide_resource *stack;

    ok(strstr(text_of("log(%s) | pool | log | host", path), "cupti=off) | pool | log | host") != NULL,
       "a log does without CUPTI behind the bridge");
    ok(strstr(text_of("log(%s, cupti=calls, overwrite=true) | host", path), "cupti=calls") != NULL,
       "a text that wants CUPTI gets it");
    ok(all_of(tide_stack_parse_with("host", &wrong, &stack) == TIDE_EINVAL, stack == NULL,
              tide_stack_parse_with("sim", NULL, &stack) == TIDE_OK),
       "a stack on a device below 0 is refused, and one without options is made");
    tide_resource_release(stack);
}

#define SAME_TESTS 6

/* One path again and again, also while blocks of the former recording live. */
static void
test_same_path(void)
{
    const char *trace = scratch("same.db");
    void *blocks[4];
    bool whole = true, counted = true;
    char again[300];

    for (int i = 0; i < 4; i++) {
        use(i == 0 ? "log(%s) | pool | host" : "log(%s, overwrite=true) | pool | host", trace);
        blocks[i] = torch_alloc(1000 + (size_t)i, 0, NULL);
        tide_bridge_end();
        whole = whole && trace_is_whole(trace);
        counted = counted && sql_number(trace, "SELECT size FROM allocation WHERE layer_id = 1") == 1000 + i;
    }
    ok(whole, "a path is recorded to again while blocks of the former recording live");
    ok(counted, "each recording has its own blocks");
    for (int i = 0; i < 4; i++)
        torch_free(blocks[i], 1000 + (size_t)i, 0, NULL);
    ok(all_of(figures_of(0).live_bytes == 0, trace_is_whole(trace)), "frees after that leave the last trace whole");
    /* A trace that an outer use records into goes on. */
    snprintf(again, sizeof(again), "log(%s, overwrite=true) | host", trace);
    use("%s", again);
    blocks[0] = torch_alloc(10, 0, NULL);
    use("log(%s) | pool | host", trace);
    blocks[1] = torch_alloc(20, 0, NULL);
    tide_bridge_end();
    ok(scratch_count("same.db") > 1, "a trace that an outer use records into goes on at the end of the inner use");
    torch_free(blocks[1], 20, 0, NULL);
    torch_free(blocks[0], 10, 0, NULL);
    tide_bridge_end();
    ok(trace_is_whole(trace), "it is whole at the end of the outer use");
    is_i64(sql_number(trace, "SELECT count(*) FROM allocation WHERE size IN (10, 20)"), 2,
           "it has the blocks of both uses");
}

#define FIGURES_TESTS 8

static void
test_figures(void)
{
    struct tide_bridge_figures outer = { TIDE_FIGURES(outer) }, inner = { TIDE_FIGURES(inner) }, all;
    void *a, *b, *c;
    int device = 3;

    use("%s", "host");
    a = torch_alloc(1000, device, NULL);
    tide_bridge_push(device);
    b = torch_alloc(500, device, NULL);
    tide_bridge_push(device);
    torch_free(a, 1000, device, NULL);
    c = torch_alloc(700, device, NULL);
    torch_free(c, 700, device, NULL);
    tide_bridge_reset_peak(device);
    ok(all_of(tide_bridge_pop(device, &inner) == TIDE_OK, inner.begin_bytes == 1500, inner.peak_bytes == 0,
              inner.live_bytes == 500, inner.allocations == 1, inner.frees == 2, inner.total_bytes == 700),
       "a phase that frees first needs nothing beyond what it began with");
    c = torch_alloc(2000, device, NULL);
    torch_free(c, 2000, device, NULL);
    ok(all_of(tide_bridge_pop(device, &outer) == TIDE_OK, outer.begin_bytes == 1000, outer.peak_bytes == 1500,
              outer.allocations == 3, outer.frees == 3, outer.total_bytes == 3200),
       "a phase has what its inner phase needed, and a reset within it does not touch it");
    all = figures_of(device);
    ok(all_of(all.peak_bytes == 2500, all.live_bytes == 500, all.allocations == 4, all.frees == 3,
              all.total_bytes == 4200),
       "the figures of the device have all phases, and its peak is that since the reset");
    tide_bridge_reset_peak(device);
    is_u64(figures_of(device).peak_bytes, 500, "after a reset the peak is what is outstanding");
    ok(all_of(tide_bridge_pop(device, NULL) == TIDE_EINVAL, strstr(tide_error_text(), "without a push") != NULL),
       "a pop without a push is refused");
    is_u64(figures_of(5).allocations, 0, "a device that was not used has figures of 0");
    torch_free(b, 500, device, NULL);
    {
        struct tide_bridge_figures unset = { 0 };

        ok(tide_bridge_read(device, &unset) == TIDE_EINVAL, "figures without their size are refused");
    }
    ok(all_of(tide_bridge_read(64, &all) == TIDE_EINVAL, strstr(tide_error_text(), "0 to 63") != NULL,
              tide_bridge_push(-1) == TIDE_EINVAL, tide_bridge_trim(64) == TIDE_EINVAL, all.live_bytes == 0),
       "a device that cannot be is refused by its bounds");
    tide_bridge_end();
}

struct lines {
    char text[400];
};

static void
add_line(void *context, const char *path, uint64_t bytes, uint64_t count)
{
    struct lines *lines = context;
    size_t length = strlen(lines->text);

    snprintf(lines->text + length, sizeof(lines->text) - length, "%s=%" PRIu64 "/%" PRIu64 " ", path, bytes, count);
}

#define LIVE_TESTS 3

static void
test_live(void)
{
    struct lines lines = { "" };
    void *blocks[5];

    use("%s", "pool | host");
    blocks[0] = torch_alloc(10, 1, NULL);
    tide_tag_push("model");
    blocks[1] = torch_alloc(300, 1, NULL);
    tide_tag_push("layer1");
    blocks[2] = torch_alloc(2000, 1, NULL);
    blocks[3] = torch_alloc(1000, 1, NULL);
    blocks[4] = torch_alloc(77, 0, NULL);
    tide_tag_pop();
    tide_tag_pop();
    tide_bridge_live(1, add_line, &lines);
    is_string(lines.text, "model/layer1=3000/2 model=300/1 =10/1 ", "what is live is listed by tag, the largest first");
    torch_free(blocks[3], 1000, 1, NULL);
    torch_free(blocks[0], 10, 1, NULL);
    torch_free(blocks[1], 300, 1, NULL);
    lines.text[0] = '\0';
    tide_bridge_live(1, add_line, &lines);
    is_string(lines.text, "model/layer1=2000/1 ", "what was freed is no longer listed, whatever the tag of its free");
    torch_free(blocks[2], 2000, 1, NULL);
    torch_free(blocks[4], 77, 0, NULL);
    ok(tide_bridge_live(1, NULL, NULL) == TIDE_EINVAL, "NULL in place of the function is refused");
    tide_bridge_end();
}

#define FRACTION_TESTS 5

static void
test_fraction(void)
{
    void *before, *block;

    use("%s", "sim(capacity=1MiB)");
    before = torch_alloc(300 << 10, 0, NULL);
    tide_bridge_fraction(0, 0.5);
    ok(all_of(tide_bridge_allocate(0, 213 << 10, 0, &block) == TIDE_ELIMIT, block == NULL,
              strstr(tide_error_text(), "memory fraction of device 0, 512 KiB (300 KiB in use)") != NULL),
       "a memory fraction counts what was outstanding before it");
    ok(tide_bridge_allocate(0, 212 << 10, 0, &block) == TIDE_OK, "a request up to the memory fraction is granted");
    torch_free(before, 300 << 10, 0, NULL);
    torch_free(block, 212 << 10, 0, NULL);
    ok(all_of(tide_bridge_allocate(0, 513 << 10, 0, &block) == TIDE_ELIMIT,
              tide_bridge_allocate(0, 512 << 10, 0, &block) == TIDE_OK),
       "frees give room back below the memory fraction");
    torch_free(block, 512 << 10, 0, NULL);
    tide_torch_fraction(1, 0);
    ok(tide_bridge_allocate(0, 1 << 20, 0, &block) == TIDE_OK, "a memory fraction of 1 is no limit");
    torch_free(block, 1 << 20, 0, NULL);
    ok(all_of(tide_bridge_fraction(0, 1.5) == TIDE_EINVAL, tide_bridge_fraction(0, -0.1) == TIDE_EINVAL,
              tide_bridge_fraction(0, 0.0 / strlen("")) == TIDE_EINVAL),
       "a memory fraction outside of 0 to 1 is refused");
    tide_bridge_end();
}

/* The runtime of a sanitizer may bring the C++ library along: then there is something to throw. */
static bool
is_plain_c(void)
{
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);

    if (library != NULL)
        dlclose(library);
    return library == NULL;
}

/* A refusal in a program in C, which tests/bridge-raise-t.sh is not. */
static void
test_null(int device, size_t bytes, const char *words, const char *sentence)
{
    struct heard heard = { 0 };

    if (!is_plain_c()) {
        skip(1, "the program has the C++ library");
        return;
    }
    hear(&heard);
    ok(all_of(torch_alloc(bytes, device, NULL) == NULL, hear_count(&heard) == 1,
              strncmp(heard.text, words, strlen(words)) == 0),
       "%s", sentence);
    hear(NULL);
}

#define REFUSAL_TESTS 11

static void
test_refusals(void)
{
    struct tide_bridge_block found = { TIDE_FIGURES(found) };
    struct heard heard = { 0 };
    void *block = &heard;

    ok(all_of(tide_bridge_use("limit(1XB) | host") == TIDE_ESYNTAX, tide_bridge_end() == TIDE_EINVAL),
       "a wrong text is refused at once, and nothing is in use then");
    setenv("TIDEMARK_STACK", "limt(1MiB) | host", 1);
    ok(all_of(tide_bridge_use(NULL) == TIDE_ESYNTAX, strncmp(tide_error_text(), "TIDEMARK_STACK: ", 16) == 0),
       "a wrong text of the environment is refused under the variable's name");
    ok(all_of(tide_bridge_allocate(9, 10, 0, &block) == TIDE_ESYNTAX, block == NULL,
              strstr(tide_error_text(), "device 9: TIDEMARK_STACK: ") != NULL),
       "without a use the first allocation reports a wrong text of the environment");
    setenv("TIDEMARK_STACK", "limit(1MiB) | host", 1);
    ok(all_of(tide_bridge_allocate(9, 10, 0, &block) == TIDE_OK,
              tide_bridge_allocate(9, 2 << 20, 0, &(void *){ NULL }) == TIDE_ELIMIT, figures_of(9).failures == 2),
       "a text of the environment that was mended is taken by the next allocation");
    ok(all_of(tide_bridge_use("pool | host") == TIDE_OK, tide_bridge_use(NULL) == TIDE_OK,
              tide_bridge_allocate(9, 2 << 20, 0, &(void *){ NULL }) == TIDE_ELIMIT, tide_bridge_end() == TIDE_OK,
              tide_bridge_end() == TIDE_OK),
       "a use of NULL takes the text of the environment");
    unsetenv("TIDEMARK_STACK");
    test_null(9, 2 << 20, "CUDA out of memory. limit: 2 MiB request exceeds 1 MiB limit",
              "where nothing can be raised a refusal is NULL, and the message sink hears PyTorch's words and ours");
    hear(&heard);
    torch_free(&heard, 1, 9, NULL);
    ok(all_of(hear_count(&heard) == 1, strstr(heard.text, "no live block") != NULL),
       "a free of a foreign address is told to the message sink");
    hear(NULL);
    torch_free(block, 10, 9, NULL);
    ok(all_of(tide_bridge_deallocate(block, 0) == TIDE_EPOINTER, tide_bridge_record_stream(block, 1) == TIDE_EPOINTER,
              tide_bridge_find(block, &found) == TIDE_EPOINTER, found.base == NULL),
       "a block that was freed is unknown from then on");
    ok(all_of(tide_bridge_allocate(0, 1, TIDE_STREAM_ALL, &block) == TIDE_EINVAL,
              tide_bridge_allocate(0, 1, 0, NULL) == TIDE_EINVAL, tide_bridge_stack(0, NULL) == TIDE_EINVAL,
              tide_bridge_allocate(-1, 1, 0, &block) == TIDE_EINVAL),
       "wrong arguments are refused");
    use("log(%s) | host", "/nonexistent/folder/x.db");
    ok(all_of(tide_bridge_allocate(0, 1, 0, &block) == TIDE_EIO, strstr(tide_error_text(), "device 0: ") != NULL),
       "a stack that cannot be made refuses each allocation, and names the device");
    test_null(0, 1, "tidemark: bridge: device 0: ", "what is no lack of memory does not say so");
    tide_bridge_end();
}

static int
child_goes_on(void *block)
{
    void *own = torch_alloc(100, 0, NULL);
    bool right = own != NULL && figures_of(0).live_bytes == 1100;

    torch_free(block, 1000, 0, NULL);
    torch_free(own, 100, 0, NULL);
    right = right && figures_of(0).live_bytes == 0 && tide_bridge_end() == TIDE_OK;
    right = right && tide_bridge_use("pool | host") == TIDE_OK && torch_alloc(5, 0, NULL) != NULL;
    return right ? 0 : 1;
}

static void *exit_block;

static void
free_at_exit(void)
{
    torch_free(exit_block, 1000, 0, NULL);
}

/* Frees from a handler that runs after all others, and from one that runs after the library's destructor. */
static int
child_exits(const char *trace)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        atexit(free_at_exit);
        use("log(%s) | pool | host", trace);
        exit_block = torch_alloc(1000, 0, NULL);
        exit(exit_block != NULL ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    return status;
}

#define PROCESS_TESTS 3

static void
test_processes(void)
{
    const char *trace = scratch("exit.db");
    void *block;

    use("%s", "pool | host");
    block = torch_alloc(1000, 0, NULL);
    if (CHILDREN_MAY_RECORD)
        ok(in_child(child_goes_on, block) == 0, "a child of fork() frees its parent's block, and goes on by itself");
    else
        skip(1, "ThreadSanitizer follows no child");
    torch_free(block, 1000, 0, NULL);
    tide_bridge_end();
    if (CHILDREN_MAY_RECORD) {
        ok(child_exits(trace) == 0, "a block is freed after exit() has begun");
        is_i64(sql_number(trace, "SELECT count(*) FROM allocation WHERE size = 1000"), 1,
               "the trace of a program that frees at exit() is there");
    } else {
        skip(2, "ThreadSanitizer follows no child");
    }
}

/* Random requests of several threads, while uses begin and end, against what each thread knows of its own blocks. */
#define THREADS 6
#define STEPS   20000
#define HELD    64

struct worker {
    pthread_t thread;
    uint64_t state;
    uint64_t allocations, frees, bytes, wrong;
    _Atomic bool *stop;
    struct {
        unsigned char *pointer;
        size_t bytes;
        int device;
        unsigned char mark;
    } held[HELD];
};

static bool
worker_holds(const struct worker *worker, int i)
{
    struct tide_bridge_block found = { TIDE_FIGURES(found) };
    const unsigned char *pointer = worker->held[i].pointer;

    return pointer[0] == worker->held[i].mark && pointer[worker->held[i].bytes - 1] == worker->held[i].mark &&
           tide_bridge_find(pointer, &found) == TIDE_OK && found.base == pointer &&
           found.bytes == worker->held[i].bytes && found.device == worker->held[i].device;
}

static void
worker_free(struct worker *worker, int i)
{
    worker->wrong += !worker_holds(worker, i);
    torch_free(worker->held[i].pointer, worker->held[i].bytes, worker->held[i].device, NULL);
    worker->held[i].pointer = NULL;
    worker->frees++;
}

static void *
worker_main(void *argument)
{
    struct worker *worker = argument;

    for (int step = 0; step < STEPS; step++) {
        uint64_t random = next_random(&worker->state);
        int i = (int)(random % HELD);

        if (worker->held[i].pointer != NULL) {
            if ((random >> 20) % 8 == 0)
                tide_bridge_record_stream(worker->held[i].pointer, 1 + (random >> 24) % 3);
            worker_free(worker, i);
            continue;
        }
        worker->held[i].bytes = 1 + (random >> 8) % 5000;
        worker->held[i].device = (int)((random >> 30) % 2);
        worker->held[i].mark = (unsigned char)(random >> 40);
        worker->held[i].pointer = torch_alloc(worker->held[i].bytes, worker->held[i].device, NULL);
        worker->held[i].pointer[0] = worker->held[i].pointer[worker->held[i].bytes - 1] = worker->held[i].mark;
        worker->allocations++;
        worker->bytes += worker->held[i].bytes;
    }
    for (int i = 0; i < HELD; i += 2)
        if (worker->held[i].pointer != NULL)
            worker_free(worker, i);
    return NULL;
}

#define RANDOM_TESTS 6

static void
test_random(void)
{
    static const char *const texts[] = { "host", "pool | host", "statistics | fixed(8KiB) | host",
                                         "track | pool | host" };
    uint64_t seed = random_seed("BRIDGE_SEED"), state = seed | 1;
    struct tide_bridge_figures before[2] = { figures_of(0), figures_of(1) };
    struct worker *workers = calloc(THREADS, sizeof(*workers));
    uint64_t allocations = 0, frees = 0, bytes = 0, wrong = 0, live = 0;
    int depth = 0, ended = 0;

    use("%s", "pool | host");
    for (int i = 0; i < THREADS; i++) {
        workers[i].state = (seed + (uint64_t)i) * 0x9e3779b97f4a7c15u | 1;
        pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);
    }
    for (int i = 0; i < 60; i++) {
        uint64_t random = next_random(&state);

        if (depth > 0 && random % 2 == 0) {
            ended += tide_bridge_end() == TIDE_OK;
            depth--;
        } else if (random % 7 == 0) {
            use("log(%s) | pool | host", scratch("random-%d.db", i));
            depth++;
        } else {
            use("%s", texts[random / 7 % 4]);
            depth++;
        }
        usleep(1000);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (; depth > 0; depth--)
        tide_bridge_end();
    ok(ended > 0, "uses have ended while threads allocated");
    for (int i = 0; i < THREADS; i++) {
        allocations += workers[i].allocations;
        bytes += workers[i].bytes;
        for (int k = 0; k < HELD; k++)
            if (workers[i].held[k].pointer != NULL)
                live += workers[i].held[k].bytes;
    }
    is_u64(figures_of(0).live_bytes + figures_of(1).live_bytes - before[0].live_bytes - before[1].live_bytes, live,
           "what is outstanding after random requests of many threads is exact");
    for (int i = 0; i < THREADS; i++) {
        for (int k = 0; k < HELD; k++)
            if (workers[i].held[k].pointer != NULL)
                worker_free(&workers[i], k);
        frees += workers[i].frees;
        wrong += workers[i].wrong;
    }
    is_u64(wrong, 0, "each block kept its content and was found as it was requested, whatever use had ended");
    ok(all_of(figures_of(0).allocations + figures_of(1).allocations - before[0].allocations - before[1].allocations ==
                  allocations,
              figures_of(0).total_bytes + figures_of(1).total_bytes - before[0].total_bytes - before[1].total_bytes ==
                  bytes,
              allocations == frees),
       "the totals after random requests are exact");
    is_u64(figures_of(0).live_bytes + figures_of(1).live_bytes, before[0].live_bytes + before[1].live_bytes,
           "nothing is outstanding after the last free");
    tide_bridge_end();
    ok(figures_of(0).reserved_bytes + figures_of(1).reserved_bytes == 0,
       "stacks of ended uses are gone with their last blocks");
    free(workers);
}

int
main(void)
{
    unsetenv("TIDEMARK_STACK");
    plan(ABI_TESTS + EXCHANGE_TESTS + CUPTI_TESTS + SAME_TESTS + FIGURES_TESTS + LIVE_TESTS + FRACTION_TESTS +
         REFUSAL_TESTS + PROCESS_TESTS + RANDOM_TESTS);
    test_abi();
    test_exchange();
    test_cupti();
    test_same_path();
    test_figures();
    test_live();
    test_fraction();
    test_refusals();
    test_processes();
    test_random();
    return done();
}
