/*
 * What call stacks of 16 frames cost the thread that takes them: alone, by frame pointers and with the unwinder, and in
 * `track` over a base that does nothing; beside the floor of the same run, a plain walk of 16 frame pointers that
 * checks nothing and keeps the addresses.
 *
 * Usage: bench/callstacks [JSON-FILE]
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include <tidemark/tidemark.h>

#include "bench.h"
#include "callstack.h"
#include "nothing.h"

#define STACKS_CALLS   5000 /* longer rounds lose the processor on a busy machine */
#define STACKS_ROUNDS  100
#define STACKS_THREADS 16
#define STACKS_FRAMES  16

/* Has a call stack of that many frames and more lead to what is measured. */
struct stacks_dig {
    double (*round)(void *context, unsigned thread);
    void *context;
};

static __attribute__((noinline)) double
dig(const struct stacks_dig *what, unsigned thread, unsigned frames)
{
    double took = frames > 0 ? dig(what, thread, frames - 1) : what->round(what->context, thread);

    __asm__ volatile("" ::: "memory"); /* a call that is the last thing that a function does would leave no frame */
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

static double
pair_round(void *context, unsigned thread)
{
    uint64_t begin = bench_now_ns();
    void *pointer;

    for (unsigned i = 0; i < STACKS_CALLS; i++) {
        if (tide_allocate(context, 4096, 256, thread, &pointer) != TIDE_OK ||
            tide_deallocate(context, pointer, 4096, 256, thread) != TIDE_OK)
            bench_fail("pair");
    }
    return (double)(bench_now_ns() - begin) / STACKS_CALLS;
}

static void
measure(const char *name, unsigned threads, double (*round)(void *context, unsigned thread), void *context,
        const char *unit, double floor)
{
    struct stacks_dig deep = { round, context };

    bench_report(name, threads, bench_threads(threads, STACKS_ROUNDS, 0, deep_round, &deep), unit, floor,
                 floor == 0 ? NULL : "floor");
}

static void
measure_track(const char *name, unsigned threads, uint32_t frames, double floor)
{
    const struct tide_track_options options = { TIDE_OPTIONS(options), .callstack_depth = frames };
    struct tide_resource *base = bench_nothing(), *track;

    if (tide_track_create(base, &options, &track) != TIDE_OK)
        bench_fail("track");
    measure(name, threads, pair_round, track, "ns/pair", floor);
    tide_resource_release(track);
    tide_resource_release(base);
}

int
main(int argc, char **argv)
{
    enum tide_unwind unwinds[] = { TIDE_UNWIND_AUTO, TIDE_UNWIND_FP, TIDE_UNWIND_DWARF };

    if (tidei_callstack_options("bench", STACKS_FRAMES, TIDE_UNWIND_AUTO) != TIDE_OK)
        bench_fail("call stacks");
    bench_begin("callstacks");
    for (unsigned threads = 0; (threads = bench_next_threads(threads, STACKS_THREADS)) != 0;) {
        struct stacks_dig deep = { floor_round, NULL };
        double floor = bench_threads(threads, STACKS_ROUNDS, 0, deep_round, &deep);

        bench_report("floor: 16 frame pointers", threads, floor, "ns/call", 0, NULL);
        measure("16 frames, auto", threads, take_round, &unwinds[0], "ns/call", floor);
        measure("16 frames, frame pointers", threads, take_round, &unwinds[1], "ns/call", floor);
        measure("16 frames, unwinder", threads, take_round, &unwinds[2], "ns/call", floor);
        measure_track("track", threads, 0, floor);
        measure_track("track(callstack=16)", threads, STACKS_FRAMES, floor);
    }
    bench_end(argc > 1 ? argv[1] : NULL);
    return 0;
}
