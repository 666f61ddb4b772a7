/* Replays allocator traffic through a stack: one thread for each recorded thread, strictly in the recorded order. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tidemark/message.h>
#include <tidemark/tag.h>

#include "viewer/base/clock.h"
#include "viewer/base/message.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/progress.h"
#include "viewer/read/replayed.h"
#include "viewer/replay/run.h"

/* Values in place of pointers; no stack returns them. */
#define REPLAY_NOTHING ((void *)UINTPTR_MAX)       /* not allocated yet, or freed */
#define REPLAY_FAILED  ((void *)(UINTPTR_MAX - 1)) /* refused by the stack */

/* So many threads are there before the first event. Those of a long life of a program are not there all at once. */
#define REPLAY_AHEAD 4096

/* Events between two looks at the clock for the progress line. */
#define REPLAY_SLICE 65536

/* One for each recorded thread, on a cache line of its own. */
struct replay_thread {
    _Alignas(64) atomic_int turn; /* TURN_*; written by the thread that gives the turn, and by this one */
    struct replay_shared *shared; /* borrows */
    pthread_t pthread;
    size_t last;   /* its last event */
    bool is_there; /* it was started, and nobody has waited for its end */
};

/* What all threads of a replay share. All but `turn` belongs to the thread that has the turn. */
struct replay_shared {
    struct replay *replay;
    struct replay_thread *threads; /* owns */
    struct replay_thread *ended;   /* with its last event, and nobody has waited for it; NULL: none */
    struct replay_thread caller;   /* has its turn once the replay is over */
    int error;                     /* of a thread that could not be started; 0: none */
    size_t position;               /* the next event */
    int64_t begin_ns;
    struct progress progress;
};

enum {
    TURN_NONE = 0,
    TURN_GIVEN = 1,
    TURN_ASLEEP = 2, /* not given, and the thread must be woken */
    TURN_OVER = 3,
};

/* About as long as it takes to wake a thread. */
#define TURN_SPINS 300

static inline void
turn_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/*
 * Wait until this thread has the turn (true) or the replay has ended (false). Writes of the thread that gave the turn
 * are then visible. Spins for some microseconds, then sleeps.
 */
static bool
turn_wait(struct replay_thread *thread)
{
    int state = TURN_NONE;

    for (int i = 0; i < TURN_SPINS; i++) {
        /* Relaxed: the load below acquires. */
        state = atomic_load_explicit(&thread->turn, memory_order_relaxed);
        if (state != TURN_NONE)
            break;
        turn_pause();
    }
    for (;;) {
        /* Acquire: pairs with the release in turn_set, so that the writes of the giving thread are seen. */
        state = atomic_load_explicit(&thread->turn, memory_order_acquire);
        if (state == TURN_OVER)
            return false;
        if (state == TURN_GIVEN) {
            /* Relaxed: nobody gives this turn again before this thread has given the turn to another. */
            atomic_store_explicit(&thread->turn, TURN_NONE, memory_order_relaxed);
            return true;
        }
        /* Relaxed: the state asks the giver for a wake-up and carries no data. On failure the loop reads again. */
        if (state == TURN_ASLEEP || atomic_compare_exchange_strong_explicit(&thread->turn, &state, TURN_ASLEEP,
                                                                            memory_order_relaxed, memory_order_relaxed))
            syscall(SYS_futex, &thread->turn, FUTEX_WAIT_PRIVATE, TURN_ASLEEP, NULL, NULL, 0);
    }
}

/* Give the thread the turn (TURN_GIVEN), or tell it that the replay has ended (TURN_OVER). Wait-free. */
static void
turn_set(struct replay_thread *thread, int state)
{
    /* Release: pairs with the acquire in turn_wait. */
    if (atomic_exchange_explicit(&thread->turn, state, memory_order_release) == TURN_ASLEEP)
        syscall(SYS_futex, &thread->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The number of an event among the calls, from 1: marks do not count. */
static size_t
run_number(const struct replay *replay, const struct replay_event *event)
{
    size_t number = 0;

    for (const struct replay_event *at = replay->input->events; at <= event; at++)
        number += at->kind != REPLAY_MARK;
    return number;
}

static void
run_note_failure(struct replay *replay, const struct replay_event *event, enum tide_status status)
{
    if (replay->result.first_failure[0] == '\0')
        snprintf(replay->result.first_failure, sizeof(replay->result.first_failure), "event %zu: %s (%s)",
                 run_number(replay, event), tide_error_text(), tide_status_name(status));
}

/* The number of tags that a label puts on the calling thread. */
static size_t
run_label_tags(const struct replay *replay, uint32_t label)
{
    const struct replay_label *at = label > 0 ? &replay->input->notes.labels[label - 1] : NULL;

    return at != NULL ? at->tag_count + (at->callstack_id != 0) : 0;
}

/*
 * Give the calling thread the tags of a label in place of those of the label that it had. A tag that cannot be made is
 * an allocation without it.
 */
static void
run_set_label(struct replay *replay, size_t thread, uint32_t label)
{
    const struct replay_label *to = label > 0 ? &replay->input->notes.labels[label - 1] : NULL;
    char callstack[64];

    if (replay->labels[thread] == label)
        return;
    for (size_t i = run_label_tags(replay, replay->labels[thread]); i > 0; i--)
        tide_tag_pop();
    replay->labels[thread] = 0;
    for (size_t i = 0; to != NULL && i < to->tag_count; i++) {
        if (tide_tag_push(to->tags[i]) != TIDE_OK) {
            for (; i > 0; i--)
                tide_tag_pop();
            return;
        }
    }
    if (to != NULL && to->callstack_id != 0) {
        snprintf(callstack, sizeof(callstack), REPLAY_CALLSTACK_TAG "%" PRId64, to->callstack_id);
        if (tide_tag_push(callstack) != TIDE_OK) {
            for (size_t i = to->tag_count; i > 0; i--)
                tide_tag_pop();
            return;
        }
    }
    replay->labels[thread] = label;
}

static void
run_allocate(struct replay *replay, const struct replay_event *event)
{
    void *pointer;
    enum tide_status status =
        tide_allocate(replay->stack, replay->input->sizes[event->allocation], (size_t)1 << event->alignment_shift,
                      replay->streams.streams[event->stream], &pointer);

    if (status == TIDE_OK) {
        struct replay_result *result = &replay->result;

        replay->pointers[event->allocation] = pointer;
        if (replay->allocated_on != NULL)
            replay->allocated_on[event->allocation] = event->stream;
        result->allocations++;
        result->live_bytes += replay->input->sizes[event->allocation];
        if (result->live_bytes > result->peak_bytes)
            result->peak_bytes = result->live_bytes;
        return;
    }
    replay->pointers[event->allocation] = REPLAY_FAILED;
    replay->result.failures++;
    run_note_failure(replay, event, status);
    if (replay->options.stop_at_failure && replay->result.stopped_at == 0)
        replay->result.stopped_at = run_number(replay, event);
}

/*
 * Order the stream of a free after that of its allocation. The program has done so, by events that no input has; and
 * a layer may have submitted work of its own, as guard does to fill what it watches.
 */
static enum tide_status
run_order(const struct replay *replay, const struct replay_event *event)
{
    tide_stream earlier = replay->streams.streams[replay->allocated_on[event->allocation]];
    tide_stream later = replay->streams.streams[event->stream];

    return earlier == later ? TIDE_OK : tide_order(replay->stack, earlier, later);
}

static void
run_free(struct replay *replay, const struct replay_event *event)
{
    void *pointer = replay->pointers[event->allocation];
    enum tide_status status = TIDE_OK;

    if (pointer == REPLAY_FAILED) {
        replay->result.skipped_frees++;
        return;
    }
    replay->pointers[event->allocation] = REPLAY_NOTHING;
    if (replay->allocated_on != NULL)
        status = run_order(replay, event);
    if (status == TIDE_OK)
        status = tide_deallocate(replay->stack, pointer, replay->input->sizes[event->allocation],
                                 (size_t)1 << event->alignment_shift, replay->streams.streams[event->stream]);
    if (status == TIDE_OK) {
        replay->result.frees++;
        replay->result.live_bytes -= replay->input->sizes[event->allocation];
    } else {
        replay->result.free_failures++;
        run_note_failure(replay, event, status);
    }
}

/* Run the events of `thread` from `position` to `end`, up to the first of another thread. Returns where it stopped. */
static size_t
run_events(struct replay *replay, size_t position, size_t end, size_t thread)
{
    const struct replay_event *events = replay->input->events;
    const uint32_t *labels = replay->options.keeps_notes ? replay->input->notes.label_of : NULL;

    for (; position < end && events[position].thread == thread && replay->result.stopped_at == 0; position++) {
        const struct replay_event *event = &events[position];

        if (event->kind == REPLAY_FREE) {
            run_free(replay, event);
        } else if (event->kind == REPLAY_ALLOCATE) {
            if (labels != NULL)
                run_set_label(replay, thread, labels[event->allocation]);
            run_allocate(replay, event);
        } else if (replay->options.keeps_notes) {
            tide_mark(replay->input->notes.marks[event->allocation].text);
        }
    }
    return replay->result.stopped_at == 0 ? position : replay->input->event_count;
}

/* Run the events of `thread` from the shared position on, in slices. */
static void
run_slices(struct replay_shared *shared, size_t thread)
{
    size_t count = shared->replay->input->event_count;
    size_t position = shared->position;
    size_t end;

    do {
        end = count - position > REPLAY_SLICE ? position + REPLAY_SLICE : count;
        position = run_events(shared->replay, position, end, thread);
        progress_update(&shared->progress, position, count);
    } while (position == end && end < count);
    shared->position = position;
}

/* Add what is live and reserved until the event at `position`, after the one before it, to the sums of the means. */
static void
run_weigh(struct replay *replay, size_t position)
{
    const int64_t *times = replay->input->times;
    uint64_t reserved;
    double gap;

    if (position == 0 || times[position] <= replay->pace.latest_ns)
        return;
    gap = (double)((uint64_t)times[position] - (uint64_t)replay->pace.latest_ns);
    replay->result.live_mean_bytes += gap * (double)replay->result.live_bytes;
    if (tide_query(replay->stack, TIDE_QUERY_BYTES_RESERVED, &reserved) == TIDE_OK)
        replay->result.reserved_mean_bytes += gap * (double)reserved;
    else
        replay->knows_reserved = false;
}

/* The same with a time scale: each event waits until it is due. */
static void
run_paced(struct replay_shared *shared, size_t thread)
{
    struct replay *replay = shared->replay;
    const struct replay_input *input = replay->input;
    size_t position = shared->position;
    double passed_ns;

    while (position < input->event_count && input->events[position].thread == thread) {
        run_weigh(replay, position);
        while (!replay_pace_await(&replay->pace, input->times[position], &passed_ns))
            progress_update(&shared->progress, (uint64_t)passed_ns, (uint64_t)input->duration_ns);
        position = run_events(replay, position, position + 1, thread);
    }
    shared->position = position;
}

/* Run the events of `thread` from the shared position on, up to the first of another thread. */
static void
run_turn(struct replay_shared *shared, size_t thread)
{
    if (shared->replay->options.time_scale > 0)
        run_paced(shared, thread);
    else
        run_slices(shared, thread);
}

/* Once the replay is over. */
static void
run_end_pace(struct replay *replay)
{
    struct replay_pace *pace = &replay->pace;
    struct replay_result *result = &replay->result;
    double recorded_ns = (double)((uint64_t)pace->latest_ns - (uint64_t)pace->first_ns);

    result->waited_ns = pace->waited_ns;
    replay_pace_lateness(pace, &result->late);
    result->live_mean_bytes = recorded_ns > 0 ? result->live_mean_bytes / recorded_ns : -1;
    result->reserved_mean_bytes =
        recorded_ns > 0 && replay->knows_reserved ? result->reserved_mean_bytes / recorded_ns : -1;
}

/* Give the calling thread the name of the recorded one. */
static void
run_name_thread(const struct replay *replay, size_t thread)
{
    char *const *names = replay->options.keeps_notes ? replay->input->notes.thread_names : NULL;
    char name[16];

    if (names == NULL || names[thread] == NULL)
        return;
    snprintf(name, sizeof(name), "%s", names[thread]); /* no thread has a longer one */
    pthread_setname_np(pthread_self(), name);
}

static void *run_thread(void *context);

/* Start a thread that is not there. 0, or an error of pthread_create. */
static int
run_start(struct replay_thread *thread)
{
    int error = pthread_create(&thread->pthread, NULL, run_thread, thread);

    thread->is_there = error == 0;
    return error;
}

/* Wait for the thread that ended with the turn before this one, which takes no time. */
static void
run_join_ended(struct replay_shared *shared)
{
    if (shared->ended == NULL)
        return;
    pthread_join(shared->ended->pthread, NULL);
    shared->ended->is_there = false;
    shared->ended = NULL;
}

/* Give the turn to the thread of the next event. False: there is none, or it cannot be started. */
static bool
run_give(struct replay_shared *shared)
{
    const struct replay_input *input = shared->replay->input;
    struct replay_thread *next;

    if (shared->position >= input->event_count)
        return false;
    next = &shared->threads[input->events[shared->position].thread];
    if (!next->is_there)
        shared->error = run_start(next);
    if (shared->error == 0)
        turn_set(next, TURN_GIVEN);
    return shared->error == 0;
}

/* Tell all threads that the replay is over, and at last its caller, who waits for their end. */
static void
run_finish(struct replay_shared *shared)
{
    shared->replay->result.total_ns = clock_now_ns() - shared->begin_ns;
    for (size_t i = 0; i < shared->replay->input->thread_count; i++)
        turn_set(&shared->threads[i], TURN_OVER);
    turn_set(&shared->caller, TURN_OVER);
}

static void *
run_thread(void *context)
{
    struct replay_thread *self = context;
    struct replay_shared *shared = self->shared;
    bool entered = replay_streams_enter(&shared->replay->streams);

    run_name_thread(shared->replay, (size_t)(self - shared->threads));
    while (turn_wait(self)) {
        bool is_last;

        run_join_ended(shared);
        if (shared->position == 0)
            shared->begin_ns = clock_now_ns();
        run_turn(shared, (size_t)(self - shared->threads));
        is_last = self->last < shared->position;
        if (is_last)
            shared->ended = self;
        if (!run_give(shared))
            run_finish(shared);
        if (is_last)
            break;
    }
    if (entered)
        replay_streams_leave(&shared->replay->streams);
    return NULL;
}

/* Start the first threads, give the thread of the first event its turn, and wait for all. */
static int
run_threads(struct replay_shared *shared)
{
    const struct replay_input *input = shared->replay->input;
    size_t count = input->thread_count;
    struct replay_thread *threads = aligned_alloc(_Alignof(struct replay_thread), count * sizeof(*threads));

    shared->threads = threads;
    shared->error = threads == NULL ? ENOMEM : 0;
    atomic_init(&shared->caller.turn, TURN_NONE);
    for (size_t i = 0; i < count && threads != NULL; i++) {
        threads[i] = (struct replay_thread){ .shared = shared };
        atomic_init(&threads[i].turn, TURN_NONE);
    }
    for (size_t i = 0; i < input->event_count && threads != NULL; i++)
        threads[input->events[i].thread].last = i;
    for (size_t i = 0; i < count && i < REPLAY_AHEAD && shared->error == 0; i++)
        shared->error = run_start(&threads[i]);
    if (shared->error == 0 && run_give(shared)) {
        turn_wait(&shared->caller);
    } else if (threads != NULL) {
        run_finish(shared);
    }
    if (shared->error != 0)
        message("tidemark replay: the input has %zu threads: %s", count, strerror(shared->error));
    for (size_t i = 0; i < count && threads != NULL; i++) {
        if (threads[i].is_there)
            pthread_join(threads[i].pthread, NULL);
    }
    free(threads);
    return shared->error == 0 ? COMMAND_FINE : COMMAND_WRONG;
}

static int
run_all(struct replay *replay)
{
    struct replay_shared shared = { .replay = replay };
    size_t threads = replay->input->thread_count;
    int status = COMMAND_FINE;

    progress_begin(&shared.progress, "replaying");
    /* A trace has the names of threads: then a single thread is one of its own, too, and not the command's. */
    if (threads == 1 && !replay->options.keeps_notes) {
        shared.begin_ns = clock_now_ns();
        run_turn(&shared, 0);
        replay->result.total_ns = clock_now_ns() - shared.begin_ns;
    } else if (threads > 0) {
        status = run_threads(&shared);
    }
    progress_end(&shared.progress);
    if (replay->options.time_scale > 0)
        run_end_pace(replay);
    return status;
}

static int
run_no_memory(void)
{
    message("tidemark replay: no memory for the allocations");
    return COMMAND_WRONG;
}

static int
run_prepare(struct replay *replay)
{
    const struct replay_input *input = replay->input;
    int status;

    replay->pointers = malloc((input->allocation_count + 1) * sizeof(*replay->pointers));
    replay->labels = calloc(input->thread_count + 1, sizeof(*replay->labels));
    if (replay->pointers == NULL || replay->labels == NULL ||
        (replay->options.time_scale > 0 &&
         !replay_pace_begin(&replay->pace, replay->options.time_scale, input->event_count)))
        return run_no_memory();
    for (size_t i = 0; i < input->allocation_count; i++)
        replay->pointers[i] = REPLAY_NOTHING;
    status = replay_streams_make(replay->stack, input->streams, input->stream_count, &replay->streams);
    if (status != COMMAND_FINE)
        message("tidemark replay: %s", replay->streams.failure);
    if (status != COMMAND_FINE || replay->streams.driver == NULL || input->stream_count < 2)
        return status;
    replay->allocated_on = calloc(input->allocation_count + 1, sizeof(*replay->allocated_on));
    return replay->allocated_on != NULL ? COMMAND_FINE : run_no_memory();
}

bool
replay_has_failed(const struct replay *replay, uint32_t allocation)
{
    return replay->pointers[allocation] == REPLAY_FAILED;
}

static bool
run_is_live(const struct replay *replay, uint32_t allocation)
{
    return replay->pointers[allocation] != REPLAY_NOTHING && replay->pointers[allocation] != REPLAY_FAILED;
}

int
replay_run(struct replay *replay, const struct replay_input *input, struct tide_resource *stack,
           const struct replay_options *options)
{
    int status;

    *replay = (struct replay){ .input = input, .stack = stack, .options = *options, .knows_reserved = true };
    status = run_prepare(replay);
    if (status == COMMAND_FINE)
        status = run_all(replay);
    for (uint32_t i = 0; status == COMMAND_FINE && i < input->allocation_count; i++) {
        if (run_is_live(replay, i)) {
            replay->result.left_count += replay->input->sizes[i] != 0;
            replay->result.left_bytes += input->sizes[i];
        }
    }
    return status;
}

void
replay_free_left(struct replay *replay)
{
    const struct replay_input *input = replay->input;
    uint64_t frees = replay->result.frees;

    for (size_t i = 0; i < input->event_count; i++) {
        if (input->events[i].kind == REPLAY_ALLOCATE && run_is_live(replay, input->events[i].allocation))
            run_free(replay, &input->events[i]);
    }
    replay->result.frees = frees;
}

void
replay_finish(struct replay *replay)
{
    free(replay->pointers);
    replay_streams_finish(&replay->streams);
    replay_pace_end(&replay->pace);
    free(replay->labels);
    free(replay->allocated_on);
}
