/* The figures of one rank that go into the file of a job. */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tables/grow.h"
#include "viewer/base/exit-status.h"
#include "viewer/base/order.h"
#include "viewer/ranks/rollup.h"

/* More changes than this are never kept; then those of the lesser groups go. */
#define ROLLUP_CHANGES_HELD (4 * ROLLUP_CHANGES)

static const char rollup_kind_words[][16] = {
    [GROUPS_TAG] = "tag",
    [GROUPS_CLASS] = "class",
    [GROUPS_FUNCTION] = "function",
};

const char *
rollup_word(enum groups_by by)
{
    return rollup_kind_words[by];
}

static int
rollup_no_memory(const struct rollup *rollup)
{
    return trace_broken(&rollup->view->trace, "no memory for its figures");
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static void
rollup_groups_free(struct rollup_groups *by)
{
    groups_end(&by->groups);
    counterfactual_free(&by->rest);
    free(by->list);
    free(by->touched);
    free(by->changes);
}

static void
rollup_groups_begin(struct rollup_groups *by, enum groups_by kind, const struct names *names)
{
    rollup_groups_free(by);
    *by = (struct rollup_groups){ .kept = ROLLUP_GROUPS };
    groups_begin(&by->groups, kind, names);
}

/* The group may change in the step at this place. */
static bool
rollup_touch(struct rollup_groups *by, uint32_t group, size_t step)
{
    struct rollup_group *own = &by->list[group];

    if (own->touched == step + 1)
        return true;
    if (!tidei_grow(&by->touched, &by->touched_capacity, by->touched_count, 1))
        return false;
    own->touched = (uint32_t)step + 1;
    by->touched[by->touched_count++] = group;
    return true;
}

static bool
rollup_groups_add(struct rollup_groups *by, const struct scan_life *life, bool is_free, size_t step)
{
    uint32_t group = groups_of(&by->groups, life);

    return groups_reach(&by->list, &by->capacity, group) && rollup_touch(by, group, step) &&
           counterfactual_change(&by->rest, group, life->size, is_free);
}

/* What a group had at the peak of this step. */
static struct amount
rollup_at_peak(const struct rollup_groups *by, uint32_t group)
{
    const struct marked_amount *amount = &by->rest.groups[group].amount;

    return amount->mark == by->rest.mark ? amount->marked : amount->live;
}

static uint64_t
rollup_most(const void *context, uint32_t group)
{
    return ((const struct rollup_group *)context)[group].most_bytes;
}

/* Leave changes to the `kept` groups with the most bytes. */
static bool
rollup_drop(struct rollup_groups *by, size_t kept)
{
    struct order *order = order_make(by->groups.count, rollup_most, by->list);
    size_t count = 0;

    if (order == NULL)
        return false;
    for (size_t i = kept; i < by->groups.count; i++)
        by->list[order[i].number].is_dropped = true;
    free(order);
    for (size_t i = 0; i < by->change_count; i++) {
        if (!by->list[by->changes[i].group].is_dropped)
            by->changes[count++] = by->changes[i];
    }
    by->change_count = count;
    by->kept = kept;
    return true;
}

static bool
rollup_add_change(struct rollup_groups *by, const struct rollup_change *change)
{
    while (by->change_count >= ROLLUP_CHANGES_HELD && by->kept > 1) {
        if (!rollup_drop(by, by->kept / 2))
            return false;
    }
    if (by->list[change->group].is_dropped)
        return true;
    if (!tidei_grow(&by->changes, &by->change_capacity, by->change_count, 1))
        return false;
    by->changes[by->change_count++] = *change;
    return true;
}

/* The step at this place ends. */
static bool
rollup_groups_end_step(struct rollup_groups *by, size_t step)
{
    size_t count = by->touched_count;
    bool good = true;

    by->touched_count = 0;
    for (size_t i = 0; i < count && good; i++) {
        uint32_t group = by->touched[i];
        struct rollup_group *own = &by->list[group];
        uint64_t peak = rollup_at_peak(by, group).bytes, end = by->rest.groups[group].amount.live.bytes;

        if (peak != own->peak_bytes || end != own->end_bytes) {
            own->peak_bytes = peak;
            own->end_bytes = end;
            if ((peak > end ? peak : end) > own->most_bytes)
                own->most_bytes = peak > end ? peak : end;
            good = rollup_add_change(by, &(struct rollup_change){ (uint32_t)step, group, peak, end });
        }
        /* In the next step it has what it has now, which is no change only if the peak had that, too. */
        if (peak != end && good)
            good = rollup_touch(by, group, step + 1);
    }
    return good;
}

static void
rollup_groups_take_peak(struct rollup_groups *by)
{
    for (uint32_t i = 0; i < by->groups.count; i++)
        by->list[i].at_peak = rollup_at_peak(by, i);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static int
rollup_end_step(struct rollup *rollup, struct rollup_memory *memory, int64_t ns, bool is_whole)
{
    struct rollup_step *step = &memory->now;
    size_t place = memory->step_count;
    bool is_peak = step->peak_bytes > memory->peak_bytes;

    step->end_ns = ns;
    step->end_bytes = memory->group->live_bytes;
    step->is_whole = is_whole;
    if (!tidei_grow(&memory->steps, &memory->step_capacity, place, 1))
        return rollup_no_memory(rollup);
    memory->steps[memory->step_count++] = *step;
    if (is_peak) {
        memory->peak_bytes = step->peak_bytes;
        memory->peak_ns = step->peak_ns;
        memory->peak_count = memory->now_count;
        memory->peak_step = place;
    }
    for (size_t i = 0; i < rollup->by_count; i++) {
        if (is_peak)
            rollup_groups_take_peak(&memory->by[i]);
        if (!rollup_groups_end_step(&memory->by[i], place))
            return rollup_no_memory(rollup);
        memory->by[i].rest.mark++;
    }
    return COMMAND_FINE;
}

static void
rollup_begin_step(struct rollup_memory *memory, int64_t number, int64_t ns)
{
    memory->now = (struct rollup_step){
        .number = number,
        .begin_ns = ns,
        .peak_ns = ns,
        .peak_bytes = memory->group->live_bytes,
        .reserved_bytes = memory->group->reserved.bytes,
    };
    memory->now_count = memory->live_count;
}

static void
rollup_look_ahead(struct rollup *rollup)
{
    rollup->next_step_ns = rollup->next_step < rollup->steps.count ? rollup->steps.ends[rollup->next_step] : INT64_MAX;
}

/* The number of a mark: its own where they count up, else its place. */
static int64_t
rollup_number(const struct steps *steps, bool rises, size_t place)
{
    return rises ? steps->numbers[place] : (int64_t)place + 1;
}

/* How many steps there are where those with the same number / every are one. */
static size_t
rollup_count_steps(const struct steps *steps, bool rises, int64_t every)
{
    size_t count = steps->count > 0;

    for (size_t i = 1; i < steps->count; i++)
        count += rollup_number(steps, rises, i) / every != rollup_number(steps, rises, i - 1) / every;
    return count;
}

/*
 * Number the steps by their marks where these count up, else from 1; and join them where there are too many. As `every`
 * is a power of two, a step of a rank that joins more begins where one of a rank that joins less does.
 */
static int
rollup_number_steps(struct rollup *rollup)
{
    struct steps *steps = &rollup->steps;
    bool rises = true;
    size_t count = 0;
    int64_t every = 1;

    for (size_t i = 0; i < steps->count; i++)
        rises = rises && steps->numbers[i] >= 0 && (i == 0 || steps->numbers[i] >= steps->numbers[i - 1]);
    rollup->numbers = calloc(steps->count + 1, sizeof(*rollup->numbers));
    if (rollup->numbers == NULL)
        return rollup_no_memory(rollup);
    while (rollup_count_steps(steps, rises, every) > ROLLUP_STEPS)
        every *= 2;
    for (size_t i = 0; i < steps->count; i++) {
        int64_t number = rollup_number(steps, rises, i);

        if (count > 0 && rollup->numbers[count - 1] / every == number / every)
            continue;
        steps->ends[count] = steps->ends[i];
        rollup->numbers[count++] = number;
    }
    steps->count = count;
    return COMMAND_FINE;
}

/* ---- the reading ------------------------------------------------------------------------------------------------- */

static uint64_t
rollup_unix(const struct rollup *rollup, int64_t ns)
{
    return rollup->start_unix_ns + (uint64_t)ns;
}

/* Something has changed what is reserved. */
static void
rollup_note_reserved(struct rollup *rollup, struct rollup_memory *memory, int64_t ns)
{
    const struct reserved_group *group = memory->group;
    struct curve_bucket *bucket;
    uint64_t last = memory->curve.count > 0 ? memory->curve.list[memory->curve.count - 1].reserved.end : 0;

    if (group->reserved.most_bytes > memory->now.reserved_bytes)
        memory->now.reserved_bytes = group->reserved.most_bytes;
    if (group->reserved.bytes == last && group->reserved.most_bytes <= last)
        return;
    bucket = curve_go(&memory->curve, rollup_unix(rollup, ns));
    bucket->changed = true;
    curve_set(&bucket->reserved, group->reserved.bytes);
    if (group->reserved.most_bytes > bucket->reserved.most)
        bucket->reserved.most = group->reserved.most_bytes;
    curve_set(&bucket->rows, group->rows_bytes);
}

static void
rollup_note_all_reserved(struct rollup *rollup, int64_t ns)
{
    for (size_t i = 0; i < rollup->memory_count; i++)
        rollup_note_reserved(rollup, &rollup->memories[i], ns);
    reserved_restart(&rollup->reserved);
}

/* Take in the samples before `ns`, each at its time. */
static void
rollup_take_samples(struct rollup *rollup, int64_t ns)
{
    while (rollup->reserved.next_ns < ns && rollup->reserved.next_ns < INT64_MAX) {
        int64_t at = rollup->reserved.next_ns;

        reserved_until(&rollup->reserved, at + 1);
        rollup_note_all_reserved(rollup, at);
        if (rollup->reserved.next_ns <= at)
            break; /* behind the end of the selected time */
    }
}

/* Go on to `ns`, over the ends of steps. */
static int
rollup_go(struct rollup *rollup, int64_t ns)
{
    int status = COMMAND_FINE;

    if (!rollup->begun)
        rollup->first_ns = ns;
    rollup->begun = true;
    rollup->last_ns = ns;
    while (ns >= rollup->next_step_ns && rollup->next_step < rollup->steps.count && status == COMMAND_FINE) {
        rollup_take_samples(rollup, rollup->next_step_ns);
        for (size_t i = 0; i < rollup->memory_count && status == COMMAND_FINE; i++) {
            status = rollup_end_step(rollup, &rollup->memories[i], rollup->next_step_ns, true);
            rollup_begin_step(&rollup->memories[i], rollup->numbers[rollup->next_step], rollup->next_step_ns);
        }
        rollup->next_step++;
        rollup_look_ahead(rollup);
    }
    rollup_take_samples(rollup, ns);
    return status;
}

static int
rollup_begin(void *context)
{
    struct rollup *rollup = context;

    reserved_begin(&rollup->reserved);
    rollup->plans = rollup->reserved.plans;
    rollup->next_step = 0;
    rollup->begun = false;
    rollup_look_ahead(rollup);
    for (size_t i = 0; i < rollup->memory_count; i++) {
        struct rollup_memory *memory = &rollup->memories[i];

        curve_clear(&memory->curve);
        memory->step_count = memory->peak_step = 0;
        memory->peak_bytes = memory->peak_count = memory->live_count = 0;
        memory->allocations = memory->frees = memory->failures = memory->allocated_bytes = 0;
        memory->peak_ns = 0;
        for (size_t j = 0; j < rollup->by_count; j++)
            rollup_groups_begin(&memory->by[j], rollup->by[j], &rollup->view->names);
        rollup_begin_step(memory, ROLLUP_BEFORE, 0);
    }
    return COMMAND_FINE;
}

struct rollup_memory *
rollup_memory_of(struct rollup *rollup, int64_t layer_id)
{
    const struct reserved_group *group = reserved_upper(&rollup->reserved, layer_id);
    size_t place = group != NULL ? (size_t)(group - rollup->reserved.groups) : SIZE_MAX;

    return place < rollup->memory_count ? &rollup->memories[place] : NULL;
}

/* A chunk came or went: its layer's memory may have something else reserved. */
static void
rollup_note_chunk(struct rollup *rollup, const struct scan_life *life, int64_t ns)
{
    const struct reserved_role *role = reserved_role(&rollup->reserved, life->layer_id);

    if (role != NULL && !role->is_upper && role->group < rollup->memory_count) {
        rollup_note_reserved(rollup, &rollup->memories[role->group], ns);
        reserved_restart(&rollup->reserved);
    }
}

static int
rollup_change(struct rollup *rollup, struct rollup_memory *memory, const struct scan_life *life, bool is_free)
{
    int64_t ns = is_free ? life->free_ns : life->alloc_ns;
    struct curve_bucket *bucket = curve_go(&memory->curve, rollup_unix(rollup, ns));
    bool is_peak;

    bucket->changed = true;
    bucket->allocations += !is_free && !life->clipped;
    bucket->frees += is_free;
    curve_set(&bucket->live, memory->group->live_bytes);
    memory->live_count += is_free ? -scan_live_count(life) : scan_live_count(life);
    for (size_t i = 0; i < rollup->by_count; i++) {
        if (!rollup_groups_add(&memory->by[i], life, is_free, memory->step_count))
            return rollup_no_memory(rollup);
    }
    is_peak = memory->group->live_bytes > memory->now.peak_bytes;
    if (!is_peak)
        return COMMAND_FINE;
    memory->now.peak_bytes = memory->group->live_bytes;
    memory->now.peak_ns = ns;
    memory->now_count = memory->live_count;
    for (size_t i = 0; i < rollup->by_count; i++)
        memory->by[i].rest.mark++;
    return COMMAND_FINE;
}

static int
rollup_alloc(void *context, const struct scan_life *life)
{
    struct rollup *rollup = context;
    struct rollup_memory *memory;
    struct curve_bucket *bucket;
    int status = rollup_go(rollup, life->alloc_ns);

    if (status == COMMAND_FINE)
        status = reserved_alloc(&rollup->reserved, life);
    if (status != COMMAND_FINE)
        return status;
    if (rollup->plans != rollup->reserved.plans) {
        rollup->plans = rollup->reserved.plans;
        for (size_t i = 0; i < rollup->memory_count; i++)
            curve_drop_samples(&rollup->memories[i].curve);
        rollup_note_all_reserved(rollup, life->alloc_ns);
    }
    memory = rollup_memory_of(rollup, life->layer_id);
    if (memory == NULL) {
        rollup_note_chunk(rollup, life, life->alloc_ns);
        return COMMAND_FINE;
    }
    if (life->status != 0) {
        bucket = curve_go(&memory->curve, rollup_unix(rollup, life->alloc_ns));
        bucket->changed = true;
        bucket->failures++;
        memory->failures++;
        return COMMAND_FINE;
    }
    memory->allocations++;
    memory->allocated_bytes += life->size;
    memory->now.allocations++;
    memory->now.allocated_bytes += life->size;
    return rollup_change(rollup, memory, life, false);
}

static int
rollup_release(void *context, const struct scan_life *life)
{
    struct rollup *rollup = context;
    struct rollup_memory *memory;
    int status = rollup_go(rollup, life->free_ns);

    if (status != COMMAND_FINE)
        return status;
    reserved_release(&rollup->reserved, life);
    memory = rollup_memory_of(rollup, life->layer_id);
    if (memory == NULL) {
        rollup_note_chunk(rollup, life, life->free_ns);
        return COMMAND_FINE;
    }
    memory->frees++;
    return rollup_change(rollup, memory, life, true);
}

static int
rollup_end(void *context, int64_t last_ns)
{
    struct rollup *rollup = context;
    int status = COMMAND_FINE;

    /* Marks behind the last event end steps, too. */
    if (rollup->steps.count > 0 && rollup->steps.ends[rollup->steps.count - 1] > last_ns)
        status = rollup_go(rollup, rollup->steps.ends[rollup->steps.count - 1]);
    rollup_take_samples(rollup, INT64_MAX);
    for (size_t i = 0; i < rollup->memory_count && status == COMMAND_FINE; i++)
        status = rollup_end_step(rollup, &rollup->memories[i], rollup->last_ns, false);
    reserved_end(&rollup->reserved);
    return status;
}

/* With rounded sizes, of which the utilisation of chunks is made, and without. */
static struct scan_unit
rollup_unit(const struct rollup *rollup)
{
    struct scan_unit unit = {
        .begin = rollup_begin,
        .alloc = rollup_alloc,
        .free = rollup_release,
        .end = rollup_end,
    };

    if (reserved_may_have_chunks(&rollup->reserved))
        unit.needs |= SCAN_ALIGNMENT;
    for (size_t i = 0; i < rollup->by_count; i++)
        unit.needs |= groups_needs(rollup->by[i]);
    return unit;
}

/* ---- the beginning and the end ----------------------------------------------------------------------------------- */

/* The name of a memory without its device's number, where the trace has no other like it. */
static void
rollup_name(const struct reserved *reserved, size_t place, char *out, size_t size)
{
    static const char gpu[] = "GPU ";
    const struct reserved_group *group = &reserved->groups[place];
    const char *found = strstr(group->name, gpu);
    size_t devices = 0;

    for (size_t i = 0; i < reserved->group_count; i++)
        devices += reserved->groups[i].device >= 0 && reserved->groups[i].device != group->device;
    snprintf(out, size, "%s", group->name);
    if (found == NULL || devices > 0)
        return;
    found += sizeof(gpu) - 1;
    snprintf(out, size, "%.*s%s", (int)(found - group->name) - 1, group->name, found + strspn(found, "0123456789"));
}

static int
rollup_make_memories(struct rollup *rollup)
{
    struct reserved *reserved = &rollup->reserved;
    size_t count = reserved->group_count < ROLLUP_MEMORIES ? reserved->group_count : ROLLUP_MEMORIES;

    rollup->memories_left = reserved->group_count - count;
    rollup->memories = calloc(count + 1, sizeof(*rollup->memories));
    if (rollup->memories == NULL)
        return rollup_no_memory(rollup);
    for (; rollup->memory_count < count; rollup->memory_count++) {
        struct rollup_memory *memory = &rollup->memories[rollup->memory_count];

        memory->group = &reserved->groups[rollup->memory_count];
        rollup_name(reserved, rollup->memory_count, memory->name, sizeof(memory->name));
        if (!curve_begin(&memory->curve)) {
            curve_free(&memory->curve);
            return rollup_no_memory(rollup);
        }
    }
    return COMMAND_FINE;
}

/* Leave so many changes that they take little of the file. */
static int
rollup_finish(struct rollup *rollup)
{
    for (size_t i = 0; i < rollup->memory_count; i++) {
        for (size_t j = 0; j < rollup->by_count; j++) {
            struct rollup_groups *by = &rollup->memories[i].by[j];

            while (by->change_count > ROLLUP_CHANGES && by->kept > 1) {
                if (!rollup_drop(by, by->kept / 2))
                    return rollup_no_memory(rollup);
            }
        }
    }
    return COMMAND_FINE;
}

static int
rollup_read(struct rollup *rollup)
{
    struct scan_unit unit;
    struct scan_pass pass = { &unit, rollup };
    int64_t start = 0;
    int status = trace_integer(&rollup->view->trace, "SELECT value FROM meta WHERE key = 'start_unix_ns'", &start);

    rollup->start_unix_ns = (uint64_t)start;
    if (status == COMMAND_FINE)
        status = reserved_select(&rollup->reserved, rollup->view);
    unit = rollup_unit(rollup);
    if (status == COMMAND_FINE)
        status = view_scan(rollup->view, &pass, 1);
    if (status == COMMAND_FINE)
        status = rollup_finish(rollup);
    return status;
}

int
rollup_make(struct view *view, const char *pattern, struct rollup *out)
{
    int status;

    *out = (struct rollup){ .view = view };
    out->by[out->by_count++] = GROUPS_CLASS;
    if (view->names.tags.count > 0)
        out->by[out->by_count++] = GROUPS_TAG;
    if (view->names.callstacks.count > 0)
        out->by[out->by_count++] = GROUPS_FUNCTION;
    status = reserved_make(view, &out->reserved);
    if (status != COMMAND_FINE)
        return status;
    status = steps_find_marks(view, pattern, &out->steps);
    if (status == COMMAND_FINE)
        status = rollup_number_steps(out);
    if (status == COMMAND_FINE)
        status = rollup_make_memories(out);
    if (status == COMMAND_FINE)
        status = rollup_read(out);
    if (status != COMMAND_FINE)
        rollup_free(out);
    return status;
}

void
rollup_free(struct rollup *rollup)
{
    for (size_t i = 0; i < rollup->memory_count; i++) {
        for (size_t j = 0; j < rollup->by_count; j++)
            rollup_groups_free(&rollup->memories[i].by[j]);
        curve_free(&rollup->memories[i].curve);
        free(rollup->memories[i].steps);
    }
    free(rollup->memories);
    free(rollup->numbers);
    steps_free(&rollup->steps);
    reserved_free(&rollup->reserved);
    *rollup = (struct rollup){ .view = NULL };
}

void
rollup_whole_steps(const struct rollup_memory *memory, size_t *first, size_t *end)
{
    *first = memory->step_count > 0 && memory->steps[0].number == ROLLUP_BEFORE;
    *end = *first;
    while (*end < memory->step_count && memory->steps[*end].is_whole)
        ++*end;
}
