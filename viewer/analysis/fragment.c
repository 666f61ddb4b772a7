/* Measures fragmentation at the peak, at other moments and over time. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/fragment.h"

/* The first pass: the peaks of all groups. */

static int
find_begin(void *context)
{
    struct fragment *fragment = context;

    reserved_begin(&fragment->reserved);
    fragment->begin_ns = INT64_MAX;
    return COMMAND_FINE;
}

static int
find_alloc(void *context, const struct scan_life *life)
{
    struct fragment *fragment = context;

    if (life->alloc_ns < fragment->begin_ns)
        fragment->begin_ns = life->alloc_ns;
    return reserved_alloc(&fragment->reserved, life);
}

static int
find_free(void *context, const struct scan_life *life)
{
    reserved_release(&((struct fragment *)context)->reserved, life);
    return COMMAND_FINE;
}

static int
find_end(void *context, int64_t last_ns)
{
    struct fragment *fragment = context;

    fragment->end_ns = last_ns;
    reserved_end(&fragment->reserved);
    return COMMAND_FINE;
}

/* Choose the group to examine, and keep its results: the second reading counts again. */
static int
fragment_choose(struct fragment *fragment)
{
    const struct reserved *reserved = &fragment->reserved;

    if (fragment->wanted > reserved->group_count)
        return trace_broken(&fragment->view->trace, "it has %zu kind%s of memory, no %zu", reserved->group_count,
                            reserved->group_count == 1 ? "" : "s", fragment->wanted);
    fragment->group = fragment->wanted > 0 ? &reserved->groups[fragment->wanted - 1] : reserved_largest(reserved);
    if (fragment->group == NULL)
        fragment->group = &reserved_no_group;
    fragment->peak_bytes = fragment->group->live_peak_bytes;
    fragment->peak_id = fragment->group->live_peak_id;
    fragment->peak_ns = fragment->group->live_peak_ns;
    fragment->reserved_peak_id = fragment->group->reserved.peak_id;
    if (fragment->begin_ns > fragment->end_ns)
        fragment->begin_ns = fragment->end_ns;
    if (fragment->request_bytes == 0)
        fragment->request_bytes = fragment->group->largest_request;
    return reserved_space_layers(reserved, fragment->group, fragment->page_bytes, &fragment->layers);
}

/* The second pass: the state at each moment. */

static int
look_begin(void *context)
{
    struct fragment *fragment = context;

    reserved_begin(&fragment->reserved);
    fragment->looked = false;
    fragment->moments_done = 0;
    return COMMAND_FINE;
}

/* What was reserved at a moment: the chunks, or what the last sample of the pool or base says. */
static void
look_reserved(const struct fragment *fragment, struct fragment_figures *out)
{
    const struct reserved_group *group = fragment->group;
    const struct device_use_row *use = device_use_at(&fragment->reserved.devices, group->device, out->ns);
    bool is_sampled = group->reserved.sample_ns != INT64_MIN;

    out->has_device = group->base.sample_ns != INT64_MIN;
    out->device_bytes = group->base.bytes;
    out->has_reserved = is_sampled || fragment->layers.lower.active;
    out->reserved_bytes = group->reserved.bytes;
    out->has_in_use = use != NULL;
    out->in_use_bytes = use != NULL ? use->used_bytes : 0;
    out->sample_age_ns = is_sampled        ? out->ns - group->reserved.sample_ns
                         : out->has_device ? out->ns - group->base.sample_ns
                                           : -1;
}

/* Examine the live allocations and `besides`. */
static void
look_now(struct fragment *fragment, int64_t ns, const struct scan_life *besides, struct space *space,
         struct fragment_figures *out)
{
    space_look(space, &fragment->layers, fragment->scan, besides);
    *out = (struct fragment_figures){
        .ns = ns,
        .requested_bytes = space->requested_bytes,
        .rounded_bytes = space->rounded_bytes,
        .inside_bytes = space->inside_bytes,
        .space_bytes = space->reserved_bytes,
        .free_bytes = space->free_bytes,
        .empty_bytes = space->empty_bytes,
        .largest_hole = space->largest_hole,
        .holes = space->holes,
        .unusable_bytes = space_unusable(space, fragment->request_bytes),
        .blocks = space->block_count,
        .chunks = space->chunk_count,
    };
    look_reserved(fragment, out);
}

/* The time of one of the moments, which are evenly spaced between the first event and the last. */
static int64_t
look_moment_ns(const struct fragment *fragment, size_t moment)
{
    double length = (double)(fragment->end_ns - fragment->begin_ns);

    return fragment->begin_ns + (int64_t)(length * (double)(moment + 1) / (double)(fragment->moment_count + 1));
}

/* Before an event at `ns`: examine every moment before it. At equal times allocations come before frees. */
static void
look_before(struct fragment *fragment, int64_t ns, const struct scan_life *freed)
{
    bool before = freed == NULL;

    while (fragment->moments_done < fragment->moment_count) {
        int64_t moment = look_moment_ns(fragment, fragment->moments_done);

        if (before ? moment >= ns : moment > ns)
            break;
        reserved_until(&fragment->reserved, moment + 1);
        look_now(fragment, moment, freed, &fragment->passing, &fragment->moments[fragment->moments_done++]);
    }
    if (!fragment->looked && fragment->at.kind != MOMENT_PEAK &&
        (before ? fragment->at_ns < ns : fragment->at_ns <= ns)) {
        fragment->looked = true;
        if (fragment->at_ns < INT64_MAX)
            reserved_until(&fragment->reserved, fragment->at_ns + 1);
        look_now(fragment, fragment->at_ns, freed, &fragment->space, &fragment->figures);
    }
}

static int
look_alloc(void *context, const struct scan_life *life)
{
    struct fragment *fragment = context;

    look_before(fragment, life->alloc_ns, NULL);
    if (reserved_alloc(&fragment->reserved, life) != COMMAND_FINE)
        return COMMAND_WRONG;
    if (life->allocation_id == fragment->reserved_peak_id)
        look_now(fragment, life->alloc_ns, life, &fragment->passing, &fragment->reserved_figures);
    if (fragment->at.kind == MOMENT_PEAK && life->allocation_id == fragment->peak_id) {
        fragment->looked = true;
        look_now(fragment, life->alloc_ns, life, &fragment->space, &fragment->figures);
    }
    return COMMAND_FINE;
}

static int
look_free(void *context, const struct scan_life *life)
{
    look_before(context, life->free_ns, life);
    reserved_release(&((struct fragment *)context)->reserved, life);
    return COMMAND_FINE;
}

static int
look_end(void *context, int64_t last_ns)
{
    struct fragment *fragment = context;

    look_before(fragment, INT64_MAX, NULL);
    reserved_end(&fragment->reserved);
    if (!fragment->looked)
        look_now(fragment, fragment->at.kind == MOMENT_PEAK ? last_ns : fragment->at_ns, NULL, &fragment->space,
                 &fragment->figures);
    if (fragment->space.failed || fragment->passing.failed)
        return trace_broken(&fragment->view->trace, "no memory for its blocks");
    return COMMAND_FINE;
}

static const struct scan_unit find_unit = {
    .needs = SCAN_PLACE,
    .begin = find_begin,
    .alloc = find_alloc,
    .free = find_free,
    .end = find_end,
};

static const struct scan_unit look_unit = {
    .needs = SCAN_PLACE | SCAN_ORIGIN | SCAN_CALLER | SCAN_LIVE,
    .attach = true,
    .begin = look_begin,
    .alloc = look_alloc,
    .free = look_free,
    .end = look_end,
};

int
fragment_begin(struct view *view, const struct fragment_options *options, struct fragment *out)
{
    int status;

    memset(out, 0, sizeof(*out));
    out->view = view;
    out->at = options->at;
    out->wanted = options->group;
    out->request_bytes = options->request_bytes;
    out->page_bytes = options->page_bytes;
    out->moment_count = options->moments < FRAGMENT_MOMENTS ? (size_t)options->moments : FRAGMENT_MOMENTS;
    out->moments = calloc(out->moment_count + 1, sizeof(*out->moments));
    status = out->moments != NULL ? reserved_make(view, &out->reserved) : trace_broken(&view->trace, "no memory");
    if (status == COMMAND_FINE)
        status = reserved_select(&out->reserved, view);
    if (status == COMMAND_FINE)
        status = filter_check_begin(&view->trace, &options->at, "at");
    if (status == COMMAND_FINE && options->at.kind != MOMENT_PEAK)
        status = filter_moment(&view->trace, &options->at, &out->at_ns);
    return status;
}

int
fragment_next(void *context, struct scan_pass *pass)
{
    struct fragment *fragment = context;
    int status = COMMAND_FINE;

    switch (fragment->turn++) {
    case 0:
        pass->unit = &find_unit;
        break;
    case 1:
        status = fragment_choose(fragment);
        pass->unit = &look_unit;
        break;
    }
    return status;
}

int
fragment_make(struct view *view, const struct fragment_options *options, struct fragment *out)
{
    return view_run_analysis(view, fragment_begin(view, options, out), fragment_next, fragment_free, out);
}

void
fragment_free(void *context)
{
    struct fragment *fragment = context;

    space_layers_free(&fragment->layers);
    reserved_free(&fragment->reserved);
    space_free(&fragment->space);
    space_free(&fragment->passing);
    free(fragment->moments);
    fragment->moments = NULL;
}
