/* Tests adaptors/statistics.c. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tidemark/tidemark.h>

#include "bases.h"
#include "contract.h"
#include "gate.h"
#include "tap.h"
#include "upstream.h"

#define THREADS 8
#define STEPS   5000
#define FORKS   20

/* A statistics resource over `upstream`. Takes over the reference. */
static struct tide_resource *
over(struct tide_resource *upstream)
{
    struct tide_resource *statistics;

    if (tide_statistics_create(upstream, NULL, &statistics) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return statistics;
}

static struct tide_statistics_figures
read_all(struct tide_resource *statistics)
{
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };

    if (tide_statistics_read(statistics, &figures) != TIDE_OK)
        abort();
    return figures;
}

static bool
counter_is(const char *what, const struct tide_counter *seen, int64_t current, int64_t peak, int64_t total)
{
    if (seen->current == current && seen->peak == peak && seen->total == total)
        return true;
    diag("%s: seen current %" PRId64 ", peak %" PRId64 ", total %" PRId64, what, seen->current, seen->peak,
         seen->total);
    diag("%s: wanted %" PRId64 ", %" PRId64 ", %" PRId64, what, current, peak, total);
    return false;
}

/* Compare all six figures. Every allocation has the same `size`. */
static void
figures_are(struct tide_statistics_figures seen, int64_t size, int64_t current, int64_t peak, int64_t total,
            const char *sentence)
{
    bool count = counter_is("count", &seen.count, current, peak, total);
    bool bytes = counter_is("bytes", &seen.bytes, size * current, size * peak, size * total);

    ok(all_of(count, bytes), "%s", sentence);
}

static struct tide_statistics_figures
push(struct tide_resource *statistics)
{
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures), .bytes.current = 12345 };

    if (tide_statistics_push(statistics, &figures) != TIDE_OK)
        diag("push: %s", tide_error_text());
    return figures;
}

static struct tide_statistics_figures
pop(struct tide_resource *statistics)
{
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures), .bytes.current = 12345 };

    if (tide_statistics_pop(statistics, &figures) != TIDE_OK)
        diag("pop: %s", tide_error_text());
    return figures;
}

static void *
take(struct tide_resource *resource, size_t bytes)
{
    void *pointer = NULL;

    if (tide_allocate(resource, bytes, TIDE_DEFAULT_ALIGNMENT, 0, &pointer) != TIDE_OK)
        diag("allocate: %s", tide_error_text());
    return pointer;
}

static enum tide_status
give(struct tide_resource *resource, void *pointer, size_t bytes)
{
    return tide_deallocate(resource, pointer, bytes, TIDE_DEFAULT_ALIGNMENT, 0);
}

#define COUNTING_TESTS 7

static void
check_counting(const struct base_maker *base)
{
    struct tide_resource *statistics = over(base->create(1000));
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    void *first, *second, *refused;

    diag("counting over %s", base->name);
    figures_are(read_all(statistics), 1, 0, 0, 0, "new statistics have counted nothing");
    first = take(statistics, 300);
    second = take(statistics, 500);
    ok(tide_allocate(statistics, 300, 256, 0, &refused) == TIDE_ECAPACITY,
       "the base refuses a request over its capacity");
    figures = read_all(statistics);
    ok(all_of(counter_is("bytes", &figures.bytes, 800, 800, 800), counter_is("count", &figures.count, 2, 2, 2)),
       "the requested bytes and the allocations count, and the refused request does not");
    give(statistics, first, 300);
    figures = read_all(statistics);
    ok(all_of(counter_is("bytes", &figures.bytes, 500, 800, 800), counter_is("count", &figures.count, 1, 2, 2)),
       "a free reduces the current figures only");
    take(statistics, 0);
    figures = read_all(statistics);
    ok(all_of(counter_is("bytes", &figures.bytes, 500, 800, 800), counter_is("count", &figures.count, 2, 2, 3)),
       "an allocation of 0 bytes counts");
    give(statistics, NULL, 0);
    give(statistics, second, 500);
    figures = read_all(statistics);
    ok(all_of(counter_is("bytes", &figures.bytes, 0, 800, 800), counter_is("count", &figures.count, 0, 2, 3)),
       "after all frees the peak and the total stay");
    tide_resource_release(statistics);
    statistics = over(over(base->create(0)));
    give(statistics, take(statistics, 64), 64);
    figures_are(read_all(statistics->upstream), 64, 0, 1, 1, "a statistics layer below another counts the same");
    tide_resource_release(statistics);
}

#define NESTING_TESTS 16

/* Allocate ten buffers of 10 bytes, push, allocate one, push, free it, push, allocate two, and pop three times. */
static void
check_nesting(const struct base_maker *base)
{
    struct tide_resource *statistics = over(base->create(0));
    void *buffers[10], *one, *two[2];

    diag("nesting over %s", base->name);
    for (int i = 0; i < 10; i++)
        buffers[i] = take(statistics, 10);
    figures_are(push(statistics), 10, 10, 10, 10, "the first push returns the ten buffers allocated before");
    figures_are(read_all(statistics), 10, 0, 0, 0, "after the first push the figures begin at 0");
    one = take(statistics, 10);
    figures_are(push(statistics), 10, 1, 1, 1, "the second push returns the one buffer allocated since the first");
    give(statistics, one, 10);
    figures_are(read_all(statistics), 10, -1, 0, 0,
                "a buffer freed after the second push takes the current figure below 0");
    figures_are(push(statistics), 10, -1, 0, 0, "the third push returns a current figure of -1");
    two[0] = take(statistics, 10);
    two[1] = take(statistics, 10);
    figures_are(read_all(statistics), 10, 2, 2, 2, "after the third push two buffers are counted");
    figures_are(pop(statistics), 10, 2, 2, 2, "the first pop returns the two buffers");
    figures_are(read_all(statistics), 10, 1, 1, 2,
                "the first pop adds to the figures around it: a current figure and a peak of -1 + 2");
    give(statistics, two[0], 10);
    figures_are(read_all(statistics), 10, 0, 1, 2, "a free after the first pop leaves the peak");
    figures_are(pop(statistics), 10, 0, 1, 2, "the second pop returns a current figure of 0 and a peak of 1");
    figures_are(read_all(statistics), 10, 1, 2, 3,
                "the second pop adds to the figures around it: a current figure of 1 and a peak of 2");
    give(statistics, two[1], 10);
    figures_are(pop(statistics), 10, 0, 2, 3, "the third pop returns the figures of all three levels");
    figures_are(read_all(statistics), 10, 10, 12, 13, "the outermost figures are as if there had been no push");
    for (int i = 0; i < 10; i++)
        give(statistics, buffers[i], 10);
    figures_are(read_all(statistics), 10, 0, 12, 13, "after the free of the ten buffers nothing is in use");
    ok(tide_statistics_pop(statistics, NULL) == TIDE_EINVAL, "a pop with nothing pushed is refused");
    ok(all_of(tide_statistics_push(statistics, NULL) == TIDE_OK, tide_statistics_push(statistics, NULL) == TIDE_OK),
       "a push accepts NULL for the figures, and levels may stay open");
    tide_resource_release(statistics);
}

static void
visit_allocate(void *context)
{
    take(context, 10);
}

static void
visit_push(void *context)
{
    push(context);
}

static void
visit_pop(void *context)
{
    pop(context);
}

static void
visit_push_twice(void *context)
{
    push(context);
    push(context);
}

static void
visit_pop_and_push(void *context)
{
    pop(context);
    push(context);
}

static struct tide_statistics_figures visited;

static void
visit_read(void *context)
{
    visited = read_all(context);
}

/* Statistics over a gate over a base that can fail, with `live` buffers of 10 bytes. */
struct scene {
    struct tide_resource *statistics;
    struct gate *gate;
    struct upstream *upstream;
    void *buffers[4];
};

static void
scene_open(struct scene *scene, int live)
{
    scene->upstream = upstream_create();
    scene->gate = gate_create(&scene->upstream->base);
    scene->statistics = over(&scene->gate->base);
    scene->gate->context = scene->statistics;
    for (int i = 0; i < live; i++)
        scene->buffers[i] = take(scene->statistics, 10);
}

#define INTERLEAVING_TESTS 12

/* What another thread sees, or does, while a call is inside of upstream. */
static void
check_interleaving(void)
{
    struct scene scene;
    void *pointer;

    scene_open(&scene, 2);
    scene.gate->after_allocate = visit_read;
    scene.buffers[2] = take(scene.statistics, 10);
    figures_are(visited, 10, 2, 2, 2, "an allocation that upstream has not returned yet does not count");
    scene.gate->before_deallocate = visit_read;
    give(scene.statistics, scene.buffers[2], 10);
    figures_are(visited, 10, 2, 3, 3, "a block that upstream is freeing does not count");
    scene.gate->after_deallocate = visit_allocate;
    give(scene.statistics, scene.buffers[1], 10);
    figures_are(read_all(scene.statistics), 10, 2, 3, 4,
                "memory that another thread gets again at once does not raise the peak");
    is_u64(scene.upstream->peak_bytes, 30, "upstream saw the same peak");

    scene.upstream->fail_allocate = 1;
    scene.gate->before_allocate = visit_read;
    ok(tide_allocate(scene.statistics, 10, 256, 0, &pointer) == TIDE_ECAPACITY,
       "upstream refuses the allocation that is counted");
    figures_are(visited, 10, 2, 3, 4, "during a failing request the figures do not change");
    figures_are(read_all(scene.statistics), 10, 2, 3, 4, "after a failed request the figures have not changed");
    tide_resource_release(scene.statistics);

    scene_open(&scene, 2);
    scene.gate->deallocate_status = TIDE_EDRIVER;
    scene.gate->before_deallocate = visit_read;
    ok(give(scene.statistics, scene.buffers[0], 10) == TIDE_EDRIVER, "upstream refuses a free");
    figures_are(visited, 10, 1, 2, 2, "while upstream is asked for the free, the block does not count");
    figures_are(read_all(scene.statistics), 10, 2, 2, 2,
                "after the refused free the block counts again, and peak and total have not changed");
    scene.gate->deallocate_status = TIDE_EDRIVER;
    scene.gate->before_deallocate = visit_allocate;
    give(scene.statistics, scene.buffers[0], 10);
    figures_are(read_all(scene.statistics), 10, 3, 3, 3,
                "a block whose free was refused counts for the peak of later allocations");
    is_u64(scene.upstream->peak_bytes, 30, "upstream saw the same peak with the block whose free was refused");
    tide_resource_release(scene.statistics);
}

#define REFUSED_TESTS 6

/* A free is refused after a push or a pop: its bytes go back to the figures from which they were taken. */
static void
check_refused_across_levels(void)
{
    struct scene scene;

    scene_open(&scene, 2);
    scene.gate->deallocate_status = TIDE_EDRIVER;
    scene.gate->before_deallocate = visit_push;
    give(scene.statistics, scene.buffers[0], 10);
    figures_are(read_all(scene.statistics), 10, 0, 0, 0, "a free refused after a push leaves the new figures at 0");
    pop(scene.statistics);
    figures_are(read_all(scene.statistics), 10, 2, 2, 2,
                "a free refused after a push leaves the figures before the push unchanged");

    push(scene.statistics);
    scene.gate->deallocate_status = TIDE_EDRIVER;
    scene.gate->before_deallocate = visit_pop;
    give(scene.statistics, scene.buffers[0], 10);
    figures_are(read_all(scene.statistics), 10, 2, 2, 2,
                "a free refused after a pop leaves the figures unchanged to which the pop has added");

    push(scene.statistics);
    scene.gate->deallocate_status = TIDE_EDRIVER;
    scene.gate->before_deallocate = visit_pop_and_push;
    give(scene.statistics, scene.buffers[0], 10);
    figures_are(read_all(scene.statistics), 10, 0, 0, 0,
                "a free refused after a pop and a push leaves the new figures at 0");
    pop(scene.statistics);
    figures_are(read_all(scene.statistics), 10, 2, 2, 2,
                "a free refused after a pop and a push leaves the figures before the push unchanged");
    is_u64(scene.upstream->live_count, 2, "after the refused frees upstream has both buffers");
    tide_resource_release(scene.statistics);
}

#define REFUSED_TWICE_TESTS 4

/* A free is refused after two pushes: the figures from which its bytes were taken are no longer the next outer ones. */
static void
check_refused_across_two_levels(void)
{
    struct scene scene;

    scene_open(&scene, 2);
    scene.gate->deallocate_status = TIDE_EDRIVER;
    scene.gate->before_deallocate = visit_push_twice;
    give(scene.statistics, scene.buffers[0], 10);
    figures_are(read_all(scene.statistics), 10, 0, 0, 0,
                "a free refused after two pushes leaves the innermost figures at 0");
    figures_are(pop(scene.statistics), 10, 0, 0, 0, "the pop of the second push returns figures of 0");
    figures_are(pop(scene.statistics), 10, 0, 0, 0, "the pop of the first push returns figures of 0");
    figures_are(read_all(scene.statistics), 10, 2, 2, 2, "the bytes are back in the figures from before both pushes");
    tide_resource_release(scene.statistics);
}

struct worker {
    pthread_t thread;
    struct tide_resource *statistics;
    uint64_t seed;
    uint64_t sizes[32]; /* of the live blocks */
    void *pointers[32];
    int64_t bytes, count; /* allocated in total */
    uint64_t failures;
};

static void
worker_step(struct worker *worker)
{
    unsigned slot = contract_random(&worker->seed) % 32;

    if (worker->pointers[slot] != NULL) {
        worker->failures += give(worker->statistics, worker->pointers[slot], worker->sizes[slot]) != TIDE_OK;
        worker->pointers[slot] = NULL;
        return;
    }
    worker->sizes[slot] = 1 + contract_random(&worker->seed) % 4096;
    worker->pointers[slot] = take(worker->statistics, worker->sizes[slot]);
    worker->failures += worker->pointers[slot] == NULL;
    worker->bytes += (int64_t)worker->sizes[slot];
    worker->count++;
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;

    for (int i = 0; i < STEPS; i++)
        worker_step(worker);
    return NULL;
}

#define THREADS_TESTS 6

/* Every thread counts its own calls, and the figures must match. A ninth thread pushes and pops meanwhile. */
static void
check_threads(const struct base_maker *base)
{
    struct tide_resource *statistics = over(base->create(0));
    struct worker workers[THREADS];
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures) };
    int64_t total = 0, count = 0, live = 0, live_count = 0;
    uint64_t failures = 0, unbalanced = 0;

    diag("threads over %s", base->name);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .statistics = statistics, .seed = 1000 + (uint64_t)i };
        pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
    }
    for (int i = 0; i < 1000; i++) {
        unbalanced += tide_statistics_push(statistics, NULL) != TIDE_OK;
        unbalanced += tide_statistics_pop(statistics, NULL) != TIDE_OK;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        failures += workers[i].failures;
        total += workers[i].bytes;
        count += workers[i].count;
        for (int slot = 0; slot < 32; slot++) {
            live += workers[i].pointers[slot] != NULL ? (int64_t)workers[i].sizes[slot] : 0;
            live_count += workers[i].pointers[slot] != NULL;
        }
    }
    is_u64(failures + unbalanced, 0, "every call of every thread succeeds");
    figures = read_all(statistics);
    is_i64(figures.bytes.total, total, "the total is the sum of what the threads allocated");
    is_i64(figures.count.total, count, "the number of allocations is the sum over the threads");
    is_i64(figures.bytes.current, live, "the bytes in use are the sum of what the threads hold");
    is_i64(figures.count.current, live_count, "the number of live allocations is the sum of what the threads hold");
    ok(all_of(figures.bytes.peak >= live, figures.bytes.peak <= total),
       "the peak lies between the bytes in use and the total");
    for (int i = 0; i < THREADS; i++) {
        for (int slot = 0; slot < 32; slot++) {
            if (workers[i].pointers[slot] != NULL)
                give(statistics, workers[i].pointers[slot], workers[i].sizes[slot]);
        }
    }
    tide_resource_release(statistics);
}

struct holder {
    pthread_t thread;
    struct tide_resource *statistics;
    pthread_barrier_t *barrier;
};

/* All threads allocate more and more, then free: the sum is known at each barrier. */
static void *
holder_run(void *context)
{
    struct holder *holder = context;
    void *pointers[16];

    for (int i = 0; i < 16; i++)
        pointers[i] = take(holder->statistics, 10);
    pthread_barrier_wait(holder->barrier);
    for (int i = 0; i < 16; i++)
        give(holder->statistics, pointers[i], 10);
    pthread_barrier_wait(holder->barrier);
    for (int i = 0; i < STEPS; i++)
        give(holder->statistics, take(holder->statistics, 10), 10);
    return NULL;
}

#define PEAK_TESTS 2

/* The peak is known to the byte if all threads hold their most at one moment. */
static void
check_peak_of_threads(const struct base_maker *base)
{
    struct tide_resource *statistics = over(base->create(0));
    struct holder holders[THREADS];
    pthread_barrier_t barrier;
    uint64_t torn = 0;

    diag("peak over %s", base->name);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        holders[i] = (struct holder){ .statistics = statistics, .barrier = &barrier };
        pthread_create(&holders[i].thread, NULL, holder_run, &holders[i]);
    }
    for (int i = 0; i < STEPS; i++) {
        struct tide_statistics_figures figures = read_all(statistics);

        torn += figures.bytes.current != 10 * figures.count.current || figures.bytes.peak != 10 * figures.count.peak ||
                figures.bytes.total != 10 * figures.count.total || figures.bytes.current > figures.bytes.peak;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(holders[i].thread, NULL);
    is_u64(torn, 0, "figures that are read while threads run are those of one moment");
    figures_are(read_all(statistics), 10, 0, 16 * THREADS, THREADS * (16 + STEPS),
                "the peak of eight threads is what they held together");
    pthread_barrier_destroy(&barrier);
    tide_resource_release(statistics);
}

struct hammer {
    pthread_t thread;
    struct tide_resource *statistics;
    _Atomic bool stop; /* relaxed: it orders nothing else */
};

static void *
hammer_run(void *context)
{
    struct hammer *hammer = context;

    while (!atomic_load_explicit(&hammer->stop, memory_order_relaxed))
        give(hammer->statistics, take(hammer->statistics, 10), 10);
    return NULL;
}

#define FORK_TESTS 1

/* A child of fork() may use what another thread was just changing; a lock that stays held would hang it. */
static void
check_fork(void)
{
    struct tide_resource *statistics = over(base_sim(0));
    struct hammer hammers[2];
    int right = 0;

    for (int i = 0; i < 2; i++) {
        hammers[i] = (struct hammer){ .statistics = statistics };
        pthread_create(&hammers[i].thread, NULL, hammer_run, &hammers[i]);
    }
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        int status = -1;

        if (child == 0) {
            struct tide_statistics_figures before = { TIDE_FIGURES(before) }, after = { TIDE_FIGURES(after) };

            alarm(60);
            tide_statistics_push(statistics, &before);
            tide_statistics_read(statistics, &after);
            _exit(before.bytes.current == 10 * before.count.current && after.count.total == 0 ? 0 : 1);
        }
        waitpid(child, &status, 0);
        right += status == 0;
    }
    for (int i = 0; i < 2; i++) {
        atomic_store_explicit(&hammers[i].stop, true, memory_order_relaxed);
        pthread_join(hammers[i].thread, NULL);
    }
    is_i64(right, FORKS, "every child of fork() finds the counters consistent and unlocked");
    tide_resource_release(statistics);
}

/* The lines of a report, by path. */
struct line {
    char path[40];
    struct tide_statistics_figures figures;
};

struct report {
    struct line lines[16];
    size_t count;
};

static void
report_add(void *context, const char *path, const struct tide_statistics_figures *figures)
{
    struct report *report = context;

    snprintf(report->lines[report->count].path, sizeof(report->lines[0].path), "%s", path);
    report->lines[report->count++].figures = *figures;
}

/* The line of `path`; zeros if there is none. */
static struct tide_statistics_figures
report_of(struct tide_resource *statistics, const char *path)
{
    struct tide_statistics_figures none = { TIDE_FIGURES(none) };
    struct report report = { .count = 0 };

    if (tide_statistics_report(statistics, report_add, &report) != TIDE_OK)
        diag("report: %s", tide_error_text());
    for (size_t i = 0; i < report.count; i++) {
        if (strcmp(report.lines[i].path, path) == 0)
            return report.lines[i].figures;
    }
    return none;
}

static struct tide_resource *
tagged_over(struct tide_resource *upstream)
{
    const struct tide_statistics_options options = { TIDE_OPTIONS(options), .by_tag = true };
    struct tide_resource *statistics;

    if (tide_statistics_create(upstream, &options, &statistics) != TIDE_OK)
        abort();
    tide_resource_release(upstream);
    return statistics;
}

#define TAG_TESTS 12

static void
check_tags(void)
{
    struct upstream *upstream = upstream_create();
    struct tide_resource *statistics = tagged_over(&upstream->base);
    struct report report = { .count = 0 };
    void *plain, *outer, *inner, *again;
    char text[600];
    size_t needed;

    plain = take(statistics, 10);
    tide_tag_push("train");
    outer = take(statistics, 10);
    tide_tag_push("forward");
    inner = take(statistics, 10);
    tide_tag_pop();
    figures_are(report_of(statistics, ""), 10, 1, 1, 1, "allocations without a tag are counted by themselves");
    figures_are(report_of(statistics, "train"), 10, 2, 2, 2, "a tag counts the allocations of nested tags");
    figures_are(report_of(statistics, "train/forward"), 10, 1, 1, 1, "a nested tag is counted under its path");
    give(statistics, plain, 10);
    tide_tag_pop();
    give(statistics, inner, 10);
    figures_are(report_of(statistics, ""), 10, 0, 1, 1, "a free under another tag comes off the tag of the allocation");
    figures_are(report_of(statistics, "train/forward"), 10, 0, 1, 1,
                "a free after the tag has ended comes off the tag of the allocation");
    figures_are(report_of(statistics, "train"), 10, 1, 2, 2,
                "a free comes off all tags around the tag of the allocation");
    upstream->fail_deallocate = 1;
    give(statistics, outer, 10);
    figures_are(report_of(statistics, "train"), 10, 1, 2, 2,
                "a block whose free upstream has refused still counts under its tag");
    tide_tag_push("train");
    again = take(statistics, 10);
    tide_tag_pop();
    figures_are(report_of(statistics, "train"), 10, 2, 2, 3, "a tag that is pushed again goes on counting");
    give(statistics, outer, 10);
    give(statistics, again, 10);
    tide_statistics_report(statistics, report_add, &report);
    ok(all_of(report.count == 3, strcmp(report.lines[0].path, "train") == 0, strcmp(report.lines[1].path, "") == 0),
       "a report begins with the highest peak");
    ok(all_of(tide_statistics_report_text(statistics, text, sizeof(text), &needed) == TIDE_OK, needed == strlen(text)),
       "the report is available as text");
    is_string(text,
              " allocations           peak bytes          total bytes        current bytes  tag\n"
              "           3                   20                   30                    0  train\n"
              "           1                   10                   10                    0  (no tag)\n"
              "           1                   10                   10                    0  train/forward\n",
              "the report in text has a line for each path");
    ok(all_of(tide_statistics_report_text(statistics, text, 20, &needed) == TIDE_OK, needed > 300, strlen(text) == 19,
              tide_statistics_report_text(statistics, NULL, 0, &needed) == TIDE_OK, needed > 300),
       "the report in text may be cut to the buffer");
    tide_resource_release(statistics);
}

struct tagger {
    pthread_t thread;
    struct tide_resource *statistics;
    unsigned index;
    void *left; /* 7 bytes, for another thread to free */
};

/* Allocate under one tag, and under a nested tag for each allocation; so many tags that the tables grow. */
static void *
tagger_run(void *context)
{
    struct tagger *tagger = context;
    char name[20];

    tide_tag_push("all");
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "%u-%d", tagger->index, i);
        tide_tag_push(name);
        give(tagger->statistics, take(tagger->statistics, 5), 5);
        tide_tag_pop();
    }
    tagger->left = take(tagger->statistics, 7);
    tide_tag_pop();
    return NULL;
}

struct lines {
    struct tide_statistics_figures all;
    int64_t right;
};

static void
count_lines(void *context, const char *path, const struct tide_statistics_figures *figures)
{
    struct lines *lines = context;

    if (strcmp(path, "all") == 0)
        lines->all = *figures;
    else
        lines->right += figures->bytes.total == 5 && figures->bytes.current == 0 && figures->bytes.peak == 5;
}

#define TAG_THREADS_TESTS 4

static void
check_tags_of_threads(void)
{
    struct tide_resource *statistics = tagged_over(base_sim(0));
    struct tagger taggers[THREADS];
    struct lines lines = { .right = 0 };

    for (unsigned i = 0; i < THREADS; i++) {
        taggers[i] = (struct tagger){ .statistics = statistics, .index = i };
        pthread_create(&taggers[i].thread, NULL, tagger_run, &taggers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(taggers[i].thread, NULL);
    tide_statistics_report(statistics, count_lines, &lines);
    is_i64(lines.right, THREADS * 200, "every tag of every thread has its line");
    is_i64(lines.all.bytes.total, THREADS * (200 * 5 + 7),
           "the tag around the threads' tags has the sum of all threads");
    is_i64(lines.all.bytes.current, THREADS * 7,
           "the tag around the threads' tags has the bytes in use of all threads");
    for (unsigned i = 0; i < THREADS; i++)
        give(statistics, taggers[i].left, 7);
    tide_statistics_report(statistics, count_lines, &lines);
    is_i64(lines.all.bytes.current, 0, "the bytes in use come off the tag whichever thread frees them");
    tide_resource_release(statistics);
}

#define TAG_USE_TESTS 4

static void
check_tags_use(void)
{
    struct tide_resource *plain = over(base_sim(0)), *stack = NULL;
    char text[100];

    ok(tide_statistics_report(plain, report_add, NULL) == TIDE_EINVAL, "a report without counters by tag is refused");
    has_words(tide_error_text(), "expected tags=true", "the refusal of a report names the missing option");
    ok(all_of(tide_statistics_report_text(plain, text, sizeof(text), NULL) == TIDE_EINVAL, text[0] == '\0'),
       "the refusal of a report in text leaves an empty text");
    tide_resource_release(plain);
    ok(all_of(tide_stack_parse("statistics(tags) | sim", &stack) == TIDE_OK,
              tide_statistics_report(stack, NULL, NULL) == TIDE_EINVAL,
              tide_describe(stack, text, sizeof(text), NULL) == TIDE_OK,
              strcmp(text, "statistics(tags=true) | sim") == 0),
       "stack text has the option for counters by tag");
    tide_resource_release(stack);
}

#define USE_TESTS 7

static void
check_use(void)
{
    struct tide_resource *base = base_sim(1 << 20), *statistics = (struct tide_resource *)&base;
    struct tide_statistics_figures figures = { TIDE_FIGURES(figures), .count.total = 5 };
    uint64_t figure;

    ok(all_of(tide_statistics_create(NULL, NULL, &statistics) == TIDE_EINVAL, statistics == NULL),
       "NULL in place of upstream is refused");
    ok(tide_statistics_create(base, NULL, NULL) == TIDE_EINVAL, "NULL in place of the result is refused");
    ok(all_of(tide_statistics_read(base, &figures) == TIDE_EINVAL, figures.count.total == 0),
       "reading another kind of resource gives zeros and an error");
    ok(all_of(tide_statistics_push(base, NULL) == TIDE_EINVAL, tide_statistics_pop(base, NULL) == TIDE_EINVAL),
       "push and pop on another kind of resource are refused");
    ok(tide_statistics_read(NULL, &figures) == TIDE_EINVAL, "reading NULL is refused");
    statistics = over(base);
    ok(tide_statistics_read(statistics, NULL) == TIDE_EINVAL, "reading into NULL is refused");
    ok(all_of(tide_query(statistics, TIDE_QUERY_CAPACITY, &figure) == TIDE_OK, figure == 1 << 20),
       "queries are passed to upstream");
    tide_resource_release(statistics);
}

static struct tide_resource *
contract_create(void *context)
{
    const struct base_maker *base = context;

    return over(base->create(0));
}

int
main(void)
{
    plan(BASE_COUNT * (CONTRACT_TESTS + COUNTING_TESTS + NESTING_TESTS + THREADS_TESTS + PEAK_TESTS) +
         INTERLEAVING_TESTS + REFUSED_TESTS + REFUSED_TWICE_TESTS + FORK_TESTS + TAG_TESTS + TAG_THREADS_TESTS +
         TAG_USE_TESTS + USE_TESTS);
    for (size_t i = 0; i < BASE_COUNT; i++) {
        const struct contract contract = { .name = "statistics",
                                           .create = contract_create,
                                           .context = (void *)&bases[i],
                                           .largest_bytes = 65536,
                                           .knows_pointers = strcmp(bases[i].name, "sim") == 0 };

        contract_check(&contract);
        check_counting(&bases[i]);
        check_nesting(&bases[i]);
        check_threads(&bases[i]);
        check_peak_of_threads(&bases[i]);
    }
    check_interleaving();
    check_refused_across_levels();
    check_refused_across_two_levels();
    check_fork();
    check_tags();
    check_tags_of_threads();
    check_tags_use();
    check_use();
    return done();
}
