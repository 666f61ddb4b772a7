/* Callers that read a trace in the middle of what they do, and share its readings. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/read/filter.h"
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

/* Parts of a lane with the same filter as one, so that their lives are kept, and their frees put in order, once. */
struct joint_parts {
    struct scan_part *list; /* owns, with the passes of each */
    unsigned *lanes;        /* owns */
    size_t count, capacity, lane_capacity;
};

static bool
joint_add_part(struct joint_parts *parts, const struct scan_part *part, unsigned lane)
{
    struct scan_pass *passes;
    struct scan_part *same;
    size_t at = 0;

    while (at < parts->count && (parts->lanes[at] != lane || !filter_same(parts->list[at].filter, part->filter)))
        at++;
    if (at == parts->count && (!tidei_grow(&parts->list, &parts->capacity, at, 1) ||
                               !tidei_grow(&parts->lanes, &parts->lane_capacity, at, 1)))
        return false;
    if (at == parts->count) {
        parts->lanes[at] = lane;
        parts->list[parts->count++] = (struct scan_part){ .filter = part->filter };
    }
    same = &parts->list[at];
    passes = reallocarray((struct scan_pass *)same->passes, same->pass_count + part->pass_count + 1, sizeof(*passes));
    if (passes == NULL)
        return false;
    memcpy(passes + same->pass_count, part->passes, part->pass_count * sizeof(*passes));
    same->passes = passes;
    same->pass_count += part->pass_count;
    return true;
}

/* The lane of what a caller waits for: its units share what they write, so all are in one. */
static unsigned
joint_lane(const struct joint *joint, const struct joint_caller *caller)
{
    bool asks = joint->alone;

    for (size_t i = 0; i < caller->part_count; i++) {
        for (size_t j = 0; j < caller->parts[i].pass_count; j++)
            asks = asks || caller->parts[i].passes[j].unit->asks;
    }
    return asks ? 0 : caller->lane;
}

/* Read the rows of `trace` for all parts. */
static int
joint_read_parts(struct joint *joint, const struct trace *trace, struct joint_parts *parts)
{
    unsigned before = 0, behind = 0;
    int status;

    for (size_t i = 0; i < parts->count; i++)
        before |= parts->lanes[i];
    status = scan_run_lanes(trace, parts->list, parts->lanes, parts->count);
    for (size_t i = 0; i < parts->count; i++)
        behind |= parts->lanes[i];
    joint->alone = joint->alone || behind != before;
    return status;
}

/* Read the rows of `trace` once for all parts that the callers wait for. */
static int
joint_read(struct joint *joint, const struct trace *trace, const struct joint_caller *callers, size_t count)
{
    struct joint_parts parts = { .count = 0 };
    int status = COMMAND_FINE;

    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; callers[i].state == JOINT_WAITS && j < callers[i].part_count; j++) {
            if (status == COMMAND_FINE && !joint_add_part(&parts, &callers[i].parts[j], joint_lane(joint, &callers[i])))
                status = trace_broken(trace, "no memory");
        }
    }
    if (parts.count > 0 && status == COMMAND_FINE)
        status = joint_read_parts(joint, trace, &parts);
    for (size_t i = 0; i < parts.count; i++)
        free((struct scan_pass *)parts.list[i].passes);
    free(parts.list);
    free(parts.lanes);
    return status;
}

/* Answer the callers that wait for a reading. Returns whether there were any. */
static bool
joint_answer(struct joint *joint, const struct trace *trace, struct joint_caller *callers, size_t count)
{
    int answer = joint_read(joint, trace, callers, count);
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
    } while (joint_answer(joint, trace, callers, count));
    pthread_mutex_unlock(&joint->lock);
    for (size_t i = 0; i < count; i++) {
        if (callers[i].has_thread)
            pthread_join(callers[i].thread, NULL);
    }
    return status;
}
