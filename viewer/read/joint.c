/* Callers that read a trace in the middle of what they do, and share its readings. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/joint.h"

/* Give the turn to `caller` (NULL: joint_run), and wait until `self` has it again. Call with the lock. */
static void
joint_pass(struct joint *joint, struct joint_caller *caller, const struct joint_caller *self)
{
    joint->turn = caller;
    pthread_cond_broadcast(&joint->changed);
    while (joint->turn != self)
        pthread_cond_wait(&joint->changed, &joint->lock);
}

/* A caller asks for a reading: wait for it. The turn says which caller it is. */
static int
joint_ask(void *context, const struct scan_part *parts, size_t part_count)
{
    struct joint *joint = context;
    struct joint_caller *self;

    pthread_mutex_lock(&joint->lock);
    self = joint->turn;
    self->parts = parts;
    self->part_count = part_count;
    self->state = JOINT_WAITS;
    joint_pass(joint, NULL, self);
    pthread_mutex_unlock(&joint->lock);
    return self->answer;
}

int
joint_yield(struct joint *joint)
{
    return joint_ask(joint, NULL, 0);
}

static void *
joint_thread(void *context)
{
    struct joint_caller *self = context;
    struct joint *joint = self->joint;

    pthread_mutex_lock(&joint->lock);
    while (joint->turn != self)
        pthread_cond_wait(&joint->changed, &joint->lock);
    pthread_mutex_unlock(&joint->lock);
    self->status = self->run(self->context);
    pthread_mutex_lock(&joint->lock);
    self->state = JOINT_ENDED;
    joint->turn = NULL;
    pthread_cond_broadcast(&joint->changed);
    pthread_mutex_unlock(&joint->lock);
    return NULL;
}

void
joint_begin(struct joint *joint)
{
    *joint = (struct joint){ .share = { .run = joint_ask, .context = joint } };
    pthread_mutex_init(&joint->lock, NULL);
    pthread_cond_init(&joint->changed, NULL);
}

void
joint_end(struct joint *joint)
{
    pthread_cond_destroy(&joint->changed);
    pthread_mutex_destroy(&joint->lock);
}

/* Read the rows of `trace` once for all parts that the callers wait for. */
static int
joint_read(const struct trace *trace, const struct joint_caller *callers, size_t count)
{
    struct trace plain = *trace; /* borrows */
    struct scan_part *parts = NULL;
    size_t part_count = 0, capacity = 0;
    int status = COMMAND_FINE;

    plain.share = NULL;
    for (size_t i = 0; i < count && status == COMMAND_FINE; i++) {
        if (callers[i].state != JOINT_WAITS || callers[i].part_count == 0)
            continue;
        if (!tidei_grow(&parts, &capacity, part_count, callers[i].part_count))
            status = trace_broken(trace, "no memory");
        else
            memcpy(parts + part_count, callers[i].parts, callers[i].part_count * sizeof(*parts));
        part_count += callers[i].part_count;
    }
    if (part_count > 0 && status == COMMAND_FINE)
        status = scan_run_parts(&plain, parts, part_count);
    free(parts);
    return status;
}

/* Answer the callers that wait for a reading. Returns whether there were any. */
static bool
joint_answer(const struct trace *trace, struct joint_caller *callers, size_t count)
{
    int answer = joint_read(trace, callers, count);
    bool waited = false;

    for (size_t i = 0; i < count; i++) {
        if (callers[i].state != JOINT_WAITS)
            continue;
        callers[i].answer = answer;
        callers[i].state = JOINT_RUNS;
        waited = true;
    }
    return waited;
}

int
joint_run(struct joint *joint, const struct trace *trace, struct joint_caller *callers, size_t count)
{
    int status = COMMAND_FINE;

    for (size_t i = 0; i < count; i++) {
        callers[i].joint = joint;
        callers[i].state = JOINT_ENDED;
        callers[i].status = COMMAND_WRONG;
        callers[i].has_thread =
            status == COMMAND_FINE && pthread_create(&callers[i].thread, NULL, joint_thread, &callers[i]) == 0;
        if (callers[i].has_thread)
            callers[i].state = JOINT_RUNS;
        else if (status == COMMAND_FINE)
            status = trace_broken(trace, "no thread for its analyses");
    }
    /* Those that have a thread run in any case, to their ends. */
    pthread_mutex_lock(&joint->lock);
    do {
        for (size_t i = 0; i < count; i++) {
            if (callers[i].state == JOINT_RUNS)
                joint_pass(joint, &callers[i], NULL);
        }
    } while (joint_answer(trace, callers, count));
    pthread_mutex_unlock(&joint->lock);
    for (size_t i = 0; i < count; i++) {
        if (callers[i].has_thread)
            pthread_join(callers[i].thread, NULL);
    }
    return status;
}
