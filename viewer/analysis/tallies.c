/* Totals of allocations, for all of them and for each group. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/driver-calls.h"
#include "viewer/analysis/tallies.h"

bool
tally_has_times(const struct trace *trace, const struct tally *tally)
{
    return trace->end != TRACE_IMPORTED || tally->time_ns > 0;
}

void
tallies_begin(struct tallies *tallies, struct view *view, enum groups_by by)
{
    *tallies = (struct tallies){ .view = view };
    groups_begin(&tallies->groups, by, &view->names);
}

void
tallies_free(struct tallies *tallies)
{
    groups_end(&tallies->groups);
    free(tallies->list);
    tallies->list = NULL;
    tallies->capacity = 0;
}

int
tallies_clear(void *context)
{
    struct tallies *tallies = context;

    if (tallies->list != NULL)
        memset(tallies->list, 0, tallies->capacity * sizeof(*tallies->list));
    tallies->all = (struct tally){ 0 };
    return COMMAND_FINE;
}

/* The tally of a group; NULL: no memory. */
static struct tally *
tallies_at(struct tallies *tallies, uint32_t group)
{
    if (group >= tallies->capacity && !groups_reach(&tallies->list, &tallies->capacity, group))
        return NULL;
    return &tallies->list[group];
}

static struct tally *
tallies_of(struct tallies *tallies, const struct scan_life *life)
{
    return tallies_at(tallies, groups_of(&tallies->groups, life));
}

int
tallies_alloc(void *context, const struct scan_life *life)
{
    struct tallies *tallies = context;
    struct tally *tally = tallies_of(tallies, life);

    if (tally == NULL)
        return trace_broken(&tallies->view->trace, "no memory for its groups");
    if (life->status == 0 && tallies->all.bytes > (uint64_t)INT64_MAX - life->size)
        return trace_broken(&tallies->view->trace, "allocation %" PRId64 ": the sizes add up to more than 2^63 bytes",
                            life->allocation_id);
    tally_alloc(tally, life);
    tally_alloc(&tallies->all, life);
    return COMMAND_FINE;
}

int
tallies_release(void *context, const struct scan_life *life)
{
    struct tallies *tallies = context;

    tally_free(tallies_of(tallies, life), life);
    tally_free(&tallies->all, life);
    return COMMAND_FINE;
}

int
tallies_finish(void *context, int64_t last_ns)
{
    struct tallies *tallies = context;
    int64_t to_ns = tallies->view->filter.to_ns;

    tallies->end_ns = to_ns < INT64_MAX ? to_ns : last_ns;
    for (size_t i = 0; i < tallies->groups.count; i++)
        tally_end(&tallies->list[i], tallies->end_ns);
    tally_end(&tallies->all, tallies->end_ns);
    return COMMAND_FINE;
}

/* Add the driver calls that were made for each group. */
static int
tallies_add_calls(struct tallies *tallies, const struct driver_calls *calls)
{
    for (size_t i = 0; i < calls->groups.count && i < calls->capacity; i++) {
        const struct driver_sum *sum = &calls->sums[i];
        struct tally *tally;

        if (sum->calls == 0)
            continue;
        tally = tallies_at(tallies, groups_number(&tallies->groups, calls->groups.keys[i]));
        if (tally == NULL)
            return trace_broken(&tallies->view->trace, "no memory for its groups");
        tally->driver_ns = sum->ns;
        tally->driver_calls = sum->calls;
        tallies->all.driver_ns += sum->ns;
        tallies->all.driver_calls += sum->calls;
    }
    return COMMAND_FINE;
}

int
tallies_make(struct view *view, enum groups_by by, struct tallies *out)
{
    struct scan_unit unit = {
        .needs = groups_needs(by) | SCAN_DURATION,
        .begin = tallies_clear,
        .alloc = tallies_alloc,
        .free = tallies_release,
        .end = tallies_finish,
    };
    struct scan_pass pass = { &unit, out };
    struct driver_calls calls;
    struct scan_part parts[2] = { { &view->filter, &pass, 1 }, { NULL, &calls.pass, 1 } };
    int status = driver_calls_open(view, by, &calls);

    if (status != COMMAND_FINE)
        return status;
    tallies_begin(out, view, by);
    status = scan_run_parts(&view->trace, parts, calls.has_calls ? 2 : 1);
    if (status == COMMAND_FINE)
        status = tallies_add_calls(out, &calls);
    driver_calls_close(&calls);
    if (status != COMMAND_FINE)
        tallies_free(out);
    return status;
}
