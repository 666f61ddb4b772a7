/*
 * Measures what call stacks of 16 frames cost the thread that takes them: by frame pointers and by the unwinder,
 * compared with the floor of the same run, a plain walk of 16 frame pointers without checks. Then measures what `track`
 * costs, with and without call stacks, over a base that does nothing, compared with that base alone: allocations freed
 * at once, random replacement among up to 100,000 live blocks of each thread, and blocks that another thread frees.
 *
 * Usage: bench/callstacks [JSON-FILE]
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tidemark.h>

#include "bench.h"
#include "src/context/callstack.h"
#include "nothing.h"

#define STACKS_CALLS   5000 /* longer rounds lose the processor on a busy machine */
#define STACKS_ROUNDS  100
#define STACKS_THREADS 16
#define STACKS_FRAMES  16
#define STACKS_LIVE    100000

/* The number of blocks that a round of handing over has. */
#define STACKS_HAND_OVER 1000

/* A function that is measured under a call stack of at least the given number of frames. */
struct stacks_dig {
    double (*round)(void *context, unsigned thread);
    void *context;
};

static __attribute__((noinline)) double
dig(const struct stacks_dig *what, unsigned thread, unsigned frames)
{
    double took = frames > 0 ? dig(what, thread, frames - 1) : what->round(what->context, thread);

    __asm__ volatile("" ::: "memory"); /* so that the call is no tail call, which would leave no frame */
    return took;
}

static double
deep_round(void *context, unsigned thread)
{
    return dig(context, thread, STACKS_FRAMES);
}

static double
floor_round(void *context, unsigned thread)
{
    uint64_t begin = bench_now_ns();
    uintptr_t frames[STACKS_FRAMES];

    (void)context;
    (void)thread;
    for (unsigned i = 0; i < STACKS_CALLS; i++) {
        const uintptr_t *frame = __builtin_frame_address(0);

        for (unsigned k = 0; k < STACKS_FRAMES; k++) {
            frames[k] = frame[1];
            frame = (const uintptr_t *)frame[0];
        }
        __asm__ volatile("" ::"r"(frames) : "memory");
    }
    return (double)(bench_now_ns() - begin) / STACKS_CALLS;
}

static double
take_round(void *context, unsigned thread)
{
    const enum tide_unwind *unwind = context;
    unsigned calls = *unwind == TIDE_UNWIND_DWARF ? STACKS_CALLS / 20 : STACKS_CALLS;
    uint64_t begin = bench_now_ns();

    (void)thread;
    for (unsigned i = 0; i < calls; i++) {
        if (tidei_callstack_here(STACKS_FRAMES, *unwind) == 0)
            bench_fail("call stack");
    }
    return (double)(bench_now_ns() - begin) / calls;
}

/* The live blocks of one thread; `live` of the pointers are in use. */
struct stacks_thread {
    _Alignas(128) uint64_t seed;
    size_t live;
    void **pointers;                   /* owned */
    void *handed[2][STACKS_HAND_OVER]; /* allocated in this round, and in the round before */
    unsigned round;
};

static struct stacks_thread stacks_threads[STACKS_THREADS];
static unsigned stacks_thread_count;

static void
block_allocate(struct tide_resource *top, unsigned thread, void **pointer)
{
    if (tide_allocate(top, 4096, 256, thread, pointer) != TIDE_OK)
        bench_fail("allocate");
}

static void
block_free(struct tide_resource *top, unsigned thread, void *pointer)
{
    if (tide_deallocate(top, pointer, 4096, 256, thread) != TIDE_OK)
        bench_fail("free");
}

static double
pair_round(void *context, unsigned thread)
{
    uint64_t begin = bench_now_ns();
    void *pointer;

    for (unsigned i = 0; i < STACKS_CALLS; i++) {
        block_allocate(context, thread, &pointer);
        block_free(context, thread, pointer);
    }
    return (double)(bench_now_ns() - begin) / STACKS_CALLS;
}

static double
fill_round(void *context, unsigned thread)
{
    struct stacks_thread *mine = &stacks_threads[thread];

    mine->seed = 12345 + thread;
    for (size_t i = 0; i < mine->live; i++)
        block_allocate(context, thread, &mine->pointers[i]);
    return 0;
}

/*
 * Replace random blocks, allocating the new one first so that addresses change. Blocks stay live from round to round.
 */
static double
live_round(void *context, unsigned thread)
{
    struct stacks_thread *mine = &stacks_threads[thread];
    uint64_t begin = bench_now_ns();

    for (unsigned i = 0; i < STACKS_CALLS; i++) {
        void **place, *pointer;

        mine->seed = mine->seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
        place = &mine->pointers[(mine->seed >> 33) % mine->live];
        block_allocate(context, thread, &pointer);
        block_free(context, thread, *place);
        *place = pointer;
    }
    return (double)(bench_now_ns() - begin) / STACKS_CALLS;
}

/* Free the blocks that the neighbouring thread allocated in the round before, and allocate new ones. */
static double
hand_over_round(void *context, unsigned thread)
{
    struct stacks_thread *mine = &stacks_threads[thread];
    unsigned now = mine->round++ % 2;
    void **theirs = stacks_threads[(thread + 1) % stacks_thread_count].handed[!now], **own = mine->handed[now];
    uint64_t begin = bench_now_ns();

    for (unsigned i = 0; i < STACKS_HAND_OVER; i++) {
        if (theirs[i] != NULL)
            block_free(context, thread, theirs[i]);
        block_allocate(context, thread, &own[i]);
    }
    return now == 0 && mine->round == 1 ? -1 : (double)(bench_now_ns() - begin) / STACKS_HAND_OVER;
}

static void
measure(const char *name, unsigned threads, double (*round)(void *context, unsigned thread), void *context,
        const char *unit, double floor)
{
    struct stacks_dig deep = { round, context };

    bench_report(name, threads, bench_threads(threads, STACKS_ROUNDS, 0, deep_round, &deep), unit, floor,
                 floor == 0 ? NULL : "floor");
}

/* The variants of `track` that are measured, and the base alone. */
enum tracked { TRACKED_NOT, TRACKED, TRACKED_STACKS, TRACKED_COUNT };

static const char *const tracked_names[] = { "base alone", "track", "track(callstack=16)" };

static struct tide_resource *
make_tracked(enum tracked tracked)
{
    const struct tide_track_options options = { TIDE_OPTIONS(options),
                                                .callstack_depth = tracked == TRACKED_STACKS ? STACKS_FRAMES : 0 };
    struct tide_resource *base = bench_reusing(), *track;

    if (tracked == TRACKED_NOT)
        return base;
    if (tide_track_create(base, &options, &track) != TIDE_OK)
        bench_fail("track");
    tide_resource_release(base);
    return track;
}

/* Measure each of `tracked`, beside the base alone. Each thread has `live` blocks before the measurement. */
static void
measure_tracked(const char *what, unsigned threads, size_t live, double (*round)(void *context, unsigned thread))
{
    double floor = 0;

    for (enum tracked tracked = TRACKED_NOT; tracked < TRACKED_COUNT; tracked++) {
        struct tide_resource *top = make_tracked(tracked);
        struct stacks_dig deep = { round, top };
        char name[80];
        double figure;

        for (unsigned i = 0; i < threads; i++) {
            stacks_threads[i].live = live;
            stacks_threads[i].round = 0;
            memset(stacks_threads[i].handed, 0, sizeof(stacks_threads[i].handed));
        }
        bench_threads(threads, 1, 0, fill_round, top);
        figure = bench_threads(threads, STACKS_ROUNDS, 0, deep_round, &deep);
        snprintf(name, sizeof(name), "%s, %s", tracked_names[tracked], what);
        bench_report(name, threads, figure, "ns/pair", floor, floor == 0 ? NULL : "base alone");
        if (tracked == TRACKED_NOT)
            floor = figure;
        tide_resource_release(top);
    }
}

static void
measure_track(unsigned threads)
{
    stacks_thread_count = threads;
    measure_tracked("back to back", threads, 0, pair_round);
    measure_tracked("replacing one of 100", threads, 100, live_round);
    measure_tracked("replacing one of 10,000", threads, 10000, live_round);
    measure_tracked("replacing one of 100,000", threads, STACKS_LIVE, live_round);
    measure_tracked("freed by another thread", threads, 0, hand_over_round);
}

int
main(int argc, char **argv)
{
    enum tide_unwind unwinds[] = { TIDE_UNWIND_AUTO, TIDE_UNWIND_FP, TIDE_UNWIND_DWARF };

    if (tidei_callstack_options("bench", STACKS_FRAMES, &(enum tide_unwind){ TIDE_UNWIND_AUTO }) != TIDE_OK)
        bench_fail("call stacks");
    for (unsigned i = 0; i < STACKS_THREADS; i++) {
        stacks_threads[i].pointers = calloc(STACKS_LIVE, sizeof(void *));
        if (stacks_threads[i].pointers == NULL)
            bench_fail("no memory");
    }
    bench_begin("callstacks");
    for (unsigned threads = 0; (threads = bench_next_threads(threads, STACKS_THREADS)) != 0;) {
        struct stacks_dig deep = { floor_round, NULL };
        double floor = bench_threads(threads, STACKS_ROUNDS, 0, deep_round, &deep);

        bench_report("floor: 16 frame pointers", threads, floor, "ns/call", 0, NULL);
        measure("16 frames, auto", threads, take_round, &unwinds[0], "ns/call", floor);
        measure("16 frames, frame pointers", threads, take_round, &unwinds[1], "ns/call", floor);
        measure("16 frames, unwinder", threads, take_round, &unwinds[2], "ns/call", floor);
        measure_track(threads);
    }
    for (unsigned i = 0; i < STACKS_THREADS; i++)
        free(stacks_threads[i].pointers);
    bench_end(argc > 1 ? argv[1] : NULL);
    return 0;
}
