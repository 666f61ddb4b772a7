/* Replays allocator traffic through a stack: one thread for each recorded thread, strictly in the recorded order. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tidemark/message.h>

#include "viewer/base/exit-status.h"
#include "viewer/base/progress.h"
#include "viewer/replay/run.h"
#include "viewer/replay/turn.h"

/* Marks in place of pointers; no stack gives out either. */
#define REPLAY_NOTHING ((void *)UINTPTR_MAX)       /* not allocated yet, or freed */
#define REPLAY_FAILED  ((void *)(UINTPTR_MAX - 1)) /* refused by the stack */

/* Events between two looks at the clock for the progress line. */
#define REPLAY_SLICE 65536

/* What all threads of a replay share. All but the turns belongs to the thread whose turn it is. */
struct replay_shared {
    struct replay *replay;
    struct replay_turn *turns; /* one for each thread */
    size_t position;           /* the next event */
    int64_t begin_ns;
    struct progress progress;
};

struct replay_worker {
    struct replay_shared *shared;
    size_t thread;
};

static int64_t
run_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void
run_note_failure(struct replay *replay, size_t event, enum tide_status status)
{
    if (replay->result.first_failure[0] == '\0')
        snprintf(replay->result.first_failure, sizeof(replay->result.first_failure), "event %zu: %s (%s)", event + 1,
                 tide_error_text(), tide_status_name(status));
}

static void
run_allocate(struct replay *replay, const struct replay_event *event)
{
    void *pointer;
    enum tide_status status =
        tide_allocate(replay->stack, replay->input->sizes[event->allocation], (size_t)1 << event->alignment_shift,
                      replay->streams[event->stream], &pointer);

    if (status == TIDE_OK) {
        replay->pointers[event->allocation] = pointer;
        replay->result.allocations++;
    } else {
        replay->pointers[event->allocation] = REPLAY_FAILED;
        replay->result.failures++;
        run_note_failure(replay, (size_t)(event - replay->input->events), status);
    }
}

static void
run_free(struct replay *replay, const struct replay_event *event)
{
    void *pointer = replay->pointers[event->allocation];
    enum tide_status status;

    if (pointer == REPLAY_FAILED) {
        replay->result.skipped_frees++;
        return;
    }
    replay->pointers[event->allocation] = REPLAY_NOTHING;
    status = tide_deallocate(replay->stack, pointer, replay->input->sizes[event->allocation],
                             (size_t)1 << event->alignment_shift, replay->streams[event->stream]);
    if (status == TIDE_OK) {
        replay->result.frees++;
    } else {
        replay->result.free_failures++;
        run_note_failure(replay, (size_t)(event - replay->input->events), status);
    }
}

/* Run events from `position` up to `end` as long as they are of `thread`; the first that was not run. */
static size_t
run_events(struct replay *replay, size_t position, size_t end, size_t thread)
{
    const struct replay_event *events = replay->input->events;

    for (; position < end && events[position].thread == thread; position++) {
        if (events[position].is_free)
            run_free(replay, &events[position]);
        else
            run_allocate(replay, &events[position]);
    }
    return position;
}

/* All events of `thread` from the shared position on, in slices. */
static void
run_turn(struct replay_shared *shared, size_t thread)
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

static void *
run_worker(void *context)
{
    struct replay_worker *worker = context;
    struct replay_shared *shared = worker->shared;
    const struct replay_input *input = shared->replay->input;

    while (replay_turn_wait(&shared->turns[worker->thread])) {
        if (shared->position == 0)
            shared->begin_ns = run_now();
        run_turn(shared, worker->thread);
        if (shared->position < input->event_count) {
            replay_turn_give(&shared->turns[input->events[shared->position].thread]);
            continue;
        }
        shared->replay->result.total_ns = run_now() - shared->begin_ns;
        for (size_t i = 0; i < input->thread_count; i++)
            replay_turn_end(&shared->turns[i]);
    }
    return NULL;
}

/* Start the threads, give the first its turn, and wait for all. */
static int
run_threads(struct replay_shared *shared)
{
    size_t count = shared->replay->input->thread_count;
    struct replay_worker *workers = calloc(count, sizeof(*workers));
    pthread_t *threads = calloc(count, sizeof(*threads));
    int error = workers == NULL || threads == NULL ? ENOMEM : 0;
    size_t started = 0;

    for (; error == 0 && started < count; started++) {
        workers[started] = (struct replay_worker){ .shared = shared, .thread = started };
        error = pthread_create(&threads[started], NULL, run_worker, &workers[started]);
        if (error != 0)
            break;
    }
    if (error == 0) {
        replay_turn_give(&shared->turns[shared->replay->input->events[0].thread]);
    } else {
        fprintf(stderr, "tidemark replay: the input has %zu threads: %s\n", count, strerror(error));
        for (size_t i = 0; i < started; i++)
            replay_turn_end(&shared->turns[i]);
    }
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    free(workers);
    return error == 0 ? COMMAND_FINE : COMMAND_WRONG;
}

static int
run_all(struct replay *replay)
{
    struct replay_shared shared = { .replay = replay };
    size_t threads = replay->input->thread_count;
    int status = COMMAND_FINE;

    progress_begin(&shared.progress, "replaying");
    if (threads == 1) {
        shared.begin_ns = run_now();
        run_turn(&shared, 0);
        replay->result.total_ns = run_now() - shared.begin_ns;
    } else if (threads > 1) {
        shared.turns = replay_turns_create(threads);
        status = shared.turns != NULL ? run_threads(&shared) : COMMAND_WRONG;
        free(shared.turns);
    }
    progress_end(&shared.progress);
    return status;
}

static int
run_prepare(struct replay *replay)
{
    const struct replay_input *input = replay->input;
    uint64_t ordered = 0;

    replay->pointers = malloc((input->allocation_count + 1) * sizeof(*replay->pointers));
    replay->streams = calloc(input->stream_count + 1, sizeof(*replay->streams));
    if (replay->pointers == NULL || replay->streams == NULL) {
        fputs("tidemark replay: no memory for the allocations\n", stderr);
        return COMMAND_WRONG;
    }
    for (size_t i = 0; i < input->allocation_count; i++)
        replay->pointers[i] = REPLAY_NOTHING;
    if (tide_query(replay->stack, TIDE_QUERY_STREAM_ORDERED, &ordered) == TIDE_OK && ordered == 1)
        return COMMAND_FINE;
    for (size_t i = 0; i < input->stream_count; i++)
        replay->streams[i] = (tide_stream)input->streams[i];
    return COMMAND_FINE;
}

static bool
run_is_live(const struct replay *replay, uint32_t allocation)
{
    return replay->pointers[allocation] != REPLAY_NOTHING && replay->pointers[allocation] != REPLAY_FAILED;
}

int
replay_run(struct replay *replay, const struct replay_input *input, struct tide_resource *stack)
{
    int status;

    *replay = (struct replay){ .input = input, .stack = stack };
    status = run_prepare(replay);
    if (status == COMMAND_FINE)
        status = run_all(replay);
    for (uint32_t i = 0; status == COMMAND_FINE && i < input->allocation_count; i++) {
        if (run_is_live(replay, i)) {
            replay->result.left_count++;
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
        if (!input->events[i].is_free && run_is_live(replay, input->events[i].allocation))
            run_free(replay, &input->events[i]);
    }
    replay->result.frees = frees;
}

void
replay_finish(struct replay *replay)
{
    free(replay->pointers);
    free(replay->streams);
    replay->pointers = NULL;
    replay->streams = NULL;
}
