/* Finds the allocations live at the end, and each group's growth from step to step. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/leaks.h"

/* Count the step ends since the last change of the group. It had the same bytes at all of them. */
static void
leaks_count_ends(const struct leaks *leaks, struct leaks_group *group)
{
    if (group->ends == leaks->ends)
        return;
    if (group->ends == 0) {
        group->first_bytes = group->live_bytes;
    } else {
        /* Its step, from 0, is the first that ended since its last change. */
        bool rose = group->live_bytes > group->last_bytes;

        group->rose += rose;
        group->fell += group->live_bytes < group->last_bytes;
        group->thirds_rose |= (uint32_t)rose << 3 * (size_t)(group->ends - 1) / (leaks->steps.count - 1);
    }
    group->last_bytes = group->live_bytes;
    group->ends = (uint32_t)leaks->ends;
}

/* Advance to the steps that have ended before `ns`. */
static void
leaks_advance(struct leaks *leaks, int64_t ns)
{
    while (leaks->ends < leaks->steps.count && leaks->steps.ends[leaks->ends] < ns)
        leaks->ends++;
}

/* The group of `life`, with its step ends counted; NULL: no memory. */
static struct leaks_group *
leaks_group(struct leaks *leaks, const struct scan_life *life)
{
    size_t known = leaks->groups.count;
    uint32_t number = groups_of(&leaks->groups, life);
    struct leaks_group *group;

    if (number >= leaks->capacity && !groups_reach(&leaks->list, &leaks->capacity, number))
        return NULL;
    group = &leaks->list[number];
    if (number >= known)
        *group = (struct leaks_group){ .oldest_ns = INT64_MAX };
    leaks_count_ends(leaks, group);
    return group;
}

static int
leaks_begin_scan(void *context)
{
    struct leaks *leaks = context;

    for (size_t i = 0; i < leaks->groups.count; i++)
        leaks->list[i] = (struct leaks_group){ .oldest_ns = INT64_MAX };
    leaks->ends = 0;
    return COMMAND_FINE;
}

/* An allocation begins or ends at `ns`. */
static int
leaks_change(struct leaks *leaks, const struct scan_life *life, int64_t ns, bool is_free)
{
    struct leaks_group *group;

    if (suppress_find(&leaks->suppress, life) != NULL)
        return COMMAND_FINE;
    leaks_advance(leaks, ns);
    group = leaks_group(leaks, life);
    if (group == NULL)
        return trace_broken(&leaks->view->trace, "no memory for its groups");
    if (!is_free && group->live_bytes > (uint64_t)INT64_MAX - life->size)
        return trace_broken(&leaks->view->trace, "the sizes of what is live add up to more than 2^63 bytes");
    group->allocations += !is_free;
    group->live_bytes += is_free ? -life->size : life->size;
    group->live_count += is_free ? -scan_live_count(life) : scan_live_count(life);
    return COMMAND_FINE;
}

static int
leaks_alloc(void *context, const struct scan_life *life)
{
    return life->status == 0 ? leaks_change(context, life, life->alloc_ns, false) : COMMAND_FINE;
}

static int
leaks_free_event(void *context, const struct scan_life *life)
{
    return leaks_change(context, life, life->free_ns, true);
}

static void
leaks_look(void *context, const struct scan_life *life)
{
    struct leaks *leaks = context;
    struct suppression *suppression = suppress_find(&leaks->suppress, life);
    struct leaks_group *group;

    if (suppression != NULL) {
        suppression->bytes += life->size;
        suppression->count++;
        leaks->suppressed_bytes += life->size;
        leaks->suppressed_count++;
        return;
    }
    /* The scan has seen it, so its group exists. */
    group = &leaks->list[groups_of(&leaks->groups, life)];
    if (life->alloc_ns < group->oldest_ns)
        group->oldest_ns = life->alloc_ns;
    leaks->live_bytes += life->size;
    leaks->live_count++;
    top_lives_add(&leaks->lives, life);
}

static int
leaks_end(void *context, int64_t last_ns)
{
    struct leaks *leaks = context;

    leaks->end_ns = last_ns;
    leaks->ends = leaks->steps.count;
    for (size_t i = 0; i < leaks->groups.count; i++)
        leaks_count_ends(leaks, &leaks->list[i]);
    scan_each_live(leaks->scan, leaks_look, leaks);
    top_lives_sort(&leaks->lives);
    return leaks->lives.failed ? trace_broken(&leaks->view->trace, "no memory for its allocations") : COMMAND_FINE;
}

int
leaks_begin(struct view *view, enum groups_by by, const char *steps, const char *suppressions, uint64_t lives,
            struct leaks *out)
{
    int status;

    memset(out, 0, sizeof(*out));
    out->view = view;
    groups_begin(&out->groups, by, &view->names);
    top_lives_begin(&out->lives, lives);
    status = suppress_read(&view->names, suppressions, &out->suppress);
    if (status == COMMAND_FINE)
        status = steps_find(view, steps, &out->steps);
    return status;
}

int
leaks_next(void *context, struct scan_pass *pass)
{
    struct leaks *leaks = context;

    if (leaks->turn++ > 0)
        return COMMAND_FINE;
    leaks->unit = (struct scan_unit){
        .needs = groups_needs(leaks->groups.by) | leaks->suppress.needs | SCAN_LIVE,
        .attach = true,
        .begin = leaks_begin_scan,
        .alloc = leaks_alloc,
        .free = leaks_free_event,
        .end = leaks_end,
    };
    if (leaks->lives.limit > 0)
        leaks->unit.needs |= SCAN_ORIGIN | SCAN_CALLER | SCAN_PLACE;
    pass->unit = &leaks->unit;
    return COMMAND_FINE;
}

int
leaks_make(struct view *view, enum groups_by by, const char *steps, const char *suppressions, uint64_t lives,
           struct leaks *out)
{
    return view_run_analysis(view, leaks_begin(view, by, steps, suppressions, lives, out), leaks_next, leaks_free, out);
}

void
leaks_free(void *context)
{
    struct leaks *leaks = context;

    steps_free(&leaks->steps);
    suppress_free(&leaks->suppress);
    groups_end(&leaks->groups);
    top_lives_free(&leaks->lives);
    free(leaks->list);
    leaks->list = NULL;
}

int64_t
leaks_growth(const struct leaks_group *group)
{
    return (int64_t)(group->last_bytes - group->first_bytes);
}

bool
leaks_grows(const struct leaks *leaks, const struct leaks_group *group)
{
    bool often = group->rose >= 2 && (size_t)group->rose * 8 >= leaks->steps.count - 1;
    bool steadily = group->rose >= 3 && group->thirds_rose == 7;

    return leaks_growth(group) > 0 && group->rose >= 2 * group->fell && (often || steadily);
}
