/* What groups of allocations had live. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/base/callstack-text.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/order.h"
#include "viewer/read/name-texts.h"
#include "viewer/report/series.h"

const char *const series_words[SERIES_KEYS] = { "size", "tag", "thread", "stream", "frame", "layer" };

/* Frames are groups of call stacks, each under the first stack that has the frame innermost. */
static const enum groups_by series_by[SERIES_KEYS] = { GROUPS_CLASS,  GROUPS_TAG,       GROUPS_THREAD,
                                                       GROUPS_STREAM, GROUPS_CALLSTACK, GROUPS_LAYER };

/* Find the innermost frame of each call stack. False: no memory. */
static bool
series_find_frames(struct series_set *set)
{
    struct name_texts texts = { .list = &set->frames };
    bool done = true;

    for (size_t i = 0; i < set->names->callstacks.count && done; i++) {
        const struct name *stack = &set->names->callstacks.names[i];
        const char *next;
        char *frame = strndup(stack->text, stack_text_frame(stack->text, &next));

        done = frame != NULL && name_texts_add(&texts, stack->id, frame) != NULL;
        free(frame);
    }
    name_texts_free(&texts);
    return done;
}

int
series_begin(struct series_set *set, const struct names *names)
{
    *set = (struct series_set){ .names = names };
    for (size_t i = 0; i < SERIES_KEYS; i++)
        groups_begin(&set->of[i].groups, series_by[i], names);
    return series_find_frames(set) ? COMMAND_FINE : trace_broken(names->trace, "no memory for its frames");
}

void
series_free(struct series_set *set)
{
    for (size_t i = 0; i < SERIES_KEYS; i++) {
        groups_end(&set->of[i].groups);
        free(set->of[i].list);
        set->of[i].list = NULL;
    }
    names_free_list(&set->frames);
}

void
series_clear(struct series_set *set)
{
    for (size_t i = 0; i < SERIES_KEYS; i++) {
        if (set->of[i].list != NULL)
            memset(set->of[i].list, 0, set->of[i].capacity * sizeof(*set->of[i].list));
    }
}

void
series_clear_sums(struct series_set *set)
{
    for (size_t i = 0; i < SERIES_KEYS; i++)
        memset(set->of[i].live, 0, sizeof(set->of[i].live));
}

unsigned
series_needs(void)
{
    unsigned needs = 0;

    for (size_t i = 0; i < SERIES_KEYS; i++)
        needs |= groups_needs(series_by[i]);
    return needs;
}

/* The key of the innermost frame of a call stack. */
static uint64_t
series_frame_key(const struct series_set *set, int64_t stack_id)
{
    const struct name *frame = names_find(&set->frames, stack_id);

    return (uint64_t)(frame != NULL ? frame->number : stack_id);
}

/* The group of a life. */
static inline uint32_t
series_group_of(struct series_set *set, enum series_key key, const struct scan_life *life)
{
    if (key != SERIES_FRAME)
        return groups_of(&set->of[key].groups, life);
    if (life->callstack_id != set->last_stack) {
        set->last_stack = life->callstack_id;
        set->last_frame = series_frame_key(set, life->callstack_id);
    }
    return groups_number(&set->of[key].groups, set->last_frame);
}

bool
series_add(struct series_set *set, const struct scan_life *life, bool is_free)
{
    for (enum series_key key = 0; key < SERIES_KEYS; key++) {
        struct series *series = &set->of[key];
        uint32_t number = series_group_of(set, key, life);
        struct series_group *group;

        if (!groups_reach(&series->list, &series->capacity, number))
            return false;
        group = &series->list[number];
        group->live_bytes += is_free ? -life->size : life->size;
        if (group->live_bytes > group->peak_bytes && !is_free)
            group->peak_bytes = group->live_bytes;
    }
    return true;
}

static uint64_t
series_figure(const void *context, uint32_t number)
{
    return ((const struct series *)context)->list[number].peak_bytes;
}

bool
series_rank(struct series_set *set)
{
    for (enum series_key key = 0; key < SERIES_KEYS; key++) {
        struct series *series = &set->of[key];
        size_t groups = series->groups.count, named = groups < SERIES_NAMED ? groups : SERIES_NAMED;
        struct order *order = order_make(groups, series_figure, series);

        if (order == NULL)
            return false;
        for (size_t i = 0; i < groups; i++)
            series->list[order[i].number].series = (uint32_t)(i < named ? i : named);
        for (size_t i = 0; i < named; i++)
            series->named[i] = order[i].number;
        series->count = named + (groups > named);
        free(order);
    }
    return true;
}

void
series_sum(struct series_set *set, const struct scan_life *life, bool is_free)
{
    uint64_t bytes = is_free ? -life->size : life->size;

    for (enum series_key key = 0; key < SERIES_KEYS; key++) {
        struct series *series = &set->of[key];

        if (!series_has(set, key))
            continue;
        series->live[series->list[series_group_of(set, key, life)].series] += bytes;
    }
}

int
series_place(const struct series_set *set, enum series_key key, int64_t id)
{
    const struct series *series = &set->of[key];
    const uint32_t *group;

    if (!series_has(set, key))
        return -1;
    /* The first reading has made all groups: a failure adds none. */
    group = id_map_find(&series->groups.by_key, key == SERIES_FRAME ? series_frame_key(set, id) : (uint64_t)id);
    return group != NULL ? (int)series->list[*group].series : -1;
}

const char *
series_name(const struct series_set *set, enum series_key key, size_t place, char *buffer, size_t size)
{
    const struct series *series = &set->of[key];
    const struct name *frame;

    if (place >= SERIES_NAMED || place >= series->groups.count)
        return "others";
    if (key != SERIES_FRAME)
        return groups_name(&series->groups, series->named[place], buffer, size);
    frame = names_find(&set->frames, (int64_t)series->groups.keys[series->named[place]]);
    return frame != NULL ? frame->text : "(none)";
}
