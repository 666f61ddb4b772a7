/* Measures fragmentation at the peak, at other moments and over time. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/base/exit-status.h"
#include "viewer/analysis/fragment.h"

static bool
fragment_is_upper(const struct fragment *fragment, const struct scan_life *life)
{
    return filter_set_has(&fragment->layers.upper, life->layer_id);
}

/* The first pass: the peaks of the requested and of the reserved bytes. */

static int
find_begin(void *context)
{
    struct fragment *fragment = context;

    fragment->requested_bytes = fragment->rounded_bytes = fragment->reserved_bytes = 0;
    fragment->peak_bytes = fragment->rounded_peak_bytes = fragment->reserved_peak_bytes = 0;
    fragment->peak_id = fragment->reserved_peak_id = 0;
    fragment->largest_request = 0;
    fragment->begin_ns = INT64_MAX;
    return COMMAND_FINE;
}

static int
find_alloc(void *context, const struct scan_life *life)
{
    struct fragment *fragment = context;

    if (life->alloc_ns < fragment->begin_ns)
        fragment->begin_ns = life->alloc_ns;
    if (life->status != 0)
        return COMMAND_FINE;
    if (fragment->rounded_bytes + fragment->reserved_bytes > (uint64_t)INT64_MAX / 2 - life->size / 2)
        return trace_broken(&fragment->view->trace, "allocation %" PRId64 ": the sizes add up to more than 2^62 bytes",
                            life->allocation_id);
    if (!fragment_is_upper(fragment, life)) {
        fragment->reserved_bytes += life->size;
        if (fragment->reserved_bytes > fragment->reserved_peak_bytes) {
            fragment->reserved_peak_bytes = fragment->reserved_bytes;
            fragment->reserved_peak_id = life->allocation_id;
        }
        return COMMAND_FINE;
    }
    fragment->requested_bytes += life->size;
    fragment->rounded_bytes += space_rounded(life);
    if (life->size > fragment->largest_request)
        fragment->largest_request = life->size;
    if (fragment->rounded_bytes > fragment->rounded_peak_bytes)
        fragment->rounded_peak_bytes = fragment->rounded_bytes;
    if (fragment->requested_bytes > fragment->peak_bytes) {
        fragment->peak_bytes = fragment->requested_bytes;
        fragment->peak_id = life->allocation_id;
        fragment->peak_ns = life->alloc_ns;
    }
    return COMMAND_FINE;
}

static int
find_free(void *context, const struct scan_life *life)
{
    struct fragment *fragment = context;

    if (!fragment_is_upper(fragment, life)) {
        fragment->reserved_bytes -= life->size;
        return COMMAND_FINE;
    }
    fragment->requested_bytes -= life->size;
    fragment->rounded_bytes -= space_rounded(life);
    return COMMAND_FINE;
}

static int
find_end(void *context, int64_t last_ns)
{
    ((struct fragment *)context)->end_ns = last_ns;
    return COMMAND_FINE;
}

/* The second pass: the state at each moment. */

static int
look_begin(void *context)
{
    struct fragment *fragment = context;

    fragment->looked = false;
    fragment->moments_done = 0;
    return COMMAND_FINE;
}

/* Examine the live allocations and `besides`. */
static void
look_now(struct fragment *fragment, int64_t ns, const struct scan_life *besides, struct space *space,
         struct fragment_figures *out)
{
    const struct sample *sample = samples_at(&fragment->samples, ns);

    space_look(space, &fragment->layers, fragment->scan, besides);
    *out = (struct fragment_figures){
        .ns = ns,
        .requested_bytes = space->requested_bytes,
        .rounded_bytes = space->rounded_bytes,
        .inside_bytes = space->inside_bytes,
        .reserved_bytes = space->reserved_bytes,
        .free_bytes = space->free_bytes,
        .empty_bytes = space->empty_bytes,
        .largest_hole = space->largest_hole,
        .holes = space->holes,
        .unusable_bytes = space_unusable(space, fragment->request_bytes),
        .blocks = space->block_count,
        .chunks = space->chunk_count,
        .has_device = sample != NULL,
        .device_bytes = sample != NULL ? sample->reserved_bytes : 0,
    };
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
        look_now(fragment, moment, freed, &fragment->passing, &fragment->moments[fragment->moments_done++]);
    }
    if (!fragment->looked && fragment->at.kind != MOMENT_PEAK &&
        (before ? fragment->at_ns < ns : fragment->at_ns <= ns)) {
        fragment->looked = true;
        look_now(fragment, fragment->at_ns, freed, &fragment->space, &fragment->figures);
    }
}

static int
look_alloc(void *context, const struct scan_life *life)
{
    struct fragment *fragment = context;

    look_before(fragment, life->alloc_ns, NULL);
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
    return COMMAND_FINE;
}

static int
look_end(void *context, int64_t last_ns)
{
    struct fragment *fragment = context;

    look_before(fragment, INT64_MAX, NULL);
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
fragment_begin(struct view *view, const struct moment *at, uint64_t request_bytes, uint64_t page_bytes,
               uint64_t moments, struct fragment *out)
{
    int status;

    memset(out, 0, sizeof(*out));
    out->view = view;
    out->at = *at;
    out->request_bytes = request_bytes;
    out->moment_count = moments < FRAGMENT_MOMENTS ? (size_t)moments : FRAGMENT_MOMENTS;
    out->moments = calloc(out->moment_count + 1, sizeof(*out->moments));
    status = out->moments != NULL ? samples_read(view, &out->samples) : trace_broken(&view->trace, "no memory");
    if (status == COMMAND_FINE)
        status = space_layers_make(view, page_bytes, &out->layers);
    if (status == COMMAND_FINE)
        status = filter_check_begin(&view->trace, at, "at");
    if (status == COMMAND_FINE && at->kind != MOMENT_PEAK)
        status = filter_moment(&view->trace, at, &out->at_ns);
    return status;
}

int
fragment_next(void *context, struct scan_pass *pass)
{
    struct fragment *fragment = context;

    switch (fragment->turn++) {
    case 0:
        pass->unit = &find_unit;
        break;
    case 1:
        if (fragment->begin_ns > fragment->end_ns)
            fragment->begin_ns = fragment->end_ns;
        if (fragment->request_bytes == 0)
            fragment->request_bytes = fragment->largest_request;
        pass->unit = &look_unit;
        break;
    }
    return COMMAND_FINE;
}

int
fragment_make(struct view *view, const struct moment *at, uint64_t request_bytes, uint64_t page_bytes, uint64_t moments,
              struct fragment *out)
{
    return view_run_analysis(view, fragment_begin(view, at, request_bytes, page_bytes, moments, out), fragment_next,
                             fragment_free, out);
}

void
fragment_free(void *context)
{
    struct fragment *fragment = context;

    space_layers_free(&fragment->layers);
    samples_free(&fragment->samples);
    space_free(&fragment->space);
    space_free(&fragment->passing);
    free(fragment->moments);
    fragment->moments = NULL;
}

uint64_t
fragment_reserved_peak(const struct fragment *fragment)
{
    return fragment->layers.lower.active ? fragment->reserved_peak_bytes : fragment->samples.reserved_peak_bytes;
}

uint64_t
fragment_used_peak(const struct fragment *fragment)
{
    return fragment->layers.lower.active ? fragment->rounded_peak_bytes : fragment->samples.used_peak_bytes;
}

double
fragment_utilisation(const struct fragment *fragment)
{
    uint64_t reserved_bytes = fragment_reserved_peak(fragment);

    return reserved_bytes > 0 ? (double)fragment_used_peak(fragment) / (double)reserved_bytes : -1;
}
