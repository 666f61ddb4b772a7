/*
 * Measures what two builds of the library cost the thread that allocates, in turns in one process, over a base that
 * does nothing, which is no layer of the library, and over `sim`, which is one. The second build is loaded twice: what
 * its copies differ by is the floor.
 *
 * Usage: bench/builds BEFORE AFTER [JSON-FILE]. BEFORE and AFTER are shared libraries. The time is each thread's time
 * on a processor. Writes its traces into the current directory and removes them.
 */
#include "config.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "bench.h"

enum { BUILD_BEFORE, BUILD_AFTER, BUILD_COPY, BUILDS };

#define BUILDS_COPY    "bench-builds-copy.so"
#define BUILDS_PAIRS   4096
#define BUILDS_TURNS   150
#define BUILDS_PAUSE   2000000
#define BUILDS_THREADS 16

/* What is called of one build. */
struct build {
    struct tide_resource_ops ops; /* of the base */
    enum tide_status (*resource_init)(struct tide_resource *, const struct tide_resource_ops *, struct tide_resource *);
    void (*resource_release)(struct tide_resource *);
    enum tide_status (*allocate)(struct tide_resource *, size_t, size_t, tide_stream, void **);
    enum tide_status (*deallocate)(struct tide_resource *, void *, size_t, size_t, tide_stream);
    enum tide_status (*log_create)(struct tide_resource *, const struct tide_log_options *, struct tide_resource **);
    enum tide_status (*limit_create)(struct tide_resource *, const struct tide_limit_options *,
                                     struct tide_resource **);
    enum tide_status (*statistics_create)(struct tide_resource *, const struct tide_statistics_options *,
                                          struct tide_resource **);
    enum tide_status (*stack_parse)(const char *, struct tide_resource **);
    struct tide_resource *stack;
};

static struct build builds[BUILDS];

/* Nanoseconds for a pair, of each build, thread and turn; and how many rounds each thread has made. */
static double pair_ns[BUILDS][BUILDS_THREADS][BUILDS_TURNS];
static unsigned rounds_made[BUILDS_THREADS];

static enum tide_status
nothing_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)self, (void)bytes, (void)alignment;
    *out = (void *)(uintptr_t)(0x100000 + (stream << 12));
    return TIDE_OK;
}

static enum tide_status
nothing_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    (void)self, (void)pointer, (void)bytes, (void)alignment, (void)stream;
    return TIDE_OK;
}

static void
nothing_destroy(struct tide_resource *self)
{
    free(self);
}

static void
builds_fail(const char *what)
{
    fprintf(stderr, "bench/builds: %s\n", what);
    exit(1);
}

/* Set the function pointer at `place`. */
static void
builds_find(void *library, const char *name, void *place)
{
    void *function = dlsym(library, name);

    if (function == NULL)
        builds_fail(dlerror());
    memcpy(place, &function, sizeof(function));
}

static void
builds_load(struct build *build, const char *path)
{
    /* Each build calls itself, not the library that this program is linked with. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);

    if (library == NULL)
        builds_fail(dlerror());
    build->ops = (struct tide_resource_ops){ .version = TIDE_RESOURCE_OPS_VERSION,
                                             .name = "nothing",
                                             .allocate = nothing_allocate,
                                             .deallocate = nothing_deallocate,
                                             .destroy = nothing_destroy };
    builds_find(library, "tide_base_order", &build->ops.order);
    builds_find(library, "tide_base_trim", &build->ops.trim);
    builds_find(library, "tide_base_query", &build->ops.query);
    builds_find(library, "tide_pass_describe", &build->ops.describe);
    builds_find(library, "tide_base_upstream_at", &build->ops.upstream_at);
    builds_find(library, "tide_resource_init", &build->resource_init);
    builds_find(library, "tide_resource_release", &build->resource_release);
    builds_find(library, "tide_allocate", &build->allocate);
    builds_find(library, "tide_deallocate", &build->deallocate);
    builds_find(library, "tide_log_create", &build->log_create);
    builds_find(library, "tide_limit_create", &build->limit_create);
    builds_find(library, "tide_statistics_create", &build->statistics_create);
    builds_find(library, "tide_stack_parse", &build->stack_parse);
}

/* A library that is loaded twice under one name is one library. */
static void
builds_copy(const char *from)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        execlp("cp", "cp", "-L", "--", from, BUILDS_COPY, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        builds_fail("the library cannot be copied into this folder");
}

static double
thread_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* All threads are in the same build at a time; which one comes first changes from turn to turn. */
static double
builds_round(void *context, unsigned thread)
{
    unsigned round = rounds_made[thread]++, turn = round / BUILDS, which = (round + turn) % BUILDS;
    const struct build *build = &builds[which];
    double begin = thread_ns();
    void *pointer;

    (void)context;
    for (unsigned i = 0; i < BUILDS_PAIRS; i++) {
        if (build->allocate(build->stack, 4096, 256, thread, &pointer) != TIDE_OK ||
            build->deallocate(build->stack, pointer, 4096, 256, thread) != TIDE_OK)
            builds_fail("a call failed");
    }
    return pair_ns[which][thread][turn] = (thread_ns() - begin) / BUILDS_PAIRS;
}

/* Put another layer on top; 'g': log, 's': statistics, 'l': limit. */
static void
builds_push(struct build *build, char layer, const char *trace)
{
    struct tide_log_options log = { TIDE_OPTIONS(log), .path = trace, .overwrite = true };
    struct tide_limit_options limit = { TIDE_OPTIONS(limit), .limit_bytes = UINT64_MAX / 2 };
    struct tide_resource *next = NULL;
    enum tide_status status = layer == 'g'   ? build->log_create(build->stack, &log, &next)
                              : layer == 's' ? build->statistics_create(build->stack, NULL, &next)
                                             : build->limit_create(build->stack, &limit, &next);

    if (status != TIDE_OK)
        builds_fail("a layer cannot be made");
    build->resource_release(build->stack);
    build->stack = next;
}

/* The median of a build's nanoseconds; or of their ratio to those of `beside` in the same turn, if that is a build. */
static double
builds_median(unsigned build, unsigned beside, unsigned threads)
{
    static double values[BUILDS_THREADS * BUILDS_TURNS];
    size_t count = 0;

    /* The first turns have new rings and pages. */
    for (unsigned thread = 0; thread < threads; thread++) {
        for (unsigned turn = BUILDS_TURNS / 10; turn < BUILDS_TURNS; turn++)
            values[count++] = pair_ns[build][thread][turn] / (beside < BUILDS ? pair_ns[beside][thread][turn] : 1);
    }
    return bench_median(values, count);
}

/* The base of the stack; `text` names a layer of the library, NULL: the base that does nothing. */
static void
builds_base(struct build *build, const char *text)
{
    enum tide_status status;

    if (text != NULL) {
        status = build->stack_parse(text, &build->stack);
    } else {
        build->stack = calloc(1, sizeof(*build->stack));
        if (build->stack == NULL)
            builds_fail("no memory");
        status = build->resource_init(build->stack, &build->ops, NULL);
    }
    if (status != TIDE_OK)
        builds_fail("no base");
}

static void
builds_measure(const char *name, const char *base, const char *layers, unsigned threads)
{
    char text[96], trace[32];

    for (unsigned i = 0; i < BUILDS; i++) {
        builds_base(&builds[i], base);
        snprintf(trace, sizeof(trace), "bench-builds-%u.db", i);
        for (const char *layer = layers; *layer != '\0'; layer++)
            builds_push(&builds[i], *layer, trace);
    }
    memset(rounds_made, 0, sizeof(rounds_made));
    bench_threads(threads, BUILDS * BUILDS_TURNS, strchr(layers, 'g') != NULL ? BUILDS_PAUSE : 0, builds_round, NULL);
    for (unsigned i = 0; i < BUILDS; i++) {
        builds[i].resource_release(builds[i].stack);
        snprintf(trace, sizeof(trace), "bench-builds-%u.db", i);
        unlink(trace);
    }
    snprintf(text, sizeof(text), "%s, before", name);
    bench_report(text, threads, builds_median(BUILD_BEFORE, BUILDS, threads), "ns/pair", 0, NULL);
    snprintf(text, sizeof(text), "%s, after", name);
    bench_report(text, threads, builds_median(BUILD_AFTER, BUILDS, threads), "ns/pair", 0, NULL);
    snprintf(text, sizeof(text), "%s, after over before", name);
    bench_report(text, threads, 100 * builds_median(BUILD_AFTER, BUILD_BEFORE, threads), "%", 0, NULL);
    bench_report("floor: a copy of after over after", threads, 100 * builds_median(BUILD_COPY, BUILD_AFTER, threads),
                 "%", 0, NULL);
}

int
main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench/builds BEFORE AFTER [JSON-FILE]\n");
        return 2;
    }
    builds_copy(argv[2]);
    builds_load(&builds[BUILD_BEFORE], argv[1]);
    builds_load(&builds[BUILD_AFTER], argv[2]);
    builds_load(&builds[BUILD_COPY], "./" BUILDS_COPY);
    unlink(BUILDS_COPY);
    bench_begin("builds");
    for (unsigned threads = 1; threads <= BUILDS_THREADS; threads *= BUILDS_THREADS) {
        builds_measure("base that does nothing", NULL, "", threads);
        builds_measure("log", NULL, "g", threads);
        builds_measure("statistics | limit", NULL, "ls", threads);
        builds_measure("log | statistics | limit", NULL, "lsg", threads);
        builds_measure("statistics | limit | sim", "sim", "ls", threads);
    }
    bench_end(argc > 3 ? argv[3] : NULL);
    return 0;
}
