/*
 * Tests calls from signal handlers: that have interrupted another call of their thread, at each place inside, and in
 * storms of signals over all adaptors, with exact books at the end; and that a process which is killed in such a storm
 * leaves every call that had returned.
 *
 * SIGNAL_SECONDS in the environment makes each storm that long; else it ends after some thousand signals.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "src/resource/kind.h"
#include "src/sync/testpoint.h"
#include "tap.h"
#include "trace.h"

#if SANITIZED_THREAD
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

/* These handlers have interrupted neither malloc nor anything else that takes locks but the library. */
const char *
__tsan_default_options(void)
{
    return "report_signal_unsafe=0";
}
#endif

#define ALIGNMENT TIDE_DEFAULT_ALIGNMENT
#define BYTES     700
#define PUT_OFF   100 /* frees that are put off until the end of one call */

/* Places inside: a signal is raised at every test point that a call comes to, each time. */

#define PLACES_MOST 64
#define HELD_MOST   8

static struct {
    struct tide_resource *stack;
    struct tide_resource own; /* a base that the program brings */
    bool armed;               /* raise the signal at test points of this thread */
    pthread_t thread;
    const char *places[PLACES_MOST]; /* those that the handler has been at */
    size_t place_count;
    void *held[HELD_MOST]; /* blocks that the handler may free, one at a time */
    size_t held_count;
    uint64_t signals, wrong;
    uint64_t put_off;
} scene;

static void
scene_note(bool right)
{
    scene.wrong += !right;
}

static enum tide_status
scene_own_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    (void)self, (void)bytes, (void)alignment, (void)stream;
    *out = &scene;
    return TIDE_OK;
}

static enum tide_status
scene_own_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    (void)self, (void)pointer, (void)bytes, (void)alignment, (void)stream;
    return TIDE_OK;
}

static void
scene_own_destroy(struct tide_resource *self)
{
    tide_resource_fini(self);
}

static const struct tide_resource_ops scene_own_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "own",
    .allocate = scene_own_allocate,
    .deallocate = scene_own_deallocate,
    .order = tide_base_order,
    .trim = tide_base_trim,
    .query = tide_base_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = scene_own_destroy,
};

/* All that a handler may call, each of which finds that it has interrupted a call. */
static void
scene_handle(int signal)
{
    const char *words = tide_error_text();
    int saved = errno = 4711;
    void *block = &block;

    (void)signal, (void)words;
    scene_note(tide_allocate(scene.stack, BYTES, ALIGNMENT, 0, &block) == TIDE_ESIGNAL && block == NULL);
    block = &block;
    scene_note(tide_allocate(&scene.own, BYTES, ALIGNMENT, 0, &block) == TIDE_ESIGNAL && block == NULL);
    scene_note(tide_tag_push("handler") == TIDE_ESIGNAL);
    tide_tag_pop();
    scene_note(tide_mark("handler") == TIDE_ESIGNAL);
    if (scene.held_count > 0) {
        scene_note(tide_deallocate(scene.stack, scene.held[--scene.held_count], BYTES, ALIGNMENT, 0) == TIDE_OK);
        scene.put_off++;
    }
    scene_note(errno == saved);
    scene.signals++;
}

static void
scene_point(const char *label)
{
    size_t i = 0;

    if (!pthread_equal(pthread_self(), scene.thread) || !scene.armed)
        return;
    while (i < scene.place_count && strcmp(scene.places[i], label) != 0)
        i++;
    if (i == scene.place_count && i < PLACES_MOST)
        scene.places[scene.place_count++] = label;
    scene.armed = false; /* what the interrupted call does for the handler comes to test points, too */
    raise(SIGUSR1);
    scene.armed = true;
}

static bool
scene_has_been_at(const char *label)
{
    for (size_t i = 0; i < scene.place_count; i++) {
        if (strcmp(scene.places[i], label) == 0)
            return true;
    }
    return false;
}

#if !SANITIZED
/* The heap below the library: the base `host` comes here. */
int
posix_memalign(void **out, size_t alignment, size_t bytes)
{
    scene_point("posix_memalign");
    *out = aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
    return *out != NULL ? 0 : ENOMEM;
}
#endif

static void
on_signal(int signal, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

    sigaction(signal, &action, NULL);
}

/* The texts of the stacks: each adaptor is in one of them. %s is the path of a trace. */
static const char *const texts[] = {
    "host",
    "sim",
    "sim(model=vmm)",
    "aligned(512) | host",
    "arena | host",
    "binning(64..4KiB) | host",
    "fallback({limit(8KiB) | host}) | host",
    "fault(nth=1000000000) | host",
    "fixed(8KiB) | host",
    "guard | host",
    "limit(64MiB) | host",
    "log(%s, overwrite) | host",
    "log(%s, overwrite, samples=every) | pool | log | sim",
    "log(%s, overwrite, callstack=8) | sim",
    "log(%s, overwrite, clock=monotonic) | track | sim(model=vmm)",
    "monotonic(64KiB) | host",
    "pool | host",
    "pool | sim(model=vmm)",
    "retry | limit(64MiB) | sim",
    "statistics(tags) | host",
    "statistics as top | limit(64MiB) | host",
    "track(callstack=8) | host",
    "log(%s, overwrite) | statistics | limit(64MiB) | pool | host",
};

#define TEXT_COUNT (sizeof(texts) / sizeof(texts[0]))

static const char *
text_path(size_t index)
{
    return scratch("storm-%zu.db", index);
}

static bool
text_records(size_t index)
{
    return strstr(texts[index], "%s") != NULL;
}

static struct tide_resource *
text_stack(size_t index)
{
    char text[512];
    struct tide_resource *stack;

    snprintf(text, sizeof(text), texts[index], text_path(index));
    if (tide_stack_parse(text, &stack) == TIDE_OK)
        return stack;
    diag("%s: %s", text, tide_error_text());
    return NULL;
}

/* Whether a layer keeps blocks of the one below after their frees, whatever is trimmed. */
static bool
text_keeps(size_t index)
{
    return strstr(texts[index], "guard") != NULL || strstr(texts[index], "monotonic") != NULL;
}

/* Whether nothing is outstanding in any layer of the stack. */
static bool
books_are_even(struct tide_resource *layer)
{
    struct tide_statistics_figures statistics = { TIDE_FIGURES(statistics) };
    struct tide_limit_figures limit = { TIDE_FIGURES(limit) };
    struct tide_upstream below;
    uint64_t used = 0;
    bool even = true;

    if (strcmp(tide_resource_name(layer), "pool") == 0 || strcmp(tide_resource_name(layer), "track") == 0 ||
        strcmp(tide_resource_name(layer), "log") == 0)
        even = tide_query(layer, TIDE_QUERY_BYTES_USED, &used) != TIDE_OK || used == 0 || layer->upstream != NULL;
    if (tide_limit_read(layer, &limit) == TIDE_OK)
        even = even && limit.used_bytes == 0 && limit.used_count == 0;
    if (tide_statistics_read(layer, &statistics) == TIDE_OK)
        even = even && statistics.bytes.current == 0 && statistics.count.current == 0;
    for (size_t i = 0; layer->ops->upstream_at(layer, i, &below) == TIDE_OK; i++)
        even = books_are_even(below.resource) && even;
    if (layer->upstream == NULL)
        even = even && (tide_query(layer, TIDE_QUERY_BYTES_USED, &used) != TIDE_OK || used == 0);
    return even;
}

#define PLACE_TESTS 6

static void
test_places(void)
{
    struct tide_interrupted_figures before = { TIDE_FIGURES(before) }, after = { TIDE_FIGURES(after) };
    uint64_t failures = 0;
    bool even = true;

    on_signal(SIGUSR1, scene_handle);
    scene.thread = pthread_self();
    tide_resource_init(&scene.own, &scene_own_ops, NULL);
    tide_interrupted_read(&before);
    atomic_store(&tidei_test_point, scene_point);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        void *blocks[4];

        scene.stack = text_stack(i);
        if (scene.stack == NULL)
            continue;
        for (int round = 0; round < 6; round++) {
            for (scene.held_count = 0; scene.held_count < HELD_MOST; scene.held_count++)
                scene.held[scene.held_count] = take(scene.stack, BYTES);
            scene.armed = true;
            for (size_t j = 0; j < 4; j++)
                failures += tide_allocate(scene.stack, BYTES << j, ALIGNMENT, 0, &blocks[j]) != TIDE_OK;
            for (size_t j = 0; j < 4; j++)
                failures += tide_deallocate(scene.stack, blocks[j], BYTES << j, ALIGNMENT, 0) != TIDE_OK;
            failures += tide_trim(scene.stack, 0) != TIDE_OK;
            scene.armed = false;
            while (scene.held_count > 0)
                give(scene.stack, scene.held[--scene.held_count], BYTES);
        }
        tide_trim(scene.stack, 0);
        if (!text_keeps(i) && !books_are_even(scene.stack)) {
            diag("bytes stay in use: %s", texts[i]);
            even = false;
        }
        tide_resource_release(scene.stack);
    }
    atomic_store(&tidei_test_point, NULL);
    tide_interrupted_read(&after);
    for (size_t i = 0; i < scene.place_count; i++)
        diag("signal at %s", scene.places[i]);
    ok(failures == 0, "calls that a signal handler interrupts at each test point succeed");
    ok(all_of(scene.wrong == 0, scene.signals > 100), "within a call, a handler's calls are refused or put off");
    ok(even, "nothing stays in use after frees that were put off");
    ok(all_of(scene_has_been_at("producer.open"), scene_has_been_at("producer.before-publish"),
              scene_has_been_at("producer.before-close"), scene_has_been_at("lock.busy"),
              scene_has_been_at("slot.busy")),
       "signals came within a record, a biased lock and a slot");
    ok(SANITIZED || scene_has_been_at("posix_memalign"), "signals came within the heap below the library");
    ok(all_of(after.deferred - before.deferred == scene.put_off, after.refused - before.refused == 5 * scene.signals,
              after.failed == before.failed),
       "calls that were refused or put off are counted");
}

#define ABOVE_TESTS 5

/* Calls that a resource of the program's passes on, beside allocations and frees. */
static enum tide_status
above_trim(struct tide_resource *above)
{
    return tide_trim(above, 0);
}

static enum tide_status
above_query(struct tide_resource *above)
{
    uint64_t figure;

    return tide_query(above, TIDE_QUERY_LARGEST_FREE, &figure);
}

static enum tide_status
above_order(struct tide_resource *above)
{
    return tide_order(above, TIDE_STREAM_ALL, 0);
}

/* A handler comes at each test point of a call that is passed on. */
static void
test_passed_on(struct tide_resource *above, enum tide_status (*call)(struct tide_resource *above), const char *what)
{
    uint64_t failures = 0, signals = scene.signals;

    scene.wrong = 0;
    for (int i = 0; i < 20; i++) {
        for (scene.held_count = 0; scene.held_count < HELD_MOST; scene.held_count++)
            scene.held[scene.held_count] = take(above, BYTES);
        give(above, take(above, BYTES), BYTES); /* something to trim */
        scene.armed = true;
        failures += call(above) != TIDE_OK;
        scene.armed = false;
        while (scene.held_count > 0)
            give(above, scene.held[--scene.held_count], BYTES);
    }
    ok(all_of(failures == 0, scene.wrong == 0, scene.signals > signals),
       "within %s that a resource of the program's passes on, a handler's calls are refused or put off", what);
}

/* A resource of the program's on top passes on: what it calls is a call from outside. */
static void
test_above(void)
{
    static const struct tide_resource_ops above_ops = {
        .version = TIDE_RESOURCE_OPS_VERSION,
        .name = "above",
        .allocate = tide_pass_allocate,
        .deallocate = tide_pass_deallocate,
        .order = tide_pass_order,
        .trim = tide_pass_trim,
        .query = tide_pass_query,
        .describe = tide_pass_describe,
        .upstream_at = tide_pass_upstream_at,
        .destroy = tide_resource_fini,
    };
    struct tide_resource *below = stack_of("log(%s, overwrite) | limit(64MiB) | pool | host", scratch("above.db"));
    uint64_t failures = 0, signals = scene.signals;
    struct tide_resource above;
    bool even;

    scene.wrong = 0;
    tide_resource_init(&above, &above_ops, below);
    scene.stack = &above;
    atomic_store(&tidei_test_point, scene_point);
    for (int i = 0; i < 20; i++) {
        void *block;

        for (scene.held_count = 0; scene.held_count < HELD_MOST; scene.held_count++)
            scene.held[scene.held_count] = take(&above, BYTES);
        scene.armed = true;
        failures += tide_allocate(&above, BYTES, ALIGNMENT, 0, &block) != TIDE_OK;
        failures += tide_deallocate(&above, block, BYTES, ALIGNMENT, 0) != TIDE_OK;
        scene.armed = false;
        while (scene.held_count > 0)
            give(&above, scene.held[--scene.held_count], BYTES);
    }
    ok(all_of(failures == 0, scene.wrong == 0, scene.signals - signals > 100),
       "below a resource of the program's, a handler's calls are refused or put off");
    test_passed_on(&above, above_trim, "a trim");
    test_passed_on(&above, above_query, "a query");
    test_passed_on(&above, above_order, "an order");
    atomic_store(&tidei_test_point, NULL);
    tide_trim(below, 0);
    even = books_are_even(below);
    tide_resource_release(&above);
    tide_resource_release(below);
    ok(even, "nothing stays in use below a resource of the program's after frees that were put off");
}

#define BRIDGE_TESTS 2

/* Calls of the bridge are calls of the library, too. */
static void
test_bridge(void)
{
    uint64_t failures = 0, before = scene.signals;
    char text[512];
    bool even;

    on_signal(SIGUSR1, scene_handle);
    scene.wrong = 0;
    scene.held_count = 0;
    snprintf(text, sizeof(text), "log(%s, overwrite) | pool | host", scratch("bridge.db"));
    if (tide_bridge_use(text) != TIDE_OK || tide_bridge_stack(0, &scene.stack) != TIDE_OK) {
        diag("%s: %s", text, tide_error_text());
        exit(1);
    }
    atomic_store(&tidei_test_point, scene_point);
    for (int i = 0; i < 20; i++) {
        void *block;

        while (scene.held_count < HELD_MOST)
            scene.held[scene.held_count++] = take(scene.stack, BYTES);
        scene.armed = true;
        failures += tide_bridge_allocate(0, BYTES, 0, &block) != TIDE_OK;
        failures += tide_bridge_deallocate(block, 0) != TIDE_OK;
        failures += tide_bridge_trim(0) != TIDE_OK;
        scene.armed = false;
    }
    atomic_store(&tidei_test_point, NULL);
    while (scene.held_count > 0)
        give(scene.stack, scene.held[--scene.held_count], BYTES);
    even = books_are_even(scene.stack);
    failures += tide_bridge_end() != TIDE_OK;
    tide_resource_release(scene.stack);
    ok(all_of(failures == 0, scene.wrong == 0, scene.signals - before > 100),
       "within a call of the bridge, a handler's calls are refused or put off");
    ok(even, "nothing stays in use after frees that were put off within calls of the bridge");
}

/* What the list of frees that were put off holds. */

static struct {
    struct tide_resource *stack;
    void *blocks[PUT_OFF + 1];
    enum tide_status statuses[PUT_OFF + 1];
    bool wrong_free; /* free an address that was not given out, instead */
    char words[TIDE_ERROR_TEXT_BYTES];
    bool done;
} full;

static void
full_handle(int signal)
{
    (void)signal;
    for (size_t i = 0; i <= PUT_OFF && !full.wrong_free; i++)
        full.statuses[i] = tide_deallocate(full.stack, full.blocks[i], BYTES, ALIGNMENT, 0);
    if (full.wrong_free)
        full.statuses[0] = tide_deallocate(full.stack, (void *)(uintptr_t)0xabc000, BYTES, ALIGNMENT, 0);
}

static void
full_point(const char *label)
{
    if (!pthread_equal(pthread_self(), scene.thread) || full.done || strcmp(label, "lock.busy") != 0)
        return;
    full.done = true;
    raise(SIGUSR1);
}

/* One pair whose allocation is interrupted. */
static void
full_pair(void)
{
    void *block;

    full.done = false;
    atomic_store(&tidei_test_point, full_point);
    block = take(full.stack, BYTES);
    atomic_store(&tidei_test_point, NULL);
    give(full.stack, block, BYTES);
}

static uint64_t
live_count(struct tide_resource *stack)
{
    struct tide_limit_figures figures = { TIDE_FIGURES(figures) };

    return tide_limit_read(stack, &figures) == TIDE_OK ? figures.used_count : UINT64_MAX;
}

#define FULL_TESTS 4

static void
test_full(void)
{
    struct tide_interrupted_figures before = { TIDE_FIGURES(before) }, after = { TIDE_FIGURES(after) };
    struct heard heard;
    size_t put_off = 0;

    on_signal(SIGUSR1, full_handle);
    full.stack = stack_of("limit(1GiB) | fixed(8KiB) | sim");
    for (size_t i = 0; i <= PUT_OFF; i++)
        full.blocks[i] = take(full.stack, BYTES);
    tide_error_set(TIDE_EINVAL, "the program's own words");
    full_pair();
    while (put_off <= PUT_OFF && full.statuses[put_off] == TIDE_OK)
        put_off++;
    ok(all_of(put_off == PUT_OFF, full.statuses[PUT_OFF] == TIDE_ESIGNAL),
       "a call puts off 100 frees, and refuses the next");
    is_u64(live_count(full.stack), 1, "the interrupted call has made the frees, and what was refused is allocated");
    is_string(tide_error_text(), "the program's own words", "frees that are put off leave the thread's error");
    give(full.stack, full.blocks[PUT_OFF], BYTES);

    full.wrong_free = true;
    hear(&heard);
    tide_interrupted_read(&before);
    full_pair();
    tide_interrupted_read(&after);
    hear(NULL);
    ok(all_of(full.statuses[0] == TIDE_OK, after.failed == before.failed + 1, heard.others == 1,
              strcmp(tide_error_text(), "the program's own words") == 0),
       "a free that was put off and fails is counted and told to the message sink");
    tide_resource_release(full.stack);
}

/* Functions of the program within a call: they are no handlers. */

struct own {
    struct tide_resource base;
    struct tide_resource *inner; /* borrowed: another stack, that it allocates from */
};

static enum tide_status
own_allocate(struct tide_resource *self, size_t bytes, size_t alignment, tide_stream stream, void **out)
{
    return tide_allocate(((struct own *)self)->inner, bytes, alignment, stream, out);
}

static enum tide_status
own_deallocate(struct tide_resource *self, void *pointer, size_t bytes, size_t alignment, tide_stream stream)
{
    return tide_deallocate(((struct own *)self)->inner, pointer, bytes, alignment, stream);
}

static enum tide_status
own_trim(struct tide_resource *self, uint64_t keep_bytes)
{
    struct tide_resource *inner = ((struct own *)self)->inner;
    void *block;
    enum tide_status status = tide_allocate(inner, BYTES, ALIGNMENT, 0, &block);

    (void)keep_bytes;
    return status != TIDE_OK ? status : tide_deallocate(inner, block, BYTES, ALIGNMENT, 0);
}

static unsigned own_destroyed;

static void
own_destroy(struct tide_resource *self)
{
    void *block;

    own_destroyed += tide_allocate(((struct own *)self)->inner, BYTES, ALIGNMENT, 0, &block) == TIDE_OK &&
                     tide_deallocate(((struct own *)self)->inner, block, BYTES, ALIGNMENT, 0) == TIDE_OK;
}

static const struct tide_resource_ops own_ops = {
    .version = TIDE_RESOURCE_OPS_VERSION,
    .name = "own",
    .allocate = own_allocate,
    .deallocate = own_deallocate,
    .order = tide_base_order,
    .trim = own_trim,
    .query = tide_base_query,
    .describe = tide_pass_describe,
    .upstream_at = tide_base_upstream_at,
    .destroy = own_destroy,
};

/* A function of a soft limit, which allocates on its own stack. */
static void
soft_function(void *context, uint64_t used_bytes, uint64_t soft_limit_bytes)
{
    struct tide_resource **stack = context;
    void *block;

    (void)used_bytes, (void)soft_limit_bytes;
    if (tide_allocate(*stack, 64, ALIGNMENT, 0, &block) == TIDE_OK)
        tide_deallocate(*stack, block, 64, ALIGNMENT, 0);
    else
        own_destroyed += 1000;
}

#define OWN_TESTS 3

static void
test_own(void)
{
    struct own own = { .inner = stack_of("statistics | host") };
    struct tide_limit_options soft = { TIDE_OPTIONS(soft), .limit_bytes = 1 << 20, .soft_limit_bytes = 1024 };
    struct tide_resource *limit, *pool, *binning, *stack = NULL;
    void *block = NULL, *binned = NULL;
    enum tide_status status, trimmed;

    tide_resource_init(&own.base, &own_ops, NULL);
    tide_limit_create(&own.base, &(struct tide_limit_options){ TIDE_OPTIONS(soft), .limit_bytes = 1 << 30 }, &limit);
    tide_pool_create(limit, NULL, &pool);
    tide_resource_release(limit);
    status = tide_allocate(pool, BYTES, ALIGNMENT, 0, &block);
    trimmed = tide_trim(pool, 0);
    give(pool, block, BYTES);
    ok(all_of(status == TIDE_OK, trimmed == TIDE_OK), "a resource of the program may call the library from a call");

    tide_binning_create(own.inner, NULL, &binning);
    tide_limit_create(binning, &(struct tide_limit_options){ TIDE_OPTIONS(soft), .limit_bytes = 1 << 30 }, &limit);
    status = tide_allocate(limit, BYTES, ALIGNMENT, 0, &block);
    give(limit, block, BYTES);
    tide_binning_add(binning, 4096, &own.base);
    ok(all_of(status == TIDE_OK, tide_allocate(limit, BYTES, ALIGNMENT, 0, &binned) == TIDE_OK,
              tide_deallocate(limit, binned, BYTES, ALIGNMENT, 0) == TIDE_OK),
       "a bin of the program's that was added to a stack in use may call the library from a call");
    tide_resource_release(limit);
    tide_resource_release(binning);
    tide_resource_release(pool);

    soft.function = soft_function;
    soft.context = &stack;
    tide_limit_create(own.inner, &soft, &stack);
    give(stack, take(stack, 4096), 4096);
    tide_resource_release(stack);
    tide_resource_release(&own.base);
    ok(own_destroyed == 1, "a function of the program within a call, and its destroy operation, may allocate and free");
    tide_resource_release(own.inner);
}

/* Storms: threads allocate and free, and are signalled all the time. */

#define STORM_THREADS    3
#define STORM_STEPS      1000
#define STORM_STEPS_MOST 10000
#define STORM_SIGNALS    500
#define STORM_BLOCKS     16

struct storm {
    struct tide_resource *stack;
    struct storm_counts *counts; /* in memory that a killed process leaves */
    _Atomic uint64_t failures;
    _Atomic uint64_t signals;
    _Atomic unsigned running;
    struct timespec end;
    bool timed;
};

struct storm_counts {
    _Atomic uint64_t allocated; /* calls that returned memory */
};

/* A thread of the storm. What its handler holds is the handler's alone. */
struct stormer {
    pthread_t thread;
    struct storm *storm;
    uint64_t seed;
    void *held[STORM_BLOCKS];
    uint64_t turns;
};

static _Thread_local struct stormer *stormer_mine __attribute__((tls_model("initial-exec")));

/* Take a block or give one back. What is refused is tried at a later signal. */
static void
storm_handle(int signal)
{
    struct stormer *mine = stormer_mine;
    enum tide_status status;
    int saved = errno;
    void **place;

    (void)signal;
    if (mine == NULL)
        return;
    place = &mine->held[mine->turns++ % STORM_BLOCKS];
    if (tide_tag_push("storm") == TIDE_OK)
        tide_tag_pop();
    if (*place == NULL) {
        status = tide_allocate(mine->storm->stack, BYTES, ALIGNMENT, 0, place);
        if (status == TIDE_OK)
            atomic_fetch_add(&mine->storm->counts->allocated, 1);
    } else {
        status = tide_deallocate(mine->storm->stack, *place, BYTES, ALIGNMENT, 0);
        if (status == TIDE_OK)
            *place = NULL;
    }
    if (status != TIDE_OK && status != TIDE_ESIGNAL)
        atomic_fetch_add(&mine->storm->failures, 1);
    atomic_fetch_add(&mine->storm->signals, 1);
    errno = saved;
}

static bool
storm_goes_on(struct storm *storm, int step)
{
    struct timespec now;

    if (!storm->timed)
        return step < STORM_STEPS || (step < STORM_STEPS_MOST && atomic_load(&storm->signals) < STORM_SIGNALS);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec < storm->end.tv_sec || (now.tv_sec == storm->end.tv_sec && now.tv_nsec < storm->end.tv_nsec);
}

static void *
storm_run(void *argument)
{
    struct stormer *mine = argument;
    struct storm *storm = mine->storm;
    void *blocks[STORM_BLOCKS] = { NULL };
    size_t sizes[STORM_BLOCKS];
    sigset_t set;

    stormer_mine = mine;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    for (int step = 0; storm_goes_on(storm, step); step++) {
        size_t i = next_random(&mine->seed) % STORM_BLOCKS;

        if (blocks[i] != NULL) {
            if (tide_deallocate(storm->stack, blocks[i], sizes[i], ALIGNMENT, 0) != TIDE_OK)
                atomic_fetch_add(&storm->failures, 1);
            blocks[i] = NULL;
            continue;
        }
        sizes[i] = 1 + next_random(&mine->seed) % 6000;
        if (tide_allocate(storm->stack, sizes[i], ALIGNMENT, 0, &blocks[i]) == TIDE_OK)
            atomic_fetch_add(&storm->counts->allocated, 1);
        else
            atomic_fetch_add(&storm->failures, 1);
        if (step % 64 == 0 && tide_tag_push("step") == TIDE_OK)
            tide_tag_pop();
    }
    for (size_t i = 0; i < STORM_BLOCKS; i++) {
        if (blocks[i] != NULL)
            give(storm->stack, blocks[i], sizes[i]);
    }
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (size_t i = 0; i < STORM_BLOCKS; i++) {
        if (mine->held[i] != NULL)
            give(storm->stack, mine->held[i], BYTES);
    }
    atomic_fetch_sub(&storm->running, 1);
    /* Alive until the sender has seen that it is done. */
    while (atomic_load(&storm->running) != 0)
        sched_yield();
    return NULL;
}

/* Send signals to all threads, without a pause between two, until they are done. */
static void
storm(struct tide_resource *stack, struct storm_counts *counts, struct storm *storm, uint64_t seed)
{
    const char *seconds = getenv("SIGNAL_SECONDS");
    struct stormer stormers[STORM_THREADS];

    *storm = (struct storm){ .stack = stack, .counts = counts, .timed = seconds != NULL };
    atomic_init(&storm->running, STORM_THREADS);
    clock_gettime(CLOCK_MONOTONIC, &storm->end);
    if (seconds != NULL)
        storm->end.tv_sec += atoi(seconds);
    on_signal(SIGUSR2, storm_handle);
    for (size_t i = 0; i < STORM_THREADS; i++) {
        stormers[i] = (struct stormer){ .storm = storm, .seed = seed + i + 1 };
        pthread_create(&stormers[i].thread, NULL, storm_run, &stormers[i]);
    }
    while (atomic_load(&storm->running) != 0) {
        for (size_t i = 0; i < STORM_THREADS && atomic_load(&storm->running) != 0; i++)
            pthread_kill(stormers[i].thread, SIGUSR2);
        sched_yield();
    }
    for (size_t i = 0; i < STORM_THREADS; i++)
        pthread_join(stormers[i].thread, NULL);
}

#define STORM_TESTS ((int)TEXT_COUNT)

static void
test_storms(uint64_t seed)
{
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        struct storm_counts counts = { 0 };
        struct tide_resource *stack = text_stack(i);
        struct storm state;
        bool right, even;

        if (stack == NULL) {
            skip(1, "the stack cannot be made here");
            continue;
        }
        storm(stack, &counts, &state, seed);
        right = atomic_load(&state.failures) == 0;
        tide_trim(stack, 0);
        even = text_keeps(i) || books_are_even(stack);
        tide_resource_release(stack);
        if (text_records(i))
            even =
                all_of(even, trace_is_whole(text_path(i)),
                       sql_number(text_path(i),
                                  "SELECT count(*) FROM allocation WHERE status = 0 AND layer_id = (SELECT"
                                  " min(layer_id) FROM allocation)") == (int64_t)atomic_load(&counts.allocated),
                       sql_number(text_path(i), "SELECT count(*) FROM allocation WHERE status = 0 AND free_ns IS "
                                                "NULL AND layer_id = (SELECT min(layer_id) FROM allocation)") == 0) &&
                even;
        if (!right || !even)
            diag("%" PRIu64 " failures, %" PRIu64 " allocated", atomic_load(&state.failures),
                 atomic_load(&counts.allocated));
        ok(right && even, "in a storm of signals the books stay exact: %s", texts[i]);
    }
}

/* Whether each adaptor is in one of the texts. */
static bool
all_adaptors_are_there(void)
{
    bool all = true;

    for (const struct tidei_kind *const *kind = tidei_kinds; *kind != NULL; kind++) {
        bool there = (*kind)->is_base || strcmp((*kind)->ops.name, "prefetch") == 0; /* needs managed memory */

        for (size_t i = 0; i < TEXT_COUNT; i++)
            there = there || strstr(texts[i], (*kind)->ops.name) != NULL;
        if (!there)
            diag("no stack has %s", (*kind)->ops.name);
        all = all && there;
    }
    return all;
}

/* A child in a storm is killed. */

#define KILLS 6

struct kill_child {
    const char *path;
    struct storm_counts *counts;
    uint64_t seed;
};

static int
kill_run(void *argument)
{
    struct kill_child *child = argument;
    struct tide_resource *stack = stack_of("log(%s, overwrite) | pool | sim", child->path);
    struct storm state;

    setenv("SIGNAL_SECONDS", "60", 1);
    storm(stack, child->counts, &state, child->seed);
    return 0;
}

/* Kill a child once it has allocated some thousand times. Returns whether the trace has all that had returned. */
static bool
kill_once(const char *path, struct storm_counts *counts, uint64_t seed)
{
    struct tide_trace_recovery found = { TIDE_FIGURES(found) };
    struct kill_child child = { path, counts, seed };
    uint64_t wanted = 2000 + seed % 5000, returned;
    int64_t rows;
    pid_t pid;

    atomic_store(&counts->allocated, 0);
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        _exit(kill_run(&child));
    while (atomic_load(&counts->allocated) < wanted)
        usleep(100);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    returned = atomic_load(&counts->allocated);
    if (tide_trace_recover(path, &found) != TIDE_OK) {
        diag("%s", tide_error_text());
        return false;
    }
    rows = sql_number(path, "SELECT count(*) FROM allocation WHERE status = 0");
    if (rows < (int64_t)returned || rows > (int64_t)returned + 2 * STORM_THREADS) {
        diag("%" PRIu64 " calls had returned, %" PRId64 " rows", returned, rows);
        return false;
    }
    return trace_is_sound(path);
}

static void
test_kills(uint64_t seed)
{
    struct storm_counts *counts =
        mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool all = true;

    if (!CHILDREN_MAY_RECORD) {
        skip(1, "ThreadSanitizer does not support children that use threads");
        return;
    }
    for (uint64_t i = 0; i < KILLS; i++)
        all = kill_once(scratch("kill-%d.db", (int)i), counts, seed / 7 + i * 777) && all;
    ok(all, "a process killed in a storm of signals leaves every allocation that had returned");
    munmap(counts, sizeof(*counts));
}

/* A thread forks, and a timer interrupts it: also in the hooks around fork(), which hold every lock. */

#define FORKS    60
#define TIMER_US 100

static int
fork_run(void *argument)
{
    const struct itimerval often = { { 0, TIMER_US }, { 0, TIMER_US } }, never = { { 0, 0 }, { 0, 0 } };
    struct storm_counts counts = { 0 };
    struct storm storm = { .stack = stack_of("log(%s, overwrite) | pool | limit(1GiB) | sim", (const char *)argument),
                           .counts = &counts };
    struct stormer mine = { .storm = &storm };
    int wrong = 0;

    alarm(60); /* a thread that waits for itself ends by that */
    stormer_mine = &mine;
    on_signal(SIGPROF, storm_handle);
    setitimer(ITIMER_PROF, &often, NULL);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        int status = 0;

        if (pid == 0)
            _exit(0);
        for (int j = 0; j < 200; j++)
            give(storm.stack, take(storm.stack, BYTES), BYTES);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        wrong += status != 0;
    }
    setitimer(ITIMER_PROF, &never, NULL);
    for (size_t i = 0; i < STORM_BLOCKS; i++) {
        if (mine.held[i] != NULL)
            give(storm.stack, mine.held[i], BYTES);
    }
    wrong += live_count(storm.stack->upstream->upstream) != 0 && tide_trim(storm.stack, 0) != TIDE_OK;
    tide_resource_release(storm.stack);
    return wrong + (int)atomic_load(&storm.failures);
}

static void
test_forks(void)
{
    if (!CHILDREN_MAY_RECORD) {
        skip(1, "ThreadSanitizer does not support children that use threads");
        return;
    }
    ok(in_child(fork_run, (void *)(uintptr_t)scratch("fork.db")) == 0,
       "signals around fork() neither hang the parent nor the child");
}

int
main(void)
{
    uint64_t seed;

    plan(PLACE_TESTS + ABOVE_TESTS + BRIDGE_TESTS + FULL_TESTS + OWN_TESTS + STORM_TESTS + 3);
    seed = random_seed("SIGNAL_SEED");
    test_places();
    test_above();
    test_bridge();
    test_full();
    test_own();
    ok(all_adaptors_are_there(), "each adaptor of the table of kinds is in a stack that is tested");
    test_storms(seed);
    test_kills(seed);
    test_forks();
    return done();
}
